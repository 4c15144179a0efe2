#include "module/layers/transformer.h"

#include <math.h>

#include "module/layers/layers_impl.h"
#include "tensor/context_impl.h"
#include "tensor/shape.h"
#include "tensor/tensor_impl.h"

/* ---- embedding ---- */

static status_t forward_embedding(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    *n_out = 1;
    TRY(layer_one_input(ctx, self, n_in));
    return op_gather(ctx, module_parameter(self, "weight"), 0, in[0], out);
}

static status_t init_embedding(context_t *ctx, module_t *module, const void *user)
{
    return layer_parameter(ctx, module, "weight", 2, user, FILL_NORMAL, 1, 0);
}

status_t layer_embedding(context_t *ctx, int64_t n, int64_t dim, module_t **out_module)
{
    TRY(context_output(ctx, "layer_embedding", out_module));
    REQUIRE(ctx, n > 0 && dim > 0, "layer_embedding: %lld rows of %lld, must be positive",
            (long long)n, (long long)dim);
    int64_t sizes[] = {n, dim};
    return layer_build(ctx, "Embedding", forward_embedding, init_embedding, sizes, out_module);
}

/* ---- attention ---- */

typedef struct attention_init {
    int64_t embed_dim, num_heads;
    bool has_bias;
} attention_init_t;

/* Turns [N][T][E] into [N][heads][T][E / heads], without copying elements. */
static status_t split_heads(context_t *ctx, const tensor_t *x, int64_t n_heads, tensor_t **out)
{
    static const int64_t order[] = {0, 2, 1, 3};
    tensor_t *split = NULL;
    if (x == NULL) return context_status(ctx);
    const int64_t *sizes = tensor_sizes(x);
    TRY(op_reshape(ctx, x, SHAPE(sizes[0], sizes[1], n_heads, sizes[2] / n_heads), &split));
    return op_permute(ctx, split, 4, order, out);
}

/* Computes the projection of query, key or value (index 0, 1, 2), with rows [index E, (index + 1)
 * E) of weight and bias. */
static status_t project(context_t *ctx, const module_t *self, const tensor_t *x, int64_t index,
                        int64_t embed_dim, tensor_t **out)
{
    const tensor_t *bias = module_parameter(self, "in_proj_bias");
    tensor_t *weight = NULL, *part = NULL;
    const int64_t first = index * embed_dim, end = first + embed_dim;
    TRY(op_slice(ctx, module_parameter(self, "in_proj_weight"), 0, first, end, 1, &weight));
    if (bias != NULL) TRY(op_slice(ctx, bias, 0, first, end, 1, &part));
    return op_linear(ctx, x, weight, part, out);
}

/* Computes the projections of query, key and value. With a single source (self-attention), one
 * product computes all three. */
static status_t project_all(context_t *ctx, const module_t *self, int n_sources,
                            const tensor_t *const *in, int64_t embed_dim, tensor_t **out)
{
    tensor_t *all = NULL;
    for (int64_t i = 0; i < n_sources && n_sources == 3; i++)
        TRY(project(ctx, self, in[i], i, embed_dim, &out[i]));
    if (n_sources == 3) return STATUS_OK;
    TRY(op_linear(ctx, in[0], module_parameter(self, "in_proj_weight"),
                  module_parameter(self, "in_proj_bias"), &all));
    for (int64_t i = 0; i < 3; i++)
        TRY(op_slice(ctx, all, -1, i * embed_dim, (i + 1) * embed_dim, 1, &out[i]));
    return STATUS_OK;
}

