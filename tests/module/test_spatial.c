/* Layers that consist of one operator, compared with torch.nn: dense, with weights packed by
 * module_mkldnn, traced, and frozen. layers_values.py writes layers_values.txt. */
#include "module/layers/spatial.h"

#include "tests/support/drawn.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "freeze/freeze.h"
#include "module/mkldnn.h"
#include "tensor/dtype.h"

enum { MAX_LINE = 8192, MAX_ELEMENTS = 512 };

#define LINE SHAPE(2, 4, 5)
#define IMAGE SHAPE(1, 3, 4, 5)
#define VOLUME SHAPE(1, 2, 4, 3, 4)
#define INTS(...)                                                                                  \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void set(context_t *ctx, tensor_t *parameter, int number)
{
    tensor_t *value = drawn_ramp(ctx, number, tensor_rank(parameter), tensor_sizes(parameter));
    CHECK_OK(ctx, tensor_copy(ctx, parameter, value));
    tensor_release(value);
}

/* Reads the numbers of the line that begins with the name. Returns how many there are. */
static int read_wanted(const char *name, double *wanted)
{
    static char line[MAX_LINE];
    const size_t length = strlen(name);
    int n = 0;
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/module/layers_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ' ') break;
    fclose(file);
    assert_memory_equal(line, name, length);
    for (char *at = line + length; *at != '\n' && n < MAX_ELEMENTS; n++)
        wanted[n] = strtod(at, &at);
    return n;
}

static void check_forward(context_t *ctx, const char *name, const char *mode, module_t *module,
                          const tensor_t *x)
{
    double wanted[MAX_ELEMENTS];
    float elements[MAX_ELEMENTS];
    tensor_t *y = NULL;
    const int n = read_wanted(name, wanted);
    CHECK_OK(ctx, module_forward(ctx, module, x, &y));
    assert_int_equal(tensor_numel(y), n);
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int i = 0; i < n; i++)
        if (!(fabs((double)elements[i] - wanted[i]) <= 2e-5 * (1 + fabs(wanted[i]))))
            fail_msg("%s, %s: element %d is %g, must be %g", name, mode, i, (double)elements[i],
                     wanted[i]);
    tensor_release(y);
}

/* Checks the module dense, with packed weights, dense again, traced and frozen. */
static void check_modes(context_t *ctx, const char *name, module_t *module, const tensor_t *x)
{
    module_t *frozen = NULL;
    counters_t counters;
    check_forward(ctx, name, "dense", module, x);
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    check_forward(ctx, name, "mkldnn", module, x);
    counters_reset(ctx);
    check_forward(ctx, name, "mkldnn again", module, x);
    counters_read(ctx, &counters);
    assert_int_equal(counters_weight_reorders(&counters), 0);
    CHECK_OK(ctx, module_dense(ctx, module));
    CHECK_OK(ctx, graph_trace(ctx, module, "forward", 1, &x));
    check_forward(ctx, name, "traced", module, x);
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    check_forward(ctx, name, "frozen", frozen, x);
    module_release(frozen);
}

/* Checks type, shape and results of the module, and releases it. */
static void check(context_t *ctx, const char *name, const char *type, module_t *module, int rank,
                  const int64_t *sizes)
{
    tensor_t *x = drawn_ramp(ctx, 100, rank, sizes);
    assert_string_equal(module_type(module), type);
    if (module_parameter(module, "weight") != NULL) set(ctx, module_parameter(module, "weight"), 0);
    if (module_parameter(module, "bias") != NULL) set(ctx, module_parameter(module, "bias"), 1);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, module_print(ctx, module, &text));
    assert_memory_equal(text_string(&text), type, strlen(type));
    text_clear(&text);
    check_modes(ctx, name, module, x);
    tensor_release(x);
    module_release(module);
}

static void transposed_convolutions_are_those_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    const conv_transpose_attrs_t first = {
        .stride = {2}, .padding = {1}, .output_padding = {1}, .groups = 2};
    const conv_transpose_attrs_t second = {.stride = {2, 1}, .dilation = {1, 2}};
    const conv_transpose_attrs_t third = {.stride = {1, 2, 1}};
    CHECK_OK(ctx, layer_conv_transpose(ctx, 1, 4, 6, INTS(3), &first, true, &module));
    check(ctx, "conv_transpose1d", "ConvTranspose1d", module, LINE);
    CHECK_OK(ctx, layer_conv_transpose(ctx, 2, 3, 5, INTS(3, 2), &second, false, &module));
    check(ctx, "conv_transpose2d", "ConvTranspose2d", module, IMAGE);
    CHECK_OK(ctx, layer_conv_transpose(ctx, 3, 2, 3, INTS(2, 2, 2), &third, true, &module));
    check(ctx, "conv_transpose3d", "ConvTranspose3d", module, VOLUME);
}

