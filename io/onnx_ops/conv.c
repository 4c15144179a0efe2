/* Convolution and pooling operators, which have windows over spatial dimensions. */
#include "io/onnx/node_impl.h"

#include <stdio.h>

#include "ops/pool/pool_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Largest size or step. Sums of such numbers cannot overflow. */
#define MAX_STEP INT64_C(0x7fffffff)

/* True for a number above the limit. Symbolic integers have their own overflow check. */
static bool is_too_large(int64_t size)
{
    return !sym_is(size) && size > MAX_STEP;
}

/* ---- windows ---- */

static status_t read_spatial(onnx_node_t *node, const char *name, int n, int64_t least,
                             int64_t initial, int64_t *out_values)
{
    int n_given = 0;
    int64_t values[6];
    TRY(onnx_attr_ints(node, name, 6, &n_given, values));
    if (n_given >= 0 && n_given != n)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s has %d numbers, needs %d", name, n_given,
             n);
    for (int i = 0; i < n; i++) {
        out_values[i] = n_given >= 0 ? values[i] : initial;
        if (out_values[i] < least || out_values[i] > MAX_STEP)
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s %lld, %lld to %lld is needed", name,
                 (long long)out_values[i], (long long)least, (long long)MAX_STEP);
    }
    return STATUS_OK;
}

static int64_t extent(context_t *ctx, const onnx_window_t *window, int i)
{
    const int64_t steps = sym_subtract(ctx, window->kernel[i], 1);
    return sym_add(ctx, sym_multiply(ctx, window->dilation[i], steps), 1);
}

/* The number of elements from the start of the first of n_places windows to the end of the last. */
static int64_t reach(context_t *ctx, const onnx_window_t *window, int i, int64_t n_places)
{
    const int64_t steps = sym_subtract(ctx, n_places, 1);
    return sym_add(ctx, sym_multiply(ctx, steps, window->stride[i]), extent(ctx, window, i));
}

/* Divides the total padding of dimension i between start and end. If it is odd, the end gets one
 * more element or, with has_more_before, the start. */
static void split_padding(context_t *ctx, onnx_window_t *window, int i, int64_t total,
                          bool has_more_before)
{
    const int64_t half = sym_divide(ctx, total, 2);
    window->begin[i] = has_more_before ? sym_subtract(ctx, total, half) : half;
    window->end[i] = sym_subtract(ctx, total, window->begin[i]);
}

/* Sets the padding so that there are ceil(size / stride) outputs. */
static void pad_same(context_t *ctx, onnx_window_t *window, const int64_t *sizes)
{
    for (int i = 0; i < window->n; i++) {
        const int64_t n_out = sym_divide_up(ctx, sizes[i], window->stride[i]);
        int64_t total = sym_subtract(ctx, reach(ctx, window, i, n_out), sizes[i]);
        total = sym_less(ctx, n_out, 1) ? 0 : sym_max(ctx, total, 0);
        split_padding(ctx, window, i, total, window->is_same_lower);
    }
}

status_t onnx_window(onnx_node_t *node, const tensor_info_t *x, const int64_t *kernel,
                     onnx_window_t *out_window)
{
    static const char *const auto_pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL};
    context_t *ctx = node->onnx->ctx;
    onnx_window_t window = {.n = x->rank - 2};
    if (window.n < 1 || window.n > 3)
        FAIL(ctx, STATUS_UNSUPPORTED, "x is of rank %d, 3 to 5 are supported", x->rank);
    TRY(read_spatial(node, "kernel_shape", window.n, 1, kernel != NULL ? 1 : 0, window.kernel));
    bool is_given = onnx_has_attr(node, "kernel_shape");
    for (int i = 0; kernel != NULL && i < window.n; i++) {
        if (is_too_large(kernel[i]) || (is_given && !sym_equal(ctx, kernel[i], window.kernel[i])))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "kernel_shape %lld, the weight has %lld",
                 (long long)window.kernel[i], (long long)sym_hint(ctx, kernel[i]));
        window.kernel[i] = kernel[i];
    }
    TRY(read_spatial(node, "strides", window.n, 1, 1, window.stride));
    TRY(read_spatial(node, "dilations", window.n, 1, 1, window.dilation));
    int64_t pads[6];
    int auto_pad = 0;
    TRY(read_spatial(node, "pads", 2 * window.n, 0, 0, pads));
    TRY(onnx_attr_name(node, "auto_pad", auto_pads, 0, &auto_pad));
    for (int i = 0; i < window.n; i++) {
        if (is_too_large(x->sizes[2 + i]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "x has a size of %lld", (long long)x->sizes[2 + i]);
        window.begin[i] = auto_pad == 0 ? pads[i] : 0;
        window.end[i] = auto_pad == 0 ? pads[window.n + i] : 0;
    }
    window.is_same = auto_pad == 1 || auto_pad == 2;
    window.is_same_lower = auto_pad == 2;
    if (window.is_same) pad_same(ctx, &window, &x->sizes[2]);
    *out_window = window;
    return STATUS_OK;
}

