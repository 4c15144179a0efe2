/* The C methods of a decoder and of its layers. Tracing turns them into graphs. */
#include <stdio.h>

#include "io/generate/decoder_impl.h"
#include "ops/ops.h"
#include "tensor/context_impl.h"

/* Arguments of the model's method, and of a layer's. */
enum { TOKENS, POSITIONS, START, LENGTH, SLOTS, N_STEP, ROW = N_STEP, N_FORWARD };
enum { X, COS, SIN, LAYER_START, LAYER_LENGTH, LAYER_SLOTS, N_LAYER };

static const int64_t swapped[] = {0, 2, 1, 3}; /* order of dimensions: heads and tokens */

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

/* Splits x [N][heads length] into heads, and normalises them if the model has the weight
 * `norm_name` (qwen3). The N rows are tokens of one sequence, [1][heads][N][length], or, in a step,
 * of N sequences, [N][heads][1][length]. Otherwise only strides change. */
static status_t split(context_t *ctx, const module_t *self, const char *norm_name, bool is_step,
                      const tensor_t *x, int64_t n_heads, tensor_t **out)
{
    const int64_t length = tensor_sizes(x)[1] / n_heads;
    tensor_t *heads = NULL;
    TRY(op_reshape(ctx, x, SHAPE(is_step ? -1 : 1, is_step ? 1 : -1, n_heads, length), &heads));
    if (norm_name != NULL && module_parameter(self, norm_name) != NULL)
        TRY(norm(ctx, self, norm_name, heads, &heads));
    return op_permute(ctx, heads, 4, swapped, out);
}

static status_t turn(context_t *ctx, const module_t *self, const tensor_t *const *in,
                     const tensor_t *heads, tensor_t **out)
{
    return op_rotary_embedding(ctx, heads, in[COS], in[SIN], integer_of(self, "interleaved") != 0,
                               out);
}

/* Query, key and value, from three weights or from one (phi3). */
static status_t project_all(context_t *ctx, const module_t *self, const tensor_t *x, tensor_t **q,
                            tensor_t **k, tensor_t **v)
{
    const int64_t length = integer_of(self, "key_length");
    const int64_t n_q = integer_of(self, "heads") * length;
    const int64_t n_k = n_q + integer_of(self, "kv_heads") * length;
    tensor_t *all = NULL;
    if (module_parameter(self, "attn_qkv.weight") == NULL) {
        TRY(project(ctx, self, "attn_q.weight", "attn_q.bias", x, q));
        TRY(project(ctx, self, "attn_k.weight", "attn_k.bias", x, k));
        return project(ctx, self, "attn_v.weight", "attn_v.bias", x, v);
    }
    TRY(project(ctx, self, "attn_qkv.weight", "attn_qkv.bias", x, &all));
    TRY(op_slice(ctx, all, 1, 0, n_q, 1, q));
    TRY(op_slice(ctx, all, 1, n_q, n_k, 1, k));
    return op_slice(ctx, all, 1, n_k, INT64_MAX, 1, v);
}

static status_t attend(context_t *ctx, module_t *self, bool is_step, const tensor_t *const *in,
                       const tensor_t *x, tensor_t **out)
{
    const int64_t n_heads = integer_of(self, "heads"), n_kv_heads = integer_of(self, "kv_heads");
    const attention_attrs_t attrs = {.is_causal = true,
                                     .enable_gqa = true,
                                     .scale = number_of(self, "scale"),
                                     .window = integer_of(self, "window"),
                                     .softcap = number_of(self, "softcap")};
    tensor_t *k_cache = module_buffer(self, "cache_k"), *v_cache = module_buffer(self, "cache_v");
    tensor_t *q = NULL, *k = NULL, *v = NULL, *mixed = NULL, *rows = NULL, *joined = NULL;
    TRY(project_all(ctx, self, x, &q, &k, &v));
    TRY(split(ctx, self, "attn_q_norm.weight", is_step, q, n_heads, &q));
    TRY(split(ctx, self, "attn_k_norm.weight", is_step, k, n_kv_heads, &k));
    TRY(split(ctx, self, NULL, is_step, v, n_kv_heads, &v));
    TRY(turn(ctx, self, in, q, &q));
    TRY(turn(ctx, self, in, k, &k));
    TRY(op_slice_scatter_(ctx, k_cache, 2, k, in[LAYER_START], in[LAYER_SLOTS]));
    TRY(op_slice_scatter_(ctx, v_cache, 2, v, in[LAYER_START], in[LAYER_SLOTS]));
    TRY(op_cached_attention(ctx, q, k_cache, v_cache, NULL, in[LAYER_LENGTH], in[LAYER_SLOTS],
                            &attrs, &mixed));
    TRY(op_permute(ctx, mixed, 4, swapped, &rows));
    const int64_t width = n_heads * tensor_sizes(v_cache)[3];
    TRY(op_reshape(ctx, rows, SHAPE(-1, width), &joined));
    return project(ctx, self, "attn_output.weight", "attn_output.bias", joined, out);
}

