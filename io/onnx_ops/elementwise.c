/* Activations and arithmetic. */
#include "io/onnx/narrow_impl.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- functions of one tensor ---- */

status_t onnx_import_unary(onnx_node_t *node)
{
    return onnx_unary(node, node->op->own, node->in[0], &node->out[0]);
}

/* Attributes may exclude an infinity by its sign. */
status_t onnx_import_is_inf(onnx_node_t *node)
{
    bool has_positive = true, has_negative = true;
    item_t bound;
    TRY(onnx_attr_bool(node, "detect_positive", true, &has_positive));
    TRY(onnx_attr_bool(node, "detect_negative", true, &has_negative));
    if (has_positive && has_negative) return onnx_unary(node, "isinf", node->in[0], &node->out[0]);
    TRY(onnx_number(node->onnx, has_negative ? -(double)INFINITY : (double)INFINITY, &bound));
    /* If neither sign counts, computes `x > infinity`, which is false everywhere. */
    return onnx_binary(node, has_positive || has_negative ? "eq" : "gt", node->in[0], bound,
                       &node->out[0]);
}

/* ONNX's attributes of an activation, in the order of the Tessera operator's. */
typedef struct activation {
    const char *own, *name;
    int n;
    const char *attributes[2];
    double initial[2];
} activation_t;

