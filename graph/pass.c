#include "graph/pass_impl.h"

#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/trace.h"

static const pass_t passes[] = {
#define PASS(name, changes_numerics, contract) {#name, contract, changes_numerics, pass_##name},
#include "graph/passes.def"
#undef PASS
};
enum { N_PASSES = sizeof passes / sizeof passes[0] };

/* clang-format off */

/* Mode graph: attributes stay.
 *
 *   traced ──► clean up ──► plan
 */
static const char *const pipeline_graph[] = {
    "remove_identity",
    "flatten_into_linear",

    "common_subexpressions",
    "dead_code",
    NULL,
};

/* Specialising to one set of input shapes: what a plan is built from. */
static const char *const pipeline_plan[] = {
    "layout", "fold_reorders", "common_subexpressions", "dead_code", NULL,
};

/* Freezing.
 *
 *   getattr ──► constants ──► folded ──► fused ──► layout ──► clean up ──► file, plan
 *               │             │          │
 *               │             │          activations, residual additions
 *               │             batch norm, then scales, then the batch norms behind those
 *               what is computed from constants, dropout
 */
static const char *const pipeline_freeze[] = {
    "attributes",
    "constant_propagation",
    "remove_identity",

    "fold_batch_norm",
    "fold_scale",
    "fold_batch_norm",

    "fuse_post_ops",
    "flatten_into_linear",

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

void pass_note(context_t *ctx, const char *pass, const graph_node_t *node, const char *reason)
{
    if (!trace_wanted(ctx, TRACE_PASS)) return;
    const char *op = node->kind == NODE_OP ? node->op->name : node->name;
    trace_event(ctx, TRACE_PASS, "%s,,,,%s: %s", pass,
                node->path != NULL ? node->path : (op != NULL ? op : "a node"), reason);
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

/* One pass: a graph that does not verify is the pass's fault, and named so. */
static status_t run_one(context_t *ctx, const pass_t *pass, const graph_t *graph,
                        const pass_options_t *options, graph_t **out_graph)
{
    graph_t *result = NULL;
    uint64_t before = context_now();
    TRY(pass->run(ctx, graph, options, &result));
    uint64_t after = context_now();
    trace_event(ctx, TRACE_PASS, "%s,%d,%d,%.1f", pass->name, graph_n_nodes(graph),
                graph_n_nodes(result), (double)(after - before) * 1e-3);
    status_t status = result != graph ? graph_verify(ctx, result) : STATUS_OK;
    if (status != STATUS_OK)
        status = context_fail(ctx, status, "pass %s: %s", pass->name, context_error(ctx));
    if (status == STATUS_OK) status = dump(ctx, pass, result, options);
    if (status == STATUS_OK)
        *out_graph = result;
    else
        graph_release(result);
    return status;
}

static status_t check_names(context_t *ctx, const char *const *names, const char *what)
{
    for (; names != NULL && *names != NULL; names++)
        REQUIRE(ctx, pass_find(*names) != NULL, "pass_run: \"%s\" %s is no pass", *names, what);
    return STATUS_OK;
}

status_t pass_run(context_t *ctx, const graph_t *graph, const char *const *names,
                  const pass_options_t *options, graph_t **out_graph)
{
    static const pass_options_t none = {0};
    if (graph == NULL) return context_null(ctx, "pass_run", "the graph");
    if (options == NULL) options = &none;
    TRY(check_names(ctx, names, "to run"));
    TRY(check_names(ctx, options->skip, "to skip"));
    const char *const after[] = {options->after, NULL};
    if (options->after != NULL && strcmp(options->after, "each") != 0)
        TRY(check_names(ctx, after, "to dump after"));

    graph_t *current = NULL;
    TRY(rewrite_nothing(graph, &current));
    for (; names != NULL && *names != NULL; names++) {
        const pass_t *pass = pass_find(*names);
        if (is_left_out(pass, options)) continue;
        graph_t *next = NULL;
        status_t status = run_one(ctx, pass, current, options, &next);
        graph_release(current);
        TRY(status);
        current = next;
    }
    *out_graph = current;
    return STATUS_OK;
}
