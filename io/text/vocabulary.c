/* Reads the vocabulary and the merges of a GGUF file.
 *
 * Byte pair encoding writes each byte as a printable character: "Ġthe" for " the". SentencePiece
 * writes a space as "▁", and a byte without token as "<0x0A>". Tokens are stored as the bytes that
 * they stand for, so that texts need no translation. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/tokenizer_impl.h"
#include "tensor/text/text_impl.h"

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

/* ---- finding ---- */

static bool has_text(const void *item, const void *key)
{
    const token_t *token = item;
    const gguf_string_t *text = key;
    return token->n_bytes == text->n_bytes && memcmp(token->text, text->text, text->n_bytes) == 0;
}

int32_t tokenizer_find(const tokenizer_t *tokenizer, const char *text, size_t n_bytes)
{
    if (n_bytes > tokenizer->max_bytes) return -1;
    const gguf_string_t key = {text, n_bytes};
    const token_t *token = hash_find(&tokenizer->tokens_by_text, hash_bytes(text, n_bytes, 0),
                                     has_text, &key);
    return token != NULL ? (int32_t)(token - tokenizer->tokens) : -1;
}

static uint64_t hash_of(int32_t left, int32_t right)
{
    return hash_mix(0, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

const merge_t *tokenizer_find_merge(const tokenizer_t *tokenizer, int32_t left, int32_t right)
{
    return hash_find(&tokenizer->merges_by_pair, hash_of(left, right), NULL, NULL);
}

/* ---- texts ---- */

/* Returns the byte that a character of the byte-level alphabet stands for; -1: none. Characters 33
 * to 126, 161 to 172 and 174 to 255 stand for themselves, and 256, 257, ... for the other bytes. */
static int byte_of(unsigned character)
{
    const bool is_plain = (character >= 33 && character <= 126) ||
                          (character >= 161 && character <= 255 && character != 173);
    if (is_plain) return (int)character;
    if (character >= 256 && character < 256 + 33) return (int)character - 256;
    if (character >= 289 && character <= 322) return (int)character - 289 + 127;
    return character == 323 ? 173 : -1;
}

/* Writes the bytes that a text of the byte-level alphabet stands for; characters outside of it stay
 * as they are. Returns their number. */
static size_t copy_bytes(const gguf_string_t *text, char *out_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n_bytes; i++) {
        const unsigned char first = (unsigned char)text->text[i];
        unsigned character = first;
        const bool is_pair = first >= 0xc2 && first <= 0xdf && i + 1 < text->n_bytes;
        if (is_pair) character = (first & 31u) << 6 | ((unsigned char)text->text[i + 1] & 63u);
        const int byte = first < 0x80 || is_pair ? byte_of(character) : -1;
        out_bytes[n++] = byte >= 0 ? (char)byte : text->text[i];
        if (is_pair && byte >= 0) i++;
    }
    return n;
}

/* Writes spaces instead of "▁". */
static size_t copy_spaces(const gguf_string_t *text, char *out_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n_bytes; i++) {
        const bool is_mark = i + 3 <= text->n_bytes && memcmp(text->text + i, SPACE_MARK, 3) == 0;
        out_bytes[n++] = is_mark ? ' ' : text->text[i];
        if (is_mark) i += 2;
    }
    return n;
}

/* The byte of "<0x0A>"; -1 if the text is different. */
static int byte_token(const gguf_string_t *text)
{
    char digits[3] = {0}, *end = NULL;
    if (text->n_bytes != 6 || memcmp(text->text, "<0x", 3) != 0 || text->text[5] != '>') return -1;
    memcpy(digits, text->text + 3, 2);
    const long byte = strtol(digits, &end, 16);
    return end == digits + 2 && digits[0] != '-' && digits[0] != '+' && digits[0] != ' ' ? (int)byte
                                                                                         : -1;
}

static bool is_special(int type)
{
    return type == TOKEN_UNKNOWN || type == TOKEN_CONTROL || type == TOKEN_USER;
}

