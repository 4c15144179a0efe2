/* Reads the sizes of a model from the metadata of its file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/generate/decoder_impl.h"
#include "tensor/context_impl.h"

#define DEFAULT_CAPACITY 4096
#define MAX_SLOTS 256
#define LARGEST (INT64_C(1) << 30) /* limit of all sizes, so that products do not overflow */

status_t decoder_read_integer(context_t *ctx, const gguf_t *file, const char *architecture,
                              const char *name, int64_t *inout_value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    TRY(gguf_integer(ctx, file, key, inout_value));
    if (*inout_value < 1 || *inout_value > LARGEST)
        FAIL(ctx, STATUS_CORRUPT, "%s: %s is %lld, 1 to %lld is possible", gguf_path(file), key,
             (long long)*inout_value, (long long)LARGEST);
    return STATUS_OK;
}

status_t decoder_read_number(context_t *ctx, const gguf_t *file, const char *architecture,
                             const char *name, double *inout_value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    TRY(gguf_number(ctx, file, key, inout_value));
    if (!(*inout_value > 0.0))
        FAIL(ctx, STATUS_CORRUPT, "%s: %s is %g, must be positive", gguf_path(file), key,
             *inout_value);
    return STATUS_OK;
}

static status_t read_architecture(context_t *ctx, const gguf_t *file, decoder_shape_t *shape)
{
    int64_t n_experts = 0;
    char key[128];
    shape->architecture = "";
    TRY(gguf_text(ctx, file, "general.architecture", &shape->architecture));
    const char *name = shape->architecture;
    static const char *const known[] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"};
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= strcmp(name, known[i]) == 0;
    if (!is_known)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "%s: architecture \"%s\", only llama, qwen2, qwen3, gemma2, gemma3 and phi3 are "
             "supported",
             gguf_path(file), name);
    snprintf(key, sizeof key, "%s.expert_count", name);
    TRY(gguf_integer(ctx, file, key, &n_experts));
    if (n_experts > 0)
        FAIL(ctx, STATUS_UNSUPPORTED, "%s: %lld experts are not supported", gguf_path(file),
             (long long)n_experts);
    /* For llama, llama.cpp's converter reorders the rows of query and key, so that the elements of
     * a pair are adjacent. */
    shape->is_interleaved = strcmp(name, "llama") == 0;
    shape->is_gemma = strncmp(name, "gemma", 5) == 0;
    shape->is_fused = strcmp(name, "phi3") == 0;
    return STATUS_OK;
}

/* Windows, caps and scales of gemma. As in llama.cpp, defaults and patterns are not in the file. */
static status_t read_gemma(context_t *ctx, const gguf_t *file, decoder_shape_t *s)
{
    const char *name = s->architecture;
    const bool is_second = strcmp(name, "gemma2") == 0;
    if (!s->is_gemma) return STATUS_OK;
    s->window = is_second ? 4096 : LARGEST;
    s->logit_cap = is_second ? 30.0 : INFINITY;
    TRY(decoder_read_integer(ctx, file, name, "attention.sliding_window", &s->window));
    s->n_pattern = is_second ? 2 : 6;
    if (is_second) {
        s->softcap = 50.0;
        TRY(decoder_read_number(ctx, file, name, "attn_logit_softcapping", &s->softcap));
    } else {
        s->local_rotary = (decoder_rotary_t){s->rotary.length, 10000.0, 1.0, .magnitude = 1.0};
    }
    TRY(decoder_read_number(ctx, file, name, "final_logit_softcapping", &s->logit_cap));
    if (s->window == LARGEST) s->window = 0; /* no layer has one */
    if (isinf(s->logit_cap)) s->logit_cap = 0.0;
    if (s->n_layers == (is_second ? 46 : 62)) /* the models of 27 billion weights */
        s->scale = 1.0 / sqrt((double)s->width / (double)s->n_heads);
    return STATUS_OK;
}

