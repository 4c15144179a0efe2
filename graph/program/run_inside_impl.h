/* State of an interpreter run, for the files that run operators, nodes, regions and blocks. */
#ifndef TESSERA_GRAPH_PROGRAM_RUN_INSIDE_IMPL_H
#define TESSERA_GRAPH_PROGRAM_RUN_INSIDE_IMPL_H

#include "graph/analysis/alias_impl.h"
#include "graph/analysis/lifetimes_impl.h"
#include "graph/program/run_impl.h"

/* The current datum or module of a value; a module is borrowed. */
typedef struct slot {
    datum_t *datum;
    module_t *module;
    const char *path; /* the module's path, for observers */
} slot_t;

/* One run. A value is released after the last node in its own block that uses it, directly or
 * inside an inner block. in and out are the operands of the current node. */
typedef struct run {
    context_t *ctx;
    const graph_t *graph;
    const char *name;
    const program_t *program; /* NULL: every node runs separately */
    slot_t *slots;
    const lifetimes_t *lifetimes;
    const tensor_t **live_in; /* [most_inputs]: inputs of the current region */
    datum_t **in;
    datum_t **out;
    datum_t *none;
    int n_dense;
    datum_t **dense;             /* [n_dense] dense copies that replace mkldnn inputs, or NULL */
    const alias_t *alias;        /* to find constants that are written: each run copies these */
    const tensor_info_t **infos; /* infos of the inputs */
    bool is_limited;
    run_limits_t limits; /* the rest of the limits */
} run_t;

void run_clear_slot(slot_t *slot);
slot_t run_copy_slot(const slot_t *slot);

/* Releases the value if no node after node `index` of `block` reads it. */
void run_release_dead(run_t *run, const graph_block_t *block, int index, value_t value);

/* ---- operators on datums ---- */

/* Runs an in-place operator through dispatch, so that observers see the write. */
status_t run_op_in_place(context_t *ctx, const graph_node_t *node, const void *attrs,
                         datum_t *const *in, datum_t **out);

/* Copies the result of an in-place operator into operand 0, which becomes the result. */
status_t run_write_in_place(context_t *ctx, const graph_node_t *node, datum_t *target,
                            datum_t **result);

bool run_is_blocked(const datum_t *datum);

/* Replaces an mkldnn tensor by a dense copy. */
status_t run_make_dense(context_t *ctx, datum_t **datum);

/* ---- nodes ---- */

/* Sets in[] to the node's operands as datums, borrowed, from operand `first` on. */
status_t run_gather(run_t *run, const graph_node_t *node, int first);

void run_set_outputs(run_t *run, const graph_node_t *node);

/* Runs a node without blocks. */
status_t run_plain_node(run_t *run, const graph_node_t *node);

/* Runs any node. */
status_t run_node(run_t *run, const graph_node_t *node);

/* Runs nodes first .. end - 1 of a block one by one, and releases values after their last use. */
status_t run_nodes(run_t *run, const graph_block_t *block, int first, int end);

/* ---- regions, inputs ---- */

/* Runs a region as a plan, or its nodes one by one if the plan does not fit the tensors. */
status_t run_region(run_t *run, const region_t *region);

/* Checks the inputs and binds them to the parameters. */
status_t run_bind_inputs(run_t *run, module_t *self, int n_in, datum_t *const *in);

/* Copies the elements of dense copies that replaced mkldnn inputs back to the caller's tensors. */
status_t run_give_back(run_t *run, datum_t *const *in);

#endif
