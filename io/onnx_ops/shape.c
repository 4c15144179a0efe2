/* Operators that move elements or change shapes. */
#include "io/onnx/node_impl.h"

#include <string.h>

#include "tensor/tensor_impl.h"

static status_t fail_rank(onnx_node_t *node, int rank)
{
    FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "rank %d, must be at most %d", rank, TENSOR_MAX_RANK);
}

/* ---- joining and splitting ---- */

status_t onnx_import_concat(onnx_node_t *node)
{
    int axis = 0;
    TRY(onnx_check_inputs(node, 0, node->n_in));
    if (!onnx_has_attr(node, "axis"))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis is missing");
    TRY(onnx_dim(node, "axis", onnx_input_info(node, 0).rank, 0, &axis));
    node->out[0] = node->in[0];
    if (node->n_in == 1) return STATUS_OK;
    return onnx_op(node, "concat", ONNX_ATTRS(SET("dim", axis)), node->n_in, node->in,
                   &node->out[0]);
}

status_t onnx_check_pieces(onnx_node_t *node, int n, const int64_t *pieces, int64_t size)
{
    context_t *ctx = node->onnx->ctx;
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        const int64_t left = sym_subtract(ctx, size, sum);
        const bool is_too_large = !sym_is(left) && !sym_is(pieces[i]) && pieces[i] > left;
        if (sym_less(ctx, pieces[i], 0) || is_too_large)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a piece of %lld, the size is %lld",
                 (long long)sym_hint(ctx, pieces[i]), (long long)sym_hint(ctx, size));
        sum = sym_add(ctx, sum, pieces[i]);
    }
    if (!sym_equal(ctx, sum, size))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "pieces of %lld in sum, the size is %lld",
             (long long)sym_hint(ctx, sum), (long long)sym_hint(ctx, size));
    return STATUS_OK;
}

/* n pieces of ceil(size / n) elements; the last pieces have what remains. */
static void cut_evenly(context_t *ctx, int n, int64_t size, int64_t *pieces)
{
    const int64_t piece = sym_divide_up(ctx, size, n);
    const bool is_even = sym_knows_equal(ctx, sym_multiply(ctx, piece, n), size);
    int64_t left = size;
    for (int i = 0; i < n; i++) {
        pieces[i] = i == n - 1 ? left : sym_min(ctx, left, piece);
        if (i == 0 || is_even) pieces[i] = piece;
        left = sym_subtract(ctx, left, pieces[i]);
    }
}

/* The pieces' sizes: given by the node, or equal except for the last ones. */
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
    if (n >= 0) return onnx_check_pieces(node, node->n_out, pieces, size);
    if (node->opset < 18 && !sym_divides(ctx, n_outputs, size))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "a size of %lld in %d equal pieces",
             (long long)sym_hint(ctx, size), node->n_out);
    cut_evenly(ctx, node->n_out, size, pieces);
    return STATUS_OK;
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
    for (int i = 0; i < node->n_out; i++) { /* op_split's attribute cannot hold so many sizes */
        const int64_t end = sym_add(node->onnx->ctx, start, pieces[i]);
        TRY(onnx_slice(node, node->in[0], axis, start, end, 1, &node->out[i]));
        start = end;
    }
    return STATUS_OK;
}

/* ---- reshaping ---- */

/* Reshapes to a shape that is known only at run time. */
static status_t reshape_by(onnx_node_t *node)
{
    bool allows_zero = false;
    TRY(onnx_check_integers(node, 1, "the shape"));
    if (node->opset >= 14) TRY(onnx_attr_bool(node, "allowzero", false, &allows_zero));
    return onnx_op(node, "reshape_by", ONNX_ATTRS(SET("copies_zeros", !allows_zero)), 2, node->in,
                   &node->out[0]);
}

/* Replaces sizes of 0 by those of x. *out_open is the index of the size that is -1, or -1 if there
 * is none; *out_known is the product of the other sizes. */
