/* Means of many elements; reductions of NaN, infinities and integers with more digits than f64 has;
 * and the index of a NaN in long rows. reference.txt has ordinary numbers. */
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"

#define ROWS 7
#define COLUMNS 3

static const float rows[ROWS][COLUMNS] = {{NAN, 1, -2},
                                          {INFINITY, 1, -INFINITY},
                                          {INFINITY, INFINITY, 2},
                                          {-INFINITY, -INFINITY, -INFINITY},
                                          {0, 0, -0.0f},
                                          {3e38f, -3e38f, 1e38f},
                                          {-20, 0.5f, 88.5f}};

/* Values printed by reduction_values.py, one number per row of x. */
static const struct {
    const char *op, *attrs;
    float values[ROWS];
} known[] = {
    {"amax", "", {NAN, INFINITY, INFINITY, -INFINITY, 0.0f, 3.00000001e+38f, 88.5f}},
    {"amin", "", {NAN, -INFINITY, 2.0f, -INFINITY, 0.0f, -3.00000001e+38f, -20.0f}},
    {"prod", "", {NAN, -INFINITY, INFINITY, -INFINITY, -0.0f, -INFINITY, -885.0f}},
    {"any", "", {1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 1.0f, 1.0f}},
    {"all", "", {1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 1.0f, 1.0f}},
    {"logsumexp", "", {NAN, INFINITY, INFINITY, -INFINITY, 1.09861229f, 3.00000001e+38f, 88.5f}},
    {"norm", "", {NAN, INFINITY, INFINITY, INFINITY, 0.0f, INFINITY, 90.7331252f}},
    {"norm", "p=0.0", {3.0f, 3.0f, 3.0f, 3.0f, 0.0f, 3.0f, 3.0f}},
    {"norm", "p=1.0", {NAN, INFINITY, INFINITY, INFINITY, 0.0f, INFINITY, 109.0f}},
    {"norm", "p=3.0", {NAN, INFINITY, INFINITY, INFINITY, 0.0f, INFINITY, 88.8391764f}},
    {"norm", "p=-1.0", {NAN, 1.0f, 2.0f, INFINITY, 0.0f, 5.99999989e+37f, 0.485130876f}},
    {"norm", "p=inf", {NAN, INFINITY, INFINITY, INFINITY, 0.0f, 3.00000001e+38f, 88.5f}},
    {"norm", "p=-inf", {NAN, 1.0f, 2.0f, INFINITY, 0.0f, 9.99999968e+37f, 0.5f}},
    {"var", "", {NAN, NAN, NAN, NAN, 0.0f, INFINITY, 3322.75f}},
    {"var", "correction=3", {NAN, NAN, NAN, NAN, NAN, INFINITY, INFINITY}},
    {"std", "correction=0", {NAN, NAN, NAN, NAN, 0.0f, 2.49443826e+38f, 47.0655571f}},
};

static tensor_t *reduce_rows(context_t *ctx, const char *name, const char *text, const tensor_t *x)
{
    _Alignas(16) char attrs[ATTRS_MAX];
    const opdef_t *op = ops_find(name);
    const char *dims = "dims=[1]";
    tensor_t *out = NULL;
    assert_non_null(op);
    attrs_init(&op->attrs, attrs);
    CHECK_OK(ctx, attrs_parse(ctx, name, &op->attrs, &dims, attrs));
    if (*text != '\0') CHECK_OK(ctx, attrs_parse(ctx, name, &op->attrs, &text, attrs));
    CHECK_OK(ctx, dispatch_run(ctx, op, attrs, 1, &x, NULL, &out));
    return out;
}

static void rows_of_special_values_give_what_pytorch_gives(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(ROWS, COLUMNS), rows, &x));
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        tensor_t *reduced = reduce_rows(ctx, known[k].op, known[k].attrs, x), *out = NULL;
        float given[ROWS];
        CHECK_OK(ctx, op_cast(ctx, reduced, DTYPE_F32, &out));
        CHECK_OK(ctx, tensor_read(ctx, out, given, sizeof given));
        for (int i = 0; i < ROWS; i++) {
            float wanted = known[k].values[i];
            bool is_close = isfinite(wanted) && fabs((double)given[i] - (double)wanted) <=
                                                    (double)FLT_EPSILON * fabs((double)wanted);
            if (!is_close && given[i] != wanted && !(isnan(given[i]) && isnan(wanted)))
                fail_msg("%s %s of row %d is %.9g, wanted %.9g", known[k].op, known[k].attrs, i,
                         (double)given[i], (double)wanted);
        }
        tensor_release(reduced);
        tensor_release(out);
    }
    tensor_release(x);
}

