/* Plans: a straight-line graph for one set of input infos, ready to run.
 *
 * Building a plan selects a kernel for every node, packs the weights it wants, and places all
 * intermediate results in one arena. Running sets pointers and allocates nothing of ours but the
 * outputs; looked up are the packed forms of weights that are no constants. A plan is immutable and
 * counted; each run leases a frame from it (arena, scratch, memory objects), so threads with
 * contexts of their own may run it at once. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_H
#define TESSERA_GRAPH_PROGRAM_PLAN_H

#include "graph/ir/graph.h"

TESSERA_BEGIN

typedef struct plan plan_t;

/* Builds a plan for a graph whose nodes are operators and constants only, and whose layout pass has
 * run (or not: then every node is selected under policy auto). params of type module are bound to
 * self, whose parameters getattr reads at each run unless they were frozen. UNSUPPORTED names the
 * node that is no straight line (if, loop, call). */
status_t plan_create(context_t *ctx, const graph_t *graph, module_t *self, plan_t **out_plan)
    TESSERA_API(plan_create);
plan_t *plan_retain(plan_t *plan) TESSERA_API(plan_retain);
void plan_release(plan_t *plan) TESSERA_API(plan_release);

/* Runs it. Inputs have the dtypes and sizes the plan was built for, in any layout. */
status_t plan_run(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in, int *n_out,
                  tensor_t **out) TESSERA_API(plan_run);

/* ---- asking, for explain ---- */

typedef struct plan_step {
    const graph_node_t *node; /* NULL: a conversion that the plan put in */
    const prepared_t *prepared;
    const char *name; /* operator or "reorder" */
    const char *path; /* module path or NULL */
    int n_in;
    const value_t *inputs;
    size_t arena_offset; /* of output 0 */
    int overwrites;      /* input whose bytes output 0 takes, or -1 */
    int n_slices;        /* of the batch, for each of which it is run; 1: for all at once */
    int n_workers; /* threads that run slices by themselves; 1: all threads run each together */
    int n_joined;  /* inputs that were made at their place in output 0: no copy is needed */
} plan_step_t;
int plan_n_steps(const plan_t *plan) TESSERA_API(plan_n_steps);
const plan_step_t *plan_step(const plan_t *plan, int index) TESSERA_API(plan_step);
size_t plan_arena_bytes(const plan_t *plan) TESSERA_API(plan_arena_bytes);
size_t plan_weight_bytes(const plan_t *plan) TESSERA_API(plan_weight_bytes);

/* ---- a method that keeps a plan per set of input shapes ---- */

#define PLAN_CAPACITY 32

/* Makes a graph a method that runs as plans: for each set of input dtypes and shapes, and number of
 * threads, the graph is specialised (types inferred anew, pass_pipeline_plan) and planned. At most
 * `capacity` plans are kept (0: PLAN_CAPACITY), the least recently used goes first, and the trace
 * of category plan tells so. Graphs that are no straight line are interpreted. */
status_t plan_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph,
                         int capacity) TESSERA_API(plan_set_method);
/* How many plans a method keeps, 0 for other methods; and to change that (0: PLAN_CAPACITY): the
 * least recently used beyond it go now. */
int plan_capacity(const module_t *module, const char *method) TESSERA_API(plan_capacity);
void plan_set_capacity(module_t *module, const char *method, int capacity)
    TESSERA_API(plan_set_capacity);
/* Builds the plan for the shapes that the graph's parameters say, if they say all: what would else
 * happen at the first run. Nothing to do for other methods. */
status_t plan_warm(context_t *ctx, module_t *module, const char *method) TESSERA_API(plan_warm);
/* Builds the plan for inputs of these dtypes and sizes, from the infos alone: no operator runs on
 * made-up values. What follows sizes that only values tell is planned at the first run. Nothing to
 * do for other methods, and where an info is NULL (an input that is no tensor).
 *
 * INVALID_ARGUMENT  the method does not take such inputs */
status_t plan_warm_for(context_t *ctx, module_t *module, const char *method, int n_in,
                       const tensor_info_t *const *infos) TESSERA_API(plan_warm_for);
/* Such a method may have several graphs, as of a model that was imported at several sizes
 * (freeze_add): the first that takes the inputs of a run is used. How many; and each (borrowed,
 * NULL beyond them), the first of which is that of graph_of. 0 for other methods. */
int plan_n_graphs(const module_t *module, const char *method) TESSERA_API(plan_n_graphs);
graph_t *plan_graph_at(const module_t *module, const char *method, int index)
    TESSERA_API(plan_graph_at);
/* True for a method made by plan_set_method; graph_of gives the graph that it specialises. */
bool plan_is_method(const module_t *module, const char *method) TESSERA_API(plan_is_method);
/* True for such a method whose products of bf16 are computed in f32, since this processor has no
 * instructions for bf16: right, and as fast as f32. */
bool plan_is_widened(const module_t *module, const char *method) TESSERA_API(plan_is_widened);
/* The plan of such a method that was used last; borrowed; NULL for other methods, or when none has
 * run. It holds only until the next run of the method in any thread, which may drop it. */
plan_t *plan_of(const module_t *module, const char *method) TESSERA_API(plan_of);

/* The optimised graph of a graph or plan method for these inputs: what a plan for their dtypes and
 * sizes is built from, formats and transitions in it. The module is not changed.
 *
 * INVALID_ARGUMENT  the method has no graph, or other inputs than these tensors */
status_t graph_for(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_t *const *inputs, graph_t **out_graph) TESSERA_API(graph_for);

/* The graph a plan was built from: formats in its types. */
const graph_t *plan_graph(const plan_t *plan) TESSERA_API(plan_graph);

TESSERA_END

#endif
