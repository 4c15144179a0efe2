/* Operators for computing shapes, and Range: computed at import if possible.
 *
 * Other operators are folded by running the equivalent Tessera operator (call.c). */
#include <math.h>
#include <string.h>

#include "io/onnx/flow_impl.h"
#include "io/onnx/narrow_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- known results ---- */

/* Allocates a tensor for the caller to fill and pass to onnx_item_take. */
static status_t make(onnx_node_t *node, dtype_t dtype, int rank, const int64_t *sizes,
                     tensor_t **out_tensor, void **out_bytes)
{
    tensor_info_t info = info_dense(dtype, rank, sizes);
    TRY(tensor_make(node->onnx->ctx, &info, out_tensor));
    status_t status = tensor_writable(node->onnx->ctx, *out_tensor, out_bytes);
    if (status != STATUS_OK) tensor_drop(*out_tensor);
    return status;
}

/* Creates a known item from a copy of the elements. */
static status_t give(onnx_node_t *node, dtype_t dtype, int rank, const int64_t *sizes,
                     const void *elements, size_t n_bytes, item_t *out_item)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(make(node, dtype, rank, sizes, &tensor, &bytes));
    if (n_bytes > 0) memcpy(bytes, elements, n_bytes);
    return onnx_item_take(node->onnx, NULL, tensor, out_item);
}

/* ---- constants ---- */

status_t onnx_import_constant(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    Onnx__TensorProto *proto = NULL;
    tensor_t *tensor = NULL;
    const Onnx__AttributeProto *attr;
    TRY(onnx_attr_tensor(node, "value", &proto));
    if (proto != NULL) {
        TRY(onnx->n_blocks > 0 ? onnx_tensor_again(onnx, proto, &tensor)
                               : onnx_tensor(onnx, proto, &tensor));
        TRY(onnx_item_take(onnx, NULL, tensor, &node->out[0]));
        onnx->items[node->out[0]].narrow = onnx_narrow_type(proto->data_type);
        return STATUS_OK;
    }
    int64_t n = 0;
    item_t *out = &node->out[0];
    if ((attr = onnx_attr(node, "value_float")) != NULL)
        return give(node, DTYPE_F32, 0, NULL, &attr->f, sizeof attr->f, out);
    if ((attr = onnx_attr(node, "value_int")) != NULL)
        return give(node, DTYPE_S64, 0, NULL, &attr->i, sizeof attr->i, out);
    if ((attr = onnx_attr(node, "value_floats")) != NULL) {
        n = (int64_t)attr->n_floats;
        return give(node, DTYPE_F32, 1, &n, attr->floats, attr->n_floats * sizeof *attr->floats,
                    out);
    }
    if ((attr = onnx_attr(node, "value_ints")) != NULL) {
        n = (int64_t)attr->n_ints;
        return give(node, DTYPE_S64, 1, &n, attr->ints, attr->n_ints * sizeof *attr->ints, out);
    }
    FAIL(onnx->ctx, STATUS_UNSUPPORTED, "a constant that is neither a tensor nor a number");
}

/* Expands one value with strides of 0; memory is allocated only if the graph needs the tensor. The
 * result counts as a weight, because models stored without data create their weights this way. */
status_t onnx_import_constant_of_shape(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    Onnx__TensorProto *proto = NULL;
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    item_t item = ITEM_NONE;
    bool is_open = !onnx_knows(node, 0);
    if (!is_open) TRY(onnx_input_ints(node, 0, "the shape", TENSOR_MAX_RANK, &rank, sizes));
    TRY(onnx_attr_tensor(node, "value", &proto));
    if (proto != NULL) {
        tensor_t *tensor = NULL;
        TRY(onnx_tensor_again(onnx, proto, &tensor));
        TRY(onnx_item_take(onnx, NULL, tensor, &item));
        const tensor_info_t *info = onnx_info(onnx, item);
        if (info_numel(info) != 1) /* a damaged file may have any tensor here */
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "the value is %s, one element is needed",
                 info_brief(info));
    } else {
        const float zero = 0;
        TRY(give(node, DTYPE_F32, 0, NULL, &zero, sizeof zero, &item));
    }
    if (is_open || onnx_are_late(node, item, rank, sizes)) {
        item_t in[2] = {item, node->in[0]};
        TRY(onnx_check_integers(node, 0, "the shape"));
        return onnx_op(node, "expand_by", NULL, 2, in, &node->out[0]);
    }
    TRY(onnx_check_shape(node, "the shape", onnx_info(onnx, item)->dtype, rank, sizes));
    TRY(onnx_reshape(node, item, 0, NULL, &item));
    TRY(onnx_expand(node, item, rank, sizes, &item));
    onnx->items[item].name = node->proto->output[0];
    onnx->items[item].is_weight = onnx->items[item].known != NULL &&
                                  dtype_is_floating(onnx_info(onnx, item)->dtype);
    onnx->items[item].narrow = proto != NULL ? onnx_narrow_type(proto->data_type) : 0;
    node->out[0] = item;
    return STATUS_OK;
}

