/* Functions that call several operators, compared with PyTorch, and their errors. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops.h"
#include "tensor/scope.h"

#define VALUES(...)                                                                                \
    (const float[])                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static tensor_t *from(context_t *ctx, int rank, const int64_t *sizes, const float *elements)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, rank, sizes, elements, &tensor));
    return tensor;
}

/* Compares a tensor with PyTorch's result and releases it. */
static void check(context_t *ctx, tensor_t *tensor, int rank, const int64_t *sizes,
                  const float *wanted)
{
    tensor_t *wide = NULL;
    float elements[16];
    assert_int_equal(tensor_rank(tensor), rank);
    for (int d = 0; d < rank; d++) assert_int_equal(tensor_sizes(tensor)[d], sizes[d]);
    CHECK_OK(ctx, op_cast(ctx, tensor, DTYPE_F32, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, elements, sizeof elements));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        assert_true(fabsf(elements[i] - wanted[i]) <= 1e-4f);
    tensor_release(wide);
    tensor_release(tensor);
}

typedef struct operands {
    tensor_t *x, *a, *b;
} operands_t;

/* Makes torch.arange(6.).view(2, 3), torch.tensor([1., 2, 4]) and torch.tensor([[2.], [8]]). */
static operands_t begin(context_t *ctx)
{
    return (operands_t){from(ctx, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5)),
                        from(ctx, SHAPE(3), VALUES(1, 2, 4)), from(ctx, SHAPE(2, 1), VALUES(2, 8))};
}

static void end(operands_t *operands)
{
    tensor_release(operands->x);
    tensor_release(operands->a);
    tensor_release(operands->b);
}

/* Compares with torch.addcmul(x, a, b, value=0.5) and torch.addcdiv(x, a, b, value=2). */
static void products_and_quotients_are_added(void **state)
{
    context_t *ctx = fixture_context(state);
    operands_t in = begin(ctx);
    tensor_t *out = NULL, *whole = NULL;
    CHECK_OK(ctx, op_addcmul(ctx, in.x, in.a, in.b, 0.5, &out));
    check(ctx, out, SHAPE(2, 3), VALUES(1, 3, 6, 7, 12, 21));
    CHECK_OK(ctx, op_addcdiv(ctx, in.x, in.a, in.b, 2, &out));
    check(ctx, out, SHAPE(2, 3), VALUES(1, 3, 6, 3.25f, 4.5f, 6));
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, 4, 0, &whole));
    CHECK_OK(ctx, op_addcmul(ctx, whole, whole, whole, 1, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_S64);
    check(ctx, out, SHAPE(4), VALUES(0, 2, 6, 12));
    tensor_release(whole);
    CHECK_OK(ctx, op_addcmul_(ctx, in.x, in.a, in.b, 0.5));
    check(ctx, tensor_retain(in.x), SHAPE(2, 3), VALUES(1, 3, 6, 7, 12, 21));
    CHECK_OK(ctx, op_addcdiv_(ctx, in.x, in.a, in.b, 2));
    check(ctx, tensor_retain(in.x), SHAPE(2, 3), VALUES(2, 5, 10, 7.25f, 12.5f, 22));
    end(&in);
}

/* Compares with torch.lerp(x, a, 0.25), torch.lerp(x, a, 0.75), torch.addmm(torch.tensor([1., -1]),
 * x, x.t()[:, :2], beta=2, alpha=0.5), torch.outer(a, torch.tensor([1., 3])) */
static void tensors_are_mixed_and_multiplied(void **state)
{
    context_t *ctx = fixture_context(state);
    operands_t in = begin(ctx);
    tensor_t *out = NULL, *bias = from(ctx, SHAPE(2), VALUES(1, -1)), *turned = NULL;
    CHECK_OK(ctx, op_lerp(ctx, in.x, in.a, 0.25, &out));
    check(ctx, out, SHAPE(2, 3), VALUES(0.25f, 1.25f, 2.5f, 2.5f, 3.5f, 4.75f));
    CHECK_OK(ctx, op_lerp(ctx, in.x, in.a, 0.75, &out));
    check(ctx, out, SHAPE(2, 3), VALUES(0.75f, 1.75f, 3.5f, 1.5f, 2.5f, 4.25f));
    CHECK_OK(ctx, op_transpose(ctx, in.x, 0, 1, &turned));
    CHECK_OK(ctx, op_addmm(ctx, bias, in.x, turned, 2, 0.5, &out));
    check(ctx, out, SHAPE(2, 2), VALUES(4.5f, 5, 9, 23));
    tensor_t *nan = from(ctx, SHAPE(2), VALUES(NAN, INFINITY));
    CHECK_OK(ctx, op_addmm(ctx, nan, in.x, turned, 0, 0.5, &out));
    check(ctx, out, SHAPE(2, 2), VALUES(2.5f, 7, 7, 25));
    tensor_release(nan);
    CHECK_OK(ctx, op_outer(ctx, in.a, bias, &out));
    check(ctx, out, SHAPE(3, 2), VALUES(1, -1, 2, -2, 4, -4));
    CHECK_OK(ctx, op_lerp_(ctx, in.x, in.a, 0.75));
    check(ctx, tensor_retain(in.x), SHAPE(2, 3), VALUES(0.75f, 1.75f, 3.5f, 1.5f, 2.5f, 4.25f));
    CHECK_FAILS(ctx, op_lerp_(ctx, in.a, in.x, 0.75), STATUS_INVALID_ARGUMENT,
                "lerp_: b is f32[2,3], it does not broadcast to a f32[3]");
    tensor_release(bias);
    tensor_release(turned);
    end(&in);
}

