/* Tests whether tensors overlap in memory, by marking the bytes of each. */
#include "tests/support/support.h"

#include <string.h>

#include "tensor/convert/convert.h"
#include "tensor/tensor_impl.h"

#define N_ELEMENTS 96

static uint32_t draw(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % n;
}

/* Marks the bytes of the tensor's elements, counted from `first`. Returns false if an element is
 * outside of the memory. */
static bool mark(const tensor_t *tensor, const char *first, bool *is_marked)
{
    const tensor_info_t *info = tensor_info(tensor);
    int64_t index[TENSOR_MAX_RANK] = {0};
    const size_t width = dtype_size(info->dtype);
    memset(is_marked, 0, N_ELEMENTS * sizeof(float));
    do {
        const char *at = tensor_bytes(tensor);
        for (int d = 0; d < info->rank; d++)
            at += index[d] * info->format.strides[d] * (int64_t)width;
        for (size_t b = 0; b < width; b++) {
            if (at + b - first >= (ptrdiff_t)(N_ELEMENTS * sizeof(float))) return false;
            is_marked[at + b - first] = true;
        }
    } while (shape_next(info->rank, info->sizes, index));
    return true;
}

/* Makes a random view of up to three dimensions inside the memory. */
static tensor_t *draw_view(context_t *ctx, uint32_t *random, const tensor_t *base)
{
    tensor_t *view = NULL;
    while (view == NULL) {
        int64_t sizes[3], strides[3], end = 1;
        const int rank = (int)draw(random, 4);
        for (int d = 0; d < rank; d++) {
            sizes[d] = 1 + draw(random, 4);
            strides[d] = draw(random, 13);
            end += (sizes[d] - 1) * strides[d];
        }
        const int64_t offset = draw(random, 24);
        if (offset + end > tensor_numel(base)) continue;
        CHECK_OK(ctx, tensor_as_strided(ctx, base, rank, sizes, strides, offset, &view));
    }
    return view;
}

/* `other` is the same memory, often with another dtype or start, so one of its elements may overlap
 * two of base's. */
static void strided_views_overlap_where_an_element_has_a_byte_of_the_others(void **state)
{
    context_t *ctx = fixture_context(state);
    static const dtype_t dtypes[] = {DTYPE_F32, DTYPE_F64, DTYPE_BF16, DTYPE_U8};
    static float memory[N_ELEMENTS];
    static bool a_marks[sizeof memory], b_marks[sizeof memory];
    const int64_t n = N_ELEMENTS;
    uint32_t random = 7;
    int n_overlaps = 0, n_same = 0;
    tensor_t *base = NULL;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 1, &n, NULL, memory, NULL, NULL, &base));
    for (int round = 0; round < 20000; round++) {
        tensor_t *other = NULL;
        const dtype_t dtype = dtypes[round % 4];
        const size_t shift = round % 4 == 0 ? 4 * draw(&random, 4) : dtype_size(dtype);
        const int64_t n_other = (int64_t)((sizeof memory - shift) / dtype_size(dtype));
        CHECK_OK(ctx, tensor_borrow(ctx, dtype, 1, &n_other, NULL, (char *)memory + shift, NULL,
                                    NULL, &other));
        tensor_t *a = draw_view(ctx, &random, base), *b = draw_view(ctx, &random, other);
        assert_true(mark(a, (char *)memory, a_marks) && mark(b, (char *)memory, b_marks));
        bool has_common = false;
        for (size_t i = 0; i < sizeof memory; i++) has_common |= a_marks[i] && b_marks[i];
        assert_true(tensor_overlaps(a, b) == has_common);
        assert_true(tensor_overlaps(b, a) == has_common);
        n_overlaps += has_common;
        if (tensor_has_bytes_of(a, b)) {
            assert_memory_equal(a_marks, b_marks, sizeof a_marks);
            n_same++;
        }
        tensor_release(a);
        tensor_release(b);
        tensor_release(other);
    }
    assert_in_range(n_overlaps, 3000, 17000);
    assert_in_range(n_same, 10, 1000);
    tensor_release(base);
}

static void columns_of_a_large_matrix_are_told_apart(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {3000, 3000}, half[] = {3000, 1500}, strides[] = {3000, 2};
    tensor_t *x = NULL, *even = NULL, *odd = NULL, *left = NULL, *right = NULL, *turned = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 2, sizes, &x));
    CHECK_OK(ctx, tensor_as_strided(ctx, x, 2, half, strides, 0, &even));
    CHECK_OK(ctx, tensor_as_strided(ctx, x, 2, half, strides, 1, &odd));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 1, 0, 1500, &left));
    CHECK_OK(ctx, tensor_narrow(ctx, x, 1, 1500, 1500, &right));
    CHECK_OK(ctx, tensor_permute(ctx, x, 2, (const int64_t[]){1, 0}, &turned));
    assert_false(tensor_overlaps(even, odd));
    assert_false(tensor_overlaps(left, right));
    assert_true(tensor_overlaps(even, left) && tensor_overlaps(odd, right));
    assert_true(tensor_has_bytes_of(x, turned));
    assert_false(tensor_has_bytes_of(x, left) || tensor_has_bytes_of(even, odd));
    tensor_release(x);
    tensor_release(even);
    tensor_release(odd);
    tensor_release(left);
    tensor_release(right);
    tensor_release(turned);
}

/* A snapshot shares bytes with its source until one of the two is written. */
static void a_write_is_seen_through_views_and_not_through_snapshots(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 4};
    float memory[8] = {0};
    tensor_t *x = NULL, *view = NULL, *snapshot = NULL, *lent = NULL, *same = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 2, sizes, &x));
    CHECK_OK(ctx, tensor_view(ctx, x, 1, (const int64_t[]){8}, &view));
    CHECK_OK(ctx, to_mkldnn(ctx, x, &snapshot));
    assert_true(tensor_shares_writes(x, view));
    assert_true(tensor_overlaps(x, snapshot));
    assert_false(tensor_shares_writes(x, snapshot));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 2, sizes, NULL, memory, NULL, NULL, &lent));
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 2, sizes, NULL, memory, NULL, NULL, &same));
    assert_true(tensor_shares_writes(lent, same));
    tensor_release(x);
    tensor_release(view);
    tensor_release(snapshot);
    tensor_release(lent);
    tensor_release(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(strided_views_overlap_where_an_element_has_a_byte_of_the_others),
        TEST(columns_of_a_large_matrix_are_told_apart),
        TEST(a_write_is_seen_through_views_and_not_through_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
