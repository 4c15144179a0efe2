/* Normalisation operators. */
#include "io/onnx/node_impl.h"

#include <float.h>
#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- running statistics, and the last dimensions ---- */

/* old + (batch - old) * (1 - momentum). No node of this formula depends on `old` only: the import
 * would compute such a node from the initial value, but runs may change `old`. */
static status_t run_on(onnx_node_t *node, item_t old, item_t batch, double momentum, item_t *out)
{
    item_t rest, way;
    TRY(onnx_number(node->onnx, 1.0 - momentum, &rest));
    TRY(onnx_binary(node, "sub", batch, old, &way));
    TRY(onnx_binary(node, "mul", way, rest, &way));
    return onnx_binary(node, "add", old, way, out);
}

/* Training with one value in each channel, which batch_norm_training refuses. The mean is the
 * value, the variance 0. */
static status_t train_on_one(onnx_node_t *node, double epsilon, item_t *out)
{
    const int64_t channels = onnx_input_info(node, 0).sizes[1];
    TRY(onnx_reshape(node, node->in[0], 1, &channels, &out[1]));
    TRY(onnx_binary(node, "sub", out[1], out[1], &out[2]));
    return onnx_op(node, "batch_norm", ONNX_ATTRS(SET_FLOAT("epsilon", epsilon)), 5,
                   (item_t[]){node->in[0], node->in[1], node->in[2], out[1], out[2]}, &out[0]);
}

static bool is_graph_output(const onnx_t *onnx, const char *name)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    for (size_t i = 0; i < graph->n_output; i++)
        if (graph->output[i]->name != NULL && strcmp(graph->output[i]->name, name) == 0)
            return true;
    return false;
}

/* A model exported in training mode returns new running statistics, which the caller has to store.
 * If the old statistic is an initializer, the graph also writes the new one to it in place, as
 * PyTorch does. */
static status_t keep_statistic(onnx_node_t *node, int output)
{
    onnx_t *onnx = node->onnx;
    const item_t in[2] = {node->in[2 + output], node->out[output]};
    item_t kept;
    if (!onnx->items[in[0]].is_weight || onnx->n_blocks > 0 ||
        is_graph_output(onnx, node->proto->output[output]))
        return STATUS_OK;
    TRY(onnx_op(node, "copy", NULL, 2, in, &kept));
    if (onnx->items[kept].call < 0) return STATUS_OK;
    onnx->calls[onnx->items[kept].call].is_in_place = true;
    onnx->items[in[0]].is_state = true;
    return STATUS_OK;
}

/* Normalises with the batch's statistics and updates the running ones (outputs 1 and 2). */
static status_t train_batch_norm(onnx_node_t *node, double epsilon)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    double momentum = 0;
    item_t made[3];
    onnx_call_t call;
    if (x.rank < 2 || x.rank > 5)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is %s, rank 2 to 5 is needed",
             onnx_brief(node, &x));
    TRY(onnx_attr_float(node, "momentum", 0.9, &momentum));
    if (sym_equal(node->onnx->ctx, onnx_numel(node, &x), x.sizes[1])) {
        TRY(train_on_one(node, epsilon, made));
    } else {
        onnx_call(node, "batch_norm_training", &call);
        onnx_set_float(&call, "epsilon", epsilon);
        TRY(onnx_emit_n(&call, 3, node->in, 3, made));
    }
    node->out[0] = made[0];
    for (int i = 1; i < 3; i++) {
        if (!onnx_wants(node, i)) continue;
        const dtype_t dtype = onnx_input_info(node, 2 + i).dtype;
        TRY(run_on(node, node->in[2 + i], made[i], momentum, &node->out[i]));
        TRY(onnx_cast(node, node->out[i], dtype, &node->out[i]));
        TRY(keep_statistic(node, i));
    }
    return STATUS_OK;
}

/* Before opset 9, spatial 0 means statistics, weight and bias for each element of a sample:
 * x * factor + (bias - mean * factor), where factor = weight / sqrt(variance + epsilon). */
