#include "graph/passes/pass_impl.h"

#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/text/trace.h"
#include "tensor/threads/interrupt_impl.h"

static const pass_t passes[] = {
#define PASS(name, changes_numerics, contract) {#name, contract, changes_numerics, pass_##name},
#include "graph/passes/passes.def"
#undef PASS
};
enum { N_PASSES = sizeof passes / sizeof passes[0] };

/* Limit on the rounds of a group. Groups end earlier, because no pass undoes a change of
 * another. */
#define MAX_ROUNDS 32

/* clang-format off */

/* Passes between "[" and "]" repeat until none of them changes the graph. */

/* Mode graph: attributes are not frozen.
 *
 *   traced ──► calls inlined ──► integers ──► numbers computed ──► clean up ──► plan */
static const char *const pipeline_graph[] = {
    "inline",
    "fold_quantize",
    "constant_propagation",
    "lower_tuples",
    "remove_identity",
    "functionalize",
    "flatten_into_linear",

    "common_subexpressions",
    "dead_code",
    NULL,
};

/* For a graph that is specialised to one set of input shapes, before a plan is built. */
static const char *const pipeline_plan[] = {
    "fuse_expand_depthwise",
    "layout", "move_reorders", "fold_reorders",
    "fuse_norm_conv",
    "common_subexpressions", "dead_code",
    NULL,
};

/* Freezing. A known value can make other values known, such as the callee of a call, so a group of
 * passes repeats.
 *
 *   calls inlined ──► getattr becomes constant ──► integers ──► constants computed ──┐
 *   ▲                                                                                │
 *   └────────────────────────────────────────────────────────────────────────────────┘
 *
 * Integer products are found before constant propagation would dequantize their weights. */
static const char *const pipeline_freeze[] = {
    "[", "inline", "lower_tuples", "attributes", "fold_quantize", "constant_propagation", "]",
    "dead_code",
    NULL,
};

/* Optimising a frozen graph.
 *
 *   clean up ──► folded ──► integers ──► fused ──► made narrow ──► computed ──► clean up ──► plan
 *                │          │            │         │               │
 *                │          │            │         │               fold_weight and fold_bias of constants,
 *                │          │            │         │               joined weights, casts of weights
 *                │          │            │         if the options name a dtype
 *                │          │            post-ops, activations of norms, operators with a shared input
 *                │          if the options have ranges, or the graph has quantized values
 *                numbers; activations, norms and attention written as several operators; gathers and
 *                permutes as views; batch norms and scales
 */
static const char *const pipeline_optimize[] = {
    "remove_identity",
    "functionalize",
    "immediates", "fold_activations", "fold_norms", "fold_attention",
    "gather_to_slice", "split_before_permute",
    "dead_code",

    "[", "fold_batch_norm", "fold_scale", "]",
    "quantize", "fold_quantize",

    "fuse_post_ops", "fuse_norm_activation", "merge_shared_inputs",
    "lower_precision", "common_subexpressions",
    "constant_propagation",
    "flatten_into_linear",
    "bound_errors",

    "common_subexpressions",
    "dead_code",
    NULL,
};

/* The first part of pipeline_optimize, without the passes that make views, followed by computing
 * all constants. Ranges are measured on the result. */
static const char *const pipeline_calibrate[] = {
    "remove_identity",
    "functionalize",
    "immediates", "fold_activations", "fold_norms", "fold_attention",
    "dead_code",

    "[", "fold_batch_norm", "fold_scale", "]",
    "constant_propagation",

    "common_subexpressions",
    "dead_code",
    NULL,
};

/* clang-format on */

int pass_count(void)
{
    return N_PASSES;
}

const pass_t *pass_at(int index)
{
    return index >= 0 && index < N_PASSES ? &passes[index] : NULL;
}

const pass_t *pass_find(const char *name)
{
    if (name == NULL) return NULL;
    for (int i = 0; i < N_PASSES; i++) {
        if (strcmp(passes[i].name, name) == 0) return &passes[i];
    }
    return NULL;
}

const char *const *pass_pipeline_graph(void)
{
    return pipeline_graph;
}

const char *const *pass_pipeline_plan(void)
{
    return pipeline_plan;
}

const char *const *pass_pipeline_freeze(void)
{
    return pipeline_freeze;
}

const char *const *pass_pipeline_optimize(void)
{
    return pipeline_optimize;
}

const char *const *pass_pipeline_calibrate(void)
{
    return pipeline_calibrate;
}

static bool lists(const char *const *names, const char *name)
{
    for (; names != NULL && *names != NULL; names++) {
        if (strcmp(*names, name) == 0) return true;
    }
    return false;
}

static bool is_left_out(const pass_t *pass, const pass_options_t *options)
{
    return lists(options->skip, pass->name) || (options->keep_numerics && pass->changes_numerics);
}