static status_t read_wanted(onnx_node_t *node, const tensor_info_t *x, int rank, int64_t *sizes,
                            int *out_open, int64_t *out_known)
{
    context_t *ctx = node->onnx->ctx;
    bool allows_zero = false;
    *out_open = -1;
    *out_known = 1;
    if (node->opset >= 14) TRY(onnx_attr_bool(node, "allowzero", false, &allows_zero));
    for (int i = 0; i < rank; i++) {
        const bool is_kept = i < x->rank && sym_knows_equal(ctx, sizes[i], x->sizes[i]);
        if (!allows_zero && !is_kept && sym_equal(ctx, sizes[i], 0)) {
            if (i >= x->rank)
                FAIL(ctx, STATUS_INVALID_ARGUMENT, "size %d is to be the input's, of rank %d", i,
                     x->rank);
            sizes[i] = x->sizes[i];
        }
        if (*out_open < 0 && sym_equal(ctx, sizes[i], -1)) {
            *out_open = i;
        } else if (!onnx_multiply(node, *out_known, sizes[i], out_known)) {
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "size %d is %lld", i,
                 (long long)sym_hint(ctx, sizes[i]));
        }
    }
    return STATUS_OK;
}

/* Computes the size that was -1, from the number of elements. */
static status_t find_open(onnx_node_t *node, const tensor_info_t *x, int rank, int64_t *sizes,
                          int open, int64_t known)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t numel = onnx_numel(node, x);
    const bool is_late = onnx_is_late(node, numel) || onnx_is_late(node, known);
    const bool fits = is_late ||
                      (open < 0 ? sym_equal(ctx, known, numel)
                                : sym_less(ctx, 0, known) && sym_divides(ctx, known, numel));
    if (!fits)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld elements into a shape of %lld",
             (long long)sym_hint(ctx, numel), (long long)sym_hint(ctx, known));
    if (open < 0) return STATUS_OK;
    sizes[open] = 1;
    sizes[open] = onnx_quotient(node, x->rank, x->sizes, rank, sizes);
    return STATUS_OK;
}

/* A size of 0 means the size of x at that index, -1 means what remains. If the first size is 0, the
 * batch size stays variable in the graph. */
status_t onnx_import_reshape(onnx_node_t *node)
{
    if (!onnx_knows(node, 1)) return reshape_by(node);
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t sizes[TENSOR_MAX_RANK], known = 1;
    int rank = 0, open = -1;
    TRY(onnx_input_ints(node, 1, "the shape", TENSOR_MAX_RANK, &rank, sizes));
    const bool is_batch = rank > 0 && sizes[0] == 0 && x.rank > 0;
    TRY(read_wanted(node, &x, rank, sizes, &open, &known));
    TRY(find_open(node, &x, rank, sizes, open, known));
    if (shape_equal(x.rank, x.sizes, rank, sizes)) {
        node->out[0] = node->in[0];
        return STATUS_OK;
    }
    if (is_batch && rank == 2 && open == 1 && x.rank >= 2) {
        return onnx_op(node, "flatten", ONNX_ATTRS(SET("start_dim", 1), SET("end_dim", -1)), 1,
                       node->in, &node->out[0]);
    }
    bool is_plain = is_batch && open < 0;
    for (int i = 1; i < rank; i++) is_plain = is_plain && !sym_is(sizes[i]);
    if (is_plain && sym_knows_less(node->onnx->ctx, 0, known)) open = 0;
    if (open >= 0) sizes[open] = -1;
    return onnx_op(node, "reshape", ONNX_ATTRS(SET_INTS("sizes", rank, sizes)), 1, node->in,
                   &node->out[0]);
}

status_t onnx_import_flatten(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t axis = 1, sizes[2] = {1, 1};
    TRY(onnx_attr_int(node, "axis", 1, &axis));
    if (axis < -x.rank || axis > x.rank)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d", (long long)axis,
             x.rank);
    if (axis < 0) axis += x.rank;
    sizes[0] = onnx_product(node, (int)axis, x.sizes);
    sizes[1] = onnx_product(node, x.rank - (int)axis, &x.sizes[axis]);
    if (axis != 1 || x.rank < 2) return onnx_reshape(node, node->in[0], 2, sizes, &node->out[0]);
    if (x.rank == 2) return onnx_import_identity(node);
    return onnx_op(node, "flatten", ONNX_ATTRS(SET("start_dim", 1), SET("end_dim", -1)), 1,
                   node->in, &node->out[0]);
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
    TRY(onnx_numbers_since(node, 13, "axes", 1, TENSOR_MAX_RANK, out_n, axes));
    return *out_n > 0 ? onnx_dims(node, rank, *out_n, axes) : STATUS_OK;
}