static const activation_t activations[] = {
#define NONE                                                                                       \
    0, {NULL},                                                                                     \
    {                                                                                              \
        0                                                                                          \
    }
#define ONE(name, initial)                                                                         \
    1, {#name},                                                                                    \
    {                                                                                              \
        initial                                                                                    \
    }
#define TWO(name, initial, name2, initial2)                                                        \
    2, {#name, #name2},                                                                            \
    {                                                                                              \
        initial, initial2                                                                          \
    }
#define ONNX(name, first, parameters) #name, parameters
#define NO_ONNX NULL, NONE
#define ACTIVATION(name, NAME, layer, parameters, value, loop, terms, reads, gradient, kernels,    \
                   onnx)                                                                           \
    {#name, onnx},
#define POST_ONLY(...)
#include "kernels/elementwise/eltwise.def"
};

status_t onnx_import_activation(onnx_node_t *node)
{
    const activation_t *row = activations;
    while (row->name == NULL || strcmp(row->name, node->op->name) != 0) row++;
    const opdef_t *op = ops_find(row->own);
    onnx_call_t call;
    onnx_call(node, row->own, &call);
    for (int i = 0; i < row->n; i++) {
        double value = 0;
        TRY(onnx_attr_float(node, row->attributes[i], row->initial[i], &value));
        onnx_set_float(&call, op->attrs.fields[i].name, value);
    }
    return onnx_emit(&call, 1, node->in, &node->out[0]);
}

/* If the constants differ from those of operator selu, emits elu times a factor. */
status_t onnx_import_selu(onnx_node_t *node)
{
    static const double own_alpha = 1.67326319217681884765625;
    static const double own_gamma = 1.05070102214813232421875;
    double alpha = 0, gamma = 0;
    TRY(onnx_attr_float(node, "alpha", own_alpha, &alpha));
    TRY(onnx_attr_float(node, "gamma", own_gamma, &gamma));
    if (fabs(alpha - own_alpha) < 1e-5 && fabs(gamma - own_gamma) < 1e-5)
        return onnx_unary(node, "selu", node->in[0], &node->out[0]);
    item_t out, factor;
    TRY(onnx_op(node, "elu", ONNX_ATTRS(SET_FLOAT("alpha", alpha)), 1, node->in, &out));
    TRY(onnx_number(node->onnx, gamma, &factor));
    return onnx_binary(node, "mul", out, factor, &node->out[0]);
}

status_t onnx_import_gelu(onnx_node_t *node)
{
    static const char *const approximations[] = {"none", "tanh", NULL};
    int approximation = 0;
    TRY(onnx_attr_name(node, "approximate", approximations, 0, &approximation));
    return onnx_op(node, "gelu", ONNX_ATTRS(SET("tanh_approximation", approximation)), 1, node->in,
                   &node->out[0]);
}

/* x sigmoid(alpha x) */
status_t onnx_import_swish(onnx_node_t *node)
{
    double alpha = 0;
    item_t out = node->in[0], factor;
    TRY(onnx_attr_float(node, "alpha", 1.0, &alpha));
    if (alpha == 1.0) return onnx_unary(node, "silu", node->in[0], &node->out[0]);
    TRY(onnx_number(node->onnx, alpha, &factor));
    TRY(onnx_binary(node, "mul", out, factor, &out));
    TRY(onnx_unary(node, "sigmoid", out, &out));
    return onnx_binary(node, "mul", node->in[0], out, &node->out[0]);
}

/* Integers are computed in f32 and cast back. */
status_t onnx_import_shrink(onnx_node_t *node)
{
    double lambd = 0, bias = 0;
    item_t out;
    TRY(onnx_attr_float(node, "lambd", 0.5, &lambd));
    TRY(onnx_attr_float(node, "bias", 0.0, &bias));
    TRY(onnx_op(node, "shrink", ONNX_ATTRS(SET_FLOAT("lambd", lambd), SET_FLOAT("bias", bias)), 1,
                node->in, &out));
    return onnx_cast(node, out, onnx_input_info(node, 0).dtype, &node->out[0]);
}

/* ---- clip ---- */

static status_t clip_floats(onnx_node_t *node, double low, double high)
{
    if (low == 0.0 && high == (double)INFINITY)
        return onnx_unary(node, "relu", node->in[0], &node->out[0]);
    return onnx_op(node, "clamp", ONNX_ATTRS(SET_FLOAT("min", low), SET_FLOAT("max", high)), 1,
                   node->in, &node->out[0]);
}

/* Bounds are attributes before opset 11, inputs since then. Integers, and bounds known only at run
 * time, use maximum and minimum instead of clamp. */
status_t onnx_import_clip(onnx_node_t *node)
{
    double low = -(double)INFINITY, high = (double)INFINITY;
    bool is_plain = dtype_is_floating(onnx_input_info(node, 0).dtype);
    if (node->opset < 11) {
        TRY(onnx_attr_float(node, "min", low, &low));
        TRY(onnx_attr_float(node, "max", high, &high));
        return clip_floats(node, low, high);
    }
    for (int i = 1; i <= 2; i++)
        is_plain = is_plain && (!onnx_has(node, i) || onnx_is_number(node, i));
    if (is_plain) {
        int n = 0;
        TRY(onnx_input_floats(node, 1, "min", 1, &n, &low));
        TRY(onnx_input_floats(node, 2, "max", 1, &n, &high));
        return clip_floats(node, low, high);
    }
    item_t out = node->in[0];
    if (onnx_has(node, 1)) TRY(onnx_binary(node, "maximum", out, node->in[1], &out));
    if (onnx_has(node, 2)) TRY(onnx_binary(node, "minimum", out, node->in[2], &out));
    node->out[0] = out;
    return STATUS_OK;
}

/* ---- prelu ---- */

/* True if the slope has one element for each channel of x, and x has rank 2 or more. Such a slope
 * is a vector in opset 6; later it is a shape that broadcasts along dimension 1 only. */
static bool is_channel_wise(const onnx_node_t *node, const tensor_info_t *x,
                            const tensor_info_t *slope)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t n = onnx_numel(node, slope);
    if (sym_knows_equal(ctx, n, 1)) return true;
    if (x->rank < 2 || !sym_knows_equal(ctx, n, x->sizes[1])) return false;
    if (node->opset < 7 && slope->rank == 1) return true;
    int dim = slope->rank - (x->rank - 1); /* the channel dimension of the slope */
    return dim >= 0 && dim <= 1 && sym_knows_equal(ctx, slope->sizes[dim], n);
}

status_t onnx_import_prelu(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0), slope = onnx_input_info(node, 1);
    int64_t n = onnx_numel(node, &slope);
    if (is_channel_wise(node, &x, &slope)) {
        item_t in[2] = {node->in[0], ITEM_NONE};
        TRY(onnx_reshape(node, node->in[1], 1, &n, &in[1]));
        return onnx_op(node, "prelu", NULL, 2, in, &node->out[0]);
    }
    item_t zero, above, below;
    TRY(onnx_number(node->onnx, 0.0, &zero));
    TRY(onnx_unary(node, "relu", node->in[0], &above));
    TRY(onnx_binary(node, "minimum", node->in[0], zero, &below));
    TRY(onnx_binary(node, "mul", below, node->in[1], &below));
    return onnx_binary(node, "add", above, below, &node->out[0]);
}