static status_t read_heads(context_t *ctx, const gguf_t *file, decoder_shape_t *shape)
{
    const char *name = shape->architecture;
    TRY(decoder_read_integer(ctx, file, name, "attention.head_count", &shape->n_heads));
    shape->n_kv_heads = shape->n_heads;
    TRY(decoder_read_integer(ctx, file, name, "attention.head_count_kv", &shape->n_kv_heads));
    shape->key_length = shape->width / shape->n_heads;
    TRY(decoder_read_integer(ctx, file, name, "attention.key_length", &shape->key_length));
    shape->value_length = shape->key_length;
    TRY(decoder_read_integer(ctx, file, name, "attention.value_length", &shape->value_length));
    if (shape->n_heads % shape->n_kv_heads != 0)
        FAIL(ctx, STATUS_CORRUPT, "%s: %lld heads do not divide into %lld groups", gguf_path(file),
             (long long)shape->n_heads, (long long)shape->n_kv_heads);
    return STATUS_OK;
}

static status_t choose_cache(context_t *ctx, const decoder_options_t *options,
                             decoder_shape_t *shape)
{
    const decoder_options_t given = options != NULL ? *options : (decoder_options_t){.capacity = 0};
    shape->cache_dtype = given.cache_dtype == DTYPE_NONE ? DTYPE_F32 : given.cache_dtype;
    REQUIRE(ctx, shape->cache_dtype == DTYPE_F32 || shape->cache_dtype == DTYPE_BF16,
            "decoder_create: the cache is %s, f32 or bf16 is possible",
            dtype_name(shape->cache_dtype));
    REQUIRE(ctx, given.capacity >= 0 && given.capacity <= LARGEST,
            "decoder_create: capacity %lld is out of range", (long long)given.capacity);
    REQUIRE(ctx, given.n_slots >= 0 && given.n_slots <= MAX_SLOTS,
            "decoder_create: %d slots, 1 to %d are possible", given.n_slots, MAX_SLOTS);
    REQUIRE(ctx, given.n_spare >= 0, "decoder_create: n_spare is %d, must not be negative",
            given.n_spare);
    shape->n_spare = given.n_spare;
    shape->n_slots = given.n_slots > 0 ? given.n_slots : 1;
    shape->capacity = shape->context < DEFAULT_CAPACITY ? shape->context : DEFAULT_CAPACITY;
    if (given.capacity > 0) shape->capacity = given.capacity;
    return STATUS_OK;
}

status_t decoder_read_shape(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                            decoder_shape_t *out_shape)
{
    decoder_shape_t shape = {.epsilon = 1e-5};
    TRY(read_architecture(ctx, file, &shape));
    const char *name = shape.architecture;
    TRY(decoder_read_integer(ctx, file, name, "block_count", &shape.n_layers));
    TRY(decoder_read_integer(ctx, file, name, "embedding_length", &shape.width));
    TRY(decoder_read_integer(ctx, file, name, "feed_forward_length", &shape.n_hidden));
    TRY(decoder_read_integer(ctx, file, name, "context_length", &shape.context));
    TRY(decoder_read_number(ctx, file, name, "attention.layer_norm_rms_epsilon", &shape.epsilon));
    TRY(read_heads(ctx, file, &shape));
    TRY(choose_cache(ctx, options, &shape));
    TRY(decoder_read_rotary(ctx, file, &shape));
    TRY(read_gemma(ctx, file, &shape));
    const gguf_info_t *embedding = gguf_find(file, "token_embd.weight");
    if (embedding == NULL || embedding->rank != 2 || embedding->sizes[1] != shape.width)
        FAIL(ctx, STATUS_CORRUPT,
             "%s: token_embd.weight is missing, or its rows do not have %lld "
             "elements",
             gguf_path(file), (long long)shape.width);
    shape.n_vocabulary = embedding->sizes[0];
    *out_shape = shape;
    return STATUS_OK;
}
