/* Reductions other than sum and mean: extremes, products, any and all, norms and variances, all
 * with one kernel. Floating elements are combined in f64 and rounded once. Integers are combined as
 * s64. */
#include <math.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* opdef_t.variant of these operators. */
enum { AMAX, AMIN, PROD, ANY, ALL, LOGSUMEXP, NORM, VAR, STD };

static const attr_field_t fields[] = {REDUCE_FIELDS};
static const attr_field_t norm_fields[] = {REDUCE_FIELDS, FIELD_FLOAT(reduce_attrs_t, p, 2)};
static const attr_field_t var_fields[] = {REDUCE_FIELDS, FIELD_INT(reduce_attrs_t, correction, 1)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* ---- inference ---- */

static dtype_t result_dtype(int variant, dtype_t dtype)
{
    switch (variant) {
    case PROD: return dtype_is_floating(dtype) ? dtype : DTYPE_S64;
    case ANY:
    case ALL: return dtype == DTYPE_U8 ? DTYPE_U8 : DTYPE_BOOL;
    case LOGSUMEXP: return dtype_is_floating(dtype) ? dtype : DTYPE_F32;
    default: return dtype;
    }
}

/* True if the operator has no result for 0 elements: amax has none, but a product is 1. */
static bool needs_elements(const op_call_t *call)
{
    double p = ((const reduce_attrs_t *)call->attrs)->p;
    int variant = call->op->variant;
    return variant == AMAX || variant == AMIN || (variant == NORM && (p < 0.0 || isinf(p)));
}

static status_t statistics_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                 tensor_info_t *out)
{
    (void)out_n;
    const reduce_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *name = call->op->name;
    REQUIRE(ctx, call->op->variant < NORM || dtype_is_floating(x->dtype),
            "%s: x is %s, a floating dtype is needed", name, info_brief(x));
    REQUIRE(ctx, call->op->variant != NORM || !isnan(attrs->p), "%s: p is NaN, a number is needed",
            name);
    TRY(reduce_infer(ctx, call, result_dtype(call->op->variant, x->dtype), out));
    return needs_elements(call) ? reduce_need_elements(ctx, call) : STATUS_OK;
}

/* ---- specification ---- */

static double spec_extreme(const spec_call_t *call, const int64_t *index, double sign)
{
    reduce_spec_t spec;
    double best = -INFINITY, value = 0.0;
    reduce_spec(call, index, &spec);
    while (reduce_spec_next(&spec, &value))
        if (isnan(value) || sign * value > best) best = sign * value;
    return sign * best;
}

static double spec_variance(const spec_call_t *call, const int64_t *index)
{
    const reduce_attrs_t *attrs = call->attrs;
    reduce_spec_t spec;
    double sum = 0.0, squares = 0.0, value = 0.0;
    double n = (double)reduce_spec(call, index, &spec);
    while (reduce_spec_next(&spec, &value)) sum += value;
    reduce_spec(call, index, &spec);
    while (reduce_spec_next(&spec, &value)) squares += pow(value - sum / n, 2);
    return squares / fmax(n - (double)attrs->correction, 0.0);
}

static double spec_logsumexp(const spec_call_t *call, const int64_t *index)
{
    reduce_spec_t spec;
    double sum = 0.0, value = 0.0, most = spec_extreme(call, index, 1.0);
    if (!isfinite(most)) return most;
    reduce_spec(call, index, &spec);
    while (reduce_spec_next(&spec, &value)) sum += exp(value - most);
    return most + log(sum);
}

