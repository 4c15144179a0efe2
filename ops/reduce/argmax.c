/* Indices of the largest and smallest elements along a dimension, or among all elements. */
#include <math.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "tensor/threads/threads_impl.h"

/* opdef_t.variant of these operators. */
enum { ARGMAX, ARGMIN };

static const attr_field_t fields[] = {REDUCE_FIELDS, FIELD_BOOL(reduce_attrs_t, select_last, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* ---- inference ---- */

static status_t argmax_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    const int n = ((const reduce_attrs_t *)call->attrs)->dims.n;
    REQUIRE(ctx, x->dtype != DTYPE_BOOL, "%s: x is %s, numbers are needed", call->op->name,
            info_brief(x));
    REQUIRE(ctx, n <= 1, "%s: %d dims, one or none is possible", call->op->name, n);
    TRY(reduce_infer(ctx, call, DTYPE_S64, out));
    return reduce_need_elements(ctx, call);
}

/* ---- specification ---- */

/* NaN is larger than all numbers for argmax, and smaller for argmin. If elements are equal, returns
 * the first one, or the last one if select_last is set. */
static double argmax_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const double sign = call->op->variant == ARGMAX ? 1.0 : -1.0;
    const bool select_last = ((const reduce_attrs_t *)call->attrs)->select_last;
    reduce_spec_t elements;
    double best = 0.0, value = 0.0;
    int64_t best_at = -1;
    reduce_spec(call, index, &elements);
    for (int64_t i = 0; reduce_spec_next(&elements, &value); i++) {
        bool is_equal = value == best || (isnan(value) && isnan(best));
        bool is_better = sign * value > sign * best || (isnan(value) && !isnan(best));
        if (best_at >= 0 && !is_better && !(is_equal && select_last)) continue;
        best = value;
        best_at = i;
    }
    return (double)best_at;
}

/* ---- dense kernel ----
 *
 * Reads x in chunks and skips those whose largest element does not exceed the best so far. */

static status_t argmax_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (call->layout != LAYOUT_MKLDNN) TRY(accept_plain(call, prepared, X));
    return reduce_prepare(ctx, call, prepared);
}

static bool is_same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Index of the first or last element that equals `wanted`, or is also NaN. There must be one. */
static int64_t find(const double *x, int64_t n, double wanted, bool from_the_end)
{
    int64_t i = from_the_end ? n - 1 : 0;
    while (!is_same(x[i], wanted)) i += from_the_end ? -1 : 1;
    return i;
}

static int64_t find_floating(const reduce_loops_t *loops, dtype_t dtype, const char *x,
                             bool is_smallest, bool select_last)
{
    double chunk[REDUCE_CHUNK], best = -INFINITY;
    int64_t best_at = -1;
    for (int64_t at = 0; at < loops->total; at += REDUCE_CHUNK) {
        int64_t n = reduce_read(loops, dtype, x, at, DTYPE_F64, chunk);
        for (int64_t i = 0; i < n && is_smallest; i++) chunk[i] = -chunk[i];
        double largest = reduce_largest(-INFINITY, n, chunk);
        bool is_better = largest > best || (isnan(largest) && !isnan(best));
        if (best_at >= 0 && !is_better && !(select_last && is_same(largest, best))) continue;
        best = largest;
        best_at = at + find(chunk, n, best, select_last);
    }
    return best_at;
}

static int64_t find_integer(const reduce_loops_t *loops, dtype_t dtype, const char *x,
                            bool is_smallest, bool select_last)
{
    int64_t chunk[REDUCE_CHUNK], best = INT64_MIN, best_at = -1;
    const int64_t mask = reduce_order_mask(dtype, is_smallest);
    for (int64_t at = 0; at < loops->total; at += REDUCE_CHUNK) {
        int64_t n = reduce_read(loops, dtype, x, at, DTYPE_S64, chunk);
        for (int64_t i = 0; i < n; i++) {
            int64_t value = chunk[i] ^ mask;
            if (best_at >= 0 && value <= best && !(select_last && value == best)) continue;
            best = value;
            best_at = at + i;
        }
    }
    return best_at;
}

typedef struct results {
    const prepared_t *prepared;
    reduce_loops_t kept, inner;
    const char *x;
    int64_t *out;
} results_t;

static void find_results(void *user, int64_t first, int64_t last)
{
    const results_t *r = user;
    const dtype_t dtype = r->prepared->in[X].dtype;
    const bool is_smallest = r->prepared->op->variant == ARGMIN;
    const bool select_last = ((const reduce_attrs_t *)r->prepared->attrs)->select_last;
    for (int64_t i = first; i < last; i++) {
        const char *x = r->x + reduce_offset(&r->kept, r->kept.n, i) * (int64_t)dtype_size(dtype);
        r->out[i] = dtype_is_floating(dtype)
                        ? find_floating(&r->inner, dtype, x, is_smallest, select_last)
                        : find_integer(&r->inner, dtype, x, is_smallest, select_last);
    }
}

static status_t argmax_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    results_t results = {.prepared = prepared, .x = in[X], .out = out[0]};
    reduce_split(prepared, &results.kept, &results.inner);
    threads_share(threads_for(ctx, results.kept.total * results.inner.total), results.kept.total,
                  find_results, &results);
    return STATUS_OK;
}

/* ---- definitions ---- */

#define DEFINE(op, which)                                                                          \
    const opdef_t op_def_##op = {.name = #op,                                                      \
                                 .variant = which,                                                 \
                                 .preference = OP_DENSE,                                           \
                                 .attrs = {sizeof(reduce_attrs_t), 3, fields},                     \
                                 OPERANDS(operands),                                               \
                                 .n_outputs = 1,                                                   \
                                 .infer = argmax_infer,                                            \
                                 .infers_symbols = true,                                           \
                                 .kernels = KERNELS(KERNEL("native", argmax_prepare, argmax_run)), \
                                 .spec = argmax_spec,                                              \
                                 .gradient = &gradient_zero}

DEFINE(argmax, ARGMAX);
DEFINE(argmin, ARGMIN);

/* ---- public ---- */

status_t op_argmax(context_t *ctx, const tensor_t *x, const int64_t *dim, bool keepdim,
                   tensor_t **out)
{
    return reduce_call(ctx, &op_def_argmax, x, dim != NULL, dim,
                       (reduce_attrs_t){.keepdim = keepdim}, out);
}

status_t op_argmin(context_t *ctx, const tensor_t *x, const int64_t *dim, bool keepdim,
                   tensor_t **out)
{
    return reduce_call(ctx, &op_def_argmin, x, dim != NULL, dim,
                       (reduce_attrs_t){.keepdim = keepdim}, out);
}
