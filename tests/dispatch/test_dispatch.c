#include "dispatch/dispatch.h"

#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tests/support/support.h"

static void more_outputs_than_there_is_room_for_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const opdef_t *split = ops_find("split");
    struct {
        int64_t dim;
        ints_t sizes;
    } attrs = {.dim = 0, .sizes = {.n = 3, .values = {1, 2, 3}}};
    tensor_t *x = NULL, *out[3] = {NULL};
    const tensor_t *in[1];
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(6), &x));
    in[0] = x;
    int n = 2;
    CHECK_FAILS(ctx, dispatch_run(ctx, split, &attrs, 1, in, &n, out), STATUS_INVALID_ARGUMENT,
                "split: 3 outputs, the capacity is 2");
    CHECK_FAILS(ctx, dispatch_run(ctx, split, &attrs, 1, in, NULL, out), STATUS_INVALID_ARGUMENT,
                "split: 3 outputs, the capacity is 0");
    assert_null(out[0]);
    n = 7;
    tensor_t *roomy[7] = {NULL};
    CHECK_OK(ctx, dispatch_run(ctx, split, &attrs, 1, in, &n, roomy));
    assert_int_equal(n, 3);
    assert_int_equal(tensor_numel(roomy[2]), 3);
    for (int i = 0; i < 7; i++) tensor_release(roomy[i]);
    tensor_release(x);
}

/* Operands of a call: mkldnn x, dense d, and a weight w in a module that module_mkldnn
 * converted. */
typedef struct operands {
    tensor_t *x, *d, *w;
} operands_t;
typedef status_t (*call_t)(context_t *ctx, const operands_t *operands, tensor_t **out);

static status_t call_relu(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_relu(ctx, operands->d, out);
}
static status_t call_add(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_add(ctx, operands->x, operands->x, out);
}
static status_t call_conv(context_t *ctx, const operands_t *operands, tensor_t **out)
{
    return op_conv2d(ctx, operands->x, operands->w, NULL, &(conv_attrs_t){.padding = {1, 1}}, out);
}

/* The first call of an operator also fills caches; later calls allocate only their output. */
static void a_small_output_is_all_that_a_call_allocates(void **state)
{
    static const call_t calls[] = {call_relu, call_add, call_conv};
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    operands_t operands = {NULL, NULL, NULL};
    tensor_t *weight = NULL;
    module_t *module = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 8, 8), &operands.d));
    CHECK_OK(ctx, convert_reorder(ctx, operands.d, "aBcd16b", &operands.x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(16, 16, 3, 3), &weight));
    CHECK_OK(ctx, module_create(ctx, "conv", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    operands.w = module_parameter(module, "weight");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int call = 0; call < 3; call++) {
            tensor_t *out = NULL;
            counting_fail(&fixture->memory, 0, false);
            CHECK_OK(ctx, calls[i](ctx, &operands, &out));
            if (call > 0) assert_int_equal(atomic_load(&fixture->memory.requests), 1);
            tensor_release(out);
        }
    }
    module_release(module);
    tensor_release(weight);
    tensor_release(operands.x);
    tensor_release(operands.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(more_outputs_than_there_is_room_for_are_refused),
        TEST(a_small_output_is_all_that_a_call_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
