/* Code shared by reductions. */
#include "ops/reduce/reduce_impl.h"

#include <string.h>

#include "ops/accept_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- inference ---- */

bool reduce_mark(const ints_t *dims, int rank, bool *out_gone)
{
    for (int d = 0; d < rank; d++) out_gone[d] = dims->n == 0;
    for (int i = 0; i < dims->n; i++) {
        int d = 0;
        if (!shape_dim(rank, dims->values[i], &d)) return false;
        if (rank == 0) continue;
        if (out_gone[d]) return false;
        out_gone[d] = true;
    }
    return true;
}

status_t reduce_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out)
{
    const reduce_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    bool gone[TENSOR_MAX_RANK];
    char text[128];
    REQUIRE(ctx, reduce_mark(&attrs->dims, x->rank, gone),
            "%s: dims %s of %s, out of range or twice", call->op->name,
            shape_text(attrs->dims.n, attrs->dims.values, text, sizeof text), info_brief(x));
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (!gone[d] || attrs->keepdim) sizes[rank++] = gone[d] ? 1 : x->sizes[d];
    out[0] = info_dense(dtype, rank, sizes);
    return STATUS_OK;
}

status_t reduce_need_elements(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *x = call->in[0];
    bool gone[TENSOR_MAX_RANK];
    reduce_mark(&((const reduce_attrs_t *)call->attrs)->dims, x->rank, gone);
    for (int d = 0; d < x->rank; d++)
        REQUIRE(ctx, !gone[d] || sym_less(ctx, 0, x->sizes[d]),
                "%s: dimension %d of %s has no elements, needs 1", call->op->name, d,
                info_brief(x));
    return STATUS_OK;
}

status_t reduce_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    return accept_out_plain(call, prepared, 0);
}

/* ---- specification ---- */

int64_t reduce_spec(const spec_call_t *call, const int64_t *index, reduce_spec_t *out_spec)
{
    const reduce_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    bool gone[TENSOR_MAX_RANK];
    int from = 0;
    int64_t n = 1;
    *out_spec = (reduce_spec_t){.call = call};
    reduce_mark(&attrs->dims, x->rank, gone);
    for (int d = 0; d < x->rank; d++) {
        out_spec->at[d] = gone[d] ? 0 : index[from];
        from += !gone[d] || attrs->keepdim;
        out_spec->range[d] = gone[d] ? x->sizes[d] : 1;
        n *= out_spec->range[d];
    }
    out_spec->is_done = n == 0;
    return n;
}

bool reduce_spec_next(reduce_spec_t *spec, double *out_value)
{
    int rank = spec->call->in[0]->rank;
    int64_t full[TENSOR_MAX_RANK] = {0};
    if (spec->is_done) return false;
    for (int d = 0; d < rank; d++) full[d] = spec->at[d] + spec->step[d];
    *out_value = spec_at(spec->call, 0, full);
    spec->is_done = !shape_next(rank, spec->range, spec->step);
    return true;
}

/* ---- loops ---- */

static void add_dim(reduce_loops_t *loops, int64_t size, int64_t stride)
{
    loops->total *= size;
    if (size == 1) return;
    loops->sizes[loops->n] = size;
    loops->strides[loops->n++] = stride;
}

static void sort_by_stride(reduce_loops_t *loops)
{
    for (int i = 1; i < loops->n; i++)
        for (int j = i; j > 0 && loops->strides[j - 1] < loops->strides[j]; j--) {
            int64_t size = loops->sizes[j], stride = loops->strides[j];
            loops->sizes[j] = loops->sizes[j - 1];
            loops->strides[j] = loops->strides[j - 1];
            loops->sizes[j - 1] = size;
            loops->strides[j - 1] = stride;
        }
}

void reduce_split_of(const tensor_info_t *x, const ints_t *dims, reduce_loops_t *out_kept,
                     reduce_loops_t *out_inner)
{
    bool gone[TENSOR_MAX_RANK];
    *out_kept = *out_inner = (reduce_loops_t){.total = 1};
    reduce_mark(dims, x->rank, gone);
    for (int d = 0; d < x->rank; d++)
        add_dim(gone[d] ? out_inner : out_kept, x->sizes[d], x->format.strides[d]);
    sort_by_stride(out_inner);
}

void reduce_split(const prepared_t *prepared, reduce_loops_t *out_kept, reduce_loops_t *out_inner)
{
    reduce_split_of(&prepared->in[0], &((const reduce_attrs_t *)prepared->attrs)->dims, out_kept,
                    out_inner);
}

int64_t reduce_offset(const reduce_loops_t *loops, int n, int64_t place)
{
    int64_t offset = 0;
    for (int d = n - 1; d >= 0; d--) {
        offset += place % loops->sizes[d] * loops->strides[d];
        place /= loops->sizes[d];
    }
    return offset;
}

int64_t reduce_read(const reduce_loops_t *loops, dtype_t dtype, const char *x, int64_t first,
                    dtype_t as, void *chunk)
{
    int64_t run = loops->n > 0 ? loops->sizes[loops->n - 1] : 1;
    int64_t stride = loops->n > 0 ? loops->strides[loops->n - 1] : 1;
    int64_t n = 0, most = loops->total - first;
    if (most > REDUCE_CHUNK) most = REDUCE_CHUNK;
    while (n < most) {
        int64_t at = (first + n) % run;
        int64_t count = run - at < most - n ? run - at : most - n;
        int64_t offset = reduce_offset(loops, loops->n - 1, (first + n) / run) + at * stride;
        dtype_cast(count, dtype, x + offset * (int64_t)dtype_size(dtype), stride, as,
                   (char *)chunk + (size_t)n * dtype_size(as), 1);
        n += count;
    }
    return n;
}

#define LANES 8

double reduce_largest(double best, int64_t n, const double *x)
{
    double lanes[LANES];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++) lanes[j] = best;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] = reduce_larger(lanes[j], x[i + j]);
    for (; i < n; i++) lanes[0] = reduce_larger(lanes[0], x[i]);
    for (int j = 1; j < LANES; j++) lanes[0] = reduce_larger(lanes[0], lanes[j]);
    return lanes[0];
}

/* ---- public functions ---- */

status_t reduce_call(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                     const int64_t *dims, reduce_attrs_t attrs, tensor_t **out)
{
    TRY(context_output(ctx, op->name, out));
    if (n > 0 && dims == NULL) return context_null(ctx, op->name, "dims");
    REQUIRE(ctx, n >= 0 && n <= TENSOR_MAX_RANK, "%s: %d dims, 0 to %d are possible", op->name, n,
            TENSOR_MAX_RANK);
    attrs.dims.n = n;
    if (n > 0) memcpy(attrs.dims.values, dims, (size_t)n * sizeof *dims);
    return dispatch_run(ctx, op, &attrs, 1, &x, NULL, out);
}
