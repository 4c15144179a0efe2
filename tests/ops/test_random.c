/* Random numbers must be the same for equal seeds and different for others, and must have the right
 * distribution. Bounds are at least four standard deviations of the estimates. */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>

#include "ops/ops.h"

#define N 40000

static float numbers[N], others[N];

static tensor_t *zeros(context_t *ctx)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(200, N / 200), &x));
    return x;
}

static void take(context_t *ctx, tensor_t *tensor, float *out)
{
    CHECK_OK(ctx, tensor_read(ctx, tensor, out, N * sizeof *out));
    tensor_release(tensor);
}

static double mean_of(int power)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += pow((double)numbers[i], power);
    return sum / N;
}

static void a_seed_gives_its_numbers_with_any_number_of_threads(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = zeros(ctx), *y = NULL;
    int n_equal = 0;
    CHECK_OK(ctx, op_randn_like(ctx, x, 0, 1, 5, DTYPE_NONE, &y));
    take(ctx, y, numbers);
    CHECK_OK(ctx, context_set_threads(ctx, 3));
    CHECK_OK(ctx, op_randn_like(ctx, x, 0, 1, 5, DTYPE_NONE, &y));
    take(ctx, y, others);
    assert_memory_equal(numbers, others, sizeof numbers);
    CHECK_OK(ctx, op_randn_like(ctx, x, 0, 1, 6, DTYPE_NONE, &y));
    take(ctx, y, others);
    for (int i = 0; i < N; i++) n_equal += numbers[i] == others[i];
    assert_in_range(n_equal, 0, 3);
    tensor_release(x);
}

static void uniform_numbers_fill_their_range(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = zeros(ctx), *y = NULL;
    int cells[16] = {0};
    CHECK_OK(ctx, op_rand_like(ctx, x, -1.0, 3.0, 11, DTYPE_NONE, &y));
    take(ctx, y, numbers);
    for (int i = 0; i < N; i++) {
        assert_true(numbers[i] >= -1.0f && numbers[i] <= 3.0f);
        cells[numbers[i] < 3.0f ? (int)((numbers[i] + 1.0f) * 4.0f) : 15]++;
    }
    for (int i = 0; i < 16; i++) assert_true(abs(cells[i] - N / 16) < 6 * sqrt(N / 16.0));
    assert_true(fabs(mean_of(1) - 1.0) < 6 * sqrt(16.0 / 12 / N));
    tensor_release(x);
}

/* One in 512 numbers would be rounded up to the end if it were rounded to bf16 afterwards. */
static void uniform_numbers_never_reach_the_high_end(void **state)
{
    static const dtype_t dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_F32, DTYPE_F64};
    static const double ends[][2] = {{0, 1}, {-2, 3}, {100, 101}, {-1, 0}};
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 4; i++)
        for (int e = 0; e < 4; e++) {
            tensor_t *x = zeros(ctx), *y = NULL, *wide = NULL;
            CHECK_OK(ctx, op_rand_like(ctx, x, ends[e][0], ends[e][1], 3, dtypes[i], &y));
            CHECK_OK(ctx, op_cast(ctx, y, DTYPE_F32, &wide));
            take(ctx, wide, numbers);
            for (int n = 0; n < N; n++)
                assert_true(numbers[n] >= (float)ends[e][0] &&
                            (numbers[n] < (float)ends[e][1] || dtypes[i] == DTYPE_F64));
            tensor_release(y);
            tensor_release(x);
        }
}

static void normal_numbers_have_their_moments(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = zeros(ctx), *y = NULL;
    double product = 0;
    CHECK_OK(ctx, op_randn_like(ctx, x, 0, 1, 3, DTYPE_NONE, &y));
    take(ctx, y, numbers);
    assert_true(fabs(mean_of(1)) < 6 / sqrt(N));
    assert_true(fabs(mean_of(2) - 1) < 6 * sqrt(2.0 / N));
    assert_true(fabs(mean_of(3)) < 6 * sqrt(15.0 / N));
    assert_true(fabs(mean_of(4) - 3) < 6 * sqrt(96.0 / N));
    /* the product of neighbours has the mean 0 */
    for (int i = 1; i < N; i++) product += (double)numbers[i] * (double)numbers[i - 1];
    assert_true(fabs(product / N) < 6 / sqrt(N));
    CHECK_OK(ctx, op_randn_like(ctx, x, 5, 0.5, 3, DTYPE_NONE, &y));
    take(ctx, y, numbers);
    assert_true(fabs(mean_of(1) - 5) < 3 / sqrt(N));
    tensor_release(x);
}

static void bernoulli_is_one_as_often_as_it_says(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = zeros(ctx), *p = NULL, *y = NULL;
    CHECK_OK(ctx, op_add_scalar(ctx, x, 0.25, &p));
    CHECK_OK(ctx, op_bernoulli(ctx, p, 17, DTYPE_NONE, &y));
    take(ctx, y, numbers);
    assert_true(fabs(mean_of(1) - 0.25) < 6 * sqrt(0.1875 / N));
    CHECK_OK(ctx, op_bernoulli(ctx, x, 17, DTYPE_BOOL, &y));
    assert_int_equal(tensor_dtype(y), DTYPE_BOOL);
    tensor_release(y);
    CHECK_OK(ctx, op_bernoulli(ctx, x, 17, DTYPE_NONE, &y));
    take(ctx, y, numbers);
    assert_true(mean_of(1) == 0);
    tensor_release(p);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BF16, SHAPE(200, N / 200), 1.0, &p));
    CHECK_OK(ctx, op_bernoulli(ctx, p, 17, DTYPE_F32, &y));
    take(ctx, y, numbers);
    assert_true(mean_of(1) == 1);
    tensor_release(p);
    tensor_release(x);
}

