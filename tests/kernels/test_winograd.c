/* Winograd convolutions with each instruction set of the machine, compared with sums in double.
 * Operands are f32, bf16 with f32 products, or bf16 with instructions that multiply pairs. */
#include "kernels/conv/winograd/winograd_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dtype.h"
#include "tests/support/blocks.h"
#include "tests/support/support.h"

typedef struct sizes {
    int64_t n_images, n_inputs, n_outputs, height, width, top, left, out_height, out_width;
} sizes_t;

/* Padding may be larger than the kernel, so that some results read no element, or negative, which
 * omits elements. With stride 2, results have half as many rows and columns, rounded up. */
static const sizes_t all_sizes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1},       {1, 3, 17, 7, 7, 1, 1, 7, 7},
    {2, 17, 31, 13, 11, 1, 1, 13, 11}, {3, 16, 3, 5, 23, 0, 0, 3, 21},
    {1, 31, 33, 9, 6, 2, 0, 10, 5},    {1, 7, 100, 4, 4, 5, 7, 13, 12},
    {2, 40, 48, 14, 14, 1, 1, 14, 14}, {1, 33, 16, 30, 31, 1, 1, 30, 31},
    {5, 100, 7, 8, 3, 0, 1, 7, 3},     {1, 8, 24, 58, 57, 1, 1, 58, 57},
    {1, 20, 18, 9, 8, -2, -1, 5, 6},   {2, 17, 5, 12, 13, 4, 3, 16, 15},
    {1, 3, 31, 20, 19, 0, 1, 18, 19},  {1, 1, 7, 2, 3, 1, 0, 2, 1},
    {1, 17, 33, 16, 1, 1, 1, 16, 1},   {1, 33, 3, 18, 17, 1, 2, 18, 18},
};
enum { N_SIZES = sizeof all_sizes / sizeof *all_sizes };

static const struct {
    winograd_act_t act;
    float alpha, beta;
} acts[] = {{WINOGRAD_NONE, 0, 0},
            {WINOGRAD_CLAMP, 0, INFINITY},
            {WINOGRAD_CLAMP, 0.25f, 0.5f},
            {WINOGRAD_LEAKY, 0.1f, 0}};
enum { N_ACTS = sizeof acts / sizeof *acts };

/* Results per row of a tile, kernel, stride, and tolerance: for products of numbers up to 1,
 * relative to the square root of their count, because rounding errors are random. */
typedef struct shape {
    int tile, kernel, stride;
    double tolerance;
} shape_t;
static const shape_t shapes[] = {{2, 3, 1, 1e-6}, {4, 3, 1, 4e-6},   {6, 3, 1, 2.5e-5},
                                 {2, 5, 1, 4e-6}, {4, 5, 1, 2.5e-5}, {2, 3, 2, 1e-6},
                                 {4, 3, 2, 4e-6}, {3, 4, 1, 4e-6},   {5, 4, 1, 2.5e-5}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* With pairs, the transforms' results are rounded to bf16, so tolerances are large. */
static const shape_t pair_shapes[] = {{2, 3, 1, 1e-2}, {2, 3, 2, 1e-2}};
enum { N_PAIR_SHAPES = sizeof pair_shapes / sizeof *pair_shapes };
#define HALF_BF16 0x1p-8 /* maximum relative rounding error */

/* Results begin at a multiple of LINE bytes, or one element later, depending on n_inputs. */
#define LINE 64

typedef struct problem {
    winograd_t w;
    double tolerance;
    isa_t isa;
    int lanes;
    float *x, *plain, *bias, *addend, *out_memory, *out;
    void *weight;
    uint16_t *narrow_x, *narrow_addend, *narrow_out; /* copies in bf16 */
    double *sums; /* expected sums, [images][outputs][rows][columns] */
    size_t x_elements, out_elements;
} problem_t;

static int64_t blocks(int64_t n, int lanes)
{
    return (n + lanes - 1) / lanes;
}

/* Returns the offset of an element in a blocked tensor. */
static int64_t blocked(int lanes, int64_t channels, int64_t height, int64_t width, int64_t n,
                       int64_t c, int64_t y, int64_t x)
{
    const int64_t plane = n * blocks(channels, lanes) + c / lanes;
    return ((plane * height + y) * width + x) * lanes + c % lanes;
}

/* Makes random numbers. Channels that pad to blocks are zero. */
static float *make_blocked(int lanes, int64_t n, int64_t channels, int64_t height, int64_t width)
{
    const size_t size = (size_t)(n * blocks(channels, lanes) * lanes * height * width);
    float *made = test_malloc(size * sizeof *made);
    memset(made, 0, size * sizeof *made);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t y = 0; y < height; y++)
                for (int64_t x = 0; x < width; x++)
                    made[blocked(lanes, channels, height, width, i, c, y, x)] = blocks_draw();
    return made;
}

