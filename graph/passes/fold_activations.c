#include <math.h>

#include "graph/analysis/alias_impl.h"
#include "graph/passes/pass_impl.h"

/* Models of opsets that lack an activation write it as a product of a number, x and a gate of x:
 *
 *   hardswish(x)  1/6 * x * clamp(x + 3, 0, 6), or x * hardsigmoid(x)
 *   gelu(x)       0.5 * x * (erf(x / sqrt(2)) + 1)
 *
 * The number may stand anywhere in the product, and also divide. What is left of the parts goes as
 * dead code. */

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* The operator that makes a value, if nothing is written in place; else NULL. */
static const graph_node_t *operator_at(const alias_t *alias, value_t value, int n_inputs)
{
    const graph_node_t *node = value < 0 ? NULL : graph_producer(alias->graph, value);
    bool is_some = node != NULL && node->kind == NODE_OP && !node->is_in_place &&
                   node->n_inputs == n_inputs && !alias_is_mutated(alias, value);
    return is_some ? node : NULL;
}

static bool read_number(const graph_t *graph, value_t value, double *out_number)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    bool is_some = datum != NULL &&
                   (datum_kind(datum) == DATUM_INT || datum_kind(datum) == DATUM_FLOAT);
    if (is_some) *out_number = datum_as_float(datum);
    return is_some;
}

/* A value times a number. */
typedef struct scaled {
    value_t value;
    double number;
} scaled_t;

/* What a value is: itself, and where it is a product with a number, or divided by one, that, too.
 * Gives how many. */
static int unscale(const alias_t *alias, value_t value, scaled_t *out)
{
    const graph_node_t *node = operator_at(alias, value, 2);
    bool divides = rewrite_is_op(node, "div");
    double number = 0.0;
    out[0] = (scaled_t){value, 1.0};
    for (int i = 0; node != NULL && (divides ? i < 1 : i < 2); i++)
        if ((divides || rewrite_is_op(node, "mul")) &&
            read_number(alias->graph, node->inputs[1 - i], &number)) {
            out[1] = (scaled_t){node->inputs[i], divides ? 1.0 / number : number};
            return 2;
        }
    return 1;
}

/* v in v + number; VALUE_NONE for others. */
static value_t beside(const alias_t *alias, value_t value, double number)
{
    const graph_node_t *node = operator_at(alias, value, 2);
    double given = 0.0;
    for (int i = 0; rewrite_is_op(node, "add") && i < 2; i++)
        if (read_number(alias->graph, node->inputs[i], &given) && is_near(given, number))
            return node->inputs[1 - i];
    return VALUE_NONE;
}

/* ---- gates ---- */

static bool has_attr(const graph_node_t *node, const char *name, double number)
{
    const double *given = rewrite_attr(node, name, ATTR_FLOAT);
    return given != NULL && fabs(*given - number) <= 1e-6;
}

static bool is_clamp_of(const alias_t *alias, value_t gate, value_t x)
{
    const graph_node_t *node = operator_at(alias, gate, 1);
    bool is_clamp = rewrite_is_op(node, "relu6") ||
                    (rewrite_is_op(node, "clamp") && has_attr(node, "min", 0.0) &&
                     has_attr(node, "max", 6.0));
    return is_clamp && beside(alias, node->inputs[0], 3.0) == x;
}

static bool is_hardsigmoid_of(const alias_t *alias, value_t gate, value_t x)
{
    const graph_node_t *node = operator_at(alias, gate, 1);
    return rewrite_is_op(node, "hardsigmoid") && has_attr(node, "alpha", 1.0 / 6.0) &&
           has_attr(node, "beta", 0.5) && node->inputs[0] == x;
}

static bool is_erf_of(const alias_t *alias, value_t gate, value_t x)
{
    const graph_node_t *node = operator_at(alias, beside(alias, gate, 1.0), 1);
    scaled_t of[2];
    return rewrite_is_op(node, "erf") && unscale(alias, node->inputs[0], of) == 2 &&
           of[1].value == x && is_near(of[1].number, sqrt(0.5));
}

static const struct {
    bool (*is_gate_of)(const alias_t *alias, value_t gate, value_t x);
    double number;
    const char *activation;
} forms[] = {{is_clamp_of, 1.0 / 6.0, "hardswish"},
             {is_hardsigmoid_of, 1.0, "hardswish"},
             {is_erf_of, 0.5, "gelu"}};

enum { N_FORMS = sizeof forms / sizeof *forms };

/* ---- products ---- */

static const char *activation_of(const alias_t *alias, double number, value_t x, value_t gate)
{
    for (int i = 0; i < N_FORMS; i++)
        if (is_near(number, forms[i].number) && forms[i].is_gate_of(alias, gate, x))
            return forms[i].activation;
    return NULL;
}

/* number * a * b. */
static const char *match(const alias_t *alias, double number, value_t a, value_t b, value_t *out_x)
{
    scaled_t x[2], gate[2];
    const int n_x = unscale(alias, a, x), n_gate = unscale(alias, b, gate);
    for (int i = 0; i < n_x; i++)
        for (int k = 0; k < n_gate; k++) {
            const char *activation = activation_of(alias, number * x[i].number * gate[k].number,
                                                   x[i].value, gate[k].value);
            *out_x = x[i].value;
            if (activation != NULL && x[i].value >= 0) return activation;
        }
    return NULL;
}

/* The name of the activation that makes a value of x, or NULL. */
static const char *find(const alias_t *alias, value_t value, value_t *out_x)
{
    scaled_t products[2];
    const char *activation = NULL;
    for (int i = unscale(alias, value, products) - 1; i >= 0 && activation == NULL; i--) {
        const graph_node_t *node = operator_at(alias, products[i].value, 2);
        if (!rewrite_is_op(node, "mul")) continue;
        const double number = products[i].number;
        activation = match(alias, number, node->inputs[0], node->inputs[1], out_x);
        if (activation == NULL)
            activation = match(alias, number, node->inputs[1], node->inputs[0], out_x);
    }
    return activation;
}

static bool is_floating(const graph_t *graph, value_t value)
{
    const graph_type_t *type = graph_value_type(graph, value);
    return type->kind == TYPE_TENSOR && type->has_info && dtype_is_floating(type->info.dtype);
}

static status_t replace(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const alias_t *const *alias = rewrite->user;
    value_t x = VALUE_NONE;
    if (node->kind != NODE_OP || node->n_outputs != 1) return STATUS_OK;
    const char *activation = find(*alias, node->outputs[0], &x);
    if (activation == NULL || !is_floating(rewrite->from, x) || alias_is_mutated(*alias, x))
        return STATUS_OK;
    value_t value = rewrite_value(rewrite, x);
    rewrite_map(rewrite, node->outputs[0],
                graph_add_op(rewrite->to, ops_find(activation), NULL, 1, &value, node->path));
    *out_done = true;
    return STATUS_OK;
}

status_t pass_fold_activations(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                               graph_t **out_graph)
{
    (void)options;
    const alias_t *alias;
    TRY(alias_of(ctx, graph, &alias));
    return rewrite_graph(ctx, graph, replace, &alias, out_graph);
}
