/* Sized integers: evaluated, compared, copied and printed. */
#include "graph/ir/size_impl.h"

#include <inttypes.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"

int64_t *size_place(const opdef_t *op, void *attrs, int field, int index)
{
    if (field < 0 || field >= op->attrs.n_fields || index < 0) return NULL;
    const attr_field_t *at = &op->attrs.fields[field];
    char *place = (char *)attrs + at->offset;
    switch (at->kind) {
    case ATTR_INT: return index == 0 ? (int64_t *)(void *)place : NULL;
    case ATTR_ARRAY: return index < at->length ? (int64_t *)(void *)place + index : NULL;
    case ATTR_INTS: {
        ints_t *ints = (ints_t *)(void *)place;
        return index < ints->n ? &ints->values[index] : NULL;
    }
    default: return NULL;
    }
}

/* ---- evaluating ---- */

bool size_calculate(const size_expr_t *expr, int64_t product, int64_t *out_value)
{
    int64_t value = 0;
    if (__builtin_mul_overflow(expr->factor, product, &value) ||
        __builtin_add_overflow(value, expr->offset, &value) || expr->divisor < 1)
        return false;
    *out_value = value / expr->divisor - (value % expr->divisor < 0);
    return true;
}

/* -1 when no input has this name. */
static int64_t size_of_name(const size_names_t *names, const char *name)
{
    const graph_block_t *body = graph_body(names->graph);
    int first = graph_first_input(names->graph);
    for (int i = first; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(names->graph, body->params[i]);
        const tensor_info_t *info = names->in[i - first];
        for (int d = 0; type->kind == TYPE_TENSOR && type->has_info && d < type->info.rank; d++) {
            const char *other = type_dim_name(type, d);
            if (other != NULL && strcmp(other, name) == 0 && info != NULL && d < info->rank)
                return info->sizes[d];
        }
    }
    return -1;
}

static int64_t size_of_variable(const size_names_t *names, const size_variable_t *variable,
                                const tensor_info_t *first)
{
    if (variable->name != NULL) return size_of_name(names, variable->name);
    return first != NULL && variable->dim < first->rank ? first->sizes[variable->dim] : -1;
}

static bool evaluate(const size_names_t *names, const size_expr_t *expr, const tensor_info_t *first,
                     int64_t *out_value)
{
    int64_t product = 1;
    for (int i = 0; i < expr->n; i++) {
        int64_t size = size_of_variable(names, &expr->variables[i], first);
        if (size < 0 || __builtin_mul_overflow(product, size, &product)) return false;
    }
    return size_calculate(expr, product, out_value);
}

static bool has_dims(const size_expr_t *expr)
{
    for (int i = 0; i < expr->n; i++)
        if (expr->variables[i].name == NULL) return true;
    return false;
}

/* The expression with what names stand for in its factor. */
static bool put_names(const size_names_t *names, const size_expr_t *expr, size_expr_t *out_expr)
{
    *out_expr = *expr;
    out_expr->n = 0;
    for (int i = 0; i < expr->n; i++) {
        const size_variable_t *variable = &expr->variables[i];
        if (variable->name == NULL) {
            out_expr->variables[out_expr->n++] = *variable;
            continue;
        }
        int64_t size = size_of_name(names, variable->name);
        if (size < 0 || __builtin_mul_overflow(out_expr->factor, size, &out_expr->factor))
            return false;
    }
    return true;
}

status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, int *out_n, sized_attr_t *out_sized)
{
    if (out_n != NULL) *out_n = 0;
    for (int i = 0; i < node->n_sized; i++) {
        const sized_attr_t *sized = &node->sized[i];
        if (first == NULL && out_n != NULL && has_dims(&sized->value)) {
            sized_attr_t *left = &out_sized[(*out_n)++];
            *left = *sized;
            if (put_names(names, &sized->value, &left->value)) continue;
        }
        REQUIRE(ctx,
                evaluate(names, &sized->value, first,
                         size_place(node->op, attrs, sized->field, sized->index)),
                "%s: %s[%d] follows a size that is not known or too large", node->op->name,
                node->op->attrs.fields[sized->field].name, sized->index);
    }
    return STATUS_OK;
}

