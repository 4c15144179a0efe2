/* Finds the distinct elements, or the distinct slices along a dimension.
 *
 * Elements become integer keys. A stable merge sort orders the slice numbers; adjacent equal slices
 * then form a group. All this is done in scratch memory, because the sizes of the outputs are known
 * only after it. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/index/picking.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"

typedef struct unique_attrs {
    ints_t dims; /* one dimension; if none, x is flattened */
    bool sorted;
} unique_attrs_t;

static const attr_field_t fields[] = {FIELD_INTS(unique_attrs_t, dims),
                                      FIELD_BOOL(unique_attrs_t, sorted, 1)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };
enum { VALUES, INDICES, INVERSE, COUNTS, N_OUTPUTS };

/* x as [outer][n][inner]: n slices of outer * inner elements. */
typedef struct slices {
    int dim; /* -1: x is flattened */
    int64_t outer, n, inner;
} slices_t;

static slices_t find_slices(const void *attrs, const tensor_info_t *x)
{
    const ints_t *dims = &((const unique_attrs_t *)attrs)->dims;
    slices_t slices = {.dim = -1, .outer = 1, .n = info_numel(x), .inner = 1};
    if (dims->n == 0 || x->rank == 0) return slices;
    slices.dim = ops_dim(x->rank, dims->values[0]);
    slices.n = x->sizes[slices.dim];
    for (int d = 0; d < x->rank; d++) {
        if (d < slices.dim) slices.outer *= x->sizes[d];
        if (d > slices.dim) slices.inner *= x->sizes[d];
    }
    return slices;
}

/* ---- groups ---- */

/* Scratch memory for grouping. After group_all, groups are numbered as in the outputs. */
typedef struct work {
    slices_t slices;
    bool has_nan;   /* true for floating dtypes: KEY_NAN is not equal to itself */
    uint64_t *keys; /* [numel] */
    int64_t *order; /* [n] numbers of slices, sorted */
    int64_t *other; /* [n] second buffer for sorting */
    int64_t *group; /* [n] group of each slice */
    int64_t *first; /* [n] first slice of each group */
    int64_t *count; /* [n] number of slices of each group */
} work_t;

#define KEY_NAN UINT64_MAX

/* Bytes of the arrays of work_t. */
static status_t count_work(context_t *ctx, const tensor_info_t *x, size_t *out_bytes)
{
    int64_t bytes = 0;
    bool fits = shape_multiply(info_numel(x) + 1, 6 * (int64_t)sizeof(int64_t), &bytes);
    REQUIRE(ctx, fits, "unique: x is %s, too large to sort", info_brief(x));
    *out_bytes = (size_t)bytes;
    return STATUS_OK;
}

static work_t begin_work(const void *attrs, const tensor_info_t *x, void *block)
{
    work_t work = {
        .slices = find_slices(attrs, x), .has_nan = dtype_is_floating(x->dtype), .keys = block};
    work.order = (int64_t *)block + info_numel(x);
    work.other = work.order + work.slices.n;
    work.group = work.other + work.slices.n;
    work.first = work.group + work.slices.n;
    work.count = work.first + work.slices.n;
    return work;
}

/* Converts an element to a key. Keys, compared as unsigned integers, have the order of the
 * elements. So all bits of a negative float are inverted; of a positive float and of a signed
 * integer, only the sign bit. */
static uint64_t key_of(dtype_t dtype, const void *element)
{
    const uint64_t sign = (uint64_t)1 << 63;
    if (!dtype_is_floating(dtype)) {
        uint64_t bits = (uint64_t)dtype_load_integer(dtype, element);
        return dtype_is_unsigned(dtype) ? bits : bits ^ sign;
    }
    double number = dtype_load(dtype, element) + 0.0; /* -0 becomes 0 */
    uint64_t bits = 0;
    if (isnan(number)) return KEY_NAN;
    memcpy(&bits, &number, sizeof bits);
    return (bits & sign) != 0 ? ~bits : bits | sign;
}

