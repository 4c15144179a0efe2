/* Layers of convolutions and transposed convolutions. */
#include <math.h>
#include <stdio.h>

#include "module/layers/layers_impl.h"
#include "module/layers/spatial.h"
#include "tensor/tensor_impl.h"

/* ---- forward ---- */

/* Reads the attributes that both layers have, in the fields of a convolution. `extra` names the
 * attribute that extra_padding receives. */
static status_t read_attributes(context_t *ctx, const module_t *self, int n_in, const char *extra,
                                conv_attrs_t *attrs)
{
    TRY(layer_one_input(ctx, self, n_in));
    TRY(layer_read_sizes(ctx, self, "stride", attrs->stride));
    TRY(layer_read_sizes(ctx, self, "padding", attrs->padding));
    TRY(layer_read_sizes(ctx, self, extra, attrs->extra_padding));
    TRY(layer_read_sizes(ctx, self, "dilation", attrs->dilation));
    return layer_read_int(ctx, self, "groups", &attrs->groups);
}

static status_t forward_conv(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                             int *n_out, tensor_t **out)
{
    conv_attrs_t attrs = {0};
    const tensor_t *weight = module_parameter(self, "weight");
    const tensor_t *bias = module_parameter(self, "bias");
    *n_out = 1;
    TRY(read_attributes(ctx, self, n_in, "extra_padding", &attrs));
    switch (weight != NULL ? tensor_rank(weight) : 0) {
    case 3: return op_conv1d(ctx, in[0], weight, bias, &attrs, out);
    case 5: return op_conv3d(ctx, in[0], weight, bias, &attrs, out);
    default: return op_conv2d(ctx, in[0], weight, bias, &attrs, out);
    }
}

static status_t forward_conv_transpose(context_t *ctx, module_t *self, int n_in,
                                       const tensor_t *const *in, int *n_out, tensor_t **out)
{
    conv_attrs_t read = {0};
    conv_transpose_attrs_t attrs = {0};
    const tensor_t *weight = module_parameter(self, "weight");
    const tensor_t *bias = module_parameter(self, "bias");
    *n_out = 1;
    TRY(read_attributes(ctx, self, n_in, "output_padding", &read));
    attrs.groups = read.groups;
    for (int d = 0; d < LAYER_MAX_SPATIAL; d++) {
        attrs.stride[d] = read.stride[d];
        attrs.padding[d] = read.padding[d];
        attrs.output_padding[d] = read.extra_padding[d];
        attrs.dilation[d] = read.dilation[d];
    }
    switch (weight != NULL ? tensor_rank(weight) : 0) {
    case 3: return op_conv_transpose1d(ctx, in[0], weight, bias, &attrs, out);
    case 5: return op_conv_transpose3d(ctx, in[0], weight, bias, &attrs, out);
    default: return op_conv_transpose2d(ctx, in[0], weight, bias, &attrs, out);
    }
}

/* ---- construction ---- */

typedef struct conv_init {
    const char *op, *type, *extra; /* extra: name of the attribute for extra_padding */
    forward_t forward;
    int n_spatial;
    int64_t in_channels, out_channels;
    const int64_t *kernel;
    bool has_bias, is_transposed;
    conv_attrs_t attrs;
} conv_init_t;

/* He initialisation: with standard deviation sqrt(2 / fan_in), a convolution followed by relu keeps
 * the mean square of its input. fan_in is the number of products in an output (at stride 1, if
 * transposed): C/G times the kernel's size. */
static status_t init_conv(context_t *ctx, module_t *module, const void *user)
{
    const conv_init_t *conv = user;
    const conv_attrs_t *attrs = &conv->attrs;
    const int n = conv->n_spatial;
    const int64_t in = conv->in_channels, out = conv->out_channels, *extra = attrs->extra_padding;
    int64_t sizes[2 + LAYER_MAX_SPATIAL] = {conv->is_transposed ? in : out,
                                            (conv->is_transposed ? out : in) / attrs->groups};
    const int64_t in_of_group = in / attrs->groups;
    double fan_in = (double)in_of_group;
    for (int d = 0; d < n; d++) fan_in *= (double)(sizes[2 + d] = conv->kernel[d]);
    TRY(layer_parameter(ctx, module, "weight", 2 + n, sizes, FILL_NORMAL, sqrt(2 / fan_in), 0));
    if (conv->has_bias)
        TRY(layer_parameter(ctx, module, "bias", 1, &out, FILL_NORMAL, LAYER_BIAS_DEVIATION, 0));
    else
        TRY(module_set_parameter(ctx, module, "bias", NULL));
    TRY(layer_set_sizes(ctx, module, "stride", n, attrs->stride));
    TRY(layer_set_sizes(ctx, module, "padding", n, attrs->padding));
    if (conv->is_transposed || extra[0] != 0 || extra[1] != 0 || extra[2] != 0)
        TRY(layer_set_sizes(ctx, module, conv->extra, n, extra));
    TRY(layer_set_sizes(ctx, module, "dilation", n, attrs->dilation));
    return layer_set_int(ctx, module, "groups", attrs->groups);
}

