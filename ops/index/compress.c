/* Selects the slices where a condition is true. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/index/picking.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct compress_attrs {
    ints_t dims; /* one dimension; if none, x is flattened */
} compress_attrs_t;

static const attr_field_t fields[] = {FIELD_INTS(compress_attrs_t, dims)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"condition", ROLE_ACTIVATION, false, false}};
enum { X, CONDITION };

/* x as [outer][size][inner]; slices are selected in the middle dimension. */
typedef struct slices {
    int dim; /* -1: x is flattened */
    int64_t outer, size, inner;
} slices_t;

static slices_t find_slices(const void *attrs, const tensor_info_t *x)
{
    const ints_t *dims = &((const compress_attrs_t *)attrs)->dims;
    slices_t slices = {.dim = -1, .outer = 1, .size = info_numel(x), .inner = 1};
    if (dims->n == 0 || x->rank == 0) return slices;
    slices.dim = ops_dim(x->rank, dims->values[0]);
    slices.size = x->sizes[slices.dim];
    for (int d = 0; d < x->rank; d++) {
        if (d < slices.dim) slices.outer *= x->sizes[d];
        if (d > slices.dim) slices.inner *= x->sizes[d];
    }
    return slices;
}

static int64_t count_picked(const tensor_info_t *condition, const void *bytes)
{
    const uint8_t *flags = bytes;
    int64_t n = 0;
    for (int64_t i = 0; i < condition->sizes[0]; i++) n += flags[i] != 0;
    return n;
}

static status_t compress_infer(context_t *ctx, const op_call_t *call, int *out_n,
                               tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *condition = call->in[CONDITION];
    const ints_t *dims = &((const compress_attrs_t *)call->attrs)->dims;
    int dim = 0;
    REQUIRE(ctx, dims->n <= 1, "compress: %d dims, one or none is possible", dims->n);
    REQUIRE(ctx, dims->n == 0 || shape_dim(x->rank, dims->values[0], &dim),
            "compress: dim %lld of %s, out of range", (long long)dims->values[0], info_brief(x));
    REQUIRE(ctx, condition->dtype == DTYPE_BOOL && condition->rank == 1,
            "compress: condition %s, a bool of rank 1 is needed", info_brief(condition));
    const bool is_flat = dims->n == 0 || x->rank == 0;
    int64_t sizes[TENSOR_MAX_RANK] = {0}, n = -1, size = 0;
    if (is_flat)
        sizes_numel(ctx, x->rank, x->sizes, &size);
    else
        size = x->sizes[dim];
    REQUIRE(ctx, sym_at_most(ctx, condition->sizes[0], size),
            "compress: condition of %lld, there are %lld slices", (long long)condition->sizes[0],
            (long long)size);
    if (call_knows(call, CONDITION)) n = count_picked(condition, call->data[CONDITION]);
    for (int d = 0; d < x->rank; d++) sizes[d] = d == dim ? n : x->sizes[d];
    out[0] = is_flat ? info_dense(x->dtype, 1, &n) : info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

/* Index in x of the selected slice that comes after `left` other selected slices. */
static int64_t find_picked(const spec_call_t *call, int64_t left)
{
    for (int64_t i = 0; i < call->in[CONDITION]->sizes[0]; i++)
        if (spec_at(call, CONDITION, &i) != 0.0 && left-- == 0) return i;
    return 0;
}

static double compress_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    const slices_t slices = find_slices(call->attrs, x);
    int64_t at[TENSOR_MAX_RANK] = {0};
    if (slices.dim >= 0) {
        memcpy(at, index, (size_t)x->rank * sizeof *at);
        at[slices.dim] = find_picked(call, index[slices.dim]);
        return spec_at(call, X, at);
    }
    int64_t rest = find_picked(call, index[0]);
    for (int d = x->rank - 1; d >= 0; d--) {
        at[d] = rest % x->sizes[d];
        rest /= x->sizes[d];
    }
    return spec_at(call, X, at);
}

/* ---- dense kernel: first lists the selected slices, then copies them ---- */

static status_t compress_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(ops_prepare_dense(ctx, call, prepared));
    prepared->scratch_bytes = (size_t)(call->in[CONDITION]->sizes[0] + 1) * sizeof(int64_t);
    return STATUS_OK;
}

typedef struct copy {
    slices_t slices;
    const int64_t *picked; /* [n] selected slices of x */
    int64_t n;
    size_t bytes; /* bytes of the contiguous part of a slice */
    const char *x;
    char *out;
} copy_t;

static void copy_parts(void *user, int64_t first, int64_t last)
{
    const copy_t *c = user;
    for (int64_t i = first; i < last; i++)
        memcpy(c->out + (size_t)i * c->bytes,
               c->x + (size_t)(i / c->n * c->slices.size + c->picked[i % c->n]) * c->bytes,
               c->bytes);
}

static status_t compress_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    const slices_t slices = find_slices(prepared->attrs, &prepared->in[X]);
    const uint8_t *condition = in[CONDITION];
    int64_t *picked = scratch, n = 0;
    for (int64_t i = 0; i < prepared->in[CONDITION].sizes[0]; i++)
        if (condition[i] != 0) picked[n++] = i;
    copy_t copy = {slices, picked, n, (size_t)slices.inner * dtype_size(prepared->in[X].dtype),
                   in[X],  out[0]};
    threads_share(threads_for(ctx, slices.outer * n * slices.inner), slices.outer * n, copy_parts,
                  &copy);
    return STATUS_OK;
}

/* ---- gradients: writes grad to the selected slices ---- */

static void compress_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[X]);
    const slices_t slices = find_slices(call->attrs, &x);
    const int64_t line = -1;
    value_t places = emit_unary(e, &op_def_nonzero, call->in[CONDITION]);
    places = emit_ints(e, &op_def_reshape, places, 1, &line);
    value_t grad = emit_gather_backward(e, call->out_grad[0], places,
                                        slices.dim < 0 ? 0 : slices.dim, slices.size);
    call->in_grad[X] = emit_reshape_like(e, grad, call->in[X]);
}

const opdef_t op_def_compress = {
    .name = "compress",
    FUNCTIONS_OF(compress),
    .preference = OP_DENSE,
    .traits = TRAIT_MEASURES,
    .attrs = {sizeof(compress_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", compress_prepare, compress_run)),
    .gradient = GRADIENT(.pass = compress_pass, .reads_in = 1u << CONDITION)};

status_t op_compress(context_t *ctx, const tensor_t *x, const tensor_t *condition,
                     const int64_t *dim, tensor_t **out)
{
    const tensor_t *in[] = {x, condition};
    compress_attrs_t attrs = {.dims = {.n = dim != NULL}};
    if (dim != NULL) attrs.dims.values[0] = *dim;
    return dispatch_run(ctx, &op_def_compress, &attrs, 2, in, NULL, out);
}
