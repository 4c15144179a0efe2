/* Elementwise loops with each instruction set of the machine: f32 is compared with f64, loops over
 * rows with one element at a time, and optimizer steps with the portable loops. */
#include "kernels/elementwise/rows_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/optimizer/gradients_impl.h"
#include "kernels/optimizer/update_impl.h"
#include "tests/support/support.h"

enum { ROWS = 3, N = 37, STRIDE = 41, SIZE = ROWS * STRIDE };

static float operands[ELEMENTWISE_OPERANDS][SIZE];
static double wide[ELEMENTWISE_OPERANDS][SIZE];

/* Fills with numbers between -3 and 3: some are equal, some are small integers or zeros. */
static void fill(void)
{
    for (int k = 0; k < ELEMENTWISE_OPERANDS; k++)
        for (int i = 0; i < SIZE; i++) {
            const int number = (i * (7 + 4 * k) + 5 * k) % 49 - 24;
            operands[k][i] = i % 5 == 0 ? (float)(number / 8) : (float)number * 0.125f;
            wide[k][i] = (double)operands[k][i];
        }
}

/* Describes rows of f64 (is_wide) or f32 operands. Bit k of steps: operand k has a step of 1,
 * otherwise 0. */
static elementwise_rows_t rows_of(bool is_wide, int steps, void *out)
{
    elementwise_rows_t rows = {.rows = ROWS, .n = N, .out = out, .out_row_step = STRIDE};
    for (int k = 0; k < ELEMENTWISE_OPERANDS; k++) {
        rows.in[k] = is_wide ? (const void *)wide[k] : (const void *)operands[k];
        rows.step[k] = steps >> k & 1;
        rows.row_step[k] = STRIDE;
    }
    rows.alpha = 0.25;
    rows.beta = 0.75;
    return rows;
}

/* Compares f32 with f64, for all steps. The bound allows for sums whose terms cancel. */
static void check(const char *what, int function, int isa, const elementwise_loops_t *loops,
                  bool is_truth)
{
    for (int steps = 0; steps < 1 << ELEMENTWISE_OPERANDS; steps++) {
        float narrow[SIZE] = {0};
        double exact[SIZE] = {0};
        const elementwise_rows_t rows = rows_of(false, steps, narrow);
        const elementwise_rows_t exact_rows = rows_of(true, steps, exact);
        loops->f32(&rows);
        loops->f64(&exact_rows);
        for (int i = 0; i < SIZE && !is_truth; i++) {
            const double bound = 4e-6 * (1.0 + fabs(exact[i]));
            if (isnan(exact[i]) ? isnan(narrow[i]) : (double)narrow[i] == exact[i]) continue;
            if (!(fabs((double)narrow[i] - exact[i]) <= bound))
                fail_msg("%s: %s function %d, steps %d, element %d is %.9g, not %.9g",
                         isa_name((isa_t)isa), what, function, steps, i, (double)narrow[i],
                         exact[i]);
        }
        if (is_truth) assert_memory_equal(narrow, exact, SIZE);
    }
}

/* Checks that a loop over rows gives the same bits as calls for one element each. */
static void check_single(elementwise_loop_t *loop, int steps)
{
    double all[SIZE] = {0};
    const elementwise_rows_t rows = rows_of(true, steps, all);
    loop(&rows);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < N; i++) {
            double one = 0.0;
            elementwise_rows_t single = rows_of(true, 7, &one);
            single.rows = single.n = 1;
            for (int k = 0; k < ELEMENTWISE_OPERANDS; k++)
                single.in[k] = &wide[k][row * STRIDE + i * (steps >> k & 1)];
            loop(&single);
            assert_memory_equal(&one, &all[row * STRIDE + i], sizeof one);
        }
}

static bool is_truth_unary(int function)
{
    return function == UNARY_logical_not || function == UNARY_isnan || function == UNARY_isinf;
}

static bool is_truth_binary(int function)
{
    return function >= BINARY_eq && function <= BINARY_logical_xor;
}