static uint16_t to_bf16(float value)
{
    uint16_t narrow;
    dtype_store(DTYPE_BF16, &narrow, (double)value);
    return narrow;
}

static float of_bf16(uint16_t narrow)
{
    return (float)dtype_load(DTYPE_BF16, &narrow);
}

/* Returns the numbers as bf16, and rounds the given ones to them. */
static uint16_t *narrow(float *from, size_t n)
{
    uint16_t *made = test_malloc(n * sizeof *made);
    for (size_t i = 0; i < n; i++) {
        made[i] = to_bf16(from[i]);
        from[i] = of_bf16(made[i]);
    }
    return made;
}

static double sum_at(const problem_t *p, int64_t n, int64_t k, int64_t y, int64_t x)
{
    const winograd_t *w = &p->w;
    double sum = 0.0;
    for (int64_t c = 0; c < w->n_inputs; c++) {
        const float *plane = p->x + blocked(p->lanes, w->n_inputs, w->height, w->width, n, c, 0, 0);
        const float *weight = p->plain + (k * w->n_inputs + c) * w->kernel * w->kernel;
        for (int64_t r = 0; r < w->kernel; r++) {
            const int64_t h = y * w->stride + r - w->top;
            if (h < 0 || h >= w->height) continue;
            for (int64_t s = 0; s < w->kernel; s++) {
                const int64_t v = x * w->stride + s - w->left;
                if (v < 0 || v >= w->width) continue;
                sum += (double)plane[(h * w->width + v) * p->lanes] *
                       (double)weight[r * w->kernel + s];
            }
        }
    }
    return sum;
}

static void sum_up(problem_t *p)
{
    const winograd_t *w = &p->w;
    double *sum = p->sums;
    for (int64_t n = 0; n < w->n_images; n++)
        for (int64_t k = 0; k < w->n_outputs; k++)
            for (int64_t y = 0; y < w->out_height; y++)
                for (int64_t x = 0; x < w->out_width; x++) *sum++ = sum_at(p, n, k, y, x);
}

static void make_as(const sizes_t *sizes, const shape_t *shape, isa_t isa, bool is_bf16,
                    problem_t *p)
{
    sizes_t halved = *sizes;
    const sizes_t *s = &halved;
    halved.out_height = (sizes->out_height - 1) / shape->stride + 1;
    halved.out_width = (sizes->out_width - 1) / shape->stride + 1;
    *p = (problem_t){.tolerance = shape->tolerance, .isa = isa, .lanes = isa_lanes(isa)};
    p->w = (winograd_t){.tile = shape->tile,
                        .kernel = shape->kernel,
                        .stride = shape->stride,
                        .n_images = s->n_images,
                        .n_inputs = s->n_inputs,
                        .n_outputs = s->n_outputs,
                        .height = s->height,
                        .width = s->width,
                        .out_height = s->out_height,
                        .out_width = s->out_width,
                        .top = s->top,
                        .left = s->left,
                        .is_bf16 = is_bf16};
    const int64_t n_weights = s->n_inputs * s->n_outputs * shape->kernel * shape->kernel;
    p->x = make_blocked(p->lanes, s->n_images, s->n_inputs, s->height, s->width);
    p->addend = make_blocked(p->lanes, s->n_images, s->n_outputs, s->out_height, s->out_width);
    p->plain = test_malloc((size_t)n_weights * sizeof(float));
    p->bias = test_malloc((size_t)s->n_outputs * sizeof(float));
    for (int64_t i = 0; i < n_weights; i++) p->plain[i] = blocks_draw();
    for (int64_t i = 0; i < s->n_outputs; i++) p->bias[i] = blocks_draw();
    p->out_elements = (size_t)(s->n_images * blocks(s->n_outputs, p->lanes) * p->lanes *
                               s->out_height * s->out_width);
    p->out_memory = test_malloc((p->out_elements + 1) * sizeof(float) + 2 * LINE);
    p->out = (float *)(((uintptr_t)p->out_memory + LINE) / LINE * LINE) + s->n_inputs % 2;
    p->x_elements = (size_t)(s->n_images * blocks(s->n_inputs, p->lanes) * p->lanes * s->height *
                             s->width);
    if (is_bf16) {
        p->narrow_x = narrow(p->x, p->x_elements);
        p->narrow_addend = narrow(p->addend, p->out_elements);
        p->narrow_out = (uint16_t *)(void *)p->out;
    }
    p->sums = test_malloc((size_t)(s->n_images * s->n_outputs * s->out_height * s->out_width) *
                          sizeof(double));
    sum_up(p);
}

