/* Operators that move elements or only name them anew. */
#include "io/onnx_node_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "tensor/tensor_impl.h"

static status_t fail_rank(onnx_node_t *node, int rank)
{
    FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "rank %d, %d is the most", rank, TENSOR_MAX_RANK);
}

/* ---- joining and splitting ---- */

status_t onnx_import_concat(onnx_node_t *node)
{
    int axis = 0;
    onnx_call_t call;
    TRY(onnx_check_inputs(node, 0, node->n_in));
    if (!onnx_has_attr(node, "axis"))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis is missing");
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    node->out[0] = node->in[0];
    if (node->n_in == 1) return STATUS_OK;
    onnx_call(node, "concat", &call);
    onnx_set_int(&call, "dim", axis);
    return onnx_emit(&call, node->n_in, node->in, &node->out[0]);
}

status_t onnx_check_pieces(onnx_node_t *node, int n, const int64_t *pieces, int64_t size)
{
    context_t *ctx = node->onnx->ctx;
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        if (pieces[i] < 0 || pieces[i] > size - sum)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a piece of %lld, the size is %lld",
                 (long long)pieces[i], (long long)size);
        sum += pieces[i];
    }
    if (sum != size)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "pieces of %lld in sum, the size is %lld",
             (long long)sum, (long long)size);
    return STATUS_OK;
}

/* Sizes of the pieces: given, or alike but for the last. */
static status_t find_pieces(onnx_node_t *node, int64_t size, int64_t *pieces)
{
    context_t *ctx = node->onnx->ctx;
    int n = 0;
    int64_t n_outputs = node->n_out;
    TRY(onnx_ints_since(node, 13, "split", 1, OP_MAX_OUTPUTS, &n, pieces));
    if (node->opset >= 18) TRY(onnx_attr_int(node, "num_outputs", n_outputs, &n_outputs));
    if ((n >= 0 && n != node->n_out) || n_outputs != node->n_out || n_outputs < 1)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld pieces for %d outputs",
             (long long)(n >= 0 ? n : n_outputs), node->n_out);
    if (n < 0) {
        int64_t piece = (size + n_outputs - 1) / n_outputs;
        if (node->opset < 18 && piece * n_outputs != size)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a size of %lld in %d equal pieces", (long long)size,
                 node->n_out);
        for (int i = 0; i < node->n_out; i++) {
            int64_t left = size - i * piece;
            pieces[i] = left < 0 ? 0 : left < piece ? left : piece;
        }
    }
    return onnx_check_pieces(node, node->n_out, pieces, size);
}

