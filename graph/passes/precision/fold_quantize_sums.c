#include <math.h>

#include "graph/analysis/attribute_impl.h"
#include "graph/passes/precision/fold_quantize_impl.h"
#include "tensor/tensor_impl.h"

/* With scales s and zeros z of x, weight w, addend a and result y:
 *
 *   y = (sx sw (sum(x w) - zx sum(w)) + bias + sa (a - za)) / sy + zy
 *     = (sum(x w) + b) m + (sa / sy) a       m = sx sw / sy
 *                                            b = bias / (sx sw) - zx sum(w) + (zy - za sa / sy) / m
 */

static const tensor_t *plain(const tensor_t *tensor)
{
    const bool is_plain = tensor != NULL && tensor_layout(tensor) == LAYOUT_DENSE &&
                          info_is_contiguous(tensor_info(tensor));
    return is_plain ? tensor : NULL;
}

static const tensor_t *constant_of(const graph_t *graph, value_t value)
{
    const datum_t *datum = value < 0 ? NULL : graph_constant(graph, value);
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return NULL;
    return plain(datum_as_tensor(datum));
}

static const tensor_t *attribute_of(const graph_t *graph, module_t *const *objects, value_t value)
{
    const graph_node_t *node = value < 0 ? NULL : graph_producer(graph, value);
    attribute_t attribute;
    if (node == NULL || node->kind != NODE_GETATTR || node->inputs[0] < 0) return NULL;
    module_t *object = objects[node->inputs[0]];
    if (object == NULL || !attribute_find(object, node->name, &attribute)) return NULL;
    return plain(attribute_tensor(&attribute));
}

static bool load_number(const tensor_t *tensor, double *out_number)
{
    if (tensor == NULL || tensor_numel(tensor) != 1) return false;
    *out_number = dtype_load(tensor_dtype(tensor), tensor_bytes(tensor));
    return isfinite(*out_number);
}

static bool read_number(const graph_t *graph, value_t value, double otherwise, double *out_number)
{
    *out_number = otherwise;
    return value == VALUE_NONE || load_number(constant_of(graph, value), out_number);
}

bool fold_may_order(const graph_t *graph, module_t *const *objects, value_t scale)
{
    double number = 0.0;
    const tensor_t *tensor = constant_of(graph, scale);
    if (tensor == NULL && objects != NULL) tensor = attribute_of(graph, objects, scale);
    return load_number(tensor, &number) && number > 0.0;
}

typedef struct numbers {
    double x_scale, x_zero, addend_scale, addend_zero, scale, zero;
} numbers_t;

static bool read_numbers(const fold_conv_t *conv, numbers_t *n)
{
    const graph_t *graph = conv->graph;
    const bool is_read = read_number(graph, conv->x.scale, 1.0, &n->x_scale) &&
                         read_number(graph, conv->x.zero, 0.0, &n->x_zero) &&
                         read_number(graph, conv->addend.scale, 1.0, &n->addend_scale) &&
                         read_number(graph, conv->addend.zero, 0.0, &n->addend_zero) &&
                         read_number(graph, conv->result.scale, 1.0, &n->scale) &&
                         read_number(graph, conv->result.zero, 0.0, &n->zero);
    /* with a negative scale or a zero point other than 0, a relu would clip other numbers */
    const bool may_relu = !conv->has_relu || (n->scale > 0.0 && n->zero == 0.0);
    return is_read && may_relu && n->scale != 0.0 && n->x_scale != 0.0;
}

static double sum_weight(const int8_t *weight, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += weight[i];
    return (double)sum;
}

static double at(const tensor_t *tensor, int64_t channel)
{
    const size_t size = dtype_size(tensor_dtype(tensor));
    const size_t place = tensor_numel(tensor) == 1 ? 0 : (size_t)channel;
    return dtype_load(tensor_dtype(tensor), (const char *)tensor_bytes(tensor) + place * size);
}

/* True for a tensor of one element, or of one for each channel. */
static bool has_channels(const tensor_t *tensor, int64_t n)
{
    return tensor != NULL && tensor_dtype(tensor) == DTYPE_F32 &&
           (tensor_numel(tensor) == 1 || tensor_numel(tensor) == n);
}

