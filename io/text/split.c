/* Splits text into words, as a model's training did: by regular expressions that PCRE2 runs.
 *
 * Several expressions apply one after the other: each splits the pieces of the one before into
 * matches and the text between matches. */
#include <stdatomic.h>
#include <string.h>

#include "io/text/tokenizer_impl.h"

#ifdef TESSERA_HAVE_PCRE
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MAX_PATTERNS = 2, MAX_NAMES = 12 };

/* Unicode's white space. PCRE2's \s also has U+180E, which no longer is white space. */
#define SPACE "\\p{Z}\\t-\\r\\x{85}"
#define TRAILING "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define LINES "[" SPACE "]*[\\r\\n]+|" TRAILING
#define OTHERS " ?[^" SPACE "\\p{L}\\p{N}]+"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define ENDINGS "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" OTHERS "|" TRAILING
#define LLAMA3 ENDINGS "|" LETTERS "|\\p{N}{1,3}|" OTHERS "[\\r\\n]*|" LINES
#define QWEN2 ENDINGS "|" LETTERS "|\\p{N}|" OTHERS "[\\r\\n]*|" LINES

/* A way to split; `names` are values of tokenizer.ggml.pre. */
typedef struct way {
    const char *names[MAX_NAMES];
    const char *patterns[MAX_PATTERNS];
    bool ignores_merges, adds_begin;
} way_t;

static const way_t ways[] = {
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "gigachat", "mellum"},
     {GPT2},
     false,
     false},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {"\\p{N}", GPT2},
     false,
     false},
    {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {LLAMA3},
     true,
     true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {LLAMA3}, false, false},
    {{"glm4"}, {LLAMA3}, true, false},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "grok-2", "megrez"},
     {QWEN2},
     false,
     false},
};

struct splitter {
    allocator_t allocator;
    atomic_bool is_refused; /* the allocator refused a block */
    pcre2_general_context *memory;
    pcre2_code *codes[MAX_PATTERNS];
    int n;
};

static void *get(size_t n_bytes, void *user)
{
    struct splitter *splitter = user;
    void *block = allocator_get(&splitter->allocator, n_bytes);
    if (block == NULL) splitter->is_refused = true;
    return block;
}

static void put(void *block, void *user)
{
    const struct splitter *splitter = user;
    allocator_put(&splitter->allocator, block);
}

static status_t fail_memory(context_t *ctx)
{
    FAIL(ctx, STATUS_OUT_OF_MEMORY, "tokenizer: no memory for a regular expression");
}

static const way_t *find_way(const char *name)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int j = 0; j < MAX_NAMES && ways[i].names[j] != NULL; j++)
            if (strcmp(ways[i].names[j], name) == 0) return &ways[i];
    return NULL;
}

static status_t compile(context_t *ctx, struct splitter *splitter, const char *pattern)
{
    int error = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *settings = pcre2_compile_context_create(splitter->memory);
    pcre2_code *code = NULL;
    if (settings != NULL)
        code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                             &error, &at, settings);
    pcre2_compile_context_free(settings);
    if (code == NULL) return fail_memory(ctx);
    splitter->codes[splitter->n++] = code;
    /* PCRE2 interprets the expression if the system forbids generated code (SELinux may). */
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return splitter->is_refused ? fail_memory(ctx) : STATUS_OK;
}

static status_t compile_all(context_t *ctx, struct splitter *splitter, const way_t *way)
{
    splitter->memory = pcre2_general_context_create(get, put, splitter);
    if (splitter->memory == NULL) return fail_memory(ctx);
    for (int i = 0; i < MAX_PATTERNS && way->patterns[i] != NULL; i++)
        TRY(compile(ctx, splitter, way->patterns[i]));
    return STATUS_OK;
}

status_t splitter_create(context_t *ctx, const gguf_t *file, tokenizer_t *tokenizer)
{
    const char *name = "missing";
    struct splitter *splitter = NULL;
    TRY(gguf_text(ctx, file, "tokenizer.ggml.pre", &name));
    const way_t *way = find_way(name);
    if (way == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "tokenizer: %s splits text by \"%.100s\" "
             "(tokenizer.ggml.pre), which is not known",
             gguf_path(file), name);
    TRY(context_get_zeroed(ctx, sizeof *splitter, "a regular expression", &splitter));
    splitter->allocator = *context_allocator(ctx);
    tokenizer->splitter = splitter;
    tokenizer->ignores_merges = way->ignores_merges;
    tokenizer->adds_begin = way->adds_begin;
    return compile_all(ctx, splitter, way);
}

void splitter_destroy(const allocator_t *allocator, struct splitter *splitter)
{
    if (splitter == NULL) return;
    for (int i = 0; i < splitter->n; i++) pcre2_code_free(splitter->codes[i]);
    pcre2_general_context_free(splitter->memory);
    allocator_put(allocator, splitter);
}

/* Splits by expression `index`, and its pieces by the next ones. */
static status_t split(encoding_t *encoding, pcre2_match_data *match, int index, const char *text,
                      size_t n_bytes)
{
    const struct splitter *splitter = encoding->tokenizer->splitter;
    if (n_bytes == 0) return STATUS_OK;
    if (index == splitter->n) return encoding_add_word(encoding, text, n_bytes);
    size_t at = 0;
    while (at < n_bytes) {
        /* The whole text was checked, so each search need not check it again. */
        const int n = pcre2_match(splitter->codes[index], (PCRE2_SPTR)text, n_bytes, at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, NULL);
        if (n == PCRE2_ERROR_NOMATCH) break;
        if (n == PCRE2_ERROR_NOMEMORY) return fail_memory(encoding->ctx);
        if (n < 0)
            FAIL(encoding->ctx, STATUS_UNSUPPORTED,
                 "tokenizer: PCRE2 gives up on a word at byte %zu of a text (error %d)", at, n);
        /* Copied, because the pieces use the same match. */
        const size_t begin = pcre2_get_ovector_pointer(match)[0];
        const size_t end = pcre2_get_ovector_pointer(match)[1];
        TRY(split(encoding, match, index + 1, text + at, begin - at));
        TRY(split(encoding, match, index + 1, text + begin, end - begin));
        at = end;
    }
    return split(encoding, match, index + 1, text + at, n_bytes - at);
}

status_t splitter_run(encoding_t *encoding, const char *text, size_t n_bytes)
{
    pcre2_match_data *match = pcre2_match_data_create(1, encoding->tokenizer->splitter->memory);
    if (match == NULL) return fail_memory(encoding->ctx);
    FINISH(split(encoding, match, 0, text, n_bytes), pcre2_match_data_free(match));
}

#else

status_t splitter_create(context_t *ctx, const gguf_t *file, tokenizer_t *tokenizer)
{
    (void)tokenizer;
    FAIL(ctx, STATUS_UNSUPPORTED,
         "tokenizer: %s needs regular expressions, this build has no PCRE2", gguf_path(file));
}

void splitter_destroy(const allocator_t *allocator, struct splitter *splitter)
{
    (void)allocator, (void)splitter;
}

status_t splitter_run(encoding_t *encoding, const char *text, size_t n_bytes)
{
    (void)text, (void)n_bytes;
    FAIL(encoding->ctx, STATUS_UNSUPPORTED, "tokenizer: this build has no PCRE2");
}

#endif
