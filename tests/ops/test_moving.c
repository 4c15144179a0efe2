/* Functions that move elements by calling several operators, compared with PyTorch, and their
 * errors. test_conformance.c and test_reference.c test the operators. */
#include "tests/support/support.h"

#include "ops/ops.h"
#include "tensor/scope.h"

/* Makes 0, 1, 2, ... of these sizes. */
static tensor_t *ramp(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *line = NULL, *x = NULL;
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, n, 0, &line));
    CHECK_OK(ctx, op_reshape(ctx, line, rank, sizes, &x));
    tensor_release(line);
    return x;
}

static void check(context_t *ctx, tensor_t *tensor, int rank, const int64_t *sizes,
                  const double *wanted)
{
    tensor_t *wide = NULL;
    double elements[64];
    assert_int_equal(tensor_rank(tensor), rank);
    for (int d = 0; d < rank; d++) assert_int_equal(tensor_sizes(tensor)[d], sizes[d]);
    CHECK_OK(ctx, op_cast(ctx, tensor, DTYPE_F64, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, elements, sizeof elements));
    for (int64_t i = 0; i < tensor_numel(tensor); i++) assert_true(elements[i] == wanted[i]);
    tensor_release(wide);
    tensor_release(tensor);
}

#define VALUES(...)                                                                                \
    (const double[])                                                                               \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void tensors_are_stacked_along_a_new_dimension(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(2, 3)), *y = NULL, *out = NULL;
    CHECK_OK(ctx, op_add_scalar(ctx, x, 6, &y));
    const tensor_t *const both[] = {x, y};
    CHECK_OK(ctx, op_stack(ctx, 2, both, 1, &out));
    check(ctx, out, SHAPE(2, 2, 3), VALUES(0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11));
    CHECK_OK(ctx, op_stack(ctx, 2, both, -1, &out));
    check(ctx, out, SHAPE(2, 3, 2), VALUES(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
    tensor_release(x);
    tensor_release(y);
}

static void chunks_are_equal_but_for_the_last(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        int n, n_made;
        int64_t size, last;
    } kinds[] = {{4, 4, 3, 1}, {6, 5, 2, 2}, {1, 1, 10, 10}, {64, 10, 1, 1}};
    tensor_t *x = ramp(ctx, SHAPE(1, 10)), *out[64];
    for (int k = 0; k < 4; k++) {
        int n_made = 0;
        CHECK_OK(ctx, op_chunk(ctx, x, kinds[k].n, 1, &n_made, out));
        assert_int_equal(n_made, kinds[k].n_made);
        for (int i = 0; i < n_made; i++) {
            float first = -1, pieces[10];
            assert_int_equal(tensor_sizes(out[i])[1],
                             i < n_made - 1 ? kinds[k].size : kinds[k].last);
            CHECK_OK(ctx, tensor_read(ctx, out[i], pieces, sizeof pieces));
            first = pieces[0];
            assert_true(first == (float)(i * kinds[k].size));
            tensor_release(out[i]);
        }
    }
    tensor_release(x);
}

/* Compares with x.select(1, -1) and x.unbind(1), where x = torch.arange(6.).view(2, 3). */
static void slices_lose_the_dimension_they_are_taken_of(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(2, 3)), *out[3] = {NULL};
    CHECK_OK(ctx, op_select(ctx, x, 1, -1, &out[0]));
    check(ctx, out[0], SHAPE(2), VALUES(2, 5));
    CHECK_OK(ctx, op_select(ctx, x, 0, 1, &out[0]));
    check(ctx, out[0], SHAPE(3), VALUES(3, 4, 5));
    CHECK_OK(ctx, op_unbind(ctx, x, -1, 3, out));
    check(ctx, out[0], SHAPE(2), VALUES(0, 3));
    check(ctx, out[1], SHAPE(2), VALUES(1, 4));
    check(ctx, out[2], SHAPE(2), VALUES(2, 5));
    CHECK_FAILS(ctx, op_select(ctx, x, 1, 3, out), STATUS_INVALID_ARGUMENT,
                "select: index 3 of dim 1 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_select(ctx, x, 2, 0, out), STATUS_INVALID_ARGUMENT, "select: dim 2 of");
    CHECK_FAILS(ctx, op_unbind(ctx, x, 1, 2, out), STATUS_INVALID_ARGUMENT,
                "unbind: 2 slices of dim 1 of f32[2,3], all are given");
    CHECK_FAILS(ctx, op_unbind(ctx, x, 2, 2, out), STATUS_INVALID_ARGUMENT, "unbind: dim 2 of");
    tensor_release(x);
}

