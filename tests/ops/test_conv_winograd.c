/* Convolutions with our Winograd kernel: when it is selected, why it declines, and the errors that
 * it reports. test_conformance.c and tests/kernels check its values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "kernels/isa_impl.h"
#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "ops/conv/conv_winograd_impl.h"
#include "ops/ops_impl.h"
#include "tensor/convert/convert.h"
#include "tests/support/support.h"

/* False if there are only portable kernels, for which the estimated times are different. */
static bool is_fast(void)
{
    return isa_best() != ISA_PORTABLE;
}

/* Selects a kernel. bias is its dtype; DTYPE_NONE: no bias. */
static prepared_t *choose_of(context_t *ctx, dtype_t dtype, dtype_t bias, const conv_attrs_t *attrs,
                             const int64_t *sizes, const int64_t *kernel, weight_use_t weights)
{
    const format_t blocks = format_channel_blocks(4, isa_lanes(isa_best()));
    const tensor_info_t dense = info_dense(dtype, 4, sizes), none = {.dtype = DTYPE_NONE};
    const tensor_info_t x = info_mkldnn(&dense, &blocks), weight = info_dense(dtype, 4, kernel);
    const tensor_info_t of_bias = bias == DTYPE_NONE ? none : info_dense(bias, 1, kernel);
    const tensor_info_t *in[] = {&x, &weight, &of_bias};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, select_for_weights(ctx, &op_def_conv2d, attrs, 3, in, weights, POLICY_AUTO,
                                     &prepared));
    return prepared;
}

static prepared_t *choose(context_t *ctx, const conv_attrs_t *attrs, const int64_t *sizes,
                          const int64_t *kernel, weight_use_t weights)
{
    return choose_of(ctx, DTYPE_F32, DTYPE_NONE, attrs, sizes, kernel, weights);
}

/* Checks the selected kernel. wanted: how the implementation's name begins; NULL: direct sums, by
 * oneDNN or by taps_blocks. */
static void check_call(context_t *ctx, const conv_attrs_t *attrs, const int64_t *sizes,
                       const int64_t *kernel, weight_use_t weights, const char *wanted,
                       const char *reason)
{
    prepared_t *prepared = choose(ctx, attrs, sizes, kernel, weights);
    const char *is = prepared_implementation(prepared);
    const bool is_wanted = wanted != NULL
                               ? strncmp(is, wanted, strlen(wanted)) == 0
                               : (strcmp(prepared_kernel(prepared), "onednn") == 0 &&
                                  strstr(is, "wino") == NULL) ||
                                     strcmp(prepared_kernel(prepared), "taps_blocks") == 0;
    if (!is_wanted)
        fail_msg("%s, wanted %s; %s", is, wanted != NULL ? wanted : "direct sums",
                 prepared_reasons(prepared));
    if (reason != NULL && strstr(prepared_reasons(prepared), reason) == NULL)
        fail_msg("reasons \"%s\", wanted \"%s\"", prepared_reasons(prepared), reason);
    prepared_release(prepared);
}

static void check_choice(context_t *ctx, int algorithm, const int64_t *sizes, const int64_t *kernel,
                         weight_use_t weights, const char *wanted, const char *reason)
{
    const conv_attrs_t attrs = {.padding = {1, 1}, .algorithm = algorithm};
    check_call(ctx, &attrs, sizes, kernel, weights, wanted, reason);
}

