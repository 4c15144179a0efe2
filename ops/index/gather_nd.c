/* Selects slices with tuples of indices, like ONNX GatherND. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/index_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct gather_nd_attrs {
    int64_t batch_dims;
} gather_nd_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(gather_nd_attrs_t, batch_dims, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"index", ROLE_ACTIVATION, false, false}};
enum { X, INDEX };

static status_t gather_nd_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *index = call->in[INDEX];
    int64_t batch_dims = ((const gather_nd_attrs_t *)call->attrs)->batch_dims;
    int64_t sizes[2 * TENSOR_MAX_RANK];
    TRY(index_check_dtype(ctx, "gather_nd", index));
    REQUIRE(ctx, batch_dims >= 0 && batch_dims < index->rank && batch_dims < x->rank,
            "gather_nd: batch_dims %lld of %s by %s, both need more dimensions",
            (long long)batch_dims, info_brief(x), info_brief(index));
    for (int d = 0; d < batch_dims; d++)
        REQUIRE(ctx, sym_equal(ctx, x->sizes[d], index->sizes[d]),
                "gather_nd: batch dimension %d of %s by %s, one size is needed", d, info_brief(x),
                info_brief(index));
    int64_t depth = sym_pin(ctx, index->sizes[index->rank - 1]);
    REQUIRE(ctx, depth >= 1 && depth <= x->rank - batch_dims,
            "gather_nd: index %s has tuples of %lld, %s with batch_dims %lld has 1 to %lld "
            "dimensions to index",
            info_brief(index), (long long)depth, info_brief(x), (long long)batch_dims,
            (long long)(x->rank - batch_dims));
    int n_taken = (int)(batch_dims + depth), rank = index->rank - 1 + x->rank - n_taken;
    REQUIRE(ctx, rank <= TENSOR_MAX_RANK,
            "gather_nd: %s by %s would have rank %d, at most %d is possible", info_brief(x),
            info_brief(index), rank, TENSOR_MAX_RANK);
    memcpy(sizes, index->sizes, (size_t)(index->rank - 1) * sizeof *sizes);
    memcpy(&sizes[index->rank - 1], &x->sizes[n_taken],
           (size_t)(x->rank - n_taken) * sizeof *sizes);
    TRY(shape_check(ctx, "gather_nd", x->dtype, rank, sizes));
    out[0] = info_dense(x->dtype, rank, sizes);
    return STATUS_OK;
}

static double gather_nd_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X], *tuples = call->in[INDEX];
    const int batch_dims = (int)((const gather_nd_attrs_t *)call->attrs)->batch_dims;
    const int last = tuples->rank - 1, depth = (int)tuples->sizes[last];
    int64_t at[TENSOR_MAX_RANK], tuple[TENSOR_MAX_RANK];
    memcpy(at, index, (size_t)batch_dims * sizeof *at);
    memcpy(tuple, index, (size_t)last * sizeof *tuple);
    for (int i = 0; i < depth; i++) {
        tuple[last] = i;
        int64_t place = (int64_t)spec_at(call, INDEX, tuple);
        at[batch_dims + i] = place < 0 ? place + x->sizes[batch_dims + i] : place;
    }
    memcpy(&at[batch_dims + depth], &index[last],
           (size_t)(x->rank - batch_dims - depth) * sizeof *at);
    return spec_at(call, X, at);
}

/* ---- dense kernel: copies one contiguous slice for each tuple ---- */

static int64_t count_tuples(const tensor_info_t *index)
{
    return info_numel(index) / index->sizes[index->rank - 1];
}

static status_t gather_nd_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    prepared->scratch_bytes = (size_t)count_tuples(call->in[INDEX]) * sizeof(int64_t);
    return ops_prepare_dense(ctx, call, prepared);
}

typedef struct copy {
    const int64_t *places; /* [tuples]: number of the row in its batch of x */
    int64_t n_per_batch, n_rows;
    size_t row; /* bytes of a row */
    const char *x;
    char *out;
} copy_t;

