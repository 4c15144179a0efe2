/* Dot products of small integers with each instruction set of the machine, compared with s64 sums
 * truncated to s32. */
#include "kernels/quantized/integer_impl.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static const integer_loops_t *const tables[ISA_COUNT] = ISA_TABLE(integer_loops);

static int draw(int least, int most)
{
    return least + rand() % (most - least + 1);
}

static const integer_step_t steps[] = {INTEGER_PAIRS, INTEGER_QUADS};

/* Loops with VNNI that processors with AVX-512 have but do not use. */
static const integer_loops_t *other_loops(void)
{
#if defined(__x86_64__)
    extern const integer_loops_t integer_loops_avx2_vnni;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (isa_has(ISA_AVX2) && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0)
        return &integer_loops_avx2_vnni;
#endif
    return NULL;
}

typedef struct trial {
    int64_t rows, outputs, runs, steps;
    bool has_zeros, is_extreme;
    integer_step_t step;
} trial_t;

static void *get(int64_t n, size_t size)
{
    void *bytes = calloc((size_t)n + 4, size);
    assert_non_null(bytes);
    return bytes;
}

/* Element i of x, minus its zero point. */
static int64_t x_at(const integer_t *p, int64_t i)
{
    if (p->step == INTEGER_QUADS) return ((const uint8_t *)p->x)[i] - p->x_zero;
    return ((const int16_t *)p->x)[i];
}

static void fill(const trial_t *t, void *x, int64_t n_x, uint8_t *weight, int64_t n_weight,
                 int32_t *zeros)
{
    for (int64_t i = 0; i < n_x; i++)
        if (t->step == INTEGER_QUADS)
            ((uint8_t *)x)[i] = (uint8_t)(t->is_extreme ? 255 : draw(0, 255));
        else
            ((int16_t *)x)[i] = (int16_t)(t->is_extreme ? -255 : draw(-255, 255));
    for (int64_t i = 0; i < n_weight; i++)
        weight[i] = (uint8_t)(t->is_extreme ? 128 : draw(0, 255)); /* read as s8 */
    for (int64_t o = 0; o < t->outputs; o++) zeros[o] = t->is_extreme ? 127 : draw(-128, 127);
}

static int32_t want(const integer_t *p, const uint8_t *weight, int64_t r, int64_t o)
{
    int64_t sum = 0;
    const int64_t length = (int64_t)p->step * p->n_steps, n = length * p->n_runs;
    for (int64_t i = 0; i < n; i++) {
        const int64_t offset = p->offsets != NULL ? p->offsets[i / length] : 0;
        const int64_t zero = p->zeros != NULL ? p->zeros[o] : 0;
        sum += x_at(p, p->starts[r] + offset + i % length) * ((int8_t)weight[o * n + i] - zero);
    }
    return (int32_t)(uint32_t)(uint64_t)sum;
}

static int64_t find_same(const void *user, int64_t i)
{
    (void)user;
    return i;
}

/* Each row of `out` has one element more than outputs, which must not change. */
static void clear(const integer_t *p)
{
    for (int64_t i = 0; i < p->n_rows * p->out_stride; i++) p->out[i] = 77;
}

static void compare(const integer_t *p, const uint8_t *weight)
{
    for (int64_t r = 0; r < p->n_rows; r++) {
        for (int64_t o = 0; o < p->n_outputs; o++)
            assert_int_equal(p->out[r * p->out_stride + o], want(p, weight, r, o));
        assert_int_equal(p->out[r * p->out_stride + p->n_outputs], 77);
    }
}

/* Rows overlap like windows: row r begins at element 3 r. The runs of a row are 5 elements
 * apart. */