status_t onnx_import_squeeze(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t axes[TENSOR_MAX_RANK];
    int n = 0;
    TRY(read_axes(node, x.rank, &n, axes));
    for (int i = 0; i < n; i++)
        if (!sym_equal(ctx, x.sizes[axes[i]], 1))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "axis %lld has size %lld", (long long)axes[i],
                 (long long)sym_hint(ctx, x.sizes[axes[i]]));
    if (n < 0) {
        n = 0;
        for (int i = 0; i < x.rank; i++)
            if (sym_equal(ctx, x.sizes[i], 1)) axes[n++] = i;
    }
    if (n == 0) return onnx_import_identity(node);
    return onnx_op(node, "squeeze", ONNX_ATTRS(SET_INTS("dims", n, axes)), 1, node->in,
                   &node->out[0]);
}

status_t onnx_import_unsqueeze(onnx_node_t *node)
{
    int rank = onnx_input_info(node, 0).rank, n = 0;
    int64_t axes[TENSOR_MAX_RANK];
    TRY(onnx_numbers_since(node, 13, "axes", 1, TENSOR_MAX_RANK, &n, axes));
    if (n < 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axes are missing");
    if (rank + n > TENSOR_MAX_RANK) return fail_rank(node, rank + n);
    if (n == 0) return onnx_import_identity(node);
    TRY(onnx_dims(node, rank + n, n, axes));
    return onnx_op(node, "unsqueeze", ONNX_ATTRS(SET_INTS("dims", n, axes)), 1, node->in,
                   &node->out[0]);
}

/* ---- repeating ---- */

status_t onnx_import_expand(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int64_t wanted[TENSOR_MAX_RANK], sizes[TENSOR_MAX_RANK];
    int n = 0, rank = 0;
    const bool is_known = onnx_knows(node, 1);
    if (is_known) TRY(onnx_input_ints(node, 1, "the shape", TENSOR_MAX_RANK, &n, wanted));
    if (!is_known || onnx_are_late(node, node->in[0], n, wanted)) {
        TRY(onnx_check_integers(node, 1, "the shape"));
        return onnx_op(node, "expand_by", NULL, 2, node->in, &node->out[0]);
    }
    for (int i = 0; i < n; i++)
        if (sym_less(node->onnx->ctx, wanted[i], 0))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "size %d is %lld", i,
                 (long long)sym_hint(node->onnx->ctx, wanted[i]));
    if (!onnx_broadcast(node, x.rank, x.sizes, n, wanted, &rank, sizes))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x does not broadcast to the shape");
    TRY(onnx_check_shape(node, "expand", x.dtype, rank, sizes));
    return onnx_expand(node, node->in[0], rank, sizes, &node->out[0]);
}

/* Reshapes [A][B] to [1][A][1][B], expands that to [r][A][s][B], and reshapes to [rA][sB]. A
 * dimension that is not repeated gets no extra dimension. */
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
        if (!onnx_multiply(node, repeats[i], x.sizes[i], &sizes[i]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "repeats %lld",
                 (long long)sym_hint(ctx, repeats[i]));
        bool is_repeated = !sym_knows_equal(ctx, repeats[i], 1);
        if (is_repeated) narrow[rank] = 1, wide[rank++] = repeats[i];
        narrow[rank] = wide[rank] = x.sizes[i];
        rank++;
    }
    if (rank > TENSOR_MAX_RANK) return fail_rank(node, rank);
    TRY(onnx_check_shape(node, "tile", x.dtype, n, sizes));
    item_t out;
    TRY(onnx_reshape(node, node->in[0], rank, narrow, &out));
    TRY(onnx_expand(node, out, rank, wide, &out));
    return onnx_reshape(node, out, n, sizes, &node->out[0]);
}

/* ---- taking parts ---- */

/* Bounds from here on may mean the end: exporters write numbers such as 1000000000. */
#define ENDLESS (1 << 28)

typedef struct range {
    int64_t start, end, step;
} range_t;

/* Clamps start and end to a size, as ONNX specifies. Returns the number of selected elements. */
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
    /* Unsigned, because -INT64_MIN overflows. */
    uint64_t step = range->step > 0 ? (uint64_t)range->step : 0 - (uint64_t)range->step;
    return (int64_t)(((uint64_t)length - 1) / step) + 1;
}

