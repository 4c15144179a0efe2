/* Internals of a tokenizer: the vocabulary, merges, and the split into words. */
#ifndef TESSERA_IO_TEXT_TOKENIZER_IMPL_H
#define TESSERA_IO_TEXT_TOKENIZER_IMPL_H

#include "io/text/tokenizer.h"
#include "tensor/hash_impl.h"

/* Types of tokens in the file. */
enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED, TOKEN_BYTE };

/* A token's text is what it stands for: " the", not the file's "Ġthe" or "▁the". */
typedef struct token {
    const char *text; /* in tokenizer->texts */
    uint32_t n_bytes;
    float score; /* SentencePiece: higher scores merge first */
    uint8_t type;
    bool is_end;
} token_t;

/* A rule of byte pair encoding; its rank is its position. */
typedef struct merge {
    int32_t left, right, result;
} merge_t;

/* A token that is found in the text before anything else. */
typedef struct special {
    const char *text; /* as in the file; in tokenizer->special_texts */
    uint32_t n_bytes;
    int32_t token;
    bool takes_spaces; /* spaces that follow belong to it */
} special_t;

struct splitter;

struct tokenizer {
    allocator_t allocator;
    bool is_pair; /* byte pair encoding; else SentencePiece */
    bool adds_space, adds_begin, adds_end;
    bool ignores_merges; /* a word that is a token is not made by merges */
    int n_tokens, n_merges, n_specials;
    int32_t begin_token, end_token; /* -1: none */
    int32_t byte_tokens[256];       /* tokens of single bytes; -1: none */
    uint32_t max_bytes;             /* longest text of a token */
    token_t *tokens;
    merge_t *merges;
    special_t *specials; /* longest first; of equal length, in the order of their bytes */
    char *texts, *special_texts;
    char *chat_template;
    hash_table_t tokens_by_text, merges_by_pair;
    struct splitter *splitter;
};

/* Finds a token by its text; -1: none. */
int32_t tokenizer_find(const tokenizer_t *tokenizer, const char *text, size_t n_bytes);
/* Finds the rule that merges two tokens; NULL: none. */
const merge_t *tokenizer_find_merge(const tokenizer_t *tokenizer, int32_t left, int32_t right);

/* Fill the vocabulary, and the merges, from the file. */
status_t tokenizer_read_tokens(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file);
status_t tokenizer_read_merges(context_t *ctx, tokenizer_t *tokenizer, const gguf_t *file);

/* Tokens of a text as they are found, and memory for merging a word. */
typedef struct encoding {
    context_t *ctx;
    const tokenizer_t *tokenizer;
    int64_t *tokens;
    int n_tokens, token_capacity;
    struct symbol *symbols;
    int n_symbols, symbol_capacity;
    uint64_t *heap;
    int n_heap, heap_capacity;
} encoding_t;

status_t encoding_add(encoding_t *encoding, int64_t token);
/* Adds the tokens of a word, or with SentencePiece of a text. */
status_t encoding_add_word(encoding_t *encoding, const char *word, size_t n_bytes);

/* A way to split text into words. */
status_t splitter_create(context_t *ctx, const gguf_t *file, tokenizer_t *tokenizer);
void splitter_destroy(const allocator_t *allocator, struct splitter *splitter);
/* Adds the tokens of all words of the text. */
status_t splitter_run(encoding_t *encoding, const char *text, size_t n_bytes);

#endif
