#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "graph/passes/precision/fold_quantize_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/quantized/quantized.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Replaces operators between dequantize (D) and quantize (Q) by operators on integers. s is a
 * scale, z a zero point and w a weight:
 *
 *   Q(D(x, s, z), s, z)                       x
 *   Q(move(D(x, s, z)), s, z)                 move(x): reshape, permute, max_pool, concat, ..
 *   Q(conv(D(x), D(w), b)), Q(linear(..)),    requantize(conv_integer(x, w)), with the scales and b
 *     Q(matmul(..)), with or without a relu     as one multiplier and one bias per channel
 *   conv(D(x), D(w), b), ..                   D(conv_integer(x, w)) + b
 *
 * If x is u8 and all scales, zeros, w and b are constants, convolutions become one operator:
 *
 *   Q(conv(..)), Q(conv(..) + D(r)), with     conv_quantized(x, w, bias, multiplier, r)
 *     or without a relu; conv(..)
 *
 * dead_code removes unused nodes. A weight has one scale, or one for each output; other values have
 * one scale. Weights must be s8 without zero points, because oneDNN's kernels accept no others. */

typedef struct folding {
    const graph_t *graph;
    const alias_t *alias;
    rewrite_t *rewrite;
    bool *is_folded;    /* [n_values]: a convolution or product folded with the quantize after it */
    module_t **objects; /* [n_values]: the module that each value is; NULL: attributes are not
                           known */
} folding_t;

/* A tensor of integers with scale and zero: operands of a dequantize, or the result of a quantize
 * with its operands. zero may be VALUE_NONE. */
typedef struct quantized {
    value_t integers, scale, zero;
    dtype_t dtype;
    int rank;
    int dim; /* dimension with one scale for each index; -1: one scale for all */
} quantized_t;

/* ---- facts about values ---- */

static const tensor_info_t *info_of(const graph_t *graph, value_t value)
{
    const graph_type_t *type = value < 0 ? NULL : graph_value_type(graph, value);
    return type != NULL && type->kind == TYPE_TENSOR && type->has_info ? &type->info : NULL;
}

static bool is_one(const tensor_info_t *info)
{
    return info->rank == 0 || (info->rank == 1 && info->sizes[0] == 1);
}

static bool is_byte(dtype_t dtype)
{
    return dtype == DTYPE_S8 || dtype == DTYPE_U8;
}

static bool same_constants(const graph_t *graph, value_t a, value_t b)
{
    const datum_t *first = a < 0 ? NULL : graph_constant(graph, a);
    const datum_t *second = b < 0 ? NULL : graph_constant(graph, b);
    if (first == NULL || second == NULL || datum_kind(first) != DATUM_TENSOR ||
        datum_kind(second) != DATUM_TENSOR)
        return false;
    const tensor_t *x = datum_as_tensor(first), *y = datum_as_tensor(second);
    uint32_t bytes[2] = {0, 0};
    const size_t size = dtype_size(tensor_dtype(x));
    if (tensor_dtype(x) != tensor_dtype(y) || tensor_numel(x) != 1 || tensor_numel(y) != 1 ||
        size > sizeof *bytes || tensor_layout(x) != LAYOUT_DENSE ||
        tensor_layout(y) != LAYOUT_DENSE)
        return false;
    memcpy(&bytes[0], tensor_bytes(x), size);
    memcpy(&bytes[1], tensor_bytes(y), size);
    return bytes[0] == bytes[1];
}

/* True for the same value, the same attribute of a module, or equal one-element constants. */
static bool same_number(const graph_t *graph, value_t a, value_t b)
{
    if (a == b) return true;
    const graph_node_t *x = a < 0 ? NULL : graph_producer(graph, a);
    const graph_node_t *y = b < 0 ? NULL : graph_producer(graph, b);
    if (x == NULL || y == NULL || x->kind != y->kind) return false;
    if (x->kind == NODE_GETATTR)
        return x->inputs[0] == y->inputs[0] && strcmp(x->name, y->name) == 0;
    return same_constants(graph, a, b);
}

/* True for a constant whose elements are all 0. */
static bool is_nothing(const graph_t *graph, value_t value)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return false;
    const tensor_t *tensor = datum_as_tensor(datum);
    if (tensor_layout(tensor) != LAYOUT_DENSE || !info_is_contiguous(tensor_info(tensor)))
        return false;
    const char *bytes = tensor_bytes(tensor);
    bool is_nothing = true;
    for (size_t i = 0; i < info_bytes(tensor_info(tensor)); i++) is_nothing &= bytes[i] == 0;
    return is_nothing;
}

