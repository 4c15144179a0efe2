/* Finds an expression of sizes from examples: the values that it has at several sizes.
 *
 *   H       8  9 10 11 12 13        a variable
 *   values  0  3  2  1  0  3        4*((H+3)/4)-H: padding of H to a multiple of 4
 *
 * The expression has the right value in each example. Several quotients may be right in all
 * examples and differ at other sizes. So a quotient is accepted only if it is the only one, or if
 * the caller verifies it. */
#ifndef TESSERA_GRAPH_IR_SIZE_FIT_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_FIT_IMPL_H

#include "graph/ir/size_impl.h"

#define SIZE_MAX_VARIABLES 3 /* in one term */
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

/* Returns the size of a variable; false if it is unknown. */
typedef bool (*size_of_t)(void *user, const size_variable_t *variable, int64_t *out_size);

/* Evaluates the expression. False if a size is unknown, and on overflow. */
bool size_calculate(const size_expr_t *expr, size_of_t size_of, void *user, int64_t *out_value);

/* a += factor * b, and a *= b, for expressions without divisors. On overflow or too many terms
 * return false and leave `a` unchanged. */
bool size_add(size_expr_t *a, int64_t factor, const size_expr_t *b);
bool size_multiply(size_expr_t *a, const size_expr_t *b);

/* Converts the expression to a handle of the symbol space; adds missing names to the space. */
status_t size_symbol(context_t *ctx, const size_expr_t *expr, sym_space_t *space,
                     int64_t *out_value);

#define SIZE_MAX_SAMPLES 320

/* sizes[v][s] is the size of variables[v] in sample s. */
typedef struct size_samples {
    int n_samples, n_variables;
    const int64_t *const *sizes;
    const size_variable_t *variables;
} size_samples_t;

/* ---- products ---- */

/* Callback: true if this product of n variables is the wanted one; product[s] is its value in
 * sample s. */
typedef bool (*size_fits_t)(void *user, int n, const int64_t *product);

/* Tries products of one, two, then three variables until one fits. Returns its number of variables
 * and their indices in out_chosen; 0 if none fits. */
int size_seek(const size_samples_t *samples, size_fits_t fits, void *user, int *out_chosen);

/* ---- intermediate sizes ---- */

#define SIZE_MAX_POOL 32

/* Intermediate sizes, each with its unique expression over one variable, such as (H+1)/2 in
 * 2*((H+1)/2)*W. Other sizes are products and sums of intermediate sizes and variables. */
typedef struct size_pool {
    int n;
    struct {
        int64_t values[SIZE_MAX_SAMPLES];
        size_expr_t expr;
    } items[SIZE_MAX_POOL];
} size_pool_t;

/* Adds an intermediate size with these values, unless they equal those of a variable or another
 * entry. */
void size_pool_add(size_pool_t *pool, const size_samples_t *samples, const int64_t *values);

/* ---- expressions ---- */

/* Fits a linear function of a product of variables, else the unique quotient of one variable. If
 * there is a pool, also tries linear functions of products of variables and pool entries, and sums
 * of two such functions. */
bool size_fit(const size_samples_t *samples, const size_pool_t *pool, const int64_t *values,
              size_expr_t *out_expr);

/* Fits a linear function of a product of variables, else the first matching quotient of a variable.
 * The caller must verify the result at other sizes. */
bool size_fit_any(const size_samples_t *samples, const int64_t *values, size_expr_t *out_expr);

#endif