static status_t norm_each(onnx_node_t *node, double epsilon)
{
    item_t number, factor, shift, out;
    TRY(onnx_number(node->onnx, epsilon, &number));
    TRY(onnx_binary(node, "add", node->in[4], number, &factor));
    TRY(onnx_unary(node, "sqrt", factor, &factor));
    TRY(onnx_binary(node, "div", node->in[1], factor, &factor));
    TRY(onnx_binary(node, "mul", node->in[3], factor, &shift));
    TRY(onnx_binary(node, "sub", node->in[2], shift, &shift));
    TRY(onnx_binary(node, "mul", node->in[0], factor, &out));
    return onnx_binary(node, "add", out, shift, &node->out[0]);
}

status_t onnx_import_batch_normalization(onnx_node_t *node)
{
    double epsilon = 0;
    int64_t spatial = 1;
    bool is_training = false;
    TRY(onnx_attr_float(node, "epsilon", 1e-5, &epsilon));
    onnx_attr_ignore(node, "momentum");                     /* only training uses it */
    if (node->opset < 7) onnx_attr_ignore(node, "is_test"); /* training has more outputs */
    if (node->opset < 9) TRY(onnx_attr_int(node, "spatial", 1, &spatial));
    if (node->opset >= 14) TRY(onnx_attr_bool(node, "training_mode", false, &is_training));
    for (int i = 1; i < node->n_out && node->opset < 14; i++)
        is_training = is_training || node->proto->output[i][0] != '\0';
    if (is_training && node->opset >= 14) return train_batch_norm(node, epsilon);
    if (is_training) FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "it is in training mode");
    if (spatial != 1 && onnx_input_info(node, 0).rank > 2) return norm_each(node, epsilon);
    return onnx_op(node, "batch_norm", ONNX_ATTRS(SET_FLOAT("epsilon", epsilon)), 5, node->in,
                   &node->out[0]);
}

static status_t layer_norm(onnx_node_t *node, item_t x, int n_dims, item_t weight, item_t bias,
                           double epsilon, item_t *out)
{
    return onnx_op(node, "layer_norm",
                   ONNX_ATTRS(SET("n_dims", n_dims), SET_FLOAT("epsilon", epsilon)), 3,
                   (item_t[]){x, weight, bias}, out);
}

/* Outputs 1 and 2, in f32: means and reciprocal standard deviations. */
static status_t layer_statistics(onnx_node_t *node, int axis, double epsilon)
{
    onnx_t *onnx = node->onnx;
    item_t x, mean, deviation, bound;
    int64_t dims[TENSOR_MAX_RANK];
    int n = 0;
    for (int d = axis; d < onnx_input_info(node, 0).rank; d++) dims[n++] = d;
    TRY(onnx_cast(node, node->in[0], DTYPE_F32, &x));
    const onnx_set_t *attrs = ONNX_ATTRS(SET_INTS("dims", n, dims), SET("keepdim", true));
    TRY(onnx_op(node, "mean", attrs, 1, &x, &mean));
    node->out[1] = mean;
    if (!onnx_wants(node, 2)) return STATUS_OK;
    TRY(onnx_binary(node, "sub", x, mean, &deviation));
    TRY(onnx_binary(node, "mul", deviation, deviation, &deviation));
    TRY(onnx_op(node, "mean", attrs, 1, &deviation, &deviation));
    TRY(onnx_number(onnx, epsilon, &bound));
    TRY(onnx_binary(node, "add", deviation, bound, &deviation));
    TRY(onnx_unary(node, "sqrt", deviation, &deviation));
    return onnx_unary(node, "reciprocal", deviation, &node->out[2]);
}

/* layer_norm accepts weight and bias of the normalised shape. Those of other shapes are applied
 * after it. */
