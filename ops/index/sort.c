/* sort and topk: finds the first k elements along a dimension in order, with their indices. For
 * sort, k is the size of the dimension.
 *
 * Each element becomes an integer key with its index. Equal keys are ordered by index, so the sort
 * is stable. A heap holds the first k elements found so far, the last of them on top. Removing the
 * top until the heap is empty returns them from last to first. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* opdef_t.variant */
enum { SORT, TOPK };

typedef struct sort_attrs {
    int64_t dim, k;  /* k: topk only */
    bool descending; /* for topk: the largest elements */
} sort_attrs_t;

static const attr_field_t sort_fields[] = {FIELD_INT(sort_attrs_t, dim, -1),
                                           FIELD_BOOL(sort_attrs_t, descending, 0)};
static const attr_field_t topk_fields[] = {
    FIELD_INT(sort_attrs_t, k, 0),
    FIELD_INT(sort_attrs_t, dim, -1),
    {"largest", ATTR_BOOL, false, offsetof(sort_attrs_t, descending), 0, 1, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };
enum { VALUES, INDICES };

/* ---- inference ---- */

static status_t sort_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const sort_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *name = call->op->name;
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, attrs->dim, &dim), "%s: dim %lld of %s, out of range", name,
            (long long)attrs->dim, info_brief(x));
    for (int d = 0; d < x->rank; d++) sizes[d] = x->sizes[d];
    if (call->op->variant == TOPK) {
        int64_t most = x->rank > 0 ? x->sizes[dim] : 1;
        REQUIRE(ctx, x->dtype != DTYPE_BOOL, "%s: x is %s, numbers are needed", name,
                info_brief(x));
        REQUIRE(ctx, sym_at_most(ctx, 0, attrs->k) && sym_at_most(ctx, attrs->k, most),
                "%s: k %lld of %s in dimension %d, 0 to %lld are possible", name,
                (long long)attrs->k, info_brief(x), dim, (long long)most);
        sizes[dim] = attrs->k;
    }
    out[VALUES] = info_dense(x->dtype, x->rank, sizes);
    out[INDICES] = info_dense(DTYPE_S64, x->rank, sizes);
    return STATUS_OK;
}

/* ---- specification: finds the element that has index[dim] elements before it ---- */

/* NaN is larger than all numbers. Equal elements are ordered by index. */
static bool spec_comes_before(double a, int64_t i, double b, int64_t j, bool descending)
{
    bool is_larger = a > b || (isnan(a) && !isnan(b));
    bool is_smaller = a < b || (isnan(b) && !isnan(a));
    if (is_larger || is_smaller) return descending ? is_larger : is_smaller;
    return i < j;
}

static double sort_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const sort_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const int dim = ops_dim(x->rank, attrs->dim);
    int64_t at[TENSOR_MAX_RANK] = {0};
    if (x->rank == 0) return output == VALUES ? spec_at(call, X, index) : 0.0;
    for (int d = 0; d < x->rank; d++) at[d] = index[d];
    for (int64_t i = 0; i < x->sizes[dim]; i++) {
        int64_t n_before = 0;
        at[dim] = i;
        double value = spec_at(call, X, at);
        for (int64_t j = 0; j < x->sizes[dim]; j++) {
            at[dim] = j;
            n_before += spec_comes_before(spec_at(call, X, at), j, value, i, attrs->descending);
        }
        if (n_before == index[dim]) return output == VALUES ? value : (double)i;
    }
    return NAN;
}

/* ---- dense kernel ---- */

typedef struct entry {
    int64_t key, index;
} entry_t;

static status_t sort_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    prepared->scratch_bytes = (size_t)info_numel(&call->out[VALUES]) * sizeof(entry_t);
    return ops_prepare_dense(ctx, call, prepared);
}

/* Computes the keys of n elements; smaller keys come first. The bits of a double, read as an
 * integer, have the order of the numbers if the bits of negative numbers are flipped. -0 becomes 0,
 * and NaN the largest key. */
static void make_keys(dtype_t dtype, const char *x, int64_t n, int64_t step, bool descending,
                      int64_t *keys)
{
    if (!dtype_is_floating(dtype)) {
        int64_t mask = reduce_order_mask(dtype, descending);
        dtype_cast(n, dtype, x, step, DTYPE_S64, keys, 1);
        for (int64_t i = 0; i < n; i++) keys[i] ^= mask;
        return;
    }
    double numbers[REDUCE_CHUNK];
    dtype_cast(n, dtype, x, step, DTYPE_F64, numbers, 1);
    for (int64_t i = 0; i < n; i++) {
        double number = numbers[i] + 0.0;
        int64_t bits;
        memcpy(&bits, &number, sizeof bits);
        if (bits < 0) bits ^= INT64_MAX;
        if (isnan(number)) bits = INT64_MAX;
        keys[i] = descending ? ~bits : bits;
    }
}

static bool comes_before(entry_t a, entry_t b)
{
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}

/* Replaces the top of a heap of n entries by `entry`, and moves it below all entries that come
 * later. */
