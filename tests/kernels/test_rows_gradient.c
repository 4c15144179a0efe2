/* The gradient of a blocked weight from few rows, with each instruction set of the machine,
 * compared with sums in double. Neither tiles nor the number of threads may change the bits. */
#include "kernels/linear/rows_gradient_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static float *draw_many(int64_t n)
{
    float *floats = test_malloc((size_t)n * sizeof *floats);
    for (int64_t i = 0; i < n; i++) floats[i] = (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
    return floats;
}

static float *fill_nan(int64_t n)
{
    float *floats = test_malloc((size_t)n * sizeof *floats);
    for (int64_t i = 0; i < n; i++) floats[i] = NAN;
    return floats;
}

static int64_t padded(const axis_t *axis)
{
    return axis_blocks(axis) * axis->block;
}

static void check_element(const rows_gradient_t *g, const float *out, int64_t j, int64_t k,
                          isa_t isa)
{
    const double got = (double)out[axis_at(&g->outputs, j) + axis_at(&g->inputs, k)];
    double sum = 0.0, size = 0.0;
    if (j < g->outputs.n && k < g->inputs.n)
        for (int64_t r = 0; r < g->n_rows; r++) {
            const double term = (double)g->grad[r * g->outputs.n + j] *
                                (double)g->x[r * g->inputs.n + k];
            sum += term;
            size += fabs(term);
        }
    if (!(fabs(got - sum) <= (double)g->n_rows * FLT_EPSILON * size))
        fail_msg("%s: %lld rows, %lld outputs, %lld inputs: element %lld, %lld is %g, not %g",
                 isa_name(isa), (long long)g->n_rows, (long long)g->outputs.n,
                 (long long)g->inputs.n, (long long)j, (long long)k, got, sum);
}

/* Checks all elements. Padding must be zero. */
static void check(const rows_gradient_t *g, const float *out, isa_t isa)
{
    for (int64_t j = 0; j < padded(&g->outputs); j++)
        for (int64_t k = 0; k < padded(&g->inputs); k++) check_element(g, out, j, k, isa);
}

static void keep_tile(void *user, int64_t first, int64_t n, const float *tile)
{
    memcpy((float *)user + first, tile, (size_t)n * sizeof *tile);
}

static void run_one(isa_t isa, int64_t block_inputs, int64_t block_outputs, int64_t n_rows,
                    int64_t n_outputs, int64_t n_inputs)
{
    static const int threads[] = {1, 2, 5};
    const int64_t size = block_inputs * block_outputs;
    const axis_t inputs = {n_inputs, block_inputs, block_outputs, size};
    const axis_t outputs = {n_outputs, block_outputs, 1, axis_blocks(&inputs) * size};
    const int64_t n = padded(&inputs) * padded(&outputs);
    float *x = draw_many(n_rows * n_inputs), *grad = draw_many(n_rows * n_outputs);
    float *whole = fill_nan(n), *tiles = NULL;
    rows_gradient_t g = {n_rows, outputs, inputs, x, grad, whole, NULL, NULL, {NULL}};
    if (!rows_gradient_fits(isa, block_outputs, block_inputs)) fail_msg("%s", isa_name(isa));
    rows_gradient_run(&g, isa, 1);
    check(&g, whole, isa);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        tiles = fill_nan(n);
        g.out = NULL;
        g.take = keep_tile;
        g.user = tiles;
        for (size_t i = 0; i < ROWS_GRADIENT_AHEAD; i++) g.ahead[i] = i < t ? whole : NULL;
        rows_gradient_run(&g, isa, threads[t]);
        assert_memory_equal(tiles, whole, (size_t)n * sizeof *whole);
        test_free(tiles);
    }
    test_free(x);
    test_free(grad);
    test_free(whole);
}

static void every_instruction_set_sums_as_double_does(void **state)
{
    static const int64_t rows[] = {1, 2, 3, 5, 7, 16, 17, 31, ROWS_GRADIENT_ROWS};
    static const int64_t outputs[] = {1, 3, 17, 31, 64, 100};
    static const int64_t inputs[] = {1, 3, 7, 17, 31};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
                for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
                    run_one((isa_t)isa, r % 2 == 0 ? 16 : 4, o % 2 == 0 ? 64 : 16, rows[r],
                            outputs[o], inputs[i]);
    }
}

/* Inputs are computed in several chunks of several tiles. Blocks have more vectors than are summed
 * at once. */
static void many_inputs_go_in_chunks(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        run_one((isa_t)isa, 16, 64, 17, 200, 1111);
        run_one((isa_t)isa, 64, 64, 64, 70, 300);
        run_one((isa_t)isa, 8, 48, 3, 100, 1033);
        run_one((isa_t)isa, 8, isa_lanes((isa_t)isa), 64, 20, 1033);
    }
}

static void blocks_that_do_not_fit_are_told(void **state)
{
    (void)state;
    assert_false(rows_gradient_fits(ISA_PORTABLE, 4, 16));
    assert_false(rows_gradient_fits(ISA_AVX512, 24, 16));
    assert_false(rows_gradient_fits(ISA_AVX512, 64, 2));
    assert_false(rows_gradient_fits(ISA_AVX2, 128, 16));
    assert_true(rows_gradient_fits(ISA_AVX2, 24, 16));
}

/* Checks the sum of each column. Computing columns in two parts must give the same bits. */
static void biases_are_sums_of_rows(void **state)
{
    enum { ROWS = 17, OUTPUTS = 31 };
    float *grad = draw_many(ROWS * OUTPUTS), whole[OUTPUTS], part[OUTPUTS];
    (void)state;
    rows_gradient_bias(grad, ROWS, OUTPUTS, 0, OUTPUTS, whole);
    for (int64_t j = 0; j < OUTPUTS; j++) {
        double sum = 0.0;
        for (int64_t r = 0; r < ROWS; r++) sum += (double)grad[r * OUTPUTS + j];
        assert_true(fabs((double)whole[j] - sum) <= ROWS * FLT_EPSILON * ROWS);
    }
    rows_gradient_bias(grad, ROWS, OUTPUTS, 0, 7, part);
    rows_gradient_bias(grad, ROWS, OUTPUTS, 7, OUTPUTS - 7, part + 7);
    assert_memory_equal(part, whole, sizeof whole);
    test_free(grad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_sums_as_double_does),
        cmocka_unit_test(many_inputs_go_in_chunks),
        cmocka_unit_test(blocks_that_do_not_fit_are_told),
        cmocka_unit_test(biases_are_sums_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