/* Compares with torch.nn.functional.glu(torch.tensor([[1., -2, 0, 2]]), 1), and with normalize of
 * [[3., 4], [0, 0]] along dimension 1 and of [[3., -4]] with p=1. */
static void gates_norms_and_truths_are_those_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = from(ctx, SHAPE(1, 4), VALUES(1, -2, 0, 2)), *out = NULL;
    CHECK_OK(ctx, op_glu(ctx, x, 1, &out));
    check(ctx, out, SHAPE(1, 2), VALUES(0.5f, -1.76159f));
    tensor_release(x);
    x = from(ctx, SHAPE(2, 2), VALUES(3, 4, 0, 0));
    CHECK_OK(ctx, op_normalize(ctx, x, 2, 1, 1e-12, &out));
    check(ctx, out, SHAPE(2, 2), VALUES(0.6f, 0.8f, 0, 0));
    tensor_release(x);
    x = from(ctx, SHAPE(1, 2), VALUES(3, -4));
    CHECK_OK(ctx, op_normalize(ctx, x, 1, -1, 1e-12, &out));
    check(ctx, out, SHAPE(1, 2), VALUES(3.0f / 7, -4.0f / 7));
    tensor_release(x);
    x = from(ctx, SHAPE(4), VALUES(1, NAN, INFINITY, -INFINITY));
    CHECK_OK(ctx, op_isfinite(ctx, x, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_BOOL);
    check(ctx, out, SHAPE(4), VALUES(1, 0, 0, 0));
    tensor_release(x);
}

/* Compares with x.movedim(0, -1), (2, 0) and (1, -1), and with x.narrow(2, -2, 2), where x =
 * torch.arange(6.).view(1, 2, 3). */
static void dimensions_move_and_are_narrowed(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = from(ctx, SHAPE(1, 2, 3), VALUES(0, 1, 2, 3, 4, 5)), *out = NULL;
    CHECK_OK(ctx, op_movedim(ctx, x, 0, -1, &out));
    check(ctx, out, SHAPE(2, 3, 1), VALUES(0, 1, 2, 3, 4, 5));
    CHECK_OK(ctx, op_movedim(ctx, x, 2, 0, &out));
    check(ctx, out, SHAPE(3, 1, 2), VALUES(0, 3, 1, 4, 2, 5));
    CHECK_OK(ctx, op_movedim(ctx, x, 1, -1, &out));
    check(ctx, out, SHAPE(1, 3, 2), VALUES(0, 3, 1, 4, 2, 5));
    CHECK_OK(ctx, op_narrow(ctx, x, 2, -2, 2, &out));
    check(ctx, out, SHAPE(1, 2, 2), VALUES(1, 2, 4, 5));
    CHECK_OK(ctx, op_narrow(ctx, x, 2, 3, 0, &out));
    check(ctx, out, SHAPE(1, 2, 0), VALUES(0));
    tensor_release(x);
}

