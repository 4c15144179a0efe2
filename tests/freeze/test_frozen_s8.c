/* Networks frozen with dtype s8. Products with known ranges are exact sums of integers, and results
 * are close to f32. Also tests each calibration, layers kept in f32, files, other sizes and invalid
 * examples. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/program/plan.h"
#include "tests/support/nets/subject.h"

#define MAX_EXAMPLES 8

typedef struct report {
    int n, n_kept;
    double largest, least;
    char worst[64];
} report_t;

static void note_layer(void *user, const freeze_layer_t *layer)
{
    report_t *report = user;
    if (report->n == 0 || layer->error < report->least) report->least = layer->error;
    if (layer->error > report->largest) {
        report->largest = layer->error;
        snprintf(report->worst, sizeof report->worst, "%s", layer->path);
    }
    report->n++;
    report->n_kept += layer->is_kept;
}

/* Freezes with n examples of one tensor each. */
static status_t freeze_s8(context_t *ctx, module_t *net, int n, tensor_t *const *x,
                          freeze_options_t options, module_t **out_frozen)
{
    const tensor_t *inputs[MAX_EXAMPLES][2] = {{NULL}};
    const tensor_t *const *examples[MAX_EXAMPLES];
    for (int i = 0; i < n; i++) {
        inputs[i][0] = x[i];
        examples[i] = inputs[i];
    }
    options.dtype = DTYPE_S8;
    options.n_examples = n;
    options.examples = examples;
    return freeze(ctx, net, &options, out_frozen);
}

static int count_steps(const module_t *frozen, const char *name)
{
    const plan_t *plan = plan_of(frozen, "forward");
    int n = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) n += strcmp(plan_step(plan, i)->name, name) == 0;
    return n;
}

static tensor_t *forward(context_t *ctx, module_t *net, const tensor_t *x)
{
    tensor_t *out = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &out));
    return out;
}

static tensor_t *images(context_t *ctx, int64_t n, int64_t channels, int64_t side)
{
    tensor_t *x = NULL;
    const int64_t sizes[] = {n, channels, side, side};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, 4, sizes, &x));
    return x;
}

static double difference_of(context_t *ctx, module_t *wide, module_t *narrow, const tensor_t *x)
{
    double difference = INFINITY;
    tensor_t *a = forward(ctx, wide, x), *b = forward(ctx, narrow, x);
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, b, a, &difference));
    tensor_release(a);
    tensor_release(b);
    return difference;
}

/* ---- one layer, compared with integers computed here ---- */

enum { C = 7, K = 5, SIDE = 6, IMAGE = C * SIDE * SIDE };

typedef struct numbers {
    double scale;
    int zero, least, most;
} numbers_t;

/* Sums the quantized products of a 3x3 window with padding 1 in 64 bits. */
static int64_t sum_products(const float *x, const numbers_t *of_x, const float *w, double w_scale,
                            int p, int q)
{
    int64_t sum = 0;
    for (int c = 0; c < C; c++)
        for (int r = 0; r < 9; r++) {
            const int h = p + r / 3 - 1, v = q + r % 3 - 1;
            if (h < 0 || v < 0 || h >= SIDE || v >= SIDE) continue;
            double a = nearbyint((double)x[(c * SIDE + h) * SIDE + v] / of_x->scale) + of_x->zero;
            a = fmin(of_x->most, fmax(of_x->least, a)) - of_x->zero;
            sum += (int64_t)a * (int64_t)nearbyint((double)w[c * 9 + r] / w_scale);
        }
    return sum;
}

/* Returns scale and zero point for x. If the range is symmetric, the zero point is 0. */
static numbers_t numbers_of(const float *x)
{
    double low = 0.0, high = 0.0;
    for (int i = 0; i < IMAGE; i++) {
        low = fmin(low, (double)x[i]);
        high = fmax(high, (double)x[i]);
    }
    if (high == -low) return (numbers_t){(double)(float)(high / 127.0), 0, -128, 127};
    const double scale = (double)(float)((high - low) / 255.0);
    return (numbers_t){scale, (int)nearbyint(-low / scale), 0, 255};
}

