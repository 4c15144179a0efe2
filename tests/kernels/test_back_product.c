/* Products over the outputs of a weight in blocks, on every instruction set that the machine has,
 * against sums in double. */
#include "kernels/back_product_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/support.h"

static float draw(void)
{
    return (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
}

static float *draw_many(int64_t n)
{
    float *floats = test_malloc((size_t)n * sizeof *floats);
    for (int64_t i = 0; i < n; i++) floats[i] = draw();
    return floats;
}

static int64_t place(const back_product_t *p, int64_t output, int64_t input)
{
    const int64_t n = back_product_blocks(p->n_inputs, p->block_inputs);
    const int64_t block = output / p->block_outputs * n + input / p->block_inputs;
    return (block * p->block_inputs + input % p->block_inputs) * p->block_outputs +
           output % p->block_outputs;
}

static void check(const back_product_t *p, const char *isa)
{
    for (int64_t r = 0; r < p->n_rows; r++)
        for (int64_t i = 0; i < p->n_inputs; i++) {
            double sum = 0.0, size = 0.0;
            for (int64_t o = 0; o < p->n_outputs; o++) {
                const double term = (double)p->grad[r * p->n_outputs + o] *
                                    (double)p->weight[place(p, o, i)];
                sum += term;
                size += fabs(term);
            }
            const double got = (double)p->out[r * p->n_inputs + i];
            if (!(fabs(got - sum) <= ((double)p->n_outputs + 8.0) * FLT_EPSILON * size))
                fail_msg(
                    "%s: %lld rows, %lld outputs, %lld inputs: element %lld, %lld is %g, not %g",
                    isa, (long long)p->n_rows, (long long)p->n_outputs, (long long)p->n_inputs,
                    (long long)r, (long long)i, got, sum);
        }
}

/* Inputs that are padded have a weight of NaN, which may not reach a result; outputs that are
 * padded have zero, as oneDNN leaves them, and the gradient none. */
static void run_one(isa_t isa, int64_t block_inputs, int64_t block_outputs, int64_t n_rows,
                    int64_t n_outputs, int64_t n_inputs)
{
    static const int threads[] = {1, 2, 5};
    back_product_t p = {.n_rows = n_rows,
                        .n_outputs = n_outputs,
                        .n_inputs = n_inputs,
                        .block_inputs = block_inputs,
                        .block_outputs = block_outputs};
    const int64_t outputs = back_product_blocks(n_outputs, block_outputs) * block_outputs;
    const int64_t inputs = back_product_blocks(n_inputs, block_inputs) * block_inputs;
    float *grad = draw_many(n_rows * n_outputs), *weight = draw_many(outputs * inputs);
    float *out = draw_many(n_rows * n_inputs + 1);
    void *scratch = test_malloc(back_product_scratch(n_rows, n_outputs, block_outputs));
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < inputs; i++)
            if (i >= n_inputs)
                weight[place(&p, o, i)] = NAN;
            else if (o >= n_outputs)
                weight[place(&p, o, i)] = 0.0f;
    p.grad = grad;
    p.weight = weight;
    p.out = out;
    out[n_rows * n_inputs] = 77.0f;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        for (int64_t i = 0; i < n_rows * n_inputs; i++) out[i] = NAN;
        back_product_run(&p, isa, threads[t], scratch);
        check(&p, isa_name(isa));
        assert_true(out[n_rows * n_inputs] == 77.0f);
    }
    test_free(grad);
    test_free(weight);
    test_free(out);
    test_free(scratch);
}

static void every_instruction_set_sums_as_double_does(void **state)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 17, BACK_PRODUCT_ROWS};
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

/* Several parts of the outputs, of which the next is fetched ahead. */
static void many_outputs_go_in_parts(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        run_one((isa_t)isa, 16, 64, 9, 1111, 50);
        run_one((isa_t)isa, 4, 512, 3, 1500, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_sums_as_double_does),
        cmocka_unit_test(many_outputs_go_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
