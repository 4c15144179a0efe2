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

/* ---- quotients that cannot be told apart ---- */

enum { MAX_DIVISOR = 512, MAX_QUOTIENTS = 64, REACH = 1024 };

/* (product + offset) / divisor */
typedef struct quotient {
    int64_t divisor, offset;
    int group; /* quotients of one group are alike at all sizes chosen so far */
} quotient_t;

/* Offsets between *out_low and *out_high are those that give all values; false: there are none. */
static bool find_offsets(int n_samples, const int64_t *product, const int64_t *values,
                         int64_t divisor, int64_t *out_low, int64_t *out_high)
{
    *out_low = INT64_MIN;
    *out_high = INT64_MAX;
    for (int s = 0; s < n_samples; s++) {
        int64_t low = 0, high = 0;
        if (__builtin_mul_overflow(values[s], divisor, &low) ||
            __builtin_sub_overflow(low, product[s], &low) ||
            __builtin_add_overflow(low, divisor - 1, &high))
            return false;
        if (low > *out_low) *out_low = low;
        if (high < *out_high) *out_high = high;
        if (*out_low > *out_high) return false;
    }
    return true;
}

/* Of many offsets those at the ends and some between. */
static int find_quotients(int n_samples, const int64_t *product, const int64_t *values,
                          quotient_t *out_quotients)
{
    enum { MAX_OFFSETS = 16 };
    int n = 0;
    for (int64_t divisor = 2; divisor <= MAX_DIVISOR; divisor++) {
        int64_t low = 0, high = 0;
        if (!find_offsets(n_samples, product, values, divisor, &low, &high)) continue;
        const int64_t step = 1 + (high - low) / MAX_OFFSETS;
        for (int64_t offset = low; offset <= high && n < MAX_QUOTIENTS; offset += step)
            out_quotients[n++] = (quotient_t){.divisor = divisor, .offset = offset};
        if (step > 1 && n < MAX_QUOTIENTS)
            out_quotients[n++] = (quotient_t){.divisor = divisor, .offset = high};
    }
    return n;
}

static int64_t quotient_at(const quotient_t *quotient, int64_t size)
{
    const int64_t sum = size + quotient->offset;
    return sum / quotient->divisor - (sum % quotient->divisor < 0);
}

/* Quotients of one group that differ at this size go to groups of their own. */
static bool split_groups(int n, quotient_t *quotients, int64_t size)
{
    int n_groups = 0, n_before = 0, groups[MAX_QUOTIENTS] = {0};
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (quotients[first].group != quotients[i].group ||
               quotient_at(&quotients[first], size) != quotient_at(&quotients[i], size))
            first++;
        groups[i] = first < i ? groups[first] : n_groups++;
    }
    for (int i = 0; i < n; i++)
        if (quotients[i].group >= n_before) n_before = quotients[i].group + 1;
    for (int i = 0; i < n; i++) quotients[i].group = groups[i];
    return n_groups > n_before;
}

static bool contains(int n, const int64_t *sizes, int64_t size)
{
    for (int i = 0; i < n; i++)
        if (sizes[i] == size) return true;
    return false;
}

int size_split(int n_samples, const int64_t *sizes, const int64_t *values, int n_tried,
               const int64_t *tried, int capacity, int64_t *out_sizes)
{
    quotient_t quotients[MAX_QUOTIENTS];
    const int n = find_quotients(n_samples, sizes, values, quotients);
    int n_out = 0;
    for (int64_t away = 1; away <= REACH && n > 1; away++)
        for (int side = 1; side >= -1 && n_out < capacity; side -= 2) {
            const int64_t size = sizes[0] + side * away;
            if (size >= 1 && !contains(n_tried, tried, size) && split_groups(n, quotients, size))
                out_sizes[n_out++] = size;
        }
    return n_out;
}

static bool are_apart(int n, const quotient_t *quotients, int64_t size)
{
    for (int i = 1; i < n; i++)
        if (quotient_at(&quotients[i], size) != quotient_at(&quotients[0], size)) return true;
    return false;
}

static void put_quotient(const quotient_t *quotient, size_expr_t *out_expr)
{
    *out_expr = (size_expr_t){
        .factor = 1, .offset = quotient->offset, .divisor = quotient->divisor, .n = 1};
}

bool size_fit_between(int n_samples, const int64_t *sizes, const int64_t *values, int n_over,
                      const int64_t *over, size_expr_t *out_expr)
{
    enum { N_NEEDED = 4 };
    quotient_t quotients[MAX_QUOTIENTS];
    const int n = find_quotients(n_samples, sizes, values, quotients);
    int n_apart = 0;
    for (int i = 0; i < n_over && n > 1; i++) {
        bool is_above = false, is_below = false;
        for (int s = 0; s < n_samples; s++) {
            is_above = is_above || over[i] > sizes[s];
            is_below = is_below || over[i] < sizes[s];
        }
        n_apart += is_above && is_below && are_apart(n, quotients, over[i]);
    }
    if (n_apart < N_NEEDED) return false;
    put_quotient(&quotients[0], out_expr);
    return true;
}

/* Samples that lie apart fit many quotients, which differ between them: x/16 and (x+1)/16 are one
 * where no sample is 15 above a multiple of 16. The quotient that is the only one is right. */
static bool fit_only_quotient(int n_samples, const int64_t *product, const int64_t *values,
                              size_expr_t *out_expr)
{
    quotient_t quotients[MAX_QUOTIENTS];
    if (find_quotients(n_samples, product, values, quotients) != 1) return false;
    put_quotient(&quotients[0], out_expr);
    return true;
}

typedef struct fitting {
    int n_samples;
    const int64_t *values;
    size_expr_t *expr;
} fitting_t;

static bool fits_values(void *user, int n, const int64_t *product)
{
    const fitting_t *fitting = user;
    fitting->expr->n = n;
    return fit_line(fitting->n_samples, product, fitting->values, fitting->expr) ||
           (n == 1 &&
            fit_only_quotient(fitting->n_samples, product, fitting->values, fitting->expr));
}

bool size_fit(const size_samples_t *samples, const int64_t *values, size_expr_t *out_expr,
              int *out_chosen)
{
    fitting_t fitting = {samples->n_samples, values, out_expr};
    return size_seek(samples, fits_values, &fitting, out_chosen) > 0;
}