static bool is_nothing(const tensor_t *tensor)
{
    bool is_nothing = tensor != NULL;
    for (int64_t i = 0; is_nothing && i < tensor_numel(tensor); i++)
        is_nothing = at(tensor, i) == 0.0;
    return is_nothing;
}

/* A bias: f32 elements, or s32 elements and their scales, as quantisers write them. */
typedef struct bias {
    const tensor_t *elements, *scale;
} bias_t;

static bool read_bias(const fold_conv_t *conv, int64_t n, bias_t *out_bias)
{
    const graph_node_t *node = conv->bias < 0 ? NULL : graph_producer(conv->graph, conv->bias);
    *out_bias = (bias_t){NULL, NULL};
    if (conv->bias == VALUE_NONE) return true;
    if (!rewrite_is_op(node, "dequantize")) {
        out_bias->elements = constant_of(conv->graph, conv->bias);
        return has_channels(out_bias->elements, n);
    }
    const int64_t *block_size = rewrite_attr(node, "block_size", ATTR_INT);
    out_bias->elements = constant_of(conv->graph, node->inputs[0]);
    out_bias->scale = constant_of(conv->graph, node->inputs[1]);
    const bool has_zero = node->n_inputs > 2 && node->inputs[2] != VALUE_NONE;
    if (has_zero && !is_nothing(constant_of(conv->graph, node->inputs[2]))) return false;
    return block_size != NULL && *block_size == 0 && out_bias->elements != NULL &&
           tensor_dtype(out_bias->elements) == DTYPE_S32 && tensor_numel(out_bias->elements) == n &&
           has_channels(out_bias->scale, n);
}

static double bias_at(const bias_t *bias, int64_t channel)
{
    if (bias->elements == NULL) return 0.0;
    return at(bias->elements, channel) * (bias->scale != NULL ? at(bias->scale, channel) : 1.0);
}

/* True if f32 can represent bias and multiplier, and the multiplier is not so small that adding the
 * bias would lose its digits. */
static bool fits(double bias, double multiplier)
{
    return fabs(bias) <= 0x1p100 && fabs(multiplier) <= 0x1p100 && fabs(multiplier) >= 0x1p-100;
}

int64_t fold_conv_channels(const fold_conv_t *conv)
{
    const tensor_t *weight = constant_of(conv->graph, conv->weight.integers);
    return weight == NULL || tensor_rank(weight) < 1 ? 0 : tensor_info(weight)->sizes[0];
}

bool fold_conv_sums(const fold_conv_t *conv, fold_sums_t *out_sums)
{
    const tensor_t *weight = constant_of(conv->graph, conv->weight.integers);
    const tensor_t *weight_scale = constant_of(conv->graph, conv->weight.scale);
    bias_t bias;
    const int64_t n = fold_conv_channels(conv);
    numbers_t numbers;
    if (n == 0 || tensor_numel(weight) == 0 || tensor_dtype(weight) != DTYPE_S8 ||
        !has_channels(weight_scale, n) || !read_numbers(conv, &numbers) ||
        !read_bias(conv, n, &bias))
        return false;
    const int64_t each = tensor_numel(weight) / n;
    const double addend_scale = conv->has_addend ? numbers.addend_scale / numbers.scale : 0.0;
    for (int64_t k = 0; k < n; k++) {
        const double scale = numbers.x_scale * at(weight_scale, k);
        const double multiplier = scale / numbers.scale;
        double sum = bias_at(&bias, k) / scale;
        if (numbers.x_zero != 0.0)
            sum -= numbers.x_zero *
                   sum_weight((const int8_t *)tensor_bytes(weight) + k * each, each);
        sum += (numbers.zero - numbers.addend_zero * addend_scale) / multiplier;
        if (!fits(sum, multiplier)) return false;
        if (out_sums->bias != NULL) out_sums->bias[k] = (float)sum;
        if (out_sums->multiplier != NULL) out_sums->multiplier[k] = (float)multiplier;
    }
    out_sums->addend_scale = addend_scale;
    out_sums->x_zero = (int)numbers.x_zero;
    return !conv->has_addend || (addend_scale != 0.0 && fits(0.0, addend_scale));
}
