/* Plan methods: functions that freezing, saving and loading use.
 *
 * The folder graph/method contains graphs as methods of modules: tracing, specialising to sizes,
 * and the programs that a method has for each set of sizes. */
#ifndef TESSERA_GRAPH_METHOD_METHOD_IMPL_H
#define TESSERA_GRAPH_METHOD_METHOD_IMPL_H

#include "graph/program/program_impl.h"
#include "module/signature.h"

/* plan_set_method with a NULL-terminated list of passes that the method's plans skip; skip may be
 * NULL. */
status_t plan_set_method_without(context_t *ctx, module_t *module, const char *method,
                                 graph_t *graph, int capacity, const char *const *skip);

/* Adds a graph to a plan method, for inputs that the method's other graphs reject. No other thread
 * may use the module during the call. UNSUPPORTED if the method has too many graphs. */
#define PLAN_MAX_GRAPHS 64
status_t plan_add_graph(context_t *ctx, module_t *module, const char *method, graph_t *graph);

/* Makes a graph that accepts inputs that all graphs of a plan method refuse. INVALID_ARGUMENT or
 * UNSUPPORTED if there is none; the run then reports why the first graph refuses them. */
typedef status_t plan_extend_t(context_t *ctx, module_t *self, const char *method, int n_in,
                               const tensor_info_t *const *in, graph_t **out_graph);

/* Makes a plan method add graphs for inputs that it refuses. Several threads may run the method
 * meanwhile; one of them makes a graph, others that need one wait. Only the added graphs that were
 * used last are kept, and inputs that were refused last are refused without another try. Does
 * nothing for other methods. */
#define PLAN_MAX_ADDED 8
#define PLAN_MAX_REFUSED 32
void plan_set_extend(module_t *module, const char *method, plan_extend_t *extend);
/* True if the method adds graphs for inputs that it refuses. */
plan_extend_t *plan_extends(const module_t *module, const char *method);

/* The layouts chosen in a method's plans for the context's number of threads, one line per set of
 * inputs ("f32[1,3,224,224];0 0 03 - d "). plan_set_layouts sets layouts for later plans; if a line
 * does not suit the graph, the layout pass searches instead. Both functions do nothing if the
 * method is not a plan method. */
status_t plan_layouts(context_t *ctx, module_t *module, const char *method, text_t *text);
status_t plan_set_layouts(context_t *ctx, module_t *module, const char *method, const char *lines);

/* Calls `ran` once, after the next run of the plan method, unless plan_tune or plan_add_graph
 * changes the method before. Then, or when the method ends, calls drop(user). Replaces an earlier
 * watch. A copy of the module is not watched. */
typedef void (*plan_ran_t)(context_t *ctx, module_t *module, void *user);
void plan_watch(module_t *module, const char *method, plan_ran_t ran, void (*drop)(void *user),
                void *user);

/* Measures kernels for the operators of a plan method, for inputs like these, and chooses layouts
 * by measured instead of estimated times. If runs with the new layouts are faster, the layouts are
 * kept as a line of plan_layouts. The times are kept as lines "#name;nanoseconds", and used for
 * other sizes, too. If inputs is NULL, runs are not compared and the new layouts are kept. Takes
 * `seconds`, plus the time to build a plan and about ten runs. UNSUPPORTED for other methods. */
#define PLAN_NOT_COMPARED 0.0
typedef struct plan_tuned {
    int n_measured; /* number of measured operators; equal ones count once */
    double ratio;   /* time of a run with the new layouts / with the old; 1 if they are equal */
    bool is_kept;
} plan_tuned_t;
status_t plan_tune(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_info_t *const *infos, const tensor_t *const *inputs, double seconds,
                   plan_tuned_t *out_tuned);

/* Sorts ratios of times and returns their median. True if the ratios are clearly below 1. */
bool plan_tune_is_faster(int n, double *ratios, double *out_median);

/* Implements method_class_t.describe for a method that runs this graph. */
status_t graph_describe(context_t *ctx, const graph_t *graph, bool is_output, int index, int *out_n,
                        module_value_t *out_value);

/* The program that the method ran last, retained; NULL if none has run. */
program_t *program_of(const module_t *module, const char *method);

#endif