static void make(const sizes_t *sizes, const shape_t *shape, isa_t isa, problem_t *p)
{
    make_as(sizes, shape, isa, false, p);
}

static void clear(problem_t *p)
{
    if (p->w.is_bf16) {
        test_free(p->narrow_x);
        test_free(p->narrow_addend);
    }
    test_free(p->x);
    test_free(p->addend);
    test_free(p->plain);
    test_free(p->bias);
    test_free(p->out_memory);
    test_free(p->sums);
}

static double activate(const winograd_t *w, double value)
{
    if (isnan(value)) return value;
    if (w->act == WINOGRAD_CLAMP) return fmin(fmax(value, (double)w->alpha), (double)w->beta);
    if (w->act == WINOGRAD_LEAKY && value < 0.0) return (double)w->alpha * value;
    return value;
}

static double check(const problem_t *p, double bound, const char *what)
{
    const winograd_t *w = &p->w;
    const double *sum = p->sums;
    double worst = 0.0;
    for (int64_t n = 0; n < w->n_images; n++)
        for (int64_t k = 0; k < blocks(w->n_outputs, p->lanes) * p->lanes; k++)
            for (int64_t y = 0; y < w->out_height; y++)
                for (int64_t x = 0; x < w->out_width; x++) {
                    const int64_t at = blocked(p->lanes, w->n_outputs, w->out_height, w->out_width,
                                               n, k, y, x);
                    double want = 0.0;
                    if (k < w->n_outputs)
                        want = activate(w, *sum++ + (w->bias ? (double)w->bias[k] : 0.0) +
                                               (w->addend ? (double)p->addend[at] : 0.0));
                    const double is = w->is_bf16 ? (double)of_bf16(p->narrow_out[at])
                                                 : (double)p->out[at];
                    if (!isfinite(want) && (is == want || (isnan(is) && isnan(want)))) continue;
                    const double rounding = w->is_bf16 ? HALF_BF16 * (fabs(want) + bound) : 0.0;
                    const double error = fmax(fabs(is - want) - rounding, 0.0);
                    if (!(error <= (k < w->n_outputs ? bound : 0.0)))
                        fail_msg(
                            "%s, tile %d, kernel %d, stride %d, schedule %d, act %d, %lld of %lld "
                            "channels, %lld by "
                            "%lld: element %lld %lld %lld %lld is %g, not %g",
                            what, w->tile, w->kernel, w->stride, (int)w->schedule, (int)w->act,
                            (long long)w->n_outputs, (long long)w->n_inputs, (long long)w->height,
                            (long long)w->width, (long long)n, (long long)k, (long long)y,
                            (long long)x, is, want);
                    worst = error > worst ? error : worst;
                }
    if (w->is_bf16)
        assert_int_equal(p->narrow_out[p->out_elements], 77);
    else
        assert_true(p->out[p->out_elements] == 77.0f);
    return worst;
}

