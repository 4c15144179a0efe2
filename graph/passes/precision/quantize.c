#include <math.h>
#include <stdalign.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/passes/precision/quantize_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Makes products read their inputs as 8-bit integers. D is dequantize and Q is quantize:
 *
 *   conv(x, w, b)      conv(D(Q(x)), D(w as s8), b)
 *
 * Scales are computed from the ranges in the options. fold_quantize then computes the product on
 * integers, as for imported graphs that contain such pairs. */

typedef struct quantizing {
    quantize_sites_t sites;
    value_t *numbers; /* [graph_n_values]: D(Q(value)) as a value of the new graph, or VALUE_NONE */
    value_t *scales;  /* [graph_n_values]: the scale, at the value that stands for its group */
    value_t *zeros;
} quantizing_t;

/* ---- weights ---- */

/* Elements with the same scale: `outer` runs, `step` apart, of `inner` adjacent elements. */
typedef struct stretch {
    int64_t outer, inner, step;
} stretch_t;

static stretch_t stretch_of(const tensor_info_t *info, int dim)
{
    stretch_t stretch = {1, 1, 0};
    for (int d = 0; d < dim; d++) stretch.outer *= info->sizes[d];
    for (int d = dim + 1; d < info->rank; d++) stretch.inner *= info->sizes[d];
    stretch.step = stretch.inner * info->sizes[dim];
    return stretch;
}

static float scale_weight(const stretch_t *stretch, const float *weight, int8_t *out)
{
    float most = 0.0f;
    for (int64_t o = 0; o < stretch->outer; o++)
        for (int64_t i = 0; i < stretch->inner; i++)
            most = fmaxf(most, fabsf(weight[o * stretch->step + i]));
    const float scale = most / 127.0f >= 0x1p-120f ? most / 127.0f : 1.0f;
    for (int64_t o = 0; o < stretch->outer; o++)
        for (int64_t i = 0; i < stretch->inner; i++) {
            const float rounded = nearbyintf(weight[o * stretch->step + i] / scale);
            out[o * stretch->step + i] = (int8_t)fminf(127.0f, fmaxf(-127.0f, rounded));
        }
    return scale;
}

static void drop(context_t *ctx, tensor_t *tensor)
{
    scope_take(ctx, tensor);
    tensor_drop(tensor);
}

status_t quantize_weight(context_t *ctx, const tensor_t *weight, int dim, tensor_t **out_integers,
                         tensor_t **out_scales)
{
    const tensor_info_t *info = tensor_info(weight);
    const stretch_t stretch = stretch_of(info, dim);
    tensor_t *integers = NULL, *scales = NULL;
    TRY(tensor_empty(ctx, DTYPE_S8, info->rank, info->sizes, &integers));
    status_t status = tensor_empty(ctx, DTYPE_F32, 1, &info->sizes[dim], &scales);
    void *to = NULL, *scale = NULL;
    if (status == STATUS_OK) status = tensor_data_mutable(ctx, integers, &to);
    if (status == STATUS_OK) status = tensor_data_mutable(ctx, scales, &scale);
    if (status != STATUS_OK) {
        drop(ctx, integers);
        drop(ctx, scales);
        return status;
    }
    for (int64_t k = 0; k < info->sizes[dim]; k++)
        ((float *)scale)[k] = scale_weight(&stretch,
                                           (const float *)tensor_bytes(weight) + k * stretch.inner,
                                           (int8_t *)to + k * stretch.inner);
    *out_integers = integers;
    *out_scales = scales;
    return STATUS_OK;
}

/* ---- constants ---- */

static value_t add_tensor(rewrite_t *rewrite, status_t status, tensor_t *tensor)
{
    datum_t *datum = NULL;
    value_t value = VALUE_NONE;
    if (status == STATUS_OK) status = datum_tensor(rewrite->ctx, tensor, &datum);
    if (status == STATUS_OK)
        value = graph_add_constant(rewrite->to, datum, NULL);
    else
        graph_builder_fail(rewrite->to, status);
    datum_release(datum);
    drop(rewrite->ctx, tensor);
    return value;
}

static value_t add_number(rewrite_t *rewrite, dtype_t dtype, double number)
{
    tensor_t *tensor = NULL;
    status_t status = tensor_full(rewrite->ctx, dtype, 0, NULL, number, &tensor);
    return add_tensor(rewrite, status, tensor);
}

/* ---- pairs ---- */

static value_t add_with(rewrite_t *rewrite, const char *name, dtype_t dtype, int dim, int n,
                        const value_t *inputs, const char *path)
{
    alignas(16) char attrs[ATTRS_MAX];
    const graph_node_t node = {.kind = NODE_OP, .op = ops_find(name)};
    attrs_init(&node.op->attrs, attrs);
    dtype_t *of = rewrite_attr_in(&node, attrs, "dtype", ATTR_DTYPE);
    if (of != NULL) *of = dtype;
    if (dim >= 0) *(int64_t *)rewrite_attr_in(&node, attrs, "dim", ATTR_INT) = dim;
    return graph_add_op(rewrite->to, node.op, attrs, n, inputs, path);
}