static bool is_written(const folding_t *folding, const graph_node_t *node)
{
    bool is_written = node->is_in_place;
    for (int i = 0; i < node->n_inputs; i++)
        is_written |= node->inputs[i] >= 0 && alias_is_mutated(folding->alias, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        is_written |= alias_is_mutated(folding->alias, node->outputs[i]);
    return is_written;
}

/* ---- dequantize and quantize ---- */

/* Reads scale and zero of a dequantize, or of a quantize whose result is `integers`. */
static bool read_pair(const folding_t *folding, const graph_node_t *node, value_t integers,
                      quantized_t *out)
{
    const graph_t *graph = folding->graph;
    const tensor_info_t *info = info_of(graph, integers);
    const tensor_info_t *scale = info_of(graph, node->inputs[1]);
    const int64_t *block_size = rewrite_attr(node, "block_size", ATTR_INT);
    const int64_t *dim = rewrite_attr(node, "dim", ATTR_INT);
    value_t zero = node->n_inputs > 2 ? node->inputs[2] : VALUE_NONE;
    int at = -1;
    if (is_nothing(graph, zero)) zero = VALUE_NONE;
    const tensor_info_t *zeros = info_of(graph, zero);
    if (info == NULL || scale == NULL || block_size == NULL || *block_size != 0 || dim == NULL ||
        is_written(folding, node) || scale->dtype != DTYPE_F32 || !is_byte(info->dtype))
        return false;
    if (zero != VALUE_NONE && (zeros == NULL || zeros->dtype != info->dtype || !is_one(zeros)))
        return false;
    if (!is_one(scale) && !shape_dim(info->rank, *dim, &at)) return false;
    *out = (quantized_t){.integers = integers,
                         .scale = node->inputs[1],
                         .zero = zero,
                         .dtype = info->dtype,
                         .rank = info->rank,
                         .dim = at};
    return true;
}

static bool find_dequantize(const folding_t *folding, value_t value, quantized_t *out)
{
    const graph_node_t *node = value < 0 ? NULL : graph_producer(folding->graph, value);
    return rewrite_is_op(node, "dequantize") && read_pair(folding, node, node->inputs[0], out);
}

/* Finds the dequantize that produces an activation. False if there is none, or if it has more than
 * one scale. */
static bool find_whole(const folding_t *folding, value_t value, quantized_t *out)
{
    return find_dequantize(folding, value, out) && out->dim < 0;
}

static bool same_pair(const graph_t *graph, const quantized_t *a, const quantized_t *b)
{
    return a->dtype == b->dtype && same_number(graph, a->scale, b->scale) &&
           same_number(graph, a->zero, b->zero);
}

/* ---- products ---- */

typedef struct product {
    const graph_node_t *node;
    const opdef_t *op; /* the operator that computes it on integers */
    quantized_t x, weight;
    value_t bias;  /* f32, one element per output, or VALUE_NONE */
    int dim;       /* dimension of the outputs in the result */
    bool permutes; /* the weight is [outputs][inputs] and must be transposed */
} product_t;

static const char *const integer_convs[] = {NULL, "conv1d_integer", "conv2d_integer",
                                            "conv3d_integer"};

/* Finds the weight of a linear layer. The integer operator needs [inputs][outputs], which w already
 * has if the layer's weight is permute(D(w)). */
static bool find_rows(const folding_t *folding, value_t value, product_t *product)
{
    const graph_node_t *node = graph_producer(folding->graph, value);
    product->permutes = !rewrite_is_op(node, "permute");
    if (product->permutes)
        return find_dequantize(folding, value, &product->weight) && product->weight.dim <= 0;
    const ints_t *dims = rewrite_attr(node, "dims", ATTR_INTS);
    return dims != NULL && dims->n == 2 && dims->values[0] == 1 && !is_written(folding, node) &&
           find_dequantize(folding, node->inputs[0], &product->weight) && product->weight.dim != 0;
}

static bool find_weight(const folding_t *folding, const graph_node_t *node, product_t *product)
{
    const int n_spatial = rewrite_conv(node);
    quantized_t *weight = &product->weight;
    if (n_spatial > 0) {
        product->op = ops_find(integer_convs[n_spatial]);
        product->dim = 1;
        return find_dequantize(folding, node->inputs[1], weight) && weight->dim <= 0;
    }
    product->op = ops_find("matmul_integer");
    product->dim = -1;
    if (rewrite_is_op(node, "linear"))
        return find_rows(folding, node->inputs[1], product) && weight->rank == 2;
    return rewrite_is_op(node, "matmul") && find_dequantize(folding, node->inputs[1], weight) &&
           weight->rank == 2 && weight->dim != 0;
}

static bool has_flag(const graph_node_t *node, const char *name)
{
    const bool *flag = rewrite_attr(node, name, ATTR_BOOL);
    return flag != NULL && *flag;
}

/* True if each sum of products of 8-bit integers fits s32. */
static bool sum_fits(const graph_t *graph, const opdef_t *op, value_t x_integers,
                     value_t weight_integers)
{
    const tensor_info_t *x = info_of(graph, x_integers);
    const tensor_info_t *weight = info_of(graph, weight_integers);
    if (x == NULL || weight == NULL || x->rank < 1 || weight->rank < 1) return false;
    const bool is_conv = strncmp(op->name, "conv", 4) == 0;
    const int64_t n_outputs = weight->sizes[0];
    const int64_t n = is_conv ? (n_outputs > 0 ? info_numel(weight) / n_outputs : 0)
                              : x->sizes[x->rank - 1];
    return n >= 0 && n <= INT32_MAX / (255 * 128);
}

/* Matches a product of dequantized integers that an operator on integers can compute. */
static bool find_product(const folding_t *folding, const graph_node_t *node, product_t *out)
{
    product_t product = {.node = node, .bias = VALUE_NONE};
    const post_ops_t *post = node != NULL && node->kind == NODE_OP ? rewrite_post(node) : NULL;
    if (node == NULL || node->kind != NODE_OP || node->n_inputs < 2 || node->n_sized > 0 ||
        (post != NULL && post->n > 0) || has_flag(node, "flatten") || is_written(folding, node) ||
        !find_weight(folding, node, &product) || product.op == NULL ||
        !find_whole(folding, node->inputs[0], &product.x) || product.weight.dtype != DTYPE_S8 ||
        product.weight.zero != VALUE_NONE ||
        !sum_fits(folding->graph, product.op, product.x.integers, product.weight.integers))
        return false;
    if (node->n_inputs > 2) product.bias = node->inputs[2];
    const tensor_info_t *bias = info_of(folding->graph, product.bias);
    if (product.bias != VALUE_NONE && (bias == NULL || bias->dtype != DTYPE_F32 || bias->rank != 1))
        return false;
    *out = product;
    return true;
}

/* ---- emitting ---- */

static value_t emit(folding_t *folding, const graph_node_t *at, const char *op, const void *attrs,
                    int n, const value_t *inputs)
{
    return graph_add_op(folding->rewrite->to, ops_find(op), attrs, n, inputs, at->path);
}

static value_t emit_two(folding_t *folding, const graph_node_t *at, const char *op, value_t a,
                        value_t b)
{
    return emit(folding, at, op, NULL, 2, (const value_t[]){a, b});
}

/* Values for the attributes `dim`, `dtype` and `relu`, where the operator has them. Its other
 * attributes keep their defaults. */
typedef struct settings {
    int64_t dim;
    dtype_t dtype;
    bool relu;
} settings_t;

static status_t emit_with(folding_t *folding, const graph_node_t *at, const char *op,
                          const settings_t *settings, int n, const value_t *inputs,
                          value_t *out_value)
{
    const graph_node_t node = {.kind = NODE_OP, .op = ops_find(op)};
    void *attrs = NULL;
    TRY(context_get(folding->rewrite->ctx, node.op->attrs.bytes, "attributes", &attrs));
    attrs_init(&node.op->attrs, attrs);
    int64_t *dim = rewrite_attr_in(&node, attrs, "dim", ATTR_INT);
    dtype_t *dtype = rewrite_attr_in(&node, attrs, "dtype", ATTR_DTYPE);
    bool *relu = rewrite_attr_in(&node, attrs, "relu", ATTR_BOOL);
    if (dim != NULL) *dim = settings->dim;
    if (dtype != NULL) *dtype = settings->dtype;
    if (relu != NULL) *relu = settings->relu;
    *out_value = emit(folding, at, op, attrs, n, inputs);
    context_put(folding->rewrite->ctx, attrs);
    return STATUS_OK;
}

static status_t emit_transposed(folding_t *folding, const graph_node_t *at, value_t *value)
{
    const graph_node_t node = {.kind = NODE_OP, .op = ops_find("permute")};
    void *attrs = NULL;
    TRY(context_get(folding->rewrite->ctx, node.op->attrs.bytes, "attributes", &attrs));
    attrs_init(&node.op->attrs, attrs);
    *(ints_t *)rewrite_attr_in(&node, attrs, "dims", ATTR_INTS) = (ints_t){.n = 2,
                                                                           .values = {1, 0}};
    *value = emit(folding, at, "permute", attrs, 1, value);
    context_put(folding->rewrite->ctx, attrs);
    return STATUS_OK;
}

/* Adds nodes that compute the s32 sums of products, and the sums' scale. */
static status_t emit_sums(folding_t *folding, const product_t *product, value_t *out_sums,
                          value_t *out_scale)
{
    const rewrite_t *rewrite = folding->rewrite;
    const bool is_conv = rewrite_conv(product->node) > 0;
    value_t weight = rewrite_value(rewrite, product->weight.integers);
    conv_attrs_t attrs;
    if (product->permutes) TRY(emit_transposed(folding, product->node, &weight));
    if (is_conv) {
        memcpy(&attrs, product->node->attrs, sizeof attrs);
        attrs.algorithm = 0;
    }
    const value_t inputs[] = {rewrite_value(rewrite, product->x.integers), weight,
                              rewrite_value(rewrite, product->x.zero), VALUE_NONE};
    *out_sums = emit(folding, product->node, product->op->name, is_conv ? &attrs : NULL, 4, inputs);
    *out_scale = emit_two(folding, product->node, "mul", rewrite_value(rewrite, product->x.scale),
                          rewrite_value(rewrite, product->weight.scale));
    return STATUS_OK;
}

/* Adds nodes that compute Q(product), or Q(relu(product)). */
static status_t emit_requantized(folding_t *folding, const graph_node_t *node,
                                 const product_t *product, const quantized_t *result, bool has_relu)
{
    const rewrite_t *rewrite = folding->rewrite;
    const value_t scale = rewrite_value(rewrite, result->scale);
    const settings_t settings = {product->dim, result->dtype, has_relu};
    value_t inputs[4] = {VALUE_NONE, VALUE_NONE, rewrite_value(rewrite, result->zero), VALUE_NONE};
    value_t value = VALUE_NONE;
    TRY(emit_sums(folding, product, &inputs[0], &inputs[1]));
    inputs[1] = emit_two(folding, product->node, "div", inputs[1], scale);
    if (product->bias != VALUE_NONE)
        inputs[3] = emit_two(folding, product->node, "div", rewrite_value(rewrite, product->bias),
                             scale);
    TRY(emit_with(folding, product->node, "requantize", &settings, 4, inputs, &value));
    rewrite_map(folding->rewrite, node->outputs[0], value);
    return STATUS_OK;
}

/* Reshapes a convolution's bias so that it broadcasts with the result. */
static status_t emit_planes(folding_t *folding, const product_t *product, value_t *bias)
{
    const graph_node_t node = {.kind = NODE_OP, .op = ops_find("reshape")};
    const int n_spatial = rewrite_conv(product->node);
    void *attrs = NULL;
    if (n_spatial == 0) return STATUS_OK;
    TRY(context_get(folding->rewrite->ctx, node.op->attrs.bytes, "attributes", &attrs));
    attrs_init(&node.op->attrs, attrs);
    ints_t *sizes = rewrite_attr_in(&node, attrs, "sizes", ATTR_INTS);
    *sizes = (ints_t){.n = n_spatial + 1, .values = {-1, 1, 1, 1}};
    *bias = emit(folding, product->node, "reshape", attrs, 1, bias);
    context_put(folding->rewrite->ctx, attrs);
    return STATUS_OK;
}

/* ---- convolutions as one operator ---- */

static const char *const quantized_convs[] = {NULL, "conv1d_quantized", "conv2d_quantized",
                                              "conv3d_quantized"};

/* Number of spatial dimensions of a convolution, on floats or integers. */
static int count_spatial(const graph_node_t *conv)
{
    int n = rewrite_conv(conv);
    for (int i = 1; i <= 3 && n == 0; i++) n = rewrite_is_op(conv, integer_convs[i]) ? i : 0;
    return n;
}

static bool pads(const graph_node_t *conv)
{
    const conv_attrs_t *attrs = conv->attrs;
    bool pads = false;
    for (int i = 0; i < count_spatial(conv); i++)
        pads |= attrs->padding[i] > 0 || attrs->extra_padding[i] > 0;
    return pads;
}

static fold_pair_t pair_of(const quantized_t *quantized)
{
    return (fold_pair_t){quantized->integers, quantized->scale, quantized->zero};
}

/* Describes a convolution as one operator; false if that is not possible. addend and result may be
 * NULL. */
static bool describe_conv(const folding_t *folding, const product_t *product,
                          const quantized_t *addend, const quantized_t *result, bool has_relu,
                          fold_conv_t *out_conv)
{
    static const fold_pair_t none = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    fold_sums_t sums = {NULL, NULL, 0.0, 0};
    *out_conv = (fold_conv_t){.graph = folding->graph,
                              .x = pair_of(&product->x),
                              .weight = pair_of(&product->weight),
                              .addend = addend != NULL ? pair_of(addend) : none,
                              .result = result != NULL ? pair_of(result) : none,
                              .bias = product->bias,
                              .has_addend = addend != NULL,
                              .has_relu = has_relu};
    return rewrite_conv(product->node) > 0 && product->x.dtype == DTYPE_U8 &&
           fold_conv_sums(out_conv, &sums);
}

static value_t add_channels(rewrite_t *rewrite, int64_t n, const float *elements)
{
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    value_t value = VALUE_NONE;
    status_t status = tensor_from(rewrite->ctx, DTYPE_F32, 1, &n, elements, &tensor);
    if (status == STATUS_OK) status = datum_tensor(rewrite->ctx, tensor, &datum);
    if (status == STATUS_OK)
        value = graph_add_constant(rewrite->to, datum, NULL);
    else
        graph_builder_fail(rewrite->to, status);
    datum_release(datum);
    scope_take(rewrite->ctx, tensor);
    tensor_drop(tensor);
    return value;
}

/* Pads x with the integer `zero`, which represents 0; the convolution would pad with integer 0. */
static status_t emit_padded(folding_t *folding, const graph_node_t *node, int zero,
                            conv_attrs_t *attrs, value_t *x)
{
    const graph_node_t pad = {.kind = NODE_OP, .op = ops_find("pad")};
    const int n_spatial = count_spatial(node);
    void *made = NULL;
    TRY(context_get(folding->rewrite->ctx, pad.op->attrs.bytes, "attributes", &made));
    attrs_init(&pad.op->attrs, made);
    ints_t *before = rewrite_attr_in(&pad, made, "before", ATTR_INTS);
    ints_t *after = rewrite_attr_in(&pad, made, "after", ATTR_INTS);
    *before = *after = (ints_t){.n = n_spatial + 2};
    for (int i = 0; i < n_spatial; i++) {
        before->values[2 + i] = attrs->padding[i];
        after->values[2 + i] = attrs->padding[i] + attrs->extra_padding[i];
        attrs->padding[i] = attrs->extra_padding[i] = 0;
    }
    *(double *)rewrite_attr_in(&pad, made, "value", ATTR_FLOAT) = zero;
    *x = emit(folding, node, "pad", made, 1, x);
    context_put(folding->rewrite->ctx, made);
    return STATUS_OK;
}

static status_t emit_conv_of(folding_t *folding, const graph_node_t *node, const fold_conv_t *conv,
                             dtype_t dtype, const fold_sums_t *sums, value_t *out_value)
{
    const rewrite_t *rewrite = folding->rewrite;
    const int64_t n = fold_conv_channels(conv);
    conv_quantized_attrs_t attrs = {.dtype = dtype,
                                    .relu = conv->has_relu,
                                    .addend_scale = conv->has_addend ? sums->addend_scale : 1.0};
    value_t inputs[5] = {rewrite_value(rewrite, conv->x.integers),
                         rewrite_value(rewrite, conv->weight.integers), VALUE_NONE, VALUE_NONE,
                         rewrite_value(rewrite, conv->addend.integers)};
    memcpy(&attrs.conv, node->attrs, sizeof attrs.conv);
    attrs.conv.algorithm = 0;
    if (sums->x_zero != 0 && pads(node))
        TRY(emit_padded(folding, node, sums->x_zero, &attrs.conv, &inputs[0]));
    inputs[2] = add_channels(folding->rewrite, n, sums->bias);
    inputs[3] = add_channels(folding->rewrite, n, sums->multiplier);
    *out_value = emit(folding, node, quantized_convs[count_spatial(node)], &attrs, 5, inputs);
    return STATUS_OK;
}

/* Adds the convolution as one operator. node: the original convolution. */
static status_t emit_conv(folding_t *folding, const graph_node_t *node, const fold_conv_t *conv,
                          dtype_t dtype, value_t stands_for)
{
    context_t *ctx = folding->rewrite->ctx;
    const size_t n = (size_t)fold_conv_channels(conv);
    fold_sums_t sums = {NULL, NULL, 0.0, 0};
    value_t value = VALUE_NONE;
    TRY(context_get(ctx, 2 * n * sizeof(float), "multipliers", &sums.bias));
    sums.multiplier = sums.bias + n;
    (void)fold_conv_sums(conv, &sums);
    status_t status = emit_conv_of(folding, node, conv, dtype, &sums, &value);
    context_put(ctx, sums.bias);
    TRY(status);
    rewrite_map(folding->rewrite, stands_for, value);
    return STATUS_OK;
}

/* Replaces a product whose result is not quantized. */
static status_t emit_numbers(folding_t *folding, const product_t *product)
{
    const settings_t settings = {.dim = product->dim};
    value_t inputs[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE}, value = VALUE_NONE;
    fold_conv_t conv;
    if (describe_conv(folding, product, NULL, NULL, false, &conv))
        return emit_conv(folding, product->node, &conv, DTYPE_F32, product->node->outputs[0]);
    TRY(emit_sums(folding, product, &inputs[0], &inputs[1]));
    TRY(emit_with(folding, product->node, "dequantize", &settings, 3, inputs, &value));
    if (product->bias != VALUE_NONE) {
        value_t bias = rewrite_value(folding->rewrite, product->bias);
        TRY(emit_planes(folding, product, &bias));
        value = emit_two(folding, product->node, "add", value, bias);
    }
    rewrite_map(folding->rewrite, product->node->outputs[0], value);
    return STATUS_OK;
}

/* ---- operators before a quantize ---- */

/* The node whose result only a quantize reads, directly or through a relu. The relu is accepted
 * only if the scale is positive: with a negative scale, a relu on integers would clip the wrong
 * numbers. */
static const graph_node_t *find_read(const folding_t *folding, const graph_node_t *quantize,
                                     const quantized_t *result, bool *out_has_relu)
{
    const graph_t *graph = folding->graph;
    value_t value = quantize->inputs[0];
    const graph_node_t *node = graph_producer(graph, value);
    *out_has_relu = rewrite_is_op(node, "relu") && graph_n_uses(graph, value) == 1 &&
                    !is_written(folding, node) &&
                    fold_may_order(graph, folding->objects, result->scale);
    if (*out_has_relu) value = node->inputs[0];
    return graph_n_uses(graph, value) == 1 ? graph_producer(graph, value) : NULL;
}

/* The product whose result only a quantize reads, directly or through a relu. */
static bool find_source(const folding_t *folding, const graph_node_t *quantize,
                        const quantized_t *result, product_t *out, bool *out_has_relu)
{
    return find_product(folding, find_read(folding, quantize, result, out_has_relu), out);
}

/* Matches a convolution plus dequantized integers of the result's dtype. Nothing else reads the
 * convolution. */
static bool find_sum(const folding_t *folding, const graph_node_t *quantize,
                     const quantized_t *result, product_t *out_product, fold_conv_t *out_conv)
{
    const graph_t *graph = folding->graph;
    bool has_relu = false;
    const graph_node_t *add = find_read(folding, quantize, result, &has_relu);
    const tensor_info_t *sum = info_of(graph, quantize->inputs[0]);
    if (!rewrite_is_op(add, "add") || add->n_inputs != 2 || is_written(folding, add) || sum == NULL)
        return false;
    for (int i = 0; i < 2; i++) {
        quantized_t addend;
        const value_t value = add->inputs[i], other = add->inputs[1 - i];
        const tensor_info_t *a = info_of(graph, value), *b = info_of(graph, other);
        if (graph_n_uses(graph, value) != 1 || a == NULL || b == NULL ||
            !shape_equal(a->rank, a->sizes, sum->rank, sum->sizes) ||
            !shape_equal(b->rank, b->sizes, sum->rank, sum->sizes) ||
            !find_product(folding, graph_producer(graph, value), out_product) ||
            !find_whole(folding, other, &addend) || addend.dtype != result->dtype)
            continue;
        if (describe_conv(folding, out_product, &addend, result, has_relu, out_conv)) return true;
    }
    return false;
}

/* True for operators that only move elements of their first operand (concat: of all operands). */
static bool moves(const graph_node_t *node)
{
    static const char *const names[] = {"max_pool1d",      "max_pool2d", "max_pool3d", "gather",
                                        "gather_elements", "gather_nd",  "flip",       "roll",
                                        "concat"};
    if (node == NULL || node->kind != NODE_OP || node->n_outputs != 1) return false;
    bool moves = (node->op->traits & TRAIT_VIEW) != 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        moves |= rewrite_is_op(node, names[i]);
    return moves;
}

/* Matches a moving operator that only this quantize reads. Its operand must be dequantized with the
 * scale and zero of the quantize. */
static bool find_move(const folding_t *folding, const graph_node_t *quantize,
                      const quantized_t *result, const graph_node_t **out_node)
{
    const graph_t *graph = folding->graph;
    const graph_node_t *node = graph_producer(graph, quantize->inputs[0]);
    quantized_t source;
    if (!moves(node) || graph_n_uses(graph, quantize->inputs[0]) != 1 || is_written(folding, node))
        return false;
    if (strncmp(node->op->name, "max_pool", 8) == 0 &&
        !fold_may_order(graph, folding->objects, result->scale))
        return false; /* a max_pool would find the smallest number */
    const int n = rewrite_is_op(node, "concat") ? node->n_inputs : 1;
    for (int i = 0; i < n; i++)
        if (!find_whole(folding, node->inputs[i], &source) || !same_pair(graph, &source, result))
            return false;
    *out_node = node;
    return true;
}

static status_t emit_move(folding_t *folding, const graph_node_t *node, value_t stands_for)
{
    value_t inputs[OP_MAX_INPUTS];
    const int n = rewrite_is_op(node, "concat") ? node->n_inputs : 1;
    quantized_t source;
    for (int i = 0; i < node->n_inputs; i++) {
        const bool is_moved = i < n && find_whole(folding, node->inputs[i], &source);
        inputs[i] = rewrite_value(folding->rewrite, is_moved ? source.integers : node->inputs[i]);
    }
    return rewrite_emit(folding->rewrite, node, inputs, &stands_for);
}

static status_t fold_quantize(folding_t *folding, const graph_node_t *node, bool *out_done)
{
    quantized_t result, source;
    product_t product;
    fold_conv_t conv;
    const graph_node_t *moving = NULL;
    bool has_relu = false;
    *out_done = read_pair(folding, node, node->outputs[0], &result) && result.dim < 0;
    if (!*out_done) return STATUS_OK;
    if (find_whole(folding, node->inputs[0], &source) &&
        same_pair(folding->graph, &source, &result)) {
        rewrite_map(folding->rewrite, node->outputs[0],
                    rewrite_value(folding->rewrite, source.integers));
        return STATUS_OK;
    }
    if (find_sum(folding, node, &result, &product, &conv))
        return emit_conv(folding, product.node, &conv, result.dtype, node->outputs[0]);
    if (find_source(folding, node, &result, &product, &has_relu))
        return describe_conv(folding, &product, NULL, &result, has_relu, &conv)
                   ? emit_conv(folding, product.node, &conv, result.dtype, node->outputs[0])
                   : emit_requantized(folding, node, &product, &result, has_relu);
    if (find_move(folding, node, &result, &moving))
        return emit_move(folding, moving, node->outputs[0]);
    *out_done = false;
    return STATUS_OK;
}

/* Matches requantize(conv_integer(x, w)): in an earlier round, an operand was not yet constant, so
 * the convolution could not become one operator. */
static bool find_requantized(const folding_t *folding, const graph_node_t *node,
                             const graph_node_t **out_conv, fold_conv_t *out)
{
    const graph_t *graph = folding->graph;
    const graph_node_t *conv = graph_producer(graph, node->inputs[0]);
    const tensor_info_t *x = NULL, *bias = NULL;
    int n_spatial = 1;
    fold_sums_t sums = {NULL, NULL, 0.0, 0};
    if (conv == NULL || conv->kind != NODE_OP || graph_n_uses(graph, node->inputs[0]) != 1 ||
        node->n_sized > 0 || conv->n_sized > 0 || is_written(folding, node) ||
        is_written(folding, conv))
        return false;
    while (n_spatial <= 3 && !rewrite_is_op(conv, integer_convs[n_spatial])) n_spatial++;
    if (n_spatial > 3) return false;
    x = info_of(graph, conv->inputs[0]);
    bias = info_of(graph, node->inputs[3]);
    const int64_t *dim = rewrite_attr(node, "dim", ATTR_INT);
    if (x == NULL || x->dtype != DTYPE_U8 || conv->inputs[3] != VALUE_NONE || dim == NULL ||
        *dim != 1 || !sum_fits(graph, conv->op, conv->inputs[0], conv->inputs[1]) ||
        (node->inputs[3] != VALUE_NONE && (bias == NULL || bias->dtype != DTYPE_F32)))
        return false;
    *out_conv = conv;
    *out = (fold_conv_t){.graph = graph,
                         .x = {conv->inputs[0], VALUE_NONE, conv->inputs[2]},
                         .weight = {conv->inputs[1], node->inputs[1], VALUE_NONE},
                         .addend = {VALUE_NONE, VALUE_NONE, VALUE_NONE},
                         .result = {VALUE_NONE, VALUE_NONE, node->inputs[2]},
                         .bias = node->inputs[3],
                         .has_relu = has_flag(node, "relu")};
    return fold_conv_sums(out, &sums);
}

static status_t fold_requantize(folding_t *folding, const graph_node_t *node, bool *out_done)
{
    fold_conv_t conv;
    const graph_node_t *sums = NULL;
    const tensor_info_t *result = info_of(folding->graph, node->outputs[0]);
    *out_done = result != NULL && is_byte(result->dtype) &&
                find_requantized(folding, node, &sums, &conv);
    return *out_done ? emit_conv(folding, sums, &conv, result->dtype, node->outputs[0]) : STATUS_OK;
}

/* ---- pass ---- */

static status_t note_quantize(void *user, const graph_node_t *node)
{
    folding_t *folding = user;
    quantized_t result;
    product_t product;
    fold_conv_t conv;
    bool has_relu;
    if (rewrite_is_op(node, "quantize") && read_pair(folding, node, node->outputs[0], &result) &&
        result.dim < 0 &&
        (find_sum(folding, node, &result, &product, &conv) ||
         find_source(folding, node, &result, &product, &has_relu)))
        folding->is_folded[product.node->outputs[0]] = true;
    return STATUS_OK;
}

static status_t fold_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    folding_t *folding = rewrite->user;
    product_t product;
    folding->rewrite = rewrite;
    if (rewrite_is_op(node, "quantize")) return fold_quantize(folding, node, out_done);
    if (rewrite_is_op(node, "requantize")) return fold_requantize(folding, node, out_done);
    if (!find_product(folding, node, &product) || folding->is_folded[node->outputs[0]])
        return STATUS_OK;
    *out_done = true;
    return emit_numbers(folding, &product);
}

status_t pass_fold_quantize(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                            graph_t **out_graph)
{
    folding_t folding = {.graph = graph};
    TRY(alias_of(ctx, graph, &folding.alias));
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof *folding.is_folded,
                           "products before a quantize", &folding.is_folded));
    status_t status = STATUS_OK;
    if (options != NULL && options->knows_self && options->self != NULL)
        status = attribute_objects(ctx, graph, options->self, &folding.objects);
    if (status == STATUS_OK) {
        (void)rewrite_visit(graph_body(graph), note_quantize, &folding);
        status = rewrite_graph(ctx, graph, fold_node, &folding, out_graph);
    }
    CONTEXT_PUT(ctx, (void *)folding.objects, folding.is_folded);
    return status;
}
