/* Products with Strassen's algorithm with each instruction set of the machine, compared with sums
 * in double. */
#include "kernels/linear/strassen_impl.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/blocks.h"
#include "tests/support/support.h"

#define MAX_INPUTS 1152
#define MAX_OUTPUTS 192
#define MAX_ROWS 200 /* the images' total */
#define MAX_X (4 * MAX_ROWS * MAX_INPUTS)
#define MAX_SCRATCH (16 << 20)
#define AFTER 12345.0f /* after the result; must not change */

typedef struct problem {
    float *x, *weight, *bias, *addend, *out, *scratch;
    double *sums; /* [row][output] */
} problem_t;

/* Rows are those of a matrix, or pixels of images in blocks of channels: all pixels, or with stride
 * 2 every other pixel of every other line. */
typedef enum shape { MATRIX, BLOCKS, STRIDED, SHAPE_COUNT } shape_t;

static problem_t make_problem(void)
{
    problem_t p;
    p.x = malloc(MAX_X * sizeof *p.x);
    p.weight = malloc(MAX_INPUTS * MAX_OUTPUTS * sizeof *p.weight);
    p.bias = malloc(MAX_OUTPUTS * sizeof *p.bias);
    p.addend = malloc(MAX_ROWS * MAX_OUTPUTS * sizeof *p.addend);
    p.out = malloc((MAX_ROWS * MAX_OUTPUTS + 1) * sizeof *p.out);
    p.sums = malloc(MAX_ROWS * MAX_OUTPUTS * sizeof *p.sums);
    p.scratch = malloc(MAX_SCRATCH);
    for (int64_t i = 0; i < MAX_X; i++) p.x[i] = blocks_draw();
    for (int64_t i = 0; i < MAX_INPUTS * MAX_OUTPUTS; i++) p.weight[i] = blocks_draw();
    for (int64_t i = 0; i < MAX_OUTPUTS; i++) p.bias[i] = blocks_draw();
    for (int64_t i = 0; i < MAX_ROWS * MAX_OUTPUTS; i++) p.addend[i] = blocks_draw();
    return p;
}

static void free_problem(const problem_t *p)
{
    free(p->x);
    free(p->weight);
    free(p->bias);
    free(p->addend);
    free(p->out);
    free(p->sums);
    free(p->scratch);
}

/* Describes images with `lines` lines of n_rows / lines pixels. */
static strassen_t describe(const problem_t *of, int64_t lanes, shape_t shape, int64_t n_images,
                           int64_t n_rows, int64_t lines, int64_t n_inputs, int64_t n_outputs)
{
    const int64_t width = n_rows / lines;
    strassen_t s = {.n_images = n_images,
                    .n_rows = n_rows,
                    .n_inputs = n_inputs,
                    .n_outputs = n_outputs,
                    .x = of->x,
                    .line_rows = n_rows,
                    .weight = of->weight,
                    .out = of->out,
                    .out_image = n_rows * n_outputs};
    if (shape == MATRIX) {
        s.x_row = n_inputs;
        s.x_block = lanes;
        s.x_image = n_rows * n_inputs;
        s.weight_outputs = 32;
        s.out_row = n_outputs;
        s.out_block = lanes;
    } else {
        const int64_t step = shape == STRIDED ? 2 : 1;
        s.line_rows = width;
        s.x_row = step * lanes;
        s.x_line = step * width * step * lanes;
        s.x_block = lines * step * width * step * lanes;
        s.x_image = n_inputs / lanes * s.x_block;
        s.weight_outputs = lanes;
        s.out_row = lanes;
        s.out_block = n_rows * lanes;
    }
    s.weight_block = s.weight_outputs * n_inputs;
    return s;
}

static float x_at(const strassen_t *s, int64_t lanes, int64_t image, int64_t row, int64_t input)
{
    return s->x[image * s->x_image + row / s->line_rows * s->x_line +
                row % s->line_rows * s->x_row + input / lanes * s->x_block + input % lanes];
}

static void sum_all(const strassen_t *s, int64_t lanes, double *sums)
{
    for (int64_t r = 0; r < s->n_images * s->n_rows; r++)
        for (int64_t o = 0; o < s->n_outputs; o++) {
            const float *weight = s->weight + o / s->weight_outputs * s->weight_block +
                                  o % s->weight_outputs;
            double sum = 0.0;
            for (int64_t i = 0; i < s->n_inputs; i++)
                sum += (double)x_at(s, lanes, r / s->n_rows, r % s->n_rows, i) *
                       (double)weight[i * s->weight_outputs];
            sums[r * s->n_outputs + o] = sum;
        }
}

static int64_t out_at(const strassen_t *s, int64_t lanes, int64_t row, int64_t output)
{
    return row / s->n_rows * s->out_image + row % s->n_rows * s->out_row +
           output / lanes * s->out_block + output % lanes;
}

/* Returns an addend that is different in each row and column, so a wrong position shows. */
static float added(int64_t row, int64_t column)
{
    return (float)(row * 3 + column % 7);
}

