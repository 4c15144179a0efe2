/* Builds the module of a GGUF file: one child for each layer, with the file's tensors. */
#include "io/generate/decoder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/generate/decoder_impl.h"
#include "module/layers/layers_impl.h"
#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

typedef struct building {
    context_t *ctx;
    const gguf_t *file;
    const decoder_shape_t *shape;
} building_t;

/* ---- members ---- */

/* Makes the children of a path such as "attn_q.weight", and returns the last one. */
static status_t make_children(context_t *ctx, module_t *module, const char *path,
                              module_t **out_last, const char **out_name)
{
    char name[128];
    const char *dot = NULL;
    for (; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        module_t *child = module_child(module, name);
        if (child == NULL) {
            TRY(module_create(ctx, "Weights", &child));
            status_t status = module_set_child(ctx, module, name, child);
            module_release(child);
            TRY(status);
        }
        module = child;
    }
    *out_last = module;
    *out_name = path;
    return STATUS_OK;
}

/* Reads a tensor; f16 and bf16 become f32, exactly. */
static status_t read_tensor(const building_t *b, const char *name, tensor_t **out_tensor)
{
    tensor_t *given = NULL;
    TRY(gguf_tensor(b->ctx, b->file, name, &given));
    if (tensor_dtype(given) != DTYPE_F16 && tensor_dtype(given) != DTYPE_BF16) {
        *out_tensor = given;
        return STATUS_OK;
    }
    status_t status = op_cast(b->ctx, given, DTYPE_F32, out_tensor);
    ops_drop(b->ctx, given);
    return status;
}

/* Sets parameter `path` to the file's tensor prefix + path. Sizes are [rows][columns], or [columns]
 * if rows is 0. A tensor that is optional may be missing. */
static status_t set_tensor(const building_t *b, module_t *module, const char *prefix,
                           const char *path, int64_t n_rows, int64_t n_columns, bool is_optional)
{
    char name[256];
    tensor_t *tensor = NULL;
    module_t *owner = NULL;
    snprintf(name, sizeof name, "%s%s", prefix, path);
    const gguf_info_t *info = gguf_find(b->file, name);
    if (info == NULL && is_optional) return STATUS_OK;
    const int rank = n_rows > 0 ? 2 : 1;
    if (info == NULL || info->rank != rank || info->sizes[rank - 1] != n_columns ||
        (rank == 2 && info->sizes[0] != n_rows))
        FAIL(b->ctx, STATUS_CORRUPT, "%s: %s is missing, or not [%lld,%lld]", gguf_path(b->file),
             name, (long long)(rank == 2 ? n_rows : 1), (long long)n_columns);
    TRY(make_children(b->ctx, module, path, &owner, &path));
    TRY(read_tensor(b, name, &tensor));
    status_t status = module_set_parameter(b->ctx, owner, path, tensor);
    ops_drop(b->ctx, tensor);
    return status;
}

static status_t set_cache(const building_t *b, module_t *layer, const char *name, int64_t length)
{
    tensor_t *cache = NULL;
    TRY(tensor_zeros(b->ctx, b->shape->cache_dtype,
                     SHAPE(b->shape->n_slots, b->shape->n_kv_heads,
                           b->shape->capacity + b->shape->n_spare, length),
                     &cache));
    status_t status = module_set_buffer(b->ctx, layer, name, cache);
    ops_drop(b->ctx, cache);
    return status;
}

/* ---- layers ---- */

static status_t set_projections(const building_t *b, module_t *layer, const char *prefix)
{
    const decoder_shape_t *s = b->shape;
    const int64_t q = s->n_heads * s->key_length, k = s->n_kv_heads * s->key_length;
    const int64_t v = s->n_kv_heads * s->value_length;
    if (s->is_fused)
        return set_tensor(b, layer, prefix, "attn_qkv.weight", q + k + v, s->width, false);
    TRY(set_tensor(b, layer, prefix, "attn_q.weight", q, s->width, false));
    TRY(set_tensor(b, layer, prefix, "attn_k.weight", k, s->width, false));
    TRY(set_tensor(b, layer, prefix, "attn_v.weight", v, s->width, false));
    TRY(set_tensor(b, layer, prefix, "attn_q.bias", 0, q, true));
    TRY(set_tensor(b, layer, prefix, "attn_k.bias", 0, k, true));
    return set_tensor(b, layer, prefix, "attn_v.bias", 0, v, true);
}

static status_t set_attention(const building_t *b, module_t *layer, const char *prefix)
{
    const decoder_shape_t *s = b->shape;
    const int64_t mixed = s->n_heads * s->value_length;
    TRY(set_tensor(b, layer, prefix, "attn_norm.weight", 0, s->width, false));
    TRY(set_projections(b, layer, prefix));
    TRY(set_tensor(b, layer, prefix, "attn_output.weight", s->width, mixed, false));
    TRY(set_tensor(b, layer, prefix, "attn_output.bias", 0, s->width, true));
    TRY(set_tensor(b, layer, prefix, "attn_q_norm.weight", 0, s->key_length, true));
    TRY(set_tensor(b, layer, prefix, "attn_k_norm.weight", 0, s->key_length, true));
    if (s->is_gemma)
        TRY(set_tensor(b, layer, prefix, "post_attention_norm.weight", 0, s->width, false));
    TRY(set_cache(b, layer, "cache_k", s->key_length));
    return set_cache(b, layer, "cache_v", s->value_length);
}

