/* Declarations that the files of io/generate share.
 *
 * This folder runs language models: their modules, sampling, and text from a prompt. */
#ifndef TESSERA_IO_GENERATE_DECODER_IMPL_H
#define TESSERA_IO_GENERATE_DECODER_IMPL_H

#include "io/generate/decoder.h"

/* Sizes and numbers of a model, from the metadata. */
typedef struct decoder_shape {
    const char *architecture;
    int64_t n_layers, width, n_heads, n_kv_heads, key_length, value_length, n_hidden, n_vocabulary;
    int64_t context, capacity, rotary_length;
    double epsilon, base, scaling; /* angles are divided by `scaling` */
    bool is_interleaved;           /* pairs of rotary embedding are neighbours */
    dtype_t cache_dtype;
} decoder_shape_t;

status_t decoder_read_shape(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                            decoder_shape_t *out_shape);

/* Sets the C method `forward` of the model or of one of its layers. */
status_t decoder_set_forward(context_t *ctx, module_t *model);
status_t decoder_set_layer_forward(context_t *ctx, module_t *layer);

#endif
