/* Copies a tensor and writes another one over a slice of it, at a start that is an operand. In
 * place, it adds rows to a cache: only the rows are written. */
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/accept_impl.h"
#include "ops/index/index_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct slice_scatter_attrs {
    int64_t dim;
} slice_scatter_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(slice_scatter_attrs_t, dim, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"src", ROLE_ACTIVATION, false, false},
                                     {"start", ROLE_STATE, false, false},
                                     {"slots", ROLE_STATE, true, false}};
enum { X, SRC, START, SLOTS };

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const slice_scatter_attrs_t *)attrs)->dim);
}

/* ---- inference ---- */

/* start is one number, or has one for each index of dimension 0 of src; so has slots. */
static status_t check_starts_info(context_t *ctx, const op_call_t *call, int dim)
{
    const tensor_info_t *src = call->in[SRC], *start = call->in[START];
    const bool is_each = start->rank == 1 && dim > 0 &&
                         sym_equal(ctx, start->sizes[0], src->sizes[0]);
    REQUIRE(ctx,
            (start->dtype == DTYPE_S32 || start->dtype == DTYPE_S64) &&
                (start->rank == 0 || is_each),
            "slice_scatter: start is %s, x is %s, s32 or s64 is needed: one, or one for each index "
            "of dimension 0",
            info_brief(start), info_brief(call->in[X]));
    if (!call_has(call, SLOTS)) return STATUS_OK;
    const tensor_info_t *slots = call->in[SLOTS];
    REQUIRE(ctx,
            dim > 0 && slots->dtype == DTYPE_S64 && slots->rank == 1 &&
                sym_equal(ctx, slots->sizes[0], src->sizes[0]),
            "slice_scatter: slots is %s, src is %s, s64 is needed: one for each index of dimension "
            "0, which is not the dimension of the slice",
            info_brief(slots), info_brief(src));
    return STATUS_OK;
}

static status_t slice_scatter_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                    tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *src = call->in[SRC];
    const int64_t wanted = ((const slice_scatter_attrs_t *)call->attrs)->dim;
    int dim = 0;
    REQUIRE(ctx, x->rank > 0 && shape_dim(x->rank, wanted, &dim),
            "slice_scatter: dim %lld of %s, out of range", (long long)wanted, info_brief(x));
    bool fits = src->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = d == dim ? sym_at_most(ctx, src->sizes[d], x->sizes[d])
                        : sym_equal(ctx, src->sizes[d], x->sizes[d]) ||
                              (d == 0 && call_has(call, SLOTS));
    REQUIRE(ctx, fits, "slice_scatter: src is %s, x is %s, only dimension %d may be shorter",
            info_brief(src), info_brief(x), dim);
    REQUIRE(ctx,
            src->dtype == x->dtype ||
                (dtype_is_floating(src->dtype) && dtype_is_floating(x->dtype)),
            "slice_scatter: src is %s, x is %s, the same or floating dtypes are needed",
            info_brief(src), info_brief(x));
    TRY(check_starts_info(ctx, call, dim));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double slice_scatter_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *src = call->in[SRC];
    const int dim = find_dim(call->attrs, src->rank);
    int64_t at[TENSOR_MAX_RANK];
    memcpy(at, index, (size_t)src->rank * sizeof *at);
    if (spec_has(call, SLOTS)) {
        for (at[0] = 0; at[0] < src->sizes[0]; at[0]++)
            if ((int64_t)spec_at(call, SLOTS, at) == index[0]) break;
        if (at[0] == src->sizes[0]) return spec_at(call, X, index);
    }
    at[dim] -= (int64_t)spec_at(call, START, at); /* rank 0 reads no index, rank 1 the first */
    if (at[dim] < 0 || at[dim] >= src->sizes[dim]) return spec_at(call, X, index);
    return spec_at(call, SRC, at);
}

/* ---- kernel: copies rows, which are ranges of the last dimension ---- */

static status_t slice_scatter_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    TRY(accept_plain(call, prepared, X));
    TRY(accept_rows(call, prepared, SRC));
    accept_contiguous(call, prepared, START, SLOTS);
    prepared->overwrites = 1;
    return accept_out_plain(call, prepared, 0);
}

static int64_t load_start(const prepared_t *prepared, const void *starts, int64_t n)
{
    const bool is_long = prepared->in[START].dtype == DTYPE_S64;
    if (prepared->in[START].rank == 0) n = 0;
    return is_long ? ((const int64_t *)starts)[n] : ((const int32_t *)starts)[n];
}

