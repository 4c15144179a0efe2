/* Pad, Slice and CumSum with pads, bounds, steps or axes that are known only at run time. Pad and
 * Slice gather along each dimension, at indices that the graph computes:
 *
 *   Pad     range(-before, size + after), mapped into x according to the mode
 *   Slice   range(start, end, step), with bounds clamped according to the sign of the step
 *   CumSum  computes the sums along every dimension; the axis selects one of the results */
#include "io/onnx/node_impl.h"
#include "ops/shape/shapes.h"
#include "tensor/tensor_impl.h"

/* Element i of an input, as an s64 tensor of rank 0. */
static status_t take_number(onnx_node_t *node, int input, int64_t i, item_t *out)
{
    const tensor_info_t info = onnx_input_info(node, input);
    item_t x = node->in[input];
    TRY(onnx_check_integers(node, input, "what says sizes"));
    const int64_t n = onnx_numel(node, &info);
    if (info.rank > 1 || (!onnx_is_late(node, n) && i >= sym_pin(node->onnx->ctx, n)))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is %s, %lld numbers are needed",
             input, onnx_brief(node, &info), (long long)i + 1);
    if (info.rank == 1) TRY(onnx_slice(node, x, 0, i, i + 1, 1, &x));
    TRY(onnx_reshape(node, x, 0, NULL, &x));
    return onnx_cast(node, x, DTYPE_S64, out);
}

/* An s64 tensor of rank 0. In operations with it, the usual type promotion of tensors applies,
 * unlike with onnx_integer's numbers. */
static status_t make_number(onnx_node_t *node, int64_t number, item_t *out)
{
    TRY(onnx_vector(node->onnx, NULL, 1, &number, out));
    return onnx_reshape(node, *out, 0, NULL, out);
}

static status_t count_from(onnx_node_t *node, item_t start, item_t end, item_t step, item_t *out)
{
    return onnx_op(node, "range", NULL, 3, (item_t[]){start, end, step}, out);
}

static status_t gather_at(onnx_node_t *node, item_t x, int dim, item_t index, item_t *out)
{
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", dim)), 2, (item_t[]){x, index}, out);
}

static status_t choose(onnx_node_t *node, item_t condition, item_t yes, item_t no, item_t *out)
{
    return onnx_op(node, "where", NULL, 3, (item_t[]){condition, yes, no}, out);
}

/* ---- padding ---- */

/* The pad on one side. A positive pad adds elements. A negative one cuts elements off, before
 * others are added. */
typedef struct edge {
    item_t pad, cut; /* 0 or more; at least one of them is 0 */
} edge_t;

static status_t find_edge(onnx_node_t *node, int64_t at, item_t zero, edge_t *out)
{
    item_t number, cut;
    TRY(take_number(node, 1, at, &number));
    TRY(onnx_binary(node, "maximum", number, zero, &out->pad));
    TRY(onnx_binary(node, "minimum", number, zero, &cut));
    return onnx_unary(node, "neg", cut, &out->cut);
}

/* Maps indices outside of 0 to `kept` - 1, the elements left by cutting, into this range. */
static status_t bring_inside(onnx_node_t *node, int mode, item_t kept, item_t zero, item_t *index)
{
    item_t one, last;
    TRY(make_number(node, 1, &one));
    TRY(onnx_binary(node, "sub", kept, one, &last));
    if (mode == PAD_WRAP) return onnx_binary(node, "remainder", *index, kept, index);
    if (mode == PAD_REFLECT) {
        TRY(onnx_unary(node, "abs", *index, index));
        TRY(onnx_binary(node, "sub", last, *index, index));
        TRY(onnx_unary(node, "abs", *index, index));
        return onnx_binary(node, "sub", last, *index, index);
    }
    TRY(onnx_binary(node, "minimum", *index, last, index));
    return onnx_binary(node, "maximum", *index, zero, index);
}

/* Writes `value` where the index is outside of the elements left by cutting. */
static status_t fill_outside(onnx_node_t *node, int dim, int rank, item_t index, item_t kept,
                             item_t zero, item_t value, item_t *x)
{
    int64_t behind[TENSOR_MAX_RANK];
    item_t outside, after;
    TRY(onnx_binary(node, "lt", index, zero, &outside));
    TRY(onnx_binary(node, "ge", index, kept, &after));
    TRY(onnx_binary(node, "logical_or", outside, after, &outside));
    for (int d = dim + 1; d < rank; d++) behind[d - dim - 1] = d - dim;
    if (dim + 1 < rank) {
        TRY(onnx_op(node, "unsqueeze", ONNX_ATTRS(SET_INTS("dims", rank - dim - 1, behind)), 1,
                    &outside, &outside));
    }
    return choose(node, outside, value, *x, x);
}

