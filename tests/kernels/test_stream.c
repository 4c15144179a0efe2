/* The streaming product with each instruction set of the machine, compared with sums in double. */
#include "kernels/linear/stream_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dtype.h"
#include "tests/support/blocks.h"
#include "tests/support/support.h"

#define MAX_SIZE 1000

typedef struct problem {
    float *x, *bias, *out;
    char *weight, *scratch;
    float *stored;           /* the weight's elements as stored, which may be rounded */
    double *expected, *size; /* for each result: the sum, and the sum of magnitudes */
} problem_t;

/* Packs four columns of 16 rows at a time into words, as tensor/convert/trim_impl.h describes.
 * `stored` has one column after another, 16 rows each. */
static void trim(int64_t n_weights, float *stored, char *weight)
{
    memset(weight, 0, (size_t)n_weights * 3);
    for (int64_t i = 0; i < n_weights; i++) {
        const int64_t row = i % 16, column = i / 16 % 4, group = i / 64;
        uint32_t *const words = (uint32_t *)(void *)weight + group * 48 + row;
        uint32_t bits;
        stored[i] = trim_round(stored[i]);
        memcpy(&bits, &stored[i], sizeof bits);
        assert_int_equal(bits & 0xff, 0);
        if (column < 3) words[column * 16] |= bits;
        for (int k = 0; k < 3 && column == 3; k++) words[k * 16] |= bits >> (24 - 8 * k) & 0xff;
    }
}

static void fill(problem_t *p, stream_weight_t elements, int64_t n_weights, int64_t n_x,
                 int64_t n_outputs)
{
    for (int64_t i = 0; i < n_x; i++) p->x[i] = blocks_draw();
    for (int64_t i = 0; i < n_outputs; i++) p->bias[i] = blocks_draw();
    const dtype_t dtype = elements == STREAM_BF16 ? DTYPE_BF16 : DTYPE_F32;
    for (int64_t i = 0; i < n_weights; i++) p->stored[i] = blocks_draw();
    if (elements == STREAM_TRIMMED) {
        trim(n_weights, p->stored, p->weight);
        return;
    }
    dtype_cast(n_weights, DTYPE_F32, p->stored, 1, dtype, p->weight, 1);
    dtype_cast(n_weights, dtype, p->weight, 1, DTYPE_F32, p->stored, 1);
}

/* Returns the rounding bound of a sum: each lane of a vector sums separately, then lanes are
 * added. */
static double bound_of(int64_t n_inputs, double size)
{
    return ((double)n_inputs / 8.0 + 16.0) * FLT_EPSILON * size;
}

static void expect(const stream_t *s, const problem_t *p, int lanes)
{
    const int64_t stride = s->elements == STREAM_TRIMMED ? s->weight_stride / 3 * 4
                                                         : s->weight_stride;
    for (int64_t b = 0; b < s->n_rows; b++)
        for (int64_t o = 0; o < s->n_outputs; o++) {
            const float *x = s->x + b * s->x_stride;
            const float *weight = p->stored +
                                  (s->is_blocked ? o / lanes * stride + o % lanes : o * stride);
            const int64_t step = s->is_blocked ? lanes : 1;
            double sum = s->bias != NULL ? s->bias[o] : 0.0, size = fabs(sum);
            for (int64_t i = 0; i < s->n_inputs; i++) {
                const double term = (double)x[i] * weight[i * step];
                sum += term;
                size += fabs(term);
            }
            p->expected[b * s->n_outputs + o] = sum;
            p->size[b * s->n_outputs + o] = size;
        }
}

static void check(const stream_t *s, const problem_t *p, const char *what)
{
    for (int64_t b = 0; b < s->n_rows; b++)
        for (int64_t o = 0; o < s->n_outputs; o++) {
            const double size = p->size[b * s->n_outputs + o];
            const double sum = p->expected[b * s->n_outputs + o];
            const double error = fabs(s->out[b * s->out_stride + o] - sum);
            if (!(error <= bound_of(s->n_inputs, size)))
                fail_msg("%s: %lld rows, %lld outputs, %lld inputs: element %lld, %lld is off by "
                         "%g of %g",
                         what, (long long)s->n_rows, (long long)s->n_outputs,
                         (long long)s->n_inputs, (long long)b, (long long)o, error, size);
        }
}

