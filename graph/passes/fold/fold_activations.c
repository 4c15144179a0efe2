#include <math.h>

#include "graph/passes/pattern_impl.h"

/* Models of older opsets compute an activation as x times a factor (gate) that is computed from x.
 * This pass replaces such products by the activation. dead_code removes the nodes that are no
 * longer used. */

static bool has_attr(const graph_node_t *node, const char *name, double number)
{
    const double *given = rewrite_attr(node, name, ATTR_FLOAT);
    return given != NULL && fabs(*given - number) <= 1e-6;
}

static bool is_clamp_to_6(const match_t *match)
{
    const graph_node_t *node = match_node(match, "gate");
    return has_attr(node, "min", 0.0) && has_attr(node, "max", 6.0);
}

static bool is_hardsigmoid(const match_t *match)
{
    const graph_node_t *node = match_node(match, "gate");
    return has_attr(node, "alpha", 1.0 / 6.0) && has_attr(node, "beta", 0.5);
}

static const struct {
    const char *activation, *attrs, *pattern;
    bool (*check)(const match_t *match); /* checks attributes; NULL: no check */
} rules[] = {{"hardswish", "", "div(mul(x, gate:clamp(add(x, 3))), 6)", is_clamp_to_6},
             {"hardswish", "", "div(mul(x, relu6(add(x, 3))), 6)", NULL},
             {"hardswish", "", "mul(x, gate:hardsigmoid(x))", is_hardsigmoid},
             {"silu", "", "mul(x, sigmoid(x))", NULL},
             {"silu", "", "div(x, add(1, exp(neg(x))))", NULL},
             {"mish", "", "mul(x, tanh(softplus(x)))", NULL},
             {"gelu", "", "mul(0.5, x, add(1, erf(mul(0.7071067812, x))))", NULL},
             {"gelu", "", "mul(x, add(0.5, mul(0.5, erf(mul(0.7071067812, x)))))", NULL},
             {"gelu", "tanh_approximation=true",
              "mul(0.5, x, add(1, tanh(mul(0.7978845608, add(x, mul(0.044715, x, x, x))))))", NULL},
             {"gelu", "tanh_approximation=true",
              "mul(0.5, x, add(1, tanh(mul(0.7978845608, x, add(1, mul(0.044715, x, x))))))",
              NULL}};

enum { N_RULES = sizeof rules / sizeof *rules };

typedef struct folding {
    const alias_t *alias;
    pattern_t patterns[N_RULES];
} folding_t;

static status_t replace(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const folding_t *folding = rewrite->user;
    match_t match;
    if (!rewrite_is_op(node, "mul") && !rewrite_is_op(node, "div")) return STATUS_OK;
    for (int i = 0; i < N_RULES && !*out_done; i++) {
        if (!pattern_match(&folding->patterns[i], folding->alias, node->outputs[0], &match))
            continue;
        const value_t x = match_value(&match, "x");
        const tensor_info_t *info = pattern_info(rewrite->from, x);
        if (info == NULL || !dtype_is_floating(info->dtype) ||
            (rules[i].check != NULL && !rules[i].check(&match)))
            continue;
        const value_t input = rewrite_value(rewrite, x);
        TRY(pattern_replace(rewrite, node, rules[i].activation, rules[i].attrs, 1, &input));
        *out_done = true;
    }
    return STATUS_OK;
}

status_t pass_fold_activations(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                               graph_t **out_graph)
{
    folding_t folding;
    (void)options;
    TRY(alias_of(ctx, graph, &folding.alias));
    for (int i = 0; i < N_RULES; i++) pattern_parse(rules[i].pattern, &folding.patterns[i]);
    return rewrite_graph(ctx, graph, replace, &folding, out_graph);
}