static status_t feed_forward(context_t *ctx, const module_t *self, const tensor_t *x,
                             tensor_t **out)
{
    const tensor_t *weight = module_parameter(self, "ffn_up.weight");
    tensor_t *gate = NULL, *up = NULL, *active = NULL, *product = NULL;
    TRY(project(ctx, self, "ffn_up.weight", "ffn_up.bias", x, &up));
    if (module_parameter(self, "ffn_gate.weight") != NULL) {
        TRY(project(ctx, self, "ffn_gate.weight", "ffn_gate.bias", x, &gate));
    } else { /* phi3: the first half of the outputs is the gate */
        tensor_t *both = up;
        TRY(op_slice(ctx, both, 1, 0, tensor_sizes(weight)[0] / 2, 1, &gate));
        TRY(op_slice(ctx, both, 1, tensor_sizes(weight)[0] / 2, INT64_MAX, 1, &up));
    }
    TRY(integer_of(self, "gelu") != 0 ? op_gelu(ctx, gate, true, &active)
                                      : op_silu(ctx, gate, &active));
    TRY(op_mul(ctx, active, up, &product));
    return project(ctx, self, "ffn_down.weight", "ffn_down.bias", product, out);
}

/* x + change, where the change is normalised if the model has such a norm (gemma). */
static status_t add_change(context_t *ctx, const module_t *self, const char *norm_name,
                           const tensor_t *x, tensor_t *change, tensor_t **out)
{
    if (module_parameter(self, norm_name) != NULL) TRY(norm(ctx, self, norm_name, change, &change));
    return op_add(ctx, x, change, out);
}

static status_t run_layer(context_t *ctx, module_t *self, bool is_step, int n_in,
                          const tensor_t *const *in, int *n_out, tensor_t **out)
{
    tensor_t *x = NULL, *mixed = NULL, *middle = NULL, *y = NULL, *change = NULL;
    REQUIRE(ctx, n_in == N_LAYER, "a layer takes %d tensors, %d are given", N_LAYER, n_in);
    TRY(norm(ctx, self, "attn_norm.weight", in[X], &x));
    TRY(attend(ctx, self, is_step, in, x, &mixed));
    TRY(add_change(ctx, self, "post_attention_norm.weight", in[X], mixed, &middle));
    TRY(norm(ctx, self, "ffn_norm.weight", middle, &y));
    TRY(feed_forward(ctx, self, y, &change));
    *n_out = 1;
    return add_change(ctx, self, "post_ffw_norm.weight", middle, change, out);
}

static status_t forward_layer(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    return run_layer(ctx, self, false, n_in, in, n_out, out);
}

static status_t step_layer(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    return run_layer(ctx, self, true, n_in, in, n_out, out);
}

/* Rows of a table of angles: [N][n], or, in a step, [N][1][1][n]. */
static status_t take_angles(context_t *ctx, const module_t *self, const char *name, bool is_step,
                            const tensor_t *positions, tensor_t **out)
{
    const tensor_t *table = module_buffer(self, name);
    TRY(op_gather(ctx, table, 0, positions, out));
    return is_step ? op_reshape(ctx, *out, SHAPE(-1, 1, 1, tensor_sizes(table)[1]), out)
                   : STATUS_OK;
}

