/* Pairs of a 1x1 convolution and a depthwise one, with each instruction set of the machine,
 * compared with sums in double. */
#include "kernels/conv/expand_depthwise_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/blocks.h"
#include "tests/support/support.h"

#define MAX_ELEMENTS (4 * 96 * 32 * 32)
#define AFTER 12345.0f /* after the result; must not change */

typedef struct problem {
    float *x, *expand, *weight, *expand_bias, *bias, *out;
    double *expanded; /* result of the 1x1 convolution, for one channel of one image */
} problem_t;

static int64_t expand_at(const expand_depthwise_t *pair, int lanes, int64_t k, int64_t c)
{
    const int64_t n_blocks = (pair->n_inputs + lanes - 1) / lanes;
    return ((k / lanes * n_blocks + c / lanes) * lanes + c % lanes) * lanes + k % lanes;
}

/* Fills with random numbers. Channels that pad x and the weights to blocks are zero. */
static void fill(const expand_depthwise_t *pair, const problem_t *p, int lanes)
{
    const int64_t plane = pair->height * pair->width, window = (int64_t)pair->kernel * pair->kernel;
    memset(p->x, 0, MAX_ELEMENTS * sizeof *p->x);
    memset(p->expand, 0, MAX_ELEMENTS * sizeof *p->expand);
    memset(p->weight, 0, MAX_ELEMENTS * sizeof *p->weight);
    for (int64_t n = 0; n < pair->n_images; n++)
        for (int64_t c = 0; c < pair->n_inputs; c++)
            for (int64_t i = 0; i < plane; i++)
                p->x[blocks_at(pair->n_inputs, plane, lanes, n, c, i)] = blocks_draw();
    for (int64_t k = 0; k < pair->n_channels; k++) {
        p->expand_bias[k] = blocks_draw();
        p->bias[k] = blocks_draw();
        for (int64_t c = 0; c < pair->n_inputs; c++)
            p->expand[expand_at(pair, lanes, k, c)] = blocks_draw();
        for (int64_t i = 0; i < window; i++)
            p->weight[blocks_at(pair->n_channels, window, lanes, 0, k, i)] = blocks_draw();
    }
}

static double act(const expand_depthwise_act_t *act, double sum)
{
    if (act->is_clamped) sum = fmin(fmax(sum, act->lower), act->upper);
    return act->finish != NULL ? 2.0 * sum : sum;
}

static void expand(const expand_depthwise_t *pair, const problem_t *p, int lanes, int64_t n,
                   int64_t k)
{
    const int64_t plane = pair->height * pair->width;
    for (int64_t i = 0; i < plane; i++) {
        double sum = pair->expand_bias != NULL ? pair->expand_bias[k] : 0.0;
        for (int64_t c = 0; c < pair->n_inputs; c++)
            sum += (double)p->x[blocks_at(pair->n_inputs, plane, lanes, n, c, i)] *
                   p->expand[expand_at(pair, lanes, k, c)];
        p->expanded[i] = act(&pair->expand_act, sum);
    }
}

static double wanted(const expand_depthwise_t *pair, const problem_t *p, int lanes, int64_t k,
                     int64_t y, int64_t q)
{
    const int64_t window = (int64_t)pair->kernel * pair->kernel;
    double sum = pair->bias != NULL ? pair->bias[k] : 0.0;
    for (int r = 0; r < pair->kernel; r++)
        for (int s = 0; s < pair->kernel; s++) {
            const int64_t h = y * pair->stride + r - pair->top;
            const int64_t w = q * pair->stride + s - pair->left;
            if (h < 0 || h >= pair->height || w < 0 || w >= pair->width) continue;
            sum +=
                p->expanded[h * pair->width + w] *
                p->weight[blocks_at(pair->n_channels, window, lanes, 0, k, r * pair->kernel + s)];
        }
    return act(&pair->act, sum);
}

static void twice(const void *user, float *row, int64_t n)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) row[i] *= 2.0f;
}

