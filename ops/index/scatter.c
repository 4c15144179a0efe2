/* Copies a tensor and writes one element for each index along a dimension, like torch.scatter. */
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/gradient_impl.h"
#include "ops/index/index_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct scatter_attrs {
    int64_t dim;
    int reduction; /* scatter_reduction_t */
} scatter_attrs_t;

static const attr_field_t fields[] = {
    FIELD_INT(scatter_attrs_t, dim, 0),
    FIELD_NAME(scatter_attrs_t, reduction, 0, index_reduction_names)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"index", ROLE_ACTIVATION, false, false},
                                     {"src", ROLE_ACTIVATION, false, false}};

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const scatter_attrs_t *)attrs)->dim);
}

static scatter_reduction_t find_reduction(const void *attrs)
{
    return (scatter_reduction_t)((const scatter_attrs_t *)attrs)->reduction;
}

static status_t scatter_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[SCATTER_X], *index = call->in[SCATTER_INDEX];
    const tensor_info_t *src = call->in[SCATTER_SRC];
    int64_t wanted = ((const scatter_attrs_t *)call->attrs)->dim;
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, wanted, &dim), "scatter: dim %lld of %s, out of range",
            (long long)wanted, info_brief(x));
    TRY(index_check_dtype(ctx, "scatter", index));
    TRY(index_check_sizes(ctx, "scatter", x, index, dim));
    REQUIRE(ctx, src->dtype == x->dtype, "scatter: src is %s, x is %s, one dtype is needed",
            info_brief(src), info_brief(x));
    bool fits = src->rank == index->rank;
    for (int d = 0; d < index->rank && fits; d++)
        fits = sym_at_most(ctx, index->sizes[d], src->sizes[d]);
    REQUIRE(ctx, fits, "scatter: src %s is shorter than index %s, an element for each is needed",
            info_brief(src), info_brief(index));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

static double scatter_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *taken = call->in[SCATTER_INDEX];
    const scatter_reduction_t reduction = find_reduction(call->attrs);
    const int rank = taken->rank, dim = find_dim(call->attrs, rank);
    int64_t at[TENSOR_MAX_RANK] = {0};
    double value = spec_at(call, SCATTER_X, index);
    for (int d = 0; d < rank; d++) {
        at[d] = d == dim ? 0 : index[d];
        if (at[d] >= taken->sizes[d]) return value;
    }
    const int64_t size = rank > 0 ? call->out[output].sizes[dim] : 1;
    for (int64_t k = 0; k < (rank > 0 ? taken->sizes[dim] : 1); k++) {
        at[dim] = k;
        int64_t place = (int64_t)spec_at(call, SCATTER_INDEX, at);
        if (place < 0) place += size;
        if (place == (rank > 0 ? index[dim] : 0))
            value = index_combine(call->out[output].dtype, reduction, value,
                                  spec_at(call, SCATTER_SRC, at));
    }
    return value;
}

/* ---- dense kernel: all elements with the same destination are in one piece, in order ----
 *
 * Elements of src can have the same destination only if their positions differ just in dim. So a
 * piece is a range of the last dimension, with all indices of dim. If dim is the last dimension, a
 * piece is one line. */

#define PIECE_ELEMENTS 512

static status_t scatter_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    return index_prepare_scatter(call, prepared, find_reduction(call->attrs),
                                 info_numel(call->in[SCATTER_INDEX]));
}

typedef struct pieces {
    index_shape_t x, index, src;
    int dim, last;
    int64_t n_in_line; /* pieces along the last dimension */
    int64_t n;
} pieces_t;

