/* lstm and gru layers with each instruction set of the machine, compared with the same in
 * double. */
#include "kernels/recurrent/sequence_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

enum { GAP = 3, MAX_N = 70, MAX_H = 530 };
static const float untouched = 77.0f;

/* Optional arguments of a layer, and variants. */
typedef enum given {
    GIVEN_BIAS = 1,
    GIVEN_STATES = 2,
    GIVEN_PEEPHOLE = 4,
    GIVEN_LENGTHS = 8,
    GIVEN_REVERSE = 16,
    GIVEN_STRASSEN = 32
} given_t;

typedef struct problem {
    sequence_t s;
    float *weight_ih, *weight_hh; /* row-major */
    float *memory[20];
    int n_memory;
    int64_t lengths[MAX_N];
} problem_t;

static float *allocate(problem_t *p, int64_t n)
{
    float *floats = test_malloc((size_t)(n + 1) * sizeof *floats);
    for (int64_t i = 0; i < n; i++) floats[i] = untouched;
    return p->memory[p->n_memory++] = floats;
}

static float *draw(problem_t *p, int64_t n)
{
    float *floats = allocate(p, n);
    for (int64_t i = 0; i < n; i++) floats[i] = (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
    return floats;
}

static float *packed(problem_t *p, const float *weight, int64_t n_inputs, int64_t lanes)
{
    int64_t n = 0;
    if (p->s.by_strassen) {
        assert_true(sequence_halves_elements(p->s.n_elements, n_inputs, &n));
        float *halves = allocate(p, n);
        sequence_pack_halves(p->s.n_elements, n_inputs, lanes, weight, halves);
        for (int64_t i = 0; i < n; i++) assert_true(halves[i] != untouched);
        return halves;
    }
    assert_true(sequence_weight_elements(p->s.cell, p->s.n_elements, n_inputs, lanes, &n));
    float *out = allocate(p, n);
    memset(out, 0, (size_t)n * sizeof *out);
    sequence_pack(p->s.cell, p->s.n_elements, n_inputs, lanes, weight, out);
    return out;
}

static void begin(problem_t *p, isa_t isa, sequence_cell_t cell, const int64_t *sizes, int given)
{
    const int64_t t = sizes[0], n = sizes[1], c = sizes[2], h = sizes[3];
    const int64_t rows = (cell == SEQUENCE_LSTM ? 4 : 3) * h;
    *p = (problem_t){.s = {.cell = cell,
                           .by_strassen = (given & GIVEN_STRASSEN) != 0,
                           .n_steps = t,
                           .n_sequences = n,
                           .n_inputs = c,
                           .n_elements = h,
                           .is_reverse = (given & GIVEN_REVERSE) != 0,
                           .lengths = p->lengths,
                           .x_time = c + GAP,
                           .x_sequence = t * (c + GAP),
                           .y_time = n * (h + GAP),
                           .y_sequence = h + GAP}};
    sequence_t *s = &p->s;
    p->weight_ih = draw(p, rows * c);
    p->weight_hh = draw(p, rows * h);
    s->weight_ih = packed(p, p->weight_ih, c, isa_lanes(isa));
    s->weight_hh = packed(p, p->weight_hh, h, isa_lanes(isa));
    s->x = draw(p, n * t * (c + GAP));
    s->y = allocate(p, n * t * (h + GAP));
    s->h = allocate(p, n * h);
    s->c = allocate(p, n * h);
    if (given & GIVEN_BIAS) s->bias_ih = draw(p, rows);
    if (given & GIVEN_BIAS) s->bias_hh = draw(p, rows);
    if (given & GIVEN_STATES) s->h0 = draw(p, n * h);
    if ((given & GIVEN_STATES) && cell == SEQUENCE_LSTM) s->c0 = draw(p, n * h);
    if ((given & GIVEN_PEEPHOLE) && cell == SEQUENCE_LSTM) s->peephole = draw(p, 3 * h);
    for (int64_t i = 0; i < n; i++) p->lengths[i] = given & GIVEN_LENGTHS ? (5 * i) % (t + 1) : t;
}

static void end(problem_t *p)
{
    for (int i = 0; i < p->n_memory; i++) test_free(p->memory[i]);
}

/* ---- reference in double ---- */

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double dot(const float *weight, const float *x, const double *h, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)weight[i] * (x != NULL ? (double)x[i] : h[i]);
    return sum;
}

static double at(const float *of, int64_t index)
{
    return of != NULL ? (double)of[index] : 0.0;
}

static double step_element(const problem_t *p, const float *x, const double *h, int64_t j,
                           double *c)
{
    const sequence_t *s = &p->s;
    const int64_t n = s->n_elements;
    double a[4], b[4], peep[3];
    for (int g = 0; g < sequence_gates(s->cell); g++) {
        const int64_t row = g * n + j;
        a[g] = dot(p->weight_ih + row * s->n_inputs, x, NULL, s->n_inputs) + at(s->bias_ih, row);
        b[g] = dot(p->weight_hh + row * n, NULL, h, n) + at(s->bias_hh, row);
    }
    if (s->cell == SEQUENCE_GRU) {
        const double update = sigmoid(a[1] + b[1]);
        return (1.0 - update) * tanh(a[2] + sigmoid(a[0] + b[0]) * b[2]) + update * h[j];
    }
    for (int g = 0; g < 3; g++) peep[g] = at(s->peephole, g * n + j);
    const double input = sigmoid(a[0] + b[0] + peep[0] * *c);
    *c = sigmoid(a[1] + b[1] + peep[1] * *c) * *c + input * tanh(a[2] + b[2]);
    return sigmoid(a[3] + b[3] + peep[2] * *c) * tanh(*c);
}