/* Expands a zero to the sizes, because these may be symbolic. */
status_t onnx_empty(onnx_node_t *node, item_t like, item_t *out)
{
    onnx_t *onnx = node->onnx;
    item_t zero = ITEM_NONE;
    tensor_t *tensor = NULL;
    tensor_info_t info = *onnx_info(onnx, like);
    *out = ITEM_NONE;
    for (int d = 1; d < info.rank; d++)
        if (sym_hint(onnx->ctx, info.sizes[d]) == SYM_NONE) return STATUS_OK;
    TRY(tensor_zeros(onnx->ctx, info.dtype, 0, NULL, &tensor));
    scope_take(onnx->ctx, tensor);
    TRY(onnx_item_take(onnx, NULL, tensor, &zero));
    info.sizes[0] = 0;
    return onnx_op(node, "expand", ONNX_ATTRS(SET_INTS("sizes", info.rank, info.sizes)), 1, &zero,
                   out);
}

static int64_t clamp_dim(int64_t dim, int rank)
{
    if (dim < 0) dim = dim < -rank ? 0 : dim + rank;
    return dim > rank ? rank : dim;
}

/* Sizes are known at import even if the elements are not. */
status_t onnx_import_shape(onnx_node_t *node)
{
    int64_t rank = onnx_input_info(node, 0).rank, start = 0, end = rank;
    item_t sizes;
    if (node->opset >= 15) {
        TRY(onnx_attr_int(node, "start", 0, &start));
        TRY(onnx_attr_int(node, "end", rank, &end));
    }
    start = clamp_dim(start, (int)rank);
    end = clamp_dim(end, (int)rank);
    TRY(onnx_sizes(node, node->in[0], &sizes));
    return onnx_slice(node, sizes, 0, start, end > start ? end : start, 1, &node->out[0]);
}

status_t onnx_import_size(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    const int64_t numel = onnx_numel(node, &x);
    item_t out;
    if (onnx_is_late(node, numel)) {
        onnx_call_t call;
        TRY(onnx_sizes(node, node->in[0], &out));
        onnx_call(node, "prod", &call);
        return onnx_emit(&call, 1, &out, &node->out[0]);
    }
    if (sym_is(numel)) {
        TRY(onnx_vector(node->onnx, NULL, 1, &numel, &out));
        return onnx_reshape(node, out, 0, NULL, &node->out[0]);
    }
    return give(node, DTYPE_S64, 0, NULL, &numel, sizeof numel, &node->out[0]);
}

/* ---- range ---- */

/* Counts the elements. Differences are unsigned, because INT64_MAX - INT64_MIN exceeds int64_t. */
static bool count_integers(int64_t start, int64_t limit, int64_t delta, int64_t *out_n)
{
    bool is_empty = delta > 0 ? limit <= start : limit >= start;
    uint64_t length = delta > 0 ? (uint64_t)limit - (uint64_t)start
                                : (uint64_t)start - (uint64_t)limit;
    uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
    if (delta == 0) return false;
    uint64_t n = is_empty ? 0 : (length - 1) / step + 1;
    *out_n = (int64_t)n;
    return n <= ONNX_MAX_VALUES;
}

/* Counts the numbers start, start + delta, ... before the limit. */
static bool count_range(bool is_floating, const double *floats, const int64_t *integers,
                        int64_t *out_n)
{
    if (!is_floating) return count_integers(integers[0], integers[1], integers[2], out_n);
    double n = ceil((floats[1] - floats[0]) / floats[2]);
    if (floats[2] == 0.0 || !(n <= ONNX_MAX_VALUES)) return false;
    *out_n = n > 0 ? (int64_t)n : 0;
    return true;
}

typedef struct range {
    dtype_t dtype;
    double floats[3];
    int64_t integers[3];
    int64_t n;
} range_t;

