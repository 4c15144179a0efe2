/* Finds an expression of sizes from the values that it has at several sizes. */
#include "graph/ir/size_fit_impl.h"

#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/sym/sym_impl.h"

/* ---- evaluating ---- */

static bool divide(int64_t value, int64_t divisor, int64_t *out_value)
{
    if (divisor < 1) return false;
    *out_value = value / divisor - (value % divisor < 0);
    return true;
}

static bool calculate_part(const size_part_t *part, size_of_t size_of, void *user,
                           int64_t *out_value)
{
    int64_t size = 0;
    return size_of(user, &part->variable, &size) &&
           !__builtin_add_overflow(size, part->offset, &size) &&
           divide(size, part->divisor, out_value);
}

bool size_calculate(const size_expr_t *expr, size_of_t size_of, void *user, int64_t *out_value)
{
    int64_t sum = expr->offset;
    for (int t = 0; t < expr->n_terms; t++) {
        const size_term_t *term = &expr->terms[t];
        int64_t product = term->factor, value = 0;
        for (int i = 0; i < term->n; i++)
            if (!calculate_part(&term->parts[i], size_of, user, &value) ||
                __builtin_mul_overflow(product, value, &product))
                return false;
        if (__builtin_add_overflow(sum, product, &sum)) return false;
    }
    return divide(sum, expr->divisor, out_value);
}

/* ---- comparing ---- */

static bool same_variable(const size_variable_t *a, const size_variable_t *b)
{
    if (a->name == NULL || b->name == NULL) return a->name == b->name && a->dim == b->dim;
    return strcmp(a->name, b->name) == 0;
}

/* Compares terms without their factors. */
static bool same_term(const size_term_t *a, const size_term_t *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const size_part_t *x = &a->parts[i], *y = &b->parts[i];
        if (x->offset != y->offset || x->divisor != y->divisor ||
            !same_variable(&x->variable, &y->variable))
            return false;
    }
    return true;
}

/* ---- sums and products ---- */

static bool add_term(size_expr_t *expr, const size_term_t *term)
{
    for (int t = 0; t < expr->n_terms; t++) {
        size_term_t *own = &expr->terms[t];
        if (!same_term(own, term)) continue;
        if (__builtin_add_overflow(own->factor, term->factor, &own->factor)) return false;
        if (own->factor == 0) *own = expr->terms[--expr->n_terms];
        return true;
    }
    if (term->factor == 0) return true;
    if (term->n == 0) return !__builtin_add_overflow(expr->offset, term->factor, &expr->offset);
    if (expr->n_terms == SIZE_MAX_TERMS) return false;
    expr->terms[expr->n_terms++] = *term;
    return true;
}

/* Returns term t or, if t is the number of terms, the offset as a term. */
static size_term_t term_at(const size_expr_t *expr, int t)
{
    return t < expr->n_terms ? expr->terms[t] : (size_term_t){.factor = expr->offset};
}

bool size_add(size_expr_t *a, int64_t factor, const size_expr_t *b)
{
    size_expr_t sum = *a;
    INVARIANT(a->divisor == 1 && b->divisor == 1);
    for (int t = 0; t <= b->n_terms; t++) {
        size_term_t term = term_at(b, t);
        if (__builtin_mul_overflow(term.factor, factor, &term.factor) || !add_term(&sum, &term))
            return false;
    }
    *a = sum;
    return true;
}

bool size_multiply(size_expr_t *a, const size_expr_t *b)
{
    size_expr_t product = {.divisor = 1};
    INVARIANT(a->divisor == 1 && b->divisor == 1);
    for (int t = 0; t <= a->n_terms; t++)
        for (int u = 0; u <= b->n_terms; u++) {
            size_term_t term = term_at(a, t), other = term_at(b, u);
            if (term.factor == 0 || other.factor == 0) continue;
            if (__builtin_mul_overflow(term.factor, other.factor, &term.factor) ||
                term.n + other.n > SIZE_MAX_VARIABLES)
                return false;
            for (int i = 0; i < other.n; i++) term.parts[term.n++] = other.parts[i];
            if (!add_term(&product, &term)) return false;
        }
    *a = product;
    return true;
}

/* ---- conversion to symbolic expressions ---- */

static int64_t symbol_of(context_t *ctx, const size_variable_t *variable)
{
    char dim[16];
    snprintf(dim, sizeof dim, "#%d", variable->dim);
    return sym_name(ctx, variable->name != NULL ? variable->name : dim, SYM_NO_HINT, 0, INT64_MAX);
}