/* Fills the result with a sentinel; if the kernel works in place, with the addend. */
static void prepare_out(const problem_t *p)
{
    const winograd_t *w = &p->w;
    const size_t n = p->out_elements;
    for (size_t i = 0; i <= n && !w->is_bf16; i++) p->out[i] = 77.0f;
    for (size_t i = 0; i <= n && w->is_bf16; i++) p->narrow_out[i] = 77;
    if (w->addend != w->out) return;
    if (w->is_bf16)
        memcpy(p->narrow_out, p->narrow_addend, n * sizeof *p->narrow_out);
    else
        memcpy(p->out, p->addend, n * sizeof *p->out);
}

/* Runs twice with the same scratch memory, which first contains garbage. The memory after it must
 * not change. */
static double run(problem_t *p, int n_threads)
{
    winograd_t *w = &p->w;
    const size_t size = winograd_scratch(w, p->isa, n_threads);
    const double bound = p->tolerance *
                             sqrt((double)(w->kernel * w->kernel) * (double)w->n_inputs) +
                         4.0 * FLT_EPSILON;
    char *scratch = test_malloc(size + 4);
    double worst = 0.0;
    memset(scratch, 0xff, size + 4);
    for (int i = 0; i < 2; i++) {
        prepare_out(p);
        winograd_run(w, p->isa, n_threads, scratch);
        worst = check(p, bound, isa_name(p->isa));
        for (int j = 0; j < 4; j++)
            assert_int_equal((unsigned char)scratch[size + (size_t)j], 0xff);
    }
    test_free(scratch);
    return worst / bound;
}

static size_t weight_elements(const problem_t *p)
{
    const winograd_t *w = &p->w;
    return (size_t)winograd_weight_elements(w->tile, w->kernel, w->n_inputs, w->n_outputs, p->isa);
}

static winograd_weight_t plain_weight(const problem_t *p)
{
    const winograd_t *w = &p->w;
    winograd_weight_t weight = winograd_plain_weight(w->tile, w->kernel, w->stride, w->n_inputs,
                                                     w->n_outputs, p->plain);
    weight.in_pairs = w->in_pairs;
    return weight;
}

static double run_acts(problem_t *p, int first_act)
{
    static const int threads[] = {1, 2, 5};
    winograd_t *w = &p->w;
    const winograd_weight_t plain = plain_weight(p);
    const size_t size = weight_elements(p) * (w->in_pairs ? sizeof(uint16_t) : sizeof(float));
    const void *addend = w->is_bf16 ? (void *)p->narrow_addend : p->addend;
    double worst = 0.0;
    p->weight = test_malloc(size + 1);
    memset(p->weight, 0x77, size + 1);
    winograd_pack(&plain, p->isa, 3, p->weight);
    assert_int_equal(((char *)p->weight)[size], 0x77);
    w->x = w->is_bf16 ? (void *)p->narrow_x : p->x;
    w->weight = p->weight;
    w->out = p->out;
    for (int i = 0; i < 6; i++) {
        const int act = (first_act + i) % N_ACTS;
        w->schedule = i % 2 == 0 ? WINOGRAD_FUSED : WINOGRAD_PHASES;
        w->streams = i >= 2;
        w->act = acts[act].act;
        w->alpha = acts[act].alpha;
        w->beta = acts[act].beta;
        w->bias = i % 3 == 0 ? NULL : p->bias;
        w->addend = i % 3 == 1 ? NULL : i % 3 == 2 ? addend : p->out;
        const double error = run(p, threads[i / 2]);
        worst = error > worst ? error : worst;
    }
    test_free(p->weight);
    return worst;
}

