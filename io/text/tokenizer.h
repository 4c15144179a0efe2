/* Turns text into the tokens of a language model, and tokens into text.
 *
 * A tokenizer is made from the metadata of a GGUF file, and computes the tokens of llama.cpp for
 * it. Two kinds exist: byte pair encoding ("gpt2": SmolLM2, Llama 3, Qwen), which splits text into
 * words by a regular expression first, and SentencePiece ("llama": Llama 2, Gemma, Phi 3). The
 * first kind needs PCRE2: without it, creating such a tokenizer is UNSUPPORTED.
 *
 * A tokenizer is immutable, so threads may share it, each with its own context. */
#ifndef TESSERA_IO_TEXT_TOKENIZER_H
#define TESSERA_IO_TEXT_TOKENIZER_H

#include "io/gguf/gguf.h"
#include "tensor/text/text.h"

typedef struct tokenizer tokenizer_t;

/* Makes a tokenizer from the values tokenizer.* of a file, which may be closed afterwards.
 * CORRUPT if they are missing or contradict each other. UNSUPPORTED for other kinds
 * (tokenizer.ggml.model) and for unknown ways to split text (tokenizer.ggml.pre). */
status_t tokenizer_create(context_t *ctx, const gguf_t *file, tokenizer_t **out_tokenizer)
    TESSERA_API(tokenizer_create);
void tokenizer_destroy(tokenizer_t *tokenizer) TESSERA_API(tokenizer_destroy);

/* ---- the vocabulary ---- */

/* Number of tokens. A token is a number from 0 to this number - 1. */
int64_t tokenizer_count(const tokenizer_t *tokenizer) TESSERA_API(tokenizer_count);
/* The token that begins a text; -1: none. */
int64_t tokenizer_begin_token(const tokenizer_t *tokenizer) TESSERA_API(tokenizer_begin_token);
/* True for the tokens that end a text or an answer, such as <|im_end|>. */
bool tokenizer_is_end(const tokenizer_t *tokenizer, int64_t token) TESSERA_API(tokenizer_is_end);
/* The file's chat template; NULL: none. */
const char *tokenizer_template(const tokenizer_t *tokenizer) TESSERA_API(tokenizer_template);

/* ---- text to tokens ---- */

typedef struct tokenizer_options {
    bool parses_special; /* "<|im_start|>" in the text becomes this control token */
    bool adds_ends;      /* adds the tokens that begin and end a text, if the model expects them */
} tokenizer_options_t;

/* Computes the tokens of a text. The time is linear in the text's length. Bytes for which a
 * byte-level vocabulary has no token are omitted.
 *
 * options     NULL: all false
 * out_tokens  [n] s64
 *
 * INVALID_ARGUMENT  the text is not UTF-8, or has 2^31 bytes or more */
status_t tokenizer_encode(context_t *ctx, const tokenizer_t *tokenizer, const char *text,
                          const tokenizer_options_t *options, tensor_t **out_tokens)
    TESSERA_API(tokenizer_encode);

/* ---- tokens to text ---- */

/* State of decoding in parts. Fill it with zeros before the first part. */
typedef struct tokenizer_stream {
    char bytes[4]; /* the beginning of a character whose other bytes belong to the next tokens */
    int n_bytes;
    bool is_started; /* not the beginning of a text, where SentencePiece omits a space */
} tokenizer_stream_t;

/* Appends the text of n tokens. Control tokens have no text unless shows_special is true. The
 * result is valid UTF-8: other bytes become U+FFFD.
 *
 * stream  NULL: `tokens` is a whole text. Else calls with the same stream decode a text in parts; a
 *         character is appended with its last byte. After the last part, call with n = 0 and
 *         tokens = NULL, which appends U+FFFD if a character is incomplete.
 *
 * INVALID_ARGUMENT  a token is outside of the vocabulary; nothing is appended */
status_t tokenizer_decode(context_t *ctx, const tokenizer_t *tokenizer, int64_t n,
                          const int64_t *tokens, bool shows_special, tokenizer_stream_t *stream,
                          text_t *text) TESSERA_API(tokenizer_decode);

#endif
