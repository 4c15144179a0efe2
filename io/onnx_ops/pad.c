/* Padding, and cropping or padding around the centre. */
#include "io/onnx/node_impl.h"
#include "ops/shape/shapes.h"

/* ---- padding ---- */

/* True if sums of such numbers cannot overflow. Symbolic numbers have their own overflow check. */
static bool is_small(int64_t pad)
{
    return sym_is(pad) || (pad >= -INT32_MAX && pad <= INT32_MAX);
}

/* The padded dimensions: all, or (since opset 18) those in input 3 if it is present. */
static status_t read_padded(onnx_node_t *node, int rank, int *out_n, int64_t *dims)
{
    int n = -1;
    if (node->opset >= 18) TRY(onnx_input_numbers(node, 3, "axes", TENSOR_MAX_RANK, &n, dims));
    for (int i = 0; i < rank && n < 0; i++) dims[i] = i;
    *out_n = n >= 0 ? n : rank;
    return n > 0 ? onnx_dims_in_order(node, rank, n, dims) : STATUS_OK;
}

static status_t read_pads(onnx_node_t *node, int n_dims, const int64_t *dims, int64_t *before,
                          int64_t *after)
{
    context_t *ctx = node->onnx->ctx;
    int64_t pads[2 * TENSOR_MAX_RANK] = {0};
    int n = 0;
    TRY(onnx_ints_since(node, 11, "pads", 1, 2 * TENSOR_MAX_RANK, &n, pads));
    if (n != 2 * n_dims) FAIL(ctx, STATUS_INVALID_ARGUMENT, "%d pads for %d dimensions", n, n_dims);
    for (int i = 0; i < n_dims; i++) {
        const int dim = (int)dims[i];
        before[dim] = pads[i];
        after[dim] = pads[n_dims + i];
        if (!is_small(before[dim]) || !is_small(after[dim]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "pads of %lld and %lld", (long long)before[dim],
                 (long long)after[dim]);
    }
    return STATUS_OK;
}

typedef struct padding {
    int mode; /* pad_mode_t */
    int64_t before[TENSOR_MAX_RANK], after[TENSOR_MAX_RANK];
} padding_t;

static status_t pad_by(onnx_node_t *node, const padding_t *padding, double value, item_t x,
                       item_t *out)
{
    const int rank = onnx_info(node->onnx, x)->rank;
    return onnx_op(node, "pad",
                   ONNX_ATTRS(SET_INTS("before", rank, padding->before),
                              SET_INTS("after", rank, padding->after), SET("mode", padding->mode),
                              SET_FLOAT("value", value)),
                   1, &x, out);
}

/* The padding value, as a tensor of rank 0 in x's dtype. */
static status_t find_value(onnx_node_t *node, item_t *out)
{
    const dtype_t dtype = onnx_input_info(node, 0).dtype;
    item_t value = 0;
    if (onnx_has(node, 2))
        value = node->in[2];
    else
        TRY(onnx_vector(node->onnx, NULL, 1, &(int64_t){0}, &value));
    TRY(onnx_reshape(node, value, 0, NULL, &value));
    return onnx_cast(node, value, dtype, out);
}

/* Pads x with zeros, and a mask of true with false; then writes the value where the padded mask is
 * false. This is used for a value that is known only at run time, or that no double represents (an
 * integer above 2^53). */
static status_t pad_by_mask(onnx_node_t *node, const padding_t *padding)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t value = 0, mask = 0, padded = 0;
    TRY(find_value(node, &value));
    TRY(onnx_vector(node->onnx, NULL, 1, &(int64_t){1}, &mask));
    TRY(onnx_cast(node, mask, DTYPE_BOOL, &mask));
    TRY(onnx_reshape(node, mask, 0, NULL, &mask));
    TRY(onnx_expand(node, mask, x.rank, x.sizes, &mask));
    TRY(pad_by(node, padding, 0.0, mask, &mask));
    TRY(pad_by(node, padding, 0.0, node->in[0], &padded));
    return onnx_op(node, "where", NULL, 3, (item_t[]){mask, padded, value}, &node->out[0]);
}

