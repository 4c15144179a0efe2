/* Custom operators, as users write them. examples/own_operator.c shows that they need only the
 * installed header. */
#include "tests/support/support.h"

#include <string.h>

#include "freeze/freeze.h"
#include "ops/ops_impl.h"
#include "tensor/convert/convert.h"

typedef struct shift_attrs {
    double by;
} shift_attrs_t;

static const attr_field_t fields[] = {
    {"by", ATTR_FLOAT, false, offsetof(shift_attrs_t, by), 0, 1.0, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (call->in[0]->dtype != DTYPE_F32) return prepared_decline(prepared, "f32 is needed");
    prepared_set_scratch(prepared, (size_t)info_numel(call->in[0]) * sizeof(float));
    return ops_prepare_dense(ctx, call, prepared);
}

/* Adds attrs->by. Copies x to the scratch memory first, to test that memory. */
static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const shift_attrs_t *attrs = prepared_attrs(prepared);
    const int64_t n = info_numel(prepared_output(prepared, 0));
    float *copy = scratch, *y = out[0];
    (void)ctx;
    memcpy(copy, in[0], (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) y[i] = copy[i] + (float)attrs->by;
    return STATUS_OK;
}

static const kernel_t kernel = {.name = "own", .prepare = prepare, .run = run};
static const kernel_t *const kernels[] = {&kernel, NULL};
static const opdef_t shift = {.name = "shift",
                              .preference = OP_DENSE,
                              .attrs = {sizeof(shift_attrs_t), 1, fields},
                              .n_operands = 1,
                              .operands = operands,
                              .n_outputs = 1,
                              .infer = ops_infer_like,
                              .kernels = kernels};

static status_t run_shift(context_t *ctx, const opdef_t *op, const tensor_t *x, tensor_t **out)
{
    return dispatch_run(ctx, op, &(shift_attrs_t){2.5}, 1, &x, NULL, out);
}

static void check_elements(context_t *ctx, const tensor_t *tensor, int n, const float *wanted)
{
    float elements[24];
    CHECK_OK(ctx, tensor_read(ctx, tensor, elements, sizeof elements));
    for (int i = 0; i < n; i++) assert_float_equal(elements[i], wanted[i], 0);
}

static void it_runs_on_views_and_on_blocked_tensors(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *turned = NULL, *blocked = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 6, 0, &x));
    CHECK_OK(ctx,
             tensor_as_strided(ctx, x, SHAPE(1, 3, 2, 1), (int64_t[]){6, 1, 3, 1}, 0, &turned));
    CHECK_OK(ctx, run_shift(ctx, &shift, turned, &y));
    check_elements(ctx, y, 6, (float[]){2.5f, 5.5f, 3.5f, 6.5f, 4.5f, 7.5f});
    tensor_release(y);
    CHECK_OK(ctx, convert_reorder(ctx, turned, "aBcd8b", &blocked));
    CHECK_OK(ctx, run_shift(ctx, &shift, blocked, &y));
    assert_int_equal(tensor_layout(y), LAYOUT_DENSE);
    check_elements(ctx, y, 6, (float[]){2.5f, 5.5f, 3.5f, 6.5f, 4.5f, 7.5f});
    tensor_release(y);
    tensor_release(blocked);
    tensor_release(turned);
    tensor_release(x);
}

/* Runs another operator, which takes the only slot of the cache, and clears the cache. */
static status_t run_nested(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2), &x));
    CHECK_OK(ctx, op_exp(ctx, x, &y));
    check_elements(ctx, y, 2, (float[]){1.0f, 1.0f});
    dispatch_clear_cache(ctx);
    tensor_release(y);
    tensor_release(x);
    return run(ctx, prepared, in, out, scratch);
}

static void a_kernel_may_run_operators_and_clear_the_cache(void **state)
{
    static const kernel_t nested = {.name = "nested", .prepare = prepare, .run = run_nested};
    static const kernel_t *const only[] = {&nested, NULL};
    (void)state;
    context_t *ctx = NULL;
    counters_t counters;
    opdef_t op = shift;
    op.kernels = only;
    assert_int_equal(context_create(&(context_options_t){.cache_entries = 1}, &ctx), STATUS_OK);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 3, 0, &x));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, run_shift(ctx, &op, x, &y));
        check_elements(ctx, y, 3, (float[]){2.5f, 3.5f, 4.5f});
        tensor_release(y);
        counters_read(ctx, &counters);
        assert_int_equal(counters.cache_entries, 0);
        assert_int_equal(counters.cache_bytes, 0);
    }
    assert_int_equal(counters.cache_misses, 6); /* this operator and exp, in each of 3 runs */
    tensor_release(x);
    context_destroy(ctx);
}

static void a_reason_to_decline_is_told(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S32, SHAPE(3), &x));
    CHECK_FAILS(ctx, run_shift(ctx, &shift, x, &y), STATUS_UNSUPPORTED, "f32 is needed");
    assert_null(y);
    tensor_release(x);
}

