/* Transposed convolutions whose windows do not overlap, with each instruction set of the machine,
 * compared with sums in double. */
#include "kernels/conv/tiling_impl.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/support.h"

static float *draw(int64_t n)
{
    float *values = calloc((size_t)n + 1, sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)(rand() % 2001 - 1000) / 1000.0f;
    return values;
}

static void negate(const void *user, float *values, int64_t n)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) values[i] = -values[i];
}

/* Returns out[n][od][op][oq][k] for x [n][d][p][q][c] and a weight [c][k][t][r][s]. */
static double want(const tiling_t *t, const float *weight, const float *bias, int64_t i)
{
    int64_t at[3], place = 0, from = 0;
    const int64_t k = i % t->n_outputs;
    i /= t->n_outputs;
    for (int d = 2; d >= 0; d--) {
        at[d] = i % (t->in[d] * t->tile[d]);
        i /= t->in[d] * t->tile[d];
    }
    for (int d = 0; d < 3; d++) {
        place = place * t->tile[d] + at[d] % t->tile[d];
        from = from * t->in[d] + at[d] / t->tile[d];
    }
    from += i * t->in[0] * t->in[1] * t->in[2];
    const int64_t n_places = t->tile[0] * t->tile[1] * t->tile[2];
    double sum = bias != NULL ? bias[k] : 0.0;
    for (int64_t c = 0; c < t->n_inputs; c++)
        sum += (double)t->x[from * t->n_inputs + c] *
               weight[(c * t->n_outputs + k) * n_places + place];
    return t->finish != NULL ? -sum : sum;
}

static void check(tiling_t t, bool has_bias, bool has_finish)
{
    const int64_t n_places = t.tile[0] * t.tile[1] * t.tile[2];
    const int64_t n_x = t.n_images * t.in[0] * t.in[1] * t.in[2] * t.n_inputs;
    const int64_t n_out = n_x / t.n_inputs * n_places * t.n_outputs;
    float *x = draw(n_x), *weight = draw(t.n_inputs * t.n_outputs * n_places);
    float *bias = draw(t.n_outputs), *out = draw(n_out);
    float *packed = draw(tiling_weight_size(t.n_inputs, t.n_outputs, n_places));
    float *spread = draw(tiling_bias_size(t.n_outputs, n_places));
    tiling_pack(t.n_inputs, t.n_outputs, n_places, weight, packed);
    tiling_spread(t.n_outputs, n_places, has_bias ? bias : NULL, spread);
    t.x = x;
    t.weight = packed;
    t.bias = spread;
    t.out = out;
    t.finish = has_finish ? negate : NULL;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int n_threads = 1; n_threads <= 3 && isa_has((isa_t)isa); n_threads++) {
            for (int64_t i = 0; i <= n_out; i++) out[i] = 77.0f;
            tiling_run(&t, (isa_t)isa, n_threads);
            for (int64_t i = 0; i < n_out; i++)
                assert_true(fabs(out[i] - want(&t, weight, has_bias ? bias : NULL, i)) < 1e-4);
            assert_true(out[n_out] == 77.0f);
        }
    free(x);
    free(weight);
    free(bias);
    free(out);
    free(packed);
    free(spread);
}

static void channels_and_tiles_are_any(void **state)
{
    static const int64_t channels[] = {1, 3, 7, 16, 17, 31};
    static const int64_t tiles[][3] = {{1, 2, 2}, {1, 1, 3}, {2, 3, 1}, {1, 4, 4}};
    (void)state;
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (size_t k = 0; k < sizeof channels / sizeof *channels; k++) {
            const int64_t *tile = tiles[(c + k) % 4];
            check((tiling_t){.n_images = 2,
                             .n_inputs = channels[c],
                             .n_outputs = channels[k],
                             .in = {1 + (int64_t)c % 2, 2, 1 + (int64_t)k * 5},
                             .tile = {tile[0], tile[1], tile[2]}},
                  c % 2 == 0, k % 3 == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(channels_and_tiles_are_any)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
