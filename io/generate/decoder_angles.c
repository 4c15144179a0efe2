/* Rotary embedding: scaling of angles, and the tables of their cos and sin. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/generate/decoder_impl.h"
#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

/* ---- metadata ---- */

static status_t read_yarn(context_t *ctx, const gguf_t *file, decoder_shape_t *shape)
{
    const char *name = shape->architecture;
    decoder_rotary_t *r = &shape->rotary;
    r->fast = 32.0;
    r->slow = 1.0;
    r->is_yarn = true;
    TRY(decoder_read_number(ctx, file, name, "rope.scaling.yarn_beta_fast", &r->fast));
    TRY(decoder_read_number(ctx, file, name, "rope.scaling.yarn_beta_slow", &r->slow));
    r->magnitude *= 1.0 + 0.1 * log(r->scaling);
    return STATUS_OK;
}

/* phi3 has factors for short and for long sequences, others (llama 3) one tensor. */
static const char *choose_factors(const decoder_shape_t *shape)
{
    if (!shape->is_fused) return "rope_freqs.weight";
    const bool is_long = shape->capacity > shape->rotary.n_trained;
    return is_long ? "rope_factors_long.weight" : "rope_factors_short.weight";
}

status_t decoder_read_rotary(context_t *ctx, const gguf_t *file, decoder_shape_t *shape)
{
    const char *name = shape->architecture, *kind = "linear";
    decoder_rotary_t *r = &shape->rotary;
    char key[128];
    *r = (decoder_rotary_t){shape->key_length, 10000.0, 1.0, .n_trained = shape->context,
                            .magnitude = 1.0};
    TRY(decoder_read_integer(ctx, file, name, "rope.dimension_count", &r->length));
    TRY(decoder_read_number(ctx, file, name, "rope.freq_base", &r->base));
    TRY(decoder_read_number(ctx, file, name, "rope.scaling.attn_factor", &r->magnitude));
    TRY(decoder_read_integer(ctx, file, name, "rope.scaling.original_context_length",
                             &r->n_trained));
    snprintf(key, sizeof key, "%s.rope.scaling.type", name);
    TRY(gguf_text(ctx, file, key, &kind));
    const bool is_yarn = strcmp(kind, "yarn") == 0;
    if (is_yarn || strcmp(kind, "linear") == 0)
        TRY(decoder_read_number(ctx, file, name, "rope.scaling.factor", &r->scaling));
    else if (strcmp(kind, "none") != 0 && strcmp(kind, "longrope") != 0)
        FAIL(ctx, STATUS_UNSUPPORTED, "%s: rotary scaling \"%s\" is not supported", gguf_path(file),
             kind);
    if (is_yarn) TRY(read_yarn(ctx, file, shape));
    r->factors = choose_factors(shape);
    if (r->length % 2 != 0 || r->length > shape->key_length)
        FAIL(ctx, STATUS_CORRUPT, "%s: rotary embedding of %lld elements in heads of %lld",
             gguf_path(file), (long long)r->length, (long long)shape->key_length);
    return STATUS_OK;
}

/* ---- tables ---- */

/* The pair of elements that turns `turns` times in the context of the training. */
static double find_pair(const decoder_rotary_t *r, double turns)
{
    const double pi = 3.14159265358979323846;
    return (double)r->length * log((double)r->n_trained / (turns * 2.0 * pi)) /
           (2.0 * log(r->base));
}

/* Angle of pair i at position 1. */
static double frequency_of(const decoder_rotary_t *r, const float *factors, int64_t i)
{
    double frequency = pow(r->base, -2.0 * (double)i / (double)r->length);
    if (factors != NULL) frequency /= (double)factors[i];
    if (!r->is_yarn) return frequency / r->scaling;
    const double first = fmax(0.0, floor(find_pair(r, r->fast)));
    const double last = fmin((double)r->length - 1.0, ceil(find_pair(r, r->slow)));
    const double share = fmin(1.0, fmax(0.0, ((double)i - first) / fmax(0.001, last - first)));
    return frequency * (1.0 - share) + frequency / r->scaling * share;
}

static status_t read_factors(context_t *ctx, const gguf_t *file, const decoder_rotary_t *r,
                             tensor_t **out_factors, const float **out_data)
{
    const int64_t n = r->length / 2;
    const gguf_info_t *info = r->factors != NULL ? gguf_find(file, r->factors) : NULL;
    const void *data = NULL;
    *out_data = NULL;
    if (info == NULL) return STATUS_OK;
    if (info->rank != 1 || info->sizes[0] != n || info->dtype != DTYPE_F32)
        FAIL(ctx, STATUS_CORRUPT, "%s: %s is not f32[%lld]", gguf_path(file), info->name,
             (long long)n);
    TRY(gguf_tensor(ctx, file, info->name, out_factors));
    status_t status = tensor_data(ctx, *out_factors, &data);
    *out_data = data;
    return status;
}

static status_t set_table(context_t *ctx, module_t *rope, const char *name,
                          const decoder_rotary_t *r, int64_t n_rows, const float *factors,
                          double (*function)(double))
{
    const int64_t n = r->length / 2;
    tensor_t *table = NULL;
    void *data = NULL;
    TRY(tensor_zeros(ctx, DTYPE_F32, SHAPE(n_rows, n), &table));
    status_t status = tensor_data_mutable(ctx, table, &data);
    for (int64_t i = 0; i < n && status == STATUS_OK; i++) {
        const double frequency = frequency_of(r, factors, i);
        for (int64_t p = 0; p < n_rows; p++)
            ((float *)data)[p * n + i] = (float)(r->magnitude * function((double)p * frequency));
    }
    if (status == STATUS_OK) status = module_set_buffer(ctx, rope, name, table);
    ops_drop(ctx, table);
    return status;
}

static status_t set_tables(context_t *ctx, const gguf_t *file, const decoder_rotary_t *rotary,
                           int64_t n_rows, module_t *model, const char *child)
{
    tensor_t *tensor = NULL;
    const float *factors = NULL;
    module_t *rope = NULL;
    TRY(module_create(ctx, "Angles", &rope));
    status_t status = read_factors(ctx, file, rotary, &tensor, &factors);
    if (status == STATUS_OK) status = set_table(ctx, rope, "cos", rotary, n_rows, factors, cos);
    if (status == STATUS_OK) status = set_table(ctx, rope, "sin", rotary, n_rows, factors, sin);
    if (status == STATUS_OK) status = module_set_child(ctx, model, child, rope);
    ops_drop(ctx, tensor);
    module_release(rope);
    return status;
}

status_t decoder_set_angles(context_t *ctx, const gguf_t *file, const decoder_shape_t *shape,
                            module_t *model)
{
    const int64_t n_rows = shape->capacity + shape->n_spare;
    TRY(set_tables(ctx, file, &shape->rotary, n_rows, model, "rope"));
    if (shape->local_rotary.length == 0) return STATUS_OK;
    return set_tables(ctx, file, &shape->local_rotary, n_rows, model, "rope_local");
}