static void check_layer(context_t *ctx, double low, double high)
{
    float elements[IMAGE], w[K * C * 9], b[K], got[K * SIDE * SIDE];
    module_t *net = subject_net(ctx, "w=5,7,3,3 b=5", "%x : f32[1,7,6,6]",
                                "  %y = conv2d(%x, %w, %b) padding=[1,1] at \"layer\"\n"
                                "  return %y\n");
    module_t *frozen = NULL;
    tensor_t *x = NULL;
    void *to = NULL;
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, 4, (const int64_t[]){1, C, SIDE, SIDE}, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &to));
    for (int i = 0; i < IMAGE; i++) {
        const double part = i == 50 ? 0.0 : i == 51 ? 1.0 : (double)((float *)to)[i];
        ((float *)to)[i] = (float)(low + (high - low) * part);
    }
    const freeze_options_t exactly = {.calibration = CALIBRATION_MINMAX};
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, exactly, &frozen));
    CHECK_OK(ctx, tensor_read(ctx, x, elements, sizeof elements));
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "w"), w, sizeof w));
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "b"), b, sizeof b));
    tensor_t *y = forward(ctx, frozen, x);
    CHECK_OK(ctx, tensor_read(ctx, y, got, sizeof got));
    assert_int_equal(count_steps(frozen, "conv2d_quantized"), 1);
    const numbers_t of_x = numbers_of(elements);
    for (int k = 0; k < K; k++) {
        float most = 0.0f;
        for (int i = 0; i < C * 9; i++) most = fmaxf(most, fabsf(w[k * C * 9 + i]));
        const double w_scale = (double)(most / 127.0f);
        for (int i = 0; i < SIDE * SIDE; i++) {
            const int64_t sum = sum_products(elements, &of_x, w + k * C * 9, w_scale, i / SIDE,
                                             i % SIDE);
            /* Recovers the integer sum from the result. Adding 1 to the sum adds `step` to the
             * result. */
            const double step = of_x.scale * w_scale;
            const double integer = ((double)got[k * SIDE * SIDE + i] - (double)b[k]) / step;
            if (!(fabs(integer - (double)sum) < 0.1))
                fail_msg("output %d at %d: the sum is %.3f, must be %lld", k, i, integer,
                         (long long)sum);
        }
    }
    tensor_release(y);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

static void a_layer_is_what_its_integers_give(void **state)
{
    context_t *ctx = fixture_context(state);
    check_layer(ctx, -2.5, 2.5);
    check_layer(ctx, 0.0, 6.25);
    check_layer(ctx, -0.375, 4.0);
    check_layer(ctx, -4.0, 0.5);
    check_layer(ctx, -2.0, -1.0);
}

static void check_product(context_t *ctx, const char *parameters, const char *input,
                          const char *line, const char *operator, double tolerance)
{
    char body[256];
    snprintf(body, sizeof body, "  %%y = %s\n  return %%y\n", line);
    module_t *net = subject_net(ctx, parameters, input, body), *frozen = NULL;
    const tensor_info_t *info = &graph_value_type(graph_of(net, "forward"),
                                                  graph_body(graph_of(net, "forward"))->params[1])
                                     ->info;
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, info->rank, info->sizes, &x));
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, (freeze_options_t){.percentile = 100}, &frozen));
    const double difference = difference_of(ctx, net, frozen, x);
    if (!(difference > 0.0 && difference < tolerance))
        fail_msg("%s differs by %g", line, difference);
    assert_int_equal(count_steps(frozen, operator), 1);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