/* The rows of x and of the result have gaps, which must not be written. */
static void run_one(problem_t *p, isa_t isa, int64_t n_rows, int64_t n_outputs, int64_t n_inputs,
                    stream_weight_t elements, bool is_blocked)
{
    static const int threads[] = {1, 2, 5};
    const int lanes = elements == STREAM_TRIMMED ? TRIM_ROWS : isa_lanes(isa);
    const int64_t n_blocks = (n_outputs + lanes - 1) / lanes;
    const int64_t row = elements == STREAM_TRIMMED ? (n_inputs + 3) / 4 * 4 : n_inputs + 3;
    stream_t s = {.n_rows = n_rows,
                  .n_outputs = n_outputs,
                  .n_inputs = n_inputs,
                  .x = p->x,
                  .x_stride = n_inputs + 1,
                  .weight = p->weight,
                  .weight_stride = elements == STREAM_TRIMMED ? row * 12
                                   : is_blocked               ? row * lanes
                                                              : row,
                  .is_blocked = is_blocked,
                  .elements = elements,
                  .bias = n_outputs % 2 == 0 ? NULL : p->bias,
                  .out = p->out,
                  .out_stride = n_outputs + 1};
    fill(p, elements, (is_blocked ? n_blocks * lanes : n_outputs) * row, n_rows * s.x_stride,
         n_outputs);
    expect(&s, p, lanes);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        for (int64_t i = 0; i < n_rows * s.out_stride; i++) p->out[i] = 77.0f;
        stream_run(&s, isa, threads[t], p->scratch);
        check(&s, p, isa_name(isa));
        for (int64_t b = 0; b < n_rows; b++)
            assert_true(p->out[b * s.out_stride + n_outputs] == 77.0f);
    }
}

/* Runs some row counts; other sizes run others. */
static void run_sizes(isa_t isa, int64_t n_outputs, int64_t n_inputs, int step)
{
    const size_t n_weights = (size_t)(n_outputs + 16) * (size_t)(n_inputs + 3);
    const size_t n_x = (size_t)STREAM_BLOCKED_ROWS * (size_t)(n_inputs + 1);
    const size_t n_out = (size_t)STREAM_BLOCKED_ROWS * (size_t)n_outputs;
    problem_t p = {.expected = test_malloc(n_out * sizeof(double)),
                   .size = test_malloc(n_out * sizeof(double))};
    /* 4 bytes more than a multiple of 64, so that vectors cross cache lines */
    char *memory[] = {test_malloc(n_x * 4 + 68),
                      test_malloc((size_t)n_outputs * 4 + 4),
                      test_malloc((size_t)STREAM_BLOCKED_ROWS * (size_t)(n_outputs + 1) * 4 + 68),
                      test_malloc(n_weights * 4 + 68),
                      test_malloc(n_weights * 4),
                      test_malloc(stream_scratch(true, STREAM_BLOCKED_ROWS, n_inputs) + 4)};
    p.x = (float *)(void *)(memory[0] + 4);
    p.bias = (float *)(void *)memory[1];
    p.out = (float *)(void *)(memory[2] + 4);
    p.weight = memory[3] + 4;
    p.stored = (float *)(void *)memory[4];
    p.scratch = memory[5] + 4;
    for (int rows = 1 + (int)(n_outputs + n_inputs) % step; rows <= STREAM_BLOCKED_ROWS;
         rows += step)
        for (int kind = 0; kind < 3; kind++)
            for (int is_blocked = kind == STREAM_TRIMMED; is_blocked < 2; is_blocked++)
                if (is_blocked || rows <= STREAM_ROWS)
                    run_one(&p, isa, rows, n_outputs, n_inputs, (stream_weight_t)kind, is_blocked);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) test_free(memory[i]);
    test_free(p.expected);
    test_free(p.size);
}

static void every_instruction_set_sums_as_double_does(void **state)
{
    static const int64_t sizes[] = {1, 3, 7, 17, 31, 100};
    const int n = (int)(sizeof sizes / sizeof *sizes);
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int o = 0; o < n; o++)
            for (int i = 0; i < n; i++)
                run_sizes((isa_t)isa, sizes[o], sizes[i], IS_SANITIZED ? 3 : 1);
        run_sizes((isa_t)isa, MAX_SIZE, MAX_SIZE, IS_SANITIZED ? 10 : 5);
        run_sizes((isa_t)isa, 7, MAX_SIZE, 3);
        run_sizes((isa_t)isa, MAX_SIZE, 31, 3);
    }
}

static void the_widest_instruction_set_is_the_best(void **state)
{
    (void)state;
    assert_true(isa_has(ISA_PORTABLE));
    assert_true(isa_has(isa_best()));
    for (int isa = (int)isa_best() + 1; isa < ISA_COUNT; isa++) assert_false(isa_has((isa_t)isa));
    assert_string_equal(isa_name(ISA_PORTABLE), "portable");
    assert_string_equal(isa_name(ISA_AVX512), "avx512");
    assert_int_equal(isa_lanes(ISA_AVX2), 8);
    assert_int_equal(isa_lanes(ISA_AVX512), 16);
    const char *limit = getenv("ONEDNN_MAX_CPU_ISA");
    if (limit != NULL && strcmp(limit, "SSE41") == 0) assert_int_equal(isa_best(), ISA_PORTABLE);
    if (limit != NULL && strcmp(limit, "AVX2") == 0) assert_true(isa_best() <= ISA_AVX2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_sums_as_double_does),
        cmocka_unit_test(the_widest_instruction_set_is_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