static void a_nan_anywhere_in_a_row_is_its_largest_and_smallest_element(void **state)
{
    context_t *ctx = fixture_context(state);
    static float values[300];
    for (int at = 0; at < 300; at += 13) {
        tensor_t *x = NULL;
        for (int i = 0; i < 300; i++) values[i] = i == at ? NAN : (float)(i % 17);
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 300), values, &x));
        for (int k = 0; k < 2; k++) {
            tensor_t *out = reduce_rows(ctx, k == 0 ? "amax" : "amin", "", x);
            float given = 0;
            CHECK_OK(ctx, tensor_read(ctx, out, &given, sizeof given));
            assert_true(isnan(given));
            tensor_release(out);
        }
        tensor_release(x);
    }
}

static int64_t reduce_integers(context_t *ctx, const char *op, dtype_t dtype, const int64_t *values)
{
    tensor_t *x = NULL;
    int64_t given = 0;
    CHECK_OK(ctx, tensor_from(ctx, dtype, SHAPE(1, 3), values, &x));
    tensor_t *out = reduce_rows(ctx, op, "", x);
    CHECK_OK(ctx, tensor_read(ctx, out, &given, sizeof given));
    tensor_release(x);
    tensor_release(out);
    return given;
}

/* f64 would compute wrong results: 2^53 + 1 is not an f64; -2 as u64 is 2^64 - 2; 2^32 * 2^32 * 3
 * is 0 modulo 2^64. */
static void integers_are_compared_and_multiplied_exactly(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t close[] = {(INT64_C(1) << 53) + 1, INT64_C(1) << 53, (INT64_C(1) << 53) + 2},
                  below[] = {-3, -5, -4}, large[] = {-2, 3, -7},
                  wrapping[] = {INT64_C(1) << 32, INT64_C(1) << 32, 3}, odd[] = {3, 7, 143165577};
    assert_int_equal(reduce_integers(ctx, "amax", DTYPE_S64, close), close[2]);
    assert_int_equal(reduce_integers(ctx, "amin", DTYPE_S64, close), close[1]);
    assert_int_equal(reduce_integers(ctx, "amax", DTYPE_S64, below), -3);
    assert_int_equal(reduce_integers(ctx, "amin", DTYPE_S64, below), -5);
    assert_int_equal(reduce_integers(ctx, "amax", DTYPE_U64, large), -2);
    assert_int_equal(reduce_integers(ctx, "amin", DTYPE_U64, large), 3);
    assert_int_equal(reduce_integers(ctx, "prod", DTYPE_S64, wrapping), 0);
    assert_int_equal(reduce_integers(ctx, "prod", DTYPE_S64, odd), INT64_C(3006477117));
}

/* name of the last kernel that ran */
static char kernel_that_ran[32];

static status_t note_kernel(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    (void)user;
    snprintf(kernel_that_ran, sizeof kernel_that_ran, "%s", prepared_kernel(event->prepared));
    return STATUS_OK;
}

/* Computes the mean of each plane with one of several operators. */
static tensor_t *average(context_t *ctx, int which, const tensor_t *x)
{
    tensor_t *out = NULL, *plain = NULL;
    const int64_t *sizes = tensor_sizes(x), space[] = {2, 3}, ones[] = {1, 1};
    const pool_attrs_t whole = {.kernel = {sizes[2], sizes[3]}};
    observer_t observer = {.op_end = note_kernel};
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    status_t status = which == 0   ? op_mean(ctx, x, 2, space, true, &out)
                      : which == 1 ? op_mean(ctx, x, 2, space, false, &out)
                      : which == 2 ? op_avg_pool2d(ctx, x, &whole, &out)
                                   : op_adaptive_avg_pool(ctx, x, 2, ones, &out);
    dispatch_remove_observer(ctx, &observer);
    CHECK_OK(ctx, status);
    CHECK_OK(ctx, to_dense(ctx, out, &plain));
    tensor_release(out);
    return plain;
}