status_t onnx_pad_live(onnx_node_t *node, int n, const int64_t *dims, int mode, item_t value)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t out = node->in[0], zero, one;
    TRY(make_number(node, 0, &zero));
    TRY(make_number(node, 1, &one));
    for (int i = 0; i < n; i++) {
        const int dim = (int)dims[i];
        edge_t before, after;
        item_t kept, begin, end, index, inside;
        TRY(find_edge(node, i, zero, &before));
        TRY(find_edge(node, n + i, zero, &after));
        TRY(make_number(node, x.sizes[dim], &kept));
        TRY(onnx_binary(node, "sub", kept, before.cut, &kept));
        TRY(onnx_binary(node, "sub", kept, after.cut, &kept));
        TRY(onnx_unary(node, "neg", before.pad, &begin));
        TRY(onnx_binary(node, "add", kept, after.pad, &end));
        TRY(count_from(node, begin, end, one, &index));
        inside = index;
        TRY(bring_inside(node, mode, kept, zero, &inside));
        TRY(onnx_binary(node, "add", inside, before.cut, &inside));
        TRY(gather_at(node, out, dim, inside, &out));
        if (mode == PAD_CONSTANT)
            TRY(fill_outside(node, dim, x.rank, index, kept, zero, value, &out));
    }
    node->out[0] = out;
    return STATUS_OK;
}

/* ---- slices ---- */

/* Converts a negative bound, which counts from the end, then clamps it. */
static status_t clamp_bound(onnx_node_t *node, item_t size, item_t low, item_t high, item_t *bound)
{
    item_t zero, is_negative, counted;
    TRY(make_number(node, 0, &zero));
    TRY(onnx_binary(node, "lt", *bound, zero, &is_negative));
    TRY(onnx_binary(node, "add", *bound, size, &counted));
    TRY(choose(node, is_negative, counted, *bound, bound));
    TRY(onnx_binary(node, "maximum", *bound, low, bound));
    return onnx_binary(node, "minimum", *bound, high, bound);
}

status_t onnx_slice_live(onnx_node_t *node, int n, const int64_t *dims)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t out = node->in[0], zero;
    TRY(make_number(node, 0, &zero));
    for (int i = 0; i < n; i++) {
        item_t start, end, step, size, is_back, low, high, index;
        TRY(take_number(node, 1, i, &start));
        TRY(take_number(node, 2, i, &end));
        TRY(take_number(node, 4, i, &step));
        TRY(make_number(node, x.sizes[dims[i]], &size));
        /* Bounds are clamped to [-1, size - 1] if the step is negative, else to [0, size]. */
        TRY(onnx_binary(node, "lt", step, zero, &is_back));
        TRY(onnx_cast(node, is_back, DTYPE_S64, &is_back));
        TRY(onnx_unary(node, "neg", is_back, &low));
        TRY(onnx_binary(node, "sub", size, is_back, &high));
        TRY(clamp_bound(node, size, zero, high, &start));
        TRY(clamp_bound(node, size, low, high, &end));
        TRY(count_from(node, start, end, step, &index));
        TRY(gather_at(node, out, (int)dims[i], index, &out));
    }
    node->out[0] = out;
    return STATUS_OK;
}

/* ---- running sums ---- */

status_t onnx_cumsum_live(onnx_node_t *node, bool is_exclusive, bool is_reverse)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t axis, rank, out = ITEM_NONE;
    TRY(take_number(node, 1, 0, &axis));
    TRY(make_number(node, x.rank, &rank));
    TRY(onnx_binary(node, "remainder", axis, rank, &axis));
    for (int d = 0; d < x.rank; d++) {
        item_t sum, number, is_its;
        TRY(onnx_op(
            node, "cumsum",
            ONNX_ATTRS(SET("dim", d), SET("exclusive", is_exclusive), SET("reverse", is_reverse)),
            1, node->in, &sum));
        if (d > 0) {
            TRY(make_number(node, d, &number));
            TRY(onnx_binary(node, "eq", axis, number, &is_its));
            TRY(choose(node, is_its, sum, out, &sum));
        }
        out = sum;
    }
    return onnx_cast(node, out, x.dtype, &node->out[0]);
}
