/* Declarations that the files of io/generate share.
 *
 * This folder runs language models: their modules, sampling, and text from a prompt. */
#ifndef TESSERA_IO_GENERATE_DECODER_IMPL_H
#define TESSERA_IO_GENERATE_DECODER_IMPL_H

#include "io/generate/decoder.h"

/* How angles of rotary embedding depend on positions. */
typedef struct decoder_rotary {
    int64_t length;       /* elements of a head that are rotated */
    double base, scaling; /* angles are divided by `scaling` */
    bool is_yarn;         /* only those of low frequency are */
    int64_t n_trained;    /* context before scaling */
    double fast, slow;   /* yarn: turns in n_trained tokens between which scaling begins and ends */
    double magnitude;    /* factor of cos and sin */
    const char *factors; /* name of the tensor with divisors of frequencies, if the file has it */
} decoder_rotary_t;

/* Sizes and numbers of a model, from the metadata. */
typedef struct decoder_shape {
    const char *architecture;
    int64_t n_layers, width, n_heads, n_kv_heads, key_length, value_length, n_hidden, n_vocabulary;
    int64_t context, capacity, n_spare, n_slots;
    double epsilon;
    bool is_interleaved; /* pairs of rotary embedding are neighbours */
    bool is_gemma;       /* scaled embeddings, gelu, norms after attention and after layers */
    bool is_fused;       /* phi3: one weight for query, key and value, and one for gate and up */
    decoder_rotary_t rotary, local_rotary; /* the second for layers with a window */
    int64_t window, n_pattern; /* with a window, all but each n_pattern-th layer have it; 0: none */
    double scale, softcap;     /* of scores; 0: the default, and none */
    double logit_cap;          /* 0: none */
    dtype_t cache_dtype;
} decoder_shape_t;

status_t decoder_read_shape(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                            decoder_shape_t *out_shape);

status_t decoder_read_rotary(context_t *ctx, const gguf_t *file, decoder_shape_t *shape);

/* Reads "<architecture>.<name>". The value is unchanged if the file lacks it. CORRUPT for integers
 * that are not sizes, and for numbers that are not positive. */
status_t decoder_read_integer(context_t *ctx, const gguf_t *file, const char *architecture,
                              const char *name, int64_t *inout_value);
status_t decoder_read_number(context_t *ctx, const gguf_t *file, const char *architecture,
                             const char *name, double *inout_value);

/* Sets the tables of cos and sin: buffers of the children `rope` and, if layers with a window have
 * other angles, `rope_local`. */
status_t decoder_set_angles(context_t *ctx, const gguf_t *file, const decoder_shape_t *shape,
                            module_t *model);

/* Sets the C methods `forward` and `step` of the model or of one of its layers. */
status_t decoder_set_methods(context_t *ctx, module_t *model);
status_t decoder_set_layer_methods(context_t *ctx, module_t *layer);

#endif
