/* Quantised products of u8 and s8 with scales and zero points, compared with double. Integer
 * results may differ by 1 if rounding is close. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "tests/support/run_primitive.h"

enum { MAX = 4096 };

enum {
    SRC = ONEDNN_ARGUMENT_SRC,
    WEIGHT = ONEDNN_ARGUMENT_WEIGHT,
    BIAS = ONEDNN_ARGUMENT_BIAS,
    DST = ONEDNN_ARGUMENT_DST
};

static tensor_info_t info(dtype_t dtype, bool is_any, int rank, const int64_t *sizes)
{
    tensor_info_t dense = info_dense(dtype, rank, sizes);
    format_t format = {.kind = FORMAT_ANY}, last = format_channels_last(rank);
    return info_mkldnn(&dense, is_any ? &format : &last);
}
#define INFO(dtype, is_any, ...)                                                                   \
    info(dtype, is_any, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define PLAIN(dtype, ...)                                                                          \
    plain(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

static tensor_info_t plain(dtype_t dtype, int rank, const int64_t *sizes)
{
    tensor_info_t dense = info_dense(dtype, rank, sizes);
    format_t format = format_plain(rank);
    return info_mkldnn(&dense, &format);
}

/* Fills with random integers from -range to range, or for u8 from 0. */
static void draw_integers(uint64_t seed, dtype_t dtype, int range, int64_t n, double *out)
{
    run_primitive_draw(seed, n, out);
    for (int64_t i = 0; i < n; i++) {
        out[i] = floor(out[i] * range);
        if (dtype == DTYPE_U8) out[i] = fabs(out[i]);
    }
}

/* Returns the result as a number of dst, before it is rounded. */
static double quantized(const onednn_quantization_t *q, const float *scale, const int32_t *zero,
                        dtype_t dtype, double number)
{
    if (q->has_scale) number /= (double)*scale;
    if (q->has_zero) number += *zero;
    double low = dtype == DTYPE_U8 ? 0 : -128, high = dtype == DTYPE_U8 ? 255 : 127;
    if (dtype == DTYPE_F32) return number;
    return number < low ? low : number > high ? high : number;
}

static void check(const run_primitive_t *run, dtype_t dtype, int64_t n, const double *expected)
{
    double values[MAX];
    run_primitive_get(run, DST, values);
    for (int64_t i = 0; i < n; i++) {
        double error = fabs(values[i] - expected[i]);
        double allowed = dtype == DTYPE_F32 ? 1e-4 * (1 + fabs(expected[i])) : 0.502;
        if (!(error <= allowed))
            fail_msg("%s: element %lld is %g, not %g", onednn_implementation(run->primitive),
                     (long long)i, values[i], expected[i]);
    }
}

/* Passes scales and zero points to the primitive, if it takes them as arguments. */
static void put_quantities(run_primitive_t *run, const float *const scales[3], int n_weights,
                           const int32_t *const zeros[3])
{
    for (int i = 0; i < 3; i++) {
        double values[64];
        if (onednn_argument_index(run->primitive, ONEDNN_ARGUMENT_SRC_SCALE + i) >= 0) {
            for (int k = 0; k < (i == 1 ? n_weights : 1); k++) values[k] = (double)scales[i][k];
            run_primitive_put(run, ONEDNN_ARGUMENT_SRC_SCALE + i, values);
        }
        if (onednn_argument_index(run->primitive, ONEDNN_ARGUMENT_SRC_ZERO + i) >= 0) {
            values[0] = *zeros[i];
            run_primitive_put(run, ONEDNN_ARGUMENT_SRC_ZERO + i, values);
        }
    }
}

static const float src_scale = 0.03125f, dst_scale = 0.25f;
static const int32_t src_zero = 5, weight_zero = -3, dst_zero = 7;

/* Makes a scale for each output channel. If there is a common scale, it is the first one. */
static void fill_weight_scales(float *out)
{
    for (int k = 0; k < 64; k++) out[k] = 0.01f * (float)(1 + k % 5);
}

typedef struct conv_case {
    int groups, in, out; /* in, out: channels in each group */
    dtype_t src, dst;
    bool has_zeros, at_run, is_any, adds;
    bool scales_at_run;
} conv_case_t;

enum { BATCH = 2, SIDE = 5, AREA = SIDE * SIDE };

