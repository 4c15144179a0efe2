/* Language models of the llama family as modules, made from GGUF files.
 *
 * The module has two methods. They run new tokens, write their keys and values to caches of fixed
 * capacity, and return logits. The caches have slots; each sequence uses one.
 *
 *   forward(tokens s64[T], positions s64[T], start s64[1], length s64[1], slot s64[1], row s64[1])
 *     -> f32[1][V]
 *   step(tokens s64[B], positions s64[B], starts s64[B], lengths s64[B], slots s64[B]) -> f32[B][V]
 *
 * `forward` runs T tokens of one sequence: positions are start, start + 1 .. start + T - 1, and
 * length is start + T. All are values of a run, so a plan for T serves every position. To run fewer
 * than T tokens, fill the rest with any tokens: later runs overwrite their keys. The logits are
 * those of token `row`, counted from 0.
 *
 * `step` runs one token of each of B sequences in different slots. Positions are starts, and
 * lengths are starts + 1.
 *
 * The caches are buffers of the layers, blk.0.cache_k and blk.0.cache_v, [slots][heads][capacity]
 * [elements of a head]: a frozen module keeps them as state. */
#ifndef TESSERA_IO_GENERATE_DECODER_H
#define TESSERA_IO_GENERATE_DECODER_H

#include "io/gguf/gguf.h"
#include "module/module.h"

typedef struct decoder_options {
    int64_t capacity;    /* rows of the caches; 0: the model's context, at most 4096 */
    dtype_t cache_dtype; /* DTYPE_NONE: f32; DTYPE_BF16 */
    int n_slots;         /* 0: 1 */
    int n_spare;         /* more rows of the caches, for the end of a run that is not full */
} decoder_options_t;

/* Makes the module of a file. Its parameters are the file's tensors, under the file's names. The
 * file may be closed afterwards.
 *
 * Architectures: llama, qwen2, qwen3, gemma2, gemma3 and phi3, with rotary scaling none, linear,
 * yarn, or by factors in the file (llama 3, phi3).
 *
 * options  NULL: the defaults
 *
 * CORRUPT           the metadata or a tensor is missing, or has wrong sizes
 * UNSUPPORTED       another architecture, experts, another kind of rotary scaling
 * INVALID_ARGUMENT  the capacity or the number of slots is out of range; the dtype is neither f32
 * nor bf16 */
status_t decoder_create(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                        module_t **out_module) TESSERA_API(decoder_create);

#endif