static void the_least_estimate_of_what_is_allowed_is_taken(void **state)
{
    static const int64_t large[] = {1, 64, 56, 56}, few[] = {1, 512, 7, 7}, thin[] = {1, 3, 56, 56};
    static const int64_t of_large[] = {64, 64, 3, 3}, of_few[] = {512, 512, 3, 3},
                         of_5x5[] = {64, 64, 5, 5}, of_thin[] = {64, 3, 3, 3};
    context_t *ctx = fixture_context(state);
    if (!is_fast()) return;
    check_choice(ctx, CONV_DIRECT, large, of_large, WEIGHT_CONSTANT, NULL, NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_2, large, of_large, WEIGHT_CONSTANT,
                 "winograd_2x2:", NULL);
    check_choice(ctx, CONV_WINOGRAD, large, of_large, WEIGHT_CONSTANT, "winograd_4x4:", NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_6, large, of_large, WEIGHT_CONSTANT,
                 "winograd_6x6:", NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_2, large, of_5x5, WEIGHT_CONSTANT, NULL,
                 "winograd: 3 by 3, or 5 by 5 of a size above 2");
    check_choice(ctx, CONV_WINOGRAD, large, of_5x5, WEIGHT_CONSTANT, "winograd_2x2:", NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_6, large, of_5x5, WEIGHT_CONSTANT, "winograd_4x4:", NULL);
    check_choice(ctx, CONV_WINOGRAD_TRAINING, large, of_large, WEIGHT_KEPT, "winograd_4x4:", NULL);
    check_choice(ctx, CONV_WINOGRAD_TRAINING, large, of_5x5, WEIGHT_KEPT, "winograd_2x2:", NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_6, few, of_few, WEIGHT_CONSTANT, "winograd_2x2:", NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_6, thin, of_thin, WEIGHT_CONSTANT, NULL, "winograd_6: ");
}

/* Layers of ResNet-50 with stride 2. Larger tiles are faster, as long as their weight is small. */
static void strides_of_2_are_taken_where_they_pay(void **state)
{
    static const int64_t sizes[][4] = {{1, 128, 56, 56}, {1, 256, 28, 28}, {1, 512, 14, 14}},
                         kernels[][4] = {{128, 128, 3, 3}, {256, 256, 3, 3}, {512, 512, 3, 3}};
    static const char *const wanted[] = {
        "winograd_4x4_stride_2:", "winograd_4x4_stride_2:", "winograd_2x2_stride_2:"};
    context_t *ctx = fixture_context(state);
    conv_attrs_t attrs = {.stride = {2, 2}, .padding = {1, 1}};
    if (!is_fast()) return;
    for (int i = 0; i < 3; i++) {
        attrs.algorithm = CONV_WINOGRAD_UP_TO_6;
        check_call(ctx, &attrs, sizes[i], kernels[i], WEIGHT_CONSTANT, wanted[i], NULL);
        attrs.algorithm = CONV_DIRECT;
        check_call(ctx, &attrs, sizes[i], kernels[i], WEIGHT_CONSTANT, NULL, NULL);
        attrs.algorithm = CONV_WINOGRAD_TRAINING;
        check_call(ctx, &attrs, sizes[i], kernels[i], WEIGHT_KEPT, NULL,
                   "winograd: 3 by 3 or 5 by 5, stride 1, dilation 1");
    }
}

/* A first layer with stride 2 and a large kernel is split by parity (odd and even rows and
 * columns). */
static void first_layers_are_split_by_parity_where_that_pays(void **state)
{
    static const int64_t image[] = {1, 3, 224, 224}, features[] = {1, 64, 56, 56};
    static const int64_t of_7x7[] = {64, 3, 7, 7}, of_3x3[] = {32, 3, 3, 3},
                         of_features[] = {64, 64, 7, 7};
    context_t *ctx = fixture_context(state);
    conv_attrs_t attrs = {.stride = {2, 2}, .padding = {3, 3}, .algorithm = CONV_WINOGRAD_UP_TO_6};
    if (!is_fast()) return;
    check_call(ctx, &attrs, image, of_7x7, WEIGHT_CONSTANT, "winograd_parities:", NULL);
    check_call(ctx, &attrs, image, of_3x3, WEIGHT_CONSTANT, NULL, "parities: kernels of 5 to 8");
    check_call(ctx, &attrs, features, of_features, WEIGHT_CONSTANT, NULL,
               "parities: kernels of 5 to 8, stride 2, up to 4 channels");
    check_call(ctx, &attrs, image, of_7x7, WEIGHT_GIVEN, NULL,
               "parities: the weight would be transformed in each call");
    attrs.algorithm = CONV_WINOGRAD_UP_TO_2;
    check_call(ctx, &attrs, image, of_7x7, WEIGHT_CONSTANT, NULL,
               "parities: algorithm does not allow it");
    attrs.algorithm = CONV_DIRECT;
    check_call(ctx, &attrs, image, of_7x7, WEIGHT_CONSTANT, NULL, NULL);
}