status_t onnx_import_split(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t pieces[OP_MAX_OUTPUTS], start = 0;
    int axis = 0;
    onnx_call_t call;
    TRY(onnx_dim(node, "axis", x.rank, 0, &axis));
    if (x.rank == 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank 0");
    TRY(find_pieces(node, x.sizes[axis], pieces));
    if (node->n_out <= TENSOR_MAX_RANK) {
        onnx_call(node, "split", &call);
        onnx_set_int(&call, "dim", axis);
        onnx_set_ints(&call, "sizes", node->n_out, pieces);
        return onnx_emit_n(&call, 1, node->in, node->n_out, node->out);
    }
    for (int i = 0; i < node->n_out; i++) { /* more sizes than an attribute holds */
        TRY(onnx_slice(node, node->in[0], axis, start, start + pieces[i], 1, &node->out[i]));
        start += pieces[i];
    }
    return STATUS_OK;
}

/* ---- reshaping ---- */

/* The shape depends on elements. */
static status_t reshape_by(onnx_node_t *node)
{
    bool allows_zero = false;
    onnx_call_t call;
    TRY(onnx_check_integers(node, 1, "the shape"));
    if (node->opset >= 14) TRY(onnx_attr_bool(node, "allowzero", false, &allows_zero));
    onnx_call(node, "reshape_by", &call);
    onnx_set_int(&call, "copies_zeros", !allows_zero);
    return onnx_emit(&call, 2, node->in, &node->out[0]);
}

/* 0 is the input's size at that place, -1 what is left. A first size taken from the input stays
 * open, so that the graph does not depend on the batch. */
status_t onnx_import_reshape(onnx_node_t *node)
{
    if (!onnx_knows(node, 1)) return reshape_by(node);
    context_t *ctx = node->onnx->ctx;
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t sizes[TENSOR_MAX_RANK], known = 1, numel = info_numel(&x);
    int rank = 0, open = -1;
    bool allows_zero = false, is_batch = false;
    TRY(onnx_input_ints(node, 1, "the shape", TENSOR_MAX_RANK, &rank, sizes));
    if (node->opset >= 14) TRY(onnx_attr_bool(node, "allowzero", false, &allows_zero));
    for (int i = 0; i < rank; i++) {
        if (sizes[i] == 0 && !allows_zero) {
            if (i >= x.rank)
                FAIL(ctx, STATUS_INVALID_ARGUMENT, "size %d is to be the input's, of rank %d", i,
                     x.rank);
            is_batch = is_batch || i == 0;
            sizes[i] = x.sizes[i];
        }
        if (sizes[i] == -1 && open < 0) {
            open = i;
        } else if (!shape_multiply(known, sizes[i], &known)) {
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "size %d is %lld", i, (long long)sizes[i]);
        }
    }
    bool fits = open < 0 ? known == numel : known > 0 && numel % known == 0;
    if (!fits)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld elements into a shape of %lld", (long long)numel,
             (long long)known);
    if (open >= 0) sizes[open] = numel / known;
    if (!node->onnx->is_literal && shape_equal(x.rank, x.sizes, rank, sizes)) {
        node->out[0] = node->in[0];
        return STATUS_OK;
    }
    onnx_call_t call;
    if (is_batch && rank == 2 && open == 1 && x.rank >= 2) {
        onnx_call(node, "flatten", &call);
        onnx_set_int(&call, "start_dim", 1);
        onnx_set_int(&call, "end_dim", -1);
        return onnx_emit(&call, 1, node->in, &node->out[0]);
    }
    if (is_batch && open < 0 && numel > 0) open = 0;
    if (open >= 0) sizes[open] = -1;
    onnx_call(node, "reshape", &call);
    onnx_set_ints(&call, "sizes", rank, sizes);
    return onnx_emit(&call, 1, node->in, &node->out[0]);
}

status_t onnx_import_flatten(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t axis = 1, sizes[2] = {1, 1};
    onnx_call_t call;
    TRY(onnx_attr_int(node, "axis", 1, &axis));
    if (axis < -x.rank || axis > x.rank)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d", (long long)axis,
             x.rank);
    if (axis < 0) axis += x.rank;
    for (int i = 0; i < x.rank; i++) sizes[i < axis ? 0 : 1] *= x.sizes[i];
    if (axis != 1 || x.rank < 2) return onnx_reshape(node, node->in[0], 2, sizes, &node->out[0]);
    if (x.rank == 2) return onnx_import_identity(node);
    onnx_call(node, "flatten", &call);
    onnx_set_int(&call, "start_dim", 1);
    onnx_set_int(&call, "end_dim", -1);
    return onnx_emit(&call, 1, node->in, &node->out[0]);
}

status_t onnx_import_transpose(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t dims[TENSOR_MAX_RANK], sorted[TENSOR_MAX_RANK];
    int n = 0;
    TRY(onnx_attr_ints(node, "perm", TENSOR_MAX_RANK, &n, dims));
    for (int i = 0; i < x.rank && n < 0; i++) dims[i] = x.rank - 1 - i;
    if (n >= 0 && n != x.rank)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "perm has %d numbers, x is of rank %d", n,
             x.rank);
    memcpy(sorted, dims, sizeof sorted);
    TRY(onnx_dims(node, x.rank, x.rank, sorted));
    for (int i = 0; i < x.rank; i++)
        if (dims[i] < 0) dims[i] += x.rank;
    return onnx_permute(node, node->in[0], x.rank, dims, &node->out[0]);
}

static status_t read_axes(onnx_node_t *node, int rank, int *out_n, int64_t *axes)
{
    TRY(onnx_ints_since(node, 13, "axes", 1, TENSOR_MAX_RANK, out_n, axes));
    return *out_n > 0 ? onnx_dims(node, rank, *out_n, axes) : STATUS_OK;
}

