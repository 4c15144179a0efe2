#include "tests/support/rounds.h"

#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#define MAX_ELEMENTS 64

/* ---- text ---- */

graph_t *rounds_of_text(context_t *ctx, const graph_t *graph)
{
    datum_t *pool = NULL, *pool_again = NULL;
    graph_t *again = NULL;
    text_t text = text_begin(ctx), text_again = text_begin(ctx);
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &pool));
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &pool_again));
    CHECK_OK(ctx, graph_print(ctx, graph, pool, &text));
    status_t status = graph_parse(ctx, text_string(&text), pool, &again);
    if (status != STATUS_OK) print_message("%s\n%s", context_error(ctx), text_string(&text));
    if (status == STATUS_OK) CHECK_OK(ctx, graph_print(ctx, again, pool_again, &text_again));
    if (again != NULL && strcmp(text_string(&text), text_string(&text_again)) != 0) {
        print_message("%s\nis again\n%s", text_string(&text), text_string(&text_again));
        graph_release(again);
        again = NULL;
    }
    datum_release(pool);
    datum_release(pool_again);
    text_clear(&text);
    text_clear(&text_again);
    return again;
}

static status_t reread(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)user;
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        const graph_t *graph = kind == MEMBER_METHOD ? graph_of(module, name) : NULL;
        if (graph == NULL) continue;
        graph_t *again = rounds_of_text(ctx, graph);
        assert_non_null(again);
        CHECK_OK(ctx, graph_set_method(ctx, module, name, again));
        graph_release(again);
    }
    return STATUS_OK;
}

module_t *rounds_of_module(context_t *ctx, const module_t *module)
{
    module_t *copy = NULL;
    CHECK_OK(ctx, module_clone(ctx, module, &copy));
    CHECK_OK(ctx, module_walk(ctx, copy, reread, NULL));
    return copy;
}

/* ---- values ---- */

static bool is_container(datum_kind_t kind)
{
    return kind == DATUM_LIST || kind == DATUM_TUPLE || kind == DATUM_DICT;
}

/* Reads the elements. Returns false if the tensor is not a small f32 tensor. */
static bool read_floats(context_t *ctx, const tensor_t *tensor, float *values)
{
    if (tensor_dtype(tensor) != DTYPE_F32 || tensor_numel(tensor) > MAX_ELEMENTS) return false;
    CHECK_OK(ctx, tensor_read(ctx, tensor, values, MAX_ELEMENTS * sizeof *values));
    return true;
}

void rounds_show(context_t *ctx, const datum_t *datum, text_t *text)
{
    datum_kind_t kind = datum_kind(datum);
    float values[MAX_ELEMENTS];
    if (kind == DATUM_TENSOR && read_floats(ctx, datum_as_tensor(datum), values)) {
        text_append(text, "<");
        for (int i = 0; i < (int)tensor_numel(datum_as_tensor(datum)); i++)
            text_append(text, "%s%g", i > 0 ? " " : "", (double)values[i]);
        text_append(text, ">");
        return;
    }
    if (!is_container(kind)) {
        datum_print(datum, text);
        return;
    }
    text_append(text, "%s", kind == DATUM_LIST ? "[" : kind == DATUM_TUPLE ? "(" : "{");
    for (int i = 0; i < datum_length(datum); i++) {
        if (i > 0) text_append(text, " ");
        if (kind == DATUM_DICT) text_append(text, "%s: ", datum_key(datum, i));
        rounds_show(ctx, datum_item(datum, i), text);
    }
    text_append(text, "%s", kind == DATUM_LIST ? "]" : kind == DATUM_TUPLE ? ")" : "}");
}

static bool near(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= tolerance * (1.0 + fabs(b));
}

static bool near_tensors(context_t *ctx, const tensor_t *a, const tensor_t *b, double tolerance)
{
    float x[MAX_ELEMENTS], y[MAX_ELEMENTS];
    bool is_near = tensor_rank(a) == tensor_rank(b);
    for (int d = 0; d < tensor_rank(a) && is_near; d++)
        is_near = tensor_sizes(a)[d] == tensor_sizes(b)[d];
    if (!is_near || !read_floats(ctx, a, x) || !read_floats(ctx, b, y)) return false;
    for (int64_t i = 0; i < tensor_numel(a) && is_near; i++)
        is_near = near((double)x[i], (double)y[i], tolerance);
    return is_near;
}

bool rounds_near(context_t *ctx, const datum_t *a, const datum_t *b, double tolerance)
{
    datum_kind_t kind = datum_kind(a);
    if (kind != datum_kind(b)) return false;
    if (kind == DATUM_FLOAT) return near(datum_as_float(a), datum_as_float(b), tolerance);
    if (datum_equal(ctx, a, b)) return true;
    if (kind == DATUM_TENSOR)
        return near_tensors(ctx, datum_as_tensor(a), datum_as_tensor(b), tolerance);
    if (!is_container(kind)) return false;
    if (datum_length(a) != datum_length(b)) return false;
    for (int i = 0; i < datum_length(a); i++) {
        if (kind == DATUM_DICT && strcmp(datum_key(a, i), datum_key(b, i)) != 0) return false;
        if (!rounds_near(ctx, datum_item(a, i), datum_item(b, i), tolerance)) return false;
    }
    return true;
}