static void check_bf16(context_t *ctx, dtype_t bias, int algorithm, const int64_t *sizes,
                       const int64_t *kernel, int64_t stride, const char *wanted,
                       const char *reason)
{
    const conv_attrs_t attrs = {
        .stride = {stride, stride}, .padding = {1, 1}, .algorithm = algorithm};
    prepared_t *prepared = choose_of(ctx, DTYPE_BF16, bias, &attrs, sizes, kernel, WEIGHT_CONSTANT);
    const char *is = prepared_implementation(prepared), *reasons = prepared_reasons(prepared);
    if (wanted == NULL ? strstr(is, "wino") != NULL : strcmp(is, wanted) != 0)
        fail_msg("%s, wanted %s; %s", is, wanted != NULL ? wanted : "direct sums", reasons);
    if (reason != NULL && strstr(reasons, reason) == NULL)
        fail_msg("reasons \"%s\", wanted \"%s\"", reasons, reason);
    prepared_release(prepared);
}

/* Layers of ResNet-50 in bf16: Winograd uses tiles of 2 and multiplies pairs, or, for small
 * weights, tiles of 6 and f32. On processors that cannot multiply pairs it runs only if larger
 * tiles are allowed. */
static void bf16_is_done_in_pairs_or_in_f32(void **state)
{
    static const int64_t sizes[][4] = {{1, 128, 28, 28}, {1, 256, 14, 14}, {1, 512, 7, 7}},
                         kernels[][4] = {{128, 128, 3, 3}, {256, 256, 3, 3}, {512, 512, 3, 3}};
    static const int64_t halved[] = {1, 256, 28, 28};
    static const char *const wanted[] = {"winograd_6x6:avx512", "winograd_2x2:avx512",
                                         "winograd_2x2:avx512"};
    context_t *ctx = fixture_context(state);
    if (!winograd_is_for_pairs(isa_best())) {
        check_bf16(ctx, DTYPE_NONE, CONV_WINOGRAD_2, sizes[0], kernels[0], 1, NULL,
                   "winograd: this processor multiplies no pairs of bf16");
        return;
    }
    for (int i = 0; i < 3; i++) {
        check_bf16(ctx, DTYPE_F32, CONV_WINOGRAD_UP_TO_6, sizes[i], kernels[i], 1, wanted[i], NULL);
        check_bf16(ctx, DTYPE_F32, CONV_DIRECT, sizes[i], kernels[i], 1, NULL, NULL);
        check_bf16(ctx, DTYPE_BF16, CONV_WINOGRAD_UP_TO_6, sizes[i], kernels[i], 1, NULL,
                   "winograd: f32, or bf16 with a bias of f32, is needed");
    }
    check_bf16(ctx, DTYPE_NONE, CONV_WINOGRAD_UP_TO_6, halved, kernels[1], 2,
               "winograd_2x2_stride_2:avx512", NULL);
    check_bf16(ctx, DTYPE_NONE, CONV_WINOGRAD_4, sizes[1], kernels[1], 1, "winograd_4x4:avx512",
               NULL);
}

static void a_weight_that_is_given_is_transformed_where_that_is_asked_for_only(void **state)
{
    static const int64_t sizes[] = {1, 64, 56, 56}, kernel[] = {64, 64, 3, 3};
    context_t *ctx = fixture_context(state);
    if (!is_fast()) return;
    check_choice(ctx, CONV_WINOGRAD_UP_TO_2, sizes, kernel, WEIGHT_GIVEN, NULL,
                 "winograd: the weight would be transformed in each call");
    check_choice(ctx, CONV_WINOGRAD_4, sizes, kernel, WEIGHT_GIVEN, "winograd_4x4:", NULL);
    check_choice(ctx, CONV_WINOGRAD_UP_TO_2, sizes, kernel, WEIGHT_KEPT, "winograd_2x2:", NULL);
}