static status_t make_conv(context_t *ctx, conv_init_t *conv, module_t **out_module)
{
    const long long in = conv->in_channels, out = conv->out_channels;
    const char *op = conv->op;
    TRY(context_output(ctx, op, out_module));
    REQUIRE(ctx, conv->n_spatial >= 1 && conv->n_spatial <= LAYER_MAX_SPATIAL,
            "%s: %d spatial dimensions, must be 1 to 3", op, conv->n_spatial);
    REQUIRE(ctx, in > 0 && out > 0, "%s: %lld to %lld channels, must be positive", op, in, out);
    if (conv->kernel == NULL) return context_null(ctx, op, "kernel");
    REQUIRE(ctx, conv->attrs.post.n == 0,
            "%s: attributes with post-ops, only the fusion pass may set them", op);
    layer_replace_zeros(conv->attrs.stride, NULL);
    layer_replace_zeros(conv->attrs.dilation, NULL);
    if (conv->attrs.groups == 0) conv->attrs.groups = 1;
    const long long groups = conv->attrs.groups;
    REQUIRE(ctx, groups > 0 && in % groups == 0 && out % groups == 0,
            "%s: %lld to %lld channels in %lld groups, groups must divide both", op, in, out,
            groups);
    for (int d = 0; d < conv->n_spatial; d++)
        REQUIRE(ctx, conv->kernel[d] > 0, "%s: a kernel of size %lld, must be positive", op,
                (long long)conv->kernel[d]);
    char type[] = "ConvTranspose0d";
    snprintf(type, sizeof type, "%s%dd", conv->type, conv->n_spatial);
    return layer_build(ctx, type, conv->forward, init_conv, conv, out_module);
}

status_t layer_conv(context_t *ctx, int n_spatial, int64_t in_channels, int64_t out_channels,
                    const int64_t *kernel, const conv_attrs_t *attrs, bool has_bias,
                    module_t **out_module)
{
    conv_init_t conv = {
        "layer_conv", "Conv",       "extra_padding", forward_conv, n_spatial,
        in_channels,  out_channels, kernel,          has_bias,     .is_transposed = false};
    if (attrs != NULL) conv.attrs = *attrs;
    return make_conv(ctx, &conv, out_module);
}

status_t layer_conv2d(context_t *ctx, int64_t in_channels, int64_t out_channels, int64_t kernel,
                      const conv_attrs_t *attrs, bool has_bias, module_t **out_module)
{
    TRY(context_output(ctx, "layer_conv2d", out_module));
    int64_t kernels[] = {kernel, kernel};
    return layer_conv(ctx, 2, in_channels, out_channels, kernels, attrs, has_bias, out_module);
}

status_t layer_conv_transpose(context_t *ctx, int n_spatial, int64_t in_channels,
                              int64_t out_channels, const int64_t *kernel,
                              const conv_transpose_attrs_t *attrs, bool has_bias,
                              module_t **out_module)
{
    conv_init_t conv = {"layer_conv_transpose", "ConvTranspose", "output_padding",
                        forward_conv_transpose, n_spatial,       in_channels,
                        out_channels,           kernel,          has_bias,
                        .is_transposed = true};
    if (attrs != NULL) {
        conv.attrs.groups = attrs->groups;
        conv.attrs.post.n = attrs->post.n;
        for (int d = 0; d < LAYER_MAX_SPATIAL; d++) {
            conv.attrs.stride[d] = attrs->stride[d];
            conv.attrs.padding[d] = attrs->padding[d];
            conv.attrs.extra_padding[d] = attrs->output_padding[d];
            conv.attrs.dilation[d] = attrs->dilation[d];
        }
    }
    return make_conv(ctx, &conv, out_module);
}
