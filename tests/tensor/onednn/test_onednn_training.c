/* oneDNN's primitives for training, forward and backward, compared with loops in double. */
#include "tests/support/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/run_primitive.h"

enum { MAX = 6144 }; /* elements of a tensor here */

enum {
    SRC = ONEDNN_ARGUMENT_SRC,
    WEIGHT = ONEDNN_ARGUMENT_WEIGHT,
    BIAS = ONEDNN_ARGUMENT_BIAS,
    MEAN = ONEDNN_ARGUMENT_MEAN,
    VARIANCE = ONEDNN_ARGUMENT_VARIANCE,
    SCALE = ONEDNN_ARGUMENT_SCALE,
    SHIFT = ONEDNN_ARGUMENT_SHIFT,
    DST = ONEDNN_ARGUMENT_DST,
    DIFF_DST = ONEDNN_ARGUMENT_DIFF_DST,
    WORKSPACE = ONEDNN_ARGUMENT_WORKSPACE,
    DIFF_SRC = ONEDNN_ARGUMENT_DIFF_SRC,
    DIFF_WEIGHT = ONEDNN_ARGUMENT_DIFF_WEIGHT,
    DIFF_BIAS = ONEDNN_ARGUMENT_DIFF_BIAS,
    DIFF_SCALE = ONEDNN_ARGUMENT_DIFF_SCALE,
    DIFF_SHIFT = ONEDNN_ARGUMENT_DIFF_SHIFT
};

static const double tolerance = 2e-5;

typedef enum layout_kind { ANY, PLAIN, BLOCKS, LAST, LAYOUTS } layout_kind_t;

static tensor_info_t info(layout_kind_t layout, int rank, const int64_t *sizes)
{
    tensor_info_t dense = info_dense(DTYPE_F32, rank, sizes);
    format_t format = {.kind = FORMAT_ANY};
    if (layout == PLAIN) format = format_plain(rank);
    if (layout == BLOCKS) format = format_channel_blocks(rank, 8);
    if (layout == LAST) format = format_channels_last(rank);
    return info_mkldnn(&dense, &format);
}
#define INFO(layout, ...)                                                                          \
    info(layout, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})

/* ---- convolution and its transpose ---- */

/* 3x3 kernels with stride 2 and padding 1 make 4x4 outputs from 7x7 images. */
enum { BATCH = 2, LARGE = 7, SMALL = 4, KERNEL = 3 };

typedef struct window_case {
    onednn_kind_t kind;
    int groups, in, out; /* in, out: channels in each group */
    layout_kind_t layout;
} window_case_t;

/* Visits all terms of a convolution. src, weight or dst is NULL; `sum` takes its place, and the
 * product of the other two is added to it. */
static void walk(const window_case_t *c, const double *src, const double *weight, const double *dst,
                 double *sum)
{
    bool is_conv = c->kind == ONEDNN_CONVOLUTION;
    int from = is_conv ? LARGE : SMALL, to = is_conv ? SMALL : LARGE;
    int in = c->groups * c->in, out = c->groups * c->out;
    for (int n = 0; n < BATCH; n++)
        for (int k = 0; k < out; k++)
            for (int ci = 0; ci < c->in; ci++)
                for (int p = 0; p < SMALL * SMALL; p++)
                    for (int r = 0; r < KERNEL * KERNEL; r++) {
                        int h = p / SMALL * 2 + r / KERNEL - 1, w = p % SMALL * 2 + r % KERNEL - 1;
                        if (h < 0 || w < 0 || h >= LARGE || w >= LARGE) continue;
                        int large = h * LARGE + w, channel = k / c->out * c->in + ci;
                        int x = (n * in + channel) * from * from + (is_conv ? large : p);
                        int y = (n * out + k) * to * to + (is_conv ? p : large);
                        int f = (k * c->in + ci) * KERNEL * KERNEL + r;
                        if (dst == NULL) sum[y] += src[x] * weight[f];
                        if (src == NULL) sum[x] += dst[y] * weight[f];
                        if (weight == NULL) sum[f] += dst[y] * src[x];
                    }
}

