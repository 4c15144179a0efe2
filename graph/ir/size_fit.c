/* From numbers at several sizes to the expression that gives them. */
#include "graph/ir/size_impl.h"
#include "tensor/context_impl.h"

/* ---- one product ---- */

/* Whether the expression of this product gives all values. */
static bool gives(const size_expr_t *expr, int n_samples, const int64_t *product,
                  const int64_t *values)
{
    for (int s = 0; s < n_samples; s++) {
        int64_t value;
        if (!size_calculate(expr, product[s], &value) || value != values[s]) return false;
    }
    return true;
}

static bool fit_line(int n_samples, const int64_t *product, const int64_t *values,
                     size_expr_t *out_expr)
{
    int64_t rise = 0, run = 0, base = 0;
    int s = 1;
    while (s < n_samples && product[s] == product[0]) s++;
    if (s >= n_samples || __builtin_sub_overflow(values[s], values[0], &rise) ||
        __builtin_sub_overflow(product[s], product[0], &run) || rise % run != 0 || rise == 0)
        return false;
    out_expr->factor = rise / run;
    out_expr->divisor = 1;
    return !__builtin_mul_overflow(out_expr->factor, product[0], &base) &&
           !__builtin_sub_overflow(values[0], base, &out_expr->offset) &&
           gives(out_expr, n_samples, product, values);
}

/* Offsets that give the first value are as many as the divisor, one behind the other. */
static bool fit_quotient(int n_samples, const int64_t *product, const int64_t *values,
                         size_expr_t *out_expr)
{
    static const int64_t divisors[] = {2, 3, 4, 5, 6, 7, 8, 16, 32, 64};
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
        int64_t divisor = divisors[i], first = 0;
        if (__builtin_mul_overflow(values[0], divisor, &first) ||
            __builtin_sub_overflow(first, product[0], &first))
            return false;
        for (int64_t offset = 0; offset < divisor; offset++) {
            out_expr->factor = 1;
            out_expr->divisor = divisor;
            if (!__builtin_add_overflow(first, offset, &out_expr->offset) &&
                gives(out_expr, n_samples, product, values))
                return true;
        }
    }
    return false;
}

bool size_fit_product(int n_samples, int n, const int64_t *product, const int64_t *values,
                      size_expr_t *out_expr)
{
    out_expr->n = n;
    return fit_line(n_samples, product, values, out_expr) ||
           (n == 1 && fit_quotient(n_samples, product, values, out_expr));
}

/* ---- products ---- */

static bool try_product(const size_samples_t *samples, size_fits_t fits, void *user, int n,
                        const int *chosen)
{
    int64_t product[SIZE_MAX_SAMPLES];
    for (int s = 0; s < samples->n_samples; s++) {
        product[s] = 1;
        for (int i = 0; i < n; i++)
            if (__builtin_mul_overflow(product[s], samples->sizes[chosen[i]][s], &product[s]))
                return false;
    }
    return fits(user, n, product);
}

int size_seek(const size_samples_t *samples, size_fits_t fits, void *user, int *out_chosen)
{
    int n = samples->n_variables, *at = out_chosen;
    INVARIANT(samples->n_samples <= SIZE_MAX_SAMPLES);
    for (at[0] = 0; at[0] < n; at[0]++)
        if (try_product(samples, fits, user, 1, at)) return 1;
    for (at[0] = 0; at[0] < n; at[0]++)
        for (at[1] = at[0]; at[1] < n; at[1]++)
            if (try_product(samples, fits, user, 2, at)) return 2;
    for (at[0] = 0; at[0] < n; at[0]++)
        for (at[1] = at[0] + 1; at[1] < n; at[1]++)
            for (at[2] = at[1] + 1; at[2] < n; at[2]++)
                if (try_product(samples, fits, user, 3, at)) return 3;
    return 0;
}

typedef struct fitting {
    int n_samples;
    const int64_t *values;
    size_expr_t *expr;
} fitting_t;

static bool fits_values(void *user, int n, const int64_t *product)
{
    const fitting_t *fitting = user;
    return size_fit_product(fitting->n_samples, n, product, fitting->values, fitting->expr);
}

bool size_fit(const size_samples_t *samples, const int64_t *values, size_expr_t *out_expr,
              int *out_chosen)
{
    fitting_t fitting = {samples->n_samples, values, out_expr};
    return size_seek(samples, fits_values, &fitting, out_chosen) > 0;
}
