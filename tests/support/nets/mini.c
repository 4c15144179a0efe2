#include "tests/support/nets/mini.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tensor/scope.h"

module_t *mini_module(context_t *ctx, const char *type)
{
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, type, &module));
    return module;
}

module_t *mini_child(context_t *ctx, module_t *parent, const char *name, const char *type)
{
    module_t *child = mini_module(ctx, type);
    CHECK_OK(ctx, module_set_child(ctx, parent, name, child));
    module_release(child);
    return child;
}

void mini_define(context_t *ctx, module_t *module, const char *text)
{
    CHECK_OK(ctx, graph_define(ctx, module, text));
}

void mini_put(context_t *ctx, module_t *module, const char *name, datum_t *value)
{
    CHECK_OK(ctx, module_set_attribute(ctx, module, name, value));
    datum_release(value);
}

void mini_int(context_t *ctx, module_t *module, const char *name, int64_t value)
{
    mini_put(ctx, module, name, mini_number(ctx, value));
}

void mini_bool(context_t *ctx, module_t *module, const char *name, bool value)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_bool(ctx, value, &datum));
    mini_put(ctx, module, name, datum);
}

tensor_t *mini_tensor(context_t *ctx, module_t *module, const char *name, double value)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), value, &tensor));
    CHECK_OK(ctx, module_set_parameter(ctx, module, name, tensor));
    tensor_release(tensor);
    return tensor;
}

datum_t *mini_number(context_t *ctx, int64_t value)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_int(ctx, value, &datum));
    return datum;
}

datum_t *mini_text(context_t *ctx, const char *value)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_string(ctx, value, &datum));
    return datum;
}

datum_t *mini_wrap(context_t *ctx, tensor_t *tensor)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    return datum;
}

datum_t *mini_items(context_t *ctx, datum_kind_t kind, int n, datum_t *const *items)
{
    static const char *const keys[] = {"0", "1", "2", "3"};
    datum_t *datum = NULL;
    assert_true(n <= 4);
    if (kind == DATUM_LIST) CHECK_OK(ctx, datum_list(ctx, n, items, &datum));
    if (kind == DATUM_TUPLE) CHECK_OK(ctx, datum_tuple(ctx, n, items, &datum));
    if (kind == DATUM_DICT) CHECK_OK(ctx, datum_dict(ctx, n, keys, items, &datum));
    for (int i = 0; i < n; i++) datum_release(items[i]);
    return datum;
}

module_t *mini_freeze(context_t *ctx, module_t *module, const char *const *preserved)
{
    module_t *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, module, &(freeze_options_t){.preserved = preserved}, &frozen));
    return frozen;
}

bool mini_has(const module_t *module, const char *path)
{
    return module_parameter(module, path) != NULL || module_buffer(module, path) != NULL ||
           module_attribute(module, path) != NULL || module_child(module, path) != NULL ||
           module_method(module, path, NULL) != NULL;
}

static status_t count_left(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx;
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        bool is_value = kind != MEMBER_CHILD && kind != MEMBER_METHOD;
        *(int *)user += is_value && strcmp(name, "training") != 0 && strcmp(name, "frozen") != 0;
    }
    return STATUS_OK;
}

int mini_n_left(context_t *ctx, module_t *module)
{
    int n = 0;
    CHECK_OK(ctx, module_walk(ctx, module, count_left, &n));
    return n;
}

/* ---- running ---- */

static int call(context_t *ctx, module_t *module, const char *method, double x, datum_t **out)
{
    tensor_t *tensor = NULL;
    int n = METHOD_MAX_OUTPUTS;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), x, &tensor));
    datum_t *in = mini_wrap(ctx, tensor);
    CHECK_OK(ctx, module_call(ctx, module, method, 1, &in, &n, out));
    datum_release(in);
    tensor_release(tensor);
    return n;
}

static double first_of(context_t *ctx, const datum_t *datum)
{
    if (datum_kind(datum) != DATUM_TENSOR) return datum_as_float(datum);
    tensor_t *first = NULL;
    double value = 0.0;
    CHECK_OK(ctx, tensor_narrow(ctx, datum_as_tensor(datum), 0, 0, 1, &first));
    CHECK_OK(ctx, tensor_item(ctx, first, &value));
    tensor_release(first);
    return value;
}

double mini_run(context_t *ctx, module_t *module, const char *method, double x)
{
    datum_t *out[METHOD_MAX_OUTPUTS];
    int n = call(ctx, module, method, x, out);
    assert_true(n > 0);
    double value = first_of(ctx, out[0]);
    while (n > 0) datum_release(out[--n]);
    return value;
}

void mini_same(context_t *ctx, module_t *a, module_t *b, const char *method, double x)
{
    datum_t *first[METHOD_MAX_OUTPUTS], *second[METHOD_MAX_OUTPUTS];
    int n = call(ctx, a, method, x, first);
    assert_int_equal(call(ctx, b, method, x, second), n);
    for (int i = 0; i < n; i++) {
        assert_true(datum_equal(ctx, first[i], second[i]));
        datum_release(first[i]);
        datum_release(second[i]);
    }
}

/* ---- texts ---- */

bool mini_says(context_t *ctx, module_t *module, const char *method, const char *part)
{
    const graph_t *graph = graph_of(module, method);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &text));
    bool says = strstr(text_string(&text), part) != NULL;
    text_clear(&text);
    return says;
}

void mini_explains(context_t *ctx, module_t *frozen, const char *expected)
{
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, freeze_explain(ctx, frozen, &text));
    assert_string_equal(text_string(&text), expected);
    text_clear(&text);
}

module_t *mini_reload(context_t *ctx, module_t *frozen)
{
    char path[64];
    module_t *loaded = NULL;
    snprintf(path, sizeof path, "mini_%ld.tessera", (long)getpid());
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    remove(path);
    return loaded;
}