/* op_slice does not support negative steps, so the elements are gathered with an index. */
static status_t slice_backward(onnx_node_t *node, item_t x, int dim, const range_t *range,
                               int64_t count, item_t *out)
{
    if (count > ONNX_MAX_VALUES)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%lld elements with a negative step",
             (long long)count);
    int64_t *index = NULL;
    TRY(context_get(node->onnx->ctx, (size_t)count * sizeof *index, "an index", &index));
    for (int64_t i = 0; i < count; i++) index[i] = range->start + i * range->step;
    FINISH(onnx_take(node, x, dim, (int)count, index, out), context_put(node->onnx->ctx, index));
}

/* True if a bound exceeds all possible sizes. It then means the first or the last element. */
static bool is_endless(context_t *ctx, int64_t size, int64_t bound)
{
    const int64_t largest = INT64_C(1) << 48; /* sums stay below INT64_MAX */
    if (sym_is(bound) || (bound < ENDLESS && bound > -ENDLESS)) return false;
    const int64_t distance = bound < 0 ? -bound : bound;
    return sym_at_most(ctx, size, distance < largest ? distance : largest);
}

/* Converts a backward slice's bound to a bound of a forward slice of flipped x: -1 becomes 0. */
static int64_t flip_bound(context_t *ctx, int64_t size, int64_t bound)
{
    if (is_endless(ctx, size, bound)) return bound < 0 ? size : 0;
    const int64_t from_end = sym_subtract(ctx, -1, bound);
    if (sym_less(ctx, bound, 0)) return from_end;
    return sym_max(ctx, sym_add(ctx, size, from_end), 0);
}

/* Backward slices with symbolic sizes or bounds: flips x, then slices forward. */
static status_t slice_flipped(onnx_node_t *node, item_t x, int dim, const range_t *range,
                              item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t size = onnx_info(node->onnx, x)->sizes[dim], dims[] = {dim};
    const int64_t start = flip_bound(ctx, size, range->start);
    const int64_t end = flip_bound(ctx, size, range->end);
    const int64_t step = range->step > -INT64_MAX ? -range->step : INT64_MAX;
    TRY(onnx_op(node, "flip", ONNX_ATTRS(SET_INTS("dims", 1, dims)), 1, &x, out));
    return onnx_slice(node, *out, dim, start, end, step, out);
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

static bool is_symbolic(const onnx_node_t *node, item_t x, int dim, const range_t *range)
{
    return sym_is(onnx_info(node->onnx, x)->sizes[dim]) || sym_is(range->start) ||
           sym_is(range->end);
}

/* Replaces a bound that exceeds all possible sizes by the beginning or the end. */
static int64_t bound_of(context_t *ctx, int64_t size, int64_t bound)
{
    if (sym_is(bound) || (bound < ENDLESS && bound > -ENDLESS)) return bound;
    if (!sym_at_most(ctx, size, bound < 0 ? -bound : bound)) return bound;
    return bound < 0 ? 0 : size;
}

/* Slices with symbolic sizes or bounds. op_slice clamps the bounds at run time. */
static status_t slice_symbolic(onnx_node_t *node, item_t x, int dim, const range_t *range,
                               item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t size = onnx_info(node->onnx, x)->sizes[dim];
    if (range->step == 0) FAIL(ctx, STATUS_INVALID_ARGUMENT, "a step of 0");
    if (range->step < 0) return slice_flipped(node, x, dim, range, out);
    return onnx_slice(node, x, dim, bound_of(ctx, size, range->start),
                      bound_of(ctx, size, range->end), range->step, out);
}

/* Element i of a vector input; ITEM_NONE if the input is absent. */
static status_t take_bound(onnx_node_t *node, int input, int i, item_t *out)
{
    *out = ITEM_NONE;
    if (!onnx_has(node, input)) return STATUS_OK;
    return onnx_slice(node, node->in[input], 0, i, i + 1, 1, out);
}

/* Slices by bounds that are known only at run time; dimensions and steps are known. */
static status_t slice_by(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    tensor_info_t x = onnx_input_info(node, 0), starts = onnx_input_info(node, 1);
    int64_t steps[TENSOR_MAX_RANK], axes[TENSOR_MAX_RANK];
    int n_axes = 0, n_steps = 0;
    item_t out = node->in[0];
    TRY(onnx_input_numbers(node, 3, "axes", TENSOR_MAX_RANK, &n_axes, axes));
    TRY(onnx_input_numbers(node, 4, "steps", TENSOR_MAX_RANK, &n_steps, steps));
    const bool is_late = starts.rank == 1 && onnx_is_late(node, starts.sizes[0]) && n_axes >= 0;
    int n = is_late ? n_axes : starts.rank == 1 ? (int)sym_pin(ctx, starts.sizes[0]) : -1;
    if (n < 0 || n > x.rank || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "starts, ends, axes and steps are not equally many");
    for (int i = 0; i < n; i++) {
        item_t in[3] = {out, ITEM_NONE, ITEM_NONE};
        TRY(take_bound(node, 1, i, &in[1]));
        TRY(take_bound(node, 2, i, &in[2]));
        TRY(onnx_op(node, "slice_by",
                    ONNX_ATTRS(SET("dim", n_axes >= 0 ? axes[i] : i),
                               SET("step", n_steps >= 0 ? steps[i] : 1)),
                    3, in, &out));
    }
    node->out[0] = out;
    return STATUS_OK;
}

static bool has_known_bounds(const onnx_node_t *node)
{
    return node->opset < 10 || (onnx_knows(node, 1) && onnx_knows(node, 2));
}

/* The dimensions that are sliced: those in input 3, or the first n. */
static status_t read_slice_dims(onnx_node_t *node, int rank, int n, int64_t *axes)
{
    int n_axes = -1;
    TRY(onnx_numbers_since(node, 10, "axes", 3, TENSOR_MAX_RANK, &n_axes, axes));
    for (int i = 0; i < n && n_axes < 0; i++) axes[i] = i;
    if (n < 0 || n > TENSOR_MAX_RANK || (n_axes >= 0 && n_axes != n))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "starts, ends, axes and steps are not equally many");
    return onnx_dims_in_order(node, rank, n, axes);
}

