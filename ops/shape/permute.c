/* Views with other strides: transpose, permute, expand. */
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- attributes ---- */

typedef struct transpose_attrs {
    int64_t dim0, dim1;
} transpose_attrs_t;

typedef struct permute_attrs {
    ints_t dims;
} permute_attrs_t;

typedef struct expand_attrs {
    ints_t sizes; /* -1 keeps a size */
} expand_attrs_t;

static const attr_field_t transpose_fields[] = {FIELD_INT(transpose_attrs_t, dim0, 0),
                                                FIELD_INT(transpose_attrs_t, dim1, 0)};
static const attr_field_t permute_fields[] = {FIELD_INTS(permute_attrs_t, dims)};
static const attr_field_t expand_fields[] = {FIELD_INTS(expand_attrs_t, sizes)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference: the dimension of x for each dimension of the result; -1 if it is repeated ---- */

static bool find_transposed(const tensor_info_t *x, const transpose_attrs_t *attrs, int *out_dims)
{
    int a = 0, b = 0;
    if (!shape_dim(x->rank, attrs->dim0, &a) || !shape_dim(x->rank, attrs->dim1, &b)) return false;
    for (int d = 0; d < x->rank; d++) out_dims[d] = d == a ? b : d == b ? a : d;
    return true;
}

static bool find_permuted(const tensor_info_t *x, const ints_t *dims, int *out_dims)
{
    unsigned seen = 0;
    if (dims->n != x->rank) return false;
    for (int i = 0; i < dims->n; i++) {
        int d = 0;
        if (!shape_dim(x->rank, dims->values[i], &d) || (seen & 1u << d) != 0) return false;
        seen |= 1u << d;
        out_dims[i] = d;
    }
    return true;
}

static void give(const tensor_info_t *x, const int *dims, tensor_info_t *out)
{
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < x->rank; d++) sizes[d] = x->sizes[dims[d]];
    out[0] = info_dense(x->dtype, x->rank, sizes);
}

static status_t infer_transpose(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const transpose_attrs_t *attrs = call->attrs;
    int dims[TENSOR_MAX_RANK];
    REQUIRE(ctx, find_transposed(call->in[0], attrs, dims),
            "transpose: dims %lld and %lld of %s, out of range", (long long)attrs->dim0,
            (long long)attrs->dim1, info_brief(call->in[0]));
    give(call->in[0], dims, out);
    return STATUS_OK;
}

static status_t infer_permute(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const ints_t *wanted = &((const permute_attrs_t *)call->attrs)->dims;
    int dims[TENSOR_MAX_RANK];
    char text[128];
    REQUIRE(ctx, find_permuted(call->in[0], wanted, dims),
            "permute: dims %s of %s, each dimension is needed once",
            shape_text(wanted->n, wanted->values, text, sizeof text), info_brief(call->in[0]));
    give(call->in[0], dims, out);
    return STATUS_OK;
}