static void check_window(context_t *ctx, const window_case_t *c)
{
    static double x[MAX], w[MAX], b[MAX], dy[MAX];
    double y[MAX] = {0}, dx[MAX] = {0}, dw[MAX] = {0}, db[64] = {0};
    bool is_conv = c->kind == ONEDNN_CONVOLUTION;
    int from = is_conv ? LARGE : SMALL, to = is_conv ? SMALL : LARGE;
    int in = c->groups * c->in, out = c->groups * c->out, area = to * to;
    layout_kind_t of_weight = c->layout == PLAIN ? PLAIN : ANY;
    tensor_info_t src = INFO(c->layout, BATCH, in, from, from);
    tensor_info_t dst = INFO(c->layout, BATCH, out, to, to), bias = INFO(PLAIN, out);
    tensor_info_t weight = c->groups > 1 ? INFO(of_weight, c->groups, c->out, c->in, KERNEL, KERNEL)
                                         : INFO(of_weight, c->out, c->in, KERNEL, KERNEL);
    run_primitive_draw(1, BATCH * in * from * from, x);
    run_primitive_draw(2, out * c->in * KERNEL * KERNEL, w);
    run_primitive_draw(3, out, b);
    run_primitive_draw(4, BATCH * out * area, dy);
    for (int i = 0; i < BATCH * out * area; i++) {
        y[i] = b[i / area % out];
        db[i / area % out] += dy[i];
    }
    walk(c, x, w, NULL, y);
    walk(c, NULL, w, dy, dx);
    walk(c, x, NULL, dy, dw);

    onednn_problem_t training = {.kind = c->kind,
                                 .propagation = ONEDNN_TRAINING,
                                 .n_src = 1,
                                 .src = &src,
                                 .weight = &weight,
                                 .bias = &bias,
                                 .dst = &dst,
                                 .stride = {2, 2},
                                 .dilation = {1, 1},
                                 .pad_begin = {1, 1},
                                 .pad_end = {1, 1}};
    run_primitive_t forward, data, weights;
    run_primitive_begin(ctx, &training, &forward);
    run_primitive_put(&forward, SRC, x);
    run_primitive_put(&forward, WEIGHT, w);
    run_primitive_put(&forward, BIAS, b);
    run_primitive_go(&forward);
    run_primitive_check(&forward, DST, y, tolerance);

    onednn_problem_t backward = training;
    backward.forward = forward.primitive;
    backward.n_src = 0;
    backward.src = backward.bias = backward.dst = NULL;
    backward.propagation = ONEDNN_BACKWARD_DATA;
    backward.diff_src = &src;
    backward.diff_dst = &dst;
    run_primitive_begin(ctx, &backward, &data);
    run_primitive_put(&data, WEIGHT, w);
    run_primitive_put(&data, DIFF_DST, dy);
    run_primitive_go(&data);
    run_primitive_check(&data, DIFF_SRC, dx, tolerance);

    backward.propagation = ONEDNN_BACKWARD_WEIGHT;
    backward.weight = backward.diff_src = NULL;
    backward.n_src = 1;
    backward.src = &src;
    backward.diff_weight = &weight;
    backward.diff_bias = &bias;
    run_primitive_begin(ctx, &backward, &weights);
    run_primitive_put(&weights, SRC, x);
    run_primitive_put(&weights, DIFF_DST, dy);
    run_primitive_go(&weights);
    run_primitive_check(&weights, DIFF_WEIGHT, dw, tolerance);
    run_primitive_check(&weights, DIFF_BIAS, db, tolerance);
    run_primitive_end(&forward); /* backward has retained what it needs */
    run_primitive_go(&data);
    run_primitive_check(&data, DIFF_SRC, dx, tolerance);
    run_primitive_end(&data);
    run_primitive_end(&weights);
}

static void convolutions_give_the_gradients_of_source_weight_and_bias(void **state)
{
    static const struct {
        int groups, in, out;
    } channels[] = {{1, 1, 3}, {1, 3, 17}, {1, 17, 7}, {1, 16, 32}, {3, 2, 1}, {17, 1, 1}};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        for (int layout = ANY; layout < BLOCKS; layout++) {
            window_case_t c = {ONEDNN_CONVOLUTION, channels[i].groups, channels[i].in,
                               channels[i].out, (layout_kind_t)layout};
            check_window(fixture_context(state), &c);
            if (c.groups > 1) continue;
            c.kind = ONEDNN_DECONVOLUTION;
            check_window(fixture_context(state), &c);
        }
}

/* ---- inner product ---- */

