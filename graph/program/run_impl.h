/* Parts of the interpreter that other files, such as constant propagation, use, too. */
#ifndef TESSERA_GRAPH_PROGRAM_RUN_IMPL_H
#define TESSERA_GRAPH_PROGRAM_RUN_IMPL_H

#include "graph/program/program_impl.h"

/* Runs an operator on datums. Numbers become number tensors of rank 0, none and NULL become absent
 * operands, and lists and tuples are replaced by their items. weights and out_format are arguments
 * of dispatch_run_as. out has n_out elements. */
status_t run_op(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, datum_t *const *in,
                weight_use_t weights, const format_t *out_format, int n_out, datum_t **out);

/* Runs a builtin on datums. */
status_t run_builtin(context_t *ctx, const char *name, int n_in, datum_t *const *in, int n_out,
                     datum_t **out);

/* Runs a program with control: like graph_run, but regions run as plans. */
status_t run_program(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out);

/* Limits of a run: total iterations of all loops, and bytes of a tensor. */
typedef struct run_limits {
    int64_t trips;
    size_t bytes;
} run_limits_t;

/* Runs one node of a graph, with its blocks. known[value] is the datum of each value that it reads
 * from the graph around it, borrowed. None may be a module. UNSUPPORTED if a limit is exceeded. If
 * attributes depend on sizes of the graph's inputs, `infos` has these; if infos is NULL, such a
 * node fails. out has one element for each output. */
status_t run_known(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                   const tensor_info_t **infos, datum_t *const *known, const run_limits_t *limits,
                   datum_t **out);

/* Converts a condition (a bool, a number, or a tensor of one element) to a bool. */
status_t run_truth(context_t *ctx, const char *who, const datum_t *datum, bool *out_truth);

#endif