static status_t forward_attention(context_t *ctx, module_t *self, int n_in,
                                  const tensor_t *const *in, int *n_out, tensor_t **out)
{
    static const int64_t order[] = {0, 2, 1, 3};
    tensor_t *parts[3] = {NULL}, *heads[3] = {NULL}, *mixed = NULL, *joined = NULL, *flat = NULL;
    const int n_sources = n_in >= 3 ? 3 : 1;
    int64_t n_heads = 0;
    *n_out = 1;
    REQUIRE(ctx, n_in >= 1 && n_in <= 4,
            "module: forward of %s with %d inputs, takes x, x and a mask, or query, key, value and "
            "an optional mask",
            module_type(self), n_in);
    for (int i = 0; i < n_sources; i++)
        REQUIRE(ctx, in[i] == NULL || tensor_rank(in[i]) == 3,
                "module: forward of %s with %s, must be [N][T][E]", module_type(self),
                info_brief(tensor_info(in[i])));
    TRY(layer_read_int(ctx, self, "num_heads", &n_heads));
    const tensor_t *weight = module_parameter(self, "in_proj_weight");
    const int64_t embed_dim = weight != NULL ? tensor_sizes(weight)[1] : 0;
    REQUIRE(ctx, n_heads > 0 && embed_dim % n_heads == 0,
            "module: attribute \"num_heads\" of %s is %lld, must divide %lld", module_type(self),
            (long long)n_heads, (long long)embed_dim);
    TRY(project_all(ctx, self, n_sources, in, embed_dim, parts));
    for (int i = 0; i < 3; i++) TRY(split_heads(ctx, parts[i], n_heads, &heads[i]));
    TRY(op_scaled_dot_product_attention(ctx, heads[0], heads[1], heads[2],
                                        n_in > n_sources ? in[n_sources] : NULL, NULL, &mixed));
    TRY(op_permute(ctx, mixed, 4, order, &joined));
    const int64_t *sizes = tensor_sizes(joined);
    TRY(op_reshape(ctx, joined, SHAPE(sizes[0], sizes[1], embed_dim), &flat));
    return module_run_child(ctx, self, "out_proj", flat, out);
}

static status_t init_attention(context_t *ctx, module_t *module, const void *user)
{
    const attention_init_t *init = user;
    const int64_t sizes[] = {3 * init->embed_dim, init->embed_dim};
    module_t *out_proj = NULL;
    TRY(layer_parameter(ctx, module, "in_proj_weight", 2, sizes, FILL_NORMAL,
                        sqrt(1 / (double)init->embed_dim), 0));
    if (init->has_bias)
        TRY(layer_parameter(ctx, module, "in_proj_bias", 1, sizes, FILL_NORMAL,
                            LAYER_BIAS_DEVIATION, 0));
    else
        TRY(module_set_parameter(ctx, module, "in_proj_bias", NULL));
    TRY(layer_linear(ctx, init->embed_dim, init->embed_dim, init->has_bias, &out_proj));
    TRY(layer_child_take(ctx, module, "out_proj", out_proj));
    return layer_set_int(ctx, module, "num_heads", init->num_heads);
}

status_t layer_multi_head_attention(context_t *ctx, int64_t embed_dim, int64_t num_heads,
                                    bool has_bias, module_t **out_module)
{
    TRY(context_output(ctx, "layer_multi_head_attention", out_module));
    REQUIRE(ctx,
            embed_dim > 0 && embed_dim <= INT64_MAX / 3 && num_heads > 0 &&
                embed_dim % num_heads == 0,
            "layer_multi_head_attention: embed_dim %lld with %lld heads, must be a positive "
            "multiple of the heads",
            (long long)embed_dim, (long long)num_heads);
    attention_init_t init = {embed_dim, num_heads, has_bias};
    return layer_build(ctx, "MultiheadAttention", forward_attention, init_attention, &init,
                       out_module);
}

/* ---- encoder ---- */

static status_t attend(context_t *ctx, module_t *self, int n_in, const tensor_t *x,
                       const tensor_t *mask, tensor_t **out)
{
    const tensor_t *in[] = {x, mask};
    int n_out = 0;
    return module_call_tensors(ctx, self, "self_attn.forward", n_in, in, &n_out, out);
}

