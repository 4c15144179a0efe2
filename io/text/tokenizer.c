/* Makes tokenizers, and turns text into tokens: finds special tokens, then the tokens of the text
 * between them. */
#include "io/text/tokenizer.h"

#include <inttypes.h>
#include <string.h>

#include "io/text/tokenizer_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/text_impl.h"

/* ---- making ---- */

/* Reads the number of a token; `token` is unchanged if the file has none. */
static status_t read_token(context_t *ctx, const tokenizer_t *tokenizer, const gguf_t *file,
                           const char *key, int32_t *inout_token)
{
    int64_t token = *inout_token;
    TRY(gguf_integer(ctx, file, key, &token));
    if (token < -1 || token >= tokenizer->n_tokens)
        FAIL(ctx, STATUS_CORRUPT, "tokenizer: %s, %s is %" PRId64 ", the vocabulary has %d tokens",
             gguf_path(file), key, token, tokenizer->n_tokens);
    *inout_token = (int32_t)token;
    return STATUS_OK;
}

static status_t read_flag(context_t *ctx, const gguf_t *file, const char *key, bool *inout_flag)
{
    int64_t flag = *inout_flag;
    TRY(gguf_integer(ctx, file, key, &flag));
    *inout_flag = flag != 0;
    return STATUS_OK;
}

/* Reads the numbers of tokens that begin and end texts. */
static status_t read_ends(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const bool has_defaults = !tokenizer->is_pair && tokenizer->n_tokens > 2;
    tokenizer->begin_token = has_defaults ? 1 : -1;
    tokenizer->end_token = has_defaults ? 2 : -1;
    TRY(read_token(ctx, tokenizer, file, "tokenizer.ggml.bos_token_id", &tokenizer->begin_token));
    TRY(read_token(ctx, tokenizer, file, "tokenizer.ggml.eos_token_id", &tokenizer->end_token));
    if (tokenizer->end_token >= 0) tokenizer->tokens[tokenizer->end_token].is_end = true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t token = -1;
        TRY(read_token(ctx, tokenizer, file, keys[i], &token));
        if (token >= 0) tokenizer->tokens[token].is_end = true;
    }
    TRY(read_flag(ctx, file, "tokenizer.ggml.add_bos_token", &tokenizer->adds_begin));
    TRY(read_flag(ctx, file, "tokenizer.ggml.add_eos_token", &tokenizer->adds_end));
    return read_flag(ctx, file, "tokenizer.ggml.add_space_prefix", &tokenizer->adds_space);
}

static status_t read_file(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file)
{
    const char *kind = NULL, *chat_template = NULL;
    TRY(gguf_text(ctx, file, "tokenizer.ggml.model", &kind));
    if (kind == NULL)
        FAIL(ctx, STATUS_CORRUPT, "tokenizer: %s has no tokenizer.ggml.model", gguf_path(file));
    tokenizer->is_pair = strcmp(kind, "gpt2") == 0;
    if (!tokenizer->is_pair && strcmp(kind, "llama") != 0)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "tokenizer: %s has a vocabulary of kind \"%.100s\", "
             "supported are gpt2 and llama",
             gguf_path(file), kind);
    tokenizer->adds_space = tokenizer->adds_begin = !tokenizer->is_pair;
    for (int i = 0; i < 256; i++) tokenizer->byte_tokens[i] = -1;
    if (tokenizer->is_pair) TRY(splitter_create(ctx, file, tokenizer));
    TRY(tokenizer_read_tokens(ctx, tokenizer, file));
    if (tokenizer->is_pair) TRY(tokenizer_read_merges(ctx, tokenizer, file));
    TRY(read_ends(ctx, tokenizer, file));
    TRY(gguf_text(ctx, file, "tokenizer.chat_template", &chat_template));
    return context_string(ctx, chat_template, &tokenizer->chat_template);
}

status_t tokenizer_create(context_t *ctx, const gguf_t *file, tokenizer_t **out_tokenizer)
{
    tokenizer_t *tokenizer = NULL;
    TRY(context_output(ctx, "tokenizer_create", out_tokenizer));
    if (file == NULL) return context_null(ctx, "tokenizer_create", "file");
    TRY(context_get_zeroed(ctx, sizeof *tokenizer, "a tokenizer", &tokenizer));
    tokenizer->allocator = *context_allocator(ctx);
    status_t status = read_file(ctx, tokenizer, file);
    GIVE(status, out_tokenizer, tokenizer, tokenizer_destroy(tokenizer));
}