static void every_instruction_set_sums_as_double_does(void **state)
{
    double worst[N_SHAPES] = {0};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int s = 0; s < N_SIZES && isa_has((isa_t)isa); s++)
            for (int i = IS_SLOW ? s % 3 : 0; i < N_SHAPES; i += IS_SLOW ? 3 : 1) {
                problem_t p;
                make(&all_sizes[s], &shapes[i], (isa_t)isa, &p);
                const double error = run_acts(&p, s);
                worst[i] = error > worst[i] ? error : worst[i];
                clear(&p);
            }
    /* bounds must not be much larger than errors, and larger tiles have larger errors */
    for (int i = 0; i < N_SHAPES; i++) assert_true(worst[i] > 0.05);
    for (int i = 1; i < N_SHAPES; i++)
        if (shapes[i].kernel == shapes[i - 1].kernel && shapes[i].stride == shapes[i - 1].stride)
            assert_true(worst[i - 1] * shapes[i - 1].tolerance < worst[i] * shapes[i].tolerance);
}

static bool has(isa_t isa, bool in_pairs)
{
    return isa_has(isa) && (!in_pairs || winograd_has_pairs(isa));
}

/* Returns the largest error, relative to the bound. */
static double run_bf16(const sizes_t *sizes, const shape_t *shape, isa_t isa, bool in_pairs,
                       int first_act)
{
    problem_t p;
    make_as(sizes, shape, isa, true, &p);
    p.w.in_pairs = in_pairs;
    const double worst = run_acts(&p, first_act);
    clear(&p);
    return worst;
}

static void sources_and_results_may_be_bf16(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int s = 0; s < N_SIZES && isa_has((isa_t)isa); s++)
            for (int i = s % (IS_SLOW ? 9 : 3); i < N_SHAPES; i += IS_SLOW ? 9 : 3)
                (void)run_bf16(&all_sizes[s], &shapes[i], (isa_t)isa, false, s);
}

static void products_may_be_those_of_bf16(void **state)
{
    static const sizes_t many = {2, 16, 40, 60, 45, 1, 1, 60, 45};
    double worst[N_PAIR_SHAPES] = {0};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int s = 0; s < N_SIZES && has((isa_t)isa, true); s++)
            for (int i = 0; i < N_PAIR_SHAPES; i++) {
                const double error = run_bf16(&all_sizes[s], &pair_shapes[i], (isa_t)isa, true, s);
                worst[i] = fmax(worst[i], error);
            }
    for (int i = 0; i < N_PAIR_SHAPES; i++) {
        assert_true(worst[i] > 0.05);
        for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
            if (has((isa_t)isa, true)) (void)run_bf16(&many, &pair_shapes[i], (isa_t)isa, true, 1);
    }
}

/* The sources are zero, so results are biases. Some of these are halfway between bf16 numbers. */
static void results_are_rounded_as_numbers_are(void **state)
{
    static const sizes_t sizes = {1, 1, 100, 5, 5, 1, 1, 5, 5};
    (void)state;
    for (int i = 0; i < 2 * ISA_COUNT; i++) {
        const isa_t isa = (isa_t)(i / 2);
        problem_t p;
        if (!has(isa, i % 2 == 1)) continue;
        make_as(&sizes, &shapes[0], isa, true, &p);
        winograd_t *w = &p.w;
        w->in_pairs = i % 2 == 1;
        for (int k = 0; k < sizes.n_outputs; k++) {
            const uint32_t bits = 0x3f800000u + (uint32_t)k * 0x4000u;
            memcpy(&p.bias[k], &bits, sizeof bits);
            if (k % 3 == 0) p.bias[k] *= -1.0000001f;
        }
        p.bias[7] = INFINITY;
        p.bias[8] = NAN;
        p.bias[9] = FLT_MAX;
        memset(p.narrow_x, 0, p.x_elements * sizeof *p.narrow_x);
        const winograd_weight_t plain = plain_weight(&p);
        p.weight = test_malloc(weight_elements(&p) * sizeof(float));
        winograd_pack(&plain, isa, 1, p.weight);
        w->x = p.narrow_x;
        w->weight = p.weight;
        w->bias = p.bias;
        w->out = p.out;
        void *scratch = test_malloc(winograd_scratch(w, isa, 1));
        winograd_run(w, isa, 1, scratch);
        for (int k = 0; k < sizes.n_outputs; k++) {
            const int64_t at = blocked(p.lanes, sizes.n_outputs, 5, 5, 0, k, 3, 2);
            const uint16_t want = to_bf16(p.bias[k]), is = p.narrow_out[at];
            if (is != want && !(isnan(of_bf16(is)) && isnan(of_bf16(want))))
                fail_msg("%s: %a becomes %x, not %x", isa_name(isa), (double)p.bias[k], is, want);
        }
        test_free(scratch);
        test_free(p.weight);
        clear(&p);
    }
}