typedef struct finishing {
    const strassen_t *strassen;
    int64_t lanes;
} finishing_t;

static void finish(const void *user, int64_t row, int64_t column, int64_t n, float *values)
{
    const finishing_t *f = user;
    const bool is_matrix = f->strassen->out_block == f->lanes;
    for (int64_t i = 0; i < n; i++)
        values[i] += is_matrix ? added(row, column + i)
                               : added(row + i / f->lanes, column + i % f->lanes);
}

static void check(const strassen_t *s, const problem_t *of, int64_t lanes, const char *what)
{
    for (int64_t r = 0; r < s->n_images * s->n_rows; r++)
        for (int64_t o = 0; o < s->n_outputs; o++) {
            const int64_t at = out_at(s, lanes, r, o);
            double want = of->sums[r * s->n_outputs + o];
            if (s->bias != NULL) want += (double)s->bias[o];
            if (s->addend != NULL) want += (double)of->addend[at];
            if (s->is_clamped) want = fmin(fmax(want, (double)s->lower), (double)s->upper);
            if (s->finish != NULL) want += (double)added(r, o);
            const double error = fabs((double)s->out[at] - want);
            if (!(error <= (8.0 * (double)s->n_inputs + fabs(want)) * (double)FLT_EPSILON))
                fail_msg("%s: %lld images of %lld rows, %lld to %lld: row %lld, output %lld is %g, "
                         "not %g",
                         what, (long long)s->n_images, (long long)s->n_rows, (long long)s->n_inputs,
                         (long long)s->n_outputs, (long long)r, (long long)o, (double)s->out[at],
                         want);
        }
    assert_true(s->out[s->n_images * s->n_rows * s->n_outputs] == AFTER);
}

static void run_all_ways(strassen_t s, const problem_t *of, isa_t isa, int kind)
{
    static const int threads[] = {1, 2, 3, 4};
    const int64_t lanes = isa_lanes(isa), n_out = s.n_images * s.n_rows * s.n_outputs;
    const finishing_t finishing = {&s, lanes};
    assert_true(strassen_fits(s.n_inputs, s.n_outputs, isa));
    assert_true(s.n_images * s.n_rows <= MAX_ROWS && s.n_images * s.x_image <= MAX_X);
    s.bias = kind % 3 != 0 ? of->bias : NULL;
    s.addend = kind % 2 == 0 ? of->addend : NULL;
    s.is_clamped = kind % 5 < 2;
    s.lower = 0.0f;
    s.upper = kind % 5 == 0 ? (float)INFINITY : 2.0f;
    s.user = &finishing;
    if (kind % 4 < 2) s.finish = finish;
    sum_all(&s, lanes, of->sums);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        const size_t scratch = strassen_scratch(&s, isa, threads[i]);
        assert_true(scratch < MAX_SCRATCH);
        for (int64_t k = 0; k <= n_out; k++) s.out[k] = AFTER;
        ((char *)of->scratch)[scratch] = 1;
        strassen_run(&s, isa, threads[i], of->scratch);
        check(&s, of, lanes, isa_name(isa));
        assert_int_equal(((char *)of->scratch)[scratch], 1);
    }
    if (s.addend == NULL) return;
    memcpy(s.out, of->addend, (size_t)n_out * sizeof *s.out);
    s.addend = s.out; /* in place */
    strassen_run(&s, isa, 2, of->scratch);
    check(&s, of, lanes, isa_name(isa));
}

/* Tries odd and even numbers of rows, complete and incomplete tiles, one and several images, and
 * inputs and outputs of one or more halves of vectors. */
static void every_set_gives_the_sums(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 2, 3, 7, 12, 28, 29, 60};
    const problem_t p = make_problem();
    int kind = 0;
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        const int64_t lanes = isa_has(isa) ? isa_lanes(isa) : 0;
        for (size_t r = 0; lanes > 0 && r < sizeof rows / sizeof *rows; r++)
            for (shape_t shape = 0; shape < SHAPE_COUNT; shape++, kind++) {
                const int64_t lines = shape != MATRIX && rows[r] % 3 == 0 ? 3 : 1;
                const int64_t n_inputs = 2 * lanes * (1 + kind % 3);
                const int64_t n_outputs = shape == MATRIX ? 64 * (1 + kind % 3)
                                                          : 4 * lanes * (1 + kind % 3);
                run_all_ways(
                    describe(&p, lanes, shape, 1 + kind % 3, rows[r], lines, n_inputs, n_outputs),
                    &p, isa, kind);
            }
    }
    free_problem(&p);
}

/* Has more inputs and more rows than are multiplied at once. */
static void long_sums_are_made_in_parts(void **state)
{
    (void)state;
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        const int64_t lanes = isa_has(isa) ? isa_lanes(isa) : 0;
        for (int kind = 0; lanes > 0 && kind < 4; kind++) {
            const shape_t shape = kind % 2 == 0 ? MATRIX : BLOCKS;
            const int64_t n_rows = kind < 2 ? 199 : 49, n_inputs = kind < 2 ? 544 : 1152;
            run_all_ways(describe(&p, lanes, shape, MAX_ROWS / n_rows, n_rows, 1, n_inputs, 128),
                         &p, isa, kind);
        }
    }
    free_problem(&p);
}