/* "conv" -> "conv2d" */
static void call_spatial(onnx_node_t *node, const char *stem, int n, onnx_call_t *out_call)
{
    char name[32];
    snprintf(name, sizeof name, "%s%dd", stem, n);
    onnx_call(node, name, out_call);
}

/* ---- convolution ---- */

static status_t check_weight(onnx_node_t *node, const tensor_info_t *x, const tensor_info_t *weight)
{
    if (weight->rank != x->rank || x->rank < 3)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "x is of rank %d, the weight of rank %d, equal ones from 3 on are needed", x->rank,
             weight->rank);
    return STATUS_OK;
}

status_t onnx_read_conv(onnx_node_t *node, const tensor_info_t *x, const tensor_info_t *weight,
                        conv_attrs_t *out_attrs)
{
    conv_attrs_t attrs = {.groups = 1};
    onnx_window_t window;
    TRY(check_weight(node, x, weight));
    TRY(onnx_window(node, x, &weight->sizes[2], &window));
    TRY(onnx_attr_int(node, "group", 1, &attrs.groups));
    if (attrs.groups < 1)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "group %lld, at least 1 is needed",
             (long long)attrs.groups);
    for (int i = 0; i < window.n; i++) {
        attrs.stride[i] = window.stride[i];
        attrs.dilation[i] = window.dilation[i];
        attrs.padding[i] = window.begin[i];
        attrs.extra_padding[i] = sym_subtract(node->onnx->ctx, window.end[i], window.begin[i]);
    }
    *out_attrs = attrs;
    return STATUS_OK;
}

status_t onnx_import_conv(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0), weight = onnx_input_info(node, 1);
    conv_attrs_t attrs;
    onnx_call_t call;
    TRY(onnx_read_conv(node, &x, &weight, &attrs));
    call_spatial(node, "conv", x.rank - 2, &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    return onnx_emit(&call, node->n_in, node->in, &node->out[0]);
}

/* If output_shape or auto_pad fix the output sizes, computes the padding from them. */
static status_t pad_to_shape(onnx_node_t *node, onnx_window_t *window, const int64_t *sizes,
                             int64_t *output_padding)
{
    context_t *ctx = node->onnx->ctx;
    int n = 0;
    int64_t wanted[6];
    TRY(onnx_attr_ints(node, "output_shape", 6, &n, wanted));
    if (n < 0 && !window->is_same) return STATUS_OK;
    if (n >= 0 && n != window->n && n != window->n + 2)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "output_shape has %d numbers, needs %d", n, window->n);
    for (int i = 0; i < window->n; i++) {
        const int64_t size = n < 0 ? sym_multiply(ctx, sizes[i], window->stride[i])
                                   : wanted[n - window->n + i];
        if (sym_less(ctx, size, 1) || is_too_large(size))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "output_shape %lld", (long long)sym_hint(ctx, size));
        const int64_t all = sym_add(ctx, reach(ctx, window, i, sizes[i]), output_padding[i]);
        const int64_t total = sym_subtract(ctx, all, size);
        const int64_t missing = sym_max(ctx, sym_subtract(ctx, size, all), 0);
        output_padding[i] = sym_add(ctx, output_padding[i], missing);
        split_padding(ctx, window, i, sym_max(ctx, total, 0),
                      !window->is_same || window->is_same_lower);
    }
    return STATUS_OK;
}

/* Crops the side with more padding: conv_transpose crops both sides only by the smaller padding. */
static status_t crop(onnx_node_t *node, const onnx_window_t *window, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    for (int i = 0; i < window->n; i++) {
        const int64_t before = sym_subtract(ctx, window->begin[i], window->end[i]);
        if (sym_knows_equal(ctx, before, 0)) continue;
        const int64_t size = onnx_info(node->onnx, *out)->sizes[2 + i];
        TRY(onnx_slice(node, *out, 2 + i, sym_max(ctx, before, 0),
                       sym_add(ctx, size, sym_min(ctx, before, 0)), 1, out));
    }
    return STATUS_OK;
}