status_t onnx_import_squeeze(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t axes[TENSOR_MAX_RANK];
    int n = 0;
    onnx_call_t call;
    TRY(read_axes(node, x.rank, &n, axes));
    for (int i = 0; i < n; i++)
        if (x.sizes[axes[i]] != 1)
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld has size %lld",
                 (long long)axes[i], (long long)x.sizes[axes[i]]);
    if (n < 0) {
        n = 0;
        for (int i = 0; i < x.rank; i++)
            if (x.sizes[i] == 1) axes[n++] = i;
    }
    if (n == 0) return onnx_import_identity(node);
    onnx_call(node, "squeeze", &call);
    onnx_set_ints(&call, "dims", n, axes);
    return onnx_emit(&call, 1, node->in, &node->out[0]);
}

status_t onnx_import_unsqueeze(onnx_node_t *node)
{
    int rank = onnx_input_info(node, 0).rank, n = 0;
    int64_t axes[TENSOR_MAX_RANK];
    onnx_call_t call;
    TRY(onnx_ints_since(node, 13, "axes", 1, TENSOR_MAX_RANK, &n, axes));
    if (n < 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axes are missing");
    if (rank + n > TENSOR_MAX_RANK) return fail_rank(node, rank + n);
    if (n == 0) return onnx_import_identity(node);
    TRY(onnx_dims(node, rank + n, n, axes));
    onnx_call(node, "unsqueeze", &call);
    onnx_set_ints(&call, "dims", n, axes);
    return onnx_emit(&call, 1, node->in, &node->out[0]);
}

/* ---- repeating ---- */

status_t onnx_import_expand(onnx_node_t *node)
{
    if (!onnx_knows(node, 1)) {
        onnx_call_t call;
        TRY(onnx_check_integers(node, 1, "the shape"));
        onnx_call(node, "expand_by", &call);
        return onnx_emit(&call, 2, node->in, &node->out[0]);
    }
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t wanted[TENSOR_MAX_RANK], sizes[TENSOR_MAX_RANK];
    int n = 0, rank = 0;
    TRY(onnx_input_ints(node, 1, "the shape", TENSOR_MAX_RANK, &n, wanted));
    for (int i = 0; i < n; i++)
        if (wanted[i] < 0)
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "size %d is %lld", i,
                 (long long)wanted[i]);
    if (!shape_broadcast(x.rank, x.sizes, n, wanted, &rank, sizes))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x does not broadcast to the shape");
    TRY(shape_check(node->onnx->ctx, "expand", x.dtype, rank, sizes));
    return onnx_expand(node, node->in[0], rank, sizes, &node->out[0]);
}

/* [A][B] becomes [1][A][1][B], is expanded to [r][A][s][B] and read as [rA][sB]; dimensions that
 * stay need no second one. */
