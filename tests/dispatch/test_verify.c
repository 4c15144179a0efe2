/* dispatch_verify must accept errors within the rounding bound and reject larger ones. */
#include "dispatch/dispatch.h"

#include <math.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tests/support/support.h"

/* Returns the error that dispatch_verify computes for `values` as an operator's result for x. More
 * than 1 is too much. */
static double judge(context_t *ctx, const char *name, const void *attrs, int64_t n, const float *x,
                    const float *values)
{
    tensor_t *in = NULL, *out = NULL;
    double error = -1;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, &n, x, &in));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, &n, values, &out));
    CHECK_OK(ctx, dispatch_verify(ctx, ops_find(name), attrs, 1, (const tensor_t *const *)&in, 1,
                                  (const tensor_t *const *)&out, 0, &error));
    tensor_release(in);
    tensor_release(out);
    return error;
}

/* softplus(-20) is 2.06e-9. The wrong value -1.9e-6 is small only compared with softplus(3) =
 * 3.05. */
static void a_small_result_is_wrong_without_its_digits(void **state)
{
    context_t *ctx = fixture_context(state);
    const float x[] = {-20, 3};
    const float right[] = {2.0611536e-9F, 3.0485873F}, wrong[] = {-1.9073486e-6F, 3.0485873F};
    const float nearly[] = {2.0611536e-9F, 3.0486873F};
    assert_true(judge(ctx, "softplus", NULL, 2, x, right) <= 1);
    assert_true(judge(ctx, "softplus", NULL, 2, x, wrong) > 100);
    assert_true(judge(ctx, "softplus", NULL, 2, x, nearly) > 1);
}

static void log_softmax_may_not_be_positive_by_more_than_its_sum_rounds(void **state)
{
    context_t *ctx = fixture_context(state);
    const float x[] = {16, 0}, right[] = {-1.1253517e-7F, -16}, wrong[] = {1.3e-6F, -16};
    assert_true(judge(ctx, "log_softmax", NULL, 2, x, right) <= 1);
    assert_true(judge(ctx, "log_softmax", NULL, 2, x, wrong) > 1);
}

/* The bound of an element depends on its own size, also if the 4 elements that are checked do not
 * include the large one. */
static void softmax_with_one_large_element_is_right_wherever_it_is_looked_at(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *in = NULL, *out = NULL;
    void *elements = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 1000), &in));
    CHECK_OK(ctx, tensor_data_mutable(ctx, in, &elements));
    for (int i = 0; i < 1000; i++) ((float *)elements)[i] = (float)(i % 17) / 7;
    ((float *)elements)[617] = 50;
    CHECK_OK(ctx, op_softmax(ctx, in, 1, &out));
    double error = -1;
    for (uint64_t seed = 0; seed < 20; seed++) {
        context_seed(ctx, seed);
        CHECK_OK(ctx,
                 dispatch_verify(ctx, ops_find("softmax"), NULL, 1, (const tensor_t *const *)&in, 1,
                                 (const tensor_t *const *)&out, 4, &error));
        if (!(error <= 1)) fail_msg("off by %g times its bound", error);
    }
    CHECK_OK(ctx, tensor_data_mutable(ctx, out, &elements));
    ((float *)elements)[3] *= 1.01F;
    CHECK_OK(ctx, dispatch_verify(ctx, ops_find("softmax"), NULL, 1, (const tensor_t *const *)&in,
                                  1, (const tensor_t *const *)&out, 0, &error));
    assert_true(error > 1);
    tensor_release(in);
    tensor_release(out);
}

/* In floats, 1e6 + 0.1 - 1e6 is 0.125. The bound accepts it, because the bound depends on the
 * terms. */
static void a_sum_that_cancels_is_judged_by_its_terms(void **state)
{
    context_t *ctx = fixture_context(state);
    const float x[] = {1e6F, 0.1F, -1e6F};
    tensor_t *in = NULL, *out = NULL;
    double error = -1;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(3), x, &in));
    const struct {
        float sum;
        bool is_right;
    } sums[] = {{0.1F, true}, {0.125F, true}, {200, false}};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 0, NULL, &sums[i].sum, &out));
        CHECK_OK(ctx, dispatch_verify(ctx, ops_find("sum"), NULL, 1, (const tensor_t *const *)&in,
                                      1, (const tensor_t *const *)&out, 0, &error));
        assert_true((error <= 1) == sums[i].is_right);
        tensor_release(out);
        out = NULL;
    }
    tensor_release(in);
}