static pieces_t cut(const prepared_t *prepared)
{
    pieces_t pieces = {.x = index_shape(&prepared->in[SCATTER_X]),
                       .index = index_shape(&prepared->in[SCATTER_INDEX]),
                       .src = index_shape(&prepared->in[SCATTER_SRC]),
                       .dim = find_dim(prepared->attrs, prepared->in[SCATTER_X].rank)};
    const int64_t *sizes = pieces.index.sizes;
    pieces.last = pieces.index.rank - 1;
    pieces.n_in_line = pieces.dim == pieces.last
                           ? 1
                           : (sizes[pieces.last] + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS;
    pieces.n = pieces.n_in_line;
    for (int d = 0; d < pieces.last; d++)
        if (d != pieces.dim) pieces.n *= sizes[d];
    return pieces;
}

static void put_piece(const pieces_t *pieces, const index_buffers_t *buffers, int64_t piece)
{
    const index_shape_t *index = &pieces->index;
    const int dim = pieces->dim, last = pieces->last;
    const size_t size = dtype_size(buffers->dtype);
    const bool is_line = dim == last;
    const int64_t first = is_line ? 0 : piece % pieces->n_in_line * PIECE_ELEMENTS;
    int64_t left = index->sizes[last] - first, rest = piece / pieces->n_in_line;
    int64_t at = first, from = first, to = first;
    for (int d = last - 1; d >= 0; d--) {
        if (d == dim) continue;
        int64_t i = rest % index->sizes[d];
        rest /= index->sizes[d];
        at += i * index->strides[d];
        from += i * pieces->src.strides[d];
        to += i * pieces->x.strides[d];
    }
    index_put_t put = {.n = is_line || left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS,
                       .place_step = 1,
                       .step = pieces->x.strides[dim],
                       .next = is_line ? 0 : 1,
                       .dst = buffers->dst + (size_t)to * size};
    for (int64_t k = 0; k < (is_line ? 1 : index->sizes[dim]); k++) {
        put.places = buffers->places + at + k * index->strides[dim];
        put.src = buffers->src + (size_t)(from + k * pieces->src.strides[dim]) * size;
        buffers->put(&put);
    }
}

typedef struct put {
    const pieces_t *pieces;
    const index_buffers_t *buffers;
} put_t;

static void put_pieces(void *user, int64_t first, int64_t last)
{
    const put_t *put = user;
    for (int64_t p = first; p < last; p++) put_piece(put->pieces, put->buffers, p);
}

static status_t scatter_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, void *scratch)
{
    const pieces_t pieces = cut(prepared);
    const int64_t n = info_numel(&prepared->in[SCATTER_INDEX]);
    const index_target_t target = {&prepared->in[SCATTER_X], &prepared->in[SCATTER_INDEX],
                                   pieces.dim, 0};
    index_buffers_t buffers;
    TRY(index_begin_scatter(ctx, prepared, &target, find_reduction(prepared->attrs), n, in, out[0],
                            scratch, &buffers));
    put_t put = {&pieces, &buffers};
    threads_share(threads_for(ctx, n), n > 0 ? pieces.n : 0, put_pieces, &put);
    index_end_scatter(prepared, &buffers, out[0]);
    return STATUS_OK;
}

/* ---- gradients ---- */

value_t emit_scatter(emitter_t *emitter, value_t x, int64_t dim, value_t index, value_t src,
                     scatter_reduction_t reduction)
{
    const scatter_attrs_t attrs = {dim, (int)reduction};
    const value_t in[] = {x, index, src};
    return emit_op(emitter, &op_def_scatter, &attrs, 3, in);
}

static value_t put(const gradient_call_t *call, value_t x, value_t src,
                   scatter_reduction_t reduction)
{
    return emit_scatter(call->emitter, x, ((const scatter_attrs_t *)call->attrs)->dim,
                        call->in[SCATTER_INDEX], src, reduction);
}

static value_t take(const gradient_call_t *call, value_t x)
{
    return emit_gather_elements(call->emitter, x, ((const scatter_attrs_t *)call->attrs)->dim,
                                call->in[SCATTER_INDEX]);
}

/* Crops src to the sizes of the index, because the rest of src is not read. For the gradient of
 * src, give_src pads with zeros. */
static value_t cut_src(const gradient_call_t *call, value_t src)
{
    const tensor_info_t index = *emit_info(call->emitter, call->in[SCATTER_INDEX]);
    const tensor_info_t info = *emit_info(call->emitter, src);
    for (int d = 0; d < info.rank; d++)
        if (info.sizes[d] > index.sizes[d])
            src = emit_slice(call->emitter, src, d, 0, index.sizes[d]);
    return src;
}

static void give_src(const gradient_call_t *call, value_t grad)
{
    const tensor_info_t index = *emit_info(call->emitter, call->in[SCATTER_INDEX]);
    const tensor_info_t src = *emit_info(call->emitter, call->in[SCATTER_SRC]);
    int64_t before[TENSOR_MAX_RANK] = {0}, after[TENSOR_MAX_RANK] = {0};
    for (int d = 0; d < src.rank; d++) after[d] = src.sizes[d] - index.sizes[d];
    call->in_grad[SCATTER_SRC] = emit_pad(call->emitter, grad, before, after);
}

/* If several elements have the same destination, only the last one has a gradient. To find it,
 * scatters each element's position along dim to its destination. An element that gathers its own
 * position there is the last one. */
static void pass_none(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t grad = call->out_grad[0], zero = emit_number(e, 0.0);
    const tensor_info_t x = *emit_info(e, call->in[SCATTER_X]);
    tensor_info_t src = *emit_info(e, call->in[SCATTER_INDEX]), places = x;
    const int dim = find_dim(call->attrs, x.rank);
    src.dtype = x.dtype;
    places.dtype = DTYPE_S64;
    if (call->is_wanted[SCATTER_X])
        call->in_grad[SCATTER_X] = put(call, grad, emit_zeros(e, &src), SCATTER_NONE);
    if (!call->is_wanted[SCATTER_SRC]) return;
    value_t number = emit_count(e, &src, dim);
    value_t last = take(call, put(call, emit_zeros(e, &places), number, SCATTER_NONE));
    give_src(call, emit_where(e, emit_binary(e, &op_def_eq, number, last), take(call, grad), zero));
}

