/* The inside of methods that run as programs, for freezing and its file. */
#ifndef TESSERA_GRAPH_METHOD_METHOD_IMPL_H
#define TESSERA_GRAPH_METHOD_METHOD_IMPL_H

#include "graph/program/program_impl.h"
#include "module/signature.h"

/* plan_set_method for a method whose plans leave these passes out, too; skip may be NULL. */
status_t plan_set_method_without(context_t *ctx, module_t *module, const char *method,
                                 graph_t *graph, int capacity, const char *const *skip);

/* Gives a method that runs as plans one graph more, for inputs that its graphs so far refuse.
 * Nobody else may use the module meanwhile. UNSUPPORTED beyond the limit. */
#define PLAN_MAX_GRAPHS 64
status_t plan_add_graph(context_t *ctx, module_t *module, const char *method, graph_t *graph);

/* What the layout pass chose for the plans that a method had under the context's number of threads,
 * a line for each set of inputs ("f32[1,3,224,224];0 0 03 - d "); and what it shall choose for
 * plans to come, where it still can: a line that does not fit means a search. Nothing to do for
 * methods of other classes. */
status_t plan_layouts(context_t *ctx, module_t *module, const char *method, text_t *text);
status_t plan_set_layouts(context_t *ctx, module_t *module, const char *method, const char *lines);

/* Measures ways of the operators of a method that runs as plans, for inputs like these, and keeps
 * the choice by measured times in place of that by estimates where runs by it are faster: a line of
 * plan_layouts, and the times as lines "#name;nanoseconds", which other sizes are chosen by, too.
 * inputs NULL: no run is compared, and the choice by measured times is kept.
 * It takes the time that it is given, and what a plan and ten runs take longer.
 * UNSUPPORTED: the method is no such one. */
#define PLAN_NOT_COMPARED 0.0
typedef struct plan_tuned {
    int n_measured; /* operators, those that are alike once */
    double ratio;   /* of the tuned run's time to the untuned one's; 1: the choice is the same */
    bool is_kept;
} plan_tuned_t;
status_t plan_tune(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_info_t *const *infos, const tensor_t *const *inputs, double seconds,
                   plan_tuned_t *out_tuned);

/* Whether ratios of times, which are sorted, are clearly below 1, and their median. */
bool plan_tune_is_faster(int n, double *ratios, double *out_median);

/* As method_class_t.describe, of a method that runs this graph. */
status_t graph_describe(context_t *ctx, const graph_t *graph, bool is_output, int index, int *out_n,
                        module_value_t *out_value);

/* The program of a method that was run last, retained; NULL when none has run. */
program_t *program_of(const module_t *module, const char *method);

#endif