/* Slices by steps that are known only at run time; dimensions are known. */
static status_t slice_by_steps(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0), starts = onnx_input_info(node, 1);
    const int64_t n = sym_pin(node->onnx->ctx, onnx_numel(node, &starts));
    int64_t axes[TENSOR_MAX_RANK];
    TRY(read_slice_dims(node, x.rank, n >= 0 && n <= TENSOR_MAX_RANK ? (int)n : -1, axes));
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
    if (node->opset >= 10)
        TRY(onnx_input_numbers(node, 4, "steps", TENSOR_MAX_RANK, &n_steps, steps));
    TRY(read_slice_dims(node, x.rank, n_ends == n && (n_steps < 0 || n_steps == n) ? n : -1, axes));
    item_t out = node->in[0];
    for (int i = 0; i < n; i++) {
        const int dim = (int)axes[i];
        range_t range = {starts[i], ends[i], n_steps >= 0 ? steps[i] : 1};
        TRY(is_symbolic(node, out, dim, &range) ? slice_symbolic(node, out, dim, &range, &out)
                                                : slice_axis(node, out, dim, range, &out));
    }
    node->out[0] = out;
    return STATUS_OK;
}

status_t onnx_import_gather(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int axis = 0;
    TRY(onnx_dim(node, "axis", x.rank, 0, &axis));
    if (x.rank == 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank 0");
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", axis)), 2, node->in, &node->out[0]);
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
    context_t *ctx = node->onnx->ctx;
    if (!sym_divides(ctx, b * b, x.sizes[1]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld channels and blocksize %lld",
             (long long)sym_hint(ctx, x.sizes[1]), (long long)b);
    int64_t n = x.sizes[0], c = sym_divide(ctx, x.sizes[1], b * b), h = x.sizes[2], w = x.sizes[3];
    const int64_t together[4] = {n, c, sym_multiply(ctx, h, b), sym_multiply(ctx, w, b)};
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
    context_t *ctx = node->onnx->ctx;
    if (!sym_divides(ctx, b, x.sizes[2]) || !sym_divides(ctx, b, x.sizes[3]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%lld by %lld and blocksize %lld",
             (long long)sym_hint(ctx, x.sizes[2]), (long long)sym_hint(ctx, x.sizes[3]),
             (long long)b);
    int64_t n = x.sizes[0], c = x.sizes[1];
    int64_t h = sym_divide(ctx, x.sizes[2], b), w = sym_divide(ctx, x.sizes[3], b);
    return shuffle(node, (int64_t[]){n, c, h, b, w, b}, (int64_t[]){0, 3, 5, 1, 2, 4},
                   (int64_t[]){n, sym_multiply(ctx, c, b * b), h, w});
}
