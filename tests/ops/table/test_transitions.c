/* Operators that need not move elements, such as conversions and views: what they copy, and which
 * results share memory. */
#include "tests/support/support.h"

#include <string.h>

#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/counters.h"

/* Returns the name of the blocked format that this machine's kernels read, in `text` of
 * FORMAT_TEXT_MAX bytes. */
static const char *blocks(int rank, char *text)
{
    format_t format = format_channel_blocks(rank,
                                            strncmp(onednn_isa_text(), "avx512", 6) == 0 ? 16 : 8);
    return format_text(&format, text);
}

static tensor_t *blocked(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *dense = NULL, *tensor = NULL;
    char text[FORMAT_TEXT_MAX];
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &dense));
    CHECK_OK(ctx, convert_reorder(ctx, dense, blocks(rank, text), &tensor));
    tensor_release(dense);
    counters_reset(ctx);
    return tensor;
}

static void check_moves(context_t *ctx, uint64_t wanted)
{
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters_activation_reorders(&counters) + counters_copies(&counters), wanted);
}

/* Checks the format. wanted NULL: blocks(). */
static void check_format(tensor_t *tensor, const char *wanted)
{
    char text[FORMAT_TEXT_MAX], own[FORMAT_TEXT_MAX];
    assert_int_equal(tensor_layout(tensor), LAYOUT_MKLDNN);
    assert_string_equal(convert_format(tensor, text), wanted != NULL ? wanted : blocks(4, own));
    tensor_release(tensor);
}

static void flatten_of_whole_blocks_without_space_moves_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = blocked(ctx, SHAPE(2, 32, 1, 1)), *flat = NULL;
    CHECK_OK(ctx, op_flatten(ctx, x, 1, -1, &flat));
    check_moves(ctx, 0);
    check_format(flat, "ab");
    tensor_release(x);
    x = blocked(ctx, SHAPE(2, 17, 1, 1));
    CHECK_OK(ctx, op_flatten(ctx, x, 1, -1, &flat));
    check_moves(ctx, 1);
    check_format(flat, "ab");
    tensor_release(x);
}

static void the_mean_over_space_reads_blocks(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = blocked(ctx, SHAPE(2, 17, 5, 3)), *mean = NULL;
    CHECK_OK(ctx, op_mean(ctx, x, 2, (int64_t[]){2, 3}, false, &mean));
    check_moves(ctx, 0);
    check_format(mean, "ab");
    tensor_release(x);
}

static void a_concat_of_whole_blocks_moves_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *a = blocked(ctx, SHAPE(1, 32, 3, 3)), *b = blocked(ctx, SHAPE(1, 17, 3, 3));
    tensor_t *joined = NULL;
    CHECK_OK(ctx, op_concat(ctx, 2, (const tensor_t *[]){a, b}, 1, &joined));
    check_moves(ctx, 0);
    check_format(joined, NULL);
    counters_reset(ctx);
    CHECK_OK(ctx, op_concat(ctx, 2, (const tensor_t *[]){b, a}, 1, &joined));
    check_moves(ctx, 2);
    check_format(joined, "acdb");
    tensor_release(a);
    tensor_release(b);
}

static void identity_and_dropout_keep_the_format(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = blocked(ctx, SHAPE(1, 17, 3, 3)), *y = NULL;
    CHECK_OK(ctx, op_identity(ctx, x, &y));
    check_format(y, NULL);
    CHECK_OK(ctx, op_dropout(ctx, x, 0.5, &y));
    check_format(y, NULL);
    check_moves(ctx, 0);
    tensor_release(x);
}

static void a_flattening_linear_reads_blocks(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = blocked(ctx, SHAPE(2, 32, 3, 3)), *weight = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(10, 288), &weight));
    const opdef_t *op = ops_find("linear");
    const tensor_t *in[] = {x, weight, NULL};
    CHECK_OK(ctx, dispatch_run(ctx, op, &(linear_attrs_t){.flatten = true}, 3, in, NULL, &y));
    check_moves(ctx, 0);
    check_format(y, "ab");
    tensor_release(x);
    tensor_release(weight);
}

static void views_of_dense_tensors_share_their_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *view[6] = {NULL};
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 4, 6), &x));
    CHECK_OK(ctx, op_reshape(ctx, x, 2, (int64_t[]){-1, 3}, &view[0]));
    CHECK_OK(ctx, op_transpose(ctx, x, 1, 2, &view[1]));
    CHECK_OK(ctx, op_expand(ctx, x, 3, (int64_t[]){5, -1, -1}, &view[2]));
    CHECK_OK(ctx, op_slice(ctx, x, 2, 1, 6, 2, &view[3]));
    CHECK_OK(ctx, op_squeeze(ctx, x, 0, NULL, &view[4]));
    CHECK_OK(ctx, op_identity(ctx, x, &view[5]));
    CHECK_OK(ctx, tensor_fill(ctx, x, 1.0));
    check_moves(ctx, 0);
    for (int i = 0; i < 6; i++) {
        tensor_t *sum = NULL;
        double value = 0.0;
        CHECK_OK(ctx, op_sum(ctx, view[i], 0, NULL, false, &sum));
        CHECK_OK(ctx, tensor_item(ctx, sum, &value));
        assert_true(value == (double)tensor_numel(view[i]));
        tensor_release(sum);
        tensor_release(view[i]);
    }
    tensor_release(x);
}

