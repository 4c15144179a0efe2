/* Copies a tensor and writes slices at tuples of indices, like ONNX ScatterND. */
#include <string.h>

#include "ops/gradient_impl.h"
#include "ops/index/index_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct scatter_nd_attrs {
    int reduction; /* scatter_reduction_t */
} scatter_nd_attrs_t;

static const attr_field_t fields[] = {
    FIELD_NAME(scatter_nd_attrs_t, reduction, 0, index_reduction_names)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"index", ROLE_ACTIVATION, false, false},
                                     {"src", ROLE_ACTIVATION, false, false}};

static scatter_reduction_t find_reduction(const void *attrs)
{
    return (scatter_reduction_t)((const scatter_nd_attrs_t *)attrs)->reduction;
}

static int find_depth(const tensor_info_t *index)
{
    return (int)index->sizes[index->rank - 1];
}

static int64_t count_tuples(const tensor_info_t *index)
{
    return info_numel(index) / index->sizes[index->rank - 1];
}

/* ---- inference ---- */

static status_t scatter_nd_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                 tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[SCATTER_X], *index = call->in[SCATTER_INDEX];
    const tensor_info_t *src = call->in[SCATTER_SRC];
    TRY(index_check_dtype(ctx, "scatter_nd", index));
    int last = index->rank - 1;
    int64_t depth = index->rank > 0 ? sym_pin(ctx, index->sizes[last]) : 0;
    REQUIRE(ctx, depth >= 1 && depth <= x->rank,
            "scatter_nd: index %s has tuples of %lld, %s has 1 to %d dimensions to index",
            info_brief(index), (long long)depth, info_brief(x), x->rank);
    REQUIRE(ctx, src->dtype == x->dtype, "scatter_nd: src is %s, x is %s, one dtype is needed",
            info_brief(src), info_brief(x));
    int rest = x->rank - (int)depth;
    bool fits = src->rank == last + rest &&
                sizes_equal(ctx, last, src->sizes, last, index->sizes) &&
                sizes_equal(ctx, rest, &src->sizes[last], rest, &x->sizes[depth]);
    REQUIRE(ctx, fits, "scatter_nd: src is %s, a slice of %s for each tuple of %s is needed",
            info_brief(src), info_brief(x), info_brief(index));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification: visits every tuple that refers to the slice of the element ---- */

static bool points_to(const spec_call_t *call, int64_t *tuple, const int64_t *index)
{
    const tensor_info_t *tuples = call->in[SCATTER_INDEX];
    for (int i = 0; i < find_depth(tuples); i++) {
        tuple[tuples->rank - 1] = i;
        int64_t place = (int64_t)spec_at(call, SCATTER_INDEX, tuple);
        if (place < 0) place += call->in[SCATTER_X]->sizes[i];
        if (place != index[i]) return false;
    }
    return true;
}

static double scatter_nd_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *tuples = call->in[SCATTER_INDEX];
    const int last = tuples->rank - 1, depth = find_depth(tuples);
    int64_t tuple[TENSOR_MAX_RANK] = {0}, at[TENSOR_MAX_RANK];
    double value = spec_at(call, SCATTER_X, index);
    if (info_numel(tuples) == 0) return value;
    memcpy(&at[last], &index[depth], (size_t)(call->out[output].rank - depth) * sizeof *at);
    do {
        if (!points_to(call, tuple, index)) continue;
        memcpy(at, tuple, (size_t)last * sizeof *at);
        value = index_combine(call->out[output].dtype, find_reduction(call->attrs), value,
                              spec_at(call, SCATTER_SRC, at));
    } while (shape_next(last, tuples->sizes, tuple));
    return value;
}

/* ---- dense kernel: each thread writes the slices of its own range of x, in order ---- */

static status_t scatter_nd_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    return index_prepare_scatter(call, prepared, find_reduction(call->attrs),
                                 count_tuples(call->in[SCATTER_INDEX]));
}

static void put_share(const index_buffers_t *buffers, int64_t n, int64_t row, int64_t first,
                      int64_t end)
{
    const size_t row_bytes = (size_t)row * dtype_size(buffers->dtype);
    index_put_t put = {.n = row, .step = row, .next = 1, .dst = buffers->dst};
    for (int64_t i = 0; i < n; i++) {
        if (buffers->places[i] < first || buffers->places[i] >= end) continue;
        put.places = &buffers->places[i];
        put.src = buffers->src + (size_t)i * row_bytes;
        buffers->put(&put);
    }
}

typedef struct put {
    const index_buffers_t *buffers;
    int64_t n, row; /* number of tuples; elements of a slice */
    int64_t share;  /* rows of x for one thread */
} put_t;

static void put_shares(void *user, int64_t first, int64_t last)
{
    const put_t *p = user;
    for (int64_t s = first; s < last; s++)
        put_share(p->buffers, p->n, p->row, s * p->share, (s + 1) * p->share);
}