static void check_product(context_t *ctx, int n, int in, int out, layout_kind_t layout)
{
    double x[MAX], w[MAX], b[64], dy[MAX], y[MAX] = {0}, dx[MAX] = {0}, dw[MAX] = {0}, db[64] = {0};
    run_primitive_draw(1, n * in, x);
    run_primitive_draw(2, out * in, w);
    run_primitive_draw(3, out, b);
    run_primitive_draw(4, n * out, dy);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < out; k++) {
            y[i * out + k] = b[k];
            db[k] += dy[i * out + k];
            for (int c = 0; c < in; c++) {
                y[i * out + k] += x[i * in + c] * w[k * in + c];
                dx[i * in + c] += dy[i * out + k] * w[k * in + c];
                dw[k * in + c] += dy[i * out + k] * x[i * in + c];
            }
        }
    tensor_info_t src = INFO(layout, n, in), weight = INFO(layout, out, in);
    tensor_info_t bias = INFO(PLAIN, out), dst = INFO(layout, n, out);
    onednn_problem_t p = {.kind = ONEDNN_INNER_PRODUCT,
                          .propagation = ONEDNN_TRAINING,
                          .n_src = 1,
                          .src = &src,
                          .weight = &weight,
                          .bias = &bias,
                          .dst = &dst};
    run_primitive_t forward, data, weights;
    run_primitive_begin(ctx, &p, &forward);
    run_primitive_put(&forward, SRC, x);
    run_primitive_put(&forward, WEIGHT, w);
    run_primitive_put(&forward, BIAS, b);
    run_primitive_go(&forward);
    run_primitive_check(&forward, DST, y, tolerance);

    p = (onednn_problem_t){.kind = ONEDNN_INNER_PRODUCT,
                           .propagation = ONEDNN_BACKWARD_DATA,
                           .forward = forward.primitive,
                           .weight = &weight,
                           .diff_dst = &dst,
                           .diff_src = &src};
    run_primitive_begin(ctx, &p, &data);
    run_primitive_put(&data, WEIGHT, w);
    run_primitive_put(&data, DIFF_DST, dy);
    run_primitive_go(&data);
    run_primitive_check(&data, DIFF_SRC, dx, tolerance);

    p = (onednn_problem_t){.kind = ONEDNN_INNER_PRODUCT,
                           .propagation = ONEDNN_BACKWARD_WEIGHT,
                           .forward = forward.primitive,
                           .n_src = 1,
                           .src = &src,
                           .diff_dst = &dst,
                           .diff_weight = &weight,
                           .diff_bias = &bias};
    run_primitive_begin(ctx, &p, &weights);
    run_primitive_put(&weights, SRC, x);
    run_primitive_put(&weights, DIFF_DST, dy);
    run_primitive_go(&weights);
    run_primitive_check(&weights, DIFF_WEIGHT, dw, tolerance);
    run_primitive_check(&weights, DIFF_BIAS, db, tolerance);
    run_primitive_end(&weights);
    run_primitive_end(&data);
    run_primitive_end(&forward);
}

static void inner_products_give_the_gradients_of_source_weight_and_bias(void **state)
{
    static const int channels[] = {1, 3, 7, 17, 48};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            check_product(fixture_context(state), 5, channels[i], channels[k], ANY);
            check_product(fixture_context(state), 5, channels[i], channels[k], PLAIN);
        }
}

/* ---- unary operators ---- */

/* The forward primitive from x to y, and the backward primitive from dy to dx. `problem` has all
 * other arguments. */
typedef struct unary_case {
    onednn_problem_t problem;
    tensor_info_t src, dst;
    int reads; /* what backward reads: SRC, DST, or -1 for neither */
    const double *x, *dy, *y, *dx;
} unary_case_t;

static void check_unary(context_t *ctx, const unary_case_t *c)
{
    onednn_problem_t p = c->problem;
    run_primitive_t forward, backward;
    p.propagation = ONEDNN_TRAINING;
    p.n_src = 1;
    p.src = &c->src;
    p.dst = &c->dst;
    run_primitive_begin(ctx, &p, &forward);
    run_primitive_put(&forward, SRC, c->x);
    run_primitive_go(&forward);
    run_primitive_check(&forward, DST, c->y, tolerance);

    p.propagation = ONEDNN_BACKWARD_DATA;
    p.forward = forward.primitive;
    p.n_src = c->reads == SRC;
    p.src = c->reads == SRC ? &c->src : NULL;
    p.dst = c->reads == DST ? &c->dst : NULL;
    p.diff_src = &c->src;
    p.diff_dst = &c->dst;
    run_primitive_begin(ctx, &p, &backward);
    if (c->reads == SRC) run_primitive_put(&backward, SRC, c->x);
    if (c->reads == DST) run_primitive_put(&backward, DST, c->y);
    run_primitive_put(&backward, DIFF_DST, c->dy);
    if (onednn_argument_index(backward.primitive, WORKSPACE) >= 0)
        run_primitive_copy(&backward, WORKSPACE, &forward);
    else
        assert_true(c->problem.algorithm != ONEDNN_POOL_MAX);
    run_primitive_go(&backward);
    run_primitive_check(&backward, DIFF_SRC, c->dx, tolerance);
    run_primitive_end(&backward);
    run_primitive_end(&forward);
}

