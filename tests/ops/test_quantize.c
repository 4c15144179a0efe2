/* Quantisation and dequantisation: rounding, saturation, errors. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "ops/quantized/quantized.h"
#include "tensor/context_impl.h"

static tensor_t *make(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes, double value)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, dtype, rank, sizes, value, &tensor));
    return tensor;
}

/* Expected integers are from ONNX Runtime. */
static void halves_go_to_the_even_integer_and_what_does_not_fit_is_saturated(void **state)
{
    context_t *ctx = fixture_context(state);
    const float numbers[] = {0.5f, 1.5f, -0.5f, -2.5f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN};
    const uint8_t wanted_u8[] = {10, 12, 10, 8, 255, 0, 255, 0, 0};
    const int16_t wanted_s16[] = {10, 12, 10, 8, 32767, -32768, 32767, -32768, -32768};
    tensor_t *x = NULL, *out = NULL;
    tensor_t *one = make(ctx, DTYPE_F32, SHAPE(1), 1), *ten = make(ctx, DTYPE_S32, SHAPE(1), 10);
    uint8_t bytes[9];
    int16_t words[9];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(9), numbers, &x));
    CHECK_OK(ctx, op_quantize(ctx, x, one, ten, 0, 0, DTYPE_U8, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, bytes, sizeof bytes));
    assert_memory_equal(bytes, wanted_u8, sizeof bytes);
    tensor_release(out);
    CHECK_OK(ctx, op_quantize(ctx, x, one, ten, 0, 0, DTYPE_S16, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, words, sizeof words));
    assert_memory_equal(words, wanted_s16, sizeof words);
    tensor_release(out);
    tensor_release(x);
    tensor_release(one);
    tensor_release(ten);
}

/* The results were computed by hand. The sums of x and zero point have more bits than a float. */
static void zeros_of_32_bits_are_added_exactly(void **state)
{
    static const struct {
        float x;
        int32_t zero;
        uint8_t wanted;
    } rows[] = {{16777232.0f, -16777217, 15},     {4194300.0f, -4194299, 1},
                {-2147483520.0f, INT32_MAX, 127}, {2147483648.0f, INT32_MIN, 0},
                {4294967296.0f, INT32_MIN, 255},  {3.5f, -2097153, 0}};
    context_t *ctx = fixture_context(state);
    tensor_t *one = make(ctx, DTYPE_F32, SHAPE(1), 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tensor_t *x = make(ctx, DTYPE_F32, SHAPE(1), (double)rows[i].x), *zero = NULL, *y = NULL;
        uint8_t result = 7;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, SHAPE(1), &rows[i].zero, &zero));
        CHECK_OK(ctx, op_quantize(ctx, x, one, zero, 0, 0, DTYPE_U8, &y));
        CHECK_OK(ctx, tensor_read(ctx, y, &result, 1));
        assert_int_equal(result, rows[i].wanted);
        tensor_t *all[] = {x, zero, y};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) tensor_release(all[k]);
    }
    tensor_release(one);
}

/* The sum 2^24 + 1 is not a float, so the bias must be added to it in integers, which gives 1. */
static void a_bias_is_added_before_a_sum_becomes_a_float(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_S32, SHAPE(1), 16777217), *out = NULL;
    tensor_t *bias = make(ctx, DTYPE_S32, SHAPE(1), -16777216);
    tensor_t *scale = make(ctx, DTYPE_F32, SHAPE(1), 7);
    int8_t result = 0;
    CHECK_OK(ctx, op_requantize(ctx, x, scale, bias, NULL, 0, false, DTYPE_S8, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, &result, 1));
    assert_int_equal(result, 7);
    tensor_release(out);
    tensor_release(x);
    tensor_release(bias);
    tensor_release(scale);
}