/* Angles of all layers, and those of layers with a window, which may be the same. */
static status_t take_all_angles(context_t *ctx, const module_t *self, bool is_step,
                                const tensor_t *positions, tensor_t **angles)
{
    TRY(take_angles(ctx, self, "rope.cos", is_step, positions, &angles[0]));
    TRY(take_angles(ctx, self, "rope.sin", is_step, positions, &angles[1]));
    angles[2] = angles[0];
    angles[3] = angles[1];
    if (module_buffer(self, "rope_local.cos") == NULL) return STATUS_OK;
    TRY(take_angles(ctx, self, "rope_local.cos", is_step, positions, &angles[2]));
    return take_angles(ctx, self, "rope_local.sin", is_step, positions, &angles[3]);
}

/* Runs all layers. The result is [N][width]. */
static status_t run_layers(context_t *ctx, module_t *self, bool is_step, const tensor_t *const *in,
                           tensor_t **out)
{
    const int64_t n_layers = integer_of(self, "layers");
    const double scale = number_of(self, "embedding_scale");
    tensor_t *x = NULL, *angles[4] = {NULL};
    TRY(op_gather(ctx, module_parameter(self, "token_embd.weight"), 0, in[TOKENS], &x));
    if (scale != 1.0) TRY(op_mul_scalar(ctx, x, scale, &x));
    TRY(take_all_angles(ctx, self, is_step, in[POSITIONS], angles));
    for (int64_t i = 0; i < n_layers; i++) {
        char method[64];
        int n = 1;
        snprintf(method, sizeof method, "blk.%d", (int)i);
        tensor_t *const *own = integer_of(module_child(self, method), "window") > 0 ? angles + 2
                                                                                    : angles;
        const tensor_t *arguments[] = {x, own[0], own[1], in[START], in[LENGTH], in[SLOTS]};
        snprintf(method, sizeof method, "blk.%d.%s", (int)i, is_step ? "step" : "forward");
        TRY(module_call_tensors(ctx, self, method, N_LAYER, arguments, &n, &x));
    }
    *out = x;
    return STATUS_OK;
}

static status_t compute_logits(context_t *ctx, const module_t *self, const tensor_t *x,
                               tensor_t **out)
{
    const tensor_t *head = module_parameter(self, "output.weight");
    const double cap = number_of(self, "logit_cap");
    tensor_t *last = NULL, *logits = NULL, *small = NULL, *capped = NULL;
    if (head == NULL) head = module_parameter(self, "token_embd.weight");
    TRY(norm(ctx, self, "output_norm.weight", x, &last));
    if (cap == 0.0) return op_linear(ctx, last, head, NULL, out);
    TRY(op_linear(ctx, last, head, NULL, &logits));
    TRY(op_mul_scalar(ctx, logits, 1.0 / cap, &small));
    TRY(op_tanh(ctx, small, &capped));
    return op_mul_scalar(ctx, capped, cap, out);
}

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    tensor_t *x = NULL, *row = NULL;
    REQUIRE(ctx, n_in == N_FORWARD, "forward: %d tensors are given, it takes %d", n_in, N_FORWARD);
    TRY(run_layers(ctx, self, false, in, &x));
    TRY(op_gather(ctx, x, 0, in[ROW], &row));
    *n_out = 1;
    return compute_logits(ctx, self, row, out);
}

static status_t step(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                     int *n_out, tensor_t **out)
{
    tensor_t *x = NULL;
    REQUIRE(ctx, n_in == N_STEP, "step: %d tensors are given, it takes %d", n_in, N_STEP);
    TRY(run_layers(ctx, self, true, in, &x));
    *n_out = 1;
    return compute_logits(ctx, self, x, out);
}

status_t decoder_set_methods(context_t *ctx, module_t *model)
{
    TRY(module_set_forward(ctx, model, "forward", forward));
    return module_set_forward(ctx, model, "step", step);
}

status_t decoder_set_layer_methods(context_t *ctx, module_t *layer)
{
    TRY(module_set_forward(ctx, layer, "forward", forward_layer));
    return module_set_forward(ctx, layer, "step", step_layer);
}