static void tile_repeats_the_whole_tensor_and_repeat_interleave_each_slice(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(2, 2)), *out = NULL;
    const int64_t columns = 1;
    CHECK_OK(ctx, op_tile(ctx, x, 2, (int64_t[]){1, 2}, &out));
    check(ctx, out, SHAPE(2, 4), VALUES(0, 1, 0, 1, 2, 3, 2, 3));
    CHECK_OK(ctx, op_tile(ctx, x, 1, (int64_t[]){2}, &out));
    check(ctx, out, SHAPE(2, 4), VALUES(0, 1, 0, 1, 2, 3, 2, 3));
    CHECK_OK(ctx, op_tile(ctx, x, 3, (int64_t[]){2, 1, 1}, &out));
    check(ctx, out, SHAPE(2, 2, 2), VALUES(0, 1, 2, 3, 0, 1, 2, 3));
    CHECK_OK(ctx, op_repeat_interleave(ctx, x, 2, &columns, &out));
    check(ctx, out, SHAPE(2, 4), VALUES(0, 0, 1, 1, 2, 2, 3, 3));
    CHECK_OK(ctx, op_repeat_interleave(ctx, x, 3, NULL, &out));
    check(ctx, out, SHAPE(12), VALUES(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3));
    tensor_release(x);
}

/* Compares with torch.nn.functional.pixel_shuffle(torch.arange(16.).reshape(1, 8, 1, 2), 2). */
static void pixels_are_shuffled_and_back(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(1, 8, 1, 2)), *wide = NULL, *out = NULL;
    CHECK_OK(ctx, op_pixel_shuffle(ctx, x, 2, &wide));
    CHECK_OK(ctx, op_pixel_unshuffle(ctx, wide, 2, &out));
    check(ctx, wide, SHAPE(1, 2, 2, 4),
          VALUES(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    check(ctx, out, SHAPE(1, 8, 1, 2),
          VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    tensor_release(x);
}

static void a_mask_fills_and_an_index_makes_hot(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(2, 3)), *mask = NULL, *index = NULL, *whole = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(3), (const bool[]){true, false, true}, &mask));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(3), (const int64_t[]){2, 0, 1}, &index));
    CHECK_OK(ctx, op_masked_fill(ctx, x, mask, -1.5, &out));
    check(ctx, out, SHAPE(2, 3), VALUES(-1.5, 1, -1.5, -1.5, 4, -1.5));
    CHECK_OK(ctx, op_masked_fill(ctx, index, mask, 9, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_S64);
    check(ctx, out, SHAPE(3), VALUES(9, 0, 9));
    CHECK_OK(ctx, op_one_hot(ctx, index, 4, &out));
    assert_int_equal(tensor_dtype(out), DTYPE_S64);
    check(ctx, out, SHAPE(3, 4), VALUES(0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0));
    CHECK_OK(ctx, op_slice(ctx, index, 0, 1, 3, 1, &whole));
    CHECK_OK(ctx, op_embedding(ctx, whole, x, &out));
    check(ctx, out, SHAPE(2, 3), VALUES(0, 1, 2, 3, 4, 5));
    tensor_release(x);
    tensor_release(mask);
    tensor_release(index);
    tensor_release(whole);
}

/* Temporaries must be released, even in a scope, which releases them otherwise only at its end. */
static void a_scope_keeps_the_result_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(1, 8, 2, 2)), *out = NULL;
    scope_begin(ctx);
    CHECK_OK(ctx, op_pixel_shuffle(ctx, x, 2, &out));
    scope_keep(ctx, out);
    CHECK_OK(ctx, scope_end(ctx));
    assert_int_equal(tensor_sizes(out)[3], 4);
    tensor_release(out);
    tensor_release(x);
}