/* The results were computed by hand: -2 * 0.5 + 0.25 is rounded to -1, and 3 * 0.5 + 0.25 to 2. */
static void a_bias_of_floats_is_of_the_result_and_relu_ends_at_zero(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *out = NULL, *scale = make(ctx, DTYPE_F32, SHAPE(1), 0.5);
    tensor_t *bias = make(ctx, DTYPE_F32, SHAPE(1), 0.25), *zero = make(ctx, DTYPE_S8, SHAPE(1), 7);
    tensor_t *far = make(ctx, DTYPE_S32, SHAPE(1), 300);
    const int32_t sums[] = {-2, 3};
    int8_t result[2];
    uint8_t saturated[2];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, SHAPE(2), sums, &x));
    CHECK_OK(ctx, op_requantize(ctx, x, scale, bias, zero, 0, false, DTYPE_S8, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, result, sizeof result));
    assert_memory_equal(result, ((const int8_t[]){6, 9}), 2);
    tensor_release(out);
    CHECK_OK(ctx, op_requantize(ctx, x, scale, bias, zero, 0, true, DTYPE_S8, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, result, sizeof result));
    assert_memory_equal(result, ((const int8_t[]){7, 9}), 2);
    tensor_release(out);
    CHECK_OK(ctx, op_requantize(ctx, x, scale, bias, far, 0, true, DTYPE_U8, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, saturated, sizeof saturated));
    assert_memory_equal(saturated, ((const uint8_t[]){255, 255}), 2);
    tensor_t *all[] = {x, out, scale, bias, zero, far};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void operands_that_do_not_fit_are_refused_in_words(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_F32, SHAPE(3, 7), 1), *sum = make(ctx, DTYPE_S32, SHAPE(3, 7), 1);
    tensor_t *scale = make(ctx, DTYPE_F32, SHAPE(1), 1), *five = make(ctx, DTYPE_F32, SHAPE(5), 1);
    tensor_t *half = make(ctx, DTYPE_F16, SHAPE(1), 1), *zero = make(ctx, DTYPE_U8, SHAPE(1), 1);
    tensor_t *wide = make(ctx, DTYPE_F64, SHAPE(3, 7), 1), *out = NULL;
    const status_t invalid = STATUS_INVALID_ARGUMENT;
    CHECK_FAILS(ctx, op_quantize(ctx, wide, scale, NULL, 1, 0, DTYPE_U8, &out), invalid,
                "quantize: x is f64[3,7], f32, bf16, f16 or s32 is needed");
    CHECK_FAILS(ctx, op_dequantize(ctx, x, scale, NULL, 1, 0, &out), invalid,
                "dequantize: x is f32[3,7], s8, u8, s16, u16 or s32 is needed");
    CHECK_FAILS(ctx, op_requantize(ctx, sum, half, NULL, NULL, 1, false, DTYPE_U8, &out), invalid,
                "requantize: scale is f16[1], f32 is needed");
    CHECK_FAILS(ctx, op_quantize(ctx, x, scale, zero, 1, 0, DTYPE_S8, &out), invalid,
                "quantize: zero is u8[1], s8 or s32 is needed");
    CHECK_FAILS(ctx, op_requantize(ctx, sum, scale, half, NULL, 1, false, DTYPE_S8, &out), invalid,
                "requantize: bias is f16[1], s32 or f32 is needed");
    CHECK_FAILS(ctx, op_quantize(ctx, x, scale, NULL, 1, 0, DTYPE_S64, &out), invalid,
                "quantize: result of s64, s8, u8, s16 or u16 is needed");
    CHECK_FAILS(ctx, op_quantize(ctx, x, scale, NULL, 1, -1, DTYPE_U8, &out), invalid,
                "quantize: block_size -1, must not be negative");
    CHECK_FAILS(ctx, op_quantize(ctx, x, five, NULL, 2, 0, DTYPE_U8, &out), invalid,
                "quantize: dim 2 of f32[3,7], out of range");
    CHECK_FAILS(ctx, op_quantize(ctx, x, five, NULL, 1, 0, DTYPE_U8, &out), invalid,
                "quantize: scale is f32[5], one or [7] for dimension 1 of f32[3,7] is needed");
    CHECK_FAILS(ctx, op_quantize(ctx, x, five, NULL, 1, 4, DTYPE_U8, &out), invalid,
                "quantize: scale is f32[5], 2 blocks of 4 in dimension 1 of f32[3,7] are needed");
    tensor_t *scale_out = NULL, *zero_out = NULL;
    CHECK_FAILS(ctx, op_dynamic_quantize(ctx, wide, &out, &scale_out, &zero_out), invalid,
                "dynamic_quantize: x is f64[3,7], f32 is needed");
    tensor_t *all[] = {x, sum, scale, five, half, zero, wide};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void integers_that_do_not_fit_are_refused_in_words(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_U8, SHAPE(1, 3, 5, 5), 1), *out = NULL;
    tensor_t *weight = make(ctx, DTYPE_S8, SHAPE(4, 3, 3, 3), 1);
    tensor_t *number = make(ctx, DTYPE_F32, SHAPE(4, 3, 3, 3), 1);
    tensor_t *zero = make(ctx, DTYPE_S8, SHAPE(1), 1), *two = make(ctx, DTYPE_S8, SHAPE(2), 1);
    tensor_t *a = make(ctx, DTYPE_U8, SHAPE(3, 7), 1), *b = make(ctx, DTYPE_S8, SHAPE(7, 5), 1);
    tensor_t *c = make(ctx, DTYPE_F32, SHAPE(7, 5), 1);
    const status_t invalid = STATUS_INVALID_ARGUMENT;
    CHECK_FAILS(ctx, op_conv2d_integer(ctx, x, number, NULL, NULL, NULL, &out), invalid,
                "conv2d_integer: weight is f32[4,3,3,3], s8 or u8 is needed");
    CHECK_FAILS(ctx, op_conv2d_integer(ctx, x, weight, zero, NULL, NULL, &out), invalid,
                "conv2d_integer: x_zero is s8[1], that of x is u8");
    CHECK_FAILS(ctx, op_conv2d_integer(ctx, x, weight, NULL, two, NULL, &out), invalid,
                "conv2d_integer: weight_zero is s8[2], one for all or for each output is needed");
    CHECK_FAILS(ctx, op_matmul_integer(ctx, a, c, NULL, NULL, &out), invalid,
                "matmul_integer: b is f32[7,5], s8 or u8 is needed");
    CHECK_FAILS(ctx, op_matmul_integer(ctx, a, b, zero, NULL, &out), invalid,
                "matmul_integer: a_zero is s8[1], that of a is u8");
    CHECK_FAILS(ctx, op_matmul_integer(ctx, a, b, NULL, two, &out), invalid,
                "matmul_integer: b_zero is s8[2], one for all or [5] is needed");
    tensor_t *all[] = {x, weight, number, zero, two, a, b, c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* ---- convolution, with each of its kernels ---- */

enum { N_IN = 20, N_OUT = 33, SIDE = 5, N_X = N_IN * SIDE * SIDE, N_Y = N_OUT * SIDE * SIDE };

typedef struct layer {
    uint8_t x[N_X]; /* channels last, like the addend */
    int8_t weight[N_OUT * N_IN * 9], packed[N_OUT * N_IN * 9 * 64];
    float bias[N_OUT], multiplier[N_OUT];
    uint8_t addend[N_Y];
} layer_t;

static void fill_layer(layer_t *l)
{
    for (int i = 0; i < N_X; i++) l->x[i] = (uint8_t)(i * 37 % 256);
    for (int i = 0; i < N_OUT * N_IN * 9; i++) l->weight[i] = (int8_t)(i * 29 % 255 - 127);
    for (int i = 0; i < N_Y; i++) l->addend[i] = (uint8_t)(i * 53 % 256);
    for (int k = 0; k < N_OUT; k++) {
        l->bias[k] = (float)(1000 * k - 9000);
        l->multiplier[k] = 0.0009765625f * (float)(1 + k % 5);
    }
}

/* Computes a result before rounding, in double, without error: multipliers have few bits. */
static double number_at(const layer_t *l, int k, int p, int q)
{
    double sum = (double)l->bias[k];
    for (int c = 0; c < N_IN; c++)
        for (int i = 0; i < 9; i++) {
            const int h = p + i / 3 - 1, w = q + i % 3 - 1;
            if (h < 0 || w < 0 || h >= SIDE || w >= SIDE) continue;
            sum += l->x[(h * SIDE + w) * N_IN + c] * l->weight[(k * N_IN + c) * 9 + i];
        }
    return sum * (double)l->multiplier[k] + 0.75 * l->addend[(p * SIDE + q) * N_OUT + k];
}

/* Runs the convolution with this kernel. Returns false if the kernel declines, as oneDNN's does
 * without 8-bit dot products. */
static bool run_layer(context_t *ctx, layer_t *l, const char *name, uint8_t *out)
{
    const opdef_t *op = ops_find("conv2d_quantized");
    const int64_t x_sizes[] = {1, N_IN, SIDE, SIDE}, y_sizes[] = {1, N_OUT, SIDE, SIDE};
    const int64_t w_sizes[] = {N_OUT, N_IN, 3, 3}, n = N_OUT;
    const tensor_info_t x = info_strided(DTYPE_U8, 4, x_sizes,
                                         (int64_t[]){N_X, 1, SIDE * N_IN, N_IN});
    const tensor_info_t addend = info_strided(DTYPE_U8, 4, y_sizes,
                                              (int64_t[]){N_Y, 1, SIDE * N_OUT, N_OUT});
    const tensor_info_t weight = info_dense(DTYPE_S8, 4, w_sizes);
    const tensor_info_t channels = info_dense(DTYPE_F32, 1, &n);
    const tensor_info_t *in[] = {&x, &weight, &channels, &channels, &addend};
    conv_quantized_attrs_t attrs = {
        .conv = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1},
        .dtype = DTYPE_U8,
        .relu = true,
        .addend_scale = 0.75};
    const kernel_t *kernel = NULL;
    prepared_t *prepared = NULL;
    for (int i = 0; op->kernels[i] != NULL; i++)
        if (strcmp(op->kernels[i]->name, name) == 0) kernel = op->kernels[i];
    assert_non_null(kernel);
    status_t status = select_fixed(ctx, op, &attrs, 5, in, WEIGHT_GIVEN, LAYOUT_DENSE, NULL, kernel,
                                   &prepared);
    if (status == STATUS_UNSUPPORTED) return false;
    CHECK_OK(ctx, status);
    assert_string_equal(prepared_kernel(prepared), name);
    memset(l->packed, 0, sizeof l->packed);
    void *w = l->weight, *scratch = NULL, *to = out;
    const tensor_info_t *want = prepared_input(prepared, 1);
    if (kernel->pack != NULL) {
        CHECK_OK(ctx, kernel->pack(ctx, &weight, l->weight, want, l->packed));
        w = l->packed;
    } else if (!format_same(&want->format, &weight.format, w_sizes)) {
        onednn_primitive_t *reorder = NULL;
        tensor_info_t from = weight;
        from.layout = LAYOUT_MKLDNN;
        from.format = format_plain(4);
        CHECK_OK(ctx, onednn_reorder(ctx, &from, want, &reorder));
        void *arguments[] = {l->weight, l->packed};
        CHECK_OK(ctx, onednn_run(ctx, reorder, arguments, NULL));
        w = l->packed;
    }
    if (prepared->sum_operand >= 0) memcpy(out, l->addend, N_Y);
    CHECK_OK(ctx, context_get(ctx, prepared->scratch_bytes + 64, "scratch", &scratch));
    void *arguments[] = {l->x, w, l->bias, l->multiplier,
                         prepared->sum_operand >= 0 ? out : l->addend};
    CHECK_OK(ctx, kernel->run(ctx, prepared, arguments, &to, scratch));
    context_put(ctx, scratch);
    prepared_release(prepared);
    return true;
}