static double convolve(const conv_case_t *c, const double *x, const double *w, int n, int k, int p)
{
    int zero = c->has_zeros ? src_zero : 0, channels = c->groups * c->in;
    double sum = 0;
    for (int ci = 0; ci < c->in; ci++)
        for (int r = 0; r < 9; r++) {
            int h = p / SIDE + r / 3 - 1, v = p % SIDE + r % 3 - 1;
            if (h < 0 || v < 0 || h >= SIDE || v >= SIDE) continue;
            int at = (n * channels + k / c->out * c->in + ci) * AREA + h * SIDE + v;
            sum += (x[at] - zero) * w[(k * c->in + ci) * 9 + r];
        }
    return sum;
}

static void check_convolution(context_t *ctx, const conv_case_t *c)
{
    double x[MAX], w[MAX], b[64], old[MAX], y[MAX];
    float weight_scales[64];
    int channels = c->groups * c->in, outs = c->groups * c->out, n = BATCH * outs * AREA;
    fill_weight_scales(weight_scales);
    draw_integers(1, c->src, 100, BATCH * channels * AREA, x);
    draw_integers(2, DTYPE_S8, 30, outs * c->in * 9, w);
    for (int i = 0; i < outs * c->in * 9; i++) w[i] *= 2; /* even: oneDNN may halve them */
    draw_integers(3, c->dst, 50, n, old);
    run_primitive_draw(4, outs, b);
    tensor_info_t src = INFO(c->src, c->is_any, BATCH, channels, SIDE, SIDE);
    tensor_info_t dst = INFO(c->dst, c->is_any, BATCH, outs, SIDE, SIDE);
    tensor_info_t weight = c->groups > 1 ? INFO(DTYPE_S8, true, c->groups, c->out, c->in, 3, 3)
                                         : INFO(DTYPE_S8, true, c->out, c->in, 3, 3);
    tensor_info_t from = c->groups > 1 ? PLAIN(DTYPE_S8, c->groups, c->out, c->in, 3, 3)
                                       : PLAIN(DTYPE_S8, c->out, c->in, 3, 3);
    tensor_info_t bias = PLAIN(DTYPE_F32, outs);
    bool is_float = c->dst == DTYPE_F32;
    onednn_problem_t p = {
        .kind = ONEDNN_CONVOLUTION,
        .n_src = 1,
        .src = &src,
        .weight = &weight,
        .bias = &bias,
        .dst = &dst,
        .stride = {1, 1},
        .dilation = {1, 1},
        .pad_begin = {1, 1},
        .pad_end = {1, 1},
        .src_quantization = {true, c->has_zeros, false, c->scales_at_run ? NULL : &src_scale,
                             c->at_run ? NULL : &src_zero},
        .weight_quantization = {true, false, true, c->scales_at_run ? NULL : weight_scales, NULL},
        .dst_quantization = {!is_float, c->has_zeros && !is_float, false,
                             c->scales_at_run ? NULL : &dst_scale, c->at_run ? NULL : &dst_zero}};
    if (c->adds) {
        p.n_post = 2;
        p.post[0] = (onednn_post_op_t){.kind = ONEDNN_POST_SUM};
        p.post[1] = (onednn_post_op_t){.kind = ONEDNN_POST_ELTWISE,
                                       .algorithm = ONEDNN_ELTWISE_RELU};
    }
    for (int i = 0; i < n; i++) {
        int k = i / AREA % outs;
        double number = convolve(c, x, w, i / AREA / outs, k, i % AREA);
        number = number * (double)src_scale * (double)weight_scales[k] + b[k];
        if (c->adds) number += old[i] * (is_float ? 1.0 : (double)dst_scale);
        if (c->adds && number < 0) number = 0;
        y[i] = quantized(&p.dst_quantization, &dst_scale, &dst_zero, c->dst, number);
    }
    run_primitive_t run;
    run_primitive_begin(ctx, &p, &run);
    run_primitive_put(&run, SRC, x);
    run_primitive_pack(&run, WEIGHT, &from, w);
    run_primitive_put(&run, BIAS, b);
    put_quantities(&run, (const float *[]){&src_scale, weight_scales, &dst_scale}, outs,
                   (const int32_t *[]){&src_zero, &weight_zero, &dst_zero});
    if (c->adds) run_primitive_put(&run, DST, old);
    run_primitive_go(&run);
    check(&run, c->dst, n, y);
    if (!c->adds) { /* the second run uses the same scratch memory */
        run_primitive_go(&run);
        check(&run, c->dst, n, y);
    }
    run_primitive_end(&run);
}