/* Writes the text of a token. */
static size_t copy_text(tokenizer_t *tokenizer, int32_t index, const gguf_string_t *text,
                        char *out_bytes)
{
    const int type = tokenizer->tokens[index].type;
    const int byte = type == TOKEN_BYTE ? byte_token(text) : -1;
    if (byte >= 0) {
        tokenizer->byte_tokens[byte] = index;
        *out_bytes = (char)byte;
        return 1;
    }
    if (type != TOKEN_UNKNOWN && type != TOKEN_CONTROL) {
        if (!tokenizer->is_pair) return copy_spaces(text, out_bytes);
        if (type != TOKEN_USER) return copy_bytes(text, out_bytes);
    }
    memcpy(out_bytes, text->text, text->n_bytes);
    return text->n_bytes;
}

/* ---- the vocabulary ---- */

/* Texts of tokens that end an answer, in the models that are known. */
static bool is_end_text(const gguf_string_t *text)
{
    static const char *const ends[] = {
        "<|im_end|>",      "<|eot_id|>",         "<|eom_id|>",    "<|end|>",
        "<|return|>",      "<|call|>",           "<end_of_turn>", "<|endoftext|>",
        "<|end_of_text|>", "<end_of_utterance>", "<EOT>",         "</s>"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strlen(ends[i]) == text->n_bytes && memcmp(ends[i], text->text, text->n_bytes) == 0)
            return true;
    return false;
}

/* Finds an array of n elements of this type; NULL if the file has none. */
static status_t find_array(context_t *ctx, const gguf_t *file, const char *key, dtype_t dtype,
                           int64_t n, const gguf_value_t **out_value)
{
    const gguf_value_t *value = gguf_find_value(file, key);
    *out_value = value;
    if (value == NULL) return STATUS_OK;
    if (!value->is_array || value->dtype != dtype)
        FAIL(ctx, STATUS_CORRUPT, "tokenizer: %s, %s must be an array of %s", gguf_path(file), key,
             dtype == DTYPE_NONE ? "strings" : dtype_name(dtype));
    if (n >= 0 && value->n != n)
        FAIL(ctx, STATUS_CORRUPT,
             "tokenizer: %s, %s has %" PRId64 " elements, the vocabulary has %" PRId64,
             gguf_path(file), key, value->n, n);
    return STATUS_OK;
}

static int compare_specials(const void *a, const void *b)
{
    const special_t *x = a, *y = b;
    if (x->n_bytes != y->n_bytes) return x->n_bytes > y->n_bytes ? -1 : 1;
    const int order = memcmp(x->text, y->text, x->n_bytes);
    return order != 0 ? order : x->token < y->token ? -1 : 1;
}

/* Models named Phi 3 ignore spaces after a control token. Their files do not say so. */
static bool is_phi3(const gguf_t *file)
{
    const gguf_value_t *name = gguf_find_value(file, "general.name");
    if (name == NULL || name->is_array || name->dtype != DTYPE_NONE) return false;
    for (const char *at = name->strings->text; *at != '\0'; at++)
        if ((at[0] | 32) == 'p' && (at[1] | 32) == 'h' && (at[2] | 32) == 'i' &&
            (at[3] == '3' || (at[3] == '-' && at[4] == '3')))
            return true;
    return false;
}