/* Makes one element in `share` of the sources NaN or infinite. Some elements of kernels are
 * zero. */
static void run_specials(const sizes_t *sizes, const shape_t *shape, isa_t isa, bool is_bf16,
                         bool in_pairs, int share)
{
    static const float specials[] = {NAN, INFINITY, -INFINITY};
    problem_t p;
    make_as(sizes, shape, isa, is_bf16, &p);
    p.w.in_pairs = in_pairs;
    for (int64_t i = 0; i < p.w.n_inputs * p.w.n_outputs * p.w.kernel * p.w.kernel; i++)
        p.plain[i] = (float)(rand() % 5 - 2) * 0.5f;
    for (int64_t n = 0; n < p.w.n_images; n++)
        for (int64_t c = 0; c < p.w.n_inputs; c++)
            for (int64_t y = 0; y < p.w.height; y++)
                for (int64_t x = 0; x < p.w.width; x++) {
                    const int64_t at = blocked(p.lanes, p.w.n_inputs, p.w.height, p.w.width, n, c,
                                               y, x);
                    if (rand() % share == 0) p.x[at] = specials[rand() % 3];
                    if (is_bf16) p.narrow_x[at] = to_bf16(p.x[at]);
                }
    sum_up(&p);
    (void)run_acts(&p, 1);
    clear(&p);
}

/* Only results whose window contains the element may change. The transforms alone would change a
 * whole tile. */
static void infinities_and_nans_give_the_results_of_direct_sums(void **state)
{
    static const sizes_t many = {2, 3, 40, 60, 45, 1, 1, 60, 45};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int i = 0; i < N_SHAPES && isa_has((isa_t)isa); i++) {
            for (int s = i % 4; s < N_SIZES; s += 4)
                run_specials(&all_sizes[s], &shapes[i], (isa_t)isa, s % 3 == 0, false,
                             s == 3 ? 1 : 200);
            if (i == isa) run_specials(&many, &shapes[i], (isa_t)isa, false, false, 400);
        }
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int i = 0; i < N_PAIR_SHAPES && has((isa_t)isa, true); i++)
            for (int s = 0; s < N_SIZES; s++)
                run_specials(&all_sizes[s], &pair_shapes[i], (isa_t)isa, true, true, 200);
}

/* Numbers that overflow only in the transforms must give the same results as direct sums, as
 * accurately as sums are rounded. */
static void large_numbers_overflow_where_direct_sums_do(void **state)
{
    static const sizes_t sizes = {1, 20, 19, 13, 14, 1, 1, 13, 14};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int i = 0; i < N_SHAPES && isa_has((isa_t)isa); i++) {
            problem_t p;
            make(&sizes, &shapes[i], (isa_t)isa, &p);
            const double largest = 2e38;
            for (int64_t c = 0; c < sizes.n_inputs; c++)
                p.x[blocked(p.lanes, sizes.n_inputs, 13, 14, 0, c, 6, 7)] *= (float)(largest / 40);
            p.x[blocked(p.lanes, sizes.n_inputs, 13, 14, 0, 3, 6, 7)] = INFINITY;
            p.x[blocked(p.lanes, sizes.n_inputs, 13, 14, 0, 4, 2, 1)] = (float)largest;
            sum_up(&p);
            p.tolerance *= 1e38;
            (void)run_acts(&p, 0);
            clear(&p);
        }
}

/* Has more tiles than a group of any schedule. */
static void many_tiles_go_in_groups(void **state)
{
    static const sizes_t sizes = {2, 16, 40, 60, 45, 1, 1, 60, 45};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int i = IS_SLOW ? isa % 3 : 0; i < N_SHAPES && isa_has((isa_t)isa);
             i += IS_SLOW ? 3 : 1) {
            problem_t p;
            make(&sizes, &shapes[i], (isa_t)isa, &p);
            (void)run_acts(&p, 1);
            clear(&p);
        }
}