/* Random numbers repeat here. As in PyTorch, the first of equal elements is the maximum. */
static void pool(onednn_algorithm_t algorithm, int channels, const double *x, const double *dy,
                 double *y, double *dx)
{
    for (int p = 0; p < BATCH * channels * SMALL * SMALL; p++) {
        int image = p / (SMALL * SMALL) * LARGE * LARGE, best = -1, n = 0;
        double sum = 0.0;
        for (int pass = 0; pass < 2; pass++)
            for (int r = 0; r < KERNEL * KERNEL; r++) {
                int h = p / SMALL % SMALL * 2 + r / KERNEL - 1, w = p % SMALL * 2 + r % KERNEL - 1;
                if (h < 0 || w < 0 || h >= LARGE || w >= LARGE) continue;
                int at = image + h * LARGE + w;
                if (pass == 0) {
                    n++;
                    sum += x[at];
                    if (best < 0 || x[at] > x[best]) best = at;
                } else if (algorithm != ONEDNN_POOL_MAX) {
                    dx[at] += dy[p] / (algorithm == ONEDNN_POOL_AVERAGE ? n : KERNEL * KERNEL);
                }
            }
        y[p] = sum / (algorithm == ONEDNN_POOL_AVERAGE ? n : KERNEL * KERNEL);
        if (algorithm == ONEDNN_POOL_MAX) {
            y[p] = x[best];
            dx[best] += dy[p];
        }
    }
}

static void pooling_gives_gradients_and_remembers_where_the_maximum_was(void **state)
{
    static const int channels[] = {1, 3, 7, 17};
    static const onednn_algorithm_t algorithms[] = {ONEDNN_POOL_MAX, ONEDNN_POOL_AVERAGE,
                                                    ONEDNN_POOL_AVERAGE_PADDED};
    for (int i = 0; i < 4 * 3 * LAYOUTS; i++) {
        int n = channels[i % 4];
        double x[MAX], dy[MAX], y[MAX] = {0}, dx[MAX] = {0};
        layout_kind_t layout = (layout_kind_t)(i / 12);
        if (layout == ANY) continue; /* pooling does not choose the format of src */
        unary_case_t c = {.problem = {.kind = ONEDNN_POOLING,
                                      .algorithm = algorithms[i / 4 % 3],
                                      .kernel = {KERNEL, KERNEL},
                                      .stride = {2, 2},
                                      .dilation = {1, 1},
                                      .pad_begin = {1, 1},
                                      .pad_end = {1, 1}},
                          .src = INFO(layout, BATCH, n, LARGE, LARGE),
                          .dst = INFO(layout, BATCH, n, SMALL, SMALL),
                          .reads = -1,
                          .x = x,
                          .dy = dy,
                          .y = y,
                          .dx = dx};
        run_primitive_draw(1, BATCH * n * LARGE * LARGE, x);
        run_primitive_draw(2, BATCH * n * SMALL * SMALL, dy);
        pool(c.problem.algorithm, n, x, dy, y, dx);
        check_unary(fixture_context(state), &c);
    }
}

/* Returns f(x) and its derivative. */
static double eltwise(onednn_algorithm_t algorithm, double x, double *out_slope)
{
    double y = 0.0, pi = acos(-1.0);
    switch (algorithm) {
    case ONEDNN_ELTWISE_RELU:
        y = x > 0 ? x : 0.25 * x;
        *out_slope = x > 0 ? 1 : 0.25;
        break;
    case ONEDNN_ELTWISE_ELU:
        y = x > 0 ? x : 0.25 * expm1(x);
        *out_slope = x > 0 ? 1 : 0.25 * exp(x);
        break;
    case ONEDNN_ELTWISE_TANH:
        y = tanh(x);
        *out_slope = 1 - y * y;
        break;
    case ONEDNN_ELTWISE_SIGMOID:
        y = 1 / (1 + exp(-x));
        *out_slope = y * (1 - y);
        break;
    case ONEDNN_ELTWISE_EXP: y = *out_slope = exp(x); break;
    default: /* gelu */
        y = 0.5 * x * (1 + erf(x / sqrt(2)));
        *out_slope = 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * pi);
    }
    return y;
}

