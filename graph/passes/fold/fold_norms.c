#include <stdio.h>

#include "graph/passes/pattern_impl.h"

/* Matches layer norm and rms norm as written in models of opsets that lack these operators. Weight
 * and bias are optional and have the shape of the normalised dimensions. Nothing else may read the
 * inner values. */

#define LAYER "div(d:sub(x, mean:mean(x)), sqrt(add(?epsilon, power:mean(mul(d, d)))))"
#define RMS "div(x, sqrt(add(?epsilon, power:mean(mul(x, x)))))"

static const struct {
    const char *op, *pattern;
} rules[] = {{"layer_norm", "add(bias, mul(weight, " LAYER "))"},
             {"layer_norm", "mul(weight, " LAYER ")"},
             {"layer_norm", LAYER},
             {"rms_norm", "mul(weight, " RMS ")"},
             {"rms_norm", RMS}};

enum { N_RULES = sizeof rules / sizeof *rules };

typedef struct folding {
    const alias_t *alias;
    pattern_t patterns[N_RULES];
} folding_t;

/* Number of dimensions, the last ones of x, that a mean with keepdim reduces; 0 for other means. */
static int count_dims(const graph_node_t *node, const tensor_info_t *x)
{
    const ints_t *dims = rewrite_attr(node, "dims", ATTR_INTS);
    const bool *keepdim = rewrite_attr(node, "keepdim", ATTR_BOOL);
    bool is_gone[TENSOR_MAX_RANK] = {false};
    if (dims == NULL || keepdim == NULL || !*keepdim) return 0;
    for (int i = 0; i < dims->n; i++)
        is_gone[dims->values[i] < 0 ? dims->values[i] + x->rank : dims->values[i]] = true;
    int n = 0;
    while (n < x->rank && is_gone[x->rank - 1 - n]) n++;
    return n == dims->n ? n : 0;
}

static bool has_elements(const graph_t *graph, value_t value, const tensor_info_t *x, int n_dims)
{
    const tensor_info_t *info = pattern_info(graph, value);
    return value == VALUE_NONE ||
           (info != NULL && info->dtype == x->dtype &&
            shape_equal(n_dims, &x->sizes[x->rank - n_dims], info->rank, info->sizes));
}

/* The number of normalised dimensions; 0 if the matched nodes are not a norm. */
static int check(const match_t *match, const graph_t *graph, value_t whole)
{
    const value_t value = match_value(match, "x");
    const tensor_info_t *x = pattern_info(graph, value);
    if (x == NULL || !dtype_is_floating(x->dtype) || !pattern_same(graph, value, whole) ||
        !match_is_closed(match, whole))
        return 0;
    const graph_node_t *mean = match_node(match, "mean");
    const int n_dims = count_dims(match_node(match, "power"), x);
    if ((mean != NULL && count_dims(mean, x) != n_dims) ||
        !has_elements(graph, match_value(match, "weight"), x, n_dims) ||
        !has_elements(graph, match_value(match, "bias"), x, n_dims))
        return 0;
    return n_dims;
}

static status_t emit(rewrite_t *rewrite, const graph_node_t *node, const char *op,
                     const match_t *match, int n_dims)
{
    static const char *const names[] = {"x", "weight", "bias"};
    value_t inputs[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    char attrs[64];
    for (int i = 0; i < 3; i++)
        if (match_value(match, names[i]) != VALUE_NONE)
            inputs[i] = rewrite_value(rewrite, match_value(match, names[i]));
    snprintf(attrs, sizeof attrs, "n_dims=%d epsilon=%.17g", n_dims,
             match_number(match, "epsilon"));
    return pattern_replace(rewrite, node, op, attrs, ops_find(op)->n_operands, inputs);
}

static status_t replace(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const folding_t *folding = rewrite->user;
    match_t match;
    if (!rewrite_is_op(node, "add") && !rewrite_is_op(node, "mul") && !rewrite_is_op(node, "div"))
        return STATUS_OK;
    for (int i = 0; i < N_RULES && !*out_done; i++) {
        const value_t whole = node->outputs[0];
        const bool is_found = pattern_match(&folding->patterns[i], folding->alias, whole, &match);
        const int n_dims = is_found ? check(&match, rewrite->from, whole) : 0;
        *out_done = n_dims > 0;
        if (n_dims > 0) TRY(emit(rewrite, node, rules[i].op, &match, n_dims));
    }
    return STATUS_OK;
}

status_t pass_fold_norms(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                         graph_t **out_graph)
{
    folding_t folding;
    (void)options;
    TRY(alias_of(ctx, graph, &folding.alias));
    for (int i = 0; i < N_RULES; i++) pattern_parse(rules[i].pattern, &folding.patterns[i]);
    return rewrite_graph(ctx, graph, replace, &folding, out_graph);
}
