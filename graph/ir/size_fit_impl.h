/* From numbers at several sizes to the expression that gives them.
 *
 *   H       8  9 10 11 12 13        of a variable
 *   values  0  3  2  1  0  3        4*((H+3)/4)-H: what H lacks to be a multiple of 4
 *
 * What is found gives all values. Quotients that give them may be several, which differ at other
 * sizes; so one is taken only where it is the only one, unless the caller tries it itself. */
#ifndef TESSERA_GRAPH_IR_SIZE_FIT_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_FIT_IMPL_H

#include "graph/ir/size_impl.h"

#define SIZE_MAX_VARIABLES 3 /* of one term */
#define SIZE_MAX_TERMS 6

typedef struct size_variable {
    const char *name; /* NULL: dimension `dim` of operand 0 */
    int dim;
} size_variable_t;

/* (variable + offset) / divisor, rounded down. */
typedef struct size_part {
    size_variable_t variable;
    int64_t offset, divisor;
} size_part_t;

/* factor * part * ... */
typedef struct size_term {
    int64_t factor;
    int n;
    size_part_t parts[SIZE_MAX_VARIABLES];
} size_term_t;

/* (term + ... + offset) / divisor, rounded down. */
typedef struct size_expr {
    int n_terms;
    size_term_t terms[SIZE_MAX_TERMS];
    int64_t offset, divisor;
} size_expr_t;

/* The size of a variable; false: it is not known. */
typedef bool (*size_of_t)(void *user, const size_variable_t *variable, int64_t *out_size);

/* Calculates the expression at these sizes; false when one is not known, or on overflow. */
bool size_calculate(const size_expr_t *expr, size_of_t size_of, void *user, int64_t *out_value);

/* a += factor * b, and a *= b; without divisors. False when it overflows or has too many terms; `a`
 * is left as it is then. */
bool size_add(size_expr_t *a, int64_t factor, const size_expr_t *b);
bool size_multiply(size_expr_t *a, const size_expr_t *b);

/* The same expression in a space; names that it lacks are made. */
status_t size_symbol(context_t *ctx, const size_expr_t *expr, sym_space_t *space,
                     int64_t *out_value);

#define SIZE_MAX_SAMPLES 320

/* Sizes of several variables at several samples: sizes[v][s] is that of variables[v] at sample s.
 */
typedef struct size_samples {
    int n_samples, n_variables;
    const int64_t *const *sizes;
    const size_variable_t *variables;
} size_samples_t;

/* ---- products ---- */

/* Whether a product of n variables, product[s] at sample s, is the one that is sought. */
typedef bool (*size_fits_t)(void *user, int n, const int64_t *product);

/* Tries products of one variable, of two, then of three, until one fits: out_chosen are its
 * variables, as many as it gives; 0: none fits. */
int size_seek(const size_samples_t *samples, size_fits_t fits, void *user, int *out_chosen);

/* ---- sizes inside ---- */

#define SIZE_MAX_POOL 32

/* Sizes of what is inside, each the only expression over one variable that gives them: of
 * 2*((H+1)/2)*W the one quotient. Others are products and sums of these. */
typedef struct size_pool {
    int n;
    struct {
        int64_t values[SIZE_MAX_SAMPLES];
        size_expr_t expr;
    } items[SIZE_MAX_POOL];
} size_pool_t;

/* Adds what is no variable, and not there yet. */
void size_pool_add(size_pool_t *pool, const size_samples_t *samples, const int64_t *values);

/* ---- expressions ---- */

/* A line over a product of variables, else the only quotient of one of them; with a pool also a
 * line over a product of variables and of what is in the pool, and the sum of two such. */
bool size_fit(const size_samples_t *samples, const size_pool_t *pool, const int64_t *values,
              size_expr_t *out_expr);

/* A line over a product of variables, else the first quotient of one of them that gives all values:
 * for a caller that holds it against other sizes. */
bool size_fit_any(const size_samples_t *samples, const int64_t *values, size_expr_t *out_expr);

#endif
