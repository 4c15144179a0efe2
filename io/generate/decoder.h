/* Language models of the llama family as modules, made from GGUF files.
 *
 * The module has one method. It runs new tokens of one sequence, writes their keys and values to
 * caches of fixed capacity, and returns the logits of one of them:
 *
 *   forward(tokens s64[T], positions s64[T], start s64[], length s64[], row s64[1]) -> f32[1][V]
 *
 * positions are start, start + 1 .. start + T - 1, and length is start + T. All are values of a
 * run, so a plan for T serves every position. To run fewer than T tokens, fill the rest with any
 * tokens: later runs overwrite their keys. The logits are those of token `row`, counted from 0.
 *
 * The caches are buffers of the layers, blk.0.cache_k and blk.0.cache_v, [heads][capacity][elements
 * of a head]: a frozen module keeps them as state. */
#ifndef TESSERA_IO_GENERATE_DECODER_H
#define TESSERA_IO_GENERATE_DECODER_H

#include "io/gguf/gguf.h"
#include "module/module.h"

typedef struct decoder_options {
    int64_t capacity;    /* rows of the caches; 0: the model's context, at most 4096 */
    dtype_t cache_dtype; /* DTYPE_NONE: f32; DTYPE_BF16 */
} decoder_options_t;

/* Makes the module of a file. Its parameters are the file's tensors, under the file's names. The
 * file may be closed afterwards.
 *
 * Architectures: llama, qwen2 and qwen3, with rotary scaling none, linear, or by factors in the
 * file (llama 3).
 *
 * options  NULL: the defaults
 *
 * CORRUPT           the metadata or a tensor is missing, or has wrong sizes
 * UNSUPPORTED       another architecture, experts, another kind of rotary scaling
 * INVALID_ARGUMENT  the capacity is negative, or the dtype is neither f32 nor bf16 */
status_t decoder_create(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                        module_t **out_module) TESSERA_API(decoder_create);

#endif