static double spec_norm(const spec_call_t *call, const int64_t *index)
{
    const double p = ((const reduce_attrs_t *)call->attrs)->p;
    reduce_spec_t spec;
    double sum = 0.0, value = 0.0, most = 0.0, least = INFINITY;
    bool has_nan = false;
    reduce_spec(call, index, &spec);
    while (reduce_spec_next(&spec, &value)) {
        has_nan = has_nan || isnan(value);
        most = fmax(most, fabs(value));
        least = fmin(least, fabs(value));
        sum += p == 0.0 ? (double)(value != 0.0) : pow(fabs(value), p);
    }
    if (p == 0.0) return sum;
    if (has_nan) return NAN;
    if (isinf(p)) return p > 0.0 ? most : least;
    return pow(sum, 1.0 / p);
}

static uint64_t integer_of(double element)
{
    int64_t integer = 0;
    dtype_store(DTYPE_S64, &integer, element);
    return (uint64_t)integer;
}

static double statistics_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    reduce_spec_t elements;
    double value = 0.0, product = 1.0;
    uint64_t wrapped = 1; /* product of integers, modulo 2^64 */
    bool any = false, all = true;
    const bool is_floating = dtype_is_floating(call->in[X]->dtype);
    switch (call->op->variant) {
    case AMAX: return spec_extreme(call, index, 1.0);
    case AMIN: return spec_extreme(call, index, -1.0);
    case LOGSUMEXP: return spec_logsumexp(call, index);
    case NORM: return spec_norm(call, index);
    case VAR: return spec_variance(call, index);
    case STD: return sqrt(spec_variance(call, index));
    default: break;
    }
    reduce_spec(call, index, &elements);
    while (reduce_spec_next(&elements, &value)) {
        product *= value;
        if (!is_floating) wrapped *= integer_of(value);
        any = any || value != 0.0;
        all = all && value != 0.0;
    }
    if (call->op->variant == PROD) return is_floating ? product : (double)(int64_t)wrapped;
    return call->op->variant == ANY ? any : all;
}

/* ---- dense kernel ----
 *
 * Reads x in chunks of f64 or s64 and combines these in lanes, which the compiler vectorises. */

#define LANES 8

/* The elements that are combined into one element of the result. */
typedef struct elements {
    const reduce_loops_t *loops;
    dtype_t dtype;
    const char *x;
} elements_t;

static double fold_product(double product, int64_t n, const double *x)
{
    double lanes[LANES] = {product, 1, 1, 1, 1, 1, 1, 1};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] *= x[i + j];
    for (; i < n; i++) lanes[0] *= x[i];
    for (int j = 1; j < LANES; j++) lanes[0] *= lanes[j];
    return lanes[0];
}

static double fold_sum(double sum, int64_t n, const double *x)
{
    double lanes[LANES] = {sum};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += x[i + j];
    for (; i < n; i++) lanes[0] += x[i];
    for (int j = 1; j < LANES; j++) lanes[0] += lanes[j];
    return lanes[0];
}

/* Function of each element that is then summed, multiplied or compared; `a` is its parameter. */
typedef enum term {
    TERM_ITSELF,
    TERM_NEGATIVE,
    TERM_SIZE,          /* |x| */
    TERM_NEGATIVE_SIZE, /* -|x| */
    TERM_SQUARE,        /* (x - a)^2 */
    TERM_POWER,         /* |x|^a */
    TERM_EXP,           /* exp(x - a) */
    TERM_IS_TRUE        /* x != 0 */
} term_t;

static void make_terms(term_t term, double a, int64_t n, double *x)
{
    switch (term) {
    case TERM_ITSELF: break;
    case TERM_NEGATIVE:
        for (int64_t i = 0; i < n; i++) x[i] = -x[i];
        break;
    case TERM_SIZE:
        for (int64_t i = 0; i < n; i++) x[i] = fabs(x[i]);
        break;
    case TERM_NEGATIVE_SIZE:
        for (int64_t i = 0; i < n; i++) x[i] = -fabs(x[i]);
        break;
    case TERM_SQUARE:
        for (int64_t i = 0; i < n; i++) x[i] = (x[i] - a) * (x[i] - a);
        break;
    case TERM_POWER:
        for (int64_t i = 0; i < n; i++) x[i] = pow(fabs(x[i]), a);
        break;
    case TERM_EXP:
        for (int64_t i = 0; i < n; i++) x[i] = exp(x[i] - a);
        break;
    case TERM_IS_TRUE:
        for (int64_t i = 0; i < n; i++) x[i] = x[i] != 0.0;
        break;
    }
}

