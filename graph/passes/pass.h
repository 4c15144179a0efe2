/* A pass reads a graph and builds another. A driver (pass_run) runs passes, and verifies, times and
 * dumps their results.
 *
 * Each pass is a file below passes/ and a line in passes.def. Passes do not print or verify. */
#ifndef TESSERA_GRAPH_PASSES_PASS_H
#define TESSERA_GRAPH_PASSES_PASS_H

#include "graph/ir/graph.h"

/* A weight that a run reads and that is updated between runs. `result` is the result of the graph
 * that is its gradient. After an update, the weight has the format of this result. */
typedef struct pass_stepped {
    const char *path; /* path of the attribute */
    int result;
} pass_stepped_t;

/* Quality of the chosen formats, in estimated nanoseconds per run. It is proven that every choice
 * among the same formats and kernels costs at least `lower_bound`. */
typedef struct layout_certificate {
    double cost;         /* cost of the choice; 0: an earlier choice was reused */
    double best_uniform; /* cost of the best choice with one format wherever possible */
    double lower_bound;
} layout_certificate_t;

/* The range of a value, measured on examples; a few elements may be outside. */
typedef struct pass_range {
    const char *value; /* name of the value in the graph */
    double low, high;
} pass_range_t;

typedef struct pass_options {
    const char *const *skip; /* NULL-terminated names of passes to skip; NULL: none */
    const char *after;       /* name of the pass to dump after, or "each"; NULL: none */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    bool keep_numerics;      /* skip passes that may change the last bits of results */
    module_t *self;          /* module whose attributes pass `attributes` freezes; may be NULL */
    module_t *root;          /* module that contains self; its methods may change attributes; NULL:
                                self */
    const char *const *keep; /* NULL-terminated paths, relative to root, of attributes and modules
                                that are not frozen; NULL: none */
    const char *const *only; /* NULL-terminated paths, relative to root, of the only attributes that
                                may become constants; NULL: all */
    const char *layout;      /* result of an earlier run of `layout` on this graph; used without a
                                search if still valid; NULL: none */
    const char *timings; /* lines "#operator, formats and kernel;nanoseconds" that replace estimates
                            in `layout`; NULL: none */
    struct layout_tuning *tuning; /* if not NULL, `layout` measures first: see freeze_tune */
    text_t *out_layout;           /* receives the choice of `layout`; NULL: not wanted */
    layout_certificate_t *out_certificate; /* receives its quality; NULL: not wanted */
    bool keeps_results; /* the results of the graph keep the formats in which operators produce
                           them; false: they are dense */
    dtype_t dtype;      /* bf16: enables `lower_precision`; s8: enables `quantize`; DTYPE_NONE:
                           neither */
    int n_ranges;
    const pass_range_t *ranges;  /* for `quantize`; products stay f32 if their input has no range */
    const char *const *keep_f32; /* NULL-terminated path patterns of nodes that both passes skip;
                                    "*" matches any text; NULL: none */
    bool trains;                 /* weights will change: `bound_errors` decides from shapes alone */
    double rounding_error;       /* total error that `bound_errors` allows, see freeze_options_t; 0
                                    and not has_rounding_error: 1e-4 */
    bool has_rounding_error;
    int n_stepped;
    const pass_stepped_t *stepped; /* weights updated between runs; `layout` counts a reorder in
                                      every run if its format is not that of the update */
    bool knows_self; /* `fold_quantize` may read scales from attributes of self; for graphs imported
                        together with self */
    bool names_kernels; /* out_layout includes the kernel wherever an operator has competing
                           kernels */
} pass_options_t;

/* A pass. `run` rewrites `graph` into *out_graph. If nothing changes, *out_graph is `graph`,
 * retained. If a pass skips a candidate, it reports the reason with pass_note. */
typedef struct pass {
    const char *name;
    const char *contract; /* one sentence */
    bool changes_numerics;
    status_t (*run)(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                    graph_t **out_graph);
} pass_t;

int pass_count(void) TESSERA_API(pass_count);
const pass_t *pass_at(int index) TESSERA_API(pass_at);
const pass_t *pass_find(const char *name) TESSERA_API(pass_find);

/* Runs the named passes in order and verifies each result. names is NULL-terminated. Passes between
 * "[" and "]" repeat until none of them changes the graph. INVALID_ARGUMENT names an unknown
 * pass. */
status_t pass_run(context_t *ctx, const graph_t *graph, const char *const *names,
                  const pass_options_t *options, graph_t **out_graph) TESSERA_API(pass_run);

/* The pipelines, NULL-terminated:
 *   graph      mode graph; attributes are not frozen
 *   freeze     freezing
 *   optimize   optimising a frozen graph
 *   calibrate  the part of optimize that runs before ranges for `quantize` are measured
 *   plan       for the result of any of these, specialised to one set of input shapes */
const char *const *pass_pipeline_graph(void) TESSERA_API(pass_pipeline_graph);
const char *const *pass_pipeline_freeze(void) TESSERA_API(pass_pipeline_freeze);
const char *const *pass_pipeline_optimize(void) TESSERA_API(pass_pipeline_optimize);
const char *const *pass_pipeline_calibrate(void) TESSERA_API(pass_pipeline_calibrate);
const char *const *pass_pipeline_plan(void) TESSERA_API(pass_pipeline_plan);

/* Searches formats for these inputs like graph_for, with the same errors, and returns the quality
 * of the choice. Does not change the module. */
status_t graph_certificate(context_t *ctx, module_t *module, const char *method, int n_in,
                           const tensor_t *const *inputs, layout_certificate_t *out_certificate)
    TESSERA_API(graph_certificate);

#endif