/* The slots, or NULL if index n of src belongs to index n of x. */
static const int64_t *find_slots(const prepared_t *prepared, void *const *in)
{
    return prepared->n_in > SLOTS ? in[SLOTS] : NULL;
}

/* Slots are different, so that threads write different rows. */
static status_t check_slots(context_t *ctx, const prepared_t *prepared, const int64_t *slots)
{
    const int64_t n_slots = prepared->in[X].sizes[0];
    for (int64_t n = 0; slots != NULL && n < prepared->in[SRC].sizes[0]; n++) {
        REQUIRE(ctx, slots[n] >= 0 && slots[n] < n_slots,
                "slice_scatter: slot %lld, x is %s and has %lld", (long long)slots[n],
                info_brief(&prepared->in[X]), (long long)n_slots);
        for (int64_t i = 0; i < n; i++)
            REQUIRE(ctx, slots[i] != slots[n], "slice_scatter: slot %lld is given twice",
                    (long long)slots[n]);
    }
    return STATUS_OK;
}

static status_t check_starts(context_t *ctx, const prepared_t *prepared, const void *starts)
{
    const tensor_info_t *x = &prepared->in[X], *src = &prepared->in[SRC];
    const int dim = find_dim(prepared->attrs, x->rank);
    for (int64_t n = 0; n < info_numel(&prepared->in[START]); n++) {
        const int64_t start = load_start(prepared, starts, n);
        REQUIRE(ctx, start >= 0 && start <= x->sizes[dim] - src->sizes[dim],
                "slice_scatter: start %lld for src %s, it does not fit into dimension %d of %s",
                (long long)start, info_brief(src), dim, info_brief(x));
    }
    return STATUS_OK;
}

typedef struct rows {
    const prepared_t *prepared;
    const char *src;
    const void *starts;
    const int64_t *slots;
    char *out;
} rows_t;

static void copy_rows(void *user, int64_t first, int64_t last)
{
    const rows_t *rows = user;
    const tensor_info_t *x = &rows->prepared->in[X], *src = &rows->prepared->in[SRC];
    const int rank = x->rank, dim = find_dim(rows->prepared->attrs, rank);
    int64_t strides[TENSOR_MAX_RANK], to_strides[TENSOR_MAX_RANK];
    format_strides(&src->format, src->sizes, strides);
    shape_strides(rank, x->sizes, to_strides);
    for (int64_t row = first; row < last; row++) {
        int64_t from = 0, to = 0, n = 0, rest = row;
        for (int d = rank - 2; d >= 0; d--) {
            n = rest % src->sizes[d];
            rest /= src->sizes[d];
            from += n * strides[d];
            to += (d == 0 && rows->slots != NULL ? rows->slots[n] : n) * to_strides[d];
        }
        to += load_start(rows->prepared, rows->starts, n) * to_strides[dim];
        dtype_cast(src->sizes[rank - 1], src->dtype,
                   rows->src + from * (int64_t)dtype_size(src->dtype), 1, x->dtype,
                   rows->out + to * (int64_t)dtype_size(x->dtype), 1);
    }
}

static status_t slice_scatter_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X], *src = &prepared->in[SRC];
    const int64_t n = info_numel(src), length = src->sizes[src->rank - 1];
    const int64_t *slots = find_slots(prepared, in);
    TRY(check_starts(ctx, prepared, in[START]));
    TRY(check_slots(ctx, prepared, slots));
    if (out[0] != in[X] && info_bytes(x) > 0) memcpy(out[0], in[X], info_bytes(x));
    rows_t rows = {prepared, in[SRC], in[START], slots, out[0]};
    threads_share(threads_for(ctx, n), length > 0 ? n / length : 0, copy_rows, &rows);
    return STATUS_OK;
}

/* ---- definition ---- */

const opdef_t op_def_slice_scatter = {
    .name = "slice_scatter",
    FUNCTIONS_OF(slice_scatter),
    .preference = OP_DENSE,
    .attrs = {sizeof(slice_scatter_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", slice_scatter_prepare, slice_scatter_run))};

/* ---- public ---- */

status_t op_slice_scatter(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *src,
                          const tensor_t *start, const tensor_t *slots, tensor_t **out)
{
    const tensor_t *in[] = {x, src, start, slots};
    return dispatch_run(ctx, &op_def_slice_scatter, &(slice_scatter_attrs_t){dim}, 4, in, NULL,
                        out);
}

status_t op_slice_scatter_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *src,
                           const tensor_t *start, const tensor_t *slots)
{
    const tensor_t *in[] = {src, start, slots};
    return dispatch_run_in_place(ctx, &op_def_slice_scatter, &(slice_scatter_attrs_t){dim}, x, 3,
                                 in);
}