void tokenizer_destroy(tokenizer_t *tokenizer)
{
    if (tokenizer == NULL) return;
    allocator_t allocator = tokenizer->allocator;
    splitter_destroy(&allocator, tokenizer->splitter);
    allocator_put(&allocator, tokenizer->tokens);
    allocator_put(&allocator, tokenizer->merges);
    allocator_put(&allocator, tokenizer->specials);
    allocator_put(&allocator, tokenizer->texts);
    allocator_put(&allocator, tokenizer->special_texts);
    allocator_put(&allocator, tokenizer->chat_template);
    allocator_put(&allocator, tokenizer->tokens_by_text.slots);
    allocator_put(&allocator, tokenizer->merges_by_pair.slots);
    allocator_put(&allocator, tokenizer);
}

/* ---- the vocabulary ---- */

int64_t tokenizer_count(const tokenizer_t *tokenizer)
{
    return tokenizer != NULL ? tokenizer->n_tokens : 0;
}

int64_t tokenizer_begin_token(const tokenizer_t *tokenizer)
{
    return tokenizer != NULL ? tokenizer->begin_token : -1;
}

bool tokenizer_is_end(const tokenizer_t *tokenizer, int64_t token)
{
    return token >= 0 && token < tokenizer_count(tokenizer) && tokenizer->tokens[token].is_end;
}

const char *tokenizer_template(const tokenizer_t *tokenizer)
{
    return tokenizer != NULL ? tokenizer->chat_template : NULL;
}

/* ---- special tokens ---- */

/* A part of the text, or a special token. */
typedef struct fragment {
    size_t begin, end;
    int32_t token; /* -1: text */
} fragment_t;

typedef struct fragments {
    fragment_t *items;
    int n, capacity;
} fragments_t;

static status_t add_fragment(context_t *ctx, fragments_t *fragments, size_t begin, size_t end,
                             int32_t token)
{
    if (token < 0 && begin == end) return STATUS_OK;
    TRY(context_grow(ctx, &fragments->items, &fragments->capacity, fragments->n + 1,
                     sizeof *fragments->items));
    fragments->items[fragments->n++] = (fragment_t){begin, end, token};
    return STATUS_OK;
}

