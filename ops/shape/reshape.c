/* Views with other sizes: reshape, flatten, squeeze, unsqueeze. */
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- attributes ---- */

typedef struct reshape_attrs {
    ints_t sizes; /* one may be -1 */
} reshape_attrs_t;

typedef struct flatten_attrs {
    int64_t start_dim, end_dim;
} flatten_attrs_t;

typedef struct dims_attrs {
    ints_t dims;
} dims_attrs_t;

static const attr_field_t reshape_fields[] = {FIELD_INTS(reshape_attrs_t, sizes)};
static const attr_field_t flatten_fields[] = {FIELD_INT(flatten_attrs_t, start_dim, 0),
                                              FIELD_INT(flatten_attrs_t, end_dim, -1)};
static const attr_field_t dims_fields[] = {FIELD_INTS(dims_attrs_t, dims)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference ---- */

static status_t give(context_t *ctx, const op_call_t *call, int rank, const int64_t *sizes,
                     tensor_info_t *out)
{
    TRY(shape_check(ctx, call->op->name, call->in[0]->dtype, rank, sizes));
    out[0] = info_dense(call->in[0]->dtype, rank, sizes);
    return STATUS_OK;
}

static status_t infer_reshape(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const ints_t *wanted = &((const reshape_attrs_t *)call->attrs)->sizes;
    const tensor_info_t *x = call->in[0];
    const char *op = call->op->name;
    int64_t sizes[TENSOR_MAX_RANK], known = 0, numel = 0;
    char text[128];
    int unknown = -1;
    shape_text(wanted->n, wanted->values, text, sizeof text);
    for (int d = 0; d < wanted->n; d++) {
        sizes[d] = wanted->values[d];
        if (!sym_equal(ctx, sizes[d], -1)) continue;
        REQUIRE(ctx, unknown < 0, "%s: %s to %s, only one size may be -1", op, info_brief(x), text);
        unknown = d;
        sizes[d] = 1;
    }
    TRY(shape_check(ctx, op, x->dtype, wanted->n, sizes));
    REQUIRE(ctx,
            sizes_numel(ctx, wanted->n, sizes, &known) &&
                sizes_numel(ctx, x->rank, x->sizes, &numel),
            "%s: %s overflows", op, text);
    if (unknown >= 0) {
        REQUIRE(ctx, sym_less(ctx, 0, known) && sym_divides(ctx, known, numel),
                "%s: %s to %s, no size fits for -1", op, info_brief(x), text);
        sizes[unknown] = sym_divide(ctx, numel, known);
    } else {
        REQUIRE(ctx, sym_equal(ctx, known, numel), "%s: %s to %s, the number of elements must stay",
                op, info_brief(x), text);
    }
    return give(ctx, call, wanted->n, sizes, out);
}

static status_t infer_flatten(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const flatten_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    int start = 0, end = 0, rank = 0;
    REQUIRE(ctx,
            shape_dim(x->rank, attrs->start_dim, &start) &&
                shape_dim(x->rank, attrs->end_dim, &end) && start <= end,
            "%s: dims %lld to %lld of %s, out of range", call->op->name,
            (long long)attrs->start_dim, (long long)attrs->end_dim, info_brief(x));
    int64_t sizes[TENSOR_MAX_RANK] = {1}, merged = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d < start || d > end) {
            sizes[rank++] = x->sizes[d];
            continue;
        }
        REQUIRE(ctx, sizes_multiply(ctx, merged, x->sizes[d], &merged), "%s: %s overflows",
                call->op->name, info_brief(x));
        if (d == end) sizes[rank++] = merged;
    }
    return give(ctx, call, rank > 0 ? rank : 1, sizes, out);
}

/* Sets out_marked[d] for each dimension d in the attribute; negative numbers count from the end. A
 * repeated dimension is an error. */
static status_t mark_dims(context_t *ctx, const op_call_t *call, int rank, bool *out_marked)
{
    const ints_t *dims = &((const dims_attrs_t *)call->attrs)->dims;
    for (int i = 0; i < dims->n; i++) {
        int d = 0;
        REQUIRE(ctx, shape_dim(rank, dims->values[i], &d) && d < rank,
                "%s: dim %lld of %s, out of range", call->op->name, (long long)dims->values[i],
                info_brief(call->in[0]));
        REQUIRE(ctx, !out_marked[d], "%s: dim %d of %s stands twice", call->op->name, d,
                info_brief(call->in[0]));
        out_marked[d] = true;
    }
    return STATUS_OK;
}