static void eltwise_goes_back_from_the_source_or_from_the_result(void **state)
{
    static const onednn_algorithm_t algorithms[] = {ONEDNN_ELTWISE_RELU, ONEDNN_ELTWISE_ELU,
                                                    ONEDNN_ELTWISE_TANH, ONEDNN_ELTWISE_SIGMOID,
                                                    ONEDNN_ELTWISE_EXP,  ONEDNN_ELTWISE_GELU_ERF};
    for (int i = 0; i < 6 * 2 * 3; i++) {
        onednn_algorithm_t algorithm = algorithms[i % 6];
        layout_kind_t layout = (layout_kind_t)(PLAIN + i / 12);
        bool from_dst = i / 6 % 2 == 1;
        double x[MAX], dy[MAX], y[MAX], dx[MAX], slope = 0;
        int n = 2 * 16 * 9;
        if (from_dst && algorithm == ONEDNN_ELTWISE_GELU_ERF) continue;
        run_primitive_draw(1, n, x);
        run_primitive_draw(2, n, dy);
        for (int e = 0; e < n; e++) {
            y[e] = eltwise(algorithm, x[e] == 0 ? 1 : x[e], &slope);
            if (x[e] == 0) x[e] = 1;
            dx[e] = slope * dy[e];
        }
        bool has_alpha = algorithm == ONEDNN_ELTWISE_RELU || algorithm == ONEDNN_ELTWISE_ELU;
        unary_case_t c = {.problem = {.kind = ONEDNN_ELTWISE,
                                      .algorithm = algorithm,
                                      .alpha = has_alpha ? 0.25f : 0.0f,
                                      .from_dst = from_dst},
                          .src = INFO(layout, 2, 16, 3, 3),
                          .dst = INFO(layout, 2, 16, 3, 3),
                          .reads = from_dst ? DST : SRC,
                          .x = x,
                          .dy = dy,
                          .y = y,
                          .dx = dx};
        check_unary(fixture_context(state), &c);
    }
}

static void softmax_goes_back_from_the_result(void **state)
{
    static const int channels[] = {1, 3, 7, 17};
    for (int i = 0; i < 8; i++) {
        bool is_log = i >= 4;
        int n = channels[i % 4];
        double x[64], dy[64], y[64], dx[64];
        run_primitive_draw(1, 3 * n, x);
        run_primitive_draw(2, 3 * n, dy);
        for (int row = 0; row < 3; row++) {
            double sum = 0, dot = 0;
            for (int k = row * n; k < row * n + n; k++) sum += exp(x[k]);
            for (int k = row * n; k < row * n + n; k++) {
                y[k] = is_log ? x[k] - log(sum) : exp(x[k]) / sum;
                dot += is_log ? dy[k] : dy[k] * y[k];
            }
            for (int k = row * n; k < row * n + n; k++)
                dx[k] = is_log ? dy[k] - exp(y[k]) * dot : y[k] * (dy[k] - dot);
        }
        unary_case_t c = {
            .problem = {.kind = ONEDNN_SOFTMAX,
                        .algorithm = is_log ? ONEDNN_SOFTMAX_LOG : ONEDNN_SOFTMAX_ACCURATE,
                        .axis = 1},
            .src = INFO(PLAIN, 3, n),
            .dst = INFO(PLAIN, 3, n),
            .reads = DST,
            .x = x,
            .dy = dy,
            .y = y,
            .dx = dx};
        check_unary(fixture_context(state), &c);
    }
}

/* Computes y = x d^-beta, where d = k + alpha / 5 * (sum of x^2 over 5 channels). */
static void lrn(int channels, const double *x, const double *dy, double *y, double *dx)
{
    const double alpha = 0.5, beta = 0.75, k = 1.0;
    double d[64];
    for (int n = 0; n < 2; n++)
        for (int at = 0; at < 9; at++) {
            int first = n * channels * 9 + at;
            for (int c = 0; c < channels; c++) {
                d[c] = k;
                for (int o = c - 2; o <= c + 2; o++)
                    if (o >= 0 && o < channels)
                        d[c] += alpha / 5 * x[first + o * 9] * x[first + o * 9];
                y[first + c * 9] = x[first + c * 9] * pow(d[c], -beta);
            }
            for (int c = 0; c < channels; c++) {
                double sum = 0;
                for (int o = c - 2; o <= c + 2; o++)
                    if (o >= 0 && o < channels)
                        sum += dy[first + o * 9] * x[first + o * 9] * pow(d[o], -beta - 1);
                dx[first + c * 9] = dy[first + c * 9] * pow(d[c], -beta) -
                                    2 * alpha * beta / 5 * x[first + c * 9] * sum;
            }
        }
}