static void check(const char *what, const sequence_t *s, int64_t n, int64_t time, int64_t j,
                  float given, double wanted)
{
    /* sums of many products have larger errors */
    const double tolerance = s->n_inputs + s->n_elements > 400 ? 2e-4 : 2e-5;
    if (!(fabs((double)given - wanted) <= tolerance))
        fail_msg("%s: cell %d, T %lld, N %lld, C %lld, H %lld: sequence %lld, time %lld, element "
                 "%lld is %g, not %g",
                 what, (int)s->cell, (long long)s->n_steps, (long long)s->n_sequences,
                 (long long)s->n_inputs, (long long)s->n_elements, (long long)n, (long long)time,
                 (long long)j, (double)given, wanted);
}

static void check_sequence(const problem_t *p, const char *what, int64_t n)
{
    const sequence_t *s = &p->s;
    const int64_t size = s->n_elements, length = p->lengths[n];
    double h[MAX_H], next[MAX_H], c[MAX_H];
    for (int64_t j = 0; j < size; j++) {
        h[j] = at(s->h0, n * size + j);
        c[j] = at(s->c0, n * size + j);
    }
    for (int64_t step = 0; step < s->n_steps; step++) {
        const bool is_inside = step < length;
        const int64_t time = s->is_reverse && is_inside ? length - 1 - step : step;
        const float *y = s->y + time * s->y_time + n * s->y_sequence;
        const float *x = s->x + time * s->x_time + n * s->x_sequence;
        for (int64_t j = 0; is_inside && j < size; j++) next[j] = step_element(p, x, h, j, &c[j]);
        if (is_inside) memcpy(h, next, sizeof h);
        for (int64_t j = 0; j < size; j++) check(what, s, n, time, j, y[j], is_inside ? h[j] : 0.0);
        for (int i = 0; i < GAP; i++) assert_true(y[size + i] == untouched);
    }
    for (int64_t j = 0; j < size; j++) {
        check(what, s, n, -1, j, s->h[n * size + j], h[j]);
        if (s->cell == SEQUENCE_LSTM) check(what, s, n, -2, j, s->c[n * size + j], c[j]);
    }
}

static void run_one(isa_t isa, sequence_cell_t cell, const int64_t *sizes, int given, int step)
{
    static const int threads[] = {1, 2, 5};
    problem_t p;
    size_t bytes = 0;
    begin(&p, isa, cell, sizes, given);
    assert_true(sequence_scratch(&p.s, isa, 5, &bytes));
    void *scratch = test_malloc(bytes);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        memset(scratch, 0xff, bytes); /* NaN, which shows if memory is read before it is written */
        sequence_run(&p.s, isa, threads[t], scratch);
        for (int64_t n = 0; n < sizes[1]; n += step) check_sequence(&p, isa_name(isa), n);
    }
    test_free(scratch);
    end(&p);
}

/* T, N, C, H */
static void layers_of_every_size_give_what_double_gives(void **state)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},   {3, 1, 7, 3},   {5, 2, 3, 7},
                                       {2, 3, 31, 17}, {4, 7, 17, 31}, {3, 17, 1, 8},
                                       {2, 5, 16, 32}, {70, 1, 3, 5}};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int given = 0; given < 32; given += 1 + (int)(i % 3)) {
                run_one((isa_t)isa, SEQUENCE_LSTM, sizes[i], given, 1);
                run_one((isa_t)isa, SEQUENCE_GRU, sizes[i], given, 1);
            }
    }
}

/* Has more sequences than are computed for each time that a block of weights is read, and more
 * inputs than are multiplied at once. */
static void many_sequences_and_inputs_go_in_parts(void **state)
{
    static const int64_t sizes[][4] = {{3, MAX_N, 5, 17}, {2, 33, 131, 140}, {9, 16, 130, 20}};
    static const int64_t wide[] = {2, 2, 1030, MAX_H};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            run_one((isa_t)isa, SEQUENCE_LSTM, sizes[i], 31, 11);
            run_one((isa_t)isa, SEQUENCE_GRU, sizes[i], 31, 11);
        }
        run_one((isa_t)isa, SEQUENCE_LSTM, wide, GIVEN_BIAS | GIVEN_STATES, 1);
        run_one((isa_t)isa, SEQUENCE_GRU, wide, GIVEN_BIAS | GIVEN_STATES, 1);
    }
}

/* Strassen's algorithm multiplies halves of the sequences, here with one row to several tiles. If N
 * is odd, one half has a row less. C and H are in vectors. */