static void every_product_has_one_on_integers(void **state)
{
    context_t *ctx = fixture_context(state);
    check_product(ctx, "w=17,7,5 b=17", "%x : f32[2,7,12]", "conv1d(%x, %w, %b)",
                  "conv1d_quantized", 0.02);
    check_product(ctx, "w=32,1,3,3 b=32", "%x : f32[2,32,8,8]",
                  "conv2d(%x, %w, %b) padding=[1,1] groups=32", "conv2d_quantized", 0.02);
    check_product(ctx, "w=24,3,3,3", "%x : f32[1,12,6,6]",
                  "conv2d(%x, %w, none) stride=[2,2] groups=4", "conv2d_quantized", 0.02);
    check_product(ctx, "w=7,5,2,3,3 b=7", "%x : f32[1,5,4,5,6]", "conv3d(%x, %w, %b)",
                  "conv3d_quantized", 0.02);
    check_product(ctx, "w=7,31 b=7", "%x : f32[2,5,31]", "linear(%x, %w, %b)", "matmul_integer",
                  0.02);
    check_product(ctx, "w=31,7", "%x : f32[5,31]", "matmul(%x, %w)", "matmul_integer", 0.02);
}

/* ---- networks ---- */

#define PARAMETERS                                                                                 \
    "w=16,3,3,3 u=16,16,3,3 p=32,16,1,1 q=32,16,3,3 r=32,32,3,3 l=10,32 c=10 v=16 m=16 s=16 t=16"
#define NETWORK                                                                                    \
    "  %1 = conv2d(%x, %w, none) padding=[1,1] at \"stem.conv\"\n"                                 \
    "  %2 = batch_norm(%1, %s, %t, %m, %v) at \"stem.norm\"\n"                                     \
    "  %3 = relu(%2) at \"stem.relu\"\n"                                                           \
    "  %4 = max_pool2d(%3) kernel=[2,2] stride=[2,2] at \"stem.pool\"\n"                           \
    "  %5 = conv2d(%4, %u, none) padding=[1,1] at \"one.conv\"\n"                                  \
    "  %6 = add(%5, %4) at \"one.add\"\n"                                                          \
    "  %7 = relu(%6) at \"one.relu\"\n"                                                            \
    "  %8 = conv2d(%7, %q, none) padding=[1,1] at \"two.conv1\"\n"                                 \
    "  %9 = relu(%8) at \"two.relu\"\n"                                                            \
    "  %10 = conv2d(%9, %r, none) padding=[1,1] at \"two.conv2\"\n"                                \
    "  %11 = conv2d(%7, %p, none) at \"two.down\"\n"                                               \
    "  %12 = add(%10, %11) at \"two.add\"\n"                                                       \
    "  %13 = relu(%12) at \"two.relu2\"\n"                                                         \
    "  %14 = mean(%13) dims=[2,3] at \"mean\"\n"                                                   \
    "  %15 = linear(%14, %l, %c) at \"head\"\n"                                                    \
    "  return %15\n"

enum { N_PRODUCTS = 6, CLASSES = 10 };

static module_t *network(context_t *ctx)
{
    return subject_net(ctx, PARAMETERS, "%x : f32[N=2,3,12,12]", NETWORK);
}

static int arg_max(const float *x)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static int count_agreeing(context_t *ctx, module_t *wide, module_t *narrow, int n_rows)
{
    tensor_t *x = images(ctx, n_rows, 3, 12), *a = forward(ctx, wide, x);
    tensor_t *b = forward(ctx, narrow, x);
    const size_t bytes = (size_t)n_rows * CLASSES * sizeof(float);
    float *first = malloc(bytes), *second = malloc(bytes);
    int n = 0;
    CHECK_OK(ctx, tensor_read(ctx, a, first, bytes));
    CHECK_OK(ctx, tensor_read(ctx, b, second, bytes));
    for (int i = 0; i < n_rows; i++)
        n += arg_max(first + i * CLASSES) == arg_max(second + i * CLASSES);
    free(first);
    free(second);
    tensor_release(a);
    tensor_release(b);
    tensor_release(x);
    return n;
}