status_t onnx_import_conv_transpose(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0), weight = onnx_input_info(node, 1);
    conv_transpose_attrs_t attrs = {.groups = 1};
    onnx_window_t window;
    onnx_call_t call;
    TRY(check_weight(node, &x, &weight));
    TRY(onnx_window(node, &x, &weight.sizes[2], &window));
    TRY(onnx_attr_int(node, "group", 1, &attrs.groups));
    if (attrs.groups < 1)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "group %lld, at least 1 is needed",
             (long long)attrs.groups);
    TRY(read_spatial(node, "output_padding", window.n, 0, 0, attrs.output_padding));
    TRY(pad_to_shape(node, &window, &x.sizes[2], attrs.output_padding));
    for (int i = 0; i < window.n; i++) {
        attrs.stride[i] = window.stride[i];
        attrs.dilation[i] = window.dilation[i];
        attrs.padding[i] = sym_min(node->onnx->ctx, window.begin[i], window.end[i]);
    }
    call_spatial(node, "conv_transpose", window.n, &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    TRY(onnx_emit(&call, node->n_in, node->in, &node->out[0]));
    return crop(node, &window, &node->out[0]);
}

/* ---- pooling ---- */

/* ONNX's number of windows, (padded - extent) / stride + 1, is 1 rather than 0 for a window that is
 * larger than its input by less than a stride: ONNX's shape inference and ONNX Runtime round the
 * quotient towards 0. More padding at the end gives that window. */
static void fit_window(context_t *ctx, onnx_window_t *window, int i, int64_t size)
{
    const int64_t pads = sym_add(ctx, window->begin[i], window->end[i]);
    const int64_t padded = sym_add(ctx, size, pads), needed = extent(ctx, window, i);
    if (sym_hint(ctx, size) == SYM_NONE) return;
    if (!sym_less(ctx, padded, needed) || sym_less(ctx, size, 1)) return;
    const int64_t missing = sym_subtract(ctx, needed, padded);
    if (sym_less(ctx, missing, window->stride[i]))
        window->end[i] = sym_add(ctx, window->end[i], missing);
}

static status_t read_pool(onnx_node_t *node, bool is_average, onnx_window_t *out_window,
                          pool_attrs_t *out_attrs)
{
    tensor_info_t x = onnx_input_info(node, 0);
    pool_attrs_t attrs = {.ceil_mode = false};
    onnx_window_t window = {0};
    if (!onnx_has_attr(node, "kernel_shape"))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "kernel_shape is missing");
    TRY(onnx_window(node, &x, NULL, &window));
    TRY(onnx_attr_bool(node, "ceil_mode", false, &attrs.ceil_mode));
    if (is_average) TRY(onnx_attr_bool(node, "count_include_pad", false, &attrs.count_include_pad));
    for (int i = 0; i < window.n; i++) {
        /* from opset 19 on, means do not count what exceeds the padding */
        if (!attrs.count_include_pad || node->opset < 19)
            fit_window(node->onnx->ctx, &window, i, x.sizes[2 + i]);
        attrs.kernel[i] = window.kernel[i];
        attrs.stride[i] = window.stride[i];
        attrs.padding[i] = window.begin[i];
        attrs.extra_padding[i] = sym_subtract(node->onnx->ctx, window.end[i], window.begin[i]);
        attrs.dilation[i] = window.dilation[i];
    }
    *out_window = window;
    *out_attrs = attrs;
    return STATUS_OK;
}

