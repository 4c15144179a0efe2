/* The products of Strassen's algorithm (strassen_impl.h): the seven products in Winograd's form,
 * the quarters of the result to which they are added, and the sums of quarters of x. Vectors have
 * KERNEL_LANES floats; there are at most KERNEL_ROWS rows.
 *
 * The two digits in the name of a quarter number halves: of rows and inputs (x), inputs and outputs
 * (weight), or rows and outputs (result). x12 is the first half of the rows and the last half of
 * the inputs. */
#ifndef TESSERA_KERNELS_LINEAR_STRASSEN_SOURCES_IMPL_H
#define TESSERA_KERNELS_LINEAR_STRASSEN_SOURCES_IMPL_H

#include "kernels/linear/strassen_impl.h"
#include "kernels/vector_impl.h"

/* Sums of quarters of x. X2_11 is X2 - x11, and X2 is x21 + x22. If rows are multiplied separately,
 * x21 replaces X2. */
enum { X11, X12, X22, X2, X2_11, X11_21, X12_2_11, X21 = X2 };

/* Sums of quarters of the weight: W12_11 is T1 = w12 - w11, W22_T1 is T2 = w22 - T1, W21_T2 is w21
 * - T2. */
enum { W12_11, W22_T1, W22_12, W21_T2, W11, W12, W21, W22, N_WEIGHTS };

/* Sums of products that several quarters of the result share. */
enum { U1, U2, U3, U5, N_SAVED, NOTHING = -1 };

/* A step adds a saved sum, then a product, to the current sums, then saves these. Each of the three
 * is optional. */
typedef struct step {
    int adds, source, weight, save;
} step_t;

typedef struct quarter {
    bool has_last_rows, has_last_outputs;
    int n_steps;
    step_t steps[3];
} quarter_t;

static const quarter_t quarters[] = {
    {false, false, 2, {{NOTHING, X11, W11, U1}, {NOTHING, X12, W21, NOTHING}}},
    {true,
     false,
     3,
     {{U1, X2_11, W22_T1, U2}, {NOTHING, X11_21, W22_12, U3}, {NOTHING, X22, W21_T2, NOTHING}}},
    {false, true, 2, {{NOTHING, X2, W12_11, U5}, {U2, X12_2_11, W22, NOTHING}}},
    {true, true, 2, {{U3, NOTHING, NOTHING, NOTHING}, {U5, NOTHING, NOTHING, NOTHING}}}};

/* Returns the larger absolute value of each lane, as bits. NaN counts as the largest. */
KERNEL_INLINE vector_u32_t larger(vector_u32_t largest, vector_t x)
{
    const vector_u32_t bits = (vector_u32_t)x & UINT32_C(0x7fffffff);
    const vector_u32_t is_larger = (vector_u32_t)(bits > largest);
    return (is_larger & bits) | (~is_larger & largest);
}

static uint32_t largest_lane(vector_u32_t bits)
{
    uint32_t largest = 0;
    for (int i = 0; i < KERNEL_LANES; i++) largest = bits[i] > largest ? bits[i] : largest;
    return largest;
}

/* Bits of 2^126: the sum of four elements of this size may overflow. */
#define LARGE UINT32_C(0x7e800000)

/* Returns true if two rows must be multiplied separately: if rounding errors of the row with larger
 * elements would be too large for the other row, or if sums of elements might not be finite. */
static bool are_apart(vector_u32_t first, vector_u32_t last)
{
    const uint32_t a = largest_lane(first), b = largest_lane(last);
    const uint32_t larger = a > b ? a : b, smaller = a > b ? b : a;
    return larger >= LARGE || larger - smaller > (uint32_t)STRASSEN_APART_BITS << 23;
}

/* Rows of a tile in x, from one block of inputs on. */
typedef struct source_rows {
    const float *x;
    int64_t block; /* stride of blocks of inputs */
    int64_t last_inputs;
    int64_t n_rows, n_last; /* n_last may be n_rows - 1: zeros replace the missing row */
    int64_t first[KERNEL_ROWS], last[KERNEL_ROWS];
} source_rows_t;

/* Computes the sources. Returns true if the rows must be multiplied separately. */
static bool make_sources(const source_rows_t *rows, int64_t n_blocks, float *to)
{
    const int64_t form = n_blocks * rows->n_rows * KERNEL_LANES;
    vector_u32_t largest[2][KERNEL_ROWS] = {{{0}}};
    const float *x = rows->x;
    for (int64_t b = 0; b < n_blocks; b++, x += rows->block)
        for (int64_t r = 0; r < rows->n_rows; r++, to += KERNEL_LANES) {
            const vector_t x11 = vector_load(x + rows->first[r]);
            const vector_t x12 = vector_load(x + rows->first[r] + rows->last_inputs);
            vector_t x21 = {0}, x22 = {0};
            if (r < rows->n_last) {
                x21 = vector_load(x + rows->last[r]);
                x22 = vector_load(x + rows->last[r] + rows->last_inputs);
            }
            const vector_t x2 = x21 + x22, x2_11 = x2 - x11;
            largest[0][r] = larger(larger(largest[0][r], x11), x12);
            largest[1][r] = larger(larger(largest[1][r], x21), x22);
            vector_store(x11, to + X11 * form);
            vector_store(x12, to + X12 * form);
            vector_store(x22, to + X22 * form);
            vector_store(x2, to + X2 * form);
            vector_store(x2_11, to + X2_11 * form);
            vector_store(x11 - x21, to + X11_21 * form);
            vector_store(x12 - x2_11, to + X12_2_11 * form);
        }
    for (int64_t r = 0; r < rows->n_rows; r++)
        if (are_apart(largest[0][r], largest[r < rows->n_last ? 1 : 0][r])) return true;
    return false;
}

static void copy_last_rows(const source_rows_t *rows, int64_t n_blocks, float *to)
{
    const float *x = rows->x;
    to += X21 * n_blocks * rows->n_rows * KERNEL_LANES;
    for (int64_t b = 0; b < n_blocks; b++, x += rows->block)
        for (int64_t r = 0; r < rows->n_rows; r++, to += KERNEL_LANES)
            vector_store(r < rows->n_last ? vector_load(x + rows->last[r]) : (vector_t){0}, to);
}

/* Computes the sources, and stores a flag before them: 1 if the rows are multiplied separately. */
static void make_flagged_sources(const source_rows_t *rows, int64_t n_blocks, float *to)
{
    const bool is_apart = make_sources(rows, n_blocks, to);
    if (is_apart) copy_last_rows(rows, n_blocks, to);
    to[-1] = is_apart ? 1.0f : 0.0f;
}

#endif