static void each_calibration_agrees_with_f32(void **state)
{
    static const calibration_t kinds[] = {CALIBRATION_PERCENTILE, CALIBRATION_ENTROPY,
                                          CALIBRATION_MINMAX};
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    tensor_t *x[MAX_EXAMPLES];
    for (int i = 0; i < MAX_EXAMPLES; i++) x[i] = images(ctx, 4, 3, 12);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        report_t report = {.n = 0};
        const freeze_options_t options = {
            .calibration = kinds[i], .report = note_layer, .report_user = &report};
        CHECK_OK(ctx, freeze_s8(ctx, net, MAX_EXAMPLES, x, options, &frozen));
        assert_int_equal(report.n, N_PRODUCTS);
        assert_int_equal(report.n_kept, 0);
        const int n = count_agreeing(ctx, net, frozen, 500);
        const double difference = difference_of(ctx, net, frozen, x[0]);
        print_message("calibration %d: %d of 500 agree, outputs differ by %.4f, a layer by %.4f\n",
                      (int)kinds[i], n, difference, report.largest);
        assert_true(report.least > 0.0 && report.largest < 0.5);
        assert_true(n >= 490);
        assert_true(difference < 0.05);
        assert_int_equal(count_steps(frozen, "conv2d_quantized"), N_PRODUCTS - 1);
        assert_int_equal(count_steps(frozen, "matmul_integer"), 1);
        assert_int_equal(count_steps(frozen, "conv2d"), 0);
        /* The products include sums, relus and scales. */
        assert_int_equal(count_steps(frozen, "add"), 1); /* the bias of the linear layer */
        assert_int_equal(count_steps(frozen, "relu") + count_steps(frozen, "requantize"), 0);
        module_release(frozen);
    }
    for (int i = 0; i < MAX_EXAMPLES; i++) tensor_release(x[i]);
    module_release(net);
}

static void a_file_gives_the_same_at_other_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[] = "/tmp/tessera-s8-XXXXXX";
    const int file = mkstemp(path);
    module_t *net = network(ctx), *frozen = NULL, *loaded = NULL;
    tensor_t *x = images(ctx, 4, 3, 12), *one = images(ctx, 1, 3, 12);
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, (freeze_options_t){.plans = 0}, &frozen));
    assert_true(difference_of(ctx, net, frozen, x) < 0.05);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    assert_true(difference_of(ctx, frozen, loaded, x) == 0.0);
    assert_true(difference_of(ctx, frozen, loaded, one) == 0.0);
    assert_int_equal(count_steps(loaded, "conv2d_quantized"), N_PRODUCTS - 1);
    close(file);
    unlink(path);
    tensor_release(x);
    tensor_release(one);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

static void excluded_layers_and_layers_above_the_bound_stay_f32(void **state)
{
    static const char *const kept[] = {"two.*", NULL}, *const all[] = {"*", NULL};
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    tensor_t *x = images(ctx, 4, 3, 12);
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, (freeze_options_t){.keep_f32 = kept}, &frozen));
    assert_int_equal(count_steps(frozen, "conv2d_quantized"), 2);
    assert_int_equal(count_steps(frozen, "conv2d"), 3);
    assert_true(difference_of(ctx, net, frozen, x) < 0.05);
    module_release(frozen);
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, (freeze_options_t){.keep_f32 = all}, &frozen));
    assert_true(difference_of(ctx, net, frozen, x) < 1e-5);
    module_release(frozen);
    report_t free = {.n = 0}, one = {.n = 0};
    freeze_options_t options = {.report = note_layer, .report_user = &free};
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, options, &frozen));
    module_release(frozen);
    options.report_user = &one;
    options.max_error = free.largest * 0.999;
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, options, &frozen));
    assert_int_equal(one.n_kept, 1);
    assert_string_equal(one.worst, free.worst);
    assert_int_equal(count_steps(frozen, "conv2d_quantized") +
                         count_steps(frozen, "matmul_integer"),
                     N_PRODUCTS - 1);
    module_release(frozen);
    tensor_release(x);
    module_release(net);
}