static status_t scatter_nd_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                               void *const *out, void *scratch)
{
    const tensor_info_t *x = &prepared->in[SCATTER_X], *index = &prepared->in[SCATTER_INDEX];
    const int depth = find_depth(index);
    const index_target_t target = {x, index, 0, depth};
    const int64_t n = count_tuples(index);
    const int n_shares = threads_for(ctx, info_numel(&prepared->in[SCATTER_SRC]));
    int64_t n_rows = 1, row = 1;
    for (int d = 0; d < depth; d++) n_rows *= x->sizes[d];
    for (int d = depth; d < x->rank; d++) row *= x->sizes[d];
    const int64_t share = (n_rows + n_shares - 1) / n_shares;
    index_buffers_t buffers;
    TRY(index_begin_scatter(ctx, prepared, &target, find_reduction(prepared->attrs), n, in, out[0],
                            scratch, &buffers));
    put_t put = {&buffers, n, row, share};
    threads_share(n_shares, n_shares, put_shares, &put);
    index_end_scatter(prepared, &buffers, out[0]);
    return STATUS_OK;
}

/* ---- gradients ---- */

value_t emit_scatter_nd(emitter_t *emitter, value_t x, value_t index, value_t src,
                        scatter_reduction_t reduction)
{
    const scatter_nd_attrs_t attrs = {(int)reduction};
    const value_t in[] = {x, index, src};
    return emit_op(emitter, &op_def_scatter_nd, &attrs, 3, in);
}

/* For each tuple: true if no later tuple refers to the same slice. Scatters each tuple's number to
 * its slice, then gathers it: a tuple that gets its own number is the last one. The result
 * broadcasts with the gradient of src. */
static value_t find_last(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t index = call->in[SCATTER_INDEX];
    const tensor_info_t taken = *emit_info(e, index), src = *emit_info(e, call->in[SCATTER_SRC]);
    tensor_info_t places = *emit_info(e, call->in[SCATTER_X]);
    int64_t sizes[TENSOR_MAX_RANK];
    if (taken.rank == 0) return VALUE_NONE; /* an earlier emitter call failed */
    const int64_t n = count_tuples(&taken);
    const tensor_info_t line = info_dense(DTYPE_S64, 1, &n);
    places = info_dense(DTYPE_S64, find_depth(&taken), places.sizes);
    value_t number = emit_ints(e, &op_def_reshape, emit_count(e, &line, 0), taken.rank - 1,
                               taken.sizes);
    value_t last = emit_scatter_nd(e, emit_zeros(e, &places), index, number, SCATTER_NONE);
    last = emit_binary(e, &op_def_eq, number, emit_gather_nd(e, last, index));
    for (int d = 0; d < src.rank; d++) sizes[d] = d < taken.rank - 1 ? src.sizes[d] : 1;
    return emit_ints(e, &op_def_reshape, last, src.rank, sizes);
}

static void scatter_nd_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const scatter_reduction_t reduction = find_reduction(call->attrs);
    const value_t grad = call->out_grad[0], index = call->in[SCATTER_INDEX];
    const tensor_info_t src = *emit_info(e, call->in[SCATTER_SRC]);
    if (reduction != SCATTER_NONE && reduction != SCATTER_ADD) {
        emit_fail(e, STATUS_UNSUPPORTED,
                  "scatter_nd: reduction \"%s\", gradients pass \"none\" and \"add\"",
                  index_reduction_names[reduction]);
        return;
    }
    value_t of_src = emit_gather_nd(e, grad, index);
    if (reduction == SCATTER_ADD) {
        call->in_grad[SCATTER_X] = grad;
    } else {
        call->in_grad[SCATTER_X] = emit_scatter_nd(e, grad, index, emit_zeros(e, &src),
                                                   SCATTER_NONE);
        if (call->is_wanted[SCATTER_SRC])
            of_src = emit_where(e, find_last(call), of_src, emit_number(e, 0.0));
    }
    call->in_grad[SCATTER_SRC] = of_src;
}

const opdef_t op_def_scatter_nd = {
    .name = "scatter_nd",
    FUNCTIONS_OF(scatter_nd),
    .preference = OP_DENSE,
    .attrs = {sizeof(scatter_nd_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", scatter_nd_prepare, scatter_nd_run)),
    .gradient = GRADIENT(.pass = scatter_nd_pass, .reads_in = 1u << SCATTER_INDEX)};

status_t op_scatter_nd(context_t *ctx, const tensor_t *x, const tensor_t *index,
                       const tensor_t *src, scatter_reduction_t reduction, tensor_t **out)
{
    scatter_nd_attrs_t attrs = {(int)reduction};
    const tensor_t *in[] = {x, index, src};
    return dispatch_run(ctx, &op_def_scatter_nd, &attrs, 3, in, NULL, out);
}