/* Outputs are in blocks of 32. With vectors of 8, the second half of 96 outputs begins within a
 * block. */
static void halves_may_begin_within_a_block(void **state)
{
    (void)state;
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        if (isa_has(isa) && isa_lanes(isa) == 8)
            run_all_ways(describe(&p, 8, MATRIX, 2, 21, 1, 48, 96), &p, isa, 2);
    free_problem(&p);
}

/* The algorithm adds rows to each other, but a small row must be as accurate as without large
 * rows. */
static void small_rows_stay_exact_beside_large_ones(void **state)
{
    (void)state;
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has(isa)) continue;
        const int64_t lanes = isa_lanes(isa);
        for (float factor = 1.0f; factor < 1e9f; factor *= 3.0f) {
            const strassen_t s = describe(&p, lanes, MATRIX, 1, 37, 1, 64, 128);
            for (int64_t i = 0; i < 37 * 64; i++) /* rows 19 apart are added */
                p.x[i] = blocks_draw() * (i / 64 % 7 == 0 ? factor : 1.0f);
            sum_all(&s, lanes, p.sums);
            strassen_run(&s, isa, 2, p.scratch);
            for (int64_t i = 0; i < 37 * 128; i++) {
                const double size = i / 128 % 7 == 0 ? (double)factor : 1.0;
                const double error = fabs((double)s.out[out_at(&s, lanes, i / 128, i % 128)] -
                                          p.sums[i]);
                if (!(error <= 16.0 * 64.0 * size * (double)FLT_EPSILON))
                    fail_msg("%s: beside rows %g times as large, row %lld is %g off", isa_name(isa),
                             (double)factor, (long long)(i / 128), error);
            }
        }
    }
    free_problem(&p);
}

/* NaN and infinities may affect only the results of their own row, as in a direct product. */
static void rows_do_not_meet_what_is_not_finite(void **state)
{
    (void)state;
    static const float bad[] = {(float)INFINITY, -(float)INFINITY, (float)NAN};
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int64_t row = 0; isa_has(isa) && row < 45; row++) {
            const int64_t lanes = isa_lanes(isa);
            const strassen_t s = describe(&p, lanes, MATRIX, 3, 15, 1, 64, 128);
            float *at = p.x + row * 64 + row % 64;
            const float was = *at;
            *at = bad[row % 3];
            strassen_run(&s, isa, 2, p.scratch);
            for (int64_t r = 0; r < 45; r++)
                for (int64_t o = 0; o < 128; o++) {
                    const float is = s.out[out_at(&s, lanes, r, o)];
                    assert_true(r == row ? !isfinite(is) : isfinite(is));
                    assert_true(r != row || isnan(is) == isnan(bad[row % 3]));
                }
            *at = was;
        }
    free_problem(&p);
}

/* If the products of elements do not overflow, the sums of elements that the algorithm needs must
 * not either. */
static void elements_near_the_largest_float_are_multiplied(void **state)
{
    (void)state;
    const problem_t p = make_problem();
    for (isa_t isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has(isa)) continue;
        const strassen_t s = describe(&p, isa_lanes(isa), MATRIX, 1, 14, 1, 64, 128);
        for (int64_t i = 0; i < 14 * 64; i++) p.x[i] = FLT_MAX;
        for (int64_t i = 0; i < 64 * 128; i++) p.weight[i] = i / 32 % 64 == 0 ? 0.5f : 0.0f;
        strassen_run(&s, isa, 2, p.scratch);
        for (int64_t i = 0; i < 14 * 128; i++) assert_true(s.out[i] == 0.5f * FLT_MAX);
    }
    free_problem(&p);
}

static void halves_are_of_whole_vectors(void **state)
{
    (void)state;
    assert_true(strassen_fits(32, 64, ISA_AVX512));
    assert_true(strassen_fits(16, 32, ISA_AVX2));
    assert_false(strassen_fits(16, 64, ISA_AVX512));
    assert_false(strassen_fits(48, 64, ISA_AVX512));
    assert_false(strassen_fits(32, 32, ISA_AVX512));
    assert_false(strassen_fits(32, 48, ISA_AVX2));
    assert_false(strassen_fits(0, 64, ISA_AVX512));
    assert_false(strassen_fits(32, 0, ISA_AVX512));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_gives_the_sums),
        cmocka_unit_test(long_sums_are_made_in_parts),
        cmocka_unit_test(halves_may_begin_within_a_block),
        cmocka_unit_test(small_rows_stay_exact_beside_large_ones),
        cmocka_unit_test(rows_do_not_meet_what_is_not_finite),
        cmocka_unit_test(elements_near_the_largest_float_are_multiplied),
        cmocka_unit_test(halves_are_of_whole_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
