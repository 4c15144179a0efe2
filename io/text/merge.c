/* Merges the characters or bytes of a word to tokens: always the pair with the best rank, the
 * leftmost of equal ones, until no pair can be merged.
 *
 * Symbols form a list. A heap holds a key for each pair that can be merged: rank, then the position
 * of its left symbol. A key is outdated if the pair at its position has another rank now. So a word
 * of n bytes takes time n log n. */
#include <string.h>

#include "io/text/tokenizer_impl.h"
#include "tensor/text/text_impl.h"

typedef struct symbol {
    const char *text;
    uint32_t n_bytes; /* 0: merged into another symbol */
    int32_t token;    /* -1: none */
    int previous, next;
} symbol_t;

#define NO_RANK UINT32_MAX

status_t encoding_add(encoding_t *encoding, int64_t token)
{
    TRY(context_grow(encoding->ctx, &encoding->tokens, &encoding->token_capacity,
                     encoding->n_tokens + 1, sizeof *encoding->tokens));
    encoding->tokens[encoding->n_tokens++] = token;
    return STATUS_OK;
}

/* ---- the heap: the smallest key first ---- */

static status_t push(encoding_t *encoding, uint64_t key)
{
    TRY(context_grow(encoding->ctx, &encoding->heap, &encoding->heap_capacity, encoding->n_heap + 1,
                     sizeof *encoding->heap));
    uint64_t *heap = encoding->heap;
    int at = encoding->n_heap++;
    for (; at > 0 && heap[(at - 1) / 2] > key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = key;
    return STATUS_OK;
}

static uint64_t pop(encoding_t *encoding)
{
    uint64_t *heap = encoding->heap;
    const uint64_t first = heap[0], last = heap[--encoding->n_heap];
    const int n = encoding->n_heap;
    int at = 0;
    for (int child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

/* ---- pairs ---- */

/* Maps scores to ranks: the higher a score, the lower its rank. */
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    const uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ~ascending < NO_RANK ? ~ascending : NO_RANK - 1;
}

/* Finds the rank of the pair whose left symbol is `left`, and the token that it becomes. */
static uint32_t rank_pair(const encoding_t *encoding, int left, int32_t *out_token)
{
    const tokenizer_t *tokenizer = encoding->tokenizer;
    const symbol_t *a = &encoding->symbols[left];
    if (a->n_bytes == 0 || a->next < 0) return NO_RANK;
    const symbol_t *b = &encoding->symbols[a->next];
    if (tokenizer->is_pair) {
        const merge_t *merge = tokenizer_find_merge(tokenizer, a->token, b->token);
        if (merge == NULL) return NO_RANK;
        *out_token = merge->result;
        return (uint32_t)(merge - tokenizer->merges);
    }
    *out_token = tokenizer_find(tokenizer, a->text, (size_t)a->n_bytes + b->n_bytes);
    return *out_token >= 0 ? rank_of_score(tokenizer->tokens[*out_token].score) : NO_RANK;
}

static status_t push_pair(encoding_t *encoding, int left)
{
    int32_t token = -1;
    if (left < 0) return STATUS_OK;
    const uint32_t rank = rank_pair(encoding, left, &token);
    if (rank == NO_RANK) return STATUS_OK;
    return push(encoding, (uint64_t)rank << 32 | (uint32_t)left);
}

static status_t merge_pairs(encoding_t *encoding)
{
    symbol_t *symbols = encoding->symbols;
    for (int i = 0; i < encoding->n_symbols; i++) TRY(push_pair(encoding, i));
    while (encoding->n_heap > 0) {
        const uint64_t key = pop(encoding);
        const int left = (int)(uint32_t)key;
        int32_t token = -1;
        if (rank_pair(encoding, left, &token) != (uint32_t)(key >> 32)) continue;
        symbol_t *a = &symbols[left], *b = &symbols[a->next];
        a->n_bytes += b->n_bytes;
        a->token = token;
        a->next = b->next;
        b->n_bytes = 0;
        if (a->next >= 0) symbols[a->next].previous = left;
        TRY(push_pair(encoding, a->previous));
        TRY(push_pair(encoding, left));
    }
    return STATUS_OK;
}

/* ---- words ---- */

/* Adds a symbol; one for each byte or character. */
static status_t add_symbol(encoding_t *encoding, const char *text, size_t n_bytes)
{
    const tokenizer_t *tokenizer = encoding->tokenizer;
    const int n = encoding->n_symbols;
    TRY(context_grow(encoding->ctx, &encoding->symbols, &encoding->symbol_capacity, n + 1,
                     sizeof *encoding->symbols));
    const int32_t token = tokenizer->is_pair ? tokenizer->byte_tokens[(unsigned char)*text]
                                             : tokenizer_find(tokenizer, text, n_bytes);
    encoding->symbols[n] = (symbol_t){text, (uint32_t)n_bytes, token, n - 1, n + 1};
    encoding->n_symbols++;
    return STATUS_OK;
}

/* Adds a symbol's token. Bytes of a character without token become tokens of single bytes. */
static status_t add_token(encoding_t *encoding, const symbol_t *symbol)
{
    if (symbol->token >= 0) return encoding_add(encoding, symbol->token);
    for (uint32_t i = 0; i < symbol->n_bytes; i++) {
        const int32_t token = encoding->tokenizer->byte_tokens[(unsigned char)symbol->text[i]];
        if (token >= 0) TRY(encoding_add(encoding, token));
    }
    return STATUS_OK;
}

status_t encoding_add_word(encoding_t *encoding, const char *word, size_t n_bytes)
{
    const tokenizer_t *tokenizer = encoding->tokenizer;
    if (n_bytes == 0) return STATUS_OK;
    if (tokenizer->ignores_merges) {
        const int32_t token = tokenizer_find(tokenizer, word, n_bytes);
        if (token >= 0) return encoding_add(encoding, token);
    }
    encoding->n_symbols = encoding->n_heap = 0;
    for (size_t i = 0; i < n_bytes;) {
        const int length = tokenizer->is_pair ? 1 : text_character(word + i, n_bytes - i);
        TRY(add_symbol(encoding, word + i, (size_t)length));
        i += (size_t)length;
    }
    encoding->symbols[encoding->n_symbols - 1].next = -1;
    TRY(merge_pairs(encoding));
    for (int i = 0; i >= 0; i = encoding->symbols[i].next)
        TRY(add_token(encoding, &encoding->symbols[i]));
    return STATUS_OK;
}
