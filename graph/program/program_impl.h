/* Programs: a graph compiled for one set of sizes, ready to run.
 *
 * A program consists of regions and control. A region is a stretch of operators of one block, as
 * long as can be, that runs as a plan; a graph without control and without state is one region, and
 * the program is its plan. What is left is control: if, loop, calls, lists; those nodes are run one
 * by one. Tensors pass between regions, branches and iterations in the formats that the layout pass
 * gave their types.
 *
 *   loop (50, true, %h) do (%i, %h) {     control
 *     %a = linear(%h, %w, %b)             region: one plan for both operators; live-in %h,
 *     %t = tanh(%a)                       live-out %t; %w is packed when the plan is built
 *     yield true, %t
 *   }
 *
 * State is what a run leaves changed: tensors of the module that in-place operators write, and
 * attributes that setattr replaces. Both are steps of a region, in the order of its nodes. A state
 * root is the tensor that getattr gives before the region runs, with the layout, format and strides
 * that it has; another form of it means that the region's nodes are run one by one. Before a step
 * writes a root, snapshots of its storage get bytes of their own and its version goes up; padded
 * lanes of a blocked one are zero again after the step. setattr replaces the tensor of an attribute
 * and never writes into the old one, which others may have.
 *
 *   %n = getattr(%self) name="total"      before the region: binds the state root
 *   %s = add_(%n, %x)                     region: one step, which writes the module's tensor
 *   setattr(%self, %y) name="last"        region: the attribute is a new tensor from here on
 *
 * A program is immutable and counted; threads with contexts of their own may run it at once. A
 * module with state is for one thread at a time: runs of a program with state wait for each other,
 * so that nothing is torn, but their order is nobody's. */
#ifndef TESSERA_GRAPH_PROGRAM_PROGRAM_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PROGRAM_IMPL_H

#include <stdatomic.h>

#include "graph/program/arenas_impl.h"
#include "graph/program/plan.h"
#include "tensor/hash_impl.h"

/* Nodes first .. first + n_nodes - 1 of a block. Constants and parameters that it reads are part of
 * its plan. What gives tensors that the plan takes as inputs (getattr of state, constants that are
 * written), or is read elsewhere as well, and stands between the nodes, is run before it. */
typedef struct region {
    const graph_block_t *block;
    int first, n_nodes;
    int n_in, n_out, n_before;
    value_t *in;  /* tensors made before it, in the order of the plan's inputs */
    value_t *out; /* tensors that are read after it, in the order of the plan's results */
    const graph_node_t *
        *before; /* constants and getattr of the stretch that are run by themselves */
    plan_t *plan;
} region_t;

/* Regions first .. first + n - 1. */
typedef struct row {
    int first, n;
} row_t;

typedef struct program {
    atomic_int n_references;
    allocator_t allocator;
    graph_t *graph;
    plan_t *plan;      /* of a graph that is one region; NULL: regions and control */
    region_t *regions; /* those of one block in a row, in the order of its nodes */
    int n_regions;
    row_t *rows;      /* [n_blocks]: the regions of each block */
    int most_inputs;  /* of one region */
    bool has_state;   /* a run changes attributes, or tensors that they hold */
    bool has_effects; /* it writes something that is not its own */
} program_t;

/* Compiles a graph whose layout pass has run, or not: then every node is selected under policy
 * auto. A parameter of type module is bound to self at each run. */
status_t program_create(context_t *ctx, const graph_t *graph, module_t *self,
                        program_t **out_program);
program_t *program_retain(program_t *program);
void program_release(program_t *program);

/* All plans of a program, one after another, `at` from 0; NULL: there are no more. */
plan_t *program_plan(const program_t *program, int at);

/* As plan_share_arenas and plan_own_bytes of all its plans and its graph; bytes of a run. */
void program_share_arenas(program_t *program, arenas_t *arenas);
size_t program_own_bytes(const program_t *program);
size_t program_run_bytes(const program_t *program);

/* As plan_form_bytes and plan_retire, of all its plans. */
status_t program_form_bytes(context_t *ctx, const program_t *program, hash_table_t *seen,
                            size_t *out_bytes);
void program_retire(program_t *program);

/* Runs it; self as in graph_run. out has room for the graph's results. */
status_t program_run(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out);

#endif