/* ---- comparing and copying ---- */

static bool same_variable(const size_variable_t *a, const size_variable_t *b)
{
    if (a->name == NULL || b->name == NULL) return a->name == b->name && a->dim == b->dim;
    return strcmp(a->name, b->name) == 0;
}

static bool same_expr(const size_expr_t *a, const size_expr_t *b)
{
    if (a->factor != b->factor || a->offset != b->offset || a->divisor != b->divisor ||
        a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!same_variable(&a->variables[i], &b->variables[i])) return false;
    return true;
}

bool size_equal(const graph_node_t *a, const graph_node_t *b)
{
    if (a->n_sized != b->n_sized) return false;
    for (int i = 0; i < a->n_sized; i++)
        if (a->sized[i].field != b->sized[i].field || a->sized[i].index != b->sized[i].index ||
            !same_expr(&a->sized[i].value, &b->sized[i].value))
            return false;
    return true;
}

bool size_has_names(const graph_node_t *node)
{
    for (int i = 0; i < node->n_sized; i++)
        for (int v = 0; v < node->sized[i].value.n; v++)
            if (node->sized[i].value.variables[v].name != NULL) return true;
    return false;
}

static bool is_possible(const opdef_t *op, const void *attrs, const sized_attr_t *sized)
{
    void *place;
    memcpy(&place, &attrs, sizeof place);
    return size_place(op, place, sized->field, sized->index) != NULL && sized->value.n >= 0 &&
           sized->value.n <= SIZE_MAX_VARIABLES && sized->value.divisor >= 1;
}

status_t size_copy(context_t *ctx, graph_t *graph, const opdef_t *op, const void *attrs, int n,
                   const sized_attr_t *sized, const sized_attr_t **out_sized)
{
    sized_attr_t *copy = NULL;
    *out_sized = NULL;
    if (n == 0) return STATUS_OK;
    TRY(graph_get(ctx, graph, (size_t)n * sizeof *copy, &copy));
    for (int i = 0; i < n; i++) {
        REQUIRE(ctx, is_possible(op, attrs, &sized[i]), "%s: no attribute has the sized integer %d",
                op->name, i);
        copy[i] = sized[i];
        for (int v = 0; v < copy[i].value.n; v++) {
            size_variable_t *variable = &copy[i].value.variables[v];
            TRY(graph_string(ctx, graph, variable->name, &variable->name));
        }
    }
    *out_sized = copy;
    return STATUS_OK;
}

/* ---- printing ---- */

static void print_expr(const size_expr_t *expr, text_t *text)
{
    if (expr->divisor > 1) text_append(text, "(");
    if (expr->factor != 1 || expr->n == 0)
        text_append(text, "%" PRId64 "%s", expr->factor, expr->n > 0 ? "*" : "");
    for (int i = 0; i < expr->n; i++) {
        const size_variable_t *variable = &expr->variables[i];
        if (i > 0) text_append(text, "*");
        if (variable->name != NULL)
            text_append(text, "%s", variable->name);
        else
            text_append(text, "#%d", variable->dim);
    }
    if (expr->offset != 0) text_append(text, "%+" PRId64, expr->offset);
    if (expr->divisor > 1) text_append(text, ")/%" PRId64, expr->divisor);
}

void size_print(const graph_node_t *node, text_t *text)
{
    for (int i = 0; i < node->n_sized; i++) {
        const sized_attr_t *sized = &node->sized[i];
        const attr_field_t *field = &node->op->attrs.fields[sized->field];
        text_append(text, "%s%s", i == 0 ? " where " : ", ", field->name);
        if (field->kind != ATTR_INT) text_append(text, "[%d]", sized->index);
        text_append(text, "=");
        print_expr(&sized->value, text);
    }
}