static void lrn_goes_back_from_the_source(void **state)
{
    static const int channels[] = {1, 3, 7, 16, 17};
    for (int i = 0; i < 5 * 2; i++) {
        int n = channels[i % 5];
        layout_kind_t layout = i < 5 ? PLAIN : LAST;
        double x[MAX], dy[MAX], y[MAX], dx[MAX];
        run_primitive_draw(1, 2 * n * 9, x);
        run_primitive_draw(2, 2 * n * 9, dy);
        lrn(n, x, dy, y, dx);
        unary_case_t c = {.problem = {.kind = ONEDNN_LRN,
                                      .algorithm = ONEDNN_LRN_ACROSS_CHANNELS,
                                      .size = 5,
                                      .alpha = 0.5f,
                                      .beta = 0.75f,
                                      .k = 1.0f},
                          .src = INFO(layout, 2, n, 3, 3),
                          .dst = INFO(layout, 2, n, 3, 3),
                          .reads = SRC,
                          .x = x,
                          .dy = dy,
                          .y = y,
                          .dx = dx};
        check_unary(fixture_context(state), &c);
    }
}

static void resampling_adds_up_the_gradients_of_copies(void **state)
{
    static const int channels[] = {1, 3, 7, 17};
    for (int i = 0; i < 4; i++) {
        int n = channels[i];
        double x[MAX], dy[MAX], y[MAX], dx[MAX] = {0};
        run_primitive_draw(1, n * 9, x);
        run_primitive_draw(2, n * 36, dy);
        for (int e = 0; e < n * 36; e++) {
            int at = e / 36 * 9 + e % 36 / 12 * 3 + e % 6 / 2;
            y[e] = x[at];
            dx[at] += dy[e];
        }
        unary_case_t c = {
            .problem = {.kind = ONEDNN_RESAMPLING, .algorithm = ONEDNN_RESAMPLING_NEAREST},
            .src = INFO(PLAIN, 1, n, 3, 3),
            .dst = INFO(PLAIN, 1, n, 6, 6),
            .reads = -1,
            .x = x,
            .dy = dy,
            .y = y,
            .dx = dx};
        check_unary(fixture_context(state), &c);
    }
}

/* ---- norms ---- */

typedef struct norm_case {
    onednn_kind_t kind;
    layout_kind_t layout;
    int channels;
    bool has_relu, is_fixed, has_scale;
} norm_case_t;

enum { ROWS = 4, AREA = 9 }; /* a layer norm has 4 rows; a batch norm 2 images */

typedef struct norm_values {
    double x[MAX], dy[MAX], scale[64], shift[64], mean[64], variance[64];
    double y[MAX], dx[MAX], dscale[64], dshift[64];
} norm_values_t;

/* Returns the offset of element i of a set of elements that are normalised together, and its
 * channel. */
static int element(const norm_case_t *c, int set, int i, int *out_channel)
{
    bool is_batch = c->kind == ONEDNN_BATCH_NORM;
    *out_channel = is_batch ? set : i;
    return is_batch ? i / AREA * c->channels * AREA + set * AREA + i % AREA : set * c->channels + i;
}

static void norm(const norm_case_t *c, norm_values_t *v)
{
    bool is_batch = c->kind == ONEDNN_BATCH_NORM;
    int n_sets = is_batch ? c->channels : ROWS, n = is_batch ? BATCH * AREA : c->channels, k;
    for (int s = 0; s < n_sets; s++) {
        double sum = 0, squares = 0, g = 0, gx = 0;
        for (int i = 0; i < n; i++) sum += v->x[element(c, s, i, &k)];
        for (int i = 0; i < n; i++) squares += pow(v->x[element(c, s, i, &k)] - sum / n, 2);
        if (!c->is_fixed) {
            v->mean[s] = sum / n;
            v->variance[s] = squares / n;
        }
        double rate = 1 / sqrt(v->variance[s] + 0.125);
        for (int i = 0; i < n; i++) {
            int at = element(c, s, i, &k);
            double hat = (v->x[at] - v->mean[s]) * rate;
            v->y[at] = hat * v->scale[k] + v->shift[k];
            if (c->has_relu && v->y[at] <= 0) v->y[at] = v->dy[at] = 0;
            v->dshift[k] += v->dy[at];
            v->dscale[k] += v->dy[at] * hat;
            g += v->dy[at] * v->scale[k] / n;
            gx += v->dy[at] * v->scale[k] * hat / n;
        }
        for (int i = 0; i < n; i++) {
            int at = element(c, s, i, &k);
            double hat = (v->x[at] - v->mean[s]) * rate, own = v->dy[at] * v->scale[k];
            v->dx[at] = rate * (c->is_fixed ? own : own - g - hat * gx);
        }
    }
}

