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

static bool divide(int64_t value, int64_t divisor, int64_t *out_value)
{
    if (divisor < 1) return false;
    *out_value = value / divisor - (value % divisor < 0);
    return true;
}

static bool calculate_part(const size_part_t *part, size_of_t size_of, void *user,
                           int64_t *out_value)
{
    int64_t size = 0;
    return size_of(user, &part->variable, &size) &&
           !__builtin_add_overflow(size, part->offset, &size) &&
           divide(size, part->divisor, out_value);
}

bool size_calculate(const size_expr_t *expr, size_of_t size_of, void *user, int64_t *out_value)
{
    int64_t sum = expr->offset;
    for (int t = 0; t < expr->n_terms; t++) {
        const size_term_t *term = &expr->terms[t];
        int64_t product = term->factor, value = 0;
        for (int i = 0; i < term->n; i++)
            if (!calculate_part(&term->parts[i], size_of, user, &value) ||
                __builtin_mul_overflow(product, value, &product))
                return false;
        if (__builtin_add_overflow(sum, product, &sum)) return false;
    }
    return divide(sum, expr->divisor, out_value);
}

/* -1 when no input has this name, or inputs are not known. */
static int64_t size_of_name(const size_names_t *names, const char *name)
{
    const graph_block_t *body = graph_body(names->graph);
    int first = graph_first_input(names->graph);
    for (int i = first; names->in != NULL && i < body->n_params; i++) {
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

/* Where variables of a node's expressions have their sizes. */
typedef struct sizes {
    const size_names_t *names;
    const tensor_info_t *first; /* operand 0; NULL: not known */
} sizes_t;

static bool size_of_variable(void *user, const size_variable_t *variable, int64_t *out_size)
{
    const sizes_t *sizes = user;
    if (variable->name != NULL)
        *out_size = size_of_name(sizes->names, variable->name);
    else if (sizes->first != NULL && variable->dim < sizes->first->rank)
        *out_size = sizes->first->sizes[variable->dim];
    else
        return false;
    return *out_size >= 0;
}

static bool has_dims(const size_expr_t *expr)
{
    for (int t = 0; t < expr->n_terms; t++)
        for (int i = 0; i < expr->terms[t].n; i++)
            if (expr->terms[t].parts[i].variable.name == NULL) return true;
    return false;
}

/* The term with what names stand for in its factor. */
static bool put_names_of(sizes_t *sizes, const size_term_t *term, size_term_t *out_term)
{
    *out_term = *term;
    out_term->n = 0;
    for (int i = 0; i < term->n; i++) {
        int64_t value = 0;
        if (term->parts[i].variable.name == NULL)
            out_term->parts[out_term->n++] = term->parts[i];
        else if (!calculate_part(&term->parts[i], size_of_variable, sizes, &value) ||
                 __builtin_mul_overflow(out_term->factor, value, &out_term->factor))
            return false;
    }
    return true;
}

/* The same expression. */
static bool put_names(sizes_t *sizes, const size_expr_t *expr, size_expr_t *out_expr)
{
    size_expr_t put = {.offset = expr->offset, .divisor = expr->divisor};
    for (int t = 0; t < expr->n_terms; t++) {
        size_term_t *term = &put.terms[put.n_terms];
        if (!put_names_of(sizes, &expr->terms[t], term)) return false;
        if (term->n > 0)
            put.n_terms++;
        else if (__builtin_add_overflow(put.offset, term->factor, &put.offset))
            return false;
    }
    *out_expr = put;
    return true;
}

status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, int *out_n, sized_attr_t *out_sized)
{
    sizes_t sizes = {names, first};
    if (out_n != NULL) *out_n = 0;
    for (int i = 0; i < node->n_sized; i++) {
        const sized_attr_t *sized = &node->sized[i];
        if (first == NULL && out_n != NULL && has_dims(&sized->value)) {
            sized_attr_t *left = &out_sized[(*out_n)++];
            *left = *sized;
            if (put_names(&sizes, &sized->value, &left->value)) continue;
        }
        REQUIRE(ctx,
                size_calculate(&sized->value, size_of_variable, &sizes,
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

/* But for the factor. */
static bool same_term(const size_term_t *a, const size_term_t *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const size_part_t *x = &a->parts[i], *y = &b->parts[i];
        if (x->offset != y->offset || x->divisor != y->divisor ||
            !same_variable(&x->variable, &y->variable))
            return false;
    }
    return true;
}

static bool same_expr(const size_expr_t *a, const size_expr_t *b)
{
    if (a->offset != b->offset || a->divisor != b->divisor || a->n_terms != b->n_terms)
        return false;
    for (int t = 0; t < a->n_terms; t++)
        if (a->terms[t].factor != b->terms[t].factor || !same_term(&a->terms[t], &b->terms[t]))
            return false;
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
    for (int i = 0; i < node->n_sized; i++) {
        const size_expr_t *expr = &node->sized[i].value;
        for (int t = 0; t < expr->n_terms; t++)
            for (int v = 0; v < expr->terms[t].n; v++)
                if (expr->terms[t].parts[v].variable.name != NULL) return true;
    }
    return false;
}

static bool is_whole(const size_expr_t *expr)
{
    if (expr->n_terms < 0 || expr->n_terms > SIZE_MAX_TERMS || expr->divisor < 1) return false;
    for (int t = 0; t < expr->n_terms; t++) {
        const size_term_t *term = &expr->terms[t];
        if (term->n < 0 || term->n > SIZE_MAX_VARIABLES) return false;
        for (int i = 0; i < term->n; i++)
            if (term->parts[i].divisor < 1) return false;
    }
    return true;
}

static bool is_possible(const opdef_t *op, const void *attrs, const sized_attr_t *sized)
{
    void *place;
    memcpy(&place, &attrs, sizeof place);
    return size_place(op, place, sized->field, sized->index) != NULL && is_whole(&sized->value);
}

static status_t copy_names(context_t *ctx, graph_t *graph, size_term_t *term)
{
    for (int i = 0; i < term->n; i++) {
        size_variable_t *variable = &term->parts[i].variable;
        TRY(graph_string(ctx, graph, variable->name, &variable->name));
    }
    return STATUS_OK;
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
        for (int t = 0; t < copy[i].value.n_terms; t++)
            TRY(copy_names(ctx, graph, &copy[i].value.terms[t]));
    }
    *out_sized = copy;
    return STATUS_OK;
}

/* ---- sums and products ---- */

static bool add_term(size_expr_t *expr, const size_term_t *term)
{
    for (int t = 0; t < expr->n_terms; t++) {
        size_term_t *own = &expr->terms[t];
        if (!same_term(own, term)) continue;
        if (__builtin_add_overflow(own->factor, term->factor, &own->factor)) return false;
        if (own->factor == 0) *own = expr->terms[--expr->n_terms];
        return true;
    }
    if (term->factor == 0) return true;
    if (term->n == 0) return !__builtin_add_overflow(expr->offset, term->factor, &expr->offset);
    if (expr->n_terms == SIZE_MAX_TERMS) return false;
    expr->terms[expr->n_terms++] = *term;
    return true;
}

/* Term t; behind the last one the offset. */
static size_term_t term_at(const size_expr_t *expr, int t)
{
    return t < expr->n_terms ? expr->terms[t] : (size_term_t){.factor = expr->offset};
}

bool size_add(size_expr_t *a, int64_t factor, const size_expr_t *b)
{
    size_expr_t sum = *a;
    INVARIANT(a->divisor == 1 && b->divisor == 1);
    for (int t = 0; t <= b->n_terms; t++) {
        size_term_t term = term_at(b, t);
        if (__builtin_mul_overflow(term.factor, factor, &term.factor) || !add_term(&sum, &term))
            return false;
    }
    *a = sum;
    return true;
}

bool size_multiply(size_expr_t *a, const size_expr_t *b)
{
    size_expr_t product = {.divisor = 1};
    INVARIANT(a->divisor == 1 && b->divisor == 1);
    for (int t = 0; t <= a->n_terms; t++)
        for (int u = 0; u <= b->n_terms; u++) {
            size_term_t term = term_at(a, t), other = term_at(b, u);
            if (term.factor == 0 || other.factor == 0) continue;
            if (__builtin_mul_overflow(term.factor, other.factor, &term.factor) ||
                term.n + other.n > SIZE_MAX_VARIABLES)
                return false;
            for (int i = 0; i < other.n; i++) term.parts[term.n++] = other.parts[i];
            if (!add_term(&product, &term)) return false;
        }
    *a = product;
    return true;
}

/* ---- printing ---- */

/* "(H+6)/8", in a product "((H+6)/8)". */
static void print_part(const size_part_t *part, bool is_factor, text_t *text)
{
    const bool is_quotient = part->divisor != 1 || part->offset != 0;
    if (is_quotient) text_append(text, is_factor ? "((" : "(");
    if (part->variable.name != NULL)
        text_append(text, "%s", part->variable.name);
    else
        text_append(text, "#%d", part->variable.dim);
    if (part->offset != 0) text_append(text, "%+" PRId64, part->offset);
    if (is_quotient) text_append(text, ")/%" PRId64 "%s", part->divisor, is_factor ? ")" : "");
}

static void print_term(const size_term_t *term, bool is_first, text_t *text)
{
    const bool is_one = term->factor == 1 || term->factor == -1;
    const char *plus = is_first ? "" : "+";
    if (is_one && term->n > 0)
        text_append(text, "%s", term->factor < 0 ? "-" : plus);
    else
        text_append(text, "%s%" PRId64 "%s", term->factor < 0 ? "" : plus, term->factor,
                    term->n > 0 ? "*" : "");
    for (int i = 0; i < term->n; i++) {
        if (i > 0) text_append(text, "*");
        print_part(&term->parts[i], !is_one || term->n > 1, text);
    }
}

static void print_expr(const size_expr_t *expr, text_t *text)
{
    if (expr->divisor > 1) text_append(text, "(");
    for (int t = 0; t < expr->n_terms; t++) print_term(&expr->terms[t], t == 0, text);
    if (expr->n_terms == 0)
        text_append(text, "%" PRId64, expr->offset);
    else if (expr->offset != 0)
        text_append(text, "%+" PRId64, expr->offset);
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