static status_t dump(context_t *ctx, const pass_t *pass, const graph_t *graph,
                     const pass_options_t *options)
{
    if (options->after == NULL || options->dump == NULL) return STATUS_OK;
    if (strcmp(options->after, pass->name) != 0 && strcmp(options->after, "each") != 0)
        return STATUS_OK;
    text_t text = text_begin(ctx);
    status_t status = graph_print(ctx, graph, NULL, &text);
    if (status == STATUS_OK) status = text_status(&text);
    if (status == STATUS_OK) options->dump(options->dump_user, pass->name, text_string(&text));
    text_clear(&text);
    return status;
}

/* Runs one pass. If its result fails verification, the error names the pass. */
static status_t run_one(context_t *ctx, const pass_t *pass, const graph_t *graph,
                        const pass_options_t *options, graph_t **out_graph)
{
    graph_t *result = NULL;
    char what[64];
    snprintf(what, sizeof what, "pass %s", pass->name);
    TRY(interrupt_tell(ctx, what, 0, 0));
    uint64_t before = context_now();
    TRY(pass->run(ctx, graph, options, &result));
    uint64_t after = context_now();
    trace_event(ctx, TRACE_PASS, "%s,%d,%d,%.1f", pass->name, graph_n_nodes(graph),
                graph_n_nodes(result), (double)(after - before) * 1e-3);
    status_t status = result != graph ? graph_verify(ctx, result) : STATUS_OK;
    if (status != STATUS_OK)
        status = context_fail(ctx, status, "pass %s: %s", pass->name, context_error(ctx));
    if (status == STATUS_OK) status = dump(ctx, pass, result, options);
    GIVE(status, out_graph, result, graph_release(result));
}

static status_t check_names(context_t *ctx, const char *const *names, const char *what)
{
    for (; names != NULL && *names != NULL; names++)
        REQUIRE(ctx, pass_find(*names) != NULL, "pass_run: \"%s\" %s is not a pass", *names, what);
    return STATUS_OK;
}

static bool opens(const char *name)
{
    return strcmp(name, "[") == 0;
}

static bool closes(const char *name)
{
    return strcmp(name, "]") == 0;
}

static status_t check_pipeline(context_t *ctx, const char *const *names)
{
    bool is_inside = false;
    for (; *names != NULL; names++) {
        bool is_bracket = opens(*names) || closes(*names);
        REQUIRE(ctx, is_bracket || pass_find(*names) != NULL,
                "pass_run: \"%s\" to run is not a pass", *names);
        REQUIRE(ctx, !is_bracket || opens(*names) != is_inside,
                "pass_run: \"%s\" has no matching bracket", *names);
        if (is_bracket) is_inside = !is_inside;
    }
    REQUIRE(ctx, !is_inside, "pass_run: \"[\" has no matching bracket");
    return STATUS_OK;
}

/* Runs a pass on *current and replaces it by the result. */
static status_t advance(context_t *ctx, const char *name, const pass_options_t *options,
                        graph_t **current, bool *out_changes)
{
    const pass_t *pass = pass_find(name);
    if (is_left_out(pass, options)) return STATUS_OK;
    graph_t *next = NULL;
    TRY(run_one(ctx, pass, *current, options, &next));
    *out_changes |= next != *current;
    graph_release(*current);
    *current = next;
    return STATUS_OK;
}

/* Repeats a group of passes, and sets *names to the "]" at its end. */
static status_t repeat(context_t *ctx, const char *const **names, const pass_options_t *options,
                       graph_t **current)
{
    const char *const *first = *names + 1, *const *last = first;
    bool changes = true;
    for (int round = 0; changes && round < MAX_ROUNDS; round++) {
        changes = false;
        for (last = first; !closes(*last); last++)
            TRY(advance(ctx, *last, options, current, &changes));
    }
    *names = last;
    return STATUS_OK;
}

static status_t run_all(context_t *ctx, const graph_t *graph, const char *const *names,
                        const pass_options_t *options, graph_t **out_graph)
{
    graph_t *current = NULL;
    TRY(rewrite_nothing(graph, &current));
    status_t status = STATUS_OK;
    bool changes = false;
    for (; names != NULL && *names != NULL && status == STATUS_OK; names++)
        status = opens(*names) ? repeat(ctx, &names, options, &current)
                               : advance(ctx, *names, options, &current, &changes);
    GIVE(status, out_graph, current, graph_release(current));
}

/* ---- graphs for many sizes ---- */

/* Makes the graph at these sizes; named sizes keep their names. If a node rejects the sizes,
 * *out_graph is NULL and the error is appended to `reason`, unless that is NULL or not empty. */
static status_t try_sizes(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                          text_t *reason, graph_t **out_graph)
{
    *out_graph = NULL;
    scope_attempt(ctx);
    status_t status = graph_resize(ctx, graph, infos, true, out_graph);
    bool is_forgiven = status == STATUS_INVALID_ARGUMENT;
    if (is_forgiven && reason != NULL && reason->length == 0)
        text_append(reason, "other sizes fail, %s", context_error(ctx));
    status = scope_attempt_end(ctx, status, is_forgiven);
    return is_forgiven ? STATUS_OK : status;
}