static status_t infer_squeeze(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[0];
    bool marked[TENSOR_MAX_RANK] = {false};
    bool is_all = ((const dims_attrs_t *)call->attrs)->dims.n == 0;
    TRY(mark_dims(ctx, call, x->rank, marked));
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    for (int d = 0; d < x->rank; d++)
        if (!(is_all || marked[d]) || !sym_equal(ctx, x->sizes[d], 1)) sizes[rank++] = x->sizes[d];
    return give(ctx, call, rank, sizes, out);
}

static status_t infer_unsqueeze(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[0];
    bool marked[TENSOR_MAX_RANK] = {false};
    int rank = x->rank + ((const dims_attrs_t *)call->attrs)->dims.n, from = 0;
    REQUIRE(ctx, rank <= TENSOR_MAX_RANK, "%s: %s would have rank %d, at most %d is possible",
            call->op->name, info_brief(x), rank, TENSOR_MAX_RANK);
    TRY(mark_dims(ctx, call, rank, marked));
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) sizes[d] = marked[d] ? 1 : x->sizes[from++];
    return give(ctx, call, rank, sizes, out);
}

/* ---- specification: the element at the same row-major position ---- */

static double reshape_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[0];
    int64_t at[TENSOR_MAX_RANK] = {0}, place = 0;
    for (int d = 0; d < call->out->rank; d++) place = place * call->out->sizes[d] + index[d];
    for (int d = x->rank - 1; d >= 0; d--) {
        at[d] = place % x->sizes[d];
        place /= x->sizes[d];
    }
    return spec_at(call, 0, at);
}

/* ---- kernel: a view; if strides do not allow one, dispatch makes a contiguous copy first ---- */

static status_t reshape_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    int64_t strides[TENSOR_MAX_RANK];
    if (call->layout == LAYOUT_DENSE &&
        view_strides(call->in[0], call->out[0].rank, call->out[0].sizes, strides))
        return accept_view(call, prepared, 0, strides, 0);
    TRY(accept_plain(call, prepared, 0));
    return accept_out_plain(call, prepared, 0);
}

/* ---- definitions ---- */

#define DEFINE(op, type, table)                                                                    \
    const opdef_t op_def_##op = {.name = #op,                                                      \
                                 .preference = OP_FOLLOWS,                                         \
                                 .traits = TRAIT_VIEW,                                             \
                                 .attrs = {sizeof(type), sizeof table / sizeof *table, table},     \
                                 OPERANDS(operands),                                               \
                                 .n_outputs = 1,                                                   \
                                 .infer = infer_##op,                                              \
                                 .infers_symbols = true,                                           \
                                 .kernels = KERNELS(VIEW(reshape_prepare)),                        \
                                 .spec = reshape_spec,                                             \
                                 .gradient = &gradient_reshape}

DEFINE(reshape, reshape_attrs_t, reshape_fields);
DEFINE(flatten, flatten_attrs_t, flatten_fields);
DEFINE(squeeze, dims_attrs_t, dims_fields);
DEFINE(unsqueeze, dims_attrs_t, dims_fields);

/* ---- public ---- */

status_t op_reshape(context_t *ctx, const tensor_t *x, int rank, const int64_t *sizes,
                    tensor_t **out)
{
    return ops_call_ints(ctx, &op_def_reshape, x, rank, sizes, out);
}

status_t op_flatten(context_t *ctx, const tensor_t *x, int64_t start_dim, int64_t end_dim,
                    tensor_t **out)
{
    flatten_attrs_t attrs = {start_dim, end_dim};
    return dispatch_run(ctx, &op_def_flatten, &attrs, 1, &x, NULL, out);
}

status_t op_squeeze(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
{
    return ops_call_ints(ctx, &op_def_squeeze, x, n, dims, out);
}

status_t op_unsqueeze(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
{
    return ops_call_ints(ctx, &op_def_unsqueeze, x, n, dims, out);
}