/* Compares two slices by their keys, in the order of order_of. */
static int compare(const work_t *work, int64_t a, int64_t b)
{
    const slices_t *slices = &work->slices;
    for (int64_t o = 0; o < slices->outer; o++) {
        const uint64_t *x = work->keys + (o * slices->n + a) * slices->inner;
        const uint64_t *y = work->keys + (o * slices->n + b) * slices->inner;
        for (int64_t i = 0; i < slices->inner; i++) {
            if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
            if (work->has_nan && x[i] == KEY_NAN && a != b) return a < b ? -1 : 1;
        }
    }
    return 0;
}

/* Merges pairs of sorted runs of 1, 2, 4, ... slices. Equal slices keep their order. */
static void sort(work_t *work)
{
    const int64_t n = work->slices.n;
    for (int64_t i = 0; i < n; i++) work->order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t middle = begin + width < n ? begin + width : n;
            const int64_t end = begin + 2 * width < n ? begin + 2 * width : n;
            int64_t a = begin, b = middle;
            for (int64_t i = begin; i < end; i++) {
                bool is_left = b == end ||
                               (a < middle && compare(work, work->order[a], work->order[b]) <= 0);
                work->other[i] = is_left ? work->order[a++] : work->order[b++];
            }
        }
        int64_t *sorted = work->other;
        work->other = work->order;
        work->order = sorted;
    }
}

/* Forms groups of equal sorted slices; returns their number. */
static int64_t find_groups(work_t *work)
{
    int64_t n = 0;
    for (int64_t i = 0; i < work->slices.n; i++) {
        const int64_t slice = work->order[i];
        if (i == 0 || compare(work, work->order[i - 1], slice) != 0) {
            work->first[n] = slice;
            work->count[n++] = 0;
        }
        work->group[slice] = n - 1;
        work->count[n - 1]++;
    }
    return n;
}

/* Renumbers the groups in the order of their first slices. */
static void renumber(work_t *work, int64_t n)
{
    int64_t next = 0, *number = work->other, *count = work->order;
    for (int64_t slice = 0; slice < work->slices.n; slice++)
        if (work->first[work->group[slice]] == slice) number[work->group[slice]] = next++;
    for (int64_t g = 0; g < n; g++) count[number[g]] = work->count[g];
    memcpy(work->count, count, (size_t)n * sizeof *count);
    for (int64_t slice = work->slices.n - 1; slice >= 0; slice--)
        work->group[slice] = number[work->group[slice]];
    for (int64_t slice = work->slices.n - 1; slice >= 0; slice--)
        work->first[work->group[slice]] = slice;
}

/* Groups all slices; returns the number of groups. */
static int64_t group_all(const void *attrs, const tensor_info_t *x, const void *bytes, work_t *work)
{
    const size_t size = dtype_size(x->dtype);
    for (int64_t i = 0; i < info_numel(x); i++)
        work->keys[i] = key_of(x->dtype, (const char *)bytes + (size_t)i * size);
    sort(work);
    const int64_t n = find_groups(work);
    if (!((const unique_attrs_t *)attrs)->sorted) renumber(work, n);
    return n;
}

static status_t count_groups(context_t *ctx, const void *attrs, const tensor_info_t *x,
                             const void *bytes, int64_t *out_n)
{
    void *block = NULL;
    size_t n_bytes = 0;
    TRY(count_work(ctx, x, &n_bytes));
    TRY(context_get(ctx, n_bytes, "different elements", &block));
    work_t work = begin_work(attrs, x, block);
    *out_n = group_all(attrs, x, bytes, &work);
    context_put(ctx, block);
    return STATUS_OK;
}

/* ---- inference ---- */

