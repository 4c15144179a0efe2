/* The product with many rows with each instruction set of the machine, compared with sums in
 * double. */
#include "kernels/linear/product_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/blocks.h"
#include "tests/support/support.h"

enum { MAX_ROWS = 450, GAP = 3, EXTRA_INPUTS = 2 };

typedef struct problem {
    product_t product;
    float *x, *weight, *bias, *out, *before, *scratch;
} problem_t;

static float *allocate(int64_t n, float value)
{
    float *floats = test_malloc((size_t)n * sizeof *floats);
    for (int64_t i = 0; i < n; i++) floats[i] = value;
    return floats;
}

static float weight_at(const product_t *p, int64_t output, int64_t input)
{
    return p->weight[output / PRODUCT_BLOCK * p->block_stride + input * PRODUCT_BLOCK +
                     output % PRODUCT_BLOCK];
}

/* Doubles each element and adds a number that depends on row and column. */
static void finish(const void *user, int64_t row, int64_t column, int64_t n, float *values)
{
    const float *step = user;
    for (int64_t i = 0; i < n; i++)
        values[i] = 2.0f * values[i] + *step * (float)(row - column - i);
}

/* Makes a problem. The weight's padding is NaN, so results show if it is read. */
static problem_t begin(int64_t n_rows, int64_t n_outputs, int64_t n_inputs)
{
    static const float step = 0.25f;
    problem_t p = {.product = {.n_rows = n_rows,
                               .n_outputs = n_outputs,
                               .n_inputs = n_inputs,
                               .x_stride = n_inputs + GAP,
                               .block_stride = (n_inputs + EXTRA_INPUTS) * PRODUCT_BLOCK,
                               .accumulates = n_rows % 2 == 0,
                               .out_stride = n_outputs + GAP,
                               .finish = n_inputs % 2 == 0 ? NULL : finish,
                               .user = &step}};
    const int64_t n_blocks = (n_outputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    p.x = allocate(n_rows * p.product.x_stride, NAN);
    p.weight = allocate(n_blocks * p.product.block_stride, NAN);
    p.bias = allocate(n_outputs, 0.0f);
    p.out = allocate(n_rows * p.product.out_stride, 77.0f);
    p.before = allocate(n_rows * p.product.out_stride, 77.0f);
    p.scratch = test_malloc(product_scratch(n_rows, n_inputs));
    for (int64_t r = 0; r < n_rows; r++) {
        for (int64_t i = 0; i < n_inputs; i++) p.x[r * p.product.x_stride + i] = blocks_draw();
        for (int64_t o = 0; o < n_outputs; o++)
            p.before[r * p.product.out_stride + o] = blocks_draw();
    }
    for (int64_t o = 0; o < n_outputs; o++) {
        p.bias[o] = blocks_draw();
        for (int64_t i = 0; i < n_inputs; i++)
            p.weight[o / PRODUCT_BLOCK * p.product.block_stride + i * PRODUCT_BLOCK +
                     o % PRODUCT_BLOCK] = blocks_draw();
    }
    p.product.x = p.x;
    p.product.weight = p.weight;
    p.product.bias = n_outputs % 2 == 0 ? p.bias : NULL;
    p.product.out = p.out;
    return p;
}

static void end(problem_t *p)
{
    float *memory[] = {p->x, p->weight, p->bias, p->out, p->before, p->scratch};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) test_free(memory[i]);
}

static void check_element(const problem_t *p, int64_t row, int64_t output, const char *what)
{
    const product_t *product = &p->product;
    const int64_t at = row * product->out_stride + output;
    double sum = product->bias != NULL ? product->bias[output] : 0.0, size = 0.0;
    if (product->accumulates) sum += p->before[at];
    size = fabs(sum);
    for (int64_t i = 0; i < product->n_inputs; i++) {
        const double term = (double)product->x[row * product->x_stride + i] *
                            weight_at(product, output, i);
        sum += term;
        size += fabs(term);
    }
    const double moved = *(const float *)product->user * (double)(row - output);
    if (product->finish != NULL) sum = 2.0 * sum + moved;
    const double bound = ((double)product->n_inputs + 8.0) * FLT_EPSILON * (2 * size + fabs(moved));
    if (!(fabs(p->out[at] - sum) <= bound))
        fail_msg("%s: %lld rows, %lld outputs, %lld inputs: element %lld, %lld is %g, not %g", what,
                 (long long)product->n_rows, (long long)product->n_outputs,
                 (long long)product->n_inputs, (long long)row, (long long)output, p->out[at], sum);
}