/* ---- arithmetic of two tensors ---- */

/* Before opset 7, the dimensions of the second operand correspond to those of the first from `axis`
 * on. */
static status_t line_up(onnx_node_t *node, item_t *b)
{
    bool broadcasts = false;
    int64_t axis = 0;
    *b = node->in[1];
    if (node->opset >= 7) return STATUS_OK;
    tensor_info_t info_a = onnx_input_info(node, 0), info_b = onnx_input_info(node, 1);
    TRY(onnx_attr_bool(node, "broadcast", false, &broadcasts));
    bool has_axis = onnx_has_attr(node, "axis");
    TRY(onnx_attr_int(node, "axis", 0, &axis));
    if (!broadcasts || !has_axis || info_b.rank == 0) return STATUS_OK;
    if (axis < 0) axis += info_a.rank;
    if (axis < 0 || axis + info_b.rank > info_a.rank)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld, ranks are %d and %d",
             (long long)axis, info_a.rank, info_b.rank);
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = info_a.rank - (int)axis;
    for (int i = 0; i < rank; i++) sizes[i] = i < info_b.rank ? info_b.sizes[i] : 1;
    return onnx_reshape(node, *b, rank, sizes, b);
}

status_t onnx_import_binary(onnx_node_t *node)
{
    item_t b;
    TRY(line_up(node, &b));
    return onnx_binary(node, node->op->own, node->in[0], b, &node->out[0]);
}

/* Quotients of integers are truncated. */
status_t onnx_import_div(onnx_node_t *node)
{
    item_t b;
    bool is_floating = dtype_is_floating(onnx_input_info(node, 0).dtype);
    TRY(line_up(node, &b));
    return onnx_binary(node, is_floating ? "div" : "div_trunc", node->in[0], b, &node->out[0]);
}

/* The remainder has the sign of the divisor; with fmod, that of the dividend. */
status_t onnx_import_mod(onnx_node_t *node)
{
    bool is_fmod = false;
    TRY(onnx_attr_bool(node, "fmod", false, &is_fmod));
    if (!is_fmod && dtype_is_floating(onnx_input_info(node, 0).dtype))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "floats need fmod");
    return onnx_binary(node, is_fmod ? "fmod" : "remainder", node->in[0], node->in[1],
                       &node->out[0]);
}

status_t onnx_import_bit_shift(onnx_node_t *node)
{
    static const char *const directions[] = {"LEFT", "RIGHT", NULL};
    int direction = -1;
    TRY(onnx_attr_name(node, "direction", directions, -1, &direction));
    if (direction < 0) FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "direction is missing");
    return onnx_binary(node, direction == 0 ? "bitwise_left_shift" : "bitwise_right_shift",
                       node->in[0], node->in[1], &node->out[0]);
}

status_t onnx_import_where(onnx_node_t *node)
{
    return onnx_op(node, "where", NULL, 3, node->in, &node->out[0]);
}

/* The result has the dtype of the first operand. */
status_t onnx_import_pow(onnx_node_t *node)
{
    item_t out, b;
    TRY(line_up(node, &b));
    TRY(onnx_binary(node, "pow", node->in[0], b, &out));
    return onnx_cast(node, out, onnx_input_info(node, 0).dtype, &node->out[0]);
}

/* ---- arithmetic of any number of tensors ---- */

status_t onnx_import_chain(onnx_node_t *node)
{
    item_t out = node->in[0];
    TRY(onnx_check_inputs(node, 0, node->n_in));
    for (int i = 1; i < node->n_in; i++)
        TRY(onnx_binary(node, node->op->own, out, node->in[i], &out));
    node->out[0] = out;
    return STATUS_OK;
}

status_t onnx_import_mean(onnx_node_t *node)
{
    item_t factor;
    TRY(onnx_import_chain(node));
    if (node->n_in == 1) return STATUS_OK;
    TRY(onnx_number(node->onnx, 1.0 / node->n_in, &factor));
    return onnx_binary(node, "mul", node->out[0], factor, &node->out[0]);
}

