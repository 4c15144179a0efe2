/* Products with a blocked weight, summed over its inputs or its outputs, with each instruction set
 * of the machine, compared with sums in double. */
#include "kernels/linear/rows_product_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/blocks.h"
#include "tests/support/support.h"

static float *draw_many(int64_t n)
{
    float *floats = test_malloc((size_t)n * sizeof *floats);
    for (int64_t i = 0; i < n; i++) floats[i] = blocks_draw();
    return floats;
}

static int64_t padded(const axis_t *axis)
{
    return axis_blocks(axis) * axis->block;
}

static void check(const rows_product_t *p, const char *isa)
{
    for (int64_t r = 0; r < p->n_rows; r++)
        for (int64_t j = 0; j < p->results.n; j++) {
            double sum = p->bias != NULL ? (double)p->bias[j] : 0.0, size = fabs(sum);
            for (int64_t k = 0; k < p->terms.n; k++) {
                const double term = (double)p->x[r * p->terms.n + k] *
                                    (double)
                                        p->weight[axis_at(&p->terms, k) + axis_at(&p->results, j)];
                sum += term;
                size += fabs(term);
            }
            const double got = (double)p->out[r * p->results.n + j];
            if (!(fabs(got - sum) <= ((double)p->terms.n + 8.0) * FLT_EPSILON * size))
                fail_msg(
                    "%s: %lld rows, %lld terms, %lld results: element %lld, %lld is %g, not %g",
                    isa, (long long)p->n_rows, (long long)p->terms.n, (long long)p->results.n,
                    (long long)r, (long long)j, got, sum);
        }
}

/* Makes a random weight. Its padding is NaN, so results show if it is read. */
static float *draw_weight(const rows_product_t *p)
{
    float *weight = draw_many(padded(&p->terms) * padded(&p->results));
    for (int64_t k = 0; k < padded(&p->terms); k++)
        for (int64_t j = 0; j < padded(&p->results); j++)
            if (k >= p->terms.n || j >= p->results.n)
                weight[axis_at(&p->terms, k) + axis_at(&p->results, j)] = NAN;
    return weight;
}

static void run_on(const rows_product_t *product, isa_t isa)
{
    static const int threads[] = {1, 2, 5};
    rows_product_t p = *product;
    const int64_t n_out = p.n_rows * p.results.n;
    float *x = draw_many(p.n_rows * p.terms.n), *weight = draw_weight(&p);
    float *bias = draw_many(p.results.n), *out = draw_many(n_out + 1);
    void *scratch = test_malloc(rows_product_scratch(p.n_rows, p.terms.n));
    p.x = x;
    p.weight = weight;
    p.out = out;
    out[n_out] = 77.0f;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        for (int64_t i = 0; i < n_out; i++) out[i] = NAN;
        p.bias = t % 2 == 0 ? bias : NULL;
        rows_product_run(&p, isa, threads[t], scratch);
        check(&p, isa_name(isa));
        assert_true(out[n_out] == 77.0f);
    }
    test_free(x);
    test_free(weight);
    test_free(bias);
    test_free(out);
    test_free(scratch);
}

/* Sums over inputs, as a linear layer does, and over outputs, as the gradient of its input does. */
static void run_one(isa_t isa, int64_t block_inputs, int64_t block_outputs, int64_t n_rows,
                    int64_t n_outputs, int64_t n_inputs)
{
    const int64_t size = block_inputs * block_outputs;
    const axis_t inputs = {n_inputs, block_inputs, block_outputs, size};
    const axis_t outputs = {n_outputs, block_outputs, 1, axis_blocks(&inputs) * size};
    const rows_product_t forward = {.n_rows = n_rows, .terms = inputs, .results = outputs};
    const rows_product_t backward = {.n_rows = n_rows, .terms = outputs, .results = inputs};
    run_on(&backward, isa);
    if (block_outputs <= ROWS_PRODUCT_BLOCK) run_on(&forward, isa);
}

static void every_instruction_set_sums_as_double_does(void **state)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 17, ROWS_PRODUCT_ROWS};
    static const int64_t outputs[] = {1, 3, 17, 31, 64, 100, 300};
    static const int64_t inputs[] = {1, 3, 7, 17, 31};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
                for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
                    run_one((isa_t)isa, r % 2 == 0 ? 16 : 8, o % 2 == 0 ? 64 : 16, rows[r],
                            outputs[o], inputs[i]);
    }
}

/* Sums have several parts; while it computes a part, the kernel prefetches the next. */
static void many_terms_go_in_parts(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        run_one((isa_t)isa, 16, 64, 9, 1111, 50);
        run_one((isa_t)isa, 16, 64, 20, 100, 1033);
        run_one((isa_t)isa, 4, 512, 3, 1500, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_sums_as_double_does),
        cmocka_unit_test(many_terms_go_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