static void copy_rows(void *user, int64_t first, int64_t last)
{
    const copy_t *c = user;
    for (int64_t i = first; i < last; i++)
        memcpy(c->out + (size_t)i * c->row,
               c->x + (size_t)(i / c->n_per_batch * c->n_rows + c->places[i]) * c->row, c->row);
}

static status_t gather_nd_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                              void *const *out, void *scratch)
{
    const tensor_info_t *x = &prepared->in[X], *index = &prepared->in[INDEX];
    const int first = (int)((const gather_nd_attrs_t *)prepared->attrs)->batch_dims;
    const int depth = (int)index->sizes[index->rank - 1];
    const index_target_t target = {x, index, first, depth};
    const int64_t n = count_tuples(index), *places = scratch;
    int64_t n_batches = 1, n_rows = 1; /* rows of x in one batch */
    size_t row = dtype_size(x->dtype);
    for (int d = 0; d < x->rank; d++) {
        if (d < first)
            n_batches *= x->sizes[d];
        else if (d < first + depth)
            n_rows *= x->sizes[d];
        else
            row *= (size_t)x->sizes[d];
    }
    TRY(index_resolve(ctx, "gather_nd", &target, in[INDEX], n, scratch));
    if (info_numel(&prepared->out[0]) == 0) return STATUS_OK;
    const int64_t n_per_batch = n / n_batches;
    copy_t copy = {places, n_per_batch, n_rows, row, in[X], out[0]};
    threads_share(threads_for(ctx, info_numel(&prepared->out[0])), n, copy_rows, &copy);
    return STATUS_OK;
}

/* ---- gradients ---- */

/* Puts the batch number in front of each tuple: with two batches, [[5], [7]] becomes [[0, 5], [1,
 * 7]]. */
static value_t with_batches(emitter_t *emitter, value_t index, int batch_dims)
{
    tensor_info_t one = *emit_info(emitter, index);
    value_t parts[TENSOR_MAX_RANK + 1];
    const dtype_t dtype = one.dtype;
    if (batch_dims == 0) return index;
    one.sizes[one.rank - 1] = 1;
    for (int d = 0; d < batch_dims; d++)
        parts[d] = emit_cast(emitter, emit_count(emitter, &one, d), dtype);
    parts[batch_dims] = index;
    return emit_concat(emitter, batch_dims + 1, parts, -1);
}

static void gather_nd_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[X]);
    const int64_t batch_dims = ((const gather_nd_attrs_t *)call->attrs)->batch_dims;
    if (!call->is_wanted[X]) return;
    value_t index = with_batches(e, call->in[INDEX], (int)batch_dims);
    call->in_grad[X] = emit_scatter_nd(e, emit_zeros(e, &x), index, call->out_grad[0], SCATTER_ADD);
}

value_t emit_gather_nd(emitter_t *emitter, value_t x, value_t index)
{
    const gather_nd_attrs_t attrs = {0};
    const value_t in[] = {x, index};
    return emit_op(emitter, &op_def_gather_nd, &attrs, 2, in);
}

const opdef_t op_def_gather_nd = {
    .name = "gather_nd",
    FUNCTIONS_OF(gather_nd),
    .preference = OP_DENSE,
    .attrs = {sizeof(gather_nd_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", gather_nd_prepare, gather_nd_run)),
    .gradient = GRADIENT(.pass = gather_nd_pass, .reads_in = 1u << INDEX)};

status_t op_gather_nd(context_t *ctx, const tensor_t *x, const tensor_t *index, int64_t batch_dims,
                      tensor_t **out)
{
    gather_nd_attrs_t attrs = {batch_dims};
    const tensor_t *in[] = {x, index};
    return dispatch_run(ctx, &op_def_gather_nd, &attrs, 2, in, NULL, out);
}
