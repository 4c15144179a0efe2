/* Products with weights in grouped formats, with each instruction set of the machine: compared with
 * sums in double over the widened elements. */
#include "kernels/linear/grouped_product_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/convert/grouped_impl.h"
#include "tests/support/blocks.h"
#include "tests/support/support.h"

#define MOST_OUTPUTS 100
#define MOST_INPUTS 500
#define MOST_ROWS 40

typedef struct problem {
    float x[MOST_ROWS * (MOST_INPUTS + 1)], bias[MOST_OUTPUTS], weight[MOST_OUTPUTS * MOST_INPUTS];
    float out[MOST_ROWS * (MOST_OUTPUTS + 1)], before[MOST_ROWS * (MOST_OUTPUTS + 1)];
    uint8_t codes[MOST_OUTPUTS * MOST_INPUTS];
    char scales[MOST_OUTPUTS * MOST_INPUTS], offsets[MOST_OUTPUTS * MOST_INPUTS];
} problem_t;

static tensor_t *make_weight(context_t *ctx, problem_t *p, const grouping_t *grouping,
                             int64_t n_outputs, int64_t n_inputs)
{
    tensor_t *weight = NULL;
    const int64_t n = n_outputs * ((n_inputs - 1) / grouping->group + 1);
    const int64_t size = (int64_t)dtype_size(grouping->scale);
    for (int64_t i = 0; i < n_outputs * n_inputs; i++)
        p->codes[i] = (uint8_t)((rand() & ((1 << grouping->bits) - 1)) -
                                (grouping->is_signed ? 1 << (grouping->bits - 1) : 0));
    for (int64_t i = 0; i < n; i++) {
        dtype_store(grouping->scale, p->scales + i * size, blocks_draw() * 0x1p-3);
        if (grouping->offset == GROUPING_MINIMA)
            dtype_store(grouping->scale, p->offsets + i * size, blocks_draw());
        else
            p->offsets[i] = (char)p->codes[i];
    }
    CHECK_OK(ctx,
             tensor_grouped(ctx, grouping, 2, (int64_t[]){n_outputs, n_inputs}, p->codes, p->scales,
                            grouping->offset == GROUPING_NONE ? NULL : p->offsets, &weight));
    CHECK_OK(ctx, tensor_read(ctx, weight, p->weight, sizeof p->weight));
    return weight;
}

/* Adds 1 to a result, so that the test sees that each result is finished once. */
static void add_one(const void *user, int64_t row, int64_t column, int64_t n, float *values)
{
    (void)user, (void)row, (void)column;
    for (int64_t i = 0; i < n; i++) values[i] += 1.0f;
}

/* The kernel sums codes before it scales them, so its rounding is bounded by the sizes of the
 * largest code and of the offset, and not of the element. */
static double bound_of(const grouped_t *g, const problem_t *p, int64_t output, double x_size)
{
    double largest = 0.0;
    for (int64_t i = 0; i < g->n_columns; i++) {
        const double value = fabs(p->weight[output * g->n_columns + i]);
        if (value > largest) largest = value;
    }
    return ((double)g->n_columns / 8.0 + 16.0) * FLT_EPSILON * (4.0 * largest + 4.0) * x_size;
}

static void check(const grouped_product_t *s, const problem_t *p, const char *what)
{
    const grouped_t *g = s->grouped;
    for (int64_t r = 0; r < s->n_rows; r++)
        for (int64_t o = 0; o < s->out_stride; o++) {
            const int64_t at = r * s->out_stride + o;
            if (o == g->n_rows) {
                assert_true(s->out[at] == p->before[at]);
                continue;
            }
            double sum = s->bias != NULL ? s->bias[o] : 0.0, x_size = 0.0;
            if (s->accumulates) sum += p->before[at];
            if (s->finish != NULL) sum += 1.0;
            for (int64_t i = 0; i < g->n_columns; i++) {
                sum += (double)s->x[r * s->x_stride + i] * p->weight[o * g->n_columns + i];
                x_size += fabs(s->x[r * s->x_stride + i]);
            }
            const double error = fabs(s->out[at] - sum);
            if (!(error <= bound_of(g, p, o, x_size + 1.0)))
                fail_msg("%s: %lld rows, %lld outputs, %lld inputs: element %lld, %lld is off by "
                         "%g of %g",
                         what, (long long)s->n_rows, (long long)g->n_rows, (long long)g->n_columns,
                         (long long)r, (long long)o, error, sum);
        }
}