/* Adds D(Q(value)). Once for each value is enough, because all readers are in one block. */
static value_t through_integers(rewrite_t *rewrite, value_t old, const char *path)
{
    quantizing_t *quantizing = rewrite->user;
    if (quantizing->numbers[old] != VALUE_NONE) return quantizing->numbers[old];
    const value_t group = quantize_group(&quantizing->sites, old);
    const quantize_site_t *site = &quantizing->sites.items[group];
    if (quantizing->scales[group] == VALUE_NONE) {
        quantizing->scales[group] = add_number(rewrite, DTYPE_F32, (double)site->scale);
        if (site->zero != 0)
            quantizing->zeros[group] = add_number(rewrite, site->dtype, (double)site->zero);
    }
    value_t inputs[] = {rewrite_value(rewrite, old), quantizing->scales[group],
                        quantizing->zeros[group]};
    inputs[0] = add_with(rewrite, "quantize", site->dtype, -1, 3, inputs, path);
    return quantizing->numbers[old] = add_with(rewrite, "dequantize", DTYPE_NONE, -1, 3, inputs,
                                               path);
}

static status_t weight_through_integers(rewrite_t *rewrite, const graph_node_t *node,
                                        value_t *out_weight)
{
    tensor_t *integers = NULL, *scales = NULL;
    const tensor_t *weight = datum_as_tensor(graph_constant(rewrite->from, node->inputs[1]));
    const int dim = quantize_weight_dim(node);
    TRY(quantize_weight(rewrite->ctx, weight, dim, &integers, &scales));
    value_t inputs[] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    inputs[0] = add_tensor(rewrite, STATUS_OK, integers);
    inputs[1] = add_tensor(rewrite, STATUS_OK, scales);
    *out_weight = add_with(rewrite, "dequantize", DTYPE_NONE, dim, 3, inputs, node->path);
    return STATUS_OK;
}

/* ---- nodes ---- */

/* The upper bound of a relu6, or of a clamp from 0; 0 for other nodes. */
static double bound_of(const graph_node_t *node)
{
    if (rewrite_is_op(node, "relu6")) return 6.0;
    if (!rewrite_is_op(node, "clamp")) return 0.0;
    const double *least = rewrite_attr(node, "min", ATTR_FLOAT);
    const double *most = rewrite_attr(node, "max", ATTR_FLOAT);
    return least != NULL && most != NULL && *least == 0.0 ? *most : 0.0;
}

/* True if the largest integer stands for the bound or a smaller number. Then a relu has the same
 * result as the relu6 or clamp, and a product can include a relu. */
static bool is_bounded(const quantizing_t *quantizing, const graph_t *graph,
                       const graph_node_t *node)
{
    const double bound = bound_of(node);
    if (!(bound > 0.0) || node->is_in_place) return false;
    const quantize_site_t *site = &quantizing->sites.items[node->outputs[0]];
    const quantize_site_t *group =
        &quantizing->sites.items[quantize_group(&quantizing->sites, node->outputs[0])];
    return site->is_wanted && site->n_reads == graph_n_uses(graph, node->outputs[0]) &&
           group->dtype == DTYPE_U8 && group->zero == 0 && group->high <= bound;
}

static status_t quantize_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    quantizing_t *quantizing = rewrite->user;
    value_t inputs[OP_MAX_INPUTS];
    if (is_bounded(quantizing, rewrite->from, node)) {
        graph_node_t relu = *node;
        relu.op = ops_find("relu");
        relu.attrs = NULL;
        inputs[0] = rewrite_value(rewrite, node->inputs[0]);
        *out_done = true;
        return rewrite_emit(rewrite, &relu, inputs, node->outputs);
    }
    for (int i = 0; i < node->n_inputs; i++)
        *out_done |= quantize_reads(&quantizing->sites, node, i);
    if (!*out_done) return STATUS_OK;
    INVARIANT(node->n_inputs <= OP_MAX_INPUTS);
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = quantize_reads(&quantizing->sites, node, i)
                        ? through_integers(rewrite, node->inputs[i], node->path)
                        : rewrite_value(rewrite, node->inputs[i]);
    if (quantizing->sites.is_product[node->outputs[0]])
        TRY(weight_through_integers(rewrite, node, &inputs[1]));
    return rewrite_emit(rewrite, node, inputs, node->outputs);
}

status_t pass_quantize(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       graph_t **out_graph)
{
    quantizing_t quantizing = {.numbers = NULL};
    const int n = graph_n_values(graph);
    if (options->dtype != DTYPE_S8 || options->n_ranges == 0)
        return rewrite_nothing(graph, out_graph);
    value_t *values = NULL;
    TRY(context_get(ctx, (size_t)n * 3 * sizeof *values, "values on integers", &values));
    for (int i = 0; i < 3 * n; i++) values[i] = VALUE_NONE;
    quantizing.numbers = values;
    quantizing.scales = values + n;
    quantizing.zeros = values + 2 * n;
    status_t status = quantize_find(ctx, graph, options, &quantizing.sites);
    if (status == STATUS_OK)
        status = rewrite_graph(ctx, graph, quantize_node, &quantizing, out_graph);
    quantize_clear(ctx, &quantizing.sites);
    context_put(ctx, values);
    return status;
}