status_t onnx_import_layer_normalization(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    item_t weight = node->in[1], bias = onnx_has(node, 2) ? node->in[2] : ITEM_NONE;
    double epsilon = 0;
    int axis = 0;
    TRY(onnx_dim(node, "axis", x.rank, -1, &axis));
    TRY(onnx_attr_float(node, "epsilon", 1e-5, &epsilon));
    onnx_attr_ignore(node, "stash_type");
    if (onnx_wants(node, 1) || onnx_wants(node, 2)) TRY(layer_statistics(node, axis, epsilon));
    int n_dims = x.rank - axis;
    bool is_own = true;
    for (int i = 1; i <= 2; i++) {
        if (!onnx_has(node, i)) continue;
        tensor_info_t info = onnx_input_info(node, i);
        is_own = is_own && shape_equal(info.rank, info.sizes, n_dims, &x.sizes[axis]);
    }
    if (is_own) return layer_norm(node, node->in[0], n_dims, weight, bias, epsilon, &node->out[0]);
    TRY(layer_norm(node, node->in[0], n_dims, ITEM_NONE, ITEM_NONE, epsilon, &node->out[0]));
    TRY(onnx_binary(node, "mul", node->out[0], weight, &node->out[0]));
    if (bias == ITEM_NONE) return STATUS_OK;
    return onnx_binary(node, "add", node->out[0], bias, &node->out[0]);
}

/* x / sqrt(mean of x^2 + epsilon) * scale. A scale of another shape is applied afterwards. */
status_t onnx_import_rms_normalization(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0), weight = onnx_input_info(node, 1);
    double epsilon = 0;
    int axis = 0;
    TRY(onnx_dim(node, "axis", x.rank, -1, &axis));
    TRY(onnx_attr_float(node, "epsilon", 1e-5, &epsilon));
    onnx_attr_ignore(node, "stash_type"); /* sums are always f32 or f64 */
    bool is_own = shape_equal(weight.rank, weight.sizes, x.rank - axis, &x.sizes[axis]);
    TRY(onnx_op(node, "rms_norm",
                ONNX_ATTRS(SET("n_dims", x.rank - axis), SET_FLOAT("epsilon", epsilon)), 2,
                (item_t[]){node->in[0], is_own ? node->in[1] : ITEM_NONE}, &node->out[0]));
    if (is_own) return STATUS_OK;
    return onnx_binary(node, "mul", node->out[0], node->in[1], &node->out[0]);
}

/* ---- groups of channels ---- */

static status_t group_norm(onnx_node_t *node, int64_t n_groups, double epsilon, const item_t *in)
{
    return onnx_op(node, "group_norm",
                   ONNX_ATTRS(SET("num_groups", n_groups), SET_FLOAT("epsilon", epsilon)), 3, in,
                   &node->out[0]);
}

/* Each channel is a group. */
status_t onnx_import_instance_normalization(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    double epsilon = 0;
    TRY(onnx_attr_float(node, "epsilon", 1e-5, &epsilon));
    if (x.rank < 3)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is of rank %d, 3 or more is needed",
             x.rank);
    return group_norm(node, x.sizes[1], epsilon, node->in);
}

/* Repeats the number of each group for all channels of the group. */
static status_t spread(onnx_node_t *node, item_t x, int64_t n_groups, int64_t channels, item_t *out)
{
    int64_t sizes[2] = {n_groups, 1};
    TRY(onnx_reshape(node, x, 2, sizes, out));
    sizes[1] = sym_divide(node->onnx->ctx, channels, n_groups);
    TRY(onnx_expand(node, *out, 2, sizes, out));
    return onnx_reshape(node, *out, 1, &channels, out);
}