status_t onnx_import_tile(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t repeats[TENSOR_MAX_RANK];
    int64_t narrow[2 * TENSOR_MAX_RANK], wide[2 * TENSOR_MAX_RANK], sizes[TENSOR_MAX_RANK];
    int n = 0, rank = 0;
    TRY(onnx_input_ints(node, 1, "repeats", TENSOR_MAX_RANK, &n, repeats));
    if (n != x.rank) FAIL(ctx, STATUS_INVALID_ARGUMENT, "%d repeats, x is of rank %d", n, x.rank);
    for (int i = 0; i < n; i++) {
        if (!shape_multiply(repeats[i], x.sizes[i], &sizes[i]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "repeats %lld", (long long)repeats[i]);
        bool is_repeated = repeats[i] != 1 || node->onnx->is_literal;
        if (is_repeated) narrow[rank] = 1, wide[rank++] = repeats[i];
        narrow[rank] = wide[rank] = x.sizes[i];
        rank++;
    }
    if (rank > TENSOR_MAX_RANK) return fail_rank(node, rank);
    TRY(shape_check(ctx, "tile", x.dtype, n, sizes));
    item_t out;
    TRY(onnx_reshape(node, node->in[0], rank, narrow, &out));
    TRY(onnx_expand(node, out, rank, wide, &out));
    return onnx_reshape(node, out, n, sizes, &node->out[0]);
}

/* ---- taking parts ---- */

typedef struct range {
    int64_t start, end, step;
} range_t;

/* What ONNX says of one axis, as start, end and count of elements inside. */
static int64_t clamp_range(range_t *range, int64_t size)
{
    int64_t lowest = range->step > 0 ? 0 : -1, highest = range->step > 0 ? size : size - 1;
    int64_t *bounds[2] = {&range->start, &range->end};
    for (int i = 0; i < 2; i++) {
        int64_t bound = *bounds[i];
        if (bound < 0) bound = bound < -size ? lowest : bound + size;
        *bounds[i] = bound < lowest ? lowest : bound > highest ? highest : bound;
    }
    int64_t length = range->step > 0 ? range->end - range->start : range->start - range->end;
    if (length <= 0) return 0;
    /* A step of INT64_MIN has no positive counterpart. */
    uint64_t step = range->step > 0 ? (uint64_t)range->step : 0 - (uint64_t)range->step;
    return (int64_t)(((uint64_t)length - 1) / step) + 1;
}

/* Backward steps are no slice of ours: the elements are taken one by one. */
static status_t slice_backward(onnx_node_t *node, item_t x, int dim, const range_t *range,
                               int64_t count, item_t *out)
{
    if (count > ONNX_MAX_VALUES)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%lld elements with a negative step",
             (long long)count);
    int64_t *index = NULL;
    TRY(context_get(node->onnx->ctx, (size_t)count * sizeof *index, "an index", &index));
    for (int64_t i = 0; i < count; i++) index[i] = range->start + i * range->step;
    status_t status = onnx_take(node, x, dim, (int)count, index, out);
    context_put(node->onnx->ctx, index);
    return status;
}

static status_t slice_axis(onnx_node_t *node, item_t x, int dim, range_t range, item_t *out)
{
    int64_t size = onnx_info(node->onnx, x)->sizes[dim];
    if (range.step == 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "a step of 0");
    int64_t count = clamp_range(&range, size);
    if (count == 0) return onnx_slice(node, x, dim, 0, 0, 1, out);
    if (range.step < 0 && count > 1) return slice_backward(node, x, dim, &range, count, out);
    if (count == 1) range.end = range.start + 1, range.step = 1;
    return onnx_slice(node, x, dim, range.start, range.end, range.step, out);
}

/* Bounds that follow sizes, or are of a dimension that does, are clamped by our slice at each size.
 */
static bool is_clamped_later(const onnx_node_t *node, int dim, const range_t *range)
{
    bool has_bounds = node->opset >= 10 && (onnx_follows(node, 1) || onnx_follows(node, 2));
    return range->step > 0 && (has_bounds || onnx_dim_varies(node->onnx, node->in[0], dim));
}

/* Exporters write numbers such as 1000000000 for the end. */
#define ENDLESS (1 << 28)

/* Sizes are not tried so far that such a bound shows what it does. */
static bool is_far(int64_t bound)
{
    return (bound > 3000 && bound < ENDLESS) || (bound < -3000 && bound > -ENDLESS);
}

static status_t slice_later(onnx_node_t *node, item_t x, int dim, const range_t *range, item_t *out)
{
    if (range->start == 0 && range->step == 1 && range->end >= ENDLESS) {
        *out = x;
        return STATUS_OK;
    }
    bool is_given = node->opset < 10 || (!onnx_follows(node, 1) && !onnx_follows(node, 2));
    if (is_given && (is_far(range->start) || is_far(range->end))) node->onnx->is_doubtful = true;
    return onnx_slice(node, x, dim, range->start, range->end, range->step, out);
}

/* Element i of a vector that is an input, or ITEM_NONE for one that is left out. */
static status_t take_bound(onnx_node_t *node, int input, int i, item_t *out)
{
    *out = ITEM_NONE;
    if (!onnx_has(node, input)) return STATUS_OK;
    return onnx_slice(node, node->in[input], 0, i, i + 1, 1, out);
}