static status_t unique_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    const ints_t *dims = &((const unique_attrs_t *)call->attrs)->dims;
    int dim = 0;
    REQUIRE(ctx, dims->n <= 1, "unique: %d dims, one or none is possible", dims->n);
    REQUIRE(ctx, dims->n == 0 || shape_dim(x->rank, dims->values[0], &dim),
            "unique: dim %lld of %s, out of range", (long long)dims->values[0], info_brief(x));
    const bool is_flat = dims->n == 0 || x->rank == 0;
    int64_t rest = 1;
    for (int d = 0; d < x->rank && !is_flat; d++)
        if (d != dim) rest = sym_multiply(ctx, rest, x->sizes[d]);
    REQUIRE(ctx, sym_less(ctx, 0, rest),
            "unique: x is %s, slices along dimension %d have no elements", info_brief(x), dim);
    int64_t n = -1, sizes[TENSOR_MAX_RANK] = {0};
    if (call_knows(call, X)) TRY(count_groups(ctx, call->attrs, x, call->data[X], &n));
    for (int d = 0; d < x->rank; d++) sizes[d] = d == dim ? n : x->sizes[d];
    out[VALUES] = is_flat ? info_dense(x->dtype, 1, &n) : info_dense(x->dtype, x->rank, sizes);
    out[INDICES] = out[COUNTS] = info_dense(DTYPE_S64, 1, &n);
    out[INVERSE] = is_flat ? info_dense(DTYPE_S64, x->rank, x->sizes)
                           : info_dense(DTYPE_S64, 1, &x->sizes[dim]);
    return STATUS_OK;
}

/* ---- specification ---- */

/* Element `place` of a slice, counted in row-major order. */
static double element_of(const spec_call_t *call, const slices_t *slices, int64_t slice,
                         int64_t place)
{
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK] = {0};
    int64_t rest = (place / slices->inner * slices->n + slice) * slices->inner +
                   place % slices->inner;
    for (int d = x->rank - 1; d >= 0; d--) {
        at[d] = rest % x->sizes[d];
        rest /= x->sizes[d];
    }
    return spec_at(call, X, at);
}

/* Returns a negative number if slice a comes before slice b, 0 if they are equal. NaN comes after
 * all numbers. If both have NaN at the same position, the slice with the lower number comes
 * first. */
static int order_of(const spec_call_t *call, const slices_t *slices, int64_t a, int64_t b)
{
    for (int64_t i = 0; a != b && i < slices->outer * slices->inner; i++) {
        double x = element_of(call, slices, a, i), y = element_of(call, slices, b, i);
        if (isnan(x) && isnan(y)) return a < b ? -1 : 1;
        if (x < y || isnan(y)) return -1;
        if (x > y || isnan(x)) return 1;
    }
    return 0;
}

/* The first slice that is equal to `slice`. */
static int64_t first_of(const spec_call_t *call, const slices_t *slices, int64_t slice)
{
    int64_t first = 0;
    while (order_of(call, slices, first, slice) != 0) first++;
    return first;
}

/* Counts the distinct slices that come before `slice`. */
static int64_t rank_of(const spec_call_t *call, const slices_t *slices, int64_t slice)
{
    bool is_sorted = ((const unique_attrs_t *)call->attrs)->sorted;
    int64_t n = 0;
    for (int64_t i = 0; i < slices->n; i++) {
        bool is_before = is_sorted ? order_of(call, slices, i, slice) < 0 : i < slice;
        n += is_before && first_of(call, slices, i) == i;
    }
    return n;
}

/* The first slice of the group that comes next after that of `slice`, or of the first group if
 * `slice` is -1. */
static int64_t next_first(const spec_call_t *call, const slices_t *slices, int64_t slice)
{
    const bool is_sorted = ((const unique_attrs_t *)call->attrs)->sorted;
    int64_t next = -1;
    for (int64_t i = is_sorted ? 0 : slice + 1; i < slices->n; i++) {
        if (!is_sorted && first_of(call, slices, i) == i) return i;
        if (!is_sorted || (slice >= 0 && order_of(call, slices, slice, i) >= 0)) continue;
        if (next < 0 || order_of(call, slices, i, next) < 0) next = i;
    }
    return next;
}