static void invalid_moves_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(2, 3)), *y = ramp(ctx, SHAPE(3, 2)), *out = NULL;
    tensor_t *index = NULL;
    const tensor_t *const both[] = {x, y};
    const int64_t far = 2;
    int n = 0;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(3), &index));
    CHECK_FAILS(ctx, op_stack(ctx, 2, both, 0, &out), STATUS_INVALID_ARGUMENT,
                "stack: tensor 1 is f32[3,2], tensor 0 is f32[2,3], equal sizes are needed");
    CHECK_FAILS(ctx, op_stack(ctx, 1, both, 3, &out), STATUS_INVALID_ARGUMENT,
                "stack: dim 3 for tensors f32[2,3], out of range");
    CHECK_FAILS(ctx, op_stack(ctx, 0, both, 0, &out), STATUS_INVALID_ARGUMENT,
                "stack: 0 tensors, 1 to 64 are possible");
    CHECK_FAILS(ctx, op_chunk(ctx, x, 0, 0, &n, &out), STATUS_INVALID_ARGUMENT,
                "chunk: 0 pieces, 1 or more are possible");
    CHECK_FAILS(ctx, op_chunk(ctx, x, 1, 2, &n, &out), STATUS_INVALID_ARGUMENT,
                "chunk: dim 2 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_tile(ctx, x, 1, (int64_t[]){0}, &out), STATUS_INVALID_ARGUMENT,
                "tile: repeats 0 of f32[2,3], 1 or more are possible");
    CHECK_FAILS(ctx, op_tile(ctx, x, 13, (int64_t[13]){0}, &out), STATUS_INVALID_ARGUMENT,
                "tile: 13 repeats, 0 to 12 are possible");
    CHECK_FAILS(ctx, op_tile(ctx, x, 12, (int64_t[]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, &out),
                STATUS_UNSUPPORTED, "tile: 14 dimensions on the way, 12 are the most");
    CHECK_FAILS(ctx, op_repeat_interleave(ctx, x, 0, NULL, &out), STATUS_INVALID_ARGUMENT,
                "repeat_interleave: repeats 0 of f32[2,3], 1 or more are possible");
    CHECK_FAILS(ctx, op_repeat_interleave(ctx, x, 2, &far, &out), STATUS_INVALID_ARGUMENT,
                "repeat_interleave: dim 2 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_pixel_shuffle(ctx, x, 2, &out), STATUS_INVALID_ARGUMENT,
                "pixel_shuffle: x is f32[2,3], rank 3 to 10 is needed");
    CHECK_FAILS(ctx, op_masked_fill(ctx, index, index, 0.5, &out), STATUS_INVALID_ARGUMENT,
                "masked_fill: value 0.5 into s64[3], a whole number of its range is needed");
    tensor_t *half = NULL, *sees = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F16, SHAPE(3), &half));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BOOL, SHAPE(3), &sees));
    CHECK_FAILS(ctx, op_masked_fill(ctx, half, sees, 1e6, &out), STATUS_INVALID_ARGUMENT,
                "masked_fill: value 1e+06 into f16[3], a number of its range is needed");
    tensor_release(half);
    tensor_release(sees);
    CHECK_FAILS(ctx, op_one_hot(ctx, index, 0, &out), STATUS_INVALID_ARGUMENT,
                "one_hot: 0 classes, 1 or more are possible");
    CHECK_FAILS(ctx, op_embedding(ctx, index, index, &out), STATUS_INVALID_ARGUMENT,
                "embedding: weight s64[3], rank 2 is needed");
    assert_null(out);
    tensor_release(x);
    tensor_release(y);
    tensor_release(index);
}

