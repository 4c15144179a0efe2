/* Gradients of convolutions and linear layers: formats, implementations and messages.
 * test_conformance.c and train/test_gradients.c check their values. */
#include "tests/support/support.h"

#include <string.h>

#include "ops/conv/conv_impl.h"
#include "ops/linear/linear_impl.h"
#include "ops/ops_impl.h"
#include "tensor/storage_impl.h"

static bool has_avx512(void)
{
    return strncmp(onednn_isa_text(), "avx512", 6) == 0;
}

/* ---- formats ---- */

typedef struct layer {
    int64_t groups, in, out, size, kernel, stride;
    const char *src; /* format of the source */
    /* formats of the weight for the forward pass and the gradient of x */
    const char *forward, *data;
} layer_t;

static void check_text(const format_t *format, const char *expected)
{
    char text[FORMAT_TEXT_MAX];
    assert_string_equal(format_text(format, text), expected);
}

static prepared_t *choose(context_t *ctx, const opdef_t *op, const void *attrs,
                          const tensor_info_t *a, const tensor_info_t *b)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *in[] = {a, b, &absent};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, dispatch_select(ctx, op, attrs, op->n_operands, in, POLICY_AUTO, &prepared));
    if (strcmp(prepared_kernel(prepared), "depthwise") == 0 ||
        strcmp(prepared_kernel(prepared), "pointwise") == 0 ||
        strcmp(prepared_kernel(prepared), "rows") == 0 ||
        strcmp(prepared_kernel(prepared), "taps_blocks") == 0 ||
        strcmp(prepared_kernel(prepared), "winograd_training") == 0)
        return prepared; /* Tessera's own kernels */
    assert_string_equal(prepared_kernel(prepared), "onednn");
    assert_false(onednn_is_reference(prepared_implementation(prepared)));
    return prepared;
}

static void check_layer(context_t *ctx, const layer_t *l)
{
    const int64_t pad = l->kernel / 2, small = l->size / l->stride;
    const conv_attrs_t conv = {.stride = {l->stride}, .padding = {pad, pad}, .groups = l->groups};
    conv_backward_attrs_t backward = {.stride = {l->stride},
                                      .padding = {pad, pad},
                                      .groups = l->groups,
                                      .size = {l->size, l->size}};
    const format_t blocks = format_channel_blocks(4, 16);
    format_t src_format;
    CHECK_OK(ctx, format_parse(ctx, l->src, &src_format));
    tensor_info_t x = info_dense(DTYPE_F32, 4, (int64_t[]){8, l->in, l->size, l->size});
    tensor_info_t grad = info_dense(DTYPE_F32, 4, (int64_t[]){8, l->out, small, small});
    const tensor_info_t weight = info_dense(
        DTYPE_F32, 4, (int64_t[]){l->out, l->in / l->groups, l->kernel, l->kernel});
    x = info_mkldnn(&x, &src_format);
    grad = info_mkldnn(&grad, &blocks);

    prepared_t *forward = choose(ctx, &op_def_conv2d, &conv, &x, &weight);
    check_text(&prepared_input(forward, 1)->format, l->forward);
    prepared_release(forward);
    prepared_t *data = choose(ctx, &op_def_conv2d_backward_data, &backward, &grad, &weight);
    check_text(&prepared_input(data, 0)->format, "aBcd16b");
    check_text(&prepared_input(data, 1)->format, l->data);
    check_text(&prepared_output(data, 0)->format, "aBcd16b");
    prepared_release(data);
    backward.size[0] = backward.size[1] = l->kernel;
    prepared_t *of_weight = choose(ctx, &op_def_conv2d_backward_weight, &backward, &x, &grad);
    check_text(&prepared_input(of_weight, 0)->format, l->src);
    check_text(&prepared_input(of_weight, 1)->format, "aBcd16b");
    check_text(&prepared_output(of_weight, 0)->format, l->forward);
    prepared_release(of_weight);
}

static void gradients_of_weights_lie_as_the_forward_operator_reads_the_weight(void **state)
{
    static const layer_t layers[] = {
        {1, 64, 64, 56, 3, 1, "aBcd16b", "ABcd16b16a", "ABcd16a16b"},
        {1, 256, 64, 56, 1, 1, "aBcd16b", "ABcd16b16a", "BAcd16a16b"},
        {1, 128, 128, 56, 3, 2, "aBcd16b", "ABcd16b16a", "ABcd16a16b"},
        {1, 3, 64, 56, 7, 2, "abcd", "Acdb16a", "ABcd16a16b"},
        {96, 96, 96, 28, 3, 1, "aBcd16b", "Abcd16a", "Abcd16a"},
        {2, 64, 128, 28, 3, 1, "aBcd16b", "ABcd16b16a", "ABcd16a16b"},
    };
    if (!has_avx512()) return;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        check_layer(fixture_context(state), &layers[i]);
}