static int64_t find_first(const spec_call_t *call, const slices_t *slices, int64_t rank)
{
    int64_t slice = -1;
    for (int64_t i = 0; i <= rank; i++) slice = next_first(call, slices, slice);
    return slice;
}

static double unique_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const slices_t slices = find_slices(call->attrs, x);
    int64_t at[TENSOR_MAX_RANK] = {0}, place = 0, n = 0;
    if (output == INVERSE) {
        for (int d = 0; d < call->out[INVERSE].rank; d++)
            place = place * call->out[INVERSE].sizes[d] + index[d];
        return (double)rank_of(call, &slices, first_of(call, &slices, place));
    }
    const int64_t first = find_first(call, &slices,
                                     index[output == VALUES && slices.dim >= 0 ? slices.dim : 0]);
    if (output == INDICES) return (double)first;
    if (output == VALUES && slices.dim < 0) return element_of(call, &slices, first, 0);
    if (output == VALUES) {
        memcpy(at, index, (size_t)x->rank * sizeof *at);
        at[slices.dim] = first;
        return spec_at(call, X, at);
    }
    for (int64_t i = 0; i < slices.n; i++) n += order_of(call, &slices, i, first) == 0;
    return (double)n;
}

/* ---- dense kernel ---- */

static status_t unique_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(ops_prepare_dense(ctx, call, prepared));
    return count_work(ctx, call->in[X], &prepared->scratch_bytes);
}

static status_t unique_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)ctx;
    const tensor_info_t *x = &prepared->in[X];
    work_t work = begin_work(prepared->attrs, x, scratch);
    const int64_t n = group_all(prepared->attrs, x, in[X], &work);
    const slices_t *slices = &work.slices;
    const size_t bytes = (size_t)slices->inner * dtype_size(x->dtype);
    for (int64_t o = 0; o < slices->outer; o++)
        for (int64_t g = 0; g < n; g++)
            memcpy((char *)out[VALUES] + (size_t)(o * n + g) * bytes,
                   (const char *)in[X] + (size_t)(o * slices->n + work.first[g]) * bytes, bytes);
    if (n == 0) return STATUS_OK;
    memcpy(out[INDICES], work.first, (size_t)n * sizeof(int64_t));
    memcpy(out[INVERSE], work.group, (size_t)slices->n * sizeof(int64_t));
    memcpy(out[COUNTS], work.count, (size_t)n * sizeof(int64_t));
    return STATUS_OK;
}

const opdef_t op_def_unique = {.name = "unique",
                               .preference = OP_DENSE,
                               .traits = TRAIT_MEASURES,
                               .attrs = {sizeof(unique_attrs_t), 2, fields},
                               OPERANDS(operands),
                               .n_outputs = N_OUTPUTS,
                               .infer = unique_infer,
                               .infers_symbols = true,

                               .kernels = KERNELS(KERNEL("native", unique_prepare, unique_run)),
                               .spec = unique_spec};

status_t op_unique(context_t *ctx, const tensor_t *x, const int64_t *dim, bool sorted,
                   tensor_t **out_values, tensor_t **out_indices, tensor_t **out_inverse,
                   tensor_t **out_counts)
{
    tensor_t **places[] = {out_values, out_indices, out_inverse, out_counts};
    tensor_t *out[N_OUTPUTS] = {NULL};
    unique_attrs_t attrs = {.dims = {.n = dim != NULL}, .sorted = sorted};
    int n_out = N_OUTPUTS;
    for (int i = 0; i < N_OUTPUTS; i++)
        if (places[i] != NULL) *places[i] = NULL;
    TRY(context_output(ctx, "unique", out_values));
    if (dim != NULL) attrs.dims.values[0] = *dim;
    TRY(dispatch_run(ctx, &op_def_unique, &attrs, 1, &x, &n_out, out));
    for (int i = 0; i < N_OUTPUTS; i++) {
        if (places[i] != NULL)
            *places[i] = out[i];
        else
            ops_drop(ctx, out[i]);
    }
    return STATUS_OK;
}
