/* A plan is a graph without control flow, prepared to run on one set of input dtypes and sizes.
 *
 * Building a plan selects a kernel for every node, packs weights, and assigns offsets in one arena
 * to all intermediate results. A run sets pointers, allocates the outputs, and looks up the packed
 * copies of weights that are not constants. Plans are immutable and reference-counted. Each run
 * leases a frame (arena, scratch, memory objects), so threads may run a plan at the same time, each
 * with its own context. */
#ifndef TESSERA_GRAPH_PROGRAM_PLAN_H
#define TESSERA_GRAPH_PROGRAM_PLAN_H

#include "graph/ir/graph.h"

typedef struct plan plan_t;

/* Builds a plan for a graph that contains only operators and constants. If no layout pass has run,
 * kernels are selected under policy auto. Parameters of type module are bound to self. The
 * parameters that getattr nodes name are read in each run, unless they were frozen to constants.
 * UNSUPPORTED names the first node with control flow (if, loop, call). */
status_t plan_create(context_t *ctx, const graph_t *graph, module_t *self, plan_t **out_plan)
    TESSERA_API(plan_create);
plan_t *plan_retain(plan_t *plan) TESSERA_API(plan_retain);
void plan_release(plan_t *plan) TESSERA_API(plan_release);

/* Runs the plan. Inputs must have the planned dtypes and sizes; layouts may be any. */
status_t plan_run(context_t *ctx, plan_t *plan, int n_in, const tensor_t *const *in, int *n_out,
                  tensor_t **out) TESSERA_API(plan_run);

/* ---- queries, for explain ---- */

typedef struct plan_step {
    const graph_node_t *node; /* NULL: a conversion that the plan inserted */
    const prepared_t *prepared;
    const char *name; /* operator or "reorder" */
    const char *path; /* module path or NULL */
    int n_in;
    const value_t *inputs;
    size_t arena_offset; /* offset of output 0 */
    int overwrites;      /* input whose memory output 0 reuses, or -1 */
    int n_slices;        /* slices of the batch, which run one after another; 1: none */
    int n_workers;       /* threads that each run other slices; 1: all threads share each step */
    int n_joined;        /* number of inputs that other steps wrote into output 0 already */
    int n_bands;         /* bands of rows, which run one after another; 0: none */
} plan_step_t;
int plan_n_steps(const plan_t *plan) TESSERA_API(plan_n_steps);
const plan_step_t *plan_step(const plan_t *plan, int index) TESSERA_API(plan_step);
/* Returns the number of inputs of a step that are constant weights, 0 if there is no such step.
 * *out_n_mapped, which may be NULL, receives how many of them are bytes of a mapped file, which
 * processes share: a .tessera file, or the store's. */
int plan_step_weights(const plan_t *plan, int index, int *out_n_mapped)
    TESSERA_API(plan_step_weights);
size_t plan_arena_bytes(const plan_t *plan) TESSERA_API(plan_arena_bytes);
size_t plan_weight_bytes(const plan_t *plan) TESSERA_API(plan_weight_bytes);

/* ---- a method that keeps one plan per set of input shapes ---- */

#define PLAN_CAPACITY 32

/* Makes a graph a method that runs as plans. For each set of input dtypes and shapes and each
 * number of threads, the graph is specialised (types are inferred again, pass_pipeline_plan runs)
 * and planned. At most `capacity` plans are kept (0: PLAN_CAPACITY). The least recently used plan
 * is dropped first; the trace reports this in category plan. Graphs with control flow are
 * interpreted. */
status_t plan_set_method(context_t *ctx, module_t *module, const char *method, graph_t *graph,
                         int capacity) TESSERA_API(plan_set_method);
/* The maximum number of plans of a method; 0 for other methods. plan_set_capacity (0:
 * PLAN_CAPACITY) drops surplus plans immediately, the least recently used first. */
int plan_capacity(const module_t *module, const char *method) TESSERA_API(plan_capacity);
void plan_set_capacity(module_t *module, const char *method, int capacity)
    TESSERA_API(plan_set_capacity);
/* Builds the plan for the shapes of the graph's parameters before the first run, if all shapes are
 * known. Does nothing for other methods. */
status_t plan_warm(context_t *ctx, module_t *module, const char *method) TESSERA_API(plan_warm);
/* Builds the plan for inputs of these dtypes and sizes; no operator runs. Parts of the graph whose
 * sizes depend on values are planned at the first run. Does nothing for other methods, or if an
 * info is NULL (an input that is not a tensor).
 *
 * INVALID_ARGUMENT  the method does not accept such inputs */
status_t plan_warm_for(context_t *ctx, module_t *module, const char *method, int n_in,
                       const tensor_info_t *const *infos) TESSERA_API(plan_warm_for);
/* A plan method may have several graphs, for example if a model was imported at several sizes
 * (freeze_add). A run uses the first graph that accepts its inputs. plan_n_graphs returns their
 * number (0 for other methods), plan_graph_at graph `index` (borrowed; NULL if out of range).
 * graph_of returns graph 0. */
int plan_n_graphs(const module_t *module, const char *method) TESSERA_API(plan_n_graphs);
graph_t *plan_graph_at(const module_t *module, const char *method, int index)
    TESSERA_API(plan_graph_at);
/* True for methods made by plan_set_method; graph_of returns the graph before specialisation. */
bool plan_is_method(const module_t *module, const char *method) TESSERA_API(plan_is_method);
/* True if the method's bf16 products are computed in f32 because this processor has no bf16
 * instructions. Results are correct, at the speed of f32. */
bool plan_is_widened(const module_t *module, const char *method) TESSERA_API(plan_is_widened);
/* The plan that the method used last, borrowed; NULL for other methods and before the first run.
 * The method's next run, in any thread, may release it. */
plan_t *plan_of(const module_t *module, const char *method) TESSERA_API(plan_of);

/* The optimised graph of a graph or plan method for these inputs, with formats and conversions. A
 * plan for their dtypes and sizes is built from this graph. The module does not change.
 *
 * INVALID_ARGUMENT  the method has no graph, or accepts only other inputs */
status_t graph_for(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_t *const *inputs, graph_t **out_graph) TESSERA_API(graph_for);

/* The graph of the plan; its types contain formats. */
const graph_t *plan_graph(const plan_t *plan) TESSERA_API(plan_graph);

#endif
