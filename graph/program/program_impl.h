/* Programs: a graph compiled for one set of sizes.
 *
 * A program consists of regions and control. A region is a maximal sequence of operators in one
 * block. It runs as a plan (plan.h). A graph without control flow and state is a single region, so
 * its program is just a plan. The other nodes are control (if, loop, calls, lists) and run one by
 * one. Tensors pass between regions, branches and iterations in the formats of the layout pass.
 *
 *   loop (50, true, %h) do (%i, %h) {     control
 *     %a = linear(%h, %w, %b)             region: one plan for both operators; live-in %h,
 *     %t = tanh(%a)                       live-out %t; %w is packed when the plan is built
 *     yield true, %t
 *   }
 *
 * State is what a run changes permanently: tensors of the module that in-place operators write, and
 * attributes that setattr replaces. Both kinds of writes are steps of a region, in node order. A
 * state buffer is the tensor that getattr returns before the region runs. If its layout, format or
 * strides differ from the planned ones, the region's nodes run one by one. Before a step writes
 * such a tensor, snapshots of the tensor get their own copy of the bytes, and its version
 * increases; after the step, padding of blocked formats is set to zero again. setattr replaces the
 * attribute's tensor; it never writes to the old tensor, which others may hold.
 *
 *   %n = getattr(%self) name="total"      before the region: binds the state buffer
 *   %s = add_(%n, %x)                     region: one step, which writes the module's tensor
 *   setattr(%self, %y) name="last"        region: sets the attribute to a new tensor
 *
 * Programs are immutable and reference-counted; threads may run one at the same time, each with its
 * own context. Runs with state on the same module do not overlap in time, but their order is not
 * defined. */
#ifndef TESSERA_GRAPH_PROGRAM_PROGRAM_IMPL_H
#define TESSERA_GRAPH_PROGRAM_PROGRAM_IMPL_H

#include <stdatomic.h>

#include "graph/program/arenas_impl.h"
#include "graph/program/plan.h"
#include "tensor/hash_impl.h"

/* A region: nodes first to first + n_nodes - 1 of a block. The plan contains the constants and
 * parameters that these nodes read. A constant or getattr in this range runs before the plan if it
 * produces an input (state, or a constant that is written), or if other nodes read it too. */
typedef struct region {
    const graph_block_t *block;
    int first, n_nodes;
    int n_in, n_out, n_before;
    value_t *in;                 /* tensors made before it, in the order of plan inputs */
    value_t *out;                /* tensors read after it, in the order of plan results */
    const graph_node_t **before; /* constants and getattrs in the range that run separately */
    plan_t *plan;
} region_t;

/* The regions of one block: regions first to first + n - 1. */
typedef struct row {
    int first, n;
} row_t;

typedef struct program {
    atomic_int n_references;
    allocator_t allocator;
    graph_t *graph;
    plan_t *plan;      /* if the graph is one region; NULL: regions and control */
    region_t *regions; /* grouped by block, in node order */
    int n_regions;
    row_t *rows;      /* [n_blocks]: the regions of each block */
    int most_inputs;  /* largest number of inputs of a region */
    bool has_state;   /* a run changes attributes, or tensors in them */
    bool has_effects; /* a run writes something that the program does not own */
} program_t;

/* Compiles a graph. If no layout pass has run, kernels are selected under policy auto. Each run
 * binds a parameter of type module to self. */
status_t program_create(context_t *ctx, const graph_t *graph, module_t *self,
                        program_t **out_program);
program_t *program_retain(program_t *program);
void program_release(program_t *program);

/* Returns the program's plans one after another: `at` counts from 0; NULL after the last plan. */
plan_t *program_plan(const program_t *program, int at);

/* Lets all plans share arenas. */
void program_share_arenas(program_t *program, arenas_t *arenas);
/* The bytes that the plans and the graph own, and those of the largest arena of a plan. */
size_t program_own_bytes(const program_t *program);
size_t program_run_bytes(const program_t *program);

/* plan_form_bytes and plan_retire for all plans. */
status_t program_form_bytes(context_t *ctx, const program_t *program, hash_table_t *seen,
                            size_t *out_bytes);
void program_retire(program_t *program);

/* Runs the program; self is the argument of graph_run. out has one element for each result. */
status_t program_run(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out);

#endif