/* ---- examples ---- */

/* One element is 100, all others are below 1. Minmax keeps the range; other calibrations cut it
 * off. */
static void outliers_are_cut_off(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=5,3,1,1", "%x : f32[N=1,3,64,64]",
                                "  %y = conv2d(%x, %w, none) at \"layer\"\n  return %y\n");
    tensor_t *x = NULL, *y = NULL;
    double differences[3];
    void *elements = NULL;
    const int64_t sizes[] = {1, 3, 64, 64};
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, 4, sizes, &x));
    CHECK_OK(ctx, tensor_clone(ctx, x, &y));
    CHECK_OK(ctx, tensor_data_mutable(ctx, y, &elements));
    ((float *)elements)[1000] = 100.0f;
    for (int kind = 0; kind < 3; kind++) {
        module_t *frozen = NULL;
        const freeze_options_t options = {.calibration = (calibration_t)kind};
        CHECK_OK(ctx, freeze_s8(ctx, net, 1, &y, options, &frozen));
        differences[kind] = difference_of(ctx, net, frozen, x);
        const bool is_cut = difference_of(ctx, net, frozen, y) > 0.5; /* 100 became about 1 */
        assert_int_equal(is_cut, kind != CALIBRATION_MINMAX);
        module_release(frozen);
    }
    if (!(differences[CALIBRATION_PERCENTILE] < 0.01 && differences[CALIBRATION_ENTROPY] < 0.03 &&
          differences[CALIBRATION_MINMAX] > 0.1))
        fail_msg("%g, %g and %g", differences[0], differences[1], differences[2]);
    tensor_release(x);
    tensor_release(y);
    module_release(net);
}

/* No number is near 0, so calibration must not cut the range to resolve small numbers better. */
static void numbers_far_from_zero_keep_their_range(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=8,64", "%x : f32[N=16,64]",
                                "  %y = linear(%x, %w, none) at \"layer\"\n  return %y\n");
    tensor_t *x = NULL;
    void *elements = NULL;
    const int64_t sizes[] = {16, 64};
    CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, 2, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &elements));
    for (int i = 0; i < 16 * 64; i++) ((float *)elements)[i] = 0.5f + 0.5f * ((float *)elements)[i];
    for (int kind = 0; kind < 3; kind++) {
        module_t *frozen = NULL;
        const freeze_options_t options = {.calibration = (calibration_t)kind};
        CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, options, &frozen));
        assert_true(difference_of(ctx, net, frozen, x) < 0.02);
        module_release(frozen);
    }
    tensor_release(x);
    module_release(net);
}

/* Value names change between the rounds of passes: %a and %b become one value late, and then part
 * of a silu. Ranges must follow their values. */
static void ranges_stay_with_their_values(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=8,8,3,3 v=8,8,3,3 u=8,8,3,3", "%x : f32[N=1,8,12,12]",
                                "  %a = relu(%x)\n  %b = relu(%x)\n  %s = sigmoid(%b)\n"
                                "  %p = mul(%a, %s)\n"
                                "  %c = conv2d(%p, %w, none) padding=[1,1]\n"
                                "  %1 = tanh(%c)\n"
                                "  %2 = conv2d(%1, %v, none) padding=[1,1]\n"
                                "  %3 = conv2d(%2, %u, none) padding=[1,1]\n"
                                "  %4 = conv2d(%3, %w, none) padding=[1,1]\n"
                                "  return %4\n");
    module_t *frozen = NULL;
    tensor_t *x = images(ctx, 1, 8, 12);
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, (freeze_options_t){.plans = 0}, &frozen));
    assert_int_equal(count_steps(frozen, "conv2d_quantized"), 4);
    assert_true(difference_of(ctx, net, frozen, x) < 0.06);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