static status_t read_specials(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file,
                              const gguf_string_t *strings)
{
    const bool takes_spaces = is_phi3(file);
    size_t n_bytes = 0, n = 0;
    for (int i = 0; i < tokenizer->n_tokens; i++)
        if (is_special(tokenizer->tokens[i].type)) n_bytes += strings[i].n_bytes, n++;
    TRY(context_get(ctx, n_bytes, "texts of tokens", &tokenizer->special_texts));
    TRY(context_get(ctx, n * sizeof(special_t), "tokens", &tokenizer->specials));
    char *text = tokenizer->special_texts;
    for (int i = 0; i < tokenizer->n_tokens; i++) {
        const gguf_string_t *string = &strings[i];
        if (!is_special(tokenizer->tokens[i].type) || string->n_bytes == 0) continue;
        static const char *const exceptions[] = {"<unk>", "<s>", "<|endoftext|>"};
        special_t *special = &tokenizer->specials[tokenizer->n_specials++];
        memcpy(text, string->text, string->n_bytes);
        *special = (special_t){text, (uint32_t)string->n_bytes, i, takes_spaces};
        for (size_t j = 0; j < sizeof exceptions / sizeof *exceptions; j++)
            if (strlen(exceptions[j]) == string->n_bytes &&
                memcmp(exceptions[j], text, string->n_bytes) == 0)
                special->takes_spaces = false;
        text += string->n_bytes;
    }
    if (tokenizer->n_specials > 1)
        qsort(tokenizer->specials, (size_t)tokenizer->n_specials, sizeof(special_t),
              compare_specials);
    return STATUS_OK;
}

/* Types of tokens, which decide how their texts are read. */
static status_t read_types(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file,
                           const gguf_string_t *strings)
{
    const gguf_value_t *types = NULL, *scores = NULL;
    const int64_t n = tokenizer->n_tokens;
    TRY(find_array(ctx, file, "tokenizer.ggml.token_type", DTYPE_S32, n, &types));
    TRY(find_array(ctx, file, "tokenizer.ggml.scores", DTYPE_F32, n, &scores));
    for (int64_t i = 0; i < n; i++) {
        token_t *token = &tokenizer->tokens[i];
        int64_t type = TOKEN_NORMAL;
        if (types != NULL)
            type = dtype_load_integer(DTYPE_S32, (const char *)types->elements + i * 4);
        if (type < 0 || type > TOKEN_BYTE)
            FAIL(ctx, STATUS_CORRUPT,
                 "tokenizer: %s, token %" PRId64 " has type %" PRId64 ", types are 0 to 6",
                 gguf_path(file), i, type);
        token->is_end = is_end_text(&strings[i]);
        token->type = token->is_end ? TOKEN_CONTROL : (uint8_t)type;
        /* + 0 makes -0 equal to 0. */
        if (scores != NULL)
            token->score = (float)dtype_load(DTYPE_F32, (const char *)scores->elements + i * 4) +
                           0.0f;
    }
    return STATUS_OK;
}

/* Adds a token to the index of texts. It replaces an earlier token with the same text. */
static status_t index_token(context_t *ctx, tokenizer_t *tokenizer, token_t *token)
{
    const uint64_t hash = hash_bytes(token->text, token->n_bytes, 0);
    const gguf_string_t key = {token->text, token->n_bytes};
    token_t *other = hash_find(&tokenizer->tokens_by_text, hash, has_text, &key);
    if (other != NULL) hash_remove(&tokenizer->tokens_by_text, hash, other);
    return hash_put(ctx, &tokenizer->tokens_by_text, hash, token);
}