static status_t import_pool(onnx_node_t *node, bool is_average)
{
    pool_attrs_t attrs;
    onnx_window_t window;
    onnx_call_t call;
    TRY(read_pool(node, is_average, &window, &attrs));
    call_spatial(node, node->op->own, window.n, &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    return onnx_emit(&call, 1, node->in, &node->out[0]);
}

/* MaxPool. Output 1 numbers the elements of the entire tensor in row-major order. With
 * storage_order 1, it numbers those of each plane in column-major order. */
status_t onnx_import_max_pool(onnx_node_t *node)
{
    bool is_by_columns = false;
    TRY(onnx_attr_bool(node, "storage_order", false, &is_by_columns));
    if (!onnx_wants(node, 1)) return import_pool(node, false);
    pool_attrs_t attrs;
    onnx_window_t window;
    onnx_call_t call;
    char name[40];
    TRY(read_pool(node, false, &window, &attrs));
    snprintf(name, sizeof name, "max_pool%dd_with_indices", window.n);
    onnx_call(node, name, &call);
    onnx_set_ints(&call, "kernel", window.n, attrs.kernel);
    onnx_set_ints(&call, "stride", window.n, attrs.stride);
    onnx_set_ints(&call, "padding", window.n, attrs.padding);
    onnx_set_ints(&call, "extra_padding", window.n, attrs.extra_padding);
    onnx_set_ints(&call, "dilation", window.n, attrs.dilation);
    onnx_set_int(&call, "ceil_mode", attrs.ceil_mode);
    onnx_set_int(&call, "order", is_by_columns ? POOL_ORDER_COLUMNS : POOL_ORDER_TENSOR);
    return onnx_emit_n(&call, 1, node->in, 2, node->out);
}

/* ---- MaxUnpool ---- */

/* From kernel, stride and padding, computes the sizes before pooling. */
static status_t find_unpooled(onnx_node_t *node, int64_t *sizes)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t x = onnx_input_info(node, 0);
    onnx_window_t window;
    TRY(onnx_window(node, &x, NULL, &window));
    sizes[0] = x.sizes[0];
    sizes[1] = x.sizes[1];
    for (int i = 0; i < window.n; i++) {
        const int64_t pads = sym_add(ctx, window.begin[i], window.end[i]);
        window.dilation[i] = 1;
        sizes[2 + i] = sym_subtract(ctx, reach(ctx, &window, i, x.sizes[2 + i]), pads);
        if (sym_less(ctx, sizes[2 + i], 1))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a size of %lld was pooled",
                 (long long)sym_hint(ctx, sizes[2 + i]));
    }
    return STATUS_OK;
}

/* Appends zeros to each dimension, up to output_shape. */
static status_t pad_unpooled(onnx_node_t *node, const int64_t *sizes, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const int rank = onnx_input_info(node, 0).rank;
    int64_t wanted[TENSOR_MAX_RANK], before[TENSOR_MAX_RANK] = {0}, after[TENSOR_MAX_RANK];
    int n = 0;
    bool is_padded = false;
    TRY(onnx_input_ints(node, 2, "output_shape", TENSOR_MAX_RANK, &n, wanted));
    if (n < 0) return STATUS_OK;
    if (n != rank)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "output_shape has %d numbers, needs %d", n, rank);
    for (int d = 0; d < rank; d++) {
        after[d] = sym_subtract(ctx, wanted[d], sizes[d]);
        is_padded = is_padded || !sym_knows_equal(ctx, after[d], 0);
        if (sym_less(ctx, wanted[d], sizes[d]) || is_too_large(after[d]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "output_shape %lld, at least %lld",
                 (long long)sym_hint(ctx, wanted[d]), (long long)sym_hint(ctx, sizes[d]));
    }
    if (!is_padded) return STATUS_OK;
    return onnx_op(node, "pad",
                   ONNX_ATTRS(SET_INTS("before", rank, before), SET_INTS("after", rank, after)), 1,
                   out, out);
}

/* MaxUnpool. Input 1 numbers the elements of a tensor with the sizes before pooling, whatever
 * output_shape is. */
status_t onnx_import_max_unpool(onnx_node_t *node)
{
    onnx_t *onnx = node->onnx;
    const tensor_info_t x = onnx_input_info(node, 0), index = onnx_input_info(node, 1);
    const int64_t n = onnx_numel(node, &x);
    int64_t sizes[TENSOR_MAX_RANK], total = 1;
    tensor_t *zero = NULL;
    item_t in[3];
    if (!onnx_same_sizes(node, x.rank, x.sizes, index.rank, index.sizes))
        FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "x and its indices are of other sizes, %s",
             onnx_brief(node, &index));
    TRY(find_unpooled(node, sizes));
    for (int d = 0; d < x.rank; d++)
        if (!onnx_multiply(node, total, sizes[d], &total))
            FAIL(onnx->ctx, STATUS_INVALID_ARGUMENT, "what was pooled has too many elements");
    TRY(tensor_zeros(onnx->ctx, x.dtype, 1, (int64_t[]){1}, &zero));
    scope_take(onnx->ctx, zero);
    TRY(onnx_item_take(onnx, NULL, zero, &in[0]));
    TRY(onnx_expand(node, in[0], 1, &total, &in[0]));
    TRY(onnx_reshape(node, node->in[1], 1, &n, &in[1]));
    TRY(onnx_reshape(node, node->in[0], 1, &n, &in[2]));
    TRY(onnx_op(node, "scatter", ONNX_ATTRS(SET("dim", 0)), 3, in, &node->out[0]));
    TRY(onnx_reshape(node, node->out[0], x.rank, sizes, &node->out[0]));
    return pad_unpooled(node, sizes, &node->out[0]);
}