static const struct {
    int groups, in, out;
} channels[] = {{1, 1, 3}, {1, 3, 17}, {1, 17, 7}, {1, 16, 16}, {3, 2, 1}, {17, 1, 1}};

static void convolutions_take_constant_scales_and_zeros(void **state)
{
    static const dtype_t results[] = {DTYPE_U8, DTYPE_S8, DTYPE_F32};
    for (int i = 0; i < 6 * 3 * 2 * 2; i++) {
        conv_case_t c = {channels[i % 6].groups, channels[i % 6].in,
                         channels[i % 6].out,    i / 36 == 0 ? DTYPE_U8 : DTYPE_S8,
                         results[i / 6 % 3],     .has_zeros = i / 18 % 2 == 1,
                         .is_any = true};
        check_convolution(fixture_context(state), &c);
        c.is_any = false;
        check_convolution(fixture_context(state), &c);
    }
}

static bool is_version_2(void)
{
    return strncmp(onednn_version_text(), "2.", 2) == 0;
}

/* oneDNN 2.6 has only constant scales for convolutions. */
static void convolutions_take_scales_and_zeros_at_every_run(void **state)
{
    static const dtype_t results[] = {DTYPE_U8, DTYPE_S8, DTYPE_F32};
    for (int i = 0; i < 6 * 3; i++) {
        conv_case_t c = {
            channels[i % 6].groups, channels[i % 6].in, channels[i % 6].out, DTYPE_U8,
            results[i / 6],         .has_zeros = true,  .at_run = true,      .is_any = true};
        check_convolution(fixture_context(state), &c);
    }
}

static void addends_of_integer_results_are_added_as_numbers(void **state)
{
    static const dtype_t results[] = {DTYPE_U8, DTYPE_S8, DTYPE_F32};
    for (int i = 0; i < 6 * 3; i++) {
        conv_case_t c = {channels[i % 6].groups, channels[i % 6].in, channels[i % 6].out, DTYPE_U8,
                         results[i / 6],         .adds = true,       .is_any = true};
        check_convolution(fixture_context(state), &c);
    }
}

/* ---- products of matrices ---- */

typedef struct product_case {
    onednn_kind_t kind;
    int m, k, n;
    dtype_t src, dst;
    bool has_zeros, at_run, is_per_channel;
} product_case_t;

static void check_product(context_t *ctx, const product_case_t *c)
{
    double x[MAX], w[MAX], b[64], y[MAX];
    float weight_scales[64];
    bool is_matmul = c->kind == ONEDNN_MATMUL, is_float = c->dst == DTYPE_F32;
    fill_weight_scales(weight_scales);
    draw_integers(1, c->src, 100, c->m * c->k, x);
    draw_integers(2, DTYPE_S8, 60, c->k * c->n, w);
    run_primitive_draw(3, c->n, b);
    tensor_info_t src = PLAIN(c->src, c->m, c->k), dst = PLAIN(c->dst, c->m, c->n);
    tensor_info_t weight = is_matmul ? INFO(DTYPE_S8, true, c->k, c->n)
                                     : INFO(DTYPE_S8, true, c->n, c->k);
    tensor_info_t from = is_matmul ? PLAIN(DTYPE_S8, c->k, c->n) : PLAIN(DTYPE_S8, c->n, c->k);
    tensor_info_t bias = is_matmul ? PLAIN(DTYPE_F32, 1, c->n) : PLAIN(DTYPE_F32, c->n);
    onednn_problem_t p = {
        .kind = c->kind,
        .n_src = 1,
        .src = &src,
        .weight = &weight,
        .bias = &bias,
        .dst = &dst,
        .src_quantization = {true, c->has_zeros, false, c->at_run ? NULL : &src_scale,
                             c->at_run ? NULL : &src_zero},
        .weight_quantization = {true, c->has_zeros, c->is_per_channel,
                                c->at_run ? NULL : weight_scales, c->at_run ? NULL : &weight_zero},
        .dst_quantization = {!is_float, c->has_zeros && !is_float, false,
                             c->at_run ? NULL : &dst_scale, c->at_run ? NULL : &dst_zero}};
    for (int i = 0; i < c->m; i++)
        for (int j = 0; j < c->n; j++) {
            double sum = 0;
            for (int e = 0; e < c->k; e++)
                sum += (x[i * c->k + e] - (c->has_zeros ? src_zero : 0)) *
                       (w[is_matmul ? e * c->n + j : j * c->k + e] -
                        (c->has_zeros ? weight_zero : 0));
            sum *= (double)src_scale * (double)weight_scales[c->is_per_channel ? j : 0];
            y[i * c->n + j] = quantized(&p.dst_quantization, &dst_scale, &dst_zero, c->dst,
                                        sum + b[j]);
        }
    run_primitive_t run;
    run_primitive_begin(ctx, &p, &run);
    run_primitive_put(&run, SRC, x);
    run_primitive_pack(&run, WEIGHT, &from, w);
    run_primitive_put(&run, BIAS, b);
    put_quantities(&run, (const float *[]){&src_scale, weight_scales, &dst_scale},
                   c->is_per_channel ? c->n : 1,
                   (const int32_t *[]){&src_zero, &weight_zero, &dst_zero});
    run_primitive_go(&run);
    check(&run, c->dst, c->m * c->n, y);
    run_primitive_end(&run);
}