static void floats_are_those_of_double(void **state)
{
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int f = 0; f < UNARY_COUNT; f++)
            check("unary", f, isa, elementwise_unary((unary_function_t)f, (isa_t)isa),
                  is_truth_unary(f));
        for (int f = 0; f < BINARY_COUNT; f++)
            check("binary", f, isa, elementwise_binary((binary_function_t)f, (isa_t)isa),
                  is_truth_binary(f));
        for (int f = 0; f < UNARY_SLOPE_COUNT; f++)
            check("slope", f, isa, elementwise_unary_slope((unary_slope_t)f, (isa_t)isa), false);
        for (int f = 0; f < BINARY_SLOPE_COUNT; f++)
            check("binary slope", f, isa, elementwise_binary_slope((binary_slope_t)f, (isa_t)isa),
                  false);
    }
}

static void steps_of_0_repeat_an_element_and_rows_have_gaps(void **state)
{
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int steps = 0; steps < 8; steps++) {
            check_single(elementwise_unary(UNARY_square, (isa_t)isa)->f64, steps);
            check_single(elementwise_binary(BINARY_sub, (isa_t)isa)->f64, steps);
            check_single(elementwise_binary(BINARY_pow, (isa_t)isa)->f64, steps);
            check_single(elementwise_unary_slope(UNARY_SLOPE_tanh, (isa_t)isa)->f64, steps);
            check_single(elementwise_binary_slope(BINARY_SLOPE_PRELU, (isa_t)isa)->f64, steps);
        }
    }
}

static void a_result_can_be_written_over_an_operand(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (int k = 0; k < 2; k++) {
            fill();
            elementwise_rows_t rows = rows_of(false, 3, operands[k]);
            elementwise_binary(BINARY_sub, (isa_t)isa)->f32(&rows);
            for (int i = 0; i < SIZE; i++)
                if (i % STRIDE < N)
                    assert_true((double)operands[k][i] == wide[0][i] - wide[1][i]);
                else
                    assert_true((double)operands[k][i] == wide[k][i]);
        }
    }
}

static void integers_wrap_and_shift_and_divide(void **state)
{
    static const int64_t x[] = {7, -7, INT64_MIN, INT64_MAX, 5, -1, 3, INT64_MIN};
    static const int64_t y[] = {-2, 2, -1, 1, 0, 70, -1, 1};
    enum { N_CASES = sizeof x / sizeof *x };
    static const struct {
        binary_function_t function;
        int64_t results[N_CASES];
    } cases[] = {
        {BINARY_add, {5, -5, INT64_MAX, INT64_MIN, 5, 69, 2, INT64_MIN + 1}},
        {BINARY_div_trunc, {-3, -3, INT64_MIN, INT64_MAX, 0, 0, -3, INT64_MIN}},
        {BINARY_div_floor, {-4, -4, INT64_MIN, INT64_MAX, 0, -1, -3, INT64_MIN}},
        {BINARY_remainder, {-1, 1, 0, 0, 0, 69, 0, 0}},
        {BINARY_bitwise_right_shift, {0, -2, -1, INT64_MAX >> 1, 5, -1, 0, INT64_MIN / 2}},
    };
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            int64_t out[N_CASES] = {0};
            const elementwise_rows_t rows = {
                .rows = 1, .n = N_CASES, .in = {x, y}, .step = {1, 1}, .out = out};
            elementwise_binary(cases[c].function, (isa_t)isa)->s64(&rows);
            for (int i = 0; i < N_CASES; i++)
                if (out[i] != cases[c].results[i])
                    fail_msg("case %zu, element %d is %lld", c, i, (long long)out[i]);
        }
    }
}

