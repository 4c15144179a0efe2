/* Steps of recurrent cells and dot products with each instruction set of the machine, compared with
 * double. Backward steps are compared with finite differences. */
#include "kernels/recurrent/rows_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/support.h"

enum { N = 37, STEP = 41, GATES = 4 }; /* the parts of a row for each gate are STEP floats apart */

static const recurrent_loops_t *const tables[ISA_COUNT] = ISA_TABLE(recurrent_loops);

static float number(int i)
{
    return (float)((i * 7919 + 13) % 401 - 200) * 0.02f;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void expect(float got, double wanted)
{
    if (!(fabs((double)got - wanted) <= 8 * FLT_EPSILON * (1.0 + fabs(wanted))))
        fail_msg("%.9g, not %.9g", (double)got, wanted);
}

/* One state element: the pre-activations of its gates, its h and its c. A step computes new h and
 * c. For gru, `sums` are those of r, z and n, that of n without weight_hh h; `inner` is weight_hh h
 * + bias_hh of n. */
typedef struct cell {
    double sums[GATES], inner, h, c;
} cell_t;

static cell_t lstm(cell_t x)
{
    x.c = sigmoid(x.sums[1]) * x.c + sigmoid(x.sums[0]) * tanh(x.sums[2]);
    x.h = sigmoid(x.sums[3]) * tanh(x.c);
    return x;
}

static cell_t gru(cell_t x)
{
    const double keep = sigmoid(x.sums[1]);
    x.h = (1.0 - keep) * tanh(x.sums[2] + sigmoid(x.sums[0]) * x.inner) + keep * x.h;
    return x;
}

static void steps_are_those_of_double(void **state)
{
    float step[GATES * STEP], bias_ih[GATES * STEP], bias_hh[GATES * STEP];
    (void)state;
    for (int i = 0; i < GATES * STEP; i++) {
        step[i] = number(i + 900);
        bias_ih[i] = number(i + 300);
        bias_hh[i] = number(i + 600);
    }
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int mode = 0; isa_has((isa_t)isa) && mode < 4; mode++) {
            const bool is_lstm = mode % 2 == 0, has_bias = mode < 2;
            float sums[GATES * STEP], inner[N], h[N], c[N], old_h[N], old_c[N], new_c[N];
            for (int i = 0; i < GATES * STEP; i++) sums[i] = number(i);
            for (int i = 0; i < N; i++) {
                h[i] = number(i + 50) / 4.0f;
                c[i] = number(i + 70);
            }
            const recurrent_rows_t rows = {
                N, STEP, sums,  inner, step, has_bias ? bias_ih : NULL, has_bias ? bias_hh : NULL,
                h, c,    old_h, old_c, new_c};
            (is_lstm ? tables[isa]->step_lstm : tables[isa]->step_gru)(&rows);
            for (int i = 0; i < N; i++) {
                cell_t x = {.h = (double)(number(i + 50) / 4.0f), .c = (double)number(i + 70)};
                for (int g = 0; g < GATES; g++) {
                    const int at = g * STEP + i;
                    const double own = (double)step[at] + (has_bias ? (double)bias_hh[at] : 0.0);
                    x.sums[g] = (double)number(at) + (has_bias ? (double)bias_ih[at] : 0.0);
                    if (!is_lstm && g == 2)
                        x.inner = own;
                    else
                        x.sums[g] += own;
                    if (is_lstm || g < 3) expect(sums[at], x.sums[g]);
                }
                const cell_t next = is_lstm ? lstm(x) : gru(x);
                expect(h[i], next.h);
                expect(old_h[i], x.h);
                if (!is_lstm) expect(inner[i], x.inner);
                if (is_lstm) expect(old_c[i], x.c);
                if (is_lstm) expect(c[i], next.c);
                if (is_lstm) expect(new_c[i], next.c);
            }
        }
}

/* Returns the derivative of diff_h * h' + diff_c * c' by *at, a number of the cell x, where h' and
 * c' are the results of a step. */