static void a_wide_tensor_or_an_odd_one_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    tensor_t *deep = NULL, *odd = ramp(ctx, SHAPE(3, 3, 2)), *index = NULL, *out = NULL;
    const int64_t dim = 0;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 12, ones, &deep));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, 12, ones, &index));
    CHECK_FAILS(ctx, op_repeat_interleave(ctx, deep, 2, &dim, &out), STATUS_UNSUPPORTED,
                "repeat_interleave: rank 12, 11 is the most");
    CHECK_FAILS(ctx, op_one_hot(ctx, index, 2, &out), STATUS_INVALID_ARGUMENT,
                "rank 11 is the most");
    CHECK_FAILS(ctx, op_pixel_shuffle(ctx, odd, 2, &out), STATUS_INVALID_ARGUMENT,
                "pixel_shuffle: x is f32[3,3,2], channels do not divide by 4");
    CHECK_FAILS(ctx, op_pixel_unshuffle(ctx, odd, 2, &out), STATUS_INVALID_ARGUMENT,
                "pixel_unshuffle: x is f32[3,3,2], height and width do not divide by 2");
    CHECK_FAILS(ctx, op_pixel_shuffle(ctx, odd, 0, &out), STATUS_INVALID_ARGUMENT,
                "pixel_shuffle: factor 0, must be 1 to 2147483647");
    tensor_release(deep);
    tensor_release(odd);
    tensor_release(index);
}

static void invalid_rotations_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, SHAPE(2, 3)), *lengths = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), (const int64_t[]){3, 4}, &lengths));
    CHECK_FAILS(ctx, op_flip(ctx, x, 1, (int64_t[]){2}, &out), STATUS_INVALID_ARGUMENT,
                "flip: dim 2 of f32[2,3], out of range");
    CHECK_FAILS(ctx, op_flip(ctx, x, 2, (int64_t[]){1, -1}, &out), STATUS_INVALID_ARGUMENT,
                "flip: dim 1 is given twice");
    CHECK_FAILS(ctx, op_flip(ctx, x, 13, (int64_t[13]){0}, &out), STATUS_INVALID_ARGUMENT,
                "flip: 13 dims, 0 to 12 are possible");
    CHECK_FAILS(ctx, op_roll(ctx, x, 2, (int64_t[]){1, 1}, NULL, &out), STATUS_INVALID_ARGUMENT,
                "roll: 2 shifts for 0 dims, needs 1");
    CHECK_FAILS(ctx, op_reverse_sequence(ctx, x, lengths, 0, 1, &out), STATUS_INVALID_ARGUMENT,
                "reverse_sequence: length 4 of sequence 1, there are 3 steps");
    CHECK_FAILS(ctx, op_reverse_sequence(ctx, x, lengths, 1, 0, &out), STATUS_INVALID_ARGUMENT,
                "reverse_sequence: lengths s64[2], one for each of 3 sequences is needed");
    CHECK_FAILS(ctx, op_reverse_sequence(ctx, x, lengths, 1, -1, &out), STATUS_INVALID_ARGUMENT,
                "reverse_sequence: batch_dim 1 and time_dim -1 of f32[2,3], two dimensions are "
                "needed");
    assert_null(out);
    tensor_release(x);
    tensor_release(lengths);
}

static void no_elements_are_as_many_pieces_as_were_asked_for(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *pieces[4] = {NULL};
    int n = 0;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(0, 3), &x));
    CHECK_OK(ctx, op_chunk(ctx, x, 4, 0, &n, pieces));
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tensor_sizes(pieces[i])[0], 0);
        assert_int_equal(tensor_sizes(pieces[i])[1], 3);
        tensor_release(pieces[i]);
    }
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_elements_are_as_many_pieces_as_were_asked_for),
        TEST(tensors_are_stacked_along_a_new_dimension),
        TEST(chunks_are_equal_but_for_the_last),
        TEST(slices_lose_the_dimension_they_are_taken_of),
        TEST(tile_repeats_the_whole_tensor_and_repeat_interleave_each_slice),
        TEST(pixels_are_shuffled_and_back),
        TEST(a_mask_fills_and_an_index_makes_hot),
        TEST(a_scope_keeps_the_result_alone),
        TEST(invalid_moves_are_refused),
        TEST(a_wide_tensor_or_an_odd_one_is_refused),
        TEST(invalid_rotations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