static status_t set_feed_forward(const building_t *b, module_t *layer, const char *prefix)
{
    const decoder_shape_t *s = b->shape;
    const int64_t n_up = s->is_fused ? 2 * s->n_hidden : s->n_hidden;
    TRY(set_tensor(b, layer, prefix, "ffn_norm.weight", 0, s->width, false));
    if (!s->is_fused) {
        TRY(set_tensor(b, layer, prefix, "ffn_gate.weight", n_up, s->width, false));
        TRY(set_tensor(b, layer, prefix, "ffn_gate.bias", 0, n_up, true));
    }
    TRY(set_tensor(b, layer, prefix, "ffn_up.weight", n_up, s->width, false));
    TRY(set_tensor(b, layer, prefix, "ffn_down.weight", s->width, s->n_hidden, false));
    TRY(set_tensor(b, layer, prefix, "ffn_up.bias", 0, n_up, true));
    if (s->is_gemma) TRY(set_tensor(b, layer, prefix, "post_ffw_norm.weight", 0, s->width, false));
    return set_tensor(b, layer, prefix, "ffn_down.bias", 0, s->width, true);
}

static status_t fill_layer(const building_t *b, module_t *layer, int index)
{
    const decoder_shape_t *s = b->shape;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "blk.%d.", index);
    TRY(layer_set_int(b->ctx, layer, "heads", s->n_heads));
    TRY(layer_set_int(b->ctx, layer, "kv_heads", s->n_kv_heads));
    TRY(layer_set_int(b->ctx, layer, "interleaved", s->is_interleaved));
    const bool has_window = s->window > 0 && index % s->n_pattern < s->n_pattern - 1;
    TRY(layer_set_int(b->ctx, layer, "key_length", s->key_length));
    TRY(layer_set_int(b->ctx, layer, "window", has_window ? s->window : 0));
    TRY(layer_set_int(b->ctx, layer, "gelu", s->is_gemma));
    TRY(layer_set_float(b->ctx, layer, "scale", s->scale));
    TRY(layer_set_float(b->ctx, layer, "softcap", s->softcap));
    TRY(layer_set_float(b->ctx, layer, "epsilon", s->epsilon));
    TRY(set_attention(b, layer, prefix));
    TRY(set_feed_forward(b, layer, prefix));
    return decoder_set_layer_methods(b->ctx, layer);
}

static status_t add_layer(const building_t *b, module_t *layers, int index)
{
    module_t *layer = NULL;
    char name[32];
    snprintf(name, sizeof name, "%d", index);
    TRY(module_create(b->ctx, "DecoderLayer", &layer));
    status_t status = fill_layer(b, layer, index);
    if (status == STATUS_OK) status = module_set_child(b->ctx, layers, name, layer);
    module_release(layer);
    return status;
}

/* ---- the model ---- */

static status_t fill_model(const building_t *b, module_t *model)
{
    const decoder_shape_t *s = b->shape;
    module_t *layers = NULL;
    TRY(layer_set_int(b->ctx, model, "layers", s->n_layers));
    TRY(layer_set_float(b->ctx, model, "epsilon", s->epsilon));
    TRY(layer_set_float(b->ctx, model, "embedding_scale",
                        s->is_gemma ? sqrt((double)s->width) : 1.0));
    TRY(layer_set_float(b->ctx, model, "logit_cap", s->logit_cap));
    TRY(set_tensor(b, model, "", "token_embd.weight", s->n_vocabulary, s->width, false));
    TRY(set_tensor(b, model, "", "output_norm.weight", 0, s->width, false));
    TRY(set_tensor(b, model, "", "output.weight", s->n_vocabulary, s->width, true));
    TRY(module_create(b->ctx, "Layers", &layers));
    status_t status = module_set_child(b->ctx, model, "blk", layers);
    for (int i = 0; i < s->n_layers && status == STATUS_OK; i++) status = add_layer(b, layers, i);
    module_release(layers);
    /* The layers' tensors have confirmed the lengths of heads. */
    if (status == STATUS_OK) status = decoder_set_angles(b->ctx, b->file, s, model);
    if (status == STATUS_OK) status = decoder_set_methods(b->ctx, model);
    return status;
}

status_t decoder_create(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                        module_t **out_module)
{
    decoder_shape_t shape;
    module_t *model = NULL;
    if (out_module == NULL) return context_null(ctx, "decoder_create", "out_module");
    *out_module = NULL;
    if (file == NULL) return context_null(ctx, "decoder_create", "file");
    TRY(decoder_read_shape(ctx, file, options, &shape));
    const building_t b = {ctx, file, &shape};
    TRY(module_create(ctx, "Decoder", &model));
    status_t status = fill_model(&b, model);
    if (status == STATUS_OK)
        *out_module = model;
    else
        module_release(model);
    return status;
}