/* A weight in blocks of 16 inputs by 16 outputs (ABcd16b16a), mirrored as the gradient of sources
 * needs it, must give the same transform as the row-major weight. */
static void weights_in_blocks_are_transformed_as_plain_ones(void **state)
{
    static const sizes_t sizes = {1, 19, 35, 5, 5, 1, 1, 5, 5};
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        problem_t p;
        make(&sizes, &shapes[i], isa_best(), &p);
        const int64_t size = (int64_t)shapes[i].kernel * shapes[i].kernel;
        winograd_weight_t plain = plain_weight(&p), blocked = plain;
        float *in_blocks = test_malloc((size_t)(48 * 32 * size) * sizeof(float));
        for (int64_t k = 0; k < sizes.n_outputs; k++)
            for (int64_t c = 0; c < sizes.n_inputs; c++)
                for (int64_t at = 0; at < size; at++)
                    in_blocks[(((k / 16 * 2 + c / 16) * size + size - 1 - at) * 16 + c % 16) * 16 +
                              k % 16] = p.plain[(k * sizes.n_inputs + c) * size + at];
        blocked.from = in_blocks + (size - 1) * 256;
        blocked.inputs = (axis_t){sizes.n_inputs, 16, 16, size * 256};
        blocked.outputs = (axis_t){sizes.n_outputs, 16, 1, 2 * size * 256};
        blocked.element = -256;
        const size_t n = weight_elements(&p);
        float *transformed = test_malloc(2 * n * sizeof(float));
        winograd_pack(&plain, p.isa, 1, transformed);
        winograd_pack(&blocked, p.isa, 2, transformed + n);
        assert_memory_equal(transformed, transformed + n, n * sizeof(float));
        test_free(transformed);
        test_free(in_blocks);
        clear(&p);
    }
}

/* The order of sums is fixed, so all schedules and numbers of threads give the same bits. With the
 * last sizes there are three phases, in which each thread transforms x for itself. */
static void schedules_and_threads_give_the_same_bits(void **state)
{
    static const sizes_t sizes[] = {{1, 20, 40, 20, 21, 1, 1, 20, 21},
                                    {3, 16, 16, 40, 40, 1, 1, 40, 40},
                                    {3, 16, 192, 40, 40, 1, 1, 40, 40}};
    (void)state;
    for (int s = 0; s < 3; s++) {
        problem_t p;
        make(&sizes[s], &shapes[1], isa_best(), &p);
        winograd_t *w = &p.w;
        const winograd_weight_t plain = plain_weight(&p);
        float *weight = test_malloc(weight_elements(&p) * sizeof(float));
        float *first = test_malloc(p.out_elements * sizeof(float));
        winograd_pack(&plain, p.isa, 1, weight);
        w->x = p.x;
        w->weight = weight;
        w->out = p.out;
        for (int i = 0; i < 9; i++) {
            w->schedule = (winograd_schedule_t)(i % 3);
            void *scratch = test_malloc(winograd_scratch(w, p.isa, 1 + i / 3));
            winograd_run(w, p.isa, 1 + i / 3, scratch);
            test_free(scratch);
            if (i == 0) memcpy(first, p.out, p.out_elements * sizeof(float));
            assert_memory_equal(first, p.out, p.out_elements * sizeof(float));
        }
        test_free(weight);
        test_free(first);
        clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_sums_as_double_does),
        cmocka_unit_test(sources_and_results_may_be_bf16),
        cmocka_unit_test(products_may_be_those_of_bf16),
        cmocka_unit_test(results_are_rounded_as_numbers_are),
        cmocka_unit_test(infinities_and_nans_give_the_results_of_direct_sums),
        cmocka_unit_test(large_numbers_overflow_where_direct_sums_do),
        cmocka_unit_test(many_tiles_go_in_groups),
        cmocka_unit_test(weights_in_blocks_are_transformed_as_plain_ones),
        cmocka_unit_test(schedules_and_threads_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