static void run_one(isa_t isa, int64_t n_rows, int64_t n_outputs, int64_t n_inputs, int step)
{
    static const int threads[] = {1, 2, 5};
    problem_t p = begin(n_rows, n_outputs, n_inputs);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        memcpy(p.out, p.before, (size_t)(n_rows * p.product.out_stride) * sizeof(float));
        product_run(&p.product, isa, threads[t], p.scratch);
        for (int64_t r = 0; r < n_rows; r++) {
            for (int64_t o = r % step; o < n_outputs; o += step)
                check_element(&p, r, o, isa_name(isa));
            for (int i = 0; i < GAP; i++)
                assert_true(p.out[r * p.product.out_stride + n_outputs + i] == 77.0f);
        }
    }
    end(&p);
}

static void every_instruction_set_sums_as_double_does(void **state)
{
    static const int64_t rows[] = {1, 2, 3, 5, 6, 7, 8, 13, 31};
    static const int64_t outputs[] = {1, 7, 16, 17, 31, 64, 100};
    static const int64_t inputs[] = {1, 3, 17, 31, 64};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
                for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
                    run_one((isa_t)isa, rows[r], outputs[o], inputs[i], 1);
    }
}

/* Has more rows than are copied at once, and more inputs than are multiplied at once. */
static void many_rows_and_inputs_go_in_parts(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        run_one((isa_t)isa, MAX_ROWS, 65, 31, 5);
        run_one((isa_t)isa, MAX_ROWS / 2, 130, 64, 5);
        run_one((isa_t)isa, 197, 129, 801, 17);
        run_one((isa_t)isa, 16, 192, 768, 3);
    }
}

/* Checks every element of the blocks, and that the memory after them is unchanged. */
static void check_packed(isa_t isa, int64_t n_outputs, int64_t n_inputs)
{
    const int64_t n_blocks = (n_outputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
    const int64_t block = (n_inputs + EXTRA_INPUTS) * PRODUCT_BLOCK, stride = n_inputs + GAP;
    float *rows = allocate(n_outputs * stride, NAN), *to = allocate(n_blocks * block, 77.0f);
    for (int64_t o = 0; o < n_outputs; o++)
        for (int64_t i = 0; i < n_inputs; i++) rows[o * stride + i] = blocks_draw();
    const product_pack_t pack = {n_outputs, n_inputs, rows, stride, to, block};
    product_pack(&pack, isa);
    for (int64_t o = 0; o < n_blocks * PRODUCT_BLOCK; o++)
        for (int64_t i = 0; i < n_inputs + EXTRA_INPUTS; i++) {
            const float is = to[o / PRODUCT_BLOCK * block + i * PRODUCT_BLOCK + o % PRODUCT_BLOCK];
            const float wanted = o < n_outputs ? rows[o * stride + i] : 0.0f;
            assert_true(is == (i < n_inputs ? wanted : 77.0f));
        }
    test_free(rows);
    test_free(to);
}

static void rows_become_blocks(void **state)
{
    static const int64_t sizes[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 70};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (size_t o = 0; isa_has((isa_t)isa) && o < sizeof sizes / sizeof *sizes; o++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                check_packed((isa_t)isa, sizes[o], sizes[i]);
}

static void scratch_holds_the_rows_that_are_copied_at_once(void **state)
{
    (void)state;
    assert_int_equal(product_scratch(7, 31), 7 * 31 * sizeof(float));
    assert_int_equal(product_scratch(1000, 31), product_scratch(2000, 31));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_sums_as_double_does),
        cmocka_unit_test(many_rows_and_inputs_go_in_parts),
        cmocka_unit_test(rows_become_blocks),
        cmocka_unit_test(scratch_holds_the_rows_that_are_copied_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