status_t tokenizer_read_tokens(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file)
{
    const gguf_value_t *value = NULL;
    TRY(find_array(ctx, file, "tokenizer.ggml.tokens", DTYPE_NONE, -1, &value));
    if (value == NULL || value->n == 0 || value->n > INT32_MAX)
        FAIL(ctx, STATUS_CORRUPT, "tokenizer: %s has no vocabulary, tokenizer.ggml.tokens",
             gguf_path(file));
    size_t n_bytes = 0;
    for (int64_t i = 0; i < value->n; i++) {
        n_bytes += value->strings[i].n_bytes;
        if (value->strings[i].n_bytes > UINT16_MAX)
            FAIL(ctx, STATUS_CORRUPT, "tokenizer: %s, token %" PRId64 " has %zu bytes, at most %d",
                 gguf_path(file), i, value->strings[i].n_bytes, UINT16_MAX);
    }
    const size_t n = (size_t)value->n;
    TRY(context_get_zeroed(ctx, n * sizeof(token_t), "tokens", &tokenizer->tokens));
    TRY(context_get(ctx, n_bytes, "texts of tokens", &tokenizer->texts));
    tokenizer->n_tokens = (int)value->n;
    TRY(read_types(ctx, tokenizer, file, value->strings));
    char *text = tokenizer->texts;
    for (int i = 0; i < tokenizer->n_tokens; i++) {
        token_t *token = &tokenizer->tokens[i];
        token->text = text;
        token->n_bytes = (uint32_t)copy_text(tokenizer, i, &value->strings[i], text);
        text += token->n_bytes;
        if (token->n_bytes > tokenizer->max_bytes) tokenizer->max_bytes = token->n_bytes;
        if (token->type != TOKEN_BYTE) TRY(index_token(ctx, tokenizer, token));
    }
    for (int byte = 0; byte < 256; byte++) {
        const char bytes[1] = {(char)byte};
        if (tokenizer->byte_tokens[byte] < 0)
            tokenizer->byte_tokens[byte] = tokenizer_find(tokenizer, bytes, 1);
    }
    return read_specials(ctx, tokenizer, file, value->strings);
}

/* ---- merges ---- */

/* Reads "left right", written in the byte-level alphabet. `bytes` has room for both. */
static status_t read_merge(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file, int64_t i,
                           const gguf_string_t *rule, char *bytes)
{
    const char *space = rule->n_bytes > 1 ? memchr(rule->text + 1, ' ', rule->n_bytes - 1) : NULL;
    merge_t merge = {-1, -1, -1};
    if (space != NULL) {
        const size_t n = (size_t)(space - rule->text);
        const size_t n_left = copy_bytes(&(gguf_string_t){rule->text, n}, bytes);
        const size_t n_right = copy_bytes(&(gguf_string_t){space + 1, rule->n_bytes - n - 1},
                                          bytes + n_left);
        merge = (merge_t){tokenizer_find(tokenizer, bytes, n_left),
                          tokenizer_find(tokenizer, bytes + n_left, n_right),
                          tokenizer_find(tokenizer, bytes, n_left + n_right)};
    }
    if (merge.left < 0 || merge.right < 0 || merge.result < 0)
        FAIL(ctx, STATUS_CORRUPT,
             "tokenizer: %s, merge %" PRId64 " must name two tokens that "
             "together are a token",
             gguf_path(file), i);
    if (tokenizer_find_merge(tokenizer, merge.left, merge.right) != NULL) return STATUS_OK;
    tokenizer->merges[i] = merge;
    return hash_put(ctx, &tokenizer->merges_by_pair, hash_of(merge.left, merge.right),
                    &tokenizer->merges[i]);
}

status_t tokenizer_read_merges(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file)
{
    const gguf_value_t *value = NULL;
    size_t longest = 0;
    char *bytes = NULL;
    TRY(find_array(ctx, file, "tokenizer.ggml.merges", DTYPE_NONE, -1, &value));
    if (value == NULL || value->n > INT32_MAX)
        FAIL(ctx, STATUS_CORRUPT, "tokenizer: %s has no merges, tokenizer.ggml.merges",
             gguf_path(file));
    TRY(context_get_zeroed(ctx, (size_t)value->n * sizeof(merge_t), "merges", &tokenizer->merges));
    tokenizer->n_merges = (int)value->n;
    for (int64_t i = 0; i < value->n; i++)
        if (value->strings[i].n_bytes > longest) longest = value->strings[i].n_bytes;
    TRY(context_get(ctx, longest, "a merge", &bytes));
    status_t status = STATUS_OK;
    for (int64_t i = 0; i < value->n && status == STATUS_OK; i++)
        status = read_merge(ctx, tokenizer, file, i, &value->strings[i], bytes);
    context_put(ctx, bytes);
    return status;
}