static void each_kernel_of_a_convolution_gives_the_same_integers(void **state)
{
    static const char *const names[] = {"onednn", "floats", "native"};
    static layer_t layer;
    context_t *ctx = fixture_context(state);
    int n_run = 0, n_cut = 0;
    fill_layer(&layer);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint8_t out[N_Y];
        if (!run_layer(ctx, &layer, names[i], out)) continue;
        n_run++;
        for (int k = 0; k < N_OUT; k++)
            for (int at = 0; at < SIDE * SIDE; at++) {
                const double number = number_at(&layer, k, at / SIDE, at % SIDE);
                const double wanted = fmin(255.0, fmax(0.0, nearbyint(number)));
                n_cut += number < 0.0 || number > 255.0;
                if (out[at * N_OUT + k] != (int)wanted)
                    fail_msg("%s: output %d at %d is %d, must be %.0f of %.6f", names[i], k, at,
                             out[at * N_OUT + k], wanted, number);
            }
    }
    assert_true(n_run >= 2);
    assert_true(n_cut > 0 && n_cut < n_run * N_Y);
}

/* oneDNN must take a depthwise convolution, too, whose packed weight has dimensions of size 1. */
static void a_depthwise_convolution_is_computed_by_onednn(void **state)
{
    context_t *ctx = fixture_context(state);
    const opdef_t *op = ops_find("conv2d_quantized");
    const int64_t x_sizes[] = {1, 32, 14, 14}, w_sizes[] = {32, 1, 3, 3}, n = 32;
    const tensor_info_t x = info_dense(DTYPE_U8, 4, x_sizes), w = info_dense(DTYPE_S8, 4, w_sizes);
    const tensor_info_t channels = info_dense(DTYPE_F32, 1, &n), none = {.dtype = DTYPE_NONE};
    const tensor_info_t *in[] = {&x, &w, &channels, &channels, &none};
    const conv_quantized_attrs_t attrs = {
        .conv = {.stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 32},
        .dtype = DTYPE_U8,
        .addend_scale = 1.0};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, dispatch_select(ctx, op, &attrs, 5, in, POLICY_AUTO, &prepared));
    if (strcmp(prepared_kernel(prepared), "native") == 0)
        fail_msg("oneDNN declined: %s", prepared_reasons(prepared));
    prepared_release(prepared);
}