/* ---- copies and casts ---- */

/* Casts to dtype. If `narrow` is set, rounds to the values of that narrow type instead. */
static status_t cast(onnx_node_t *node, dtype_t dtype, int narrow)
{
    bool saturates = true;
    TRY(onnx_attr_bool(node, "saturate", true, &saturates));
    onnx_attr_ignore(node, "round_mode"); /* for FLOAT8E8M0 only, which is refused */
    if (narrow != 0) return onnx_narrow_round(node, narrow, node->in[0], saturates, &node->out[0]);
    return onnx_cast(node, node->in[0], dtype, &node->out[0]);
}

status_t onnx_import_cast(onnx_node_t *node)
{
    int64_t to = 0;
    int narrow = 0;
    dtype_t dtype = DTYPE_NONE;
    TRY(onnx_attr_int(node, "to", 0, &to));
    TRY(onnx_dtype_wide(node->onnx->ctx, to, &dtype, &narrow));
    return cast(node, dtype, narrow);
}

static bool is_integer(dtype_t dtype)
{
    return !dtype_is_floating(dtype) && dtype != DTYPE_BOOL;
}

/* A cast between integers of equal size keeps the bits. Any other cast needs a known input. */
status_t onnx_import_bit_cast(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t x = onnx_input_info(node, 0);
    int64_t to = 0;
    tensor_info_t info = {.dtype = DTYPE_NONE};
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(onnx_attr_int(node, "to", 0, &to));
    TRY(onnx_dtype(ctx, to, &info.dtype));
    if (dtype_size(info.dtype) != dtype_size(x.dtype))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s as %s, as many bits are needed",
             onnx_brief(node, &x), dtype_name(info.dtype));
    if (info.dtype == x.dtype || (is_integer(info.dtype) && is_integer(x.dtype)))
        return onnx_cast(node, node->in[0], info.dtype, &node->out[0]);
    const tensor_t *known = onnx_tensor_of(node->onnx, node->in[0]);
    if (known == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "the bits of %s as %s, where they depend on the data",
             onnx_brief(node, &x), dtype_name(info.dtype));
    info = info_dense(info.dtype, x.rank, x.sizes);
    TRY(tensor_make(ctx, &info, &tensor));
    status_t status = tensor_writable(ctx, tensor, &bytes);
    if (status == STATUS_OK) status = tensor_read(ctx, known, bytes, info_bytes(&info));
    if (status == STATUS_OK) return onnx_item_take(node->onnx, NULL, tensor, &node->out[0]);
    tensor_drop(tensor);
    return status;
}

/* Only the dtype of the second input is used. */
status_t onnx_import_cast_like(onnx_node_t *node)
{
    return cast(node, onnx_input_info(node, 1).dtype, node->onnx->items[node->in[1]].narrow);
}

status_t onnx_import_identity(onnx_node_t *node)
{
    node->out[0] = node->in[0];
    return STATUS_OK;
}

/* The mask is all true; before opset 10 it has x's dtype. Training needs ratio 0. */
status_t onnx_import_dropout(onnx_node_t *node)
{
    int n = 0;
    int64_t is_training = 0;
    double ratio = 0.5;
    onnx_attr_ignore(node, "seed");
    if (node->opset < 7) onnx_attr_ignore(node, "is_test");
    if (node->opset < 12) {
        onnx_attr_ignore(node, "ratio");
    } else {
        TRY(onnx_input_numbers(node, 2, "training_mode", 1, &n, &is_training));
        if (is_training != 0) TRY(onnx_input_floats(node, 1, "ratio", 1, &n, &ratio));
    }
    if (is_training != 0 && ratio != 0.0)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "it is in training mode");
    node->out[0] = node->in[0];
    if (!onnx_wants(node, 1)) return STATUS_OK;
    onnx_call_t call;
    onnx_call(node, "full_like", &call);
    onnx_set_float(&call, "value", 1.0);
    if (node->opset >= 10) onnx_set_int(&call, "dtype", DTYPE_BOOL);
    return onnx_emit(&call, 1, node->in, &node->out[1]);
}