static module_t *make_normed(context_t *ctx)
{
    module_t *net = NULL, *conv = NULL, *norm = NULL;
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    CHECK_OK(ctx, layer_conv_transpose(ctx, 2, 3, 5, INTS(3, 3),
                                       &(conv_transpose_attrs_t){.stride = {2, 2}}, true, &conv));
    CHECK_OK(ctx, layer_batch_norm(ctx, 5, 0.01, &norm));
    set(ctx, module_parameter(conv, "weight"), 4);
    set(ctx, module_parameter(conv, "bias"), 5);
    set(ctx, module_parameter(norm, "weight"), 0);
    set(ctx, module_parameter(norm, "bias"), 1);
    set(ctx, module_buffer(norm, "running_mean"), 2);
    set(ctx, module_buffer(norm, "running_var"), 3);
    CHECK_OK(ctx, op_abs_(ctx, module_buffer(norm, "running_var")));
    CHECK_OK(ctx, layer_append_take(ctx, net, conv));
    CHECK_OK(ctx, layer_append_take(ctx, net, norm));
    return net;
}

static void a_norm_folds_into_a_transposed_convolution(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = drawn_ramp(ctx, 100, IMAGE);
    module_t *net = make_normed(ctx), *frozen = NULL;
    check_modes(ctx, "conv_norm", net, x);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(frozen, "forward"), NULL, &text));
    assert_non_null(strstr(text_string(&text), "conv_transpose2d("));
    assert_null(strstr(text_string(&text), "batch_norm("));
    text_clear(&text);
    tensor_release(x);
    module_release(net);
    module_release(frozen);
}

static void pools_are_those_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    const pool_attrs_t max1 = {.kernel = {2}, .padding = {1}, .ceil_mode = true};
    const pool_attrs_t max2 = {.kernel = {3, 2}, .stride = {1, 1}, .dilation = {1, 2}};
    const pool_attrs_t avg1 = {
        .kernel = {3}, .stride = {2}, .padding = {1}, .count_include_pad = true};
    CHECK_OK(ctx, layer_max_pool(ctx, 1, &max1, &module));
    check(ctx, "max_pool1d", "MaxPool1d", module, LINE);
    CHECK_OK(ctx, layer_max_pool2d(ctx, &max2, &module));
    check(ctx, "max_pool2d", "MaxPool2d", module, IMAGE);
    CHECK_OK(ctx, layer_max_pool(ctx, 3, &(pool_attrs_t){.kernel = {2, 2, 2}}, &module));
    check(ctx, "max_pool3d", "MaxPool3d", module, VOLUME);
    CHECK_OK(ctx, layer_avg_pool(ctx, 1, &avg1, &module));
    check(ctx, "avg_pool1d", "AvgPool1d", module, LINE);
    CHECK_OK(ctx,
             layer_avg_pool(ctx, 2, &(pool_attrs_t){.kernel = {2, 2}, .padding = {1, 1}}, &module));
    check(ctx, "avg_pool2d", "AvgPool2d", module, IMAGE);
    CHECK_OK(ctx, layer_avg_pool(ctx, 3, &(pool_attrs_t){.kernel = {2, 1, 2}}, &module));
    check(ctx, "avg_pool3d", "AvgPool3d", module, VOLUME);
}