typedef double (*fold_t)(double folded, int64_t n, const double *x);

static double fold(const elements_t *elements, fold_t function, double folded, term_t term,
                   double a)
{
    double chunk[REDUCE_CHUNK];
    for (int64_t at = 0; at < elements->loops->total; at += REDUCE_CHUNK) {
        int64_t n = reduce_read(elements->loops, elements->dtype, elements->x, at, DTYPE_F64,
                                chunk);
        make_terms(term, a, n, chunk);
        folded = function(folded, n, chunk);
    }
    return folded;
}

static double sum_of(const elements_t *elements, term_t term, double a)
{
    return fold(elements, fold_sum, 0.0, term, a);
}

static double largest_of(const elements_t *elements, term_t term)
{
    return fold(elements, reduce_largest, -INFINITY, term, 0.0);
}

static double norm_of(const elements_t *elements, double p)
{
    if (p == 0.0) return sum_of(elements, TERM_IS_TRUE, 0.0);
    if (p == 1.0) return sum_of(elements, TERM_SIZE, 0.0);
    if (p == 2.0) return sqrt(sum_of(elements, TERM_SQUARE, 0.0));
    if (isinf(p) && p > 0.0) return largest_of(elements, TERM_SIZE);
    if (isinf(p)) return -largest_of(elements, TERM_NEGATIVE_SIZE);
    return pow(sum_of(elements, TERM_POWER, p), 1.0 / p);
}

static double variance_of(const elements_t *elements, int64_t correction)
{
    double n = (double)elements->loops->total;
    double mean = sum_of(elements, TERM_ITSELF, 0.0) / n;
    return sum_of(elements, TERM_SQUARE, mean) / fmax(n - (double)correction, 0.0);
}

/* Subtracts the largest element from all others, so that one term is exp(0) = 1 and the sum does
 * not overflow. */
static double logsumexp_of(const elements_t *elements)
{
    double most = largest_of(elements, TERM_ITSELF);
    if (!isfinite(most)) return most;
    return most + log(sum_of(elements, TERM_EXP, most));
}

static double floating_result(int variant, const reduce_attrs_t *attrs, const elements_t *elements)
{
    switch (variant) {
    case AMAX: return largest_of(elements, TERM_ITSELF);
    case AMIN: return -largest_of(elements, TERM_NEGATIVE);
    case PROD: return fold(elements, fold_product, 1.0, TERM_ITSELF, 0.0);
    case ANY: return sum_of(elements, TERM_IS_TRUE, 0.0) > 0.0;
    case ALL: return sum_of(elements, TERM_IS_TRUE, 0.0) == (double)elements->loops->total;
    case LOGSUMEXP: return logsumexp_of(elements);
    case NORM: return norm_of(elements, attrs->p);
    case VAR: return variance_of(elements, attrs->correction);
    default: return sqrt(variance_of(elements, attrs->correction));
    }
}

static int64_t integer_result(int variant, const elements_t *elements)
{
    int64_t chunk[REDUCE_CHUNK], best = INT64_MIN;
    const int64_t mask = reduce_order_mask(elements->dtype, variant == AMIN);
    uint64_t product = 1;
    for (int64_t at = 0; at < elements->loops->total; at += REDUCE_CHUNK) {
        int64_t n = reduce_read(elements->loops, elements->dtype, elements->x, at, DTYPE_S64,
                                chunk);
        if (variant == PROD)
            for (int64_t i = 0; i < n; i++) product *= (uint64_t)chunk[i];
        else
            for (int64_t i = 0; i < n; i++)
                best = (chunk[i] ^ mask) > best ? chunk[i] ^ mask : best;
    }
    return variant == PROD ? (int64_t)product : best ^ mask;
}

