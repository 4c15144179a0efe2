/* Computes, compares, copies and prints sized integers. */
#include "graph/ir/size_impl.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"
#include "tensor/sym/sym_impl.h"

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

/* ---- computing ---- */

/* The size that a name has; -1 if no input has the name or the inputs are unknown. */
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

/* Sources of the sizes that a node's expressions use. */
typedef struct sizes {
    const size_names_t *names;
    const tensor_info_t *first; /* operand 0; NULL: unknown */
} sizes_t;

/* True for a name such as "#2", which is size 2 of operand 0; other names are sizes of inputs. */
static bool is_dimension(const char *name)
{
    return name[0] == '#';
}

static bool size_of_name_or_dim(void *user, int number, const char *name, int64_t *out_size)
{
    const sizes_t *sizes = user;
    (void)number;
    if (is_dimension(name)) {
        const long dim = strtol(name + 1, NULL, 10);
        if (sizes->first == NULL || dim >= sizes->first->rank) return false;
        *out_size = sizes->first->sizes[dim];
    } else {
        *out_size = size_of_name(sizes->names, name);
    }
    return *out_size >= 0;
}

static bool name_is_dimension(void *user, int number, const char *name)
{
    (void)user, (void)number;
    return is_dimension(name);
}

static bool name_is_name(void *user, int number, const char *name)
{
    return !name_is_dimension(user, number, name);
}

static status_t leave(context_t *ctx, sizes_t *sizes, const sized_attr_t *sized, sym_space_t *space,
                      sized_attr_t *out_left)
{
    *out_left = *sized;
    out_left->space = space;
    return sym_put(ctx, sized->space, sized->value, space, size_of_name_or_dim, sizes,
                   &out_left->value);
}

status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, size_left_t *left)
{
    sizes_t sizes = {names, first};
    for (int i = 0; i < node->n_sized; i++) {
        const sized_attr_t *sized = &node->sized[i];
        if (first == NULL && left != NULL &&
            sym_any_name(sized->space, sized->value, name_is_dimension, NULL)) {
            TRY(leave(ctx, &sizes, sized, left->space, &left->sized[left->n]));
            left->n++;
            continue;
        }
        REQUIRE(ctx,
                sym_calculate(sized->space, sized->value, size_of_name_or_dim, &sizes,
                              size_place(node->op, attrs, sized->field, sized->index)),
                "%s: %s[%d] depends on a size that is unknown or too large", node->op->name,
                node->op->attrs.fields[sized->field].name, sized->index);
    }
    return STATUS_OK;
}

/* ---- comparing and copying ---- */

static bool same_value(const sized_attr_t *a, const sized_attr_t *b)
{
    char x[4096], y[4096];
    if (a->space == b->space) return a->value == b->value;
    sym_print(a->space, a->value, sizeof x, x);
    sym_print(b->space, b->value, sizeof y, y);
    return strlen(x) + 1 < sizeof x && strcmp(x, y) == 0;
}

bool size_equal(const graph_node_t *a, const graph_node_t *b)
{
    if (a->n_sized != b->n_sized) return false;
    for (int i = 0; i < a->n_sized; i++)
        if (a->sized[i].field != b->sized[i].field || a->sized[i].index != b->sized[i].index ||
            !same_value(&a->sized[i], &b->sized[i]))
            return false;
    return true;
}

bool size_has_names(const graph_node_t *node)
{
    for (int i = 0; i < node->n_sized; i++)
        if (sym_any_name(node->sized[i].space, node->sized[i].value, name_is_name, NULL))
            return true;
    return false;
}

static bool is_possible(const opdef_t *op, const void *attrs, const sized_attr_t *sized)
{
    void *place;
    memcpy(&place, &attrs, sizeof place);
    return size_place(op, place, sized->field, sized->index) != NULL && sized->value != SYM_NONE &&
           (!sym_is(sized->value) ||
            (sized->space != NULL && sym_find(sized->space, sized->value) != NULL));
}

status_t size_copy(context_t *ctx, graph_t *graph, const opdef_t *op, const void *attrs, int n,
                   const sized_attr_t *sized, const sized_attr_t **out_sized)
{
    sized_attr_t *copy = NULL;
    *out_sized = NULL;
    if (n == 0) return STATUS_OK;
    TRY(graph_get(ctx, graph, (size_t)n * sizeof *copy, &copy));
    for (int i = 0; i < n; i++) {
        REQUIRE(ctx, is_possible(op, attrs, &sized[i]),
                "%s: sized integer %d belongs to no attribute", op->name, i);
        copy[i] = sized[i];
        if (graph->space == NULL) graph_set_space(graph, sized[i].space);
        copy[i].space = graph->space;
        if (sized[i].space != graph->space && sym_is(sized[i].value))
            TRY(sym_put(ctx, sized[i].space, sized[i].value, graph->space, NULL, NULL,
                        &copy[i].value));
    }
    *out_sized = copy;
    return STATUS_OK;
}

/* ---- printing ---- */

void size_print(const graph_node_t *node, text_t *text)
{
    for (int i = 0; i < node->n_sized; i++) {
        const sized_attr_t *sized = &node->sized[i];
        const attr_field_t *field = &node->op->attrs.fields[sized->field];
        text_append(text, "%s%s", i == 0 ? " where " : ", ", field->name);
        if (field->kind != ATTR_INT) text_append(text, "[%d]", sized->index);
        text_append(text, "=");
        sym_append(text, sized->space, sized->value);
    }
}
