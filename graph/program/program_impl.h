/* Programs: a graph compiled for one set of sizes, ready to run.
 *
 * A program consists of regions and control. A region is a stretch of operators of one block, as
 * long as can be, that runs as a plan; a graph without control is one region, and the program is
 * its plan. What is left is control: if, loop, calls, lists, attributes, writes in place; those
 * nodes are run one by one. Tensors pass between regions, branches and iterations in the formats
 * that the layout pass gave their types.
 *
 *   loop (50, true, %h) do (%i, %h) {     control
 *     %a = linear(%h, %w, %b)             region: one plan for both operators; live-in %h,
 *     %t = tanh(%a)                       live-out %t; %w is packed when the plan is built
 *     yield true, %t
 *   }
 *
 * A program is immutable and counted; threads with contexts of their own may run it at once. */
#ifndef TESSERA_GRAPH_PROGRAM_PROGRAM_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PROGRAM_IMPL_H

#include <stdatomic.h>

#include "graph/program/plan.h"

/* Nodes first .. first + n_nodes - 1 of a block. Constants and parameters that it reads are part of
 * its plan; constants that stand between its nodes and are read elsewhere as well are run before
 * it. */
typedef struct region {
    const graph_block_t *block;
    int first, n_nodes;
    int n_in, n_out, n_constants;
    value_t *in;  /* tensors made before it, in the order of the plan's inputs */
    value_t *out; /* tensors that are read after it, in the order of the plan's results */
    const graph_node_t **constants; /* nodes inside the stretch that others read */
    plan_t *plan;
} region_t;

typedef struct program {
    atomic_int n_references;
    allocator_t allocator;
    graph_t *graph;
    plan_t *plan;      /* of a graph that is one region; NULL: regions and control */
    region_t *regions; /* those of one block in a row, in the order of its nodes */
    int n_regions;
} program_t;

/* Compiles a graph whose layout pass has run, or not: then every node is selected under policy
 * auto. A parameter of type module is bound to self at each run. */
status_t program_create(context_t *ctx, const graph_t *graph, module_t *self,
                        program_t **out_program);
program_t *program_retain(program_t *program);
void program_release(program_t *program);

/* Runs it; self as in graph_run. out has room for the graph's results. */
status_t program_run(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out);

/* Inputs of one region, at the most. */
int program_most_inputs(const program_t *program);

/* The regions of a block, a row of *out_n; NULL when it has none. */
const region_t *program_regions(const program_t *program, const graph_block_t *block, int *out_n);

#endif