typedef struct results {
    const prepared_t *prepared;
    reduce_loops_t kept, inner;
    const char *x, *grad;
    char *out;
} results_t;

static void find_results(void *user, int64_t first, int64_t last)
{
    const results_t *r = user;
    const dtype_t dtype = r->prepared->in[X].dtype, result = r->prepared->out[0].dtype;
    const int variant = r->prepared->op->variant;
    const bool is_integer = variant <= PROD && !dtype_is_floating(dtype);
    for (int64_t i = first; i < last; i++) {
        const int64_t offset = reduce_offset(&r->kept, r->kept.n, i) * (int64_t)dtype_size(dtype);
        elements_t elements = {&r->inner, dtype, r->x + offset};
        char *to = r->out + (size_t)i * dtype_size(result);
        if (is_integer)
            dtype_store_integer(result, to, integer_result(variant, &elements));
        else
            dtype_store(result, to, floating_result(variant, r->prepared->attrs, &elements));
    }
}

static status_t statistics_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                               void *const *out, void *scratch)
{
    (void)scratch;
    results_t results = {.prepared = prepared, .x = in[X], .out = out[0]};
    reduce_split(prepared, &results.kept, &results.inner);
    threads_share(threads_for(ctx, results.kept.total * results.inner.total), results.kept.total,
                  find_results, &results);
    return STATUS_OK;
}

/* ---- gradients ---- */

static const ints_t *dims_of(const gradient_call_t *call)
{
    return &((const reduce_attrs_t *)call->attrs)->dims;
}

static value_t keep(const gradient_call_t *call, value_t reduced)
{
    return emit_keepdim(call->emitter, reduced, dims_of(call), call->in[X]);
}

static value_t times(emitter_t *emitter, value_t a, value_t b)
{
    return emit_binary(emitter, &op_def_mul, a, b);
}

static value_t is_zero(emitter_t *emitter, value_t x)
{
    return emit_binary(emitter, &op_def_eq, x, emit_number(emitter, 0.0));
}

/* x where `zero` is not 0, otherwise 0. */
static value_t unless_zero(emitter_t *emitter, value_t zero, value_t x)
{
    return emit_where(emitter, is_zero(emitter, zero), emit_number(emitter, 0.0), x);
}

/* Divides the gradient equally among the elements that are equal to the result: if the maximum 3
 * occurs twice, each 3 gets half. */
static value_t share(const gradient_call_t *call, value_t x, value_t grad)
{
    emitter_t *e = call->emitter;
    const dtype_t dtype = emit_info(e, call->in[X])->dtype;
    const ints_t *dims = dims_of(call);
    value_t is = emit_binary(e, &op_def_eq, x, keep(call, call->out[0]));
    value_t count = emit_reduce(e, &op_def_sum, is, dims->n, dims->values, true); /* s64 */
    return times(e, emit_cast(e, is, dtype), emit_binary(e, &op_def_div, keep(call, grad), count));
}

static void pass_most(const gradient_call_t *call)
{
    call->in_grad[X] = share(call, call->in[X], call->out_grad[0]);
}

static void pass_product(const gradient_call_t *call)
{
    const value_t in[] = {keep(call, call->out_grad[0]), call->in[X]};
    reduce_attrs_t attrs = *(const reduce_attrs_t *)call->attrs;
    attrs.keepdim = true;
    call->in_grad[X] = emit_op(call->emitter, &op_def_prod_backward, &attrs, 2, in);
}

/* grad exp(x - out). For bf16 and f16, out is computed again in f32: near 40, a bf16 has an error
 * of up to 1/8, and exp(1/8) is 1.13. */