static void operands_of_a_convolution_are_refused_in_words(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, DTYPE_U8, SHAPE(1, 3, 5, 5), 1), *out = NULL;
    tensor_t *s = make(ctx, DTYPE_S8, SHAPE(1, 3, 5, 5), 1);
    tensor_t *weight = make(ctx, DTYPE_S8, SHAPE(4, 3, 3, 3), 1);
    tensor_t *four = make(ctx, DTYPE_F32, SHAPE(4), 1), *three = make(ctx, DTYPE_F32, SHAPE(3), 1);
    tensor_t *addend = make(ctx, DTYPE_S8, SHAPE(1, 4, 3, 3), 1);
    const conv_quantized_attrs_t wide = {.dtype = DTYPE_S16};
    const status_t invalid = STATUS_INVALID_ARGUMENT;
    CHECK_FAILS(ctx, op_conv2d_quantized(ctx, s, weight, NULL, four, NULL, NULL, &out), invalid,
                "conv2d_quantized: x is s8[1,3,5,5], u8 is needed");
    CHECK_FAILS(ctx, op_conv2d_quantized(ctx, x, x, NULL, four, NULL, NULL, &out), invalid,
                "conv2d_quantized: ");
    CHECK_FAILS(ctx, op_conv2d_quantized(ctx, x, weight, NULL, three, NULL, NULL, &out), invalid,
                "conv2d_quantized: multiplier is f32[3], f32[4] is needed");
    CHECK_FAILS(ctx, op_conv2d_quantized(ctx, x, weight, three, four, NULL, NULL, &out), invalid,
                "conv2d_quantized: bias is f32[3], f32[4] is needed");
    CHECK_FAILS(ctx, op_conv2d_quantized(ctx, x, weight, NULL, four, addend, NULL, &out), invalid,
                "conv2d_quantized: addend is s8[1,4,3,3], the result is u8[1,4,3,3], equal dtypes "
                "and sizes are needed");
    CHECK_FAILS(ctx, op_conv2d_quantized(ctx, x, weight, NULL, four, NULL, &wide, &out), invalid,
                "conv2d_quantized: dtype=s16, u8, s8 or f32 is needed");
    tensor_t *all[] = {x, s, weight, four, three, addend};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(halves_go_to_the_even_integer_and_what_does_not_fit_is_saturated),
        TEST(zeros_of_32_bits_are_added_exactly),
        TEST(a_bias_is_added_before_a_sum_becomes_a_float),
        TEST(a_bias_of_floats_is_of_the_result_and_relu_ends_at_zero),
        TEST(operands_that_do_not_fit_are_refused_in_words),
        TEST(integers_that_do_not_fit_are_refused_in_words),
        TEST(each_kernel_of_a_convolution_gives_the_same_integers),
        TEST(a_depthwise_convolution_is_computed_by_onednn),
        TEST(operands_of_a_convolution_are_refused_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
