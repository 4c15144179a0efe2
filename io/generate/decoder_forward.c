/* The C methods of a decoder and of its layers. Tracing turns them into graphs. */
#include <stdio.h>

#include "io/generate/decoder_impl.h"
#include "ops/ops.h"
#include "tensor/context_impl.h"

/* Arguments of the model's method, and of a layer's. */
enum { TOKENS, POSITIONS, START, LENGTH, ROW };
enum { X, COS, SIN, LAYER_START, LAYER_LENGTH, N_LAYER };

static int64_t integer_of(const module_t *module, const char *name)
{
    return datum_as_int(module_attribute(module, name));
}

static double number_of(const module_t *module, const char *name)
{
    return datum_as_float(module_attribute(module, name));
}

static status_t norm(context_t *ctx, const module_t *self, const char *name, const tensor_t *x,
                     tensor_t **out)
{
    return op_rms_norm(ctx, x, 1, module_parameter(self, name), number_of(self, "epsilon"), out);
}

/* A linear layer with the parameter `weight` and, if the model has it, `bias`. */
static status_t project(context_t *ctx, const module_t *self, const char *weight, const char *bias,
                        const tensor_t *x, tensor_t **out)
{
    return op_linear(ctx, x, module_parameter(self, weight), module_parameter(self, bias), out);
}

/* Splits x [T][heads length] into heads [heads][T][length], and normalises them if the model has
 * the weight `norm_name` (qwen3). Otherwise only strides change. */
static status_t split(context_t *ctx, const module_t *self, const char *norm_name,
                      const tensor_t *x, int64_t n_heads, tensor_t **out)
{
    static const int64_t order[] = {1, 0, 2};
    const int64_t length = tensor_sizes(x)[1] / n_heads;
    tensor_t *heads = NULL;
    TRY(op_reshape(ctx, x, SHAPE(-1, n_heads, length), &heads));
    if (norm_name != NULL && module_parameter(self, norm_name) != NULL)
        TRY(norm(ctx, self, norm_name, heads, &heads));
    return op_permute(ctx, heads, 3, order, out);
}

static status_t turn(context_t *ctx, const module_t *self, const tensor_t *const *in,
                     const tensor_t *heads, tensor_t **out)
{
    return op_rotary_embedding(ctx, heads, in[COS], in[SIN], integer_of(self, "interleaved") != 0,
                               out);
}

static status_t attend(context_t *ctx, module_t *self, const tensor_t *const *in, const tensor_t *x,
                       tensor_t **out)
{
    static const int64_t order[] = {1, 0, 2};
    const int64_t n_heads = integer_of(self, "heads"), n_kv_heads = integer_of(self, "kv_heads");
    const attention_attrs_t attrs = {.is_causal = true, .enable_gqa = true};
    tensor_t *k_cache = module_buffer(self, "cache_k"), *v_cache = module_buffer(self, "cache_v");
    tensor_t *q = NULL, *k = NULL, *v = NULL, *mixed = NULL, *rows = NULL, *joined = NULL;
    TRY(project(ctx, self, "attn_q.weight", "attn_q.bias", x, &q));
    TRY(project(ctx, self, "attn_k.weight", "attn_k.bias", x, &k));
    TRY(project(ctx, self, "attn_v.weight", "attn_v.bias", x, &v));
    TRY(split(ctx, self, "attn_q_norm.weight", q, n_heads, &q));
    TRY(split(ctx, self, "attn_k_norm.weight", k, n_kv_heads, &k));
    TRY(split(ctx, self, NULL, v, n_kv_heads, &v));
    TRY(turn(ctx, self, in, q, &q));
    TRY(turn(ctx, self, in, k, &k));
    TRY(op_slice_scatter_(ctx, k_cache, 1, k, in[LAYER_START]));
    TRY(op_slice_scatter_(ctx, v_cache, 1, v, in[LAYER_START]));
    TRY(op_cached_attention(ctx, q, k_cache, v_cache, NULL, in[LAYER_LENGTH], &attrs, &mixed));
    TRY(op_permute(ctx, mixed, 3, order, &rows));
    const int64_t width = n_heads * tensor_sizes(v_cache)[2];
    TRY(op_reshape(ctx, rows, SHAPE(-1, width), &joined));
    return project(ctx, self, "attn_output.weight", "attn_output.bias", joined, out);
}

static status_t feed_forward(context_t *ctx, const module_t *self, const tensor_t *x,
                             tensor_t **out)
{
    tensor_t *gate = NULL, *up = NULL, *active = NULL, *product = NULL;
    TRY(project(ctx, self, "ffn_gate.weight", "ffn_gate.bias", x, &gate));
    TRY(project(ctx, self, "ffn_up.weight", "ffn_up.bias", x, &up));
    TRY(op_silu(ctx, gate, &active));
    TRY(op_mul(ctx, active, up, &product));
    return project(ctx, self, "ffn_down.weight", "ffn_down.bias", product, out);
}

static status_t forward_layer(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    tensor_t *x = NULL, *mixed = NULL, *middle = NULL, *y = NULL, *change = NULL;
    REQUIRE(ctx, n_in == N_LAYER, "a layer takes %d tensors, %d are given", N_LAYER, n_in);
    TRY(norm(ctx, self, "attn_norm.weight", in[X], &x));
    TRY(attend(ctx, self, in, x, &mixed));
    TRY(op_add(ctx, in[X], mixed, &middle));
    TRY(norm(ctx, self, "ffn_norm.weight", middle, &y));
    TRY(feed_forward(ctx, self, y, &change));
    *n_out = 1;
    return op_add(ctx, middle, change, out);
}

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    const int64_t n_layers = integer_of(self, "layers");
    const tensor_t *embedding = module_parameter(self, "token_embd.weight");
    const tensor_t *head = module_parameter(self, "output.weight");
    tensor_t *x = NULL, *angles[2] = {NULL}, *row = NULL, *last = NULL;
    REQUIRE(ctx, n_in == ROW + 1, "forward: %d tensors are given, it takes %d", n_in, ROW + 1);
    TRY(op_gather(ctx, embedding, 0, in[TOKENS], &x));
    TRY(op_gather(ctx, module_buffer(self, "rope.cos"), 0, in[POSITIONS], &angles[0]));
    TRY(op_gather(ctx, module_buffer(self, "rope.sin"), 0, in[POSITIONS], &angles[1]));
    for (int64_t i = 0; i < n_layers; i++) {
        const tensor_t *arguments[] = {x, angles[0], angles[1], in[START], in[LENGTH]};
        char method[64];
        int n = 1;
        snprintf(method, sizeof method, "blk.%d.forward", (int)i);
        TRY(module_call_tensors(ctx, self, method, N_LAYER, arguments, &n, &x));
    }
    TRY(op_gather(ctx, x, 0, in[ROW], &row));
    TRY(norm(ctx, self, "output_norm.weight", row, &last));
    *n_out = 1;
    return op_linear(ctx, last, head != NULL ? head : embedding, NULL, out);
}

status_t decoder_set_forward(context_t *ctx, module_t *model)
{
    return module_set_forward(ctx, model, "forward", forward);
}

status_t decoder_set_layer_forward(context_t *ctx, module_t *layer)
{
    return module_set_forward(ctx, layer, "forward", forward_layer);
}