/* Before opset 21, scale and bias have one element for each group; later, one for each channel. */
status_t onnx_import_group_normalization(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    double epsilon = 0;
    int64_t n_groups = 0;
    item_t in[3] = {node->in[0], node->in[1], node->in[2]};
    TRY(onnx_attr_float(node, "epsilon", 1e-5, &epsilon));
    TRY(onnx_attr_int(node, "num_groups", 0, &n_groups));
    if (node->opset >= 21) onnx_attr_ignore(node, "stash_type"); /* sums are always f32 or f64 */
    if (x.rank < 2 || n_groups < 1 || !sym_divides(node->onnx->ctx, n_groups, x.sizes[1]))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "num_groups %lld of x %s",
             (long long)n_groups, onnx_brief(node, &x));
    for (int i = 1; i <= 2 && node->opset < 21; i++) {
        tensor_info_t info = onnx_input_info(node, i);
        if (info.rank != 1 || !sym_equal(node->onnx->ctx, info.sizes[0], n_groups))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is %s, [%lld] is needed", i,
                 onnx_brief(node, &info), (long long)n_groups);
        TRY(spread(node, in[i], n_groups, x.sizes[1], &in[i]));
    }
    return group_norm(node, n_groups, epsilon, in);
}

/* ---- without weights ---- */

/* x / (sum of |x|^p)^(1/p); if all elements are 0, the result is 0. */
status_t onnx_import_lp_normalization(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int axis = 0;
    int64_t p = 0;
    item_t norm, least;
    TRY(onnx_dim(node, "axis", x.rank, -1, &axis));
    TRY(onnx_attr_int(node, "p", 2, &p));
    if (p != 1 && p != 2)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "p %lld, 1 or 2 is needed", (long long)p);
    TRY(onnx_op(node, "norm",
                ONNX_ATTRS(SET_INTS("dims", 1, (const int64_t[]){axis}), SET("keepdim", true),
                           SET_FLOAT("p", (double)p)),
                1, node->in, &norm));
    TRY(onnx_number(node->onnx, x.dtype == DTYPE_F16 ? 0x1p-14 : FLT_MIN, &least));
    TRY(onnx_binary(node, "maximum", norm, least, &norm));
    return onnx_binary(node, "div", node->in[0], norm, &node->out[0]);
}

/* (x - mean) / (standard deviation + 1e-9) */
status_t onnx_import_mean_variance_normalization(onnx_node_t *node)
{
    tensor_info_t x = onnx_input_info(node, 0);
    int n = 0;
    int64_t dims[TENSOR_MAX_RANK];
    item_t mean, deviation, least;
    TRY(onnx_attr_ints(node, "axes", TENSOR_MAX_RANK, &n, dims));
    if (n < 0) {
        n = 3;
        dims[0] = 0, dims[1] = 2, dims[2] = 3;
    }
    TRY(onnx_dims(node, x.rank, n, dims));
    TRY(onnx_op(node, "mean", ONNX_ATTRS(SET_INTS("dims", n, dims), SET("keepdim", true)), 1,
                node->in, &mean));
    TRY(onnx_op(node, "std",
                ONNX_ATTRS(SET_INTS("dims", n, dims), SET("correction", 0), SET("keepdim", true)),
                1, node->in, &deviation));
    TRY(onnx_number(node->onnx, 1e-9, &least));
    TRY(onnx_binary(node, "add", deviation, least, &deviation));
    TRY(onnx_binary(node, "sub", node->in[0], mean, &mean));
    return onnx_binary(node, "div", mean, deviation, &node->out[0]);
}

/* ---- across channels ---- */

status_t onnx_import_lrn(onnx_node_t *node)
{
    double alpha = 0, beta = 0, bias = 0;
    int64_t size = 0;
    TRY(onnx_attr_float(node, "alpha", 1e-4, &alpha));
    TRY(onnx_attr_float(node, "beta", 0.75, &beta));
    TRY(onnx_attr_float(node, "bias", 1.0, &bias));
    TRY(onnx_attr_int(node, "size", 0, &size));
    if (size < 1)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "size %lld, at least 1 is needed",
             (long long)size);
    /* For even sizes, ONNX has one more channel after the centre, PyTorch one more before it. */
    if (size % 2 == 0)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "an even size of %lld", (long long)size);
    return onnx_op(node, "lrn",
                   ONNX_ATTRS(SET("size", size), SET_FLOAT("alpha", alpha), SET_FLOAT("beta", beta),
                              SET_FLOAT("k", bias)),
                   1, node->in, &node->out[0]);
}
