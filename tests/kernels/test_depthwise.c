/* Depthwise convolution, and convolution with small groups, with each instruction set of the
 * machine, compared with sums in double. */
#include "kernels/conv/depthwise_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/blocks.h"
#include "tests/support/support.h"

#define MAX_ELEMENTS (4 * 80 * 24 * 24)
#define AFTER 12345.0f /* after the result; must not change */

typedef struct problem {
    float *x, *weight, *bias, *out;
    double *sums; /* expected sums */
} problem_t;

/* Offset of element i of a channel in x or the result. */
static int64_t offset(const depthwise_t *d, int64_t plane, int lanes, int64_t n, int64_t c,
                      int64_t i)
{
    return d->is_last ? (n * plane + i) * d->n_channels + c
                      : blocks_at(d->n_channels, plane, lanes, n, c, i);
}

/* Fills with random numbers. Channels that pad x and the weight to blocks are zero. */
static void fill(const depthwise_t *d, const problem_t *p, int lanes)
{
    const int64_t plane = d->height * d->width, window = (int64_t)d->kernel * d->kernel;
    memset(p->x, 0, MAX_ELEMENTS * sizeof *p->x);
    memset(p->weight, 0, MAX_ELEMENTS * sizeof *p->weight);
    for (int64_t n = 0; n < d->n_images; n++)
        for (int64_t c = 0; c < d->n_channels; c++)
            for (int64_t i = 0; i < plane; i++)
                p->x[offset(d, plane, lanes, n, c, i)] = blocks_draw();
    for (int64_t c = 0; c < d->n_channels; c++) {
        p->bias[c] = blocks_draw();
        for (int64_t i = 0; i < window * d->group; i++)
            p->weight[blocks_at(d->n_channels, window * d->group, lanes, 0, c, i)] = blocks_draw();
    }
    for (int64_t i = 0; i < MAX_ELEMENTS; i++) p->out[i] = AFTER;
}

/* Returns what one element of the kernel adds to channel c: a sum over the channels of its
 * group. */
static double add_group(const depthwise_t *d, int lanes, int64_t n, int64_t c, int64_t at,
                        int64_t element)
{
    const int64_t n_elements = (int64_t)d->kernel * d->kernel * d->group;
    const int64_t first = c / d->group * d->group;
    double sum = 0.0;
    for (int j = 0; j < d->group; j++)
        sum += (double)d->x[offset(d, d->height * d->width, lanes, n, first + j, at)] *
               d->weight[blocks_at(d->n_channels, n_elements, lanes, 0, c, element * d->group + j)];
    return sum;
}

static double wanted(const depthwise_t *d, int lanes, int64_t n, int64_t c, int64_t p, int64_t q)
{
    double sum = d->bias != NULL ? d->bias[c] : 0.0;
    for (int r = 0; r < d->kernel; r++)
        for (int s = 0; s < d->kernel; s++) {
            const int64_t h = p * d->stride + r - d->top, w = q * d->stride + s - d->left;
            if (h < 0 || h >= d->height || w < 0 || w >= d->width) continue;
            sum += add_group(d, lanes, n, c, h * d->width + w, r * d->kernel + s);
        }
    if (d->is_clamped) sum = fmin(fmax(sum, d->lower), d->upper);
    return d->finish != NULL ? 2.0 * sum : sum;
}

static void twice(const void *user, float *row, int64_t n)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) row[i] *= 2.0f;
}

/* Computes the expected sums, in the order in which check() reads them. */
static void expect(const depthwise_t *d, const problem_t *p, int lanes)
{
    double *sum = p->sums;
    for (int64_t n = 0; n < d->n_images; n++)
        for (int64_t c = 0; c < d->n_channels; c++)
            for (int64_t h = 0; h < d->out_height; h++)
                for (int64_t w = 0; w < d->out_width; w++) *sum++ = wanted(d, lanes, n, c, h, w);
}

static void check(const depthwise_t *d, const problem_t *p, int lanes, const char *what)
{
    const int64_t plane = d->out_height * d->out_width;
    const double *sums = p->sums;
    for (int64_t n = 0; n < d->n_images; n++)
        for (int64_t c = 0; c < d->n_channels; c++)
            for (int64_t i = 0; i < plane; i++) {
                const double sum = *sums++;
                const float given = d->out[offset(d, plane, lanes, n, c, i)];
                if (!(fabs(given - sum) <= 60.0 * d->group * FLT_EPSILON))
                    fail_msg("%s: kernel %d, stride %d, groups of %d, %lld channels%s, %lld by "
                             "%lld: channel %lld, element %lld is %g, not %g",
                             what, d->kernel, d->stride, d->group, (long long)d->n_channels,
                             d->is_last ? " last" : "", (long long)d->height, (long long)d->width,
                             (long long)c, (long long)i, (double)given, sum);
            }
    const int64_t n_blocks = (d->n_channels + lanes - 1) / lanes;
    assert_true(d->out[d->n_images * n_blocks * plane * lanes] == AFTER);
}

