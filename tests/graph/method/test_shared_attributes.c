/* Two attributes of one module share memory: a write to one changes the other, in C, traced, as
 * text, and frozen. */
#include "tests/support/support.h"

#include <math.h>

#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "module/mkldnn.h"
#include "ops/ops.h"

#define N 4

/* Returns linear(x) after 1 was added to the buffer `row`, minus linear(x) before. `row` is a view
 * of the weight's first row, so element 0 of the result is the sum of x, and others are 0. */
static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    const tensor_t *weight = module_parameter(self, "weight");
    tensor_t *before = NULL, *after = NULL, *one = NULL;
    (void)n_in;
    *n_out = 1;
    (void)tensor_number(ctx, 1.0, &one);
    (void)op_linear(ctx, in[0], weight, NULL, &before);
    status_t status = op_add_(ctx, module_buffer(self, "row"), one);
    if (status == STATUS_OK) status = op_linear(ctx, in[0], weight, NULL, &after);
    if (status == STATUS_OK) status = op_sub(ctx, after, before, out);
    return status;
}

static const char text[] = "graph forward(%self : module, %x : f32[1,4]) {\n"
                           "    %weight = getattr(%self) name=\"weight\"\n"
                           "    %row = getattr(%self) name=\"row\"\n"
                           "    %one = constant() value=1.0\n"
                           "    %before = linear(%x, %weight, none)\n"
                           "    %grown = add_(%row, %one)\n"
                           "    %after = linear(%x, %weight, none)\n"
                           "    %difference = sub(%after, %before)\n"
                           "    return %difference\n"
                           "}\n";

typedef struct layer {
    module_t *module;
    tensor_t *weight, *row, *x;
} layer_t;

static layer_t begin(context_t *ctx)
{
    const float x[N] = {1.0f, 2.0f, 3.0f, 4.0f};
    layer_t layer = {.weight = NULL};
    CHECK_OK(ctx, module_create(ctx, "Layer", &layer.module));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(N, N), &layer.weight));
    CHECK_OK(ctx, tensor_as_strided(ctx, layer.weight, 1, (int64_t[]){N}, (int64_t[]){1}, 0,
                                    &layer.row));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, N), x, &layer.x));
    CHECK_OK(ctx, module_set_parameter(ctx, layer.module, "weight", layer.weight));
    CHECK_OK(ctx, module_set_buffer(ctx, layer.module, "row", layer.row));
    CHECK_OK(ctx, module_set_forward(ctx, layer.module, "forward", forward));
    return layer;
}

static void end(layer_t *layer)
{
    module_release(layer->module);
    tensor_release(layer->weight);
    tensor_release(layer->row);
    tensor_release(layer->x);
}

/* Runs twice, because the second run reuses plans and forms of the first. */
static void check(context_t *ctx, module_t *module, const tensor_t *x)
{
    for (int run = 0; run < 2; run++) {
        tensor_t *y = NULL;
        float got[N];
        CHECK_OK(ctx, module_forward(ctx, module, x, &y));
        CHECK_OK(ctx, tensor_read(ctx, y, got, sizeof got));
        assert_true(fabsf(got[0] - 10.0f) < 1e-4f);
        for (int i = 1; i < N; i++) assert_true(got[i] == 0.0f);
        tensor_release(y);
    }
}

static void check_frozen(context_t *ctx, layer_t *layer)
{
    module_t *frozen = NULL;
    CHECK_OK(ctx, freeze(ctx, layer->module, NULL, &frozen));
    check(ctx, frozen, layer->x);
    module_release(frozen);
}

static void a_method_of_c_and_its_trace_see_the_write(void **state)
{
    context_t *ctx = fixture_context(state);
    layer_t layer = begin(ctx);
    check(ctx, layer.module, layer.x);
    CHECK_OK(ctx, module_mkldnn(ctx, layer.module, NULL));
    check(ctx, layer.module, layer.x);
    CHECK_OK(ctx, graph_trace(ctx, layer.module, "forward", 1, (const tensor_t *const *)&layer.x));
    check(ctx, layer.module, layer.x);
    check_frozen(ctx, &layer);
    end(&layer);
}

static void a_method_of_text_sees_the_write(void **state)
{
    context_t *ctx = fixture_context(state);
    layer_t layer = begin(ctx);
    CHECK_OK(ctx, graph_define(ctx, layer.module, text));
    check(ctx, layer.module, layer.x);
    CHECK_OK(ctx, module_mkldnn(ctx, layer.module, NULL));
    check(ctx, layer.module, layer.x);
    check_frozen(ctx, &layer);
    end(&layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_method_of_c_and_its_trace_see_the_write),
        TEST(a_method_of_text_sees_the_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