static void products_take_scales_and_zeros(void **state)
{
    static const int sizes[][3] = {{1, 1, 1}, {5, 3, 7}, {3, 17, 1}, {16, 64, 48}, {2, 31, 17}};
    static const dtype_t results[] = {DTYPE_U8, DTYPE_S8, DTYPE_F32};
    for (int i = 0; i < 5 * 3 * 2 * 2 * 2; i++) {
        product_case_t c = {.kind = ONEDNN_MATMUL,
                            .m = sizes[i % 5][0],
                            .k = sizes[i % 5][1],
                            .n = sizes[i % 5][2],
                            .src = i / 15 % 2 == 0 ? DTYPE_S8 : DTYPE_U8,
                            .dst = results[i / 5 % 3],
                            .has_zeros = true,
                            .is_per_channel = i / 30 % 2 == 1,
                            .at_run = i / 60 == 1};
        check_product(fixture_context(state), &c);
        c.kind = ONEDNN_INNER_PRODUCT;
        c.has_zeros = false; /* oneDNN does not support zero points here */
        check_product(fixture_context(state), &c);
    }
}

/* ---- other primitives ---- */

static void a_reorder_quantizes_and_back(void **state)
{
    context_t *ctx = fixture_context(state);
    double x[51], y[51];
    tensor_info_t f32 = PLAIN(DTYPE_F32, 3, 17), u8 = PLAIN(DTYPE_U8, 3, 17);
    onednn_problem_t p = {.kind = ONEDNN_REORDER,
                          .n_src = 1,
                          .src = &f32,
                          .dst = &u8,
                          .dst_quantization = {true, true, false, &src_scale, &dst_zero}};
    run_primitive_t run, back;
    run_primitive_draw(1, 51, x);
    for (int i = 0; i < 51; i++)
        y[i] = quantized(&p.dst_quantization, &src_scale, &dst_zero, DTYPE_U8, x[i]);
    run_primitive_begin(ctx, &p, &run);
    run_primitive_put(&run, SRC, x);
    run_primitive_go(&run);
    check(&run, DTYPE_U8, 51, y);
    run_primitive_get(&run, DST, x);
    for (int i = 0; i < 51; i++) y[i] = (x[i] - dst_zero) * (double)src_scale;
    p = (onednn_problem_t){.kind = ONEDNN_REORDER,
                           .n_src = 1,
                           .src = &u8,
                           .dst = &f32,
                           .src_quantization = {true, true, false, &src_scale, &dst_zero}};
    run_primitive_begin(ctx, &p, &back);
    run_primitive_put(&back, SRC, x);
    run_primitive_go(&back);
    check(&back, DTYPE_F32, 51, y);
    run_primitive_end(&back);
    run_primitive_end(&run);
}