static void check(const expand_depthwise_t *pair, const problem_t *p, isa_t isa)
{
    const int lanes = isa_lanes(isa);
    const int64_t plane = pair->out_height * pair->out_width;
    for (int64_t n = 0; n < pair->n_images; n++)
        for (int64_t k = 0; k < pair->n_channels; k++) {
            expand(pair, p, lanes, n, k);
            for (int64_t i = 0; i < plane; i++) {
                const double sum = wanted(pair, p, lanes, k, i / pair->out_width,
                                          i % pair->out_width);
                const float given = p->out[blocks_at(pair->n_channels, plane, lanes, n, k, i)];
                if (!(fabs(given - sum) <= 600.0 * FLT_EPSILON))
                    fail_msg("%s: kernel %d, stride %d, %lld to %lld channels, %lld by %lld: "
                             "channel %lld, element %lld is %g, not %g",
                             isa_name(isa), pair->kernel, pair->stride, (long long)pair->n_inputs,
                             (long long)pair->n_channels, (long long)pair->height,
                             (long long)pair->width, (long long)k, (long long)i, (double)given,
                             sum);
            }
        }
    const int64_t n_blocks = (pair->n_channels + lanes - 1) / lanes;
    assert_true(p->out[pair->n_images * n_blocks * plane * lanes] == AFTER);
}

static void run_threads(const expand_depthwise_t *pair, const problem_t *p, isa_t isa)
{
    static const int threads[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) {
        const size_t bytes = expand_depthwise_scratch(pair, isa, threads[i]);
        float *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
        scratch[bytes / sizeof *scratch] = AFTER;
        for (int64_t j = 0; j < MAX_ELEMENTS; j++) p->out[j] = AFTER;
        expand_depthwise_run(pair, isa, threads[i], scratch);
        assert_true(scratch[bytes / sizeof *scratch] == AFTER);
        free(scratch);
        check(pair, p, isa);
    }
}

static void run_one(const problem_t *p, isa_t isa, int64_t n_inputs, int64_t n_channels,
                    int64_t height, int64_t width, int kind)
{
    const int kernel = (kind & 1) != 0 ? 5 : 3, stride = (kind & 2) != 0 ? 2 : 1;
    const int64_t pad = (kind & 4) != 0 ? kernel / 2 : 0;
    const expand_depthwise_t pair = {.kernel = kernel,
                                     .stride = stride,
                                     .n_images = n_channels % 2 + 1,
                                     .n_inputs = n_inputs,
                                     .n_channels = n_channels,
                                     .height = height,
                                     .width = width,
                                     .out_height = (height + 2 * pad - kernel) / stride + 1,
                                     .out_width = (width + 2 * pad - kernel) / stride + 1,
                                     .top = pad,
                                     .left = pad,
                                     .x = p->x,
                                     .expand = p->expand,
                                     .weight = p->weight,
                                     .expand_bias = kind % 3 == 1 ? NULL : p->expand_bias,
                                     .bias = kind % 3 == 0 ? NULL : p->bias,
                                     .expand_act = {.is_clamped = kind % 5 != 2,
                                                    .lower = kind % 5 == 0 ? 0.0f : -0.25f,
                                                    .upper = kind % 5 == 0 ? (float)INFINITY : 0.5f,
                                                    .finish = kind % 4 == 2 ? twice : NULL},
                                     .act = {.is_clamped = kind % 5 < 2,
                                             .lower = kind % 5 == 0 ? 0.0f : -0.25f,
                                             .upper = kind % 5 == 0 ? (float)INFINITY : 0.5f,
                                             .finish = kind % 4 == 1 ? twice : NULL},
                                     .out = p->out};
    if (height + 2 * pad < kernel || width + 2 * pad < kernel) return;
    fill(&pair, p, isa_lanes(isa));
    run_threads(&pair, p, isa);
}

static void every_set_gives_the_sums(void **state)
{
    (void)state;
    static const int64_t inputs[] = {1, 3, 7, 8, 16, 17, 24, 31};
    static const int64_t channels[] = {1, 7, 16, 31, 40, 64};
    static const int64_t sides[] = {1, 2, 5, 7, 14, 15, 27};
    problem_t p = {.x = malloc(MAX_ELEMENTS * sizeof(float)),
                   .expand = malloc(MAX_ELEMENTS * sizeof(float)),
                   .weight = malloc(MAX_ELEMENTS * sizeof(float)),
                   .expand_bias = malloc(64 * sizeof(float)),
                   .bias = malloc(64 * sizeof(float)),
                   .out = malloc(MAX_ELEMENTS * sizeof(float)),
                   .expanded = malloc(MAX_ELEMENTS * sizeof(double))};
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has(isa)) continue;
        for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
            for (size_t h = 0; h < sizeof sides / sizeof *sides; h++)
                for (int kind = 0; kind < 8; kind++)
                    run_one(&p, isa, inputs[(c + h) % 8], channels[c], sides[h],
                            sides[(h * 3 + c) % 7], kind);
    }
    free(p.x);
    free(p.expand);
    free(p.weight);
    free(p.expand_bias);
    free(p.bias);
    free(p.out);
    free(p.expanded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_set_gives_the_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
