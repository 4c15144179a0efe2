/* The split of images and weights by the parity (odd or even) of row and column, compared with its
 * definition. */
#include "kernels/conv/parities_impl.h"

#include <stdlib.h>

#include "tests/support/support.h"

static float draw(void)
{
    return (float)rand() / (float)RAND_MAX + 1.0f; /* never zero */
}

static void check(const parities_t *p)
{
    const int64_t n_blocks = (4 * p->n_channels + p->lanes - 1) / p->lanes;
    for (int64_t c = 0; c < n_blocks * p->lanes; c++)
        for (int64_t y = 0; y < p->split_height; y++)
            for (int64_t x = 0; x < p->split_width; x++) {
                const int64_t block = c / p->lanes, lane = c % p->lanes;
                const int64_t row = 2 * y + c % 4 / 2 - p->top, column = 2 * x + c % 2 - p->left;
                const bool has = c < 4 * p->n_channels && row >= 0 && row < p->height &&
                                 column >= 0 && column < p->width;
                const float want = has ? p->x[(c / 4 * p->height + row) * p->width + column] : 0.0f;
                const float is =
                    p->split[((block * p->split_height + y) * p->split_width + x) * p->lanes +
                             lane];
                if (is != want)
                    fail_msg("%lld by %lld, lanes %d: channel %lld, %lld %lld is %g, not %g",
                             (long long)p->height, (long long)p->width, p->lanes, (long long)c,
                             (long long)y, (long long)x, (double)is, (double)want);
            }
}

/* Padding is odd, even, larger than the image, or negative. */
static void elements_stand_by_their_parity(void **state)
{
    static const parities_t all[] = {{.n_channels = 3,
                                      .height = 9,
                                      .width = 12,
                                      .top = 3,
                                      .left = 3,
                                      .split_height = 8,
                                      .split_width = 9},
                                     {.n_channels = 1,
                                      .height = 8,
                                      .width = 7,
                                      .top = 2,
                                      .left = 0,
                                      .split_height = 6,
                                      .split_width = 5},
                                     {.n_channels = 4,
                                      .height = 1,
                                      .width = 1,
                                      .top = 5,
                                      .left = 4,
                                      .split_height = 7,
                                      .split_width = 7},
                                     {.n_channels = 2,
                                      .height = 10,
                                      .width = 11,
                                      .top = -1,
                                      .left = -2,
                                      .split_height = 4,
                                      .split_width = 3},
                                     {.n_channels = 5,
                                      .height = 6,
                                      .width = 5,
                                      .top = 0,
                                      .left = 1,
                                      .split_height = 3,
                                      .split_width = 12}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int lanes = 8; lanes <= 16; lanes += 8) {
            parities_t p = all[i];
            const size_t n = (size_t)(p.n_channels * p.height * p.width);
            const size_t n_blocks = (size_t)((4 * p.n_channels + lanes - 1) / lanes);
            const size_t n_split = n_blocks * (size_t)(lanes * p.split_height * p.split_width);
            float *x = test_malloc(n * sizeof *x), *split = test_malloc((n_split + 1) * sizeof *x);
            for (size_t j = 0; j < n; j++) x[j] = draw();
            for (size_t j = 0; j <= n_split; j++) split[j] = 77.0f;
            p.lanes = lanes;
            p.x = x;
            p.split = split;
            parities_split(&p, 1, p.split_height);
            parities_split(&p, 0, 1);
            check(&p);
            assert_true(split[n_split] == 77.0f);
            test_free(x);
            test_free(split);
        }
}

static void weights_are_split_alike(void **state)
{
    enum { OUTPUTS = 3, INPUTS = 2, MOST = 8 };
    (void)state;
    for (int size = 5; size <= MOST; size++) {
        float from[OUTPUTS * INPUTS * MOST * MOST], to[OUTPUTS * INPUTS * 4 * MOST * MOST];
        const int half = (size + 1) / 2;
        for (int i = 0; i < OUTPUTS * INPUTS * size * size; i++) from[i] = draw();
        parities_split_weight(OUTPUTS, INPUTS, size, from, to);
        for (int k = 0; k < OUTPUTS; k++)
            for (int c = 0; c < 4 * INPUTS; c++)
                for (int r = 0; r < half; r++)
                    for (int s = 0; s < half; s++) {
                        const int y = 2 * r + c % 4 / 2, x = 2 * s + c % 2;
                        const float want = y < size && x < size
                                               ? from[((k * INPUTS + c / 4) * size + y) * size + x]
                                               : 0.0f;
                        assert_true(to[((k * 4 * INPUTS + c) * half + r) * half + s] == want);
                    }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stand_by_their_parity),
        cmocka_unit_test(weights_are_split_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