/* bf16 has 8 bits, so multiples of 1/64 below 1 are bf16 numbers. */
static void a_product_of_bf16_gives_f32(void **state)
{
    context_t *ctx = fixture_context(state);
    double x[5 * 17], w[17 * 7], y[5 * 7] = {0};
    tensor_info_t src = PLAIN(DTYPE_BF16, 5, 17), weight = PLAIN(DTYPE_BF16, 17, 7);
    tensor_info_t dst = PLAIN(DTYPE_F32, 5, 7);
    onednn_problem_t p = {
        .kind = ONEDNN_MATMUL, .n_src = 1, .src = &src, .weight = &weight, .dst = &dst};
    if (!onednn_isa_has(onednn_isa(), ONEDNN_ISA_AVX512)) {
        onednn_primitive_t *none = NULL;
        assert_true(onednn_describe(ctx, &p, &none) != STATUS_OK || none != NULL);
        onednn_release(none);
        return;
    }
    run_primitive_t run;
    run_primitive_draw(1, 5 * 17, x);
    run_primitive_draw(2, 17 * 7, w);
    for (int i = 0; i < 5 * 7; i++)
        for (int k = 0; k < 17; k++) y[i] += x[i / 7 * 17 + k] * w[k * 7 + i % 7];
    run_primitive_begin(ctx, &p, &run);
    run_primitive_put(&run, SRC, x);
    run_primitive_put(&run, WEIGHT, w);
    run_primitive_go(&run);
    run_primitive_check(&run, DST, y, 1e-5);
    run_primitive_end(&run);
}

static void scales_that_are_not_known_are_unsupported(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x = PLAIN(DTYPE_U8, 1, 3, 4, 4), w = PLAIN(DTYPE_S8, 3, 3, 1, 1);
    onednn_primitive_t *primitive = NULL;
    onednn_problem_t pooling = {.kind = ONEDNN_POOLING,
                                .algorithm = ONEDNN_POOL_MAX,
                                .n_src = 1,
                                .src = &x,
                                .dst = &x,
                                .kernel = {1, 1},
                                .stride = {1, 1},
                                .dilation = {1, 1},
                                .src_quantization = {.has_scale = true, .scale = &src_scale}};
    onednn_problem_t conv = {.kind = ONEDNN_CONVOLUTION,
                             .n_src = 1,
                             .src = &x,
                             .weight = &w,
                             .dst = &x,
                             .stride = {1, 1},
                             .dilation = {1, 1},
                             .dst_quantization = {.has_scale = true},
                             .n_post = 1,
                             .post = {{.kind = ONEDNN_POST_SUM}}};
    assert_int_equal(onednn_describe(ctx, &pooling, &primitive), STATUS_UNSUPPORTED);
    assert_int_equal(onednn_describe(ctx, &conv, &primitive), STATUS_UNSUPPORTED);
    conv.n_post = 0;
    conv.dst_quantization = (onednn_quantization_t){0};
    conv.src_quantization = (onednn_quantization_t){.has_scale = true, .is_per_channel = true};
    assert_int_equal(onednn_describe(ctx, &conv, &primitive), STATUS_UNSUPPORTED);
    assert_null(primitive);
    conv.src_quantization = (onednn_quantization_t){.has_scale = true};
    status_t status = onednn_describe(ctx, &conv, &primitive);
    assert_int_equal(status, is_version_2() ? STATUS_UNSUPPORTED : STATUS_OK);
    onednn_release(primitive);
}

static status_t describe_and_run(context_t *ctx)
{
    static int8_t bytes[4][1024];
    float weight_scales[64];
    tensor_info_t x = PLAIN(DTYPE_U8, 1, 3, 4, 4), w = PLAIN(DTYPE_S8, 3, 3, 1, 1);
    tensor_info_t b = PLAIN(DTYPE_F32, 3);
    onednn_primitive_t *primitive = NULL;
    fill_weight_scales(weight_scales);
    onednn_problem_t p = {.kind = ONEDNN_CONVOLUTION,
                          .n_src = 1,
                          .src = &x,
                          .weight = &w,
                          .bias = &b,
                          .dst = &x,
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .weight_quantization = {true, false, true, weight_scales, NULL}};
    void *arguments[] = {bytes[0], bytes[1], bytes[2], bytes[3]}, *scratch = NULL;
    TRY(onednn_describe(ctx, &p, &primitive));
    status_t status = context_scratch(ctx, onednn_scratch_bytes(primitive), &scratch);
    if (status == STATUS_OK) status = onednn_run(ctx, primitive, arguments, scratch);
    onednn_release(primitive);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(describe_and_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(convolutions_take_constant_scales_and_zeros),
        TEST(convolutions_take_scales_and_zeros_at_every_run),
        TEST(addends_of_integer_results_are_added_as_numbers),
        TEST(products_take_scales_and_zeros),
        TEST(a_reorder_quantizes_and_back),
        TEST(a_product_of_bf16_gives_f32),
        TEST(scales_that_are_not_known_are_unsupported),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