/* The second example is larger. Its range must not discard what was counted for the first one. */
static void ranges_grow_with_the_examples(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = subject_net(ctx, "w=5,3,1,1", "%x : f32[N=1,3,8,8]",
                                "  %y = conv2d(%x, %w, none) at \"layer\"\n  return %y\n");
    module_t *frozen = NULL;
    tensor_t *x[3] = {images(ctx, 1, 3, 8), NULL, NULL};
    tensor_t *scale = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, 0, NULL, 37.0, &scale));
    CHECK_OK(ctx, op_mul(ctx, x[0], scale, &x[1]));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 4, (const int64_t[]){2, 3, 8, 8}, &x[2]));
    for (int i = 0; i < 2; i++) {
        const freeze_options_t options = {.calibration = i == 0 ? CALIBRATION_PERCENTILE
                                                                : CALIBRATION_MINMAX};
        CHECK_OK(ctx, freeze_s8(ctx, net, 3, x, options, &frozen));
        assert_true(difference_of(ctx, net, frozen, x[1]) < 0.02);
        module_release(frozen);
    }
    tensor_release(scale);
    for (int i = 0; i < 3; i++) tensor_release(x[i]);
    module_release(net);
}

static void an_input_that_is_always_zero_has_a_scale(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 4, (const int64_t[]){1, 3, 12, 12}, &x));
    for (int kind = 0; kind < 3; kind++) {
        const freeze_options_t options = {.calibration = (calibration_t)kind};
        CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, options, &frozen));
        y = forward(ctx, frozen, x);
        double largest_number = NAN;
        tensor_t *zeros = NULL;
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 2, tensor_info(y)->sizes, &zeros));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, zeros, y, &largest_number));
        assert_true(isfinite(largest_number));
        tensor_release(zeros);
        tensor_release(y);
        module_release(frozen);
    }
    tensor_release(x);
    module_release(net);
}

static void wrong_examples_and_options_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    tensor_t *x = images(ctx, 2, 4, 12), *y[2] = {images(ctx, 2, 3, 12), images(ctx, 2, 3, 12)};
    void *elements = NULL;
    const freeze_options_t none = {.calibration = CALIBRATION_PERCENTILE};
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 0, &x, none, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: dtype s8 without examples, which are needed to find the ranges of values");
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 1, &x, none, &frozen), STATUS_INVALID_ARGUMENT,
                "f32[2,4,12,12]");
    CHECK_OK(ctx, tensor_data_mutable(ctx, y[1], &elements));
    ((float *)elements)[77] = NAN;
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 2, y, none, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: %x of examples[1] contains NaN or infinity, ranges need finite numbers");
    ((float *)elements)[77] = -INFINITY;
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 2, y, none, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: %x of examples[1] contains NaN or infinity, ranges need finite numbers");
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 1, y, (freeze_options_t){.percentile = 101}, &frozen),
                STATUS_INVALID_ARGUMENT, "freeze: percentile 101, must be 0 to 100");
    CHECK_FAILS(
        ctx,
        freeze_s8(ctx, net, 1, y, (freeze_options_t){.calibration = (calibration_t)7}, &frozen),
        STATUS_INVALID_ARGUMENT, "freeze: calibration 7 is unknown");
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 1, y, (freeze_options_t){.no_optimize = true}, &frozen),
                STATUS_INVALID_ARGUMENT,
                "freeze: dtype s8 with no_optimize, only optimising forward makes it s8");
    CHECK_FAILS(ctx, freeze_s8(ctx, net, 1, y, (freeze_options_t){.keep_numerics = true}, &frozen),
                STATUS_INVALID_ARGUMENT,
                "freeze: dtype s8 changes the last bits, which keep_numerics forbids");
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    CHECK_FAILS(ctx, freeze_optimize(ctx, frozen, &(freeze_options_t){.dtype = DTYPE_S8}),
                STATUS_INVALID_ARGUMENT, "freeze: dtype s8 without examples");
    const tensor_t *const example[] = {y[0], NULL};
    const tensor_t *const *const examples[] = {example};
    CHECK_FAILS(ctx,
                freeze_optimize(
                    ctx, frozen,
                    &(freeze_options_t){.dtype = DTYPE_S8, .n_examples = 1, .examples = examples}),
                STATUS_INVALID_ARGUMENT,
                "freeze_optimize: dtype s8, only freeze can convert to s8");
    module_release(frozen);
    module_t *other = subject_net(ctx, "w=4,3", "%x : f32[2,3]", "  return %x\n");
    module_release(other);
    CHECK_OK(ctx, module_create(ctx, "Other", &other));
    CHECK_FAILS(ctx, freeze_s8(ctx, other, 1, y, none, &frozen), STATUS_INVALID_ARGUMENT,
                "freeze: dtype s8, but forward of Other has no graph to calibrate");
    module_release(other);
    tensor_release(x);
    for (int i = 0; i < 2; i++) tensor_release(y[i]);
    module_release(net);
}

