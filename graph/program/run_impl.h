/* Steps of the interpreter that constant propagation takes too. */
#ifndef TESSERA_GRAPH_PROGRAM_RUN_IMPL_H
#define TESSERA_GRAPH_PROGRAM_RUN_IMPL_H

#include "graph/program/program_impl.h"

/* An operator on datums: numbers become 0-dim number tensors, none and NULL an operand left out,
 * lists and tuples the operands they hold. weights and out_format as for dispatch_run_as. out has
 * room for n_out. */
status_t run_op(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, datum_t *const *in,
                weight_use_t weights, const format_t *out_format, int n_out, datum_t **out);

/* A builtin on datums. */
status_t run_builtin(context_t *ctx, const char *name, int n_in, datum_t *const *in, int n_out,
                     datum_t **out);

/* Runs a program that has control: graph_run, but that regions run as their plans. */
status_t run_program(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out);

/* Rounds of loops, all together, and bytes of any one tensor. */
typedef struct run_limits {
    int64_t trips;
    size_t bytes;
} run_limits_t;

/* Runs one node of a graph with its blocks by itself. known[value] is what stands for each value
 * that it reads of the graph around it, borrowed; none of them is a module. UNSUPPORTED beyond the
 * limits. Attributes that follow sizes of the graph's inputs have them of `infos`; NULL: a node
 * that has such attributes fails. out has room for the node's outputs. */
status_t run_known(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                   const tensor_info_t **infos, datum_t *const *known, const run_limits_t *limits,
                   datum_t **out);

/* True for a datum that stands for true: a bool, a number, a tensor of one element. */
status_t run_truth(context_t *ctx, const char *who, const datum_t *datum, bool *out_truth);

#endif
