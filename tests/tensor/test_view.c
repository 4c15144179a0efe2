#include "tests/support/support.h"

#include <string.h>

#include "tensor/tensor_impl.h"

/* Makes 0, 1, 2, ... in this shape. */
static tensor_t *count_up(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *flat = NULL, *shaped = NULL;
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, n, 0, &flat));
    CHECK_OK(ctx, tensor_view(ctx, flat, rank, sizes, &shaped));
    tensor_release(flat);
    return shaped;
}

static void check_elements(context_t *ctx, const tensor_t *tensor, int n, const float *wanted)
{
    float elements[64] = {0};
    assert_int_equal(tensor_numel(tensor), n);
    CHECK_OK(ctx, tensor_read(ctx, tensor, elements, sizeof elements));
    for (int i = 0; i < n; i++)
        if (elements[i] != wanted[i])
            fail_msg("element %d is %g, not %g", i, (double)elements[i], (double)wanted[i]);
}

static void a_view_shares_bytes_and_sees_writes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = count_up(ctx, SHAPE(2, 3)), *view = NULL;
    CHECK_OK(ctx, tensor_view(ctx, x, SHAPE(3, -1), &view));
    assert_int_equal(tensor_sizes(view)[1], 2);
    assert_ptr_equal(tensor_bytes(x), tensor_bytes(view));
    CHECK_OK(ctx, tensor_fill(ctx, x, 7));
    check_elements(ctx, view, 6, (float[]){7, 7, 7, 7, 7, 7});
    tensor_release(x);
    check_elements(ctx, view, 6, (float[]){7, 7, 7, 7, 7, 7});
    tensor_release(view);
}

static void a_view_of_a_snapshotted_base_sees_the_bases_writes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = count_up(ctx, SHAPE(4)), *view = NULL;
    storage_t *snapshot = NULL;
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 2, 2, &view));
    CHECK_OK(ctx, storage_snapshot(ctx, x->storage, &snapshot));
    CHECK_OK(ctx, tensor_fill(ctx, x, 7));
    check_elements(ctx, view, 2, (float[]){7, 7});
    assert_true(((const float *)storage_data(snapshot))[2] == 2);
    storage_release(snapshot);
    tensor_release(x);
    tensor_release(view);
}

static void view_refuses_what_does_not_fit(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = count_up(ctx, SHAPE(2, 3)), *view = NULL, *turned = NULL;
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(4), &view), STATUS_INVALID_ARGUMENT,
                "tensor_view: f32[2,3] as [4], the number of elements must stay");
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(4, -1), &view), STATUS_INVALID_ARGUMENT,
                "no size fits for -1");
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(-1, -1), &view), STATUS_INVALID_ARGUMENT,
                "only one size may be -1");
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(0, -1), &view), STATUS_INVALID_ARGUMENT, "-1");
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(-3, -2), &view), STATUS_INVALID_ARGUMENT,
                "tensor_view: ");
    CHECK_OK(ctx, tensor_permute(ctx, x, SHAPE(1, 0), &turned));
    CHECK_FAILS(ctx, tensor_view(ctx, turned, SHAPE(6), &view), STATUS_INVALID_ARGUMENT,
                "its strides do not allow it, use tensor_contiguous");
    assert_null(view);
    tensor_release(x);
    tensor_release(turned);
}

static void an_empty_tensor_can_be_viewed(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *view = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, SHAPE(0, 3), &x));
    CHECK_OK(ctx, tensor_view(ctx, x, SHAPE(5, -1), &view));
    assert_int_equal(tensor_sizes(view)[1], 0);
    tensor_release(view);
    view = NULL;
    CHECK_FAILS(ctx, tensor_view(ctx, x, SHAPE(0, -1), &view), STATUS_INVALID_ARGUMENT,
                "no size fits for -1");
    tensor_release(x);
}

typedef struct stride_case {
    int rank, new_rank;
    int64_t sizes[4], strides[4], new_sizes[4], wanted[4];
    bool is_possible;
} stride_case_t;