/* Bounds depend on elements; dimensions and steps are known. */
static status_t slice_by(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    tensor_info_t x = onnx_input_info(node, 0), starts = onnx_input_info(node, 1);
    int64_t steps[TENSOR_MAX_RANK], axes[TENSOR_MAX_RANK];
    int n_axes = 0, n_steps = 0;
    item_t out = node->in[0];
    TRY(onnx_input_ints(node, 3, "axes", TENSOR_MAX_RANK, &n_axes, axes));
    TRY(onnx_input_ints(node, 4, "steps", TENSOR_MAX_RANK, &n_steps, steps));
    int n = starts.rank == 1 ? (int)starts.sizes[0] : -1;
    if (n < 0 || n > x.rank || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "starts, ends, axes and steps are not equally many");
    for (int i = 0; i < n; i++) {
        item_t in[3] = {out, ITEM_NONE, ITEM_NONE};
        onnx_call_t call;
        TRY(take_bound(node, 1, i, &in[1]));
        TRY(take_bound(node, 2, i, &in[2]));
        onnx_call(node, "slice_by", &call);
        onnx_set_int(&call, "dim", n_axes >= 0 ? axes[i] : i);
        onnx_set_int(&call, "step", n_steps >= 0 ? steps[i] : 1);
        TRY(onnx_emit(&call, 3, in, &out));
    }
    node->out[0] = out;
    return STATUS_OK;
}

static bool has_known_bounds(const onnx_node_t *node)
{
    return node->opset < 10 || (onnx_knows(node, 1) && onnx_knows(node, 2));
}

/* Dimensions become those counted from 0; each may be given once. */
static status_t find_dims(onnx_node_t *node, int rank, int n, int64_t *dims)
{
    bool is_used[TENSOR_MAX_RANK] = {false};
    for (int i = 0; i < n; i++) {
        int dim = 0;
        if (rank == 0 || !shape_dim(rank, dims[i], &dim) || is_used[dim])
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d",
                 (long long)dims[i], rank);
        is_used[dim] = true;
        dims[i] = dim;
    }
    return STATUS_OK;
}

/* The dimensions of a slice: the first n, unless input 3 names them. */
static status_t read_slice_dims(onnx_node_t *node, int rank, int n, int64_t *axes)
{
    int n_axes = -1;
    TRY(onnx_ints_since(node, 10, "axes", 3, TENSOR_MAX_RANK, &n_axes, axes));
    for (int i = 0; i < n && n_axes < 0; i++) axes[i] = i;
    if (n < 0 || n > TENSOR_MAX_RANK || (n_axes >= 0 && n_axes != n))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "starts, ends, axes and steps are not equally many");
    return find_dims(node, rank, n, axes);
}

/* Steps depend on elements; dimensions are known. */
static status_t slice_by_steps(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0), starts = onnx_input_info(node, 1);
    const int64_t n = info_numel(&starts);
    int64_t axes[TENSOR_MAX_RANK];
    TRY(read_slice_dims(node, x.rank, n <= TENSOR_MAX_RANK ? (int)n : -1, axes));
    return onnx_slice_live(node, (int)n, axes);
}

status_t onnx_import_slice(onnx_node_t *node)
{
    if (node->opset >= 10 && onnx_has(node, 4) && !onnx_knows(node, 4)) return slice_by_steps(node);
    if (!has_known_bounds(node)) return slice_by(node);
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t starts[TENSOR_MAX_RANK], ends[TENSOR_MAX_RANK], steps[TENSOR_MAX_RANK];
    int64_t axes[TENSOR_MAX_RANK];
    int n = 0, n_ends = 0, n_steps = -1;
    TRY(onnx_ints_since(node, 10, "starts", 1, TENSOR_MAX_RANK, &n, starts));
    TRY(onnx_ints_since(node, 10, "ends", 2, TENSOR_MAX_RANK, &n_ends, ends));
    if (node->opset >= 10) TRY(onnx_input_ints(node, 4, "steps", TENSOR_MAX_RANK, &n_steps, steps));
    TRY(read_slice_dims(node, x.rank, n_ends == n && (n_steps < 0 || n_steps == n) ? n : -1, axes));
    item_t out = node->in[0];
    for (int i = 0; i < n; i++) {
        const int dim = (int)axes[i];
        range_t range = {starts[i], ends[i], n_steps >= 0 ? steps[i] : 1};
        TRY(is_clamped_later(node, dim, &range) ? slice_later(node, out, dim, &range, &out)
                                                : slice_axis(node, out, dim, range, &out));
    }
    node->out[0] = out;
    return STATUS_OK;
}