static status_t read_range(onnx_node_t *node, range_t *out_range)
{
    out_range->dtype = onnx_input_info(node, 0).dtype;
    bool is_floating = dtype_is_floating(out_range->dtype);
    for (int i = 0; i < 3; i++) {
        int n = 0;
        TRY(is_floating ? onnx_input_floats(node, i, "the range", 1, &n, &out_range->floats[i])
                        : onnx_input_numbers(node, i, "the range", 1, &n, &out_range->integers[i]));
        if (n != 1) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d has no element", i);
    }
    if (!count_range(is_floating, out_range->floats, out_range->integers, &out_range->n))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "a range without end, or of more than %d",
             ONNX_MAX_VALUES);
    return STATUS_OK;
}

/* Computes start + i * delta for i = 0 to n - 1 in the graph, for any n. */
static status_t count_up(onnx_node_t *node, dtype_t dtype, int64_t n, item_t *out)
{
    TRY(onnx_count_up(node, n, out));
    TRY(onnx_cast(node, *out, dtype, out));
    TRY(onnx_binary(node, "mul", *out, node->in[2], out));
    return onnx_binary(node, "add", *out, node->in[0], out);
}

/* ceil((limit - start) / delta) for floating-point bounds. */
static int64_t count_reals(context_t *ctx, const int64_t *bounds)
{
    const int64_t length = sym_real_calculate(ctx, '-', bounds[1], bounds[0]);
    return sym_round(ctx, SYM_CEIL, sym_real_calculate(ctx, '/', length, bounds[2]));
}

static int64_t count_symbolic(context_t *ctx, const int64_t *bounds)
{
    const bool is_forward = sym_less(ctx, 0, bounds[2]);
    const int64_t first = bounds[is_forward ? 0 : 1], last = bounds[is_forward ? 1 : 0];
    const int64_t step = is_forward ? bounds[2] : sym_subtract(ctx, 0, bounds[2]);
    return sym_divide_up(ctx, sym_subtract(ctx, last, first), step);
}

/* The number of elements if it is symbolic, else -1. */
static status_t find_count(onnx_node_t *node, int64_t *out_n)
{
    context_t *ctx = node->onnx->ctx;
    const bool is_floating = dtype_is_floating(onnx_input_info(node, 0).dtype);
    int64_t bounds[3] = {0}, count = 0;
    *out_n = -1;
    for (int i = 0; i < 3; i++) {
        int n = 0;
        TRY(is_floating ? onnx_input_reals(node, i, "the range", 1, &n, &bounds[i])
                        : onnx_input_ints(node, i, "the range", 1, &n, &bounds[i]));
        if (n != 1) FAIL(ctx, STATUS_INVALID_ARGUMENT, "input %d has no element", i);
    }
    const bool is_symbolic = sym_is(bounds[0]) || sym_is(bounds[1]) || sym_is(bounds[2]);
    if (!is_floating && !is_symbolic) return STATUS_OK;
    if (!is_floating && sym_equal(ctx, bounds[2], 0))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "a range without end, or of more than %d",
             ONNX_MAX_VALUES);
    count = is_floating ? count_reals(ctx, bounds) : count_symbolic(ctx, bounds);
    if (!is_floating || (sym_is(count) && count != SYM_NONE)) *out_n = sym_max(ctx, count, 0);
    return STATUS_OK;
}

status_t onnx_import_range(onnx_node_t *node)
{
    range_t range = {0};
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    int64_t n = -1;
    onnx_attr_ignore(node, "stash_type"); /* has no effect: no element depends on others */
    const bool is_known = onnx_knows(node, 0) && onnx_knows(node, 1) && onnx_knows(node, 2);
    if (is_known) TRY(find_count(node, &n));
    if (!is_known || onnx_is_late(node, n)) {
        return onnx_op(node, "range", NULL, 3, node->in, &node->out[0]);
    }
    if (n != -1) return count_up(node, onnx_input_info(node, 0).dtype, n, &node->out[0]);
    TRY(read_range(node, &range));
    TRY(make(node, range.dtype, 1, &range.n, &tensor, &bytes));
    for (int64_t i = 0; i < range.n; i++) {
        void *place = (char *)bytes + (size_t)i * dtype_size(range.dtype);
        if (dtype_is_floating(range.dtype))
            dtype_store(range.dtype, place, range.floats[0] + (double)i * range.floats[2]);
        else
            dtype_store_integer(
                range.dtype, place,
                (int64_t)((uint64_t)range.integers[0] + (uint64_t)i * (uint64_t)range.integers[2]));
    }
    return onnx_item_take(node->onnx, NULL, tensor, &node->out[0]);
}