static void check(trial_t t)
{
    const int64_t length = (int64_t)t.step * t.steps, run_step = length + 5;
    const int64_t n_x = 3 * t.rows + run_step * t.runs, n = t.runs * length;
    const int64_t n_packed = integer_packed(t.outputs, t.runs * t.steps, t.step);
    void *x = get(n_x, sizeof(int16_t));
    uint8_t *weight = get(t.outputs * n, 1);
    int8_t *packed = get(n_packed, 1);
    int64_t *starts = get(t.rows, sizeof *starts);
    int32_t *offsets = get(t.runs, sizeof *offsets), *sums = get(t.rows, sizeof *sums);
    int32_t *zeros = get(t.outputs + INTEGER_BLOCK, sizeof *zeros);
    int32_t *out = get(t.rows * (t.outputs + 1), sizeof *out);
    fill(&t, x, n_x, weight, t.outputs * n, zeros);
    integer_pack(DTYPE_S8, t.outputs, t.runs * t.steps, t.step, n, find_same, NULL, weight, packed);
    for (int64_t i = 0; i < t.runs; i++) offsets[i] = (int32_t)(run_step * i);
    integer_t p = {.n_rows = t.rows,
                   .n_outputs = t.outputs,
                   .n_runs = t.runs,
                   .n_steps = t.steps,
                   .step = t.step,
                   .x = x,
                   .x_zero = t.step == INTEGER_QUADS ? draw(0, 255) : 0,
                   .starts = starts,
                   .offsets = t.runs > 1 ? offsets : NULL,
                   .weight = packed,
                   .zeros = t.has_zeros ? zeros : NULL,
                   .sums = sums,
                   .out = out,
                   .out_stride = t.outputs + 1};
    for (int64_t r = 0; r < t.rows; r++) {
        starts[r] = 3 * r;
        for (int64_t i = 0; i < n; i++)
            sums[r] += (int32_t)x_at(&p, starts[r] + i / length * run_step + i % length);
    }
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int n_threads = 1; n_threads <= 3 && isa_has((isa_t)isa); n_threads++) {
            if (t.step == INTEGER_QUADS && !integer_has_quads((isa_t)isa)) continue;
            clear(&p);
            integer_run(&p, (isa_t)isa, n_threads);
            compare(&p, weight);
        }
    const integer_loops_t *others[] = {tables[isa_best()], other_loops()};
    for (int i = 0; i < 2; i++) { /* integer_run prefers loops with VNNI, and the best of them */
        const bool is_quads = t.step == INTEGER_QUADS;
        if (others[i] == NULL || (is_quads && others[i]->quad_rows == NULL)) continue;
        clear(&p);
        for (int64_t o = 0; o < t.outputs; o += INTEGER_BLOCK)
            (is_quads ? others[i]->quad_rows : others[i]->rows)(&p, o, 0, t.rows);
        compare(&p, weight);
    }
    free(x);
    free(weight);
    free(packed);
    free(starts);
    free(offsets);
    free(sums);
    free(zeros);
    free(out);
}

static void sums_are_exact(void **state)
{
    static const int64_t outputs[] = {1, 3, 7, 16, 17, 31, 33};
    (void)state;
    for (size_t o = 0; o < sizeof outputs / sizeof *outputs; o++)
        for (int64_t rows = 1; rows <= 50; rows += 7)
            for (int i = 0; i < 2; i++)
                check((trial_t){rows, outputs[o], 1 + rows % 3, 1 + rows % 9 * 5, rows % 2 == 0,
                                false, steps[i]});
}

/* 255 * 255 * 2 is too large for bytes and s16; the sum of 100,000 such products for s32. */
static void sums_do_not_clip_and_wrap_around(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        check((trial_t){7, 17, 1, 9, true, true, steps[i]});
        check((trial_t){2, 3, 1, 50000, true, true, steps[i]});
        check((trial_t){2, 3, 1, 0, true, true, steps[i]});
    }
}

static void bytes_are_centered_and_runs_are_summed(void **state)
{
    enum { N = 101, LENGTH = 29 };
    uint8_t bytes[N], flipped[N];
    int16_t centered[N];
    int32_t sums[N];
    (void)state;
    for (int i = 0; i < N; i++) bytes[i] = (uint8_t)draw(0, 255);
    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (int step = 1; isa_has((isa_t)isa) && step <= 3; step++) {
            const int n = (N - LENGTH) / step;
            for (int is_signed = 0; is_signed < 2; is_signed++) {
                tables[isa]->center(N, is_signed != 0, bytes, 200, centered);
                for (int i = 0; i < N; i++)
                    assert_int_equal(centered[i],
                                     bytes[i] - 200 - is_signed * (bytes[i] / 128 * 256));
            }
            tables[isa]->sums(n, step, 1, centered, sums);
            for (int r = 0; r < n; r++) assert_int_equal(sums[r], centered[r * step]);
            tables[isa]->sums(n, step, LENGTH, centered, sums);
            for (int r = 0; r < n; r++) {
                int sum = 0;
                for (int i = 0; i < LENGTH; i++) sum += centered[r * step + i];
                assert_int_equal(sums[r], sum);
            }
            tables[isa]->byte_sums(n, step, LENGTH, 200, bytes, sums);
            for (int r = 0; r < n; r++) {
                int sum = 0;
                for (int i = 0; i < LENGTH; i++) sum += bytes[r * step + i] - 200;
                assert_int_equal(sums[r], sum);
            }
            for (int i = 0; i < N; i++) sums[i] = INT32_MAX - i;
            const int32_t numbers[] = {1, 2, 3, 4, INT32_MIN, 6, 7};
            tables[isa]->add(2, step, numbers, sums);
            assert_int_equal(sums[0], INT32_MIN);
            assert_int_equal(sums[1], (int32_t)(0x7ffffffeu + (uint32_t)numbers[step]));
            assert_int_equal(sums[2], INT32_MAX - 2);
            tables[isa]->flip(N, bytes, flipped);
            for (int i = 0; i < N; i++) assert_int_equal(flipped[i], bytes[i] ^ 0x80);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(sums_do_not_clip_and_wrap_around),
        cmocka_unit_test(bytes_are_centered_and_runs_are_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