static void sink(entry_t *heap, int64_t n, entry_t entry)
{
    int64_t at = 0;
    for (int64_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && comes_before(heap[child], heap[child + 1])) child++;
        if (!comes_before(entry, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

/* Adds an entry at the end of a heap of n entries, and moves it above all entries that come
 * earlier. */
static void rise(entry_t *heap, int64_t n, entry_t entry)
{
    int64_t at = n;
    while (at > 0 && comes_before(heap[(at - 1) / 2], entry)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

/* Finds the first k elements of a line of n, in order. */
static void sort_line(dtype_t dtype, const char *x, int64_t n, int64_t step, bool descending,
                      int64_t k, entry_t *heap)
{
    int64_t keys[REDUCE_CHUNK];
    for (int64_t at = 0; at < n; at += REDUCE_CHUNK) {
        int64_t count = n - at < REDUCE_CHUNK ? n - at : REDUCE_CHUNK;
        make_keys(dtype, x + at * step * (int64_t)dtype_size(dtype), count, step, descending, keys);
        for (int64_t i = 0; i < count; i++) {
            entry_t entry = {keys[i], at + i};
            if (at + i < k)
                rise(heap, at + i, entry);
            else if (comes_before(entry, heap[0]))
                sink(heap, k, entry);
        }
    }
    for (int64_t last = k - 1; last > 0; last--) {
        entry_t worst = heap[0];
        sink(heap, last, heap[last]);
        heap[last] = worst;
    }
}

typedef struct lines {
    dtype_t dtype;
    bool descending;
    int64_t n, k, step; /* elements of a line of x; of the result; stride in x */
    const char *x;
    entry_t *heaps; /* [lines][k] */
    char *values;
    int64_t *indices;
} lines_t;

static void sort_lines(void *user, int64_t first, int64_t last)
{
    const lines_t *l = user;
    const int64_t size = (int64_t)dtype_size(l->dtype);
    for (int64_t line = first; line < last; line++) {
        entry_t *sorted = l->heaps + line * l->k;
        const char *from = l->x + (line / l->step * l->n * l->step + line % l->step) * size;
        sort_line(l->dtype, from, l->n, l->step, l->descending, l->k, sorted);
        for (int64_t i = 0; i < l->k; i++) {
            const int64_t to = (line / l->step * l->k + i) * l->step + line % l->step;
            l->indices[to] = sorted[i].index;
            memcpy(l->values + to * size, from + sorted[i].index * l->step * size, (size_t)size);
        }
    }
}

static status_t sort_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    const tensor_info_t *x = &prepared->in[X], *result = &prepared->out[VALUES];
    const bool descending = ((const sort_attrs_t *)prepared->attrs)->descending;
    const int dim = ops_dim(x->rank, ((const sort_attrs_t *)prepared->attrs)->dim);
    const int64_t n = x->rank > 0 ? x->sizes[dim] : 1, k = x->rank > 0 ? result->sizes[dim] : 1;
    const int64_t n_lines = k > 0 ? info_numel(result) / k : 0;
    int64_t step = 1;
    for (int d = dim + 1; d < x->rank; d++) step *= x->sizes[d];
    lines_t lines = {x->dtype, descending, n, k, step, in[X], scratch, out[VALUES], out[INDICES]};
    threads_share(threads_for(ctx, n_lines * n), n_lines, sort_lines, &lines);
    return STATUS_OK;
}

/* ---- gradient of x: zeros, with the values' gradients at their indices ---- */

static void sort_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[X]);
    if (call->out_grad[VALUES] == VALUE_NONE) return;
    call->in_grad[X] = emit_scatter(e, emit_zeros(e, &x), ((const sort_attrs_t *)call->attrs)->dim,
                                    call->out[INDICES], call->out_grad[VALUES], SCATTER_NONE);
}

/* ---- definitions ---- */

#define DEFINE(op, which)                                                                          \
    const opdef_t op_def_##op = {                                                                  \
        .name = #op,                                                                               \
        .variant = which,                                                                          \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(sort_attrs_t), (int)(sizeof op##_fields / sizeof *(op##_fields)),         \
                  op##_fields},                                                                    \
        OPERANDS(operands),                                                                        \
        .n_outputs = 2,                                                                            \
        .infer = sort_infer,                                                                       \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", sort_prepare, sort_run)),                              \
        .spec = sort_spec,                                                                         \
        .gradient = GRADIENT(.pass = sort_pass, .reads_out = 1u << INDICES)}

DEFINE(sort, SORT);
DEFINE(topk, TOPK);

/* ---- public ---- */

static status_t call(context_t *ctx, const opdef_t *op, const tensor_t *x, sort_attrs_t attrs,
                     tensor_t **out_values, tensor_t **out_indices)
{
    tensor_t *out[2] = {NULL, NULL};
    int n_out = 2;
    if (out_indices != NULL) *out_indices = NULL;
    TRY(context_output(ctx, op->name, out_values));
    TRY(context_output(ctx, op->name, out_indices));
    TRY(dispatch_run(ctx, op, &attrs, 1, &x, &n_out, out));
    *out_values = out[VALUES];
    *out_indices = out[INDICES];
    return STATUS_OK;
}

status_t op_sort(context_t *ctx, const tensor_t *x, int64_t dim, bool descending,
                 tensor_t **out_values, tensor_t **out_indices)
{
    sort_attrs_t attrs = {.dim = dim, .descending = descending};
    return call(ctx, &op_def_sort, x, attrs, out_values, out_indices);
}

status_t op_topk(context_t *ctx, const tensor_t *x, int64_t k, int64_t dim, bool largest,
                 tensor_t **out_values, tensor_t **out_indices)
{
    sort_attrs_t attrs = {.dim = dim, .k = k, .descending = largest};
    return call(ctx, &op_def_topk, x, attrs, out_values, out_indices);
}