static void adaptive_pools_are_those_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, layer_adaptive_avg_pool(ctx, 1, INTS(2), &module));
    check(ctx, "adaptive_avg_pool1d", "AdaptiveAvgPool1d", module, LINE);
    CHECK_OK(ctx, layer_adaptive_avg_pool(ctx, 3, INTS(2, 1, 3), &module));
    check(ctx, "adaptive_avg_pool3d", "AdaptiveAvgPool3d", module, VOLUME);
    CHECK_OK(ctx, layer_adaptive_max_pool(ctx, 1, INTS(2), &module));
    check(ctx, "adaptive_max_pool1d", "AdaptiveMaxPool1d", module, LINE);
    CHECK_OK(ctx, layer_adaptive_max_pool(ctx, 2, INTS(3, 2), &module));
    check(ctx, "adaptive_max_pool2d", "AdaptiveMaxPool2d", module, IMAGE);
    CHECK_OK(ctx, layer_adaptive_max_pool(ctx, 3, INTS(2, 1, 3), &module));
    check(ctx, "adaptive_max_pool3d", "AdaptiveMaxPool3d", module, VOLUME);
}

static void upsampling_is_that_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, layer_upsample(ctx, &(upsample_attrs_t){.scale_factor = {2, 1.5}}, &module));
    check(ctx, "nearest", "Upsample", module, IMAGE);
    CHECK_OK(ctx,
             layer_upsample(ctx, &(upsample_attrs_t){.scale_factor = {1.6}, .mode = RESIZE_LINEAR},
                            &module));
    check(ctx, "linear", "Upsample", module, LINE);
    CHECK_OK(ctx, layer_upsample(ctx,
                                 &(upsample_attrs_t){
                                     .size = {5, 7}, .mode = RESIZE_LINEAR, .align_corners = true},
                                 &module));
    check(ctx, "bilinear", "Upsample", module, IMAGE);
    CHECK_OK(ctx, layer_upsample(ctx, &(upsample_attrs_t){.size = {3, 4, 2}, .mode = RESIZE_LINEAR},
                                 &module));
    check(ctx, "trilinear", "Upsample", module, VOLUME);
    CHECK_OK(ctx,
             layer_upsample(ctx, &(upsample_attrs_t){.scale_factor = {2}, .mode = RESIZE_CUBIC},
                            &module));
    check(ctx, "bicubic", "Upsample", module, SHAPE(1, 1, 3, 4));
}

static void pixels_and_padding_are_those_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, layer_pixel_shuffle(ctx, 2, &module));
    check(ctx, "pixel_shuffle", "PixelShuffle", module, SHAPE(1, 8, 2, 3));
    CHECK_OK(ctx, layer_pixel_unshuffle(ctx, 2, &module));
    check(ctx, "pixel_unshuffle", "PixelUnshuffle", module, SHAPE(1, 2, 4, 6));
    CHECK_OK(ctx, layer_pad(ctx, 2, INTS(1, 2, 0, -1), PAD_CONSTANT, 0, &module));
    check(ctx, "zero_pad2d", "ZeroPad2d", module, IMAGE);
    CHECK_OK(ctx, layer_pad(ctx, 1, INTS(2, 1), PAD_CONSTANT, 3.5, &module));
    check(ctx, "constant_pad1d", "ConstantPad1d", module, LINE);
    CHECK_OK(ctx, layer_pad(ctx, 2, INTS(1, 2, 0, 1), PAD_REFLECT, 0, &module));
    check(ctx, "reflection_pad2d", "ReflectionPad2d", module, IMAGE);
    CHECK_OK(ctx, layer_pad(ctx, 3, INTS(1, 0, 0, 1, 0, 0), PAD_EDGE, 0, &module));
    check(ctx, "replication_pad3d", "ReplicationPad3d", module, VOLUME);
    CHECK_OK(ctx, layer_pad(ctx, 2, INTS(1, 2, 0, 1), PAD_WRAP, 0, &module));
    check(ctx, "circular_pad2d", "CircularPad2d", module, IMAGE);
}

static void plain_layers_are_those_of_torch(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, layer_softmax(ctx, 1, &module));
    check(ctx, "softmax", "Softmax", module, IMAGE);
    CHECK_OK(ctx, layer_log_softmax(ctx, -1, &module));
    check(ctx, "log_softmax", "LogSoftmax", module, IMAGE);
    CHECK_OK(ctx, layer_prelu(ctx, 3, 0.25, &module));
    check(ctx, "prelu", "PReLU", module, IMAGE);
    CHECK_OK(ctx, layer_prelu(ctx, 1, 0.25, &module));
    check(ctx, "prelu_one", "PReLU", module, IMAGE);
    CHECK_OK(ctx, layer_identity(ctx, &module));
    check(ctx, "identity", "Identity", module, LINE);
    CHECK_OK(ctx, layer_unflatten(ctx, 1, 2, INTS(2, -1), &module));
    check(ctx, "unflatten", "Unflatten", module, LINE);
    CHECK_OK(ctx, layer_feature_dropout(ctx, 2, 0.5, &module));
    check(ctx, "dropout", "Dropout2d", module, IMAGE);
    CHECK_OK(ctx, layer_alpha_dropout(ctx, 0.5, &module));
    check(ctx, "dropout", "AlphaDropout", module, IMAGE);
    CHECK_OK(ctx, layer_softsign(ctx, &module));
    check(ctx, "softsign", "Softsign", module, IMAGE);
    CHECK_OK(ctx, layer_log_sigmoid(ctx, &module));
    check(ctx, "log_sigmoid", "LogSigmoid", module, IMAGE);
}