/* Returns the largest relative error of the means of planes. format "" is dense. */
static double worst_error(context_t *ctx, int which, int64_t channels, int64_t size,
                          const char *format)
{
    tensor_t *dense = NULL, *x = NULL, *out = NULL;
    const void *given = NULL;
    const int64_t n = size * size;
    float *values = malloc((size_t)(channels * n) * sizeof *values);
    double worst = 0.0;
    assert_non_null(values);
    for (int64_t i = 0; i < channels * n; i++)
        values[i] = 0.1f + (float)((i * 7919 + i / n) % 1000) / 1000.0f;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, channels, size, size), values, &dense));
    if (*format == '\0')
        x = tensor_retain(dense);
    else
        CHECK_OK(ctx, convert_reorder(ctx, dense, format, &x));
    out = average(ctx, which, x);
    CHECK_OK(ctx, tensor_data(ctx, out, &given));
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) sum += (double)values[c * n + i];
        worst = fmax(worst, fabs((double)((const float *)given)[c] / (sum / (double)n) - 1.0));
    }
    free(values);
    tensor_release(dense);
    tensor_release(x);
    tensor_release(out);
    return worst;
}

/* Compares with sums in double. If a kernel added up all elements in one float, errors would be
 * 1e-5 and more. */
static void means_of_large_planes_are_as_exact_as_those_of_small_ones(void **state)
{
    static const char *const formats[] = {"", "abcd", "acdb", "aBcd8b", "aBcd16b"};
    context_t *ctx = fixture_context(state);
    for (int which = 0; which < 4; which++)
        for (int f = 0; f < 5; f++) {
            const double large = worst_error(ctx, which, 3, 1024, formats[f]);
            if (large > 5e-7)
                fail_msg("mean %d over 1024x1024 in %s is off by %g", which, formats[f], large);
            assert_string_not_equal(kernel_that_ran, "onednn");
            assert_string_not_equal(kernel_that_ran, "pooling");
            assert_true(worst_error(ctx, which, 17, 112, formats[f]) < 5e-7);
        }
}

static void norms_of_long_rows_are_as_exact_as_those_of_short_ones(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t n = 1 << 20;
    float *values = malloc((size_t)n * sizeof *values);
    tensor_t *x = NULL, *out = NULL;
    const void *given = NULL;
    double mean = 0.0, variance = 0.0;
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++) values[i] = 0.1f + (float)(i * 7919 % 1000) / 1000.0f;
    for (int64_t i = 0; i < n; i++) mean += (double)values[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += pow((double)values[i] - mean, 2.0) / (double)n;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, n), values, &x));
    CHECK_OK(ctx, op_layer_norm(ctx, x, 1, NULL, NULL, 1e-5, &out));
    CHECK_OK(ctx, tensor_data(ctx, out, &given));
    for (int64_t i = 0; i < n; i++) {
        const double expected = ((double)values[i] - mean) / sqrt(variance + 1e-5);
        assert_true(fabs((double)((const float *)given)[i] - expected) < 5e-7);
    }
    free(values);
    tensor_release(out);
    tensor_release(x);
}

/* The means at the end of image networks are of small planes. */
static void means_of_small_planes_are_exact(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_true(worst_error(ctx, 0, 64, 7, "acdb") < 5e-7);
    assert_string_equal(kernel_that_ran, "pooling");
    assert_true(worst_error(ctx, 3, 64, 7, "acdb") < 5e-7);
    assert_string_equal(kernel_that_ran, "native");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(means_of_large_planes_are_as_exact_as_those_of_small_ones),
        TEST(norms_of_long_rows_are_as_exact_as_those_of_short_ones),
        TEST(means_of_small_planes_are_exact),
        TEST(rows_of_special_values_give_what_pytorch_gives),
        TEST(a_nan_anywhere_in_a_row_is_its_largest_and_smallest_element),
        TEST(integers_are_compared_and_multiplied_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