/* oneDNN 3 has blocked kernels for AVX2 only for the forward pass. */
static void linear_weights_lie_alike_in_all_directions(void **state)
{
    if (!has_avx512() && onednn_version_text()[0] != '2') return;
    context_t *ctx = fixture_context(state);
    const tensor_info_t x = info_dense(DTYPE_F32, 2, (int64_t[]){16, 512});
    const tensor_info_t grad = info_dense(DTYPE_F32, 2, (int64_t[]){16, 256});
    const tensor_info_t weight = info_dense(DTYPE_F32, 2, (int64_t[]){256, 512});
    prepared_t *forward = choose(ctx, &op_def_linear, NULL, &x, &weight);
    prepared_t *data = choose(ctx, &op_def_linear_backward_data, NULL, &grad, &weight);
    prepared_t *of_weight = choose(ctx, &op_def_linear_backward_weight, NULL, &x, &grad);
    char text[FORMAT_TEXT_MAX];
    format_text(&prepared_input(forward, 1)->format, text);
    check_text(&prepared_input(data, 1)->format, text);
    check_text(&prepared_output(of_weight, 0)->format, text);
    prepared_release(forward);
    prepared_release(data);
    prepared_release(of_weight);
}

static void winograd_is_kept_where_gradients_have_it(void **state)
{
    if (!has_avx512() || onednn_version_text()[0] != '2') return;
    context_t *ctx = fixture_context(state);
    const format_t blocks = format_channel_blocks(4, 16);
    for (int stride = 1; stride <= 2; stride++) {
        const conv_backward_attrs_t attrs = {
            .stride = {stride}, .padding = {1, 1}, .size = {28, 28}, .algorithm = CONV_WINOGRAD};
        const int64_t small = 28 / stride;
        const tensor_info_t weight = info_dense(DTYPE_F32, 4, (int64_t[]){64, 64, 3, 3});
        tensor_info_t grad = info_dense(DTYPE_F32, 4, (int64_t[]){8, 64, small, small});
        grad = info_mkldnn(&grad, &blocks);
        prepared_t *data = choose(ctx, &op_def_conv2d_backward_data, &attrs, &grad, &weight);
        assert_true((strstr(prepared_implementation(data), "wino") != NULL) == (stride == 1));
        prepared_release(data);
    }
}

static void check_winograd(const prepared_t *prepared, const format_t *of_weight)
{
    assert_non_null(strstr(prepared_implementation(prepared), "wino"));
    check_text(of_weight, "ABcd16b16a");
}

static void winograd_for_training_reads_and_gives_weights_in_one_format(void **state)
{
    if (!has_avx512() || onednn_version_text()[0] != '2') return;
    context_t *ctx = fixture_context(state);
    const format_t blocks = format_channel_blocks(4, 16);
    const conv_attrs_t conv = {.padding = {1, 1}, .algorithm = CONV_WINOGRAD_TRAINING};
    conv_backward_attrs_t backward = {
        .padding = {1, 1}, .size = {28, 28}, .algorithm = CONV_WINOGRAD_TRAINING};
    const tensor_info_t weight = info_dense(DTYPE_F32, 4, (int64_t[]){64, 64, 3, 3});
    tensor_info_t x = info_dense(DTYPE_F32, 4, (int64_t[]){8, 64, 28, 28});
    x = info_mkldnn(&x, &blocks);
    prepared_t *forward = choose(ctx, &op_def_conv2d, &conv, &x, &weight);
    check_winograd(forward, &prepared_input(forward, 1)->format);
    prepared_t *data = choose(ctx, &op_def_conv2d_backward_data, &backward, &x, &weight);
    check_winograd(data, &prepared_input(data, 1)->format);
    backward.size[0] = backward.size[1] = 3;
    prepared_t *of_weight = choose(ctx, &op_def_conv2d_backward_weight, &backward, &x, &x);
    check_winograd(of_weight, &prepared_output(of_weight, 0)->format);
    prepared_release(forward);
    prepared_release(data);
    prepared_release(of_weight);
}

/* ---- the other form of the weight ---- */

