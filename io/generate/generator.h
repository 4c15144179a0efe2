/* Generates tokens with a language model.
 *
 *   generator_create(ctx, "smollm2.gguf", NULL, &generator);
 *   generator_feed(ctx, generator, n, tokens);       the prompt
 *   for (...) generator_step(ctx, generator, &token); the next token, chosen and remembered
 *
 * A generator has one sequence. generator_add makes more generators over the same model, whose
 * sequences can step together. They are used by one thread at a time. */
#ifndef TESSERA_IO_GENERATE_GENERATOR_H
#define TESSERA_IO_GENERATE_GENERATOR_H

#include "io/generate/decoder.h"
#include "io/text/tokenizer.h"

typedef struct generator generator_t;

/* How the next token is chosen, in this order. Zeros choose the token with the largest logit. */
typedef struct sampling {
    double repeat_penalty; /* logits of the last 64 tokens are divided by it if positive, else
                              multiplied; 0: 1, no effect */
    int64_t top_k;         /* only the top_k largest logits; 0: all */
    double top_p;          /* only the largest ones whose probabilities add up to top_p; 0: all */
    double min_p;          /* only those with min_p times the largest probability or more */
    double temperature;    /* logits are divided by it, then a token is drawn; 0: the largest */
    int64_t seed;          /* the same seed draws the same tokens */
} sampling_t;

typedef struct generator_options {
    int64_t capacity;    /* tokens of a sequence; 0: the model's context, at most 4096 */
    dtype_t cache_dtype; /* DTYPE_NONE: f32; DTYPE_BF16 */
    int n_sequences;     /* most generators over this model at a time, up to 256; 0: 1 */
    sampling_t sampling;
} generator_options_t;

/* Opens a GGUF file, and freezes its model with a plan for one token and plans for parts of a
 * prompt. Later calls build no plan, and copy no byte of the caches.
 *
 * options  NULL: zeros
 *
 * Errors as in gguf_open and decoder_create; INVALID_ARGUMENT if a number in sampling is out of
 * range. */
status_t generator_create(context_t *ctx, const char *path, const generator_options_t *options,
                          generator_t **out_generator) TESSERA_API(generator_create);
/* The model remains until its last generator is destroyed. */
void generator_destroy(generator_t *generator) TESSERA_API(generator_destroy);

/* Appends tokens to the sequence.
 * INVALID_ARGUMENT  n < 1; a token is not in the vocabulary; the sequence exceeds its capacity */
status_t generator_feed(context_t *ctx, generator_t *generator, int64_t n, const int64_t *tokens)
    TESSERA_API(generator_feed);

/* Chooses the next token and appends it to the sequence. The model runs it with the next call of
 * generator_step or generator_feed.
 * INVALID_ARGUMENT  the sequence is empty, or its capacity is reached */
status_t generator_step(context_t *ctx, generator_t *generator, int64_t *out_token)
    TESSERA_API(generator_step);

/* Empties the sequence, and sets how tokens are chosen. sampling NULL: as before; the seed starts
 * again. */
status_t generator_reset(context_t *ctx, generator_t *generator, const sampling_t *sampling)
    TESSERA_API(generator_reset);

/* ---- several sequences ---- */

/* Makes a generator with an empty sequence of its own over the same model. The new one may outlive
 * the other.
 *
 * sampling  NULL: as for `generator`
 *
 * INVALID_ARGUMENT  there are n_sequences generators already; a number in sampling is out of range
 */
status_t generator_add(context_t *ctx, const generator_t *generator, const sampling_t *sampling,
                       generator_t **out_generator) TESSERA_API(generator_add);

/* generator_step for n generators over one model. Their tokens are those that single steps choose,
 * but up to 16 sequences read the weights together. Sequences may join and leave between steps.
 *
 * out_tokens  [n]
 *
 * INVALID_ARGUMENT  n < 1; as generator_step for one of them; a generator is given twice, or is
 * over another model. Then no sequence changes. */
status_t generator_step_all(context_t *ctx, int n, generator_t *const *generators,
                            int64_t *out_tokens) TESSERA_API(generator_step_all);

/* ---- text ---- */

/* The file's tokenizer, borrowed; NULL: the file has none. */
const tokenizer_t *generator_tokenizer(const generator_t *generator)
    TESSERA_API(generator_tokenizer);

/* Appends the tokens of a text to the sequence. is_chat: the text is a result of chat_text, in
 * which "<|im_end|>" is one token; otherwise, the token that begins a text is added if the model
 * expects it.
 * UNSUPPORTED       the file has no tokenizer
 * INVALID_ARGUMENT  the text is empty or not UTF-8, or exceeds the capacity */
status_t generator_prompt(context_t *ctx, generator_t *generator, const char *prompt, bool is_chat)
    TESSERA_API(generator_prompt);

/* Appends the text of the tokens that generator_step has chosen since the last call or the prompt.
 * A character is appended when all of its bytes have been chosen.
 * UNSUPPORTED       the file has no tokenizer
 * INVALID_ARGUMENT  more than 64 tokens were chosen since then */
status_t generator_text(context_t *ctx, generator_t *generator, text_t *text)
    TESSERA_API(generator_text);

/* ---- queries ---- */

/* Number of tokens of the sequence, of a full one, and of the vocabulary. */
int64_t generator_length(const generator_t *generator) TESSERA_API(generator_length);
int64_t generator_capacity(const generator_t *generator) TESSERA_API(generator_capacity);
int64_t generator_vocabulary(const generator_t *generator) TESSERA_API(generator_vocabulary);

/* Bytes of the weights that the model reads for one token. */
int64_t generator_step_bytes(const generator_t *generator) TESSERA_API(generator_step_bytes);

/* Logits after the last token that was fed, [vocabulary]; runs the model if a step is pending.
 * Borrowed until the next call. INVALID_ARGUMENT  the sequence is empty */
status_t generator_logits(context_t *ctx, generator_t *generator, const float **out_logits)
    TESSERA_API(generator_logits);

#endif