/* The strides are those of torch.empty_strided(sizes, strides).view(new_sizes). */
static void view_strides_are_those_of_pytorch(void **state)
{
    (void)state;
    static const stride_case_t cases[] = {
        {2, 1, {2, 3}, {3, 1}, {6}, {1}, true},
        {2, 1, {2, 3}, {1, 2}, {6}, {0}, false},
        {2, 1, {2, 3}, {4, 1}, {6}, {0}, false},
        {2, 3, {4, 6}, {10, 1}, {2, 2, 6}, {20, 10, 1}, true},
        {2, 3, {4, 6}, {10, 1}, {4, 3, 2}, {10, 2, 1}, true},
        {2, 3, {4, 6}, {10, 1}, {8, 3, 1}, {0}, false},
        {3, 2, {2, 3, 4}, {24, 8, 2}, {6, 4}, {8, 2}, true},
        {3, 1, {2, 3, 4}, {24, 8, 2}, {24}, {2}, true},
        {3, 2, {2, 1, 4}, {4, 99, 1}, {2, 4}, {4, 1}, true},
        {2, 4, {2, 3}, {3, 1}, {1, 2, 1, 3}, {6, 3, 3, 1}, true},
        {1, 2, {4}, {0}, {2, 2}, {0, 0}, true},
        {3, 3, {2, 3, 4}, {12, 1, 3}, {2, 12, 1}, {0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const stride_case_t *c = &cases[i];
        tensor_info_t info = info_strided(DTYPE_F32, c->rank, c->sizes, c->strides);
        int64_t strides[TENSOR_MAX_RANK] = {0};
        bool is_possible = view_strides(&info, c->new_rank, c->new_sizes, strides);
        if (is_possible != c->is_possible) fail_msg("case %zu: possible is %d", i, is_possible);
        for (int d = 0; is_possible && d < c->new_rank; d++)
            if (strides[d] != c->wanted[d])
                fail_msg("case %zu: stride %d is %lld", i, d, (long long)strides[d]);
    }
}

static void permute_moves_sizes_and_strides(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = count_up(ctx, SHAPE(2, 3)), *view = NULL;
    CHECK_OK(ctx, tensor_permute(ctx, x, SHAPE(-1, 0), &view));
    check_elements(ctx, view, 6, (float[]){0, 3, 1, 4, 2, 5});
    tensor_release(view);
    view = NULL;
    CHECK_FAILS(ctx, tensor_permute(ctx, x, SHAPE(0), &view), STATUS_INVALID_ARGUMENT,
                "tensor_permute: 1 dims for f32[2,3]");
    CHECK_FAILS(ctx, tensor_permute(ctx, x, SHAPE(0, -2), &view), STATUS_INVALID_ARGUMENT,
                "tensor_permute: dim 0 of f32[2,3] twice");
    CHECK_FAILS(ctx, tensor_permute(ctx, x, SHAPE(0, 2), &view), STATUS_INVALID_ARGUMENT,
                "tensor_permute: dim 2 of f32[2,3], out of range");
    assert_null(view);
    tensor_release(x);
}

static void narrow_cuts_a_piece_out(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = count_up(ctx, SHAPE(3, 4)), *rows = NULL, *piece = NULL, *none = NULL;
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 1, 2, &rows));
    CHECK_OK(ctx, tensor_narrow(ctx, rows, -1, -3, 2, &piece));
    check_elements(ctx, piece, 4, (float[]){5, 6, 9, 10});
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 3, 0, &none));
    assert_int_equal(tensor_numel(none), 0);
    tensor_t *bad = NULL;
    CHECK_FAILS(ctx, tensor_narrow(ctx, x, 1, 3, 2, &bad), STATUS_INVALID_ARGUMENT,
                "tensor_narrow: start 3 length 2 in dim 1 of f32[3,4], out of range");
    CHECK_FAILS(ctx, tensor_narrow(ctx, x, 2, 0, 1, &bad), STATUS_INVALID_ARGUMENT, "dim 2");
    CHECK_FAILS(ctx, tensor_narrow(ctx, x, 0, 0, INT64_MAX, &bad), STATUS_INVALID_ARGUMENT,
                "out of range");
    CHECK_FAILS(ctx, tensor_narrow(ctx, x, 0, -4, 1, &bad), STATUS_INVALID_ARGUMENT,
                "out of range");
    assert_null(bad);
    tensor_release(x);
    tensor_release(rows);
    tensor_release(piece);
    tensor_release(none);
}

