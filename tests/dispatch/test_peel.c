/* Custom operators whose kernels fuse all, some or none of their post-ops. Dispatch computes the
 * other post-ops after the kernel. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops_impl.h"

enum { ROWS = 3, COLUMNS = 5, N = ROWS * COLUMNS };

typedef struct thrice_attrs {
    post_ops_t post;
} thrice_attrs_t;

static const attr_field_t fields[] = {
    {"post", ATTR_POST, false, offsetof(thrice_attrs_t, post), 0, 0, NULL}};
static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t prepare_without(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    assert_int_equal(call->n_in, 1);
    assert_int_equal(((const thrice_attrs_t *)call->attrs)->post.n, 0);
    return ops_prepare_dense(ctx, call, prepared);
}

/* Declines all post-ops except a single relu. */
static status_t prepare_relu(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const post_ops_t *post = &((const thrice_attrs_t *)call->attrs)->post;
    if (post->n > 1 || (post->n == 1 && post->op[0].eltwise != ELTWISE_RELU))
        return prepared_decline(prepared, "relu: other post-ops");
    return ops_prepare_dense(ctx, call, prepared);
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const thrice_attrs_t *attrs = prepared_attrs(prepared);
    const float *x = in[0];
    float *y = out[0];
    (void)ctx, (void)scratch;
    for (int64_t i = 0; i < info_numel(prepared_output(prepared, 0)); i++) {
        y[i] = 3.0f * x[i];
        if (attrs->post.n > 0 && y[i] < 0.0f) y[i] = 0.0f;
    }
    return STATUS_OK;
}

static const kernel_t fuses_none = {.name = "bare", .prepare = prepare_without, .run = run};
static const kernel_t fuses_relu = {
    .name = "relu", .prepare = prepare_relu, .run = run, .flags = KERNEL_FUSES_POST_OPS};
static const kernel_t is_view = {
    .name = "view", .prepare = ops_prepare_dense, .flags = KERNEL_IS_VIEW};
static const kernel_t needs_elements = {
    .name = "full", .prepare = ops_prepare_dense, .run = run, .flags = KERNEL_NEEDS_ELEMENTS};
static const kernel_t *const none[] = {&fuses_none, NULL}, *const relu[] = {&fuses_relu, NULL};
static const kernel_t *const view_first[] = {&is_view, &fuses_none, NULL};
static const kernel_t *const full_first[] = {&needs_elements, &fuses_none, NULL};

#define THRICE(op_kernels)                                                                         \
    {                                                                                              \
        .name = "thrice", .traits = TRAIT_POST_OPS, .attrs = {sizeof(thrice_attrs_t), 1, fields},  \
        .n_operands = 1, .operands = operands, .n_outputs = 1, .infer = ops_infer_like,            \
        .kernels = op_kernels                                                                      \
    }

static const opdef_t without = THRICE(none), with_relu = THRICE(relu), viewing = THRICE(view_first);

/* ---- values, compared with double ---- */

static float x_at(int i)
{
    return (float)(i - 6) / 4.0f;
}

static float operand_at(int i)
{
    return 0.5f + (float)(i * 7 % 11);
}

static double combine(post_kind_t kind, double value, double operand)
{
    switch (kind) {
    case POST_SUM:
    case POST_ADD: return value + operand;
    case POST_SUB: return value - operand;
    case POST_MUL: return value * operand;
    case POST_DIV: return value / operand;
    case POST_MAXIMUM: return value > operand ? value : operand;
    case POST_MINIMUM: return value < operand ? value : operand;
    default: return 1.0 / (1.0 + exp(-value));
    }
}

/* Checks 3 x with post-ops [kind, "sigmoid"]. The operand of `kind` has rows x columns elements. */
static void check_kind(context_t *ctx, const opdef_t *op, post_kind_t kind, int rows, int columns)
{
    thrice_attrs_t attrs = {
        .post = {.n = 2,
                 .op = {{.kind = kind}, {.kind = POST_ELTWISE, .eltwise = ELTWISE_SIGMOID}}}};
    float x[N], operand[N], y[N];
    tensor_t *in[2] = {NULL, NULL}, *out = NULL;
    for (int i = 0; i < N; i++) {
        x[i] = x_at(i);
        operand[i] = operand_at(i);
    }
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(ROWS, COLUMNS), x, &in[0]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(rows, columns), operand, &in[1]));
    CHECK_OK(ctx, dispatch_run(ctx, op, &attrs, 2, (const tensor_t *const *)in, NULL, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, y, sizeof y));
    for (int i = 0; i < N; i++) {
        int row = rows == 1 ? 0 : i / COLUMNS, column = columns == 1 ? 0 : i % COLUMNS;
        double value = combine(kind, 3.0 * (double)x[i], (double)operand[row * columns + column]);
        assert_float_equal(y[i], (float)(1.0 / (1.0 + exp(-value))), 1e-6f);
    }
    tensor_release(out);
    tensor_release(in[1]);
    tensor_release(in[0]);
}