static status_t feed_forward(context_t *ctx, module_t *self, const tensor_t *x, tensor_t **out)
{
    tensor_t *wide = NULL, *active = NULL;
    TRY(module_run_child(ctx, self, "linear1", x, &wide));
    TRY(module_run_child(ctx, self, "activation", wide, &active));
    return module_run_child(ctx, self, "linear2", active, out);
}

static status_t forward_encoder_layer(context_t *ctx, module_t *self, int n_in,
                                      const tensor_t *const *in, int *n_out, tensor_t **out)
{
    tensor_t *normed = NULL, *mixed = NULL, *sum = NULL, *middle = NULL, *fed = NULL;
    bool norm_first = false;
    *n_out = 1;
    REQUIRE(ctx, n_in == 1 || n_in == 2,
            "module: forward of %s with %d inputs, takes x or x and "
            "a mask",
            module_type(self), n_in);
    const tensor_t *mask = n_in > 1 ? in[1] : NULL;
    TRY(layer_read_bool(ctx, self, "norm_first", &norm_first));
    if (norm_first) {
        TRY(module_run_child(ctx, self, "norm1", in[0], &normed));
        TRY(attend(ctx, self, n_in, normed, mask, &mixed));
        TRY(op_add(ctx, in[0], mixed, &sum));
        TRY(module_run_child(ctx, self, "norm2", sum, &middle));
        TRY(feed_forward(ctx, self, middle, &fed));
        return op_add(ctx, sum, fed, out);
    }
    TRY(attend(ctx, self, n_in, in[0], mask, &mixed));
    TRY(op_add(ctx, in[0], mixed, &sum));
    TRY(module_run_child(ctx, self, "norm1", sum, &middle));
    TRY(feed_forward(ctx, self, middle, &fed));
    TRY(op_add(ctx, middle, fed, &normed));
    return module_run_child(ctx, self, "norm2", normed, out);
}

static status_t init_encoder_layer(context_t *ctx, module_t *module, const void *user)
{
    const transformer_attrs_t *attrs = user;
    module_t *child = NULL;
    TRY(layer_multi_head_attention(ctx, attrs->d_model, attrs->nhead, true, &child));
    TRY(layer_child_take(ctx, module, "self_attn", child));
    TRY(layer_linear(ctx, attrs->d_model, attrs->dim_feedforward, true, &child));
    TRY(layer_child_take(ctx, module, "linear1", child));
    TRY(layer_linear(ctx, attrs->dim_feedforward, attrs->d_model, true, &child));
    TRY(layer_child_take(ctx, module, "linear2", child));
    for (int i = 1; i <= 2; i++) {
        const char *name = i == 1 ? "norm1" : "norm2";
        TRY(layer_layer_norm(ctx, 1, &attrs->d_model, attrs->epsilon, true, true, &child));
        TRY(layer_child_take(ctx, module, name, child));
    }
    TRY(layer_activation(ctx, attrs->activation, 0, 0, &child));
    TRY(layer_child_take(ctx, module, "activation", child));
    return layer_set_bool(ctx, module, "norm_first", attrs->norm_first);
}

status_t layer_transformer_encoder_layer(context_t *ctx, const transformer_attrs_t *attrs,
                                         module_t **out_module)
{
    TRY(context_output(ctx, "layer_transformer_encoder_layer", out_module));
    if (attrs == NULL) return context_null(ctx, "layer_transformer_encoder_layer", "attrs");
    transformer_attrs_t full = *attrs;
    if (full.dim_feedforward == 0) full.dim_feedforward = 2048;
    if (full.activation == ELTWISE_NONE) full.activation = ELTWISE_RELU;
    if (full.epsilon == 0) full.epsilon = 1e-5;
    return layer_build(ctx, "TransformerEncoderLayer", forward_encoder_layer, init_encoder_layer,
                       &full, out_module);
}