static void unsupported_convolutions_are_declined_with_a_reason(void **state)
{
    static const int64_t sizes[] = {1, 16, 20, 20}, kernel[] = {16, 16, 3, 3},
                         large[] = {16, 16, 7, 7};
    context_t *ctx = fixture_context(state);
    static const struct {
        int64_t stride[2];
        int algorithm;
    } declined[] = {
        {{2, 2}, CONV_WINOGRAD_6}, {{1, 2}, CONV_WINOGRAD_4}, {{3, 3}, CONV_WINOGRAD_UP_TO_6}};
    conv_attrs_t attrs = {.algorithm = CONV_WINOGRAD_4};
    prepared_t *prepared = NULL;
    for (int i = 0; i < 3; i++) {
        attrs.algorithm = declined[i].algorithm;
        attrs.stride[0] = declined[i].stride[0];
        attrs.stride[1] = declined[i].stride[1];
        prepared = choose(ctx, &attrs, sizes, kernel, WEIGHT_CONSTANT);
        assert_non_null(strstr(prepared_reasons(prepared),
                               "winograd: 3 by 3, or 5 by 5 of a size above 2, stride 1, or 2 with "
                               "3 by 3 of a size up to 4, dilation 1 and one group are needed"));
        prepared_release(prepared);
    }
    attrs.algorithm = CONV_WINOGRAD_4;
    attrs.stride[0] = attrs.stride[1] = 1;
    for (int i = 0; i < 2; i++) {
        attrs.padding[i] = 3;
        prepared = choose(ctx, &attrs, sizes, kernel, WEIGHT_CONSTANT);
        assert_string_equal(prepared_kernel(prepared), "onednn");
        assert_non_null(
            strstr(prepared_reasons(prepared), "winograd: a window contains only padding"));
        prepared_release(prepared);
        attrs.padding[i] = 0;
    }
    prepared = choose(ctx, &attrs, sizes, large, WEIGHT_CONSTANT);
    assert_string_equal(prepared_kernel(prepared), "onednn");
    prepared_release(prepared);
    attrs.post = (post_ops_t){.n = 1, .op = {{.kind = POST_ELTWISE, .eltwise = ELTWISE_TANH}}};
    prepared = choose(ctx, &attrs, sizes, kernel, WEIGHT_CONSTANT);
    assert_string_equal(prepared_kernel(prepared), "winograd_4_then_post");
    assert_non_null(strstr(prepared_reasons(prepared), "winograd: computes no post-op tanh"));
    prepared_release(prepared);
    attrs.post.op[0] = (post_op_t){.kind = POST_ELTWISE, .eltwise = ELTWISE_RELU};
    prepared = choose(ctx, &attrs, sizes, kernel, WEIGHT_CONSTANT);
    assert_string_equal(prepared_kernel(prepared), "winograd_4");
    prepared_release(prepared);
}

/* A weight that module_mkldnn marked is packed once for each tile size and stride. */
static void a_kept_weight_is_transformed_once(void **state)
{
    static const int algorithms[] = {CONV_WINOGRAD_4, CONV_WINOGRAD_4, CONV_WINOGRAD_2,
                                     CONV_WINOGRAD_4, CONV_WINOGRAD_4, CONV_WINOGRAD_4};
    static const int64_t strides[] = {1, 1, 1, 1, 2, 2};
    static const unsigned packed[] = {1, 0, 1, 0, 1, 0};
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *x = NULL, *y = NULL, *weight = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(24, 20, 3, 3), &weight));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2, 20, 9, 10), &x));
    CHECK_OK(ctx, module_create(ctx, "Weight", &module));
    CHECK_OK(ctx, module_set_parameter(ctx, module, "weight", weight));
    tensor_release(weight);
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    for (int i = 0; i < 6; i++) {
        const conv_attrs_t attrs = {
            .stride = {strides[i], strides[i]}, .padding = {1, 1}, .algorithm = algorithms[i]};
        counters_t before, after;
        counters_read(ctx, &before);
        CHECK_OK(ctx, op_conv2d(ctx, x, module_parameter(module, "weight"), NULL, &attrs, &y));
        counters_read(ctx, &after);
        assert_int_equal(after.weights_packed - before.weights_packed, packed[i]);
        assert_int_equal(after.copies[CAUSE_WEIGHT] - before.copies[CAUSE_WEIGHT], packed[i]);
        tensor_release(y);
    }
    tensor_release(x);
    module_release(module);
}