/* Finds the special token that the text begins with, among n of the same length. */
static const special_t *find_special(const special_t *specials, int n, const char *text)
{
    int first = 0, last = n;
    while (first < last) {
        const int middle = first + (last - first) / 2;
        const int order = memcmp(text, specials[middle].text, specials[middle].n_bytes);
        if (order == 0) return &specials[middle];
        if (order < 0)
            last = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

static bool is_found(const encoding_t *encoding, const special_t *special, bool parses_special)
{
    return parses_special || encoding->tokenizer->tokens[special->token].type == TOKEN_USER;
}

/* Divides a text fragment at the special tokens of one length. */
static status_t divide(encoding_t *encoding, const char *text, const fragment_t *fragment,
                       const special_t *specials, int n, bool parses_special, fragments_t *out)
{
    const size_t length = specials->n_bytes;
    bool begins[256] = {false}; /* first bytes */
    for (int i = 0; i < n; i++) begins[(unsigned char)*specials[i].text] = true;
    size_t from = fragment->begin, at = from;
    while (at + length <= fragment->end) {
        const special_t *special = NULL;
        if (begins[(unsigned char)text[at]]) special = find_special(specials, n, text + at);
        if (special == NULL || !is_found(encoding, special, parses_special)) {
            at++;
            continue;
        }
        TRY(add_fragment(encoding->ctx, out, from, at, -1));
        TRY(add_fragment(encoding->ctx, out, at, at + length, special->token));
        at += length;
        while (special->takes_spaces && at < fragment->end &&
               (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')))
            at++;
        from = at;
    }
    return add_fragment(encoding->ctx, out, from, fragment->end, -1);
}

/* Divides a text at special tokens; longer tokens first. */
static status_t find_specials(encoding_t *encoding, const char *text, size_t n_bytes,
                              bool parses_special, fragments_t *fragments, fragments_t *divided)
{
    const tokenizer_t *tokenizer = encoding->tokenizer;
    TRY(add_fragment(encoding->ctx, fragments, 0, n_bytes, -1));
    for (int i = 0, n = 0; i < tokenizer->n_specials; i += n) {
        const special_t *specials = &tokenizer->specials[i];
        for (n = 1; i + n < tokenizer->n_specials && specials[n].n_bytes == specials->n_bytes; n++)
            ;
        divided->n = 0;
        for (int j = 0; j < fragments->n; j++) {
            const fragment_t *fragment = &fragments->items[j];
            if (fragment->token >= 0)
                TRY(add_fragment(encoding->ctx, divided, fragment->begin, fragment->end,
                                 fragment->token));
            else
                TRY(divide(encoding, text, fragment, specials, n, parses_special, divided));
        }
        const fragments_t swapped = *fragments;
        *fragments = *divided;
        *divided = swapped;
    }
    return STATUS_OK;
}

/* ---- text ---- */

/* SentencePiece merges the whole text: with spaces for "▁", and one more at its beginning. */
static status_t add_sentence(encoding_t *encoding, const char *text, size_t n_bytes, bool is_first)
{
    static const char mark[] = "\xe2\x96\x81";
    char *sentence = NULL;
    size_t n = 0;
    TRY(context_get(encoding->ctx, n_bytes + 1, "a text", &sentence));
    if (is_first && encoding->tokenizer->adds_space) sentence[n++] = ' ';
    for (size_t i = 0; i < n_bytes; i++) {
        const bool is_mark = i + 3 <= n_bytes && memcmp(text + i, mark, 3) == 0;
        sentence[n++] = is_mark ? ' ' : text[i];
        if (is_mark) i += 2;
    }
    FINISH(encoding_add_word(encoding, sentence, n), context_put(encoding->ctx, sentence));
}

static status_t add_fragments(encoding_t *encoding, const char *text, const fragments_t *fragments)
{
    bool is_first = true; /* the text's beginning, or after a special token */
    for (int i = 0; i < fragments->n; i++) {
        const fragment_t *fragment = &fragments->items[i];
        const size_t n_bytes = fragment->end - fragment->begin;
        if (fragment->token >= 0)
            TRY(encoding_add(encoding, fragment->token));
        else if (encoding->tokenizer->is_pair)
            TRY(splitter_run(encoding, text + fragment->begin, n_bytes));
        else
            TRY(add_sentence(encoding, text + fragment->begin, n_bytes, is_first));
        is_first = fragment->token >= 0;
    }
    return STATUS_OK;
}

static status_t add_text(encoding_t *encoding, const char *text, const tokenizer_options_t *options)
{
    const tokenizer_t *tokenizer = encoding->tokenizer;
    const bool adds_ends = options != NULL && options->adds_ends;
    fragments_t fragments = {0}, divided = {0};
    if (adds_ends && tokenizer->adds_begin && tokenizer->begin_token >= 0)
        TRY(encoding_add(encoding, tokenizer->begin_token));
    status_t status = find_specials(encoding, text, strlen(text),
                                    options != NULL && options->parses_special, &fragments,
                                    &divided);
    if (status == STATUS_OK) status = add_fragments(encoding, text, &fragments);
    CONTEXT_PUT(encoding->ctx, fragments.items, divided.items);
    if (status == STATUS_OK && adds_ends && tokenizer->adds_end && tokenizer->end_token >= 0)
        status = encoding_add(encoding, tokenizer->end_token);
    return status;
}

static status_t check_text(context_t *ctx, const char *text)
{
    const size_t n = strlen(text);
    REQUIRE(ctx, n <= INT32_MAX, "tokenizer_encode: a text of %zu bytes, at most 2^31 - 1", n);
    for (size_t i = 0; i < n;) {
        const int length = text_character(text + i, n - i);
        REQUIRE(ctx, length > 0, "tokenizer_encode: the text is not UTF-8 at byte %zu", i);
        i += (size_t)length;
    }
    return STATUS_OK;
}

status_t tokenizer_encode(context_t *ctx, const tokenizer_t *tokenizer, const char *text,
                          const tokenizer_options_t *options, tensor_t **out_tokens)
{
    TRY(context_output(ctx, "tokenizer_encode", out_tokens));
    if (tokenizer == NULL) return context_null(ctx, "tokenizer_encode", "tokenizer");
    if (text == NULL) return context_null(ctx, "tokenizer_encode", "text");
    TRY(check_text(ctx, text));
    encoding_t encoding = {.ctx = ctx, .tokenizer = tokenizer};
    status_t status = add_text(&encoding, text, options);
    if (status == STATUS_OK)
        status = tensor_from(ctx, DTYPE_S64, SHAPE(encoding.n_tokens), encoding.tokens, out_tokens);
    CONTEXT_PUT(ctx, encoding.tokens, encoding.symbols, encoding.heap);
    return status;
}

/* ---- tokens to text ---- */

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Appends bytes: complete characters only. Keeps the beginning of a character in the stream. */
static void append(tokenizer_stream_t *stream, const char *bytes, size_t n, text_t *text)
{
    for (size_t i = 0; i < n;) {
        if (stream->n_bytes == 0 && bytes[i] != '\0') {
            /* The complete characters from here on. */
            size_t end = i;
            for (int length = 1; end < n && bytes[end] != '\0' && length > 0;) {
                length = text_character(bytes + end, n - end);
                if (length > 0) end += (size_t)length;
            }
            if (end > i) text_append(text, "%.*s", (int)(end - i), bytes + i);
            if ((i = end) == n) return;
        }
        stream->bytes[stream->n_bytes++] = bytes[i];
        const int length = text_character(stream->bytes, (size_t)stream->n_bytes);
        if (length > 0) {
            for (int j = 0; j < length; j++) text_append(text, "%c", stream->bytes[j]);
            stream->n_bytes = 0;
            i++;
        } else if (-length == stream->n_bytes) {
            i++; /* more bytes may follow */
        } else {
            /* The bytes before this one begin no character. */
            text_append(text, REPLACEMENT);
            stream->n_bytes = 0;
        }
    }
}

static status_t check_tokens(context_t *ctx, const tokenizer_t *tokenizer, int64_t n,
                             const int64_t *tokens)
{
    TRY(context_array(ctx, "tokenizer_decode", "tokens", n, tokens));
    for (int64_t i = 0; i < n; i++)
        REQUIRE(ctx, tokens[i] >= 0 && tokens[i] < tokenizer->n_tokens,
                "tokenizer_decode: token %" PRId64 ", the vocabulary has %d tokens", tokens[i],
                tokenizer->n_tokens);
    return STATUS_OK;
}

status_t tokenizer_decode(context_t *ctx, const tokenizer_t *tokenizer, int64_t n,
                          const int64_t *tokens, bool shows_special, tokenizer_stream_t *stream,
                          text_t *text)
{
    tokenizer_stream_t whole = {{0}, 0, false};
    if (tokenizer == NULL) return context_null(ctx, "tokenizer_decode", "tokenizer");
    if (text == NULL) return context_null(ctx, "tokenizer_decode", "text");
    TRY(check_tokens(ctx, tokenizer, n, tokens));
    const bool is_end = stream == NULL || n == 0;
    if (stream == NULL) stream = &whole;
    REQUIRE(ctx, stream->n_bytes >= 0 && stream->n_bytes < 4,
            "tokenizer_decode: a stream with %d bytes, at most 3", stream->n_bytes);
    for (int64_t i = 0; i < n; i++) {
        const token_t *token = &tokenizer->tokens[tokens[i]];
        const bool is_hidden = token->type == TOKEN_CONTROL || token->type == TOKEN_UNKNOWN;
        if (is_hidden && !shows_special) continue;
        const size_t skipped = !stream->is_started && tokenizer->adds_space && token->n_bytes > 0 &&
                               *token->text == ' ';
        append(stream, token->text + skipped, token->n_bytes - skipped, text);
        stream->is_started = true;
    }
    if (is_end && stream->n_bytes > 0) {
        text_append(text, REPLACEMENT);
        stream->n_bytes = 0;
    }
    return text_status(text);
}