status_t onnx_import_average_pool(onnx_node_t *node)
{
    return import_pool(node, true);
}

status_t onnx_import_global_pool(onnx_node_t *node)
{
    static const int64_t ones[3] = {1, 1, 1};
    int rank = onnx_input_info(node, 0).rank;
    if (rank < 3 || rank > 5)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "x is of rank %d, 3 to 5 are supported", rank);
    return onnx_op(node, node->op->own, ONNX_ATTRS(SET_INTS("output_size", rank - 2, ones)), 1,
                   node->in, &node->out[0]);
}

/* ---- LpPool ---- */

/* |x| to the power p, or x to the power 1 / p. */
static status_t raise(onnx_node_t *node, item_t x, int64_t p, bool is_root, item_t *out)
{
    item_t power;
    TRY(is_root ? STATUS_OK : onnx_unary(node, "abs", x, &x));
    TRY(onnx_number(node->onnx, is_root ? 1.0 / (double)p : (double)p, &power));
    *out = x;
    return p == 1 ? STATUS_OK : onnx_binary(node, "pow", x, power, out);
}

static status_t read_power(onnx_node_t *node, int64_t *out_p)
{
    TRY(onnx_attr_int(node, "p", 2, out_p));
    if (*out_p < 1 || *out_p > 64)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "p %lld, 1 to 64 is needed",
             (long long)*out_p);
    return STATUS_OK;
}

/* The sum over a window is computed as the mean (padding counts as 0) times the number of
 * elements. */
status_t onnx_import_lp_pool(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    pool_attrs_t attrs = {.count_include_pad = true};
    onnx_window_t window = {0};
    int64_t p = 2;
    double n_elements = 1.0;
    bool is_ceil = false;
    item_t number;
    onnx_call_t call;
    if (!onnx_has_attr(node, "kernel_shape"))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "kernel_shape is missing");
    TRY(read_power(node, &p));
    TRY(onnx_window(node, &x, NULL, &window));
    TRY(onnx_attr_bool(node, "ceil_mode", false, &is_ceil));
    if (is_ceil) FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "ceil_mode of LpPool");
    for (int i = 0; i < window.n; i++) {
        /* from opset 19 on, means do not count what exceeds the padding */
        if (!attrs.count_include_pad || node->opset < 19)
            fit_window(node->onnx->ctx, &window, i, x.sizes[2 + i]);
        attrs.kernel[i] = window.kernel[i];
        attrs.stride[i] = window.stride[i];
        attrs.padding[i] = window.begin[i];
        attrs.extra_padding[i] = sym_subtract(node->onnx->ctx, window.end[i], window.begin[i]);
        attrs.dilation[i] = window.dilation[i];
        n_elements *= (double)window.kernel[i];
    }
    TRY(raise(node, node->in[0], p, false, &node->out[0]));
    call_spatial(node, "avg_pool", window.n, &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    TRY(onnx_emit(&call, 1, node->out, &node->out[0]));
    TRY(onnx_number(node->onnx, n_elements, &number));
    TRY(onnx_binary(node, "mul", node->out[0], number, &node->out[0]));
    return raise(node, node->out[0], p, true, &node->out[0]);
}

status_t onnx_import_global_lp_pool(onnx_node_t *node)
{
    const int rank = onnx_input_info(node, 0).rank;
    int64_t p = 2, dims[TENSOR_MAX_RANK];
    if (rank < 3)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank %d, 3 or more is needed",
             rank);
    TRY(read_power(node, &p));
    for (int d = 2; d < rank; d++) dims[d - 2] = d;
    TRY(raise(node, node->in[0], p, false, &node->out[0]));
    TRY(onnx_op(node, "sum", ONNX_ATTRS(SET_INTS("dims", rank - 2, dims), SET("keepdim", true)), 1,
                node->out, &node->out[0]));
    return raise(node, node->out[0], p, true, &node->out[0]);
}