static uint64_t run_data(context_t *ctx, const tensor_t *grad, const tensor_t *weight,
                         tensor_t **out)
{
    const conv_backward_attrs_t attrs = {.padding = {1, 1}, .size = {14, 14}};
    const tensor_t *in[] = {grad, weight};
    counters_t counters;
    counters_reset(ctx);
    CHECK_OK(ctx, dispatch_run(ctx, &op_def_conv2d_backward_data, &attrs, 2, in, NULL, out));
    counters_read(ctx, &counters);
    return counters_weight_reorders(&counters);
}

static void a_marked_weight_is_packed_once_for_gradients_and_again_when_it_was_written(void **state)
{
    if (!has_avx512()) return;
    context_t *ctx = fixture_context(state);
    tensor_t *grad = NULL, *weight = NULL, *first = NULL, *again = NULL, *twice = NULL,
             *both = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 64, 14, 14), &grad));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(64, 32, 3, 3), &weight));
    storage_set_packable(weight->storage, true);
    assert_int_equal(run_data(ctx, grad, weight, &first), 1);
    assert_int_equal(run_data(ctx, grad, weight, &again), 0);
    CHECK_OK(ctx, op_add_(ctx, weight, weight));
    assert_int_equal(run_data(ctx, grad, weight, &twice), 1);
    CHECK_OK(ctx, op_add(ctx, first, again, &both));
    double difference = 1.0;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, twice, both, &difference));
    assert_true(difference < 1e-5);
    tensor_t *const made[] = {grad, weight, first, again, twice, both};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) tensor_release(made[i]);
}

/* ---- messages ---- */

static void check_refused(context_t *ctx, const opdef_t *op, const void *attrs,
                          const tensor_info_t *a, const tensor_info_t *b, const char *message)
{
    const tensor_info_t *in[] = {a, b};
    tensor_info_t out[OP_MAX_OUTPUTS];
    int n = 0;
    CHECK_FAILS(ctx, dispatch_infer(ctx, op, attrs, 2, in, &n, out), STATUS_INVALID_ARGUMENT,
                message);
}

static void operands_that_do_not_fit_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const tensor_info_t image = info_dense(DTYPE_F32, 4, (int64_t[]){2, 6, 5, 5});
    const tensor_info_t other = info_dense(DTYPE_F32, 4, (int64_t[]){3, 6, 5, 5});
    const tensor_info_t weight = info_dense(DTYPE_F32, 4, (int64_t[]){8, 6, 3, 3});
    const tensor_info_t row = info_dense(DTYPE_F32, 2, (int64_t[]){2, 6});
    const tensor_info_t matrix = info_dense(DTYPE_F32, 2, (int64_t[]){5, 6});
    const conv_backward_attrs_t plain = {.size = {7, 7}}, before = {.padding = {-1, 0}};
    check_refused(ctx, &op_def_conv2d_backward_data, &plain, &image, &row,
                  "conv2d_backward_data: grad is f32[2,6,5,5], weight is f32[2,6], rank 4 and "
                  "equal dtypes are needed");
    check_refused(ctx, &op_def_conv2d_backward_data, &before, &image, &weight,
                  "conv2d_backward_data: stride 1, dilation 1, padding -1, size 0, positive ones "
                  "below 2^31 are needed");
    check_refused(ctx, &op_def_conv2d_backward_data, &plain, &image, &weight,
                  "conv2d_backward_data: weight f32[8,6,3,3] with 1 groups does not fit the "
                  "channels of grad f32[2,6,5,5]");
    check_refused(ctx, &op_def_conv2d_backward_weight, &plain, &image, &other,
                  "conv2d_backward_weight: x f32[2,6,5,5] and grad f32[3,6,5,5] have no batch in "
                  "common, or channels that do not divide by 1 groups");
    check_refused(ctx, &op_def_linear_backward_data, NULL, &row, &matrix,
                  "linear_backward_data: grad f32[2,6] does not fit weight f32[5,6], outputs and "
                  "dtypes have to be equal");
    check_refused(ctx, &op_def_linear_backward_weight, NULL, &row, &matrix,
                  "linear_backward_weight: grad f32[5,6] does not fit x f32[2,6], rows and dtypes "
                  "have to be equal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradients_of_weights_lie_as_the_forward_operator_reads_the_weight),
        TEST(linear_weights_lie_alike_in_all_directions),
        TEST(winograd_is_kept_where_gradients_have_it),
        TEST(winograd_for_training_reads_and_gives_weights_in_one_format),
        TEST(a_marked_weight_is_packed_once_for_gradients_and_again_when_it_was_written),
        TEST(operands_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