static void a_definition_that_lacks_something_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    double error = 0.0;
    opdef_t no_kernels = shift, no_infer = shift, no_name = shift, large = shift, many = shift;
    no_kernels.kernels = NULL;
    no_infer.infer = NULL;
    no_name.name = NULL;
    large.attrs.bytes = 1 << 20;
    many.n_outputs = OP_MAX_OUTPUTS + 1;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3), &x));
    CHECK_FAILS(ctx, run_shift(ctx, &no_kernels, x, &y), STATUS_INVALID_ARGUMENT,
                "shift: an operator needs a name, infer and kernels");
    CHECK_FAILS(ctx, run_shift(ctx, &no_infer, x, &y), STATUS_INVALID_ARGUMENT,
                "shift: an operator needs a name, infer and kernels");
    CHECK_FAILS(ctx, run_shift(ctx, &no_name, x, &y), STATUS_INVALID_ARGUMENT,
                "an operator needs a name, infer and kernels");
    CHECK_FAILS(ctx, run_shift(ctx, &large, x, &y), STATUS_INVALID_ARGUMENT,
                "attributes of 1048576 bytes and 1 outputs, at most 1024 and 32 are possible");
    tensor_t *outputs[OP_MAX_OUTPUTS + 1];
    CHECK_FAILS(ctx, run_shift(ctx, &many, x, outputs), STATUS_INVALID_ARGUMENT,
                "bytes and 33 outputs");
    CHECK_FAILS(ctx,
                dispatch_verify(ctx, &shift, NULL, 1, (const tensor_t *[]){x}, 1,
                                (const tensor_t *[]){x}, 0, &error),
                STATUS_INVALID_ARGUMENT, "shift has no specification");
    prepared_set_scratch(NULL, 1);
    assert_null(prepared_attrs(NULL));
    tensor_release(x);
}

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    return run_shift(ctx, &shift, in[0], out);
}

static void it_freezes_but_no_file_holds_it(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 3, 0, &x));
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    check_elements(ctx, y, 3, (float[]){2.5f, 3.5f, 4.5f});
    CHECK_FAILS(ctx, freeze_save(ctx, frozen, "/nonexistent/shift.tessera"), STATUS_UNSUPPORTED,
                "freeze_save: operator shift is not in the operator table, so the file could not "
                "be loaded");
    tensor_release(y);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

/* ---- one family: two operators with the same functions ---- */

enum { DOUBLES = 2, TRIPLES = 3 };

static status_t run_times(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, void *scratch)
{
    (void)ctx, (void)scratch;
    const float times = (float)prepared_op(prepared)->variant, *x = in[0];
    float *y = out[0];
    for (int64_t i = 0; i < info_numel(prepared_output(prepared, 0)); i++) y[i] = times * x[i];
    return STATUS_OK;
}

static bool times_as_post_op(const opdef_t *op, const void *attrs, post_op_t *out_post)
{
    (void)attrs;
    *out_post = (post_op_t){
        .kind = POST_ELTWISE, .eltwise = ELTWISE_LINEAR, .alpha = (double)op->variant};
    return true;
}

static const kernel_t times = {.name = "times", .prepare = ops_prepare_dense, .run = run_times};
static const kernel_t *const times_kernels[] = {&times, NULL};
#define TIMES(op_name, op_variant)                                                                 \
    {                                                                                              \
        .name = op_name, .variant = op_variant, .n_operands = 1, .operands = operands,             \
        .n_outputs = 1, .infer = ops_infer_like, .kernels = times_kernels,                         \
        .as_post_op = times_as_post_op                                                             \
    }
static const opdef_t twice = TIMES("twice", DOUBLES), thrice = TIMES("thrice", TRIPLES);

static void variants_share_their_functions(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL, *z = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, 3, 1, &x));
    CHECK_OK(ctx, dispatch_run(ctx, &twice, NULL, 1, (const tensor_t *[]){x}, NULL, &y));
    CHECK_OK(ctx, dispatch_run(ctx, &thrice, NULL, 1, (const tensor_t *[]){x}, NULL, &z));
    check_elements(ctx, y, 3, (float[]){2, 4, 6});
    check_elements(ctx, z, 3, (float[]){3, 6, 9});
    tensor_release(z);
    tensor_release(y);
    tensor_release(x);
}

static status_t forward_linear(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    (void)n_in;
    tensor_t *product = NULL;
    TRY(op_linear(ctx, in[0], module_parameter(self, "weight"), NULL, &product));
    *n_out = 1;
    status_t status = dispatch_run(ctx, &thrice, NULL, 1, (const tensor_t *[]){product}, NULL, out);
    tensor_release(product);
    return status;
}

static void it_is_fused_as_the_post_op_that_it_says(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *weight = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 2), (float[]){1, -2}, &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(3, 2), (float[]){1, 0, 2, 1, 0, 4}, &weight));
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "weight", weight));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_linear));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    check_elements(ctx, y, 3, (float[]){3, 0, -24});
    tensor_release(y);
    counters_t counters;
    counters_reset(ctx);
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    counters_read(ctx, &counters);
    assert_int_equal(counters.operators, 1);
    tensor_release(y);
    tensor_release(weight);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_runs_on_views_and_on_blocked_tensors),
        TEST(a_kernel_may_run_operators_and_clear_the_cache),
        TEST(a_reason_to_decline_is_told),
        TEST(a_definition_that_lacks_something_is_refused),
        TEST(it_freezes_but_no_file_holds_it),
        TEST(variants_share_their_functions),
        TEST(it_is_fused_as_the_post_op_that_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
