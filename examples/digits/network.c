#include "digits.h"

/* Appends conv, batch norm, relu. A stride of 2 halves height and width. If a layer cannot be made,
 * it is NULL, and layer_append_take returns the failure. */
static status_t add_block(context_t *ctx, module_t *network, int64_t n_in, int64_t n_out,
                          int64_t stride)
{
    const conv_attrs_t attrs = {.stride = {stride, stride}, .padding = {1, 1}};
    module_t *conv = NULL, *norm = NULL, *relu = NULL;
    layer_conv2d(ctx, n_in, n_out, 3, &attrs, false, &conv);
    status_t status = layer_append_take(ctx, network, conv);
    layer_batch_norm(ctx, n_out, 1e-5, &norm);
    if (status == STATUS_OK) status = layer_append_take(ctx, network, norm);
    layer_activation(ctx, ELTWISE_RELU, 0, 0, &relu);
    return status == STATUS_OK ? layer_append_take(ctx, network, relu) : status;
}

static status_t add_scores(context_t *ctx, module_t *network)
{
    module_t *flatten = NULL, *linear = NULL;
    layer_flatten(ctx, 1, -1, &flatten);
    status_t status = layer_append_take(ctx, network, flatten);
    if (status != STATUS_OK) return status;
    layer_linear(ctx, (int64_t)64 * 2 * 2, 10, true, &linear);
    return layer_append_take(ctx, network, linear);
}

status_t digits_network(context_t *ctx, module_t **out_network)
{
    module_t *network = NULL;
    status_t status = layer_sequential(ctx, &network);
    if (status == STATUS_OK) status = add_block(ctx, network, 1, 32, 1);
    if (status == STATUS_OK) status = add_block(ctx, network, 32, 64, 2);
    if (status == STATUS_OK) status = add_block(ctx, network, 64, 64, 2);
    if (status == STATUS_OK) status = add_scores(ctx, network);
    if (status != STATUS_OK) {
        module_release(network);
        return status;
    }
    *out_network = network;
    return STATUS_OK;
}

status_t digits_predict(context_t *ctx, module_t *network, const tensor_t *x, int64_t n,
                        int64_t *out_digits)
{
    const int64_t classes = 1;
    tensor_t *scores = NULL, *digits = NULL;
    scope_begin(ctx);
    module_forward(ctx, network, x, &scores);
    op_argmax(ctx, scores, &classes, false, &digits);
    tensor_read(ctx, digits, out_digits, (size_t)n * sizeof *out_digits);
    return scope_end(ctx);
}