static void run_one(context_t *ctx, problem_t *p, isa_t isa, const grouping_t *grouping,
                    int64_t n_rows, int64_t n_outputs, int64_t n_inputs)
{
    static const int threads[] = {1, 3};
    grouped_t grouped;
    tensor_t *weight = make_weight(ctx, p, grouping, n_outputs, n_inputs);
    const tensor_info_t *info = tensor_info(weight);
    assert_true(grouped_find(&info->format, info->sizes, &grouped));
    const grouped_product_t s = {.grouped = &grouped,
                                 .weight = tensor_bytes(weight),
                                 .n_rows = n_rows,
                                 .x = p->x,
                                 .x_stride = n_inputs + 1,
                                 .bias = n_outputs % 2 == 0 ? NULL : p->bias,
                                 .accumulates = n_inputs % 3 == 0,
                                 .out = p->out,
                                 .out_stride = n_outputs + 1,
                                 .finish = n_rows % 2 == 0 ? add_one : NULL};
    for (int64_t i = 0; i < n_rows * s.x_stride; i++) p->x[i] = blocks_draw();
    for (int64_t i = 0; i < n_outputs; i++) p->bias[i] = blocks_draw();
    for (int64_t i = 0; i < n_rows * s.out_stride; i++) p->before[i] = blocks_draw();
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        memcpy(p->out, p->before, sizeof p->out);
        const size_t n_bytes = grouped_product_scratch(&grouped, n_rows, threads[t]);
        void *scratch = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
        grouped_product_run(&s, isa, threads[t], scratch);
        free(scratch);
        check(&s, p, isa_name(isa));
    }
    tensor_release(weight);
}

static void products_equal_sums_in_double(void **state)
{
    static problem_t problem;
    static const dtype_t scales[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    static const int64_t outputs[] = {1, 16, 17, 40, 95}, inputs[] = {1, 16, 100, 384, 500};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 33};
    context_t *ctx = fixture_context(state);
    int n = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int bits = 2; bits <= 8 && isa_has((isa_t)isa); bits *= 2)
            for (int offset = 0; offset < 3; offset++)
                for (size_t r = 0; r < sizeof rows / sizeof *rows; r++, n++) {
                    const grouping_t grouping = {bits, n % 2 == 0, n % 5 == 0 ? 256 : 16 << n % 3,
                                                 scales[n % 3], (grouping_offset_t)offset};
                    run_one(ctx, &problem, (isa_t)isa, &grouping, rows[r], outputs[n % 5],
                            inputs[n / 3 % 5]);
                }
}

/* f16 scales with special values: denormals, the largest number, infinity and NaN. */
static void scales_of_f16_are_exact(void **state)
{
    static const uint16_t scales[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00,
                                      0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x3555, 0xb555,
                                      0x0200, 0x1234, 0x7e00, 0x4d2a};
    const grouping_t grouping = {4, true, 16, DTYPE_F16, GROUPING_NONE};
    context_t *ctx = fixture_context(state);
    int8_t codes[16 * 16];
    float x[16] = {1.0f}, out[16], scratch[1024];
    tensor_t *weight = NULL;
    grouped_t grouped;
    memset(codes, 1, sizeof codes);
    CHECK_OK(ctx,
             tensor_grouped(ctx, &grouping, 2, (int64_t[]){16, 16}, codes, scales, NULL, &weight));
    assert_true(grouped_find(&tensor_info(weight)->format, tensor_info(weight)->sizes, &grouped));
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const grouped_product_t s = {.grouped = &grouped,
                                     .weight = tensor_bytes(weight),
                                     .n_rows = 1,
                                     .x = x,
                                     .x_stride = 16,
                                     .out = out,
                                     .out_stride = 16};
        if (!isa_has((isa_t)isa)) continue;
        grouped_product_run(&s, (isa_t)isa, 1, scratch);
        for (int i = 0; i < 16; i++) {
            const float wanted = (float)dtype_load(DTYPE_F16, &scales[i]);
            if (isfinite(wanted))
                assert_true(out[i] == wanted);
            else
                assert_true(isfinite(out[i]) == 0);
        }
    }
    tensor_release(weight);
}

/* A column that is not finite makes the results of its row infinite or NaN, and of no other row. */
static void columns_that_are_not_finite_spoil_their_row_only(void **state)
{
    static problem_t problem;
    static const float values[] = {INFINITY, -INFINITY, NAN};
    const grouping_t grouping = {4, true, 32, DTYPE_F32, GROUPING_NONE};
    context_t *ctx = fixture_context(state);
    tensor_t *weight = make_weight(ctx, &problem, &grouping, 16, 64);
    grouped_t grouped;
    char *scratch = aligned_alloc(64, 1 << 16);
    assert_true(grouped_find(&tensor_info(weight)->format, tensor_info(weight)->sizes, &grouped));
    assert_true(grouped_product_scratch(&grouped, 2, 1) <= 1 << 16);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int i = 0; i < 3 && isa_has((isa_t)isa); i++) {
            float x[2 * 64], out[2 * 16];
            for (int c = 0; c < 2 * 64; c++) x[c] = 1e30f * blocks_draw();
            x[37] = values[i];
            const grouped_product_t s = {.grouped = &grouped,
                                         .weight = tensor_bytes(weight),
                                         .n_rows = 2,
                                         .x = x,
                                         .x_stride = 64,
                                         .out = out,
                                         .out_stride = 16};
            grouped_product_run(&s, (isa_t)isa, 1, scratch);
            for (int o = 0; o < 16; o++) {
                assert_true(isfinite(out[o]) == 0);
                assert_true(isfinite(out[16 + o]));
            }
        }
    free(scratch);
    tensor_release(weight);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(products_equal_sums_in_double), TEST(scales_of_f16_are_exact),
        TEST(columns_that_are_not_finite_spoil_their_row_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