static void every_kind_is_computed_behind_a_kernel_that_fuses_none(void **state)
{
    for (int kind = POST_SUM; kind < POST_ELTWISE; kind++) {
        check_kind(fixture_context(state), &without, (post_kind_t)kind, ROWS, COLUMNS);
        if (kind == POST_SUM) continue; /* the operand of a sum is not broadcast */
        check_kind(fixture_context(state), &without, (post_kind_t)kind, 1, COLUMNS);
        check_kind(fixture_context(state), &without, (post_kind_t)kind, ROWS, 1);
        check_kind(fixture_context(state), &without, (post_kind_t)kind, 1, 1);
    }
}

/* ---- which kernel is chosen ---- */

static void check_chosen(context_t *ctx, const opdef_t *op, eltwise_t eltwise, const char *kernel,
                         const char *reason)
{
    thrice_attrs_t attrs = {.post = {.n = 1, .op = {{POST_ELTWISE, eltwise, 0.0, 0.0}}}};
    const tensor_info_t x = info_dense(DTYPE_F32, SHAPE(2, 3));
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, dispatch_select(ctx, op, &attrs, 1, (const tensor_info_t *const[]){&x},
                                  POLICY_AUTO, &prepared));
    assert_string_equal(prepared_kernel(prepared), kernel);
    assert_string_equal(prepared_reasons(prepared), reason);
    prepared_release(prepared);
}

static void a_kernel_that_fuses_is_asked_with_the_post_ops_first(void **state)
{
    context_t *ctx = fixture_context(state);
    check_chosen(ctx, &with_relu, ELTWISE_RELU, "relu", "");
    check_chosen(ctx, &with_relu, ELTWISE_ABS, "relu_then_post", "relu: other post-ops\n");
}

static void post_ops_that_a_kernel_fuses_are_applied_once(void **state)
{
    context_t *ctx = fixture_context(state);
    const eltwise_t eltwise[] = {ELTWISE_RELU, ELTWISE_ABS};
    const float wanted[] = {0, 6, 3, 6};
    for (int i = 0; i < 2; i++) {
        thrice_attrs_t attrs = {.post = {.n = 1, .op = {{POST_ELTWISE, eltwise[i], 0.0, 0.0}}}};
        tensor_t *x = NULL, *y = NULL;
        float elements[2];
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2), (float[]){-1, 2}, &x));
        CHECK_OK(ctx, dispatch_run(ctx, &with_relu, &attrs, 1, (const tensor_t *[]){x}, NULL, &y));
        CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
        for (int k = 0; k < 2; k++) assert_float_equal(elements[k], wanted[2 * i + k], 0);
        tensor_release(y);
        tensor_release(x);
    }
}

static void no_post_op_is_computed_over_a_view(void **state)
{
    check_chosen(fixture_context(state), &viewing, ELTWISE_RELU, "bare_then_post",
                 "view: a view cannot have post-ops\n");
}

static void a_view_of_ones_own_shares_its_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    float elements[2];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2), (float[]){-1, 2}, &x));
    CHECK_OK(ctx, dispatch_run(ctx, &viewing, NULL, 1, (const tensor_t *[]){x}, NULL, &y));
    CHECK_OK(ctx, tensor_fill(ctx, x, 5.0));
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    assert_float_equal(elements[0], 5, 0);
    tensor_release(y);
    tensor_release(x);
}

/* The result has one element even if x is empty: a kernel for an empty x is then still needed. */
static status_t infer_one(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)ctx, (void)out_n;
    out[0] = info_dense(call->in[0]->dtype, SHAPE(1));
    return STATUS_OK;
}

static const opdef_t reducing = {.name = "reducing",
                                 .attrs = {sizeof(thrice_attrs_t), 1, fields},
                                 .n_operands = 1,
                                 .operands = operands,
                                 .n_outputs = 1,
                                 .infer = infer_one,
                                 .kernels = full_first};

static void a_kernel_that_needs_elements_is_not_asked_without(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_info_t empty = info_dense(DTYPE_F32, SHAPE(0)),
                        one = info_dense(DTYPE_F32, SHAPE(1));
    const tensor_info_t *const infos[] = {&empty, &one};
    const char *const kernels[] = {"bare", "full"};
    for (int i = 0; i < 2; i++) {
        prepared_t *prepared = NULL;
        CHECK_OK(ctx, dispatch_select(ctx, &reducing, NULL, 1, &infos[i], POLICY_AUTO, &prepared));
        assert_string_equal(prepared_kernel(prepared), kernels[i]);
        prepared_release(prepared);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_is_computed_behind_a_kernel_that_fuses_none),
        TEST(a_kernel_that_fuses_is_asked_with_the_post_ops_first),
        TEST(post_ops_that_a_kernel_fuses_are_applied_once),
        TEST(no_post_op_is_computed_over_a_view),
        TEST(a_view_of_ones_own_shares_its_bytes),
        TEST(a_kernel_that_needs_elements_is_not_asked_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