status_t pass_make_generic(context_t *ctx, const graph_t *graph, tensor_info_t *infos,
                           text_t *reason, graph_t **out_graph)
{
    int64_t sizes[GRAPH_MAX_NAMES];
    *out_graph = NULL;
    for (int attempt = 0; *out_graph == NULL; attempt++) {
        if (!graph_generic_sizes(ctx, graph, attempt, sizes)) break;
        (void)graph_substitute(graph, sizes, infos);
        TRY(try_sizes(ctx, graph, infos, reason, out_graph));
    }
    return STATUS_OK;
}

/* Runs the passes on the graph at generic sizes, then changes the result to the graph's own sizes.
 * If a node rejects the generic sizes, *out_graph is NULL and `reason` tells why. */
static status_t run_generic(context_t *ctx, const graph_t *graph, tensor_info_t *infos,
                            const char *const *names, const pass_options_t *options, text_t *reason,
                            graph_t **out_graph)
{
    graph_t *generic = NULL, *result = NULL;
    *out_graph = NULL;
    TRY(pass_make_generic(ctx, graph, infos, reason, &generic));
    if (generic == NULL) return STATUS_OK;
    status_t status = run_all(ctx, generic, names, options, &result);
    if (status == STATUS_OK && result == generic) {
        status = rewrite_nothing(graph, out_graph);
    } else if (status == STATUS_OK) {
        (void)graph_substitute(graph, NULL, infos);
        status = try_sizes(ctx, result, infos, reason, out_graph);
    }
    graph_release(result);
    graph_release(generic);
    return status;
}

/* Fixes the graph's sizes to those in its types, with this reason ("": none), and runs the passes
 * on it. */
static status_t run_closed(context_t *ctx, const graph_t *graph, const char *const *names,
                           const pass_options_t *options, const char *reason, graph_t **out_graph)
{
    graph_t *closed = NULL, *explained = NULL;
    TRY(graph_close(ctx, graph, &closed));
    status_t status = graph_with_reason(ctx, closed, reason, &explained);
    if (status == STATUS_OK) status = run_all(ctx, explained, names, options, out_graph);
    graph_release(explained);
    graph_release(closed);
    return status;
}

/* Passes must decide for all sizes, but [1,8] and [N,8] are equal if N is 1. So passes get the
 * graph at generic sizes, which are equal only if they must be. If nodes reject these, the graph
 * becomes valid only for its own sizes. */
static status_t run_open(context_t *ctx, const graph_t *graph, const char *const *names,
                         const pass_options_t *options, graph_t **out_graph)
{
    graph_t *result = NULL;
    tensor_info_t *infos = NULL;
    size_t n = (size_t)graph_body(graph)->n_params;
    TRY(context_get(ctx, n * sizeof *infos, "infos of inputs", &infos));
    text_t reason = text_begin(ctx);
    status_t status = run_generic(ctx, graph, infos, names, options, &reason, &result);
    context_put(ctx, infos);
    if (status == STATUS_OK) status = text_status(&reason);
    if (status == STATUS_OK && result == NULL) {
        trace_event(ctx, TRACE_PASS, "sizes,,,,%s: valid only for the sizes in its types, %s",
                    graph_name(graph), text_string(&reason));
        status = run_closed(ctx, graph, names, options, text_string(&reason), &result);
    }
    text_clear(&reason);
    if (status == STATUS_OK) *out_graph = result;
    return status;
}

static status_t run_named(context_t *ctx, const graph_t *graph, const char *const *names,
                          const pass_options_t *options, graph_t **out_graph)
{
    if (!graph_has_names(graph)) return run_all(ctx, graph, names, options, out_graph);
    if (graph_is_open(graph) && !lists(names, "layout"))
        return run_open(ctx, graph, names, options, out_graph);
    return run_closed(ctx, graph, names, options, "", out_graph);
}

status_t pass_run(context_t *ctx, const graph_t *graph, const char *const *names,
                  const pass_options_t *options, graph_t **out_graph)
{
    TRY(context_output(ctx, "pass_run", out_graph));
    static const pass_options_t none = {0};
    if (graph == NULL) return context_null(ctx, "pass_run", "the graph");
    if (names == NULL) return context_null(ctx, "pass_run", "names");
    if (options == NULL) options = &none;
    TRY(check_pipeline(ctx, names));
    TRY(check_names(ctx, options->skip, "to skip"));
    const char *const after[] = {options->after, NULL};
    if (options->after != NULL && strcmp(options->after, "each") != 0)
        TRY(check_names(ctx, after, "to dump after"));
    INTERRUPTIBLE(ctx, "pass_run", run_named(ctx, graph, names, options, out_graph));
}