static void pass_logsumexp(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const ints_t *dims = dims_of(call);
    const value_t x = emit_widen(e, call->in[X]), grad = emit_widen(e, call->out_grad[0]);
    const value_t y = x == call->in[X]
                          ? keep(call, call->out[0])
                          : emit_reduce(e, &op_def_logsumexp, x, dims->n, dims->values, true);
    value_t part = emit_unary(e, &op_def_exp, emit_binary(e, &op_def_sub, x, y));
    part = times(e, part, keep(call, grad));
    call->in_grad[X] = emit_cast(e, part, emit_info(e, call->in[X])->dtype);
}

/* For p = 2: grad (x / y), where y is the norm. For other p: grad sign(x) (|x| / y)^(p - 1). The
 * result is 0 where y is 0. x / y is computed first, because it is at most 1, whereas grad / y may
 * be infinite. */
static void pass_norm(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const double p = ((const reduce_attrs_t *)call->attrs)->p;
    const value_t x = call->in[X], y = call->out[0], grad = call->out_grad[0];
    if (p == 0.0) return;
    if (p == 2.0) {
        const value_t kept = keep(call, y);
        const value_t part = unless_zero(e, kept, emit_binary(e, &op_def_div, x, kept));
        call->in_grad[X] = times(e, part, keep(call, grad));
        return;
    }
    const value_t sign = emit_unary(e, &op_def_sign, x), size = emit_unary(e, &op_def_abs, x);
    if (isinf(p)) {
        call->in_grad[X] = times(e, sign, share(call, size, grad));
        return;
    }
    value_t part = keep(call, grad);
    if (p != 1.0) {
        value_t power = emit_binary(e, &op_def_div, size, keep(call, y));
        power = emit_binary(e, &op_def_pow, power, emit_number(e, p - 1.0));
        part = unless_zero(e, x, times(e, power, part));
    }
    call->in_grad[X] = times(e, sign, part);
}

/* var: 2 grad (x - mean) / n, with n = max(0, N - correction). std: grad ((x - mean) / std) / n, or
 * 0 where std is 0. bf16 and f16 are computed in f32, because a mean in 16 bits has too few
 * digits. */
static void pass_deviation(const gradient_call_t *call, bool is_std)
{
    emitter_t *e = call->emitter;
    const reduce_attrs_t *attrs = call->attrs;
    const int64_t n_out = info_numel(emit_info(e, call->out[0]));
    const int64_t n_each = n_out > 0 ? info_numel(emit_info(e, call->in[X])) / n_out : 0;
    const double n = (double)n_each;
    const value_t x = emit_widen(e, call->in[X]);
    value_t grad = emit_widen(e, keep(call, call->out_grad[0]));
    value_t mean = emit_reduce(e, &op_def_mean, x, attrs->dims.n, attrs->dims.values, true);
    value_t part = emit_binary(e, &op_def_sub, x, mean);
    if (is_std) {
        const value_t y = emit_widen(e, keep(call, call->out[0]));
        part = unless_zero(e, y, emit_binary(e, &op_def_div, part, y));
    }
    grad = emit_mul(e, grad, (is_std ? 1.0 : 2.0) / fmax(n - (double)attrs->correction, 0.0));
    call->in_grad[X] = emit_cast(e, times(e, part, grad), emit_info(e, call->in[X])->dtype);
}

static void pass_var(const gradient_call_t *call)
{
    pass_deviation(call, false);
}

static void pass_std(const gradient_call_t *call)
{
    pass_deviation(call, true);
}

static const gradient_t gradient_most = {.pass = pass_most, .reads_in = 1u << X, .reads_out = 1};
static const gradient_t gradient_prod = {.pass = pass_product, .reads_in = 1u << X};
static const gradient_t gradient_logsumexp = {
    .pass = pass_logsumexp, .reads_in = 1u << X, .reads_out = 1};