static void as_strided_reaches_all_of_the_storage_and_nothing_else(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = count_up(ctx, SHAPE(6)), *tail = NULL, *view = NULL, *bad = NULL;
    CHECK_OK(ctx, tensor_as_strided(ctx, x, SHAPE(2, 2), (int64_t[]){3, 2}, 0, &view));
    check_elements(ctx, view, 4, (float[]){0, 2, 3, 5});
    tensor_release(view);
    CHECK_OK(ctx, tensor_narrow(ctx, x, 0, 4, 2, &tail));
    CHECK_OK(ctx, tensor_as_strided(ctx, tail, SHAPE(6), (int64_t[]){1}, -4, &view));
    check_elements(ctx, view, 6, (float[]){0, 1, 2, 3, 4, 5});
    tensor_release(view);
    CHECK_OK(ctx, tensor_as_strided(ctx, x, SHAPE(0, 9), (int64_t[]){100, 100}, 6, &view));
    tensor_release(view);

    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(7), (int64_t[]){1}, 0, &bad),
                STATUS_INVALID_ARGUMENT,
                "tensor_as_strided: the view at offset 0 reaches outside the storage of f32[6]");
    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(2, 2), (int64_t[]){3, 2}, 1, &bad),
                STATUS_INVALID_ARGUMENT, "outside the storage");
    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(1), (int64_t[]){1}, -1, &bad),
                STATUS_INVALID_ARGUMENT, "outside the storage");
    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(0), (int64_t[]){1}, 7, &bad),
                STATUS_INVALID_ARGUMENT, "outside the storage");
    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(3, 3), (int64_t[]){INT64_MAX, 1}, 0, &bad),
                STATUS_INVALID_ARGUMENT, "outside the storage");
    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(1), (int64_t[]){1}, INT64_MAX, &bad),
                STATUS_INVALID_ARGUMENT, "outside the storage");
    CHECK_FAILS(ctx, tensor_as_strided(ctx, x, SHAPE(2), (int64_t[]){-1}, 3, &bad),
                STATUS_INVALID_ARGUMENT, "stride -1 of dimension 0, must be >= 0");
    assert_null(bad);
    tensor_release(x);
    tensor_release(tail);
}

static status_t look_around(context_t *ctx)
{
    tensor_t *x = NULL, *view = NULL, *turned = NULL, *piece = NULL;
    status_t status = tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 4), &x);
    if (status == STATUS_OK) status = tensor_view(ctx, x, SHAPE(4, 3), &view);
    if (status == STATUS_OK) status = tensor_permute(ctx, view, SHAPE(1, 0), &turned);
    if (status == STATUS_OK) status = tensor_narrow(ctx, turned, 0, 1, 2, &piece);
    tensor_release(x);
    tensor_release(view);
    tensor_release(turned);
    tensor_release(piece);
    return status;
}

static void views_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(look_around);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_view_shares_bytes_and_sees_writes),
        TEST(a_view_of_a_snapshotted_base_sees_the_bases_writes),
        TEST(view_refuses_what_does_not_fit),
        TEST(an_empty_tensor_can_be_viewed),
        TEST(view_strides_are_those_of_pytorch),
        TEST(permute_moves_sizes_and_strides),
        TEST(narrow_cuts_a_piece_out),
        TEST(as_strided_reaches_all_of_the_storage_and_nothing_else),
        TEST(views_survive_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