/* The gradient of the source reads the weight in the format of the forward pass. */
static void weights_that_change_are_read_in_one_format(void **state)
{
    static const int64_t sizes[] = {2, 64, 28, 28};
    static const int64_t kernels[][4] = {{96, 64, 3, 3}, {96, 64, 5, 5}};
    context_t *ctx = fixture_context(state);
    if (!is_fast()) return;
    for (int i = 0; i < 2; i++) {
        const int64_t pad = kernels[i][2] / 2, of_grad[] = {2, 96, 28, 28};
        const conv_attrs_t attrs = {.padding = {pad, pad}, .algorithm = CONV_WINOGRAD_TRAINING};
        const conv_backward_attrs_t backward = {
            .padding = {pad, pad}, .size = {28, 28}, .algorithm = CONV_WINOGRAD_TRAINING};
        prepared_t *forward = choose(ctx, &attrs, sizes, kernels[i], WEIGHT_KEPT), *data = NULL;
        const format_t blocks = format_channel_blocks(4, isa_lanes(isa_best()));
        const tensor_info_t dense = info_dense(DTYPE_F32, 4, of_grad);
        const tensor_info_t grad = info_mkldnn(&dense, &blocks),
                            weight = info_dense(DTYPE_F32, 4, kernels[i]);
        const tensor_info_t *in[] = {&grad, &weight};
        CHECK_OK(ctx, select_for_weights(ctx, &op_def_conv2d_backward_data, &backward, 2, in,
                                         WEIGHT_KEPT, POLICY_AUTO, &data));
        assert_string_equal(prepared_kernel(forward), "winograd_training");
        assert_string_equal(prepared_kernel(data), "winograd_training");
        assert_true(format_same(&forward->in[1].format, &data->in[1].format, kernels[i]));
        prepared_release(forward);
        prepared_release(data);
    }
}

static void check_errors(context_t *ctx, int64_t kernel, int64_t stride, int least, int most,
                         const double *bounds)
{
    const int64_t sizes[] = {40, 64, kernel, kernel}, n = 40 * 64 * kernel * kernel;
    const tensor_info_t info = info_dense(DTYPE_F32, 4, sizes);
    float *weight = test_malloc((size_t)n * sizeof *weight);
    double error = 0.0, last = 5e-8;
    for (int64_t i = 0; i < n; i++) weight[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int size = least; size <= most; size += 2) {
        CHECK_OK(ctx, conv_winograd_error(ctx, &info, weight, stride, size, &error));
        if (!(error > last && error < bounds[(size - least) / 2]))
            fail_msg("%lld by %lld of size %d loses %g", (long long)kernel, (long long)kernel, size,
                     error);
        last = error;
    }
    test_free(weight);
}

static void rounding_errors_of_5x5_tiles_are_measured(void **state)
{
    static const double bounds[] = {4e-6, 4e-5};
    check_errors(fixture_context(state), 5, 1, 4, 6, bounds);
}

static void rounding_errors_of_stride_2_are_measured(void **state)
{
    static const double bounds[] = {1e-6, 4e-6};
    check_errors(fixture_context(state), 3, 2, 2, 4, bounds);
}

static void rounding_errors_of_first_layers_are_measured(void **state)
{
    static const int64_t sizes[] = {40, 3, 7, 7};
    static const double bounds[] = {4e-6, 2e-5};
    enum { N = 40 * 3 * 49 };
    const tensor_info_t info = info_dense(DTYPE_F32, 4, sizes);
    float *weight = test_malloc(N * sizeof *weight);
    double error = 0.0, last = 5e-8;
    for (int i = 0; i < N; i++) weight[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(fixture_context(state),
                 conv_parities_error(fixture_context(state), &info, weight, 4 + 2 * i, &error));
        if (!(error > last && error < bounds[i])) fail_msg("size %d loses %g", 4 + 2 * i, error);
        last = error;
    }
    test_free(weight);
}