static void infinity_is_right_only_where_the_result_is_too_large(void **state)
{
    context_t *ctx = fixture_context(state);
    const float x[] = {89, 80, NAN}, right[] = {INFINITY, 5.5406224e34F, NAN};
    const float wrong[] = {INFINITY, INFINITY, NAN}, lost[] = {INFINITY, 5.5406224e34F, 0};
    assert_true(judge(ctx, "exp", NULL, 3, x, right) <= 1);
    assert_true(judge(ctx, "exp", NULL, 3, x, wrong) > 1);
    assert_true(judge(ctx, "exp", NULL, 3, x, lost) > 1);
}

/* 0 is exact, so the bound has no term for the rounding of x. */
static void a_function_may_be_off_by_four_units_in_the_last_place(void **state)
{
    context_t *ctx = fixture_context(state);
    const float x = 0, right = 1 + 4 * 0x1p-23F, wrong = 1 + 5 * 0x1p-23F;
    assert_true(judge(ctx, "exp", NULL, 1, &x, &right) <= 1);
    assert_true(judge(ctx, "exp", NULL, 1, &x, &wrong) > 1);
}

/* Returns the error of a convolution of 16 channels after `off` is added to one element of its
 * result. */
static double judge_conv(context_t *ctx, int algorithm, float off)
{
    const conv_attrs_t direct = {.padding = {1, 1}};
    const conv_attrs_t attrs = {.padding = {1, 1}, .algorithm = algorithm};
    tensor_t *x = NULL, *weight = NULL, *mkldnn = NULL, *out = NULL;
    void *elements = NULL;
    double error = -1;
    context_seed(ctx, 3);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 16, 6, 6), &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(8, 16, 3, 3), &weight));
    CHECK_OK(ctx, op_conv2d(ctx, x, weight, NULL, &direct, &mkldnn));
    CHECK_OK(ctx, to_dense(ctx, mkldnn, &out));
    CHECK_OK(ctx, tensor_data_mutable(ctx, out, &elements));
    ((float *)elements)[50] += off;
    const tensor_t *in[] = {x, weight, NULL}, *const given = out;
    CHECK_OK(ctx, dispatch_verify(ctx, ops_find("conv2d"), &attrs, 3, in, 1, &given, 0, &error));
    tensor_release(x);
    tensor_release(weight);
    tensor_release(mkldnn);
    tensor_release(out);
    return error;
}

/* Winograd's transforms enlarge rounding errors about tenfold; only Winograd may be that
 * inexact. */
static void only_winograd_has_the_allowance_of_winograd(void **state)
{
    context_t *ctx = fixture_context(state);
    const float off = 1e-4F;
    assert_true(judge_conv(ctx, CONV_DIRECT, 0) <= 1);
    assert_true(judge_conv(ctx, CONV_WINOGRAD, off) <= 1);
    assert_true(judge_conv(ctx, CONV_DIRECT, off) > 1);
    assert_true(judge_conv(ctx, CONV_WINOGRAD, 100 * off) > 1);
}

/* Doubles do not represent 2^53 + 1. A sum with it is not reported as wrong, but one that lost its
 * leading digits is. */
static void integers_that_no_double_represents_are_not_wrong(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t x[] = {((int64_t)1 << 53) + 1, 5}, y[] = {1, -7};
    tensor_t *in[2] = {NULL};
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), x, &in[0]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), y, &in[1]));
    for (int i = 0; i < 3; i++) { /* a right result; a wrong large one; a wrong small one */
        const int64_t sums[] = {x[0] + y[0] + (i == 1 ? (int64_t)1 << 45 : 0),
                                x[1] + y[1] + (i == 2)};
        tensor_t *out = NULL;
        double error = -1;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), sums, &out));
        CHECK_OK(ctx, dispatch_verify(ctx, ops_find("add"), NULL, 2, (const tensor_t *const *)in, 1,
                                      (const tensor_t *const *)&out, 0, &error));
        assert_true(i == 0 ? error <= 1 : error > 1);
        tensor_release(out);
    }
    tensor_release(in[0]);
    tensor_release(in[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_small_result_is_wrong_without_its_digits),
        TEST(log_softmax_may_not_be_positive_by_more_than_its_sum_rounds),
        TEST(softmax_with_one_large_element_is_right_wherever_it_is_looked_at),
        TEST(a_sum_that_cancels_is_judged_by_its_terms),
        TEST(a_function_may_be_off_by_four_units_in_the_last_place),
        TEST(only_winograd_has_the_allowance_of_winograd),
        TEST(integers_that_no_double_represents_are_not_wrong),
        TEST(infinity_is_right_only_where_the_result_is_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