/* All elements that are equal to the result share its gradient equally. They are counted in f32,
 * because f16 has no numbers above 65504. */
static void pass_most(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t x = call->in[SCATTER_X], out = call->out[0];
    const value_t grad = emit_widen(e, call->out_grad[0]);
    const dtype_t given = emit_info(e, x)->dtype, dtype = emit_info(e, grad)->dtype;
    value_t of_x = emit_cast(e, emit_binary(e, &op_def_eq, x, out), dtype);
    value_t of_src = emit_binary(e, &op_def_eq, cut_src(call, call->in[SCATTER_SRC]),
                                 take(call, out));
    of_src = emit_cast(e, of_src, dtype);
    value_t part = emit_binary(e, &op_def_div, grad, put(call, of_x, of_src, SCATTER_ADD));
    call->in_grad[SCATTER_X] = emit_cast(e, emit_binary(e, &op_def_mul, of_x, part), given);
    of_src = emit_binary(e, &op_def_mul, of_src, take(call, part));
    give_src(call, emit_cast(e, of_src, given));
}

/* The gradient of an element of x is grad times the product of the elements of src written to it.
 * src has no gradient: that would need products of all elements but one, which are not stored. */
static void pass_mul(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[SCATTER_X]);
    if (call->is_wanted[SCATTER_SRC]) {
        emit_fail(e, STATUS_UNSUPPORTED,
                  "scatter: src with reduction \"mul\" wants a gradient, only x has one then");
        return;
    }
    value_t one = emit_binary(e, &op_def_add, emit_zeros(e, &x), emit_number(e, 1.0));
    value_t product = put(call, one, call->in[SCATTER_SRC], SCATTER_MUL);
    call->in_grad[SCATTER_X] = emit_binary(e, &op_def_mul, call->out_grad[0], product);
}

static void scatter_pass(const gradient_call_t *call)
{
    switch (find_reduction(call->attrs)) {
    case SCATTER_NONE: pass_none(call); return;
    case SCATTER_MUL: pass_mul(call); return;
    case SCATTER_MAX:
    case SCATTER_MIN: pass_most(call); return;
    default: break;
    }
    call->in_grad[SCATTER_X] = call->out_grad[0];
    if (call->is_wanted[SCATTER_SRC]) give_src(call, take(call, call->out_grad[0]));
}

const opdef_t op_def_scatter = {
    .name = "scatter",
    FUNCTIONS_OF(scatter),
    .preference = OP_DENSE,
    .attrs = {sizeof(scatter_attrs_t), 2, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", scatter_prepare, scatter_run)),
    .gradient = GRADIENT(.pass = scatter_pass, .reads_in = 7, .reads_out = 1)};

status_t op_scatter(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                    const tensor_t *src, scatter_reduction_t reduction, tensor_t **out)
{
    scatter_attrs_t attrs = {dim, (int)reduction};
    const tensor_t *in[] = {x, index, src};
    return dispatch_run(ctx, &op_def_scatter, &attrs, 3, in, NULL, out);
}

status_t op_scatter_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                     const tensor_t *src, scatter_reduction_t reduction)
{
    scatter_attrs_t attrs = {dim, (int)reduction};
    const tensor_t *in[] = {index, src};
    return dispatch_run_in_place(ctx, &op_def_scatter, &attrs, x, 2, in);
}

/* A tensor of the index's sizes, filled with the number. */
static status_t make_src(context_t *ctx, const tensor_t *x, const tensor_t *index, double value,
                         tensor_t **out_src)
{
    if (x == NULL) return context_null(ctx, "scatter", "x");
    if (index == NULL) return context_null(ctx, "scatter", "index");
    return op_full_like(ctx, index, value, tensor_dtype(x), out_src);
}

status_t op_scatter_value(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                          double value, scatter_reduction_t reduction, tensor_t **out)
{
    tensor_t *src = NULL;
    TRY(context_output(ctx, "scatter", out));
    TRY(make_src(ctx, x, index, value, &src));
    FINISH(op_scatter(ctx, x, dim, index, src, reduction, out), ops_drop(ctx, src));
}

status_t op_scatter_value_(context_t *ctx, tensor_t *x, int64_t dim, const tensor_t *index,
                           double value, scatter_reduction_t reduction)
{
    tensor_t *src = NULL;
    TRY(make_src(ctx, x, index, value, &src));
    FINISH(op_scatter_(ctx, x, dim, index, src, reduction), ops_drop(ctx, src));
}
