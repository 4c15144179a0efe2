/* Selects one element for each index along a dimension, like torch.gather. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/index_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct gather_elements_attrs {
    int64_t dim;
} gather_elements_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(gather_elements_attrs_t, dim, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"index", ROLE_ACTIVATION, false, false}};
enum { X, INDEX };

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const gather_elements_attrs_t *)attrs)->dim);
}

static status_t gather_elements_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                      tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *index = call->in[INDEX];
    int64_t wanted = ((const gather_elements_attrs_t *)call->attrs)->dim;
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, wanted, &dim), "gather_elements: dim %lld of %s, out of range",
            (long long)wanted, info_brief(x));
    TRY(index_check_dtype(ctx, "gather_elements", index));
    TRY(index_check_sizes(ctx, "gather_elements", x, index, dim));
    TRY(shape_check(ctx, "gather_elements", x->dtype, index->rank, index->sizes));
    out[0] = info_dense(x->dtype, index->rank, index->sizes);
    return STATUS_OK;
}

static double gather_elements_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    int dim = find_dim(call->attrs, x->rank);
    int64_t at[TENSOR_MAX_RANK] = {0}, place = (int64_t)spec_at(call, INDEX, index);
    if (x->rank == 0) return spec_at(call, X, at);
    memcpy(at, index, (size_t)x->rank * sizeof *at);
    at[dim] = place < 0 ? place + x->sizes[dim] : place;
    return spec_at(call, X, at);
}

/* ---- dense kernel: divides the result into pieces of its lines along the last dimension ---- */

#define PIECE_ELEMENTS 4096

static status_t gather_elements_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    TRY(accept_plain(call, prepared, X));
    TRY(accept_plain(call, prepared, INDEX));
    prepared->scratch_bytes = (size_t)info_numel(call->in[INDEX]) * sizeof(int64_t);
    return accept_out_plain(call, prepared, 0);
}

/* out[i] = x[places[i] * step + i * next] */
#define TAKE(type)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((type *)out)[i] = ((const type *)x)[places[i] * step + i * next]

static void take(size_t size, int64_t n, const int64_t *places, int64_t step, int64_t next,
                 const void *x, void *out)
{
    switch (size) {
    case 1: TAKE(uint8_t); break;
    case 2: TAKE(uint16_t); break;
    case 4: TAKE(uint32_t); break;
    default: TAKE(uint64_t); break;
    }
}

typedef struct pieces {
    index_shape_t x, index;
    int dim;
    int64_t n_per_line;    /* pieces in a line of the result */
    const int64_t *places; /* [result elements]: index along dim of x */
    size_t size;           /* bytes of an element */
    const char *src;
    char *dst;
} pieces_t;

static void take_pieces(void *user, int64_t begin, int64_t end)
{
    const pieces_t *p = user;
    const int last = p->index.rank - 1;
    const int64_t line = p->index.sizes[last];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t first = piece % p->n_per_line * PIECE_ELEMENTS, left = line - first;
        int64_t from = p->dim == last ? 0 : first, rest = piece / p->n_per_line;
        const int64_t at = rest * line + first;
        for (int d = last - 1; d >= 0; d--) {
            if (d != p->dim) from += rest % p->index.sizes[d] * p->x.strides[d];
            rest /= p->index.sizes[d];
        }
        take(p->size, left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS, p->places + at,
             p->x.strides[p->dim], p->dim == last ? 0 : 1, p->src + (size_t)from * p->size,
             p->dst + (size_t)at * p->size);
    }
}

static status_t gather_elements_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                    void *const *out, void *scratch)
{
    const index_shape_t x = index_shape(&prepared->in[X]);
    const index_shape_t index = index_shape(&prepared->in[INDEX]);
    const int dim = find_dim(prepared->attrs, prepared->in[X].rank), last = index.rank - 1;
    const index_target_t target = {&prepared->in[X], &prepared->in[INDEX], dim, 0};
    const size_t size = dtype_size(prepared->in[X].dtype);
    const int64_t n = info_numel(&prepared->out[0]), line = index.sizes[last];
    TRY(index_resolve(ctx, "gather_elements", &target, in[INDEX], n, scratch));
    if (n == 0) return STATUS_OK;
    const int64_t n_per_line = (line + PIECE_ELEMENTS - 1) / PIECE_ELEMENTS;
    pieces_t pieces = {x, index, dim, n_per_line, scratch, size, in[X], out[0]};
    threads_share(threads_for(ctx, n), n / line * n_per_line, take_pieces, &pieces);
    return STATUS_OK;
}

/* ---- gradients ---- */

static void gather_elements_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[X]);
    const int64_t dim = ((const gather_elements_attrs_t *)call->attrs)->dim;
    if (call->is_wanted[X])
        call->in_grad[X] = emit_scatter(e, emit_zeros(e, &x), dim, call->in[INDEX],
                                        call->out_grad[0], SCATTER_ADD);
}

value_t emit_gather_elements(emitter_t *emitter, value_t x, int64_t dim, value_t index)
{
    const gather_elements_attrs_t attrs = {dim};
    const value_t in[] = {x, index};
    return emit_op(emitter, &op_def_gather_elements, &attrs, 2, in);
}

const opdef_t op_def_gather_elements = {
    .name = "gather_elements",
    FUNCTIONS_OF(gather_elements),
    .preference = OP_DENSE,
    .attrs = {sizeof(gather_elements_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", gather_elements_prepare, gather_elements_run)),
    .gradient = GRADIENT(.pass = gather_elements_pass, .reads_in = 1u << INDEX)};

status_t op_gather_elements(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                            tensor_t **out)
{
    gather_elements_attrs_t attrs = {dim};
    const tensor_t *in[] = {x, index};
    return dispatch_run(ctx, &op_def_gather_elements, &attrs, 2, in, NULL, out);
}