static void numbers_of_integers_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(3), &x));
    CHECK_FAILS(ctx, op_rand_like(ctx, x, 0, 1, 0, DTYPE_NONE, &y), STATUS_INVALID_ARGUMENT,
                "rand_like: numbers of dtype s64, a floating one is needed");
    CHECK_FAILS(ctx, op_bernoulli(ctx, x, 0, DTYPE_F32, &y), STATUS_INVALID_ARGUMENT,
                "bernoulli: x is s64[3], probabilities of a floating dtype are needed");
    CHECK_OK(ctx, op_rand_like(ctx, x, 0, 1, 0, DTYPE_F64, &y));
    assert_int_equal(tensor_dtype(y), DTYPE_F64);
    tensor_release(y);
    tensor_release(x);
}

/* The weights are 1, 2, 0, 5. The frequency of each index must be its weight divided by 8; over
 * 20,000 rows, its standard deviation is at most 0.0036. Without replacement, this is checked for
 * the first index of a row only. */
static void indices_come_as_often_as_their_weights_say(void **state)
{
    enum { N_ROWS = 20000, N_WEIGHTS = 4 };
    static const float weights[N_WEIGHTS] = {1, 2, 0, 5};
    context_t *ctx = fixture_context(state);
    tensor_t *row = NULL, *rows = NULL, *drawn = NULL, *again = NULL;
    static int64_t read[N_ROWS * 3];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, N_WEIGHTS), weights, &row));
    CHECK_OK(ctx, op_expand(ctx, row, 2, (const int64_t[]){N_ROWS, N_WEIGHTS}, &rows));
    for (int replacement = 0; replacement < 2; replacement++) {
        int64_t count[3][N_WEIGHTS] = {{0}};
        CHECK_OK(ctx, op_multinomial(ctx, rows, 3, replacement, 11, &drawn));
        CHECK_OK(ctx, tensor_read(ctx, drawn, read, sizeof read));
        for (int64_t i = 0; i < N_ROWS * 3; i++) {
            assert_in_range(read[i], 0, N_WEIGHTS - 1);
            count[i % 3][read[i]]++;
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(count[i][2], 0);
            for (int k = 0; k < N_WEIGHTS && (i == 0 || replacement); k++)
                assert_true(fabs((double)count[i][k] / N_ROWS - (double)weights[k] / 8) < 0.015);
        }
        for (int64_t i = 0; i < N_ROWS * 3 && !replacement; i += 3)
            assert_int_equal(read[i] + read[i + 1] + read[i + 2], 0 + 1 + 3);
        tensor_release(drawn);
    }
    CHECK_OK(ctx, op_multinomial(ctx, row, 64, true, 11, &drawn));
    CHECK_OK(ctx, op_multinomial(ctx, row, 64, true, 12, &again));
    CHECK_OK(ctx, tensor_read(ctx, drawn, read, 64 * sizeof *read));
    CHECK_OK(ctx, tensor_read(ctx, again, &read[64], 64 * sizeof *read));
    assert_memory_not_equal(read, &read[64], 64 * sizeof *read);
    tensor_release(drawn);
    tensor_release(again);
    tensor_release(row);
    tensor_release(rows);
}

static void weights_that_nothing_can_be_drawn_by_are_refused(void **state)
{
    static const float weights[] = {1, 0, 2, -1, 3, 4};
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *first = NULL, *volume = NULL, *zero = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2, 3), weights, &x));
    CHECK_OK(ctx, op_slice(ctx, x, 0, 0, 1, 1, &first));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 2, 3), &volume));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3), &zero));
    CHECK_FAILS(ctx, op_multinomial(ctx, volume, 1, true, 0, &out), STATUS_INVALID_ARGUMENT,
                "multinomial: x is f32[1,2,3], floating weights of rank 1 or 2 are needed");
    CHECK_FAILS(ctx, op_multinomial(ctx, x, 4, false, 0, &out), STATUS_INVALID_ARGUMENT,
                "multinomial: 4 samples of f32[2,3], 1 to 3 of some weights are possible");
    CHECK_FAILS(ctx, op_multinomial(ctx, x, 1, true, 0, &out), STATUS_INVALID_ARGUMENT,
                "multinomial: weight -1 in row 1, finite ones of 0 and more are needed");
    CHECK_FAILS(ctx, op_multinomial(ctx, first, 3, false, 0, &out), STATUS_INVALID_ARGUMENT,
                "multinomial: row 0 has 2 weights above 0, needs 3");
    CHECK_FAILS(ctx, op_multinomial(ctx, zero, 1, true, 0, &out), STATUS_INVALID_ARGUMENT,
                "multinomial: row 0 has 0 weights above 0, needs 1");
    tensor_release(x);
    tensor_release(first);
    tensor_release(volume);
    tensor_release(zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_seed_gives_its_numbers_with_any_number_of_threads),
        TEST(uniform_numbers_fill_their_range),
        TEST(uniform_numbers_never_reach_the_high_end),
        TEST(normal_numbers_have_their_moments),
        TEST(bernoulli_is_one_as_often_as_it_says),
        TEST(indices_come_as_often_as_their_weights_say),
        TEST(weights_that_nothing_can_be_drawn_by_are_refused),
        TEST(numbers_of_integers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
