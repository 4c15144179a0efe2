/* Passes: each reads one graph and builds another; one driver verifies, times and dumps.
 *
 * A pass is one file in passes/ and one line in passes.def. It never prints or verifies itself. */
#ifndef TESSERA_GRAPH_PASSES_PASS_H
#define TESSERA_GRAPH_PASSES_PASS_H

#include "graph/ir/graph.h"

TESSERA_BEGIN

/* A weight that a run reads, and the result of the graph that it is stepped by between runs: it
 * lies then in that result's format. */
typedef struct pass_stepped {
    const char *path; /* of the attribute */
    int result;
} pass_stepped_t;

/* How good the choice of formats is, by the estimates that it was made with, in nanoseconds of one
 * run. `lower_bound` is proven: no choice among the same formats and kernels costs less. */
typedef struct layout_certificate {
    double cost; /* of what was chosen; 0: taken as it was chosen earlier */
    double
        best_uniform; /* of the best choice with one format throughout, where operators have it */
    double lower_bound;
} layout_certificate_t;

/* Numbers that a value has, as measured on examples; few of them may lie outside. */
typedef struct pass_range {
    const char *value; /* its name in the graph */
    double low, high;
} pass_range_t;

typedef struct pass_options {
    const char *const *skip; /* NULL-terminated names of passes to leave out; NULL: none */
    const char *after;       /* name of a pass whose result is dumped, or "each"; NULL: none */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    bool keep_numerics;      /* leave out passes that may change the last bits */
    module_t *self;          /* whose attributes `attributes` freezes; may be NULL */
    module_t *root;          /* of which self is a part: whose methods all may change attributes;
                                NULL: self */
    const char *const *keep; /* NULL-terminated paths of attributes and modules below root that
                                stay getattr; NULL: none */
    const char *const *only; /* NULL-terminated paths of the attributes below root that may become
                                constants; NULL: all */
    const char *layout;  /* what an earlier `layout` chose for this graph, which is taken without
                            a search where it still can be; NULL: none */
    const char *timings; /* lines "#operator, formats and kernel;nanoseconds" that count instead of
                            estimates in `layout`; NULL: none */
    struct layout_tuning *tuning; /* `layout` measures first: see freeze_tune; NULL: it does not */
    text_t *out_layout;           /* where `layout` writes what it chose; NULL: nowhere */
    layout_certificate_t *out_certificate; /* and how good that is; NULL: nowhere */
    bool keeps_results; /* `layout` leaves the graph's results in the formats that their operators
                           give; else they are dense */
    dtype_t dtype; /* what `lower_precision` computes in: bf16; and `quantize`: s8; DTYPE_NONE: all
                      stays as it is */
    int n_ranges;
    const pass_range_t *ranges;  /* that `quantize` has; products whose input has none stay f32 */
    const char *const *keep_f32; /* NULL-terminated patterns of paths that they leave alone: a star
                                    stands for any text; NULL: none */
    bool trains;           /* weights change: `bound_errors` looks at convolutions of any weight */
    double rounding_error; /* that `bound_errors` lets layers add up to: see freeze_options_t; 0
                              without has_rounding_error: 1e-4 */
    bool has_rounding_error;
    int n_stepped;
    const pass_stepped_t *stepped; /* weights whose other formats `layout` counts as reorders of
                                      every run */
    bool knows_self; /* `fold_quantize` may ask self for the signs of scales that are attributes: of
                        graphs that come with them, as at an import */
    bool names_kernels; /* out_layout has the kernel of each operator of which several compete */
} pass_options_t;

/* Rewrites `graph` into *out_graph, which may be the same graph retained if nothing changes. Passes
 * say why they left a candidate alone by pass_note. */
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

/* Runs the named passes in order, with verification after each. names NULL-terminated; those
 * between "[" and "]" are repeated until none of them changes the graph. INVALID_ARGUMENT names an
 * unknown pass. */
status_t pass_run(context_t *ctx, const graph_t *graph, const char *const *names,
                  const pass_options_t *options, graph_t **out_graph) TESSERA_API(pass_run);

/* The pipelines: of mode graph (attributes stay), of freezing, of optimising what is frozen, of as
 * much of that as `quantize` wants to have been done, and of specialising the result of any to one
 * set of input shapes. NULL-terminated. */
const char *const *pass_pipeline_graph(void) TESSERA_API(pass_pipeline_graph);
const char *const *pass_pipeline_freeze(void) TESSERA_API(pass_pipeline_freeze);
const char *const *pass_pipeline_optimize(void) TESSERA_API(pass_pipeline_optimize);
const char *const *pass_pipeline_calibrate(void) TESSERA_API(pass_pipeline_calibrate);
const char *const *pass_pipeline_plan(void) TESSERA_API(pass_pipeline_plan);

/* How good the formats are that graph_for chooses for these inputs, searched for anew. The module
 * is not changed. Errors as those of graph_for. */
status_t graph_certificate(context_t *ctx, module_t *module, const char *method, int n_in,
                           const tensor_t *const *inputs, layout_certificate_t *out_certificate)
    TESSERA_API(graph_certificate);

TESSERA_END

#endif