/* Another method may have values of the same names. Its products stay f32, because no examples are
 * run through it. */
static void other_methods_stay_f32(void **state)
{
    static const char *const preserved[] = {"other", NULL};
    context_t *ctx = fixture_context(state);
    module_t *net = network(ctx), *frozen = NULL;
    tensor_t *x = images(ctx, 2, 3, 12), *a = NULL, *b = NULL;
    subject_method(ctx, net, "other", "w=16,3,3,3", "%x : f32[N=2,3,12,12]",
                   "  %1 = conv2d(%x, %w, none) padding=[1,1] at \"o.conv\"\n  return %1\n");
    CHECK_OK(ctx, freeze_s8(ctx, net, 1, &x, (freeze_options_t){.preserved = preserved}, &frozen));
    int n = 1;
    CHECK_OK(ctx, module_call_tensors(ctx, net, "other", 1, (const tensor_t *[]){x}, &n, &a));
    CHECK_OK(ctx, module_call_tensors(ctx, frozen, "other", 1, (const tensor_t *[]){x}, &n, &b));
    double difference = INFINITY;
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, b, a, &difference));
    assert_true(difference < 1e-5);
    tensor_release(a);
    tensor_release(b);
    tensor_release(x);
    module_release(frozen);
    module_release(net);
}

static status_t freeze_small(context_t *ctx)
{
    module_t *net = NULL, *frozen = NULL;
    tensor_t *w = NULL, *x = NULL;
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK)
        status = tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){4, 3, 1, 1}, &w);
    if (status == STATUS_OK)
        status = tensor_randn(ctx, DTYPE_F32, 4, (const int64_t[]){1, 3, 5, 5}, &x);
    if (status == STATUS_OK) status = module_set_parameter(ctx, net, "w", w);
    if (status == STATUS_OK)
        status = graph_define(ctx, net,
                              "graph forward(%self : module, %x : f32[1,3,5,5]) {\n"
                              "  %w = getattr(%self) name=\"w\" : f32[4,3,1,1]\n"
                              "  %1 = conv2d(%x, %w, none)\n  %2 = relu(%1)\n"
                              "  %3 = mean(%2) dims=[2,3]\n  return %3\n}\n");
    if (status == STATUS_OK)
        status = freeze_s8(ctx, net, 1, &x, (freeze_options_t){.plans = 0}, &frozen);
    module_release(frozen);
    tensor_release(w);
    tensor_release(x);
    module_release(net);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_allocations_by_turns(freeze_small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_layer_is_what_its_integers_give),
        TEST(every_product_has_one_on_integers),
        TEST(each_calibration_agrees_with_f32),
        TEST(a_file_gives_the_same_at_other_sizes),
        TEST(excluded_layers_and_layers_above_the_bound_stay_f32),
        TEST(outliers_are_cut_off),
        TEST(numbers_far_from_zero_keep_their_range),
        TEST(ranges_stay_with_their_values),
        TEST(ranges_grow_with_the_examples),
        TEST(an_input_that_is_always_zero_has_a_scale),
        TEST(wrong_examples_and_options_are_named),
        TEST(other_methods_stay_f32),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