/* Reads the value as a double. *out_is_exact: the value is known, and a double represents it. */
static status_t read_value(onnx_node_t *node, double *out_value, bool *out_is_exact)
{
    int n = 0;
    int64_t integer = 0;
    *out_value = 0.0;
    *out_is_exact = true;
    if (node->opset < 11) return onnx_attr_float(node, "value", 0.0, out_value);
    if (onnx_has(node, 2) && !onnx_is_number(node, 2)) {
        *out_is_exact = false;
        return STATUS_OK;
    }
    TRY(onnx_input_floats(node, 2, "the value", 1, &n, out_value));
    if (!onnx_has(node, 2) || dtype_is_floating(onnx_input_info(node, 2).dtype)) return STATUS_OK;
    TRY(onnx_input_numbers(node, 2, "the value", 1, &n, &integer));
    const bool is_wrapped = onnx_input_info(node, 2).dtype == DTYPE_U64 && integer < 0;
    *out_is_exact = !is_wrapped && integer >= -((int64_t)1 << 53) && integer <= (int64_t)1 << 53;
    return STATUS_OK;
}

status_t onnx_import_pad(onnx_node_t *node)
{
    /* as pad_mode_t */
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap", NULL};
    const int rank = onnx_input_info(node, 0).rank;
    padding_t padding = {0};
    int64_t dims[TENSOR_MAX_RANK];
    int n_dims = 0;
    double value = 0;
    bool is_exact = true;
    TRY(onnx_attr_name(node, "mode", modes, 0, &padding.mode));
    TRY(read_padded(node, rank, &n_dims, dims));
    if (node->opset >= 11 && !onnx_knows(node, 1)) {
        item_t number;
        TRY(find_value(node, &number));
        return onnx_pad_live(node, n_dims, dims, padding.mode, number);
    }
    TRY(read_pads(node, n_dims, dims, padding.before, padding.after));
    TRY(read_value(node, &value, &is_exact));
    bool is_needed = false;
    for (int i = 0; i < rank; i++)
        is_needed = is_needed || padding.before[i] != 0 || padding.after[i] != 0;
    if (!is_needed) return onnx_import_identity(node);
    if (!is_exact && padding.mode == PAD_CONSTANT) return pad_by_mask(node, &padding);
    return pad_by(node, &padding, value, node->in[0], &node->out[0]);
}

/* ---- cropping and padding around the centre ---- */

/* If the difference is odd, the end gets one more element. If a size is symbolic, emits both
 * cropping and padding; at run time one of them has no effect. */
static status_t crop_or_pad(onnx_node_t *node, int dim, int64_t wanted, item_t *x)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t info = *onnx_info(node->onnx, *x);
    const int64_t size = info.sizes[dim];
    int64_t before[TENSOR_MAX_RANK] = {0}, after[TENSOR_MAX_RANK] = {0};
    if (sym_less(ctx, wanted, 0) || !is_small(wanted))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "a size of %lld is asked for",
             (long long)sym_hint(ctx, wanted));
    const int64_t more = sym_subtract(ctx, wanted, size), n_added = sym_max(ctx, more, 0);
    const int64_t n_cut = sym_max(ctx, sym_subtract(ctx, size, wanted), 0);
    const int64_t start = sym_divide(ctx, n_cut, 2);
    if (!sym_knows_equal(ctx, n_cut, 0))
        TRY(onnx_slice(node, *x, dim, start, sym_add(ctx, start, sym_min(ctx, wanted, size)), 1,
                       x));
    if (sym_knows_equal(ctx, n_added, 0)) return STATUS_OK;
    before[dim] = sym_divide(ctx, n_added, 2);
    after[dim] = sym_subtract(ctx, n_added, before[dim]);
    return onnx_op(
        node, "pad",
        ONNX_ATTRS(SET_INTS("before", info.rank, before), SET_INTS("after", info.rank, after)), 1,
        x, x);
}

status_t onnx_import_center_crop_pad(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    const int rank = onnx_input_info(node, 0).rank;
    int64_t wanted[TENSOR_MAX_RANK], axes[TENSOR_MAX_RANK];
    int n = 0, n_axes = 0;
    TRY(onnx_attr_ints(node, "axes", TENSOR_MAX_RANK, &n_axes, axes));
    TRY(onnx_input_ints(node, 1, "the shape", TENSOR_MAX_RANK, &n, wanted));
    if (n != (n_axes >= 0 ? n_axes : rank))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%d sizes for %d dimensions", n,
             n_axes >= 0 ? n_axes : rank);
    for (int i = 0; i < n && n_axes < 0; i++) axes[i] = i;
    TRY(onnx_dims_in_order(node, rank, n, axes));
    node->out[0] = node->in[0];
    for (int i = 0; i < n; i++) TRY(crop_or_pad(node, (int)axes[i], wanted[i], &node->out[0]));
    return STATUS_OK;
}