status_t onnx_import_gather(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int axis = 0;
    onnx_call_t call;
    TRY(onnx_dim(node, "axis", x.rank, 0, &axis));
    if (x.rank == 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank 0");
    onnx_call(node, "gather", &call);
    onnx_set_int(&call, "dim", axis);
    return onnx_emit(&call, 2, node->in, &node->out[0]);
}

/* ---- padding ---- */

static bool is_small(int64_t pad)
{
    return pad >= -INT32_MAX && pad <= INT32_MAX;
}

/* The dimensions that are padded: all, unless opset 18 names them. */
static status_t read_padded(onnx_node_t *node, int rank, int *out_n, int64_t *dims)
{
    int n = -1;
    if (node->opset >= 18) TRY(onnx_input_ints(node, 3, "axes", TENSOR_MAX_RANK, &n, dims));
    for (int i = 0; i < rank && n < 0; i++) dims[i] = i;
    *out_n = n >= 0 ? n : rank;
    return n > 0 ? find_dims(node, rank, n, dims) : STATUS_OK;
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
    onnx_call_t call;
    onnx_call(node, "pad", &call);
    onnx_set_ints(&call, "before", rank, padding->before);
    onnx_set_ints(&call, "after", rank, padding->after);
    onnx_set_int(&call, "mode", padding->mode);
    onnx_set_float(&call, "value", value);
    return onnx_emit(&call, 1, &x, out);
}

/* The value that pads, as an item of x's dtype and of rank 0. */
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

/* A value that the run gives, or that is no double (an integer beyond 2^53), is put where a mask
 * that is padded likewise says that x is not. */
static status_t pad_by_mask(onnx_node_t *node, const padding_t *padding)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    item_t value = 0, mask = 0, padded = 0;
    onnx_call_t call;
    TRY(find_value(node, &value));
    TRY(onnx_vector(node->onnx, NULL, 1, &(int64_t){1}, &mask));
    TRY(onnx_cast(node, mask, DTYPE_BOOL, &mask));
    TRY(onnx_reshape(node, mask, 0, NULL, &mask));
    TRY(onnx_expand(node, mask, x.rank, x.sizes, &mask));
    TRY(pad_by(node, padding, 0.0, mask, &mask));
    TRY(pad_by(node, padding, 0.0, node->in[0], &padded));
    onnx_call(node, "where", &call);
    return onnx_emit(&call, 3, (item_t[]){mask, padded, value}, &node->out[0]);
}

/* Whether `value` is all that there is to know about the value. */
static status_t read_value(onnx_node_t *node, double *out_value, bool *out_is_exact)
{
    int n = 0;
    int64_t integer = 0;
    *out_value = 0.0;
    *out_is_exact = true;
    if (node->opset < 11) return onnx_attr_float(node, "value", 0.0, out_value);
    if (onnx_has(node, 2) && !onnx_knows(node, 2)) {
        *out_is_exact = false;
        return STATUS_OK;
    }
    TRY(onnx_input_floats(node, 2, "the value", 1, &n, out_value));
    if (!onnx_has(node, 2) || dtype_is_floating(onnx_input_info(node, 2).dtype)) return STATUS_OK;
    TRY(onnx_input_ints(node, 2, "the value", 1, &n, &integer));
    const bool is_wrapped = onnx_input_info(node, 2).dtype == DTYPE_U64 && integer < 0;
    *out_is_exact = !is_wrapped && integer >= -((int64_t)1 << 53) && integer <= (int64_t)1 << 53;
    return STATUS_OK;
}

