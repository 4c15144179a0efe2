/* The inside of a run: what the files that run operators, nodes, regions and blocks share. */
#ifndef TESSERA_GRAPH_PROGRAM_RUN_INSIDE_IMPL_H
#define TESSERA_GRAPH_PROGRAM_RUN_INSIDE_IMPL_H

#include "graph/analysis/alias_impl.h"
#include "graph/analysis/lifetimes_impl.h"
#include "graph/program/run_impl.h"

/* What a value is while the graph runs; a module is borrowed. */
typedef struct slot {
    datum_t *datum;
    module_t *module;
    const char *path; /* of the module, for observers */
} slot_t;

/* A run. Values are released after the last node of their own block that uses them, itself or in an
 * inner block. in and out are room for one node's operands. */
typedef struct run {
    context_t *ctx;
    const graph_t *graph;
    const char *name;
    const program_t *program; /* NULL: every node is run by itself */
    slot_t *slots;
    const lifetimes_t *lifetimes;
    const tensor_t **live_in; /* room for the inputs of any region */
    datum_t **in;
    datum_t **out;
    datum_t *none;
    int n_dense;
    datum_t **dense;      /* [n_dense]: what runs in the place of an mkldnn input, or NULL */
    const alias_t *alias; /* tells which constants are written: each run has its own of those */
    const tensor_info_t **infos; /* of inputs */
    bool is_limited;
    run_limits_t limits; /* what is left of them */
} run_t;

void run_clear_slot(slot_t *slot);
slot_t run_copy_slot(const slot_t *slot);

/* Releases the value if nothing after the index-th node of `block` reads it. */
void run_release_dead(run_t *run, const graph_block_t *block, int index, value_t value);

/* ---- operators on datums ---- */

/* Runs an in-place operator on a tensor as dispatch does it, so that observers see the write. */
status_t run_op_in_place(context_t *ctx, const graph_node_t *node, const void *attrs,
                         datum_t *const *in, datum_t **out);

/* The result of an in-place operator goes into operand 0, which stands for it from then on. */
status_t run_write_in_place(context_t *ctx, const graph_node_t *node, datum_t *target,
                            datum_t **result);

bool run_is_blocked(const datum_t *datum);

/* Puts a dense tensor in the place of an mkldnn one. */
status_t run_make_dense(context_t *ctx, datum_t **datum);

/* ---- nodes ---- */

/* Borrows the operands from `first` on as datums. */
status_t run_gather(run_t *run, const graph_node_t *node, int first);

void run_set_outputs(run_t *run, const graph_node_t *node);

/* Runs a node without blocks. */
status_t run_plain_node(run_t *run, const graph_node_t *node);

/* Runs any node. */
status_t run_node(run_t *run, const graph_node_t *node);

/* Runs nodes first .. end - 1 of a block one by one, and releases what dies at them. */
status_t run_nodes(run_t *run, const graph_block_t *block, int first, int end);

/* ---- regions, inputs ---- */

/* Runs the nodes of a region as its plan, or one by one where the plan does not fit. */
status_t run_region(run_t *run, const region_t *region);

/* Checks the inputs and makes them the values of the parameters. */
status_t run_bind_inputs(run_t *run, module_t *self, int n_in, datum_t *const *in);

/* What was written into tensors that stood for mkldnn inputs goes back into the caller's. */
status_t run_give_back(run_t *run, datum_t *const *in);

#endif