static void prelu_begins_with_one_slope(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    float slopes[2] = {0};
    CHECK_OK(ctx, layer_prelu(ctx, 2, 0.25, &module));
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(module, "weight"), slopes, sizeof slopes));
    assert_true(slopes[0] == 0.25f && slopes[1] == 0.25f);
    module_release(module);
}

/* ---- errors ---- */

static void wrong_layers_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    const conv_transpose_attrs_t grouped = {.groups = 2};
    CHECK_FAILS(ctx, layer_conv_transpose(ctx, 4, 2, 2, INTS(1, 1, 1, 1), NULL, true, &module),
                STATUS_INVALID_ARGUMENT, "layer_conv_transpose: 4 spatial dimensions, must be 1");
    CHECK_FAILS(ctx, layer_conv_transpose(ctx, 1, 0, 2, INTS(1), NULL, true, &module),
                STATUS_INVALID_ARGUMENT, "layer_conv_transpose: 0 to 2 channels, must be positive");
    CHECK_FAILS(ctx, layer_conv_transpose(ctx, 1, 2, 3, INTS(1), &grouped, true, &module),
                STATUS_INVALID_ARGUMENT, "2 to 3 channels in 2 groups, groups must divide both");
    CHECK_FAILS(ctx, layer_conv_transpose(ctx, 1, 2, 3, INTS(0), NULL, true, &module),
                STATUS_INVALID_ARGUMENT, "a kernel of size 0, must be positive");
    CHECK_FAILS(ctx,
                layer_conv_transpose(ctx, 1, 2, 3, INTS(1),
                                     &(conv_transpose_attrs_t){.post = {.n = 1}}, true, &module),
                STATUS_INVALID_ARGUMENT, "only the fusion pass may set them");
    CHECK_FAILS(ctx, layer_max_pool(ctx, 3, &(pool_attrs_t){.kernel = {2, 2}}, &module),
                STATUS_INVALID_ARGUMENT, "layer_max_pool: a kernel of size 0, must be positive");
    CHECK_FAILS(ctx, layer_adaptive_max_pool(ctx, 1, INTS(0), &module), STATUS_INVALID_ARGUMENT,
                "layer_adaptive_max_pool: an output of size 0, must be positive");
    CHECK_FAILS(ctx, layer_upsample(ctx, &(upsample_attrs_t){.mode = RESIZE_LINEAR}, &module),
                STATUS_INVALID_ARGUMENT, "one of them must be positive");
    CHECK_FAILS(ctx, layer_upsample(ctx, &(upsample_attrs_t){.size = {2}, .mode = 9}, &module),
                STATUS_INVALID_ARGUMENT, "must be a resize_mode_t");
    CHECK_FAILS(
        ctx, layer_upsample(ctx, &(upsample_attrs_t){.size = {2}, .align_corners = true}, &module),
        STATUS_INVALID_ARGUMENT,
        "layer_upsample: align_corners with mode nearest, which does not support it");
    CHECK_FAILS(ctx, layer_upsample(ctx, &(upsample_attrs_t){.size = {2, -1}}, &module),
                STATUS_INVALID_ARGUMENT, "must not be negative");
    CHECK_FAILS(ctx, layer_pixel_shuffle(ctx, 0, &module), STATUS_INVALID_ARGUMENT,
                "layer_pixel_shuffle: factor 0, must be positive");
    CHECK_FAILS(ctx, layer_pixel_unshuffle(ctx, 0, &module), STATUS_INVALID_ARGUMENT,
                "layer_pixel_unshuffle: factor 0, must be positive");
    CHECK_FAILS(ctx, layer_pad(ctx, 1, INTS(0, 0), (pad_mode_t)9, 0, &module),
                STATUS_INVALID_ARGUMENT, "must be a pad_mode_t");
    CHECK_FAILS(ctx, layer_prelu(ctx, 0, 0.25, &module), STATUS_INVALID_ARGUMENT,
                "layer_prelu: 0 parameters, must be positive");
    CHECK_FAILS(ctx, layer_unflatten(ctx, 1, 0, INTS(1), &module), STATUS_INVALID_ARGUMENT,
                "layer_unflatten: 0 sizes, must be 1 to 12");
    CHECK_FAILS(ctx, layer_unflatten(ctx, 1, 2, INTS(-1, -1), &module), STATUS_INVALID_ARGUMENT,
                "layer_unflatten: size -1, must be 0 or more, or -1 once");
    CHECK_FAILS(ctx, layer_feature_dropout(ctx, 2, 1.5, &module), STATUS_INVALID_ARGUMENT,
                "p 1.5, must be 0 to 1");
    assert_null(module);
}