static double slope(bool is_lstm, cell_t *x, double *at, double diff_h, double diff_c)
{
    const double width = 1e-4, before = *at;
    double sum = 0.0;
    for (int side = -1; side <= 1; side += 2) {
        *at = before + side * width;
        const cell_t next = is_lstm ? lstm(*x) : gru(*x);
        sum += side * (diff_h * next.h + (is_lstm ? diff_c * next.c : 0.0));
    }
    *at = before;
    return sum / (2.0 * width);
}

static void check_slopes(const recurrent_loops_t *loops, bool is_lstm, const float *grad_y)
{
    float sums[GATES * STEP], inner[N], old_h[N], old_c[N], new_c[N], diff_h[N], direct_h[N];
    float diff_c[N], diffs[GATES * STEP], h_diffs[GATES * STEP], step[GATES * STEP];
    cell_t cells[N];
    for (int i = 0; i < N; i++) {
        cell_t *x = &cells[i];
        for (int g = 0; g < GATES; g++)
            x->sums[g] = (double)(sums[g * STEP + i] = number(g * N + i));
        x->h = (double)(old_h[i] = number(i + 500) / 4.0f);
        x->c = (double)(old_c[i] = number(i + 600));
        x->inner = (double)(inner[i] = number(i + 700));
        new_c[i] = (float)lstm(*x).c;
        diff_h[i] = number(i + 800);
        direct_h[i] = number(i + 900);
        diff_c[i] = number(i + 950);
    }
    const recurrent_rows_back_t rows = {N,      STEP,   sums,     inner,  old_h, old_c,   new_c,
                                        grad_y, diff_h, direct_h, diff_c, diffs, h_diffs, step};
    (is_lstm ? loops->back_lstm : loops->back_gru)(&rows);
    for (int i = 0; i < N; i++) {
        cell_t *x = &cells[i];
        const double grad = (double)number(i + 800) + (double)number(i + 900) +
                            (grad_y != NULL ? (double)grad_y[i] : 0.0);
        const double grad_c = (double)number(i + 950);
        for (int g = 0; g < (is_lstm ? 4 : 3); g++) {
            const double own = slope(is_lstm, x, &x->sums[g], grad, grad_c);
            const bool is_inner = !is_lstm && g == 2;
            const double of_h = is_inner ? slope(false, x, &x->inner, grad, 0.0) : own;
            const int at = g * STEP + i;
            assert_true(fabs((double)diffs[at] - own) < 1e-5);
            assert_true(fabs((double)step[at] - of_h) < 1e-5);
            if (!is_lstm) assert_true(fabs((double)h_diffs[at] - of_h) < 1e-5);
        }
        if (is_lstm) {
            assert_true(fabs((double)diff_c[i] - slope(true, x, &x->c, grad, grad_c)) < 1e-5);
            assert_true(direct_h[i] == 0.0f);
        } else {
            assert_true(fabs((double)direct_h[i] - slope(false, x, &x->h, grad, 0.0)) < 1e-5);
        }
    }
}

static void backward_steps_are_the_slopes_of_the_forward_ones(void **state)
{
    float grad_y[N];
    (void)state;
    for (int i = 0; i < N; i++) grad_y[i] = number(i + 990);
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int mode = 0; isa_has((isa_t)isa) && mode < 4; mode++)
            check_slopes(tables[isa], mode % 2 == 0, mode < 2 ? grad_y : NULL);
}

static void dot_products_are_those_of_double(void **state)
{
    float x[N], y[N];
    double wide_x[N], wide_y[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        wide_x[i] = (double)(x[i] = number(i));
        wide_y[i] = (double)(y[i] = number(i + 200));
    }
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        for (int n = 0; isa_has((isa_t)isa) && n <= N; n++) {
            double sum = 0.0, size = 0.0;
            for (int i = 0; i < n; i++) {
                sum += wide_x[i] * wide_y[i];
                size += fabs(wide_x[i] * wide_y[i]);
            }
            assert_true(fabs(tables[isa]->dot_f32(x, y, n) - sum) <= 4 * FLT_EPSILON * size);
            assert_true(fabs(tables[isa]->dot_f64(wide_x, wide_y, n) - sum) <=
                        8 * DBL_EPSILON * size);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_double),
        cmocka_unit_test(backward_steps_are_the_slopes_of_the_forward_ones),
        cmocka_unit_test(dot_products_are_those_of_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