static void strassen_gives_what_double_gives(void **state)
{
    static const int64_t sizes[][4] = {{1, 1, 2, 2},  {3, 2, 4, 2},  {5, 3, 2, 4},
                                       {9, 7, 2, 2},  {2, 16, 6, 4}, {5, 17, 2, 2},
                                       {70, 1, 2, 2}, {2, 29, 2, 6}, {2, MAX_N, 2, 2}};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        const int64_t lanes = isa_lanes((isa_t)isa);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int64_t *of = sizes[i], size[] = {of[0], of[1], of[2] * lanes, of[3] * lanes};
            assert_true(sequence_has_halves(SEQUENCE_LSTM, size[3], size[2], lanes));
            for (int given = (int)(i % 3); given < 32; given += 1 + (int)(i % 5) * 2)
                run_one((isa_t)isa, SEQUENCE_LSTM, size, given | GIVEN_STRASSEN,
                        of[1] > 20 ? 7 : 1);
        }
        assert_false(sequence_has_halves(SEQUENCE_GRU, 2 * lanes, 2 * lanes, lanes));
        assert_false(sequence_has_halves(SEQUENCE_LSTM, 2 * lanes, 3 * lanes, lanes));
        assert_false(sequence_has_halves(SEQUENCE_LSTM, lanes - 1, 2 * lanes, lanes));
    }
}

/* A large number or a NaN in one sequence must not change the results of other sequences, although
 * Strassen's algorithm adds their rows. */
static void strassen_keeps_sequences_apart(void **state)
{
    static const float odd[] = {1e6f, 1e37f, INFINITY, NAN};
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        const int64_t lanes = isa_lanes((isa_t)isa), n = 6;
        const int64_t size[] = {3, n, 2 * lanes, 2 * lanes};
        for (size_t i = 0; i < 2 * sizeof odd / sizeof *odd; i++) {
            problem_t p;
            size_t bytes = 0;
            begin(&p, (isa_t)isa, SEQUENCE_LSTM, size, GIVEN_STATES | GIVEN_STRASSEN);
            const float *of = i % 2 == 0 ? p.s.h0 + 4 * size[3] : p.s.x + 4 * p.s.x_sequence;
            ((float *)(uintptr_t)of)[lanes + 1] = odd[i / 2];
            assert_true(sequence_scratch(&p.s, (isa_t)isa, 1, &bytes));
            void *scratch = test_malloc(bytes);
            sequence_run(&p.s, (isa_t)isa, 1, scratch);
            for (int64_t k = 0; k < n; k++)
                if (k != 4) check_sequence(&p, isa_name((isa_t)isa), k);
            test_free(scratch);
            end(&p);
        }
    }
}

/* Sums are so large that gates are almost 0 or 1. */
static void sums_of_any_size_stay_in_the_range_of_the_functions(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        problem_t p;
        size_t bytes = 0;
        if (!isa_has((isa_t)isa)) continue;
        begin(&p, (isa_t)isa, SEQUENCE_LSTM, (const int64_t[]){4, 3, 7, 17}, GIVEN_BIAS);
        for (int64_t i = 0; i < 4 * 17; i++)
            ((float *)(uintptr_t)p.s.bias_ih)[i] *= i % 3 == 0 ? 1e6f : 100.0f;
        assert_true(sequence_scratch(&p.s, (isa_t)isa, 1, &bytes));
        void *scratch = test_malloc(bytes);
        sequence_run(&p.s, (isa_t)isa, 1, scratch);
        for (int64_t n = 0; n < 3; n++) check_sequence(&p, isa_name((isa_t)isa), n);
        test_free(scratch);
        end(&p);
    }
}

static void sizes_that_overflow_are_told(void **state)
{
    int64_t n = 0;
    size_t bytes = 0;
    sequence_t s = {.n_steps = 2, .n_sequences = INT64_MAX / 2, .n_inputs = 3, .n_elements = 5};
    (void)state;
    assert_false(sequence_scratch(&s, ISA_PORTABLE, 2, &bytes));
    s.n_sequences = 1;
    assert_true(sequence_scratch(&s, ISA_PORTABLE, 2, &bytes));
    assert_true(sequence_weight_elements(SEQUENCE_GRU, 17, 5, 8, &n));
    assert_int_equal(n, 3 * 3 * 8 * 5);
    assert_false(sequence_weight_elements(SEQUENCE_LSTM, INT64_MAX / 4, 5, 8, &n));
    assert_true(sequence_halves_elements(16, 32, &n));
    assert_int_equal(n, 16 * 32 * 7);
    assert_false(sequence_halves_elements(INT64_MAX / 64, 32, &n));
    s.by_strassen = true;
    s.n_inputs = INT64_MAX / 64;
    assert_false(sequence_scratch(&s, ISA_PORTABLE, 2, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_every_size_give_what_double_gives),
        cmocka_unit_test(many_sequences_and_inputs_go_in_parts),
        cmocka_unit_test(strassen_gives_what_double_gives),
        cmocka_unit_test(strassen_keeps_sequences_apart),
        cmocka_unit_test(sums_of_any_size_stay_in_the_range_of_the_functions),
        cmocka_unit_test(sizes_that_overflow_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
