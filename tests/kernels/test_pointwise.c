/* 1x1 convolution with each instruction set of the machine, compared with sums in double. */
#include "kernels/conv/pointwise_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/blocks.h"
#include "tests/support/support.h"

#define MAX_CHANNELS 160
#define MAX_ELEMENTS (3 * MAX_CHANNELS * 32 * 32)
#define MAX_SCRATCH (8 << 20)
#define AFTER 12345.0f /* after the result; must not change */

typedef struct problem {
    float *x, *scale, *shift, *weight, *bias, *addend, *out, *scratch;
    double *sums; /* expected sums */
} problem_t;

static problem_t make_problem(void)
{
    problem_t p;
    p.x = malloc(MAX_ELEMENTS * sizeof(float));
    p.weight = malloc(MAX_CHANNELS * MAX_CHANNELS * sizeof(float));
    p.addend = malloc(MAX_ELEMENTS * sizeof(float));
    p.out = malloc(MAX_ELEMENTS * sizeof(float));
    p.bias = malloc(MAX_CHANNELS * sizeof(float));
    p.scale = malloc(MAX_CHANNELS * sizeof(float));
    p.shift = malloc(MAX_CHANNELS * sizeof(float));
    p.scratch = malloc(MAX_SCRATCH);
    p.sums = malloc(MAX_ELEMENTS * sizeof(double));
    return p;
}

static void free_problem(const problem_t *p)
{
    free(p->x);
    free(p->weight);
    free(p->addend);
    free(p->out);
    free(p->bias);
    free(p->scale);
    free(p->shift);
    free(p->scratch);
    free(p->sums);
}

static int64_t weight_at(const pointwise_t *p, int lanes, int64_t k, int64_t c)
{
    const int64_t n_blocks = (p->n_inputs + lanes - 1) / lanes;
    return ((k / lanes * n_blocks + c / lanes) * lanes + c % lanes) * lanes + k % lanes;
}

static int64_t out_plane(const pointwise_t *p)
{
    return (p->height + p->stride - 1) / p->stride * ((p->width + p->stride - 1) / p->stride);
}

/* Fills with random numbers. Channels that pad x, weight and addend to blocks are zero. */
static void fill(const pointwise_t *p, const problem_t *of, int lanes)
{
    const int64_t plane = p->height * p->width;
    memset(of->x, 0, MAX_ELEMENTS * sizeof *of->x);
    memset(of->addend, 0, MAX_ELEMENTS * sizeof *of->addend);
    memset(of->weight, 0, MAX_CHANNELS * MAX_CHANNELS * sizeof *of->weight);
    for (int64_t c = 0; c < MAX_CHANNELS; c++) {
        of->scale[c] = c < p->n_inputs ? blocks_draw() : 0.0f;
        of->shift[c] = c < p->n_inputs ? blocks_draw() : 0.0f;
    }
    for (int64_t n = 0; n < p->n_images; n++) {
        for (int64_t c = 0; c < p->n_inputs; c++)
            for (int64_t i = 0; i < plane; i++)
                of->x[blocks_at(p->n_inputs, plane, lanes, n, c, i)] = blocks_draw();
        for (int64_t k = 0; k < p->n_outputs; k++)
            for (int64_t i = 0; i < out_plane(p); i++)
                of->addend[blocks_at(p->n_outputs, out_plane(p), lanes, n, k, i)] = blocks_draw();
    }
    for (int64_t k = 0; k < p->n_outputs; k++) {
        of->bias[k] = blocks_draw();
        for (int64_t c = 0; c < p->n_inputs; c++)
            of->weight[weight_at(p, lanes, k, c)] = blocks_draw();
    }
    for (int64_t i = 0; i < MAX_ELEMENTS; i++) of->out[i] = AFTER;
}

/* Returns element `at` of input channel c, scaled and clamped. */
static double source(const pointwise_t *p, int lanes, int64_t n, int64_t c, int64_t at)
{
    double x = p->x[blocks_at(p->n_inputs, p->height * p->width, lanes, n, c, at)];
    if (p->is_scaled) x = x * p->scale[c] + p->shift[c];
    return p->is_scaled && p->is_source_clamped ? fmin(fmax(x, p->source_lower), p->source_upper)
                                                : x;
}

static double wanted(const pointwise_t *p, const problem_t *of, int lanes, int64_t n, int64_t k,
                     int64_t i)
{
    const int64_t out_width = (p->width + p->stride - 1) / p->stride;
    const int64_t at = i / out_width * p->stride * p->width + i % out_width * p->stride;
    double sum = p->bias != NULL ? p->bias[k] : 0.0;
    for (int64_t c = 0; c < p->n_inputs; c++)
        sum += source(p, lanes, n, c, at) * p->weight[weight_at(p, lanes, k, c)];
    if (p->addend != NULL) sum += of->addend[blocks_at(p->n_outputs, out_plane(p), lanes, n, k, i)];
    if (p->is_clamped) sum = fmin(fmax(sum, p->lower), p->upper);
    return p->finish != NULL ? 2.0 * sum : sum;
}