status_t onnx_import_pad(onnx_node_t *node)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap",
                                        NULL}; /* as pad_mode_t */
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
    bool is_needed = node->onnx->is_literal;
    for (int i = 0; i < rank; i++)
        is_needed = is_needed || padding.before[i] != 0 || padding.after[i] != 0;
    if (!is_needed) return onnx_import_identity(node);
    if (!is_exact && padding.mode == PAD_CONSTANT) return pad_by_mask(node, &padding);
    return pad_by(node, &padding, value, node->in[0], &node->out[0]);
}

/* ---- cropping and padding around the middle ---- */

/* The odd element goes behind. */
static status_t crop_or_pad(onnx_node_t *node, int dim, int64_t wanted, item_t *x)
{
    const tensor_info_t info = *onnx_info(node->onnx, *x);
    const int64_t size = info.sizes[dim], more = wanted - size;
    int64_t before[TENSOR_MAX_RANK] = {0}, after[TENSOR_MAX_RANK] = {0};
    onnx_call_t call;
    if (wanted < 0 || !is_small(wanted))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "a size of %lld is asked for",
             (long long)wanted);
    if (more == 0 && !node->onnx->is_literal) return STATUS_OK;
    if (more <= 0) return onnx_slice(node, *x, dim, -more / 2, -more / 2 + wanted, 1, x);
    before[dim] = more / 2;
    after[dim] = more - more / 2;
    onnx_call(node, "pad", &call);
    onnx_set_ints(&call, "before", info.rank, before);
    onnx_set_ints(&call, "after", info.rank, after);
    return onnx_emit(&call, 1, x, x);
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
    TRY(find_dims(node, rank, n, axes));
    node->out[0] = node->in[0];
    for (int i = 0; i < n; i++) TRY(crop_or_pad(node, (int)axes[i], wanted[i], &node->out[0]));
    return STATUS_OK;
}

/* ---- depth and space ---- */

static status_t read_block(onnx_node_t *node, int64_t *out_block)
{
    TRY(onnx_attr_int(node, "blocksize", 0, out_block));
    int rank = onnx_input_info(node, 0).rank;
    if (rank != 4) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank %d, not 4", rank);
    if (*out_block < 1 || *out_block > 4096)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "blocksize %lld", (long long)*out_block);
    return STATUS_OK;
}

static status_t shuffle(onnx_node_t *node, const int64_t *apart, const int64_t *order,
                        const int64_t *together)
{
    item_t out = node->in[0];
    TRY(onnx_reshape(node, out, 6, apart, &out));
    TRY(onnx_permute(node, out, 6, order, &out));
    return onnx_reshape(node, out, 4, together, &node->out[0]);
}

status_t onnx_import_depth_to_space(onnx_node_t *node)
{
    static const char *const modes[] = {"DCR", "CRD", NULL};
    int64_t b = 0;
    int mode = 0;
    TRY(read_block(node, &b));
    TRY(onnx_attr_name(node, "mode", modes, 0, &mode));
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t n = x.sizes[0], c = x.sizes[1] / (b * b), h = x.sizes[2], w = x.sizes[3];
    if (c * b * b != x.sizes[1])
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%lld channels and blocksize %lld",
             (long long)x.sizes[1], (long long)b);
    const int64_t together[4] = {n, c, h * b, w * b};
    if (mode == 0)
        return shuffle(node, (int64_t[]){n, b, b, c, h, w}, (int64_t[]){0, 3, 4, 1, 5, 2},
                       together);
    return shuffle(node, (int64_t[]){n, c, b, b, h, w}, (int64_t[]){0, 1, 4, 2, 5, 3}, together);
}

status_t onnx_import_space_to_depth(onnx_node_t *node)
{
    int64_t b = 0;
    TRY(read_block(node, &b));
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t n = x.sizes[0], c = x.sizes[1], h = x.sizes[2] / b, w = x.sizes[3] / b;
    if (h * b != x.sizes[2] || w * b != x.sizes[3])
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%lld by %lld and blocksize %lld",
             (long long)x.sizes[2], (long long)x.sizes[3], (long long)b);
    return shuffle(node, (int64_t[]){n, c, h, b, w, b}, (int64_t[]){0, 3, 5, 1, 2, 4},
                   (int64_t[]){n, c * b * b, h, w});
}

#endif