static void larger_tiles_lose_more_and_it_is_measured(void **state)
{
    static const int64_t sizes[] = {40, 64, 3, 3};
    static const double bounds[] = {1e-6, 4e-6, 4e-5};
    enum { N = 40 * 64 * 9 };
    context_t *ctx = fixture_context(state);
    const tensor_info_t info = info_dense(DTYPE_F32, 4, sizes);
    float *weight = test_malloc(N * sizeof *weight);
    double error = 0.0, again = 0.0;
    check_errors(ctx, 3, 1, 2, 6, bounds);
    for (int i = 0; i < N; i++) weight[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    CHECK_OK(ctx, conv_winograd_error(ctx, &info, weight, 1, 4, &error));
    CHECK_OK(ctx, conv_winograd_error(ctx, &info, weight, 1, 4, &again));
    assert_true(error == again);
    weight[9] = NAN;
    CHECK_OK(ctx, conv_winograd_error(ctx, &info, weight, 1, 4, &again));
    assert_true(isnan(again));
    memset(weight, 0, N * sizeof *weight);
    CHECK_OK(ctx, conv_winograd_error(ctx, &info, weight, 1, 4, &again));
    assert_true(again == 0.0);
    test_free(weight);
}

/* Products of bf16 pairs lose about twice as much as rounding to bf16. Products in f32 lose as much
 * as for f32 weights. */
static void rounding_errors_of_bf16_products_are_measured(void **state)
{
    static const int64_t sizes[] = {40, 64, 3, 3};
    enum { N = 40 * 64 * 9 };
    context_t *ctx = fixture_context(state);
    const tensor_info_t wide = info_dense(DTYPE_F32, 4, sizes),
                        narrow = info_dense(DTYPE_BF16, 4, sizes);
    float *weight = test_malloc(N * sizeof *weight);
    for (int i = 0; i < N; i++) weight[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int64_t stride = 1; stride <= 2; stride++) {
        double error = 0.0, pairs = 0.0, of_f32 = 0.0;
        const conv_attrs_t attrs = {.stride = {stride, stride}, .dilation = {1, 1}, .groups = 1};
        CHECK_OK(ctx, conv_winograd_error(ctx, &narrow, weight, stride, 2, &error));
        if (!(error > 0x1p-10 && error < CONV_WINOGRAD_BF16_ERROR))
            fail_msg("pairs with stride %lld lose %g", (long long)stride, error);
        CHECK_OK(ctx, conv_winograd_pairs_error(ctx, &attrs, &wide, weight, &pairs));
        assert_true(pairs == error);
        CHECK_OK(ctx, conv_winograd_error(ctx, &narrow, weight, stride, 4, &error));
        CHECK_OK(ctx, conv_winograd_error(ctx, &wide, weight, stride, 4, &of_f32));
        assert_true(error == of_f32);
    }
    double none = 1.0;
    const conv_attrs_t grouped = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 2};
    CHECK_OK(ctx, conv_winograd_pairs_error(ctx, &grouped, &wide, weight, &none));
    assert_true(none == 0.0);
    test_free(weight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_least_estimate_of_what_is_allowed_is_taken),
        TEST(strides_of_2_are_taken_where_they_pay),
        TEST(first_layers_are_split_by_parity_where_that_pays),
        TEST(a_weight_that_is_given_is_transformed_where_that_is_asked_for_only),
        TEST(unsupported_convolutions_are_declined_with_a_reason),
        TEST(a_kept_weight_is_transformed_once),
        TEST(weights_that_change_are_read_in_one_format),
        TEST(rounding_errors_of_5x5_tiles_are_measured),
        TEST(rounding_errors_of_stride_2_are_measured),
        TEST(rounding_errors_of_first_layers_are_measured),
        TEST(larger_tiles_lose_more_and_it_is_measured),
        TEST(bf16_is_done_in_pairs_or_in_f32),
        TEST(rounding_errors_of_bf16_products_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