status_t size_symbol(context_t *ctx, const size_expr_t *expr, sym_space_t *space,
                     int64_t *out_value)
{
    sym_space_t *before = sym_space_enter(ctx, space);
    int64_t sum = expr->offset;
    for (int t = 0; t < expr->n_terms; t++) {
        int64_t product = expr->terms[t].factor;
        for (int i = 0; i < expr->terms[t].n; i++) {
            const size_part_t *part = &expr->terms[t].parts[i];
            const int64_t shifted = sym_add(ctx, symbol_of(ctx, &part->variable), part->offset);
            product = sym_multiply(ctx, product, sym_divide(ctx, shifted, part->divisor));
        }
        sum = sym_add(ctx, sum, product);
    }
    sum = sym_divide(ctx, sum, expr->divisor);
    const status_t status = sym_status(ctx);
    sym_space_enter(ctx, before);
    TRY(status);
    REQUIRE(ctx, sum != SYM_NONE, "a computed size overflows");
    *out_value = sum;
    return STATUS_OK;
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

/* ---- finding quotients ---- */

enum { MAX_DIVISOR = 512, MAX_QUOTIENTS = 64 };

/* (product + offset) / divisor */
typedef struct quotient {
    int64_t divisor, offset;
} quotient_t;

/* Finds the range of offsets with which the quotient equals the value of every sample; false if
 * there are none. */
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

/* Lists matching quotients. If many offsets match, lists only the smallest, the largest and some in
 * between. */
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

/* ---- expressions of one variable ---- */

static size_expr_t expr_of(const size_variable_t *variable, int64_t offset, int64_t divisor)
{
    size_expr_t expr = {.n_terms = 1, .divisor = 1};
    expr.terms[0] = (size_term_t){
        .factor = 1, .n = 1, .parts = {{*variable, .offset = offset, .divisor = divisor}}};
    return expr;
}

/* factor * product + offset */
static bool find_line(int n_samples, const int64_t *product, const int64_t *values,
                      int64_t *out_factor, int64_t *out_offset)
{
    int64_t rise = 0, run = 0, base = 0, value = 0;
    int s = 1;
    while (s < n_samples && product[s] == product[0]) s++;
    if (s >= n_samples || __builtin_sub_overflow(values[s], values[0], &rise) ||
        __builtin_sub_overflow(product[s], product[0], &run) || rise % run != 0 || rise == 0)
        return false;
    *out_factor = rise / run;
    if (__builtin_mul_overflow(*out_factor, product[0], &base) ||
        __builtin_sub_overflow(values[0], base, out_offset))
        return false;
    for (s = 0; s < n_samples; s++)
        if (__builtin_mul_overflow(*out_factor, product[s], &value) ||
            __builtin_add_overflow(value, *out_offset, &value) || value != values[s])
            return false;
    return true;
}

/* value = height * steps + slope * size + base; steps is a quotient of the size */
typedef struct size_stairs {
    int64_t slope, height, base;
    int64_t steps[SIZE_MAX_SAMPLES];
} size_stairs_t;

#define SIZE_STAIRS 6

/* Fits size_stairs to the values; false if that is impossible. k selects slope 0, -1 or 1, and
 * rising or falling steps. Examples: 2*((H+1)/2), padding of H to a multiple of 4, H modulo 4. */
static bool find_stairs(int k, int n_samples, const int64_t *sizes, const int64_t *values,
                        size_stairs_t *out_stairs)
{
    static const int64_t slopes[SIZE_STAIRS] = {0, 0, -1, 1, -1, 1};
    static const bool is_down[SIZE_STAIRS] = {false, true, false, true, true, false};
    size_stairs_t *stairs = out_stairs;
    int64_t height = 0;
    stairs->slope = slopes[k];
    for (int s = 0; s < n_samples; s++) {
        const int64_t ramp = sizes[s] * slopes[k];
        if (sizes[s] > INT32_MAX || __builtin_sub_overflow(values[s], ramp, &stairs->steps[s]) ||
            stairs->steps[s] > INT64_MAX / 4 || stairs->steps[s] < INT64_MIN / 4)
            return false;
        height = sym_gcd(height, stairs->steps[s] - stairs->steps[0]);
    }
    if (height == 0) return false;
    stairs->base = stairs->steps[0] % height;
    if (stairs->base < 0) stairs->base += height;
    stairs->height = is_down[k] ? -height : height;
    for (int s = 0; s < n_samples; s++)
        stairs->steps[s] = (stairs->steps[s] - stairs->base) / stairs->height;
    return true;
}

static bool put_stairs(const size_stairs_t *stairs, const quotient_t *quotient,
                       const size_variable_t *variable, size_expr_t *out_expr)
{
    const size_expr_t steps = expr_of(variable, quotient->offset, quotient->divisor),
                      ramp = expr_of(variable, 0, 1);
    *out_expr = (size_expr_t){.offset = stairs->base, .divisor = 1};
    return size_add(out_expr, stairs->height, &steps) && size_add(out_expr, stairs->slope, &ramp);
}

/* Few samples can match several quotients that differ at other sizes: x/16 and (x+1)/16 differ only
 * if a sample is 15 above a multiple of 16. So a quotient is used only if it is the only match. */
static bool fit_stairs(int n_samples, const int64_t *sizes, const int64_t *values,
                       const size_variable_t *variable, size_expr_t *out_expr)
{
    for (int k = 0; k < SIZE_STAIRS; k++) {
        size_stairs_t stairs;
        quotient_t quotients[MAX_QUOTIENTS];
        if (find_stairs(k, n_samples, sizes, values, &stairs) &&
            find_quotients(n_samples, sizes, stairs.steps, quotients) == 1)
            return put_stairs(&stairs, &quotients[0], variable, out_expr);
    }
    return false;
}

/* ---- expressions ---- */

/* A search among products of variables and pool entries. */
typedef struct seeking {
    const size_samples_t *samples; /* samples of the variables and pool entries */
    const size_pool_t *pool;
    int n_own; /* number of variables; pool entries follow them */
    const size_variable_t *variables;
    const int64_t *values;
    int64_t factor, offset; /* the linear function found */
} seeking_t;

static size_expr_t expr_at(const seeking_t *seeking, int index)
{
    return index < seeking->n_own ? expr_of(&seeking->variables[index], 0, 1)
                                  : seeking->pool->items[index - seeking->n_own].expr;
}

static bool fits_line(void *user, int n, const int64_t *product)
{
    (void)n;
    seeking_t *seeking = user;
    return find_line(seeking->samples->n_samples, product, seeking->values, &seeking->factor,
                     &seeking->offset);
}

static bool fit_product(seeking_t *seeking, size_expr_t *out_expr)
{
    int chosen[SIZE_MAX_VARIABLES];
    const int n = size_seek(seeking->samples, fits_line, seeking, chosen);
    if (n == 0) return false;
    size_expr_t product = expr_at(seeking, chosen[0]);
    for (int i = 1; i < n; i++) {
        const size_expr_t factor = expr_at(seeking, chosen[i]);
        if (!size_multiply(&product, &factor)) return false;
    }
    *out_expr = (size_expr_t){.offset = seeking->offset, .divisor = 1};
    return size_add(out_expr, seeking->factor, &product);
}

/* Solves y = a * p + b * q + c for a and b, from the first sample and two others. */
static bool solve(int n, const int64_t *p, const int64_t *q, const int64_t *y, int64_t *out_a,
                  int64_t *out_b)
{
    int s = 1, t = 2;
    while (s < n && p[s] == p[0] && q[s] == q[0]) s++;
    for (t = s + 1; t < n; t++) {
        const double px = (double)(p[s] - p[0]), qx = (double)(q[s] - q[0]),
                     pz = (double)(p[t] - p[0]), qz = (double)(q[t] - q[0]);
        const double yx = (double)(y[s] - y[0]), yz = (double)(y[t] - y[0]);
        const double by = px * qz - pz * qx;
        if (by == 0) continue;
        const double a = (yx * qz - yz * qx) / by, b = (px * yz - pz * yx) / by;
        *out_a = (int64_t)(a < 0 ? a - 0.5 : a + 0.5);
        *out_b = (int64_t)(b < 0 ? b - 0.5 : b + 0.5);
        return a > -1e9 && a < 1e9 && b > -1e9 && b < 1e9 && *out_a != 0 && *out_b != 0;
    }
    return false;
}

static bool is_sum(int n, const int64_t *p, const int64_t *q, const int64_t *y, int64_t a,
                   int64_t b)
{
    for (int s = 1; s < n; s++) {
        int64_t x = 0, z = 0;
        if (__builtin_mul_overflow(p[s] - p[0], a, &x) ||
            __builtin_mul_overflow(q[s] - q[0], b, &z) || __builtin_add_overflow(x, z, &x) ||
            x != y[s] - y[0])
            return false;
    }
    return true;
}

static bool fit_sum(const seeking_t *seeking, size_expr_t *out_expr)
{
    const size_samples_t *samples = seeking->samples;
    const int n = samples->n_samples;
    const int64_t *y = seeking->values;
    for (int i = 0; i < samples->n_variables; i++)
        for (int j = i + 1; j < samples->n_variables; j++) {
            const int64_t *p = samples->sizes[i], *q = samples->sizes[j];
            const size_expr_t first = expr_at(seeking, i), second = expr_at(seeking, j);
            size_expr_t sum = {.divisor = 1};
            int64_t a = 0, b = 0;
            if (!solve(n, p, q, y, &a, &b) || !is_sum(n, p, q, y, a, b)) continue;
            sum.offset = y[0] - a * p[0] - b * q[0];
            if (!size_add(&sum, a, &first) || !size_add(&sum, b, &second)) continue;
            *out_expr = sum;
            return true;
        }
    return false;
}

/* Fits products of variables and pool entries, and sums of two of these. */
static bool fit_pool(const seeking_t *seeking, const size_samples_t *own, size_expr_t *out_expr)
{
    enum { MAX_BOTH = 160 };
    const int64_t *sizes[MAX_BOTH];
    int n = own->n_variables;
    if (n + SIZE_MAX_POOL > MAX_BOTH) return false;
    memcpy(sizes, own->sizes, (size_t)n * sizeof *sizes);
    for (int i = 0; i < seeking->pool->n; i++) sizes[n++] = seeking->pool->items[i].values;
    const size_samples_t both = {own->n_samples, n, sizes, NULL};
    seeking_t wider = *seeking;
    wider.samples = &both;
    return fit_product(&wider, out_expr) || fit_sum(&wider, out_expr);
}

bool size_fit(const size_samples_t *samples, const size_pool_t *pool, const int64_t *values,
              size_expr_t *out_expr)
{
    seeking_t seeking = {.samples = samples,
                         .pool = pool,
                         .n_own = samples->n_variables,
                         .variables = samples->variables,
                         .values = values};
    if (fit_product(&seeking, out_expr)) return true;
    for (int v = 0; v < samples->n_variables; v++)
        if (fit_stairs(samples->n_samples, samples->sizes[v], values, &samples->variables[v],
                       out_expr))
            return true;
    return pool != NULL && pool->n > 0 && fit_pool(&seeking, samples, out_expr);
}

void size_pool_add(size_pool_t *pool, const size_samples_t *samples, const int64_t *values)
{
    const size_t bytes = (size_t)samples->n_samples * sizeof *values;
    size_expr_t expr;
    int64_t factor = 0, offset = 0;
    if (pool->n == SIZE_MAX_POOL || samples->n_samples > SIZE_MAX_SAMPLES) return;
    for (int i = 0; i < pool->n; i++)
        if (memcmp(pool->items[i].values, values, bytes) == 0) return;
    for (int v = 0; v < samples->n_variables; v++)
        if (find_line(samples->n_samples, samples->sizes[v], values, &factor, &offset)) return;
    for (int v = 0; v < samples->n_variables; v++) {
        if (!fit_stairs(samples->n_samples, samples->sizes[v], values, &samples->variables[v],
                        &expr))
            continue;
        pool->items[pool->n].expr = expr;
        memcpy(pool->items[pool->n++].values, values, bytes);
        return;
    }
}

/* Fits the first quotient of variable v that equals the value of every sample. */
static bool fit_quotient(const size_samples_t *samples, int v, const int64_t *values,
                         size_expr_t *out_expr)
{
    static const int64_t divisors[] = {2, 3, 4, 5, 6, 7, 8, 16, 32, 64};
    const int64_t *sizes = samples->sizes[v];
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
        int64_t low = 0, high = 0;
        if (!find_offsets(samples->n_samples, sizes, values, divisors[i], &low, &high)) continue;
        *out_expr = expr_of(&samples->variables[v], low, divisors[i]);
        return true;
    }
    return false;
}

bool size_fit_any(const size_samples_t *samples, const int64_t *values, size_expr_t *out_expr)
{
    seeking_t seeking = {.samples = samples,
                         .n_own = samples->n_variables,
                         .variables = samples->variables,
                         .values = values};
    bool varies = false;
    for (int s = 1; s < samples->n_samples; s++) varies |= values[s] != values[0];
    if (!varies) return false;
    if (fit_product(&seeking, out_expr)) return true;
    for (int v = 0; v < samples->n_variables; v++)
        if (fit_quotient(samples, v, values, out_expr)) return true;
    return false;
}