static const gradient_t gradient_norm = {.pass = pass_norm, .reads_in = 1u << X, .reads_out = 1};
static const gradient_t gradient_var = {.pass = pass_var, .reads_in = 1u << X};
static const gradient_t gradient_std = {.pass = pass_std, .reads_in = 1u << X, .reads_out = 1};

/* ---- prod_backward: grad times the product of all other elements ---- */

static const operand_t backward_operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                              {"x", ROLE_ACTIVATION, false, false}};
enum { BACKWARD_GRAD, BACKWARD_X };

static status_t statistics_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                          tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *grad = call->in[BACKWARD_GRAD], *x = call->in[BACKWARD_X];
    const op_call_t forward = {.op = call->op, .attrs = call->attrs, .n_in = 1, .in = &x};
    tensor_info_t reduced;
    TRY(reduce_infer(ctx, &forward, x->dtype, &reduced));
    REQUIRE(ctx, dtype_is_floating(x->dtype) && sizes_are_like(ctx, grad, &reduced),
            "prod_backward: grad is %s, %s floating elements of x's dtype are needed for x %s",
            info_brief(grad), info_brief(&reduced), info_brief(x));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* Finds the index of the element of grad that belongs to an element of x. */
static void find_kept(const reduce_attrs_t *attrs, int rank, const int64_t *index, int64_t *out_at)
{
    bool gone[TENSOR_MAX_RANK];
    int n = 0;
    reduce_mark(&attrs->dims, rank, gone);
    for (int d = 0; d < rank; d++)
        if (!gone[d] || attrs->keepdim) out_at[n++] = gone[d] ? 0 : index[d];
}

static double statistics_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[BACKWARD_X];
    int64_t kept[TENSOR_MAX_RANK] = {0}, at[TENSOR_MAX_RANK] = {0};
    bool gone[TENSOR_MAX_RANK];
    reduce_mark(&((const reduce_attrs_t *)call->attrs)->dims, x->rank, gone);
    find_kept(call->attrs, x->rank, index, kept);
    double product = spec_at(call, BACKWARD_GRAD, kept);
    do {
        bool is_inside = true, is_itself = true;
        for (int d = 0; d < x->rank; d++) {
            is_inside = is_inside && (gone[d] || at[d] == index[d]);
            is_itself = is_itself && at[d] == index[d];
        }
        if (is_inside && !is_itself) product *= spec_at(call, BACKWARD_X, at);
    } while (shape_next(x->rank, x->sizes, at));
    return product;
}

static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(reduce_prepare(ctx, call, prepared));
    TRY(accept_plain(call, prepared, BACKWARD_GRAD));
    return accept_plain(call, prepared, BACKWARD_X);
}

/* Product of all elements but x, given the product of all nonzero elements and the number of
 * zeros. */
static double product_of_others(double product, int64_t n_zeros, double x)
{
    if (n_zeros == 0) return product / x;
    return n_zeros == 1 && x == 0.0 ? product : 0.0;
}

static void multiply_others(const elements_t *elements, double grad, char *out)
{
    const int64_t size = (int64_t)dtype_size(elements->dtype), total = elements->loops->total;
    const int rank = elements->loops->n;
    double product = 1.0;
    int64_t n_zeros = 0;
    for (int64_t i = 0; i < total; i++) {
        const int64_t at = reduce_offset(elements->loops, rank, i) * size;
        const double x = dtype_load(elements->dtype, elements->x + at);
        n_zeros += x == 0.0;
        if (x != 0.0) product *= x;
    }
    for (int64_t i = 0; i < total; i++) {
        const int64_t at = reduce_offset(elements->loops, rank, i) * size;
        const double x = dtype_load(elements->dtype, elements->x + at);
        dtype_store(elements->dtype, out + at, grad * product_of_others(product, n_zeros, x));
    }
}