static void check_norm(context_t *ctx, const norm_case_t *c)
{
    norm_values_t v = {0};
    bool is_batch = c->kind == ONEDNN_BATCH_NORM;
    tensor_info_t src = is_batch ? INFO(c->layout, BATCH, c->channels, 3, 3)
                                 : INFO(PLAIN, ROWS, c->channels);
    double given[MAX];
    run_primitive_draw(1, info_numel(&src), v.x);
    run_primitive_draw(2, info_numel(&src), given);
    memcpy(v.dy, given, sizeof given);
    run_primitive_draw(3, c->channels, v.scale);
    run_primitive_draw(4, c->channels, v.shift);
    run_primitive_draw(5, 64, v.mean);
    for (int i = 0; i < 64; i++) {
        v.variance[i] = 0.5 + i / 64.0;
        if (!c->has_scale) v.scale[i] = 1.0;
        if (!c->has_scale) v.shift[i] = 0.0;
    }
    norm(c, &v);
    onednn_problem_t p = {.kind = c->kind,
                          .propagation = ONEDNN_TRAINING,
                          .n_src = 1,
                          .src = &src,
                          .dst = &src,
                          .epsilon = 0.125f,
                          .has_scale = c->has_scale,
                          .has_relu = c->has_relu,
                          .fixed_statistics = c->is_fixed};
    run_primitive_t forward, backward;
    run_primitive_begin(ctx, &p, &forward);
    run_primitive_put(&forward, SRC, v.x);
    if (c->has_scale) run_primitive_put(&forward, SCALE, v.scale);
    if (c->has_scale) run_primitive_put(&forward, SHIFT, v.shift);
    if (c->is_fixed) {
        run_primitive_put(&forward, MEAN, v.mean);
        run_primitive_put(&forward, VARIANCE, v.variance);
    }
    run_primitive_go(&forward);
    run_primitive_check(&forward, DST, v.y, tolerance);
    run_primitive_check(&forward, MEAN, v.mean, tolerance);
    run_primitive_check(&forward, VARIANCE, v.variance, tolerance);
    assert_int_equal(onednn_argument_index(forward.primitive, WORKSPACE) >= 0, c->has_relu);

    /* With a scale, oneDNN 2.6 cannot compute the gradient of src alone. */
    p.propagation = c->has_scale ? ONEDNN_BACKWARD : ONEDNN_BACKWARD_DATA;
    p.forward = forward.primitive;
    p.dst = NULL;
    p.diff_src = p.diff_dst = &src;
    run_primitive_begin(ctx, &p, &backward);
    run_primitive_put(&backward, SRC, v.x);
    run_primitive_put(&backward, MEAN, v.mean);
    run_primitive_put(&backward, VARIANCE, v.variance);
    if (c->has_scale) run_primitive_put(&backward, SCALE, v.scale);
    run_primitive_put(&backward, DIFF_DST, given);
    if (c->has_relu) run_primitive_copy(&backward, WORKSPACE, &forward);
    run_primitive_go(&backward);
    run_primitive_check(&backward, DIFF_SRC, v.dx, 5 * tolerance);
    if (c->has_scale) {
        run_primitive_check(&backward, DIFF_SCALE, v.dscale, tolerance);
        run_primitive_check(&backward, DIFF_SHIFT, v.dshift, tolerance);
    } else {
        assert_int_equal(onednn_argument_index(backward.primitive, SCALE), -1);
        assert_int_equal(onednn_argument_index(backward.primitive, DIFF_SCALE), -1);
    }
    run_primitive_end(&backward);
    run_primitive_end(&forward);
}