/* Compares with torch.nn.functional.max_unpool2d and max_unpool1d. */
static void unpooling_reverses_pooling(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = from(ctx, SHAPE(1, 1, 3, 5), VALUES(1, 5, 2, 4, 3, 9, 7, 8, 6, 0, 2, 1, 4, 3, 5));
    tensor_t *line = from(ctx, SHAPE(1, 2, 4), VALUES(3, 1, 4, 1, 5, 9, 2, 6));
    tensor_t *pooled = NULL, *indices = NULL, *out = NULL;
    CHECK_OK(ctx, op_max_pool2d_with_indices(ctx, x,
                                             &(pool_attrs_t){.kernel = {2, 2}, .ceil_mode = true},
                                             &pooled, &indices));
    CHECK_OK(ctx, op_max_unpool(ctx, pooled, indices, 2, (const int64_t[]){3, 5}, &out));
    check(ctx, out, SHAPE(1, 1, 3, 5), VALUES(0, 0, 0, 0, 3, 9, 0, 8, 0, 0, 2, 0, 4, 0, 5));
    CHECK_FAILS(ctx, op_max_unpool(ctx, pooled, indices, 1, (const int64_t[]){15}, &out),
                STATUS_INVALID_ARGUMENT,
                "max_unpool: x is f32[1,1,2,3], output_size has 1 numbers, 1 to 3 behind the "
                "channels are needed");
    CHECK_FAILS(ctx, op_max_unpool(ctx, pooled, pooled, 2, (const int64_t[]){3, 5}, &out),
                STATUS_INVALID_ARGUMENT,
                "max_unpool: indices are f32[1,1,2,3], s64 and the sizes of x f32[1,1,2,3] are "
                "needed");
    CHECK_FAILS(ctx, op_max_unpool(ctx, pooled, indices, 2, (const int64_t[]){0, 5}, &out),
                STATUS_INVALID_ARGUMENT, "max_unpool: output_size 0, positive numbers are needed");
    CHECK_FAILS(ctx, op_max_unpool(ctx, pooled, indices, 2, (const int64_t[]){2, 5}, &out),
                STATUS_INVALID_ARGUMENT,
                "max_unpool: index 10 at [0,0,3] of s64[1,1,6], dimension 2 of f32[1,1,10] has "
                "size 10");
    tensor_release(pooled);
    tensor_release(indices);
    CHECK_OK(ctx, op_max_pool1d_with_indices(ctx, line, &(pool_attrs_t){.kernel = {2}}, &pooled,
                                             &indices));
    CHECK_OK(ctx, op_max_unpool(ctx, pooled, indices, 1, (const int64_t[]){5}, &out));
    check(ctx, out, SHAPE(1, 2, 5), VALUES(3, 0, 4, 0, 0, 0, 9, 0, 6, 0));
    tensor_release(pooled);
    tensor_release(indices);
    tensor_release(line);
    tensor_release(x);
}

static void what_does_not_fit_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    operands_t in = begin(ctx);
    tensor_t *out = NULL, *whole = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, 3, 0, &whole));
    CHECK_FAILS(ctx, op_lerp(ctx, in.a, whole, 0.5, &out), STATUS_INVALID_ARGUMENT,
                "lerp: a is f32[3], b is s64[3], one floating dtype is needed");
    CHECK_FAILS(ctx, op_outer(ctx, in.a, in.x, &out), STATUS_INVALID_ARGUMENT,
                "outer: a is f32[3], b is f32[2,3], vectors are needed");
    CHECK_FAILS(ctx, op_glu(ctx, in.x, 1, &out), STATUS_INVALID_ARGUMENT,
                "glu: dim 1 of f32[2,3], two halves are needed");
    CHECK_FAILS(ctx, op_movedim(ctx, in.x, 0, 2, &out), STATUS_INVALID_ARGUMENT,
                "movedim: dim 2 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_narrow(ctx, in.x, 1, 2, 2, &out), STATUS_INVALID_ARGUMENT,
                "narrow: start 2 length 2 in dim 1 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_addmm(ctx, in.x, in.x, in.x, 1, 1, &out), STATUS_INVALID_ARGUMENT,
                "addmm: f32[2,3] times f32[2,3], 3 columns meet 2 rows");
    assert_null(out);
    tensor_release(whole);
    end(&in);
}

/* Temporaries must be released, even in a scope, which releases them otherwise only at its end. */
static void a_scope_keeps_the_result_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    operands_t in = begin(ctx);
    tensor_t *out = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, op_addcmul(ctx, in.x, in.a, in.b, 0.5, &out));
    CHECK_OK(ctx, op_lerp_(ctx, in.x, in.a, 0.5));
    scope_keep(ctx, out);
    CHECK_OK(ctx, scope_end(ctx));
    check(ctx, out, SHAPE(2, 3), VALUES(1, 3, 6, 7, 12, 21));
    end(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(products_and_quotients_are_added),
        TEST(tensors_are_mixed_and_multiplied),
        TEST(gates_norms_and_truths_are_those_of_torch),
        TEST(dimensions_move_and_are_narrowed),
        TEST(unpooling_reverses_pooling),
        TEST(what_does_not_fit_is_refused),
        TEST(a_scope_keeps_the_result_alone),
    };
    return cmocka_run_group_tests_name("test_combined", tests, NULL, NULL);
}