static double total(context_t *ctx, const tensor_t *x)
{
    tensor_t *sum = NULL;
    double value = 0.0;
    CHECK_OK(ctx, op_sum(ctx, x, 0, NULL, false, &sum));
    CHECK_OK(ctx, tensor_item(ctx, sum, &value));
    tensor_release(sum);
    return value;
}

/* One slice has complete blocks, and the other begins inside a block. Both must be copies. */
static void views_of_mkldnn_tensors_are_snapshots_whatever_the_blocks(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t starts[] = {0, 3};
    for (int i = 0; i < 2; i++) {
        tensor_t *x = blocked(ctx, SHAPE(1, 32, 3, 3)), *view = NULL;
        CHECK_OK(ctx, tensor_fill(ctx, x, 1.0));
        CHECK_OK(ctx, op_slice(ctx, x, 1, starts[i], 16, 1, &view));
        CHECK_OK(ctx, tensor_fill(ctx, view, 2.0));
        assert_true(total(ctx, x) == 32.0 * 9.0);
        CHECK_OK(ctx, tensor_fill(ctx, x, 5.0));
        assert_true(total(ctx, view) == 2.0 * (double)tensor_numel(view));
        tensor_release(view);
        tensor_release(x);
    }
}

static void a_fixed_format_is_taken_or_declined(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = blocked(ctx, SHAPE(2, 17, 3, 3));
    const tensor_info_t *in[] = {tensor_info(x)};
    prepared_t *prepared = NULL;
    const char *const declines[] = {"reshape", "cumsum"};
    for (int i = 0; i < 2; i++)
        assert_int_equal(dispatch_select_fixed(ctx, ops_find(declines[i]),
                                               i == 0 ? &ATTRS_INTS(2, -1) : NULL, 1, in,
                                               LAYOUT_MKLDNN, NULL, &prepared),
                         STATUS_UNSUPPORTED);
    CHECK_OK(ctx, dispatch_select_fixed(ctx, ops_find("identity"), NULL, 1, in, LAYOUT_MKLDNN,
                                        &tensor_info(x)->format, &prepared));
    prepared_release(prepared);
    format_t other = format_channels_last(4);
    assert_int_equal(dispatch_select_fixed(ctx, ops_find("identity"), NULL, 1, in, LAYOUT_MKLDNN,
                                           &other, &prepared),
                     STATUS_UNSUPPORTED);
    tensor_release(x);
}

/* With as many channels as a block has, blocked and channels-last tensors have the same bytes. So a
 * convolution can read one format as the other, without a reorder. */
static void channels_of_one_block_are_channels_last(void **state)
{
    context_t *ctx = fixture_context(state);
    const bool is_wide = strncmp(onednn_isa_text(), "avx512", 6) == 0;
    const int64_t n = is_wide ? 16 : 8, sizes[] = {1, n, 14, 14}, kernel[] = {48, n, 3, 3};
    const format_t block = format_channel_blocks(4, (int)n), last = format_channels_last(4);
    tensor_info_t x = info_dense(DTYPE_F32, 4, sizes), weight = info_dense(DTYPE_F32, 4, kernel);
    const tensor_info_t none = {.dtype = DTYPE_NONE};
    const conv_attrs_t attrs = {.padding = {1, 1}};
    x = info_mkldnn(&x, &block);
    const tensor_info_t *in[] = {&x, &weight, &none};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, dispatch_select_fixed(ctx, ops_find("conv2d"), &attrs, 3, in, LAYOUT_MKLDNN,
                                        &last, &prepared));
    const tensor_info_t *out = prepared_output(prepared, 0);
    assert_true(format_same(&out->format, &last, out->sizes));
    assert_true(format_same(&prepared_input(prepared, 0)->format, &block, sizes));
    assert_string_equal(prepared_kernel(prepared), "onednn");
    prepared_release(prepared);
}

static void a_wrong_index_is_an_error(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *index = NULL, *out = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 2), &x));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S64, SHAPE(1), -3, &index));
    CHECK_OK(ctx, op_gather(ctx, x, 0, index, &out));
    tensor_release(out);
    CHECK_OK(ctx, tensor_fill(ctx, index, 3));
    CHECK_FAILS(ctx, op_gather(ctx, x, 0, index, &out), STATUS_INVALID_ARGUMENT,
                "gather: index 3 of f32[3,2] in dimension 0, out of range");
    tensor_release(x);
    tensor_release(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(flatten_of_whole_blocks_without_space_moves_nothing),
        TEST(the_mean_over_space_reads_blocks),
        TEST(a_concat_of_whole_blocks_moves_nothing),
        TEST(identity_and_dropout_keep_the_format),
        TEST(a_flattening_linear_reads_blocks),
        TEST(views_of_dense_tensors_share_their_bytes),
        TEST(views_of_mkldnn_tensors_are_snapshots_whatever_the_blocks),
        TEST(a_fixed_format_is_taken_or_declined),
        TEST(channels_of_one_block_are_channels_last),
        TEST(a_wrong_index_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