static void twice(const void *user, float *values, int64_t n)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) values[i] *= 2.0f;
}

/* Computes the expected sums, in the order in which check() reads them. */
static void expect(const pointwise_t *p, const problem_t *of, int lanes)
{
    double *sum = of->sums;
    for (int64_t n = 0; n < p->n_images; n++)
        for (int64_t k = 0; k < p->n_outputs; k++)
            for (int64_t i = 0; i < out_plane(p); i++) *sum++ = wanted(p, of, lanes, n, k, i);
}

static void check(const pointwise_t *p, const problem_t *of, int lanes, const char *what)
{
    const int64_t n_blocks = (p->n_outputs + lanes - 1) / lanes;
    const double *sums = of->sums;
    for (int64_t n = 0; n < p->n_images; n++)
        for (int64_t k = 0; k < p->n_outputs; k++)
            for (int64_t i = 0; i < out_plane(p); i++) {
                const double sum = *sums++;
                const float given = p->out[blocks_at(p->n_outputs, out_plane(p), lanes, n, k, i)];
                if (!(fabs(given - sum) <= 8.0 * (double)p->n_inputs * FLT_EPSILON))
                    fail_msg("%s%s: stride %d, %lld to %lld channels, %lld by %lld: channel %lld, "
                             "element %lld is %g, not %g",
                             what, p->is_scaled ? ", scaled" : "", p->stride,
                             (long long)p->n_inputs, (long long)p->n_outputs, (long long)p->height,
                             (long long)p->width, (long long)k, (long long)i, (double)given, sum);
            }
    assert_true(p->out[p->n_images * n_blocks * out_plane(p) * lanes] == AFTER);
}

static void run_one(const problem_t *of, isa_t isa, int64_t n_inputs, int64_t n_outputs,
                    int64_t height, int64_t width, int kind)
{
    static const int threads[] = {1, 2, 5, 6};
    const int lanes = isa_lanes(isa);
    pointwise_t p = {.stride = (kind & 1) != 0 ? 2 : 1,
                     .n_images = kind % 3 + 1,
                     .n_inputs = n_inputs,
                     .n_outputs = n_outputs,
                     .height = height,
                     .width = width,
                     .x = of->x,
                     .is_scaled = (kind & 5) == 4,
                     .scale = of->scale,
                     .shift = of->shift,
                     .is_source_clamped = kind % 3 != 1,
                     .source_lower = 0.0f,
                     .source_upper = kind % 3 == 2 ? 0.5f : (float)INFINITY,
                     .weight = of->weight,
                     .bias = kind % 3 == 0 ? NULL : of->bias,
                     .addend = (kind & 2) != 0 ? of->addend : NULL,
                     .is_clamped = kind % 5 < 2,
                     .lower = kind % 5 == 0 ? 0.0f : -0.25f,
                     .upper = kind % 5 == 0 ? (float)INFINITY : 0.5f,
                     .finish = kind % 4 == 1 ? twice : NULL,
                     .out = of->out};
    fill(&p, of, lanes);
    expect(&p, of, lanes);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        const size_t scratch = pointwise_scratch(&p, isa, threads[i]);
        assert_true(scratch < MAX_SCRATCH);
        memset((char *)of->scratch + scratch, 1, 1);
        pointwise_run(&p, isa, threads[i], of->scratch);
        check(&p, of, lanes, isa_name(isa));
        assert_int_equal(((char *)of->scratch)[scratch], 1);
    }
    if (p.addend == NULL) return;
    memcpy(of->out, of->addend, (MAX_ELEMENTS - 1) * sizeof *of->out);
    of->out[p.n_images * ((n_outputs + lanes - 1) / lanes) * out_plane(&p) * lanes] = AFTER;
    p.addend = of->out; /* in place */
    pointwise_run(&p, isa, 2, of->scratch);
    check(&p, of, lanes, isa_name(isa));
}

static void every_set_gives_the_sums(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 7, 8, 16, 17, 24, 31, 40, 64, 150};
    static const int64_t sides[] = {1, 2, 3, 7, 8, 13, 29};
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has(isa)) continue;
        for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
            for (size_t h = 0; h < sizeof sides / sizeof *sides; h++)
                run_one(&p, isa, channels[c], channels[(c * 3 + h) % 11], sides[h],
                        sides[(h * 5 + c) % 7], (int)(c * 7 + h));
    }
    free_problem(&p);
}

/* Has more input channels than a part of the sums, and images with rows that end within a tile. */
static void sources_of_many_parts_are_summed(void **state)
{
    (void)state;
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int kind = 0; isa_has(isa) && kind < 8; kind++)
            run_one(&p, isa, 159, 33, 31, 32, kind);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_set_gives_the_sums),
                                       cmocka_unit_test(sources_of_many_parts_are_summed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
