/* Compares traces of one method at several sizes. A number that differs between the traces is
 * called a hole. For each hole, finds an expression of sizes that has the right value in every
 * trace. */
#include <math.h>
#include <stdalign.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/method/holes_impl.h"
#include "tensor/context_impl.h"

#define MAX_VARIABLES 64

/* ---- literals ---- */

static int n_integers(const graph_node_t *node, int field)
{
    const attr_field_t *at = &node->op->attrs.fields[field];
    if (at->kind == ATTR_INT) return 1;
    if (at->kind == ATTR_ARRAY) return at->length;
    if (at->kind != ATTR_INTS) return 0;
    return ((const ints_t *)(const void *)((const char *)node->attrs + at->offset))->n;
}

static int64_t integer_at(const graph_node_t *node, int field, int index)
{
    void *attrs;
    memcpy(&attrs, &node->attrs, sizeof attrs);
    return *size_place(node->op, attrs, field, index);
}

static bool is_number(const datum_t *datum)
{
    return datum_kind(datum) == DATUM_INT || datum_kind(datum) == DATUM_FLOAT;
}

static bool same_number(const datum_t *a, const datum_t *b)
{
    if (datum_kind(a) == DATUM_INT) return datum_as_int(a) == datum_as_int(b);
    double x = datum_as_float(a), y = datum_as_float(b);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* ---- matching ---- */

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Compares attributes, apart from the values of integers. */
static bool match_attributes(const graph_node_t *a, const graph_node_t *b)
{
    alignas(16) char copy[ATTRS_MAX];
    INVARIANT(a->op->attrs.bytes <= sizeof copy);
    memcpy(copy, a->attrs, a->op->attrs.bytes);
    bool matches = true;
    for (int f = 0; f < a->op->attrs.n_fields && matches; f++) {
        int n = n_integers(a, f);
        matches = n == n_integers(b, f);
        for (int i = 0; i < n && matches; i++) *size_place(a->op, copy, f, i) = integer_at(b, f, i);
    }
    return matches && attrs_equal(&a->op->attrs, copy, b->attrs);
}

static bool match_constants(context_t *ctx, const datum_t *a, const datum_t *b)
{
    if (datum_kind(a) != datum_kind(b)) return false;
    return is_number(a) || datum_equal(ctx, a, b);
}

static bool match_nodes(context_t *ctx, const graph_node_t *a, const graph_node_t *b)
{
    if (a->kind != b->kind || a->op != b->op || a->is_in_place != b->is_in_place ||
        a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs || a->n_blocks > 0 ||
        b->n_blocks > 0 || !same_text(a->name, b->name))
        return false;
    for (int i = 0; i < a->n_inputs; i++)
        if (a->inputs[i] != b->inputs[i]) return false;
    for (int i = 0; i < a->n_outputs; i++)
        if (a->outputs[i] != b->outputs[i]) return false;
    if (a->kind == NODE_CONSTANT) return match_constants(ctx, a->datum, b->datum);
    return a->kind != NODE_OP || match_attributes(a, b);
}

bool holes_match(context_t *ctx, const graph_t *a, const graph_t *b, const graph_node_t **out_node)
{
    const graph_block_t *x = graph_body(a), *y = graph_body(b);
    int n = x->n_nodes < y->n_nodes ? x->n_nodes : y->n_nodes;
    *out_node = NULL;
    for (int i = 0; i < n; i++) {
        if (match_nodes(ctx, x->nodes[i], y->nodes[i])) continue;
        *out_node = x->nodes[i];
        return false;
    }
    if (x->n_nodes > n) *out_node = x->nodes[n];
    if (x->n_nodes != y->n_nodes || x->n_results != y->n_results) return false;
    for (int i = 0; i < x->n_results; i++)
        if (x->results[i] != y->results[i]) return false;
    return true;
}

/* ---- search for expressions ---- */

/* A dimension whose size varies; sizes[g] is its size in graph g. */
typedef struct variable {
    value_t value;
    int dim;
    bool is_input;
    int64_t sizes[TRACE_MAX_GRAPHS];
} variable_t;

typedef struct seeking {
    int n_graphs;
    const graph_t *const *graphs;
    int n;
    variable_t variables[MAX_VARIABLES];
    int64_t integers[TRACE_MAX_GRAPHS]; /* values of the hole, one in each graph */
    double floats[TRACE_MAX_GRAPHS];
    const size_pool_t *pool; /* intermediate sizes with their expressions, or NULL */
    hole_t *hole;
} seeking_t;

static void add_variables(seeking_t *seeking, value_t value, bool is_input)
{
    const graph_type_t *first = graph_value_type(seeking->graphs[0], value);
    for (int d = 0; type_is_static(first) && d < first->info.rank; d++) {
        variable_t *variable = &seeking->variables[seeking->n];
        bool varies = false;
        if (seeking->n == MAX_VARIABLES) return;
        *variable = (variable_t){.value = value, .dim = d, .is_input = is_input};
        for (int g = 0; g < seeking->n_graphs; g++) {
            const graph_type_t *type = graph_value_type(seeking->graphs[g], value);
            if (!type_is_static(type) || type->info.rank != first->info.rank) return;
            variable->sizes[g] = type->info.sizes[d];
            varies = varies || variable->sizes[g] != variable->sizes[0];
        }
        seeking->n += varies;
    }
}

/* Tries this product for a float. The comparison is exact, with the same arithmetic as in a later
 * run. */
static bool explain_float(const seeking_t *seeking, const int64_t *product, hole_t *hole)
{
    for (int inverse = 0; inverse < 2; inverse++) {
        double first = (double)product[0];
        double number = inverse ? seeking->floats[0] * first : seeking->floats[0] / first;
        bool fits = isfinite(number) && number != 0.0;
        for (int g = 0; g < seeking->n_graphs && fits; g++) {
            double size = (double)product[g];
            fits = (inverse ? number / size : size * number) == seeking->floats[g];
        }
        hole->is_inverse = inverse != 0;
        hole->number = number;
        if (fits) return true;
    }
    return false;
}

static bool explain_product(void *user, int n, const int64_t *product)
{
    (void)n;
    seeking_t *seeking = user;
    return explain_float(seeking, product, seeking->hole);
}

static void add_size(const seeking_t *seeking, int variable, hole_t *hole)
{
    hole->values[hole->n_sizes] = seeking->variables[variable].value;
    hole->dims[hole->n_sizes++] = seeking->variables[variable].dim;
}

/* Converts the expression's variables from indices in `seeking` to indices in the hole. */
static void take_sizes(const seeking_t *seeking, hole_t *hole)
{
    hole->n_sizes = 0;
    for (int t = 0; t < hole->expr.n_terms; t++)
        for (int i = 0; i < hole->expr.terms[t].n; i++) {
            size_variable_t *variable = &hole->expr.terms[t].parts[i].variable;
            const int index = variable->dim;
            variable->dim = hole->n_sizes;
            add_size(seeking, index, hole);
        }
}

static bool explain(seeking_t *seeking, hole_t *hole)
{
    const int64_t *sizes[MAX_VARIABLES];
    size_variable_t variables[MAX_VARIABLES];
    int chosen[SIZE_MAX_VARIABLES];
    for (int v = 0; v < seeking->n; v++) {
        sizes[v] = seeking->variables[v].sizes;
        variables[v] = (size_variable_t){.name = NULL, .dim = v};
    }
    const size_samples_t samples = {seeking->n_graphs, seeking->n, sizes, variables};
    seeking->hole = hole;
    if (hole->is_float) {
        const int n = size_seek(&samples, explain_product, seeking, chosen);
        hole->n_sizes = 0;
        for (int i = 0; i < n; i++) add_size(seeking, chosen[i], hole);
        return n > 0;
    }
    bool is_found = seeking->pool != NULL &&
                    size_fit(&samples, seeking->pool, seeking->integers, &hole->expr);
    is_found = is_found || size_fit_any(&samples, seeking->integers, &hole->expr);
    if (is_found) take_sizes(seeking, hole);
    return is_found;
}

static void add_inputs(seeking_t *seeking)
{
    const graph_block_t *body = graph_body(seeking->graphs[0]);
    for (int i = graph_first_input(seeking->graphs[0]); i < body->n_params; i++)
        add_variables(seeking, body->params[i], true);
}

static void explain_attribute(seeking_t *seeking, const graph_node_t *node, hole_t *hole)
{
    for (int g = 0; g < seeking->n_graphs; g++)
        seeking->integers[g] = integer_at(graph_body(seeking->graphs[g])->nodes[hole->node],
                                          hole->field, hole->index);
    add_inputs(seeking);
    if (node->n_inputs > 0 && node->inputs[0] >= 0) add_variables(seeking, node->inputs[0], false);
    hole->is_found = explain(seeking, hole);
}

/* Adds sizes of intermediate values to the pool, as expressions of input sizes. */
static void fill_pool(seeking_t *seeking, size_pool_t *pool)
{
    const int64_t *sizes[MAX_VARIABLES];
    size_variable_t variables[MAX_VARIABLES];
    add_inputs(seeking);
    const int n = seeking->n;
    for (int v = 0; v < n; v++) {
        sizes[v] = seeking->variables[v].sizes;
        variables[v] = (size_variable_t){.name = NULL, .dim = v};
    }
    const size_samples_t samples = {seeking->n_graphs, n, sizes, variables};
    for (value_t value = 0; value < graph_n_values(seeking->graphs[0]); value++) {
        seeking->n = n;
        add_variables(seeking, value, false);
        for (int v = n; v < seeking->n; v++)
            size_pool_add(pool, &samples, seeking->variables[v].sizes);
    }
}

/* Finds an expression of input sizes for a number, else of sizes of earlier values, the latest
 * value first. */
static void explain_number(seeking_t *seeking, const graph_node_t *node, hole_t *hole)
{
    hole->is_float = datum_kind(node->datum) == DATUM_FLOAT;
    for (int g = 0; g < seeking->n_graphs; g++) {
        const datum_t *datum = graph_body(seeking->graphs[g])->nodes[hole->node]->datum;
        seeking->floats[g] = datum_as_float(datum);
        seeking->integers[g] = hole->is_float ? 0 : datum_as_int(datum);
    }
    add_inputs(seeking);
    hole->is_found = explain(seeking, hole);
    const size_pool_t *pool = seeking->pool;
    seeking->pool = NULL;
    for (value_t value = node->outputs[0] - 1; value >= 0 && !hole->is_found; value--) {
        seeking->n = 0;
        add_variables(seeking, value, false);
        hole->is_found = explain(seeking, hole);
    }
    seeking->pool = pool;
}

static status_t add_hole(holes_t *holes, seeking_t *seeking, const hole_t *found)
{
    hole_t hole = *found;
    const graph_node_t *node = graph_body(seeking->graphs[0])->nodes[hole.node];
    seeking->n = 0;
    if (hole.field >= 0)
        explain_attribute(seeking, node, &hole);
    else
        explain_number(seeking, node, &hole);
    TRY(context_grow(holes->ctx, &holes->items, &holes->capacity, holes->n + 1,
                     sizeof *holes->items));
    holes->items[holes->n++] = hole;
    return STATUS_OK;
}

static status_t find_at(holes_t *holes, seeking_t *seeking, int at)
{
    const graph_t *const *graphs = seeking->graphs;
    const graph_node_t *node = graph_body(graphs[0])->nodes[at];
    int n_fields = node->kind == NODE_OP ? node->op->attrs.n_fields : 0;
    bool varies = false;
    for (int g = 1; g < seeking->n_graphs && node->kind == NODE_CONSTANT && is_number(node->datum);
         g++)
        varies |= !same_number(node->datum, graph_body(graphs[g])->nodes[at]->datum);
    if (varies) TRY(add_hole(holes, seeking, &(hole_t){.node = at, .field = -1}));
    for (int f = 0; f < n_fields; f++)
        for (int i = 0; i < n_integers(node, f); i++) {
            varies = false;
            for (int g = 1; g < seeking->n_graphs; g++)
                varies |= integer_at(node, f, i) !=
                          integer_at(graph_body(graphs[g])->nodes[at], f, i);
            if (varies)
                TRY(add_hole(holes, seeking, &(hole_t){.node = at, .field = f, .index = i}));
        }
    return STATUS_OK;
}

status_t holes_find(holes_t *holes, int n, const graph_t *const *graphs, bool is_at_many)
{
    const graph_block_t *body = graph_body(graphs[0]);
    seeking_t *seeking = NULL;
    size_pool_t *pool = NULL;
    holes->n = 0;
    TRY(context_get_zeroed(holes->ctx, sizeof *seeking, "sizes of a trace", &seeking));
    seeking->n_graphs = n;
    seeking->graphs = graphs;
    status_t status = STATUS_OK;
    if (is_at_many)
        status = context_get_zeroed(holes->ctx, sizeof *pool, "sizes inside a trace", &pool);
    if (pool != NULL) fill_pool(seeking, pool);
    seeking->pool = pool;
    for (int at = 0; at < body->n_nodes && status == STATUS_OK; at++)
        status = find_at(holes, seeking, at);
    CONTEXT_PUT(holes->ctx, pool, seeking);
    return status;
}

const hole_t *holes_open(const holes_t *holes)
{
    for (int i = 0; i < holes->n; i++)
        if (!holes->items[i].is_found) return &holes->items[i];
    return NULL;
}

/* ---- comparison ---- */

typedef struct sizes_in {
    const graph_t *graph;
    const hole_t *hole;
} sizes_in_t;

static bool size_in(void *user, const size_variable_t *variable, int64_t *out_size)
{
    const sizes_in_t *in = user;
    const graph_type_t *type = graph_value_type(in->graph, in->hole->values[variable->dim]);
    const int dim = in->hole->dims[variable->dim];
    if (!type_is_static(type) || dim >= type->info.rank) return false;
    *out_size = type->info.sizes[dim];
    return true;
}

static bool float_agrees(sizes_in_t *in, double found)
{
    int64_t product = 1, size = 0;
    for (int i = 0; i < in->hole->n_sizes; i++)
        if (!size_in(in, &(size_variable_t){.dim = i}, &size) ||
            !shape_multiply(product, size, &product))
            return false;
    const double all = (double)product, number = in->hole->number;
    return (in->hole->is_inverse ? number / all : all * number) == found;
}

static bool agrees(const graph_t *graph, const hole_t *hole)
{
    const graph_node_t *node = graph_body(graph)->nodes[hole->node];
    sizes_in_t in = {graph, hole};
    int64_t value = 0;
    if (hole->is_float) return float_agrees(&in, datum_as_float(node->datum));
    return size_calculate(&hole->expr, size_in, &in, &value) &&
           value == (hole->field < 0 ? datum_as_int(node->datum)
                                     : integer_at(node, hole->field, hole->index));
}

static const hole_t *find_hole(const holes_t *holes, int node, int field, int index)
{
    for (int i = 0; i < holes->n; i++) {
        const hole_t *hole = &holes->items[i];
        if (hole->node == node && hole->field == field && hole->index == index) return hole;
    }
    return NULL;
}

static bool node_agrees(const holes_t *holes, const graph_t *base, const graph_t *graph, int at)
{
    const graph_node_t *node = graph_body(graph)->nodes[at], *own = graph_body(base)->nodes[at];
    if (node->kind == NODE_CONSTANT && is_number(node->datum)) {
        const hole_t *hole = find_hole(holes, at, -1, 0);
        return hole != NULL ? agrees(graph, hole) : same_number(node->datum, own->datum);
    }
    int n_fields = node->kind == NODE_OP ? node->op->attrs.n_fields : 0;
    for (int f = 0; f < n_fields; f++)
        for (int i = 0; i < n_integers(node, f); i++) {
            const hole_t *hole = find_hole(holes, at, f, i);
            bool is_right = hole != NULL ? agrees(graph, hole)
                                         : integer_at(node, f, i) == integer_at(own, f, i);
            if (!is_right) return false;
        }
    return true;
}

bool holes_agree(const holes_t *holes, const graph_t *base, const graph_t *graph,
                 const graph_node_t **out_node)
{
    for (int at = 0; at < graph_body(base)->n_nodes; at++) {
        if (node_agrees(holes, base, graph, at)) continue;
        *out_node = graph_body(base)->nodes[at];
        return false;
    }
    return true;
}

/* ---- filling holes ---- */

typedef struct filling {
    const holes_t *holes;
    const graph_t *base;
    const graph_type_t *types;
    int at; /* index of the next node in the body */
} filling_t;

static value_t add_builtin(rewrite_t *rewrite, const char *name, value_t a, value_t b)
{
    graph_node_t node = {.kind = NODE_BUILTIN, .name = name, .n_inputs = 2, .n_outputs = 1};
    value_t out = VALUE_NONE;
    graph_add_node(rewrite->to, &node, (value_t[]){a, b}, NULL, NULL, &out);
    return out;
}

static status_t add_int(rewrite_t *rewrite, int64_t number, value_t *out_value)
{
    datum_t *datum = NULL;
    TRY(datum_int(rewrite->ctx, number, &datum));
    *out_value = graph_add_literal(rewrite->to, datum);
    datum_release(datum);
    return STATUS_OK;
}

static status_t add_float(rewrite_t *rewrite, double number, value_t *out_value)
{
    datum_t *datum = NULL;
    TRY(datum_float(rewrite->ctx, number, &datum));
    *out_value = graph_add_literal(rewrite->to, datum);
    datum_release(datum);
    return STATUS_OK;
}

static status_t add_step(rewrite_t *rewrite, const char *name, int64_t number, value_t *value)
{
    value_t operand = VALUE_NONE;
    TRY(add_int(rewrite, number, &operand));
    *value = add_builtin(rewrite, name, *value, operand);
    return STATUS_OK;
}

static status_t add_size_of(rewrite_t *rewrite, const hole_t *hole, int index, value_t *out_value)
{
    value_t dim = VALUE_NONE;
    TRY(add_int(rewrite, hole->dims[index], &dim));
    *out_value = add_builtin(rewrite, "size", rewrite_value(rewrite, hole->values[index]), dim);
    return STATUS_OK;
}

static status_t add_part(rewrite_t *rewrite, const hole_t *hole, const size_part_t *part,
                         value_t *out_value)
{
    TRY(add_size_of(rewrite, hole, part->variable.dim, out_value));
    if (part->offset != 0) TRY(add_step(rewrite, "scalar_add", part->offset, out_value));
    if (part->divisor != 1) TRY(add_step(rewrite, "scalar_floordiv", part->divisor, out_value));
    return STATUS_OK;
}

static status_t add_term(rewrite_t *rewrite, const hole_t *hole, const size_term_t *term,
                         value_t *out_value)
{
    for (int i = 0; i < term->n; i++) {
        value_t part = VALUE_NONE;
        TRY(add_part(rewrite, hole, &term->parts[i], &part));
        *out_value = i == 0 ? part : add_builtin(rewrite, "scalar_mul", *out_value, part);
    }
    return term->factor != 1 ? add_step(rewrite, "scalar_mul", term->factor, out_value) : STATUS_OK;
}

static status_t add_expr(rewrite_t *rewrite, const hole_t *hole, value_t *out_value)
{
    const size_expr_t *expr = &hole->expr;
    for (int t = 0; t < expr->n_terms; t++) {
        value_t term = VALUE_NONE;
        TRY(add_term(rewrite, hole, &expr->terms[t], &term));
        *out_value = t == 0 ? term : add_builtin(rewrite, "scalar_add", *out_value, term);
    }
    if (expr->offset != 0) TRY(add_step(rewrite, "scalar_add", expr->offset, out_value));
    return STATUS_OK;
}

/* Adds nodes (size, scalar_mul, ...) that compute the hole's number. */
static status_t add_number(rewrite_t *rewrite, const hole_t *hole, value_t *out_value)
{
    value_t result = VALUE_NONE, number = VALUE_NONE;
    if (!hole->is_float) return add_expr(rewrite, hole, out_value);
    for (int i = 0; i < hole->n_sizes; i++) {
        value_t size = VALUE_NONE;
        TRY(add_size_of(rewrite, hole, i, &size));
        result = i == 0 ? size : add_builtin(rewrite, "scalar_mul", result, size);
    }
    TRY(add_float(rewrite, hole->number, &number));
    *out_value = hole->is_inverse ? add_builtin(rewrite, "scalar_div", number, result)
                                  : add_builtin(rewrite, "scalar_mul", result, number);
    return STATUS_OK;
}

/* The variable that an expression uses for a size: a name if it is a named size of an input. */
static size_variable_t variable_of(const filling_t *filling, const hole_t *hole, int index)
{
    size_variable_t variable = {.name = NULL, .dim = hole->dims[index]};
    const graph_block_t *body = graph_body(filling->base);
    for (int p = 0; p < body->n_params; p++)
        if (body->params[p] == hole->values[index])
            variable.name = type_dim_name(&filling->types[p], hole->dims[index]);
    return variable;
}

static status_t size_hole(rewrite_t *rewrite, const hole_t *hole, sized_attr_t *out_sized)
{
    size_expr_t expr = hole->expr;
    *out_sized = (sized_attr_t){.field = hole->field, .index = hole->index};
    for (int t = 0; t < expr.n_terms; t++)
        for (int i = 0; i < expr.terms[t].n; i++) {
            size_variable_t *variable = &expr.terms[t].parts[i].variable;
            *variable = variable_of(rewrite->user, hole, variable->dim);
        }
    TRY(graph_space(rewrite->ctx, graph_builder_graph(rewrite->to), &out_sized->space));
    return size_symbol(rewrite->ctx, &expr, out_sized->space, &out_sized->value);
}

static status_t emit_sized(rewrite_t *rewrite, const graph_node_t *node, int n,
                           const sized_attr_t *sized)
{
    graph_node_t copy = *node;
    value_t *inputs = NULL;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs", &inputs));
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    copy.n_sized = n;
    copy.sized = sized;
    FINISH(rewrite_copy_with(rewrite, &copy, inputs), context_put(rewrite->ctx, inputs));
}

static status_t fill_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    filling_t *filling = rewrite->user;
    const holes_t *holes = filling->holes;
    int at = filling->at++, n = 0;
    sized_attr_t *sized = NULL;
    TRY(context_get(rewrite->ctx, (size_t)holes->n * sizeof *sized, "sized integers", &sized));
    status_t status = STATUS_OK;
    for (int i = 0; i < holes->n && status == STATUS_OK; i++) {
        const hole_t *hole = &holes->items[i];
        value_t value = VALUE_NONE;
        if (hole->node != at) continue;
        *out_done = true;
        if (hole->field >= 0) {
            status = size_hole(rewrite, hole, &sized[n++]);
            continue;
        }
        status = add_number(rewrite, hole, &value);
        rewrite_map(rewrite, node->outputs[0], value);
    }
    if (status == STATUS_OK && n > 0) status = emit_sized(rewrite, node, n, sized);
    context_put(rewrite->ctx, sized);
    return status;
}

status_t holes_fill(holes_t *holes, const graph_t *base, const graph_type_t *types,
                    graph_t **out_graph)
{
    filling_t filling = {holes, base, types, 0};
    return rewrite_graph_params(holes->ctx, base, fill_node, types, &filling, out_graph);
}