static void inputs_that_do_not_fit_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *x = drawn_ramp(ctx, 100, SHAPE(2, 6)), *y = NULL,
             *image = drawn_ramp(ctx, 100, IMAGE);
    CHECK_OK(ctx, layer_unflatten(ctx, 1, 2, INTS(4, -1), &module));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_INVALID_ARGUMENT,
                "unflatten: dim 1 of f32[2,6] into sizes with product 4, must fit");
    CHECK_OK(ctx, module_train(ctx, module, true));
    module_release(module);
    CHECK_OK(ctx, layer_unflatten(ctx, 4, 1, INTS(4), &module));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_INVALID_ARGUMENT,
                "unflatten: dim 4 of f32[2,6] into 1 dimensions, out of range");
    module_release(module);
    CHECK_OK(ctx, layer_upsample(ctx, &(upsample_attrs_t){.scale_factor = {0.1}}, &module));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_INVALID_ARGUMENT,
                "upsample: x is f32[2,6], rank 3 to 5 is needed");
    CHECK_FAILS(ctx, module_forward(ctx, module, image, &y), STATUS_INVALID_ARGUMENT,
                "\"scale_factor\" of Upsample is 0.1, the result for size 4 is out of range");
    module_release(module);
    CHECK_OK(ctx, layer_pad(ctx, 3, INTS(0, 0, 0, 0, 0, 0), PAD_CONSTANT, 0, &module));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_INVALID_ARGUMENT,
                "two for each of at most 2 dimensions");
    module_release(module);
    CHECK_OK(ctx, layer_alpha_dropout(ctx, 0.5, &module));
    CHECK_OK(ctx, module_train(ctx, module, true));
    CHECK_FAILS(ctx, module_forward(ctx, module, x, &y), STATUS_UNSUPPORTED,
                "the layer is in training mode");
    module_release(module);
    tensor_release(x);
    tensor_release(image);
}

static status_t make_and_run(context_t *ctx)
{
    module_t *module = NULL;
    tensor_t *x = NULL, *y = NULL;
    const upsample_attrs_t attrs = {.scale_factor = {2}};
    status_t status = layer_upsample(ctx, &attrs, &module);
    if (status == STATUS_OK) status = tensor_full(ctx, DTYPE_F32, IMAGE, 1, &x);
    if (status == STATUS_OK) status = module_forward(ctx, module, x, &y);
    module_release(module);
    module = NULL;
    if (status == STATUS_OK)
        status = layer_conv_transpose(ctx, 2, 3, 4, INTS(2, 2), NULL, true, &module);
    tensor_release(x);
    tensor_release(y);
    module_release(module);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(make_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transposed_convolutions_are_those_of_torch),
        TEST(a_norm_folds_into_a_transposed_convolution),
        TEST(pools_are_those_of_torch),
        TEST(adaptive_pools_are_those_of_torch),
        TEST(upsampling_is_that_of_torch),
        TEST(pixels_and_padding_are_those_of_torch),
        TEST(plain_layers_are_those_of_torch),
        TEST(prelu_begins_with_one_slope),
        TEST(wrong_layers_are_refused),
        TEST(inputs_that_do_not_fit_are_refused),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("test_spatial", tests, NULL, NULL);
}