static status_t infer_expand(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const ints_t *wanted = &((const expand_attrs_t *)call->attrs)->sizes;
    const tensor_info_t *x = call->in[0];
    int64_t sizes[TENSOR_MAX_RANK];
    char text[128];
    shape_text(wanted->n, wanted->values, text, sizeof text);
    int n_leading = wanted->n - x->rank;
    REQUIRE(ctx, n_leading >= 0, "expand: %s to %s, rank %d or more is needed", info_brief(x), text,
            x->rank);
    for (int d = 0; d < wanted->n; d++) {
        int64_t own = d < n_leading ? 1 : x->sizes[d - n_leading];
        bool keeps = d >= n_leading && sym_equal(ctx, wanted->values[d], -1);
        sizes[d] = keeps ? own : wanted->values[d];
        REQUIRE(ctx, sym_at_most(ctx, 0, sizes[d]) && sizes_expand(ctx, own, sizes[d]),
                "expand: %s to %s, only sizes 1 expand", info_brief(x), text);
    }
    TRY(shape_check(ctx, "expand", x->dtype, wanted->n, sizes));
    out[0] = info_dense(x->dtype, wanted->n, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double spec_dims(const spec_call_t *call, const int *dims, const int64_t *index)
{
    int64_t at[TENSOR_MAX_RANK];
    for (int d = 0; d < call->out->rank; d++) at[dims[d]] = index[d];
    return spec_at(call, 0, at);
}

static double spec_transpose(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    int dims[TENSOR_MAX_RANK] = {0};
    find_transposed(call->in[0], call->attrs, dims);
    return spec_dims(call, dims, index);
}

static double spec_permute(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    int dims[TENSOR_MAX_RANK] = {0};
    find_permuted(call->in[0], &((const permute_attrs_t *)call->attrs)->dims, dims);
    return spec_dims(call, dims, index);
}

static double spec_expand(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return spec_at_broadcast(call, 0, call->out->rank, index);
}

/* ---- kernels: views ---- */

static status_t prepare_dims(const op_call_t *call, prepared_t *prepared, const int *dims)
{
    const tensor_info_t *x = call->in[0];
    int64_t strides[TENSOR_MAX_RANK];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "view: dense only");
    for (int d = 0; d < x->rank; d++) strides[d] = x->format.strides[dims[d]];
    return accept_view(call, prepared, 0, strides, 0);
}

static status_t prepare_transpose(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    int dims[TENSOR_MAX_RANK] = {0};
    find_transposed(call->in[0], call->attrs, dims);
    return prepare_dims(call, prepared, dims);
}

static status_t prepare_permute(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    int dims[TENSOR_MAX_RANK] = {0};
    find_permuted(call->in[0], &((const permute_attrs_t *)call->attrs)->dims, dims);
    return prepare_dims(call, prepared, dims);
}

static status_t prepare_expand(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *x = call->in[0];
    int64_t strides[TENSOR_MAX_RANK];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "view: dense only");
    for (int d = 0; d < call->out[0].rank; d++) {
        int from = d - (call->out[0].rank - x->rank);
        bool is_repeated = from < 0 || x->sizes[from] != call->out[0].sizes[d];
        strides[d] = is_repeated ? 0 : x->format.strides[from];
    }
    return accept_view(call, prepared, 0, strides, 0);
}

/* ---- gradients ---- */

static void pass_transpose(const gradient_call_t *call)
{
    call->in_grad[0] = emit_op(call->emitter, &op_def_transpose, call->attrs, 1, call->out_grad);
}

static void pass_permute(const gradient_call_t *call)
{
    const tensor_info_t x = *emit_info(call->emitter, call->in[0]);
    int64_t inverse[TENSOR_MAX_RANK];
    int dims[TENSOR_MAX_RANK] = {0};
    find_permuted(&x, &((const permute_attrs_t *)call->attrs)->dims, dims);
    for (int d = 0; d < x.rank; d++) inverse[dims[d]] = d;
    call->in_grad[0] = emit_ints(call->emitter, &op_def_permute, call->out_grad[0], x.rank,
                                 inverse);
}

static void pass_expand(const gradient_call_t *call)
{
    call->in_grad[0] = emit_unbroadcast(call->emitter, call->out_grad[0], call->in[0]);
}

static const gradient_t gradient_transpose = {.pass = pass_transpose};
static const gradient_t gradient_permute = {.pass = pass_permute};
static const gradient_t gradient_expand = {.pass = pass_expand};

/* ---- definitions ---- */

#define DEFINE(op)                                                                                 \
    const opdef_t op_def_##op = {                                                                  \
        .name = #op,                                                                               \
        .preference = OP_DENSE,                                                                    \
        .traits = TRAIT_VIEW,                                                                      \
        .attrs = {sizeof(op##_attrs_t), sizeof op##_fields / sizeof *op##_fields, op##_fields},    \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = infer_##op,                                                                       \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(VIEW(prepare_##op)),                                                    \
        .spec = spec_##op,                                                                         \
        .gradient = &gradient_##op}

DEFINE(transpose);
DEFINE(permute);
DEFINE(expand);

/* ---- public ---- */

status_t op_transpose(context_t *ctx, const tensor_t *x, int64_t dim0, int64_t dim1, tensor_t **out)
{
    transpose_attrs_t attrs = {dim0, dim1};
    return dispatch_run(ctx, &op_def_transpose, &attrs, 1, &x, NULL, out);
}

status_t op_permute(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
{
    return ops_call_ints(ctx, &op_def_permute, x, n, dims, out);
}

status_t op_expand(context_t *ctx, const tensor_t *x, int rank, const int64_t *sizes,
                   tensor_t **out)
{
    return ops_call_ints(ctx, &op_def_expand, x, rank, sizes, out);
}