static void elements_of_each_size_are_selected(void **state)
{
    (void)state;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
            uint8_t condition[N], a[N * 8], b[N * 8], out[N * 8];
            for (int i = 0; i < N; i++) condition[i] = i % 3 != 0;
            memset(a, 1, sizeof a);
            memset(b, 2, sizeof b);
            const elementwise_rows_t rows = {
                .rows = 1, .n = N, .in = {condition, a, b}, .step = {1, 1, 0}, .out = out};
            elementwise_select(bytes, (isa_t)isa)(&rows);
            for (size_t i = 0; i < N * bytes; i++)
                assert_int_equal(out[i], condition[i / bytes] ? 1 : 2);
        }
    }
}

/* ---- optimizer ---- */

typedef struct arrays {
    float parameter[SIZE], gradient[SIZE], state[UPDATE_MAX_STATES][SIZE];
} arrays_t;

static void run_update(update_loop_t *loop, bool has_momentum, arrays_t *arrays)
{
    update_t update = {.parameter = arrays->parameter,
                       .gradient = arrays->gradient,
                       .state = {arrays->state[0], arrays->state[1], arrays->state[2]},
                       .n = SIZE,
                       .decay = 0.01f,
                       .shrink = 0.99f,
                       .rate = 0.1f,
                       .momentum = 0.9f,
                       .blend = 0.8f,
                       .gain1 = 0.1f,
                       .gain2 = 0.001f,
                       .beta2 = 0.999f,
                       .eps = 1e-8f,
                       .root = 0.5f,
                       .is_nesterov = true};
    if (!has_momentum) update.state[1] = NULL;
    for (int i = 0; i < SIZE; i++) {
        arrays->parameter[i] = operands[0][i];
        arrays->gradient[i] = operands[1][i];
        for (int s = 0; s < UPDATE_MAX_STATES; s++) arrays->state[s][i] = 100.0f + operands[2][i];
    }
    loop(&update, 5, SIZE - 3);
}

/* These loops are compiled without contraction to fused multiply-adds, so all machines agree. */
static void steps_of_optimizers_have_the_same_bits_on_every_instruction_set(void **state)
{
    static const update_loops_t *const tables[ISA_COUNT] = ISA_TABLE(update_loops);
    (void)state;
    fill();
    for (int isa = ISA_PORTABLE + 1; isa < ISA_COUNT; isa++) {
        if (!isa_has((isa_t)isa)) continue;
        update_loop_t *const *portable = (update_loop_t *const *)tables[ISA_PORTABLE];
        update_loop_t *const *loops = (update_loop_t *const *)tables[isa];
        for (size_t l = 0; l < sizeof(update_loops_t) / sizeof *loops; l++) {
            static arrays_t wanted, got;
            run_update(portable[l], l != 4, &wanted);
            run_update(loops[l], l != 4, &got);
            assert_memory_equal(&wanted, &got, sizeof got);
        }
    }
}

static void norms_of_gradients_have_the_same_bits_on_every_instruction_set(void **state)
{
    static const gradients_loops_t *const tables[ISA_COUNT] = ISA_TABLE(gradients_loops);
    double sum = 0.0;
    (void)state;
    fill();
    for (int i = 0; i < SIZE; i++) sum += wide[0][i] * wide[0][i];
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++) {
        float scaled[SIZE] = {0};
        if (!isa_has((isa_t)isa)) continue;
        assert_true(tables[isa]->sum_squares(SIZE, operands[0]) == sum);
        tables[isa]->scale(SIZE - 1, 0.5f, operands[0], scaled);
        for (int i = 0; i < SIZE - 1; i++) assert_true(scaled[i] == operands[0][i] * 0.5f);
        assert_true(scaled[SIZE - 1] == 0.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_those_of_double),
        cmocka_unit_test(steps_of_0_repeat_an_element_and_rows_have_gaps),
        cmocka_unit_test(a_result_can_be_written_over_an_operand),
        cmocka_unit_test(integers_wrap_and_shift_and_divide),
        cmocka_unit_test(elements_of_each_size_are_selected),
        cmocka_unit_test(steps_of_optimizers_have_the_same_bits_on_every_instruction_set),
        cmocka_unit_test(norms_of_gradients_have_the_same_bits_on_every_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