static void multiply_results(void *user, int64_t first, int64_t last)
{
    const results_t *r = user;
    const dtype_t dtype = r->prepared->in[BACKWARD_X].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t i = first; i < last; i++) {
        const int64_t offset = reduce_offset(&r->kept, r->kept.n, i) * size;
        const elements_t elements = {&r->inner, dtype, r->x + offset};
        multiply_others(&elements, dtype_load(dtype, r->grad + i * size), r->out + offset);
    }
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[BACKWARD_X];
    results_t results = {
        .prepared = prepared, .x = in[BACKWARD_X], .grad = in[BACKWARD_GRAD], .out = out[0]};
    reduce_split_of(x, &((const reduce_attrs_t *)prepared->attrs)->dims, &results.kept,
                    &results.inner);
    threads_share(threads_for(ctx, results.kept.total * results.inner.total), results.kept.total,
                  multiply_results, &results);
    return STATUS_OK;
}

static const kernel_t backward_native = {.name = "native",
                                         .prepare = prepare_backward,
                                         .run = run_backward,
                                         .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- definitions ---- */

#define DEFINE(op, which, table, passes)                                                           \
    const opdef_t op_def_##op = {                                                                  \
        .name = #op,                                                                               \
        .variant = which,                                                                          \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(reduce_attrs_t), (int)(sizeof table / sizeof *(table)), table},           \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = statistics_infer,                                                                 \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", reduce_prepare, statistics_run)),                      \
        .spec = statistics_spec,                                                                   \
        .gradient = &(passes)}

DEFINE(amax, AMAX, fields, gradient_most);
DEFINE(amin, AMIN, fields, gradient_most);
DEFINE(prod, PROD, fields, gradient_prod);
DEFINE(any, ANY, fields, gradient_zero);
DEFINE(all, ALL, fields, gradient_zero);
DEFINE(logsumexp, LOGSUMEXP, fields, gradient_logsumexp);
DEFINE(norm, NORM, norm_fields, gradient_norm);
DEFINE(var, VAR, var_fields, gradient_var);
DEFINE(std, STD, var_fields, gradient_std);

const opdef_t op_def_prod_backward = {.name = "prod_backward",
                                      .preference = OP_DENSE,
                                      .attrs = {sizeof(reduce_attrs_t), 2, fields},
                                      OPERANDS(backward_operands),
                                      .n_outputs = 1,
                                      .infer = statistics_backward_infer,
                                      .infers_symbols = true,
                                      .kernels = KERNELS(&backward_native),
                                      .spec = statistics_backward_spec};

/* ---- public ---- */

#define REDUCTION(name)                                                                            \
    status_t op_##name(context_t *ctx, const tensor_t *x, int n, const int64_t *dims,              \
                       bool keepdim, tensor_t **out)                                               \
    {                                                                                              \
        return reduce_call(ctx, &op_def_##name, x, n, dims, (reduce_attrs_t){.keepdim = keepdim},  \
                           out);                                                                   \
    }

REDUCTION(amax)
REDUCTION(amin)
REDUCTION(prod)
REDUCTION(any)
REDUCTION(all)
REDUCTION(logsumexp)

status_t op_norm(context_t *ctx, const tensor_t *x, double p, int n, const int64_t *dims,
                 bool keepdim, tensor_t **out)
{
    reduce_attrs_t attrs = {.keepdim = keepdim, .p = p};
    return reduce_call(ctx, &op_def_norm, x, n, dims, attrs, out);
}

status_t op_var(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, int64_t correction,
                bool keepdim, tensor_t **out)
{
    reduce_attrs_t attrs = {.keepdim = keepdim, .correction = correction};
    return reduce_call(ctx, &op_def_var, x, n, dims, attrs, out);
}

status_t op_std(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, int64_t correction,
                bool keepdim, tensor_t **out)
{
    reduce_attrs_t attrs = {.keepdim = keepdim, .correction = correction};
    return reduce_call(ctx, &op_def_std, x, n, dims, attrs, out);
}