static void batch_norm_gives_its_statistics_and_goes_back(void **state)
{
    static const int channels[] = {1, 3, 7, 16, 17};
    for (int i = 0; i < 5 * 3 * 3 * 2; i++) {
        norm_case_t c = {.kind = ONEDNN_BATCH_NORM,
                         .layout = (layout_kind_t)(PLAIN + i / 5 % 3),
                         .channels = channels[i % 5],
                         .has_relu = i / 15 % 3 == 1,
                         .is_fixed = i / 15 % 3 == 2,
                         .has_scale = i < 45};
        check_norm(fixture_context(state), &c);
    }
}

static void layer_norm_gives_its_statistics_and_goes_back(void **state)
{
    static const int channels[] = {1, 3, 7, 16, 17};
    for (int i = 0; i < 5 * 2 * 2; i++) {
        norm_case_t c = {.kind = ONEDNN_LAYER_NORM,
                         .channels = channels[i % 5],
                         .is_fixed = i / 5 % 2 == 1,
                         .has_scale = i < 10};
        check_norm(fixture_context(state), &c);
    }
}

/* ---- unsupported problems ---- */

static void primitives_without_gradient_are_unsupported(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x = INFO(PLAIN, 1, 3, 4, 4), y = INFO(PLAIN, 1, 3, 2, 2), m = INFO(PLAIN, 3, 3);
    onednn_primitive_t *primitive = NULL;
    onednn_problem_t pooling = {.kind = ONEDNN_POOLING,
                                .algorithm = ONEDNN_POOL_MAX,
                                .propagation = ONEDNN_BACKWARD_DATA,
                                .diff_src = &x,
                                .diff_dst = &y,
                                .kernel = {2, 2},
                                .stride = {2, 2},
                                .dilation = {1, 1}};
    onednn_problem_t product = {.kind = ONEDNN_MATMUL,
                                .propagation = ONEDNN_BACKWARD_DATA,
                                .weight = &m,
                                .diff_src = &m,
                                .diff_dst = &m};
    onednn_problem_t softmax = {.kind = ONEDNN_SOFTMAX,
                                .propagation = ONEDNN_BACKWARD_WEIGHT,
                                .dst = &m,
                                .diff_src = &m,
                                .diff_dst = &m,
                                .axis = 1};
    assert_int_equal(onednn_describe(ctx, &pooling, &primitive), STATUS_UNSUPPORTED);
    assert_int_equal(onednn_describe(ctx, &product, &primitive), STATUS_UNSUPPORTED);
    assert_int_equal(onednn_describe(ctx, &softmax, &primitive), STATUS_UNSUPPORTED);
    assert_null(primitive);
}

static void inference_takes_what_it_took_in_the_same_order(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_info_t x = INFO(PLAIN, 1, 3, 4, 4), y = INFO(PLAIN, 1, 3, 2, 2), told;
    onednn_primitive_t *primitive = NULL;
    onednn_problem_t p = {.kind = ONEDNN_POOLING,
                          .algorithm = ONEDNN_POOL_MAX,
                          .n_src = 1,
                          .src = &x,
                          .dst = &y,
                          .kernel = {2, 2},
                          .stride = {2, 2},
                          .dilation = {1, 1}};
    CHECK_OK(ctx, onednn_describe(ctx, &p, &primitive));
    assert_int_equal(onednn_n_arguments(primitive), 2);
    assert_int_equal(onednn_argument_index(primitive, SRC), 0);
    assert_int_equal(onednn_argument_index(primitive, DST), 1);
    assert_int_equal(onednn_argument_index(primitive, WORKSPACE), -1);
    assert_int_equal(onednn_argument_bytes(primitive, WORKSPACE), 0);
    assert_int_equal(onednn_query(ctx, primitive, WORKSPACE, &told), STATUS_UNSUPPORTED);
    onednn_release(primitive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(convolutions_give_the_gradients_of_source_weight_and_bias),
        TEST(inner_products_give_the_gradients_of_source_weight_and_bias),
        TEST(pooling_gives_gradients_and_remembers_where_the_maximum_was),
        TEST(eltwise_goes_back_from_the_source_or_from_the_result),
        TEST(softmax_goes_back_from_the_result),
        TEST(lrn_goes_back_from_the_source),
        TEST(resampling_adds_up_the_gradients_of_copies),
        TEST(batch_norm_gives_its_statistics_and_goes_back),
        TEST(layer_norm_gives_its_statistics_and_goes_back),
        TEST(primitives_without_gradient_are_unsupported),
        TEST(inference_takes_what_it_took_in_the_same_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