static void run_one(const problem_t *p, isa_t isa, int64_t n_channels, int group, int kernel,
                    int64_t height, int64_t width, int kind)
{
    static const int threads[] = {1, 2, 5};
    const int stride = (kind & 1) != 0 ? 2 : 1;
    const int64_t pad = (kind & 2) != 0 ? kernel / 2 : 0, lanes = isa_lanes(isa);
    const bool is_last = (kind & 4) != 0;
    if (is_last && (group > 1 || n_channels % lanes != 0)) return;
    depthwise_t d = {.kernel = kernel,
                     .stride = stride,
                     .group = group,
                     .is_last = is_last,
                     .n_images = n_channels % 2 + 1,
                     .n_channels = n_channels,
                     .height = height,
                     .width = width,
                     .out_height = (height + 2 * pad - kernel) / stride + 1,
                     .out_width = (width + 2 * pad - kernel) / stride + 1,
                     .top = pad,
                     .left = pad,
                     .x = p->x,
                     .weight = p->weight,
                     .bias = kind % 3 == 0 ? NULL : p->bias,
                     .is_clamped = kind % 5 < 2,
                     .lower = kind % 5 == 0 ? 0.0f : -0.25f,
                     .upper = kind % 5 == 0 ? (float)INFINITY : 0.5f,
                     .finish = kind % 4 == 1 && !is_last ? twice : NULL,
                     .out = p->out};
    if (height + 2 * pad < kernel || width + 2 * pad < kernel) return;
    fill(&d, p, (int)lanes);
    expect(&d, p, (int)lanes);
    for (int i = 0; i < 3; i++) {
        depthwise_run(&d, isa, threads[i]);
        check(&d, p, (int)lanes, isa_name(isa));
    }
}

/* Runs sizes smaller than a tile, as large, and of several tiles. Heights and widths differ. */
static void run_sides(const problem_t *p, isa_t isa, int64_t n_channels, int group, int kernel)
{
    static const int64_t sides[] = {1, 2, 3, 5, 7, 8, 11, 14, 23};
    for (size_t h = 0; h < sizeof sides / sizeof *sides; h++)
        for (int kind = 0; kind < 8; kind++)
            run_one(p, isa, n_channels, group, kernel, sides[h],
                    sides[(h * 5 + (size_t)n_channels) % 9], kind);
}

static problem_t *make(void)
{
    static problem_t p;
    p.x = malloc(MAX_ELEMENTS * sizeof(float));
    p.weight = malloc(MAX_ELEMENTS * sizeof(float));
    p.out = malloc(MAX_ELEMENTS * sizeof(float));
    p.bias = malloc(80 * sizeof(float));
    p.sums = malloc(MAX_ELEMENTS * sizeof(double));
    return &p;
}

static void drop(problem_t *p)
{
    free(p->x);
    free(p->weight);
    free(p->out);
    free(p->bias);
    free(p->sums);
}

static void every_set_gives_the_sums(void **state)
{
    (void)state;
    static const int64_t channels[] = {1, 3, 7, 16, 17, 31, 32, 40};
    problem_t *p = make();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has(isa)) continue;
        for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
            for (int kernel = 3; kernel <= 7; kernel += 2)
                run_sides(p, isa, channels[c], 1, kernel);
    }
    drop(p);
}

/* Groups may be smaller than a block of lanes, as large, or larger. */
static void every_set_gives_the_sums_of_groups(void **state)
{
    (void)state;
    static const struct {
        int64_t channels;
        int group;
    } cases[] = {{2, 2}, {34, 2}, {4, 4}, {20, 4}, {8, 8}, {24, 8}, {16, 16}, {48, 16}, {64, 32}};
    problem_t *p = make();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has(isa)) continue;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            run_sides(p, isa, cases[i].channels, cases[i].group, 3);
    }
    drop(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_set_gives_the_sums),
                                       cmocka_unit_test(every_set_gives_the_sums_of_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
