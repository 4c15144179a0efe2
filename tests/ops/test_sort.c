/* Order of NaN, infinities, zeros and equal elements, and of integers with more digits than f64
 * has. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "ops/ops.h"

#define N 9

static const float mixed[N] = {1, NAN, 3, INFINITY, -2, NAN, 3, -0.0f, 0};

/* Expected indices are those of torch.sort(stable=True). topk must return the first of them. */
static void nan_is_larger_than_all_numbers_and_equal_elements_keep_their_order(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t wanted[2][N] = {{4, 7, 8, 0, 2, 6, 3, 1, 5}, {1, 5, 3, 2, 6, 0, 7, 8, 4}};
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(N), mixed, &x));
    for (int descending = 0; descending < 2; descending++)
        for (int64_t k = 1; k <= N; k++) {
            tensor_t *values = NULL, *indices = NULL;
            float value[N];
            int64_t index[N];
            CHECK_OK(ctx, k == N ? op_sort(ctx, x, 0, descending, &values, &indices)
                                 : op_topk(ctx, x, k, 0, descending, &values, &indices));
            CHECK_OK(ctx, tensor_read(ctx, values, value, sizeof value));
            CHECK_OK(ctx, tensor_read(ctx, indices, index, sizeof index));
            assert_memory_equal(index, wanted[descending], (size_t)k * sizeof *index);
            for (int i = 0; i < k; i++)
                assert_memory_equal(&value[i], &mixed[index[i]], sizeof *value);
            tensor_release(values);
            tensor_release(indices);
        }
    tensor_release(x);
}

static int64_t find_in(context_t *ctx, dtype_t dtype, int64_t n, const void *elements, bool largest)
{
    tensor_t *x = NULL, *out = NULL;
    int64_t index = -1;
    CHECK_OK(ctx, tensor_from(ctx, dtype, SHAPE(n), elements, &x));
    CHECK_OK(ctx, (largest ? op_argmax : op_argmin)(ctx, x, NULL, false, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, &index, sizeof index));
    tensor_release(x);
    tensor_release(out);
    return index;
}

/* For `mixed`, torch.argmax and torch.argmin return 1, too. */
static void the_first_nan_else_the_first_of_equal_elements_is_found(void **state)
{
    context_t *ctx = fixture_context(state);
    static float row[600];
    assert_int_equal(find_in(ctx, DTYPE_F32, N, mixed, true), 1);
    assert_int_equal(find_in(ctx, DTYPE_F32, N, mixed, false), 1);
    for (int at = 3; at < 590; at += 97) {
        for (int i = 0; i < 600; i++) row[i] = (float)(i % 5);
        row[at] = row[at + 9] = 7;
        assert_int_equal(find_in(ctx, DTYPE_F32, 600, row, true), at);
        row[at] = row[at + 9] = -7;
        assert_int_equal(find_in(ctx, DTYPE_F32, 600, row, false), at);
        row[at] = row[at + 9] = NAN;
        assert_int_equal(find_in(ctx, DTYPE_F32, 600, row, true), at);
        assert_int_equal(find_in(ctx, DTYPE_F32, 600, row, false), at);
    }
    const float nothing[] = {-INFINITY, -INFINITY};
    assert_int_equal(find_in(ctx, DTYPE_F32, 2, nothing, true), 0);
}

/* f64 would be wrong: 2^53 + 1 is not an f64, and -2 as u64 is 2^64 - 2. */
static void integers_are_ordered_exactly(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t close[] = {INT64_C(1) << 53, (INT64_C(1) << 53) + 1, -1}, large[] = {5, -2, 3};
    assert_int_equal(find_in(ctx, DTYPE_S64, 3, close, true), 1);
    assert_int_equal(find_in(ctx, DTYPE_S64, 3, close, false), 2);
    assert_int_equal(find_in(ctx, DTYPE_U64, 3, large, true), 1);
    assert_int_equal(find_in(ctx, DTYPE_U64, 3, large, false), 2);
    for (int descending = 0; descending < 2; descending++) {
        tensor_t *x = NULL, *values = NULL, *indices = NULL;
        int64_t index[3];
        const int64_t signed_order[] = {2, 0, 1}, unsigned_order[] = {2, 0, 1};
        for (int is_unsigned = 0; is_unsigned < 2; is_unsigned++) {
            const int64_t *order = is_unsigned ? unsigned_order : signed_order;
            CHECK_OK(ctx, tensor_from(ctx, is_unsigned ? DTYPE_U64 : DTYPE_S64, SHAPE(3),
                                      is_unsigned ? large : close, &x));
            CHECK_OK(ctx, op_sort(ctx, x, -1, descending, &values, &indices));
            CHECK_OK(ctx, tensor_read(ctx, indices, index, sizeof index));
            for (int i = 0; i < 3; i++) assert_int_equal(index[i], order[descending ? 2 - i : i]);
            tensor_release(x);
            tensor_release(values);
            tensor_release(indices);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nan_is_larger_than_all_numbers_and_equal_elements_keep_their_order),
        TEST(the_first_nan_else_the_first_of_equal_elements_is_found),
        TEST(integers_are_ordered_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
