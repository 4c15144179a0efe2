/* Tokens of strings in many languages, compared with llama.cpp and SentencePiece; and broken
 * vocabularies. token_ids.py writes words.gguf, sentences.gguf and token_ids.txt. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "io/text/tokenizer.h"
#include "module/layers/layers.h"
#include "tests/support/lines.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/text/"
#define SMOLLM2 TESSERA_SOURCE_DIR "/build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

enum { MAX_LINE = 8192, MAX_IDS = 2048, MIN_STRINGS = 200 };

static char path[128];

static int begin_directory(void **state)
{
    const int status = scratch_begin(state);
    snprintf(path, sizeof path, "%s/a.gguf", scratch);
    return status;
}

/* ---- files ---- */

static unsigned char bytes[400000];
static size_t n_bytes;

static void read_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    n_bytes = fread(bytes, 1, sizeof bytes, file);
    assert_true(n_bytes < sizeof bytes);
    fclose(file);
}

static void write_file(void)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

/* Finds a key of the metadata; returns the position of its value's type. */
static size_t find_key(const char *key)
{
    const size_t length = strlen(key);
    for (size_t at = 0; at + length < n_bytes; at++)
        if (memcmp(bytes + at, key, length) == 0 && bytes[at - 8] == length) return at + length;
    fail_msg("the file has no %s", key);
    return 0;
}

/* Replaces a string of the metadata. */
static void set_string(const char *key, const char *value)
{
    const size_t at = find_key(key) + 4, length = strlen(value), old = bytes[at];
    memmove(bytes + at + 8 + length, bytes + at + 8 + old, n_bytes - at - 8 - old);
    bytes[at] = (unsigned char)length;
    memcpy(bytes + at + 8, value, length);
    n_bytes = n_bytes - old + length;
}

static tokenizer_t *open_tokenizer(context_t *ctx, const char *from)
{
    gguf_t *file = NULL;
    tokenizer_t *tokenizer = NULL;
    CHECK_OK(ctx, gguf_open(ctx, from, &file));
    CHECK_OK(ctx, tokenizer_create(ctx, file, &tokenizer));
    gguf_close(file);
    return tokenizer;
}

/* Opens a vocabulary of this folder that splits text in this way. */
static tokenizer_t *open_way(context_t *ctx, const char *name, const char *way)
{
    char from[512];
    snprintf(from, sizeof from, FOLDER "%s", name);
    read_file(from);
    set_string("tokenizer.ggml.pre", way);
    write_file();
    return open_tokenizer(ctx, path);
}

/* ---- tokens ---- */

static int encode(context_t *ctx, const tokenizer_t *tokenizer, const char *text,
                  const tokenizer_options_t *options, int64_t *out_ids)
{
    tensor_t *tokens = NULL;
    CHECK_OK(ctx, tokenizer_encode(ctx, tokenizer, text, options, &tokens));
    const int64_t n = tensor_numel(tokens);
    assert_true(tensor_rank(tokens) == 1 && n <= MAX_IDS);
    CHECK_OK(ctx, tensor_read(ctx, tokens, out_ids, (size_t)n * 8));
    tensor_release(tokens);
    return (int)n;
}

static void check_ids(context_t *ctx, const tokenizer_t *tokenizer, const char *text,
                      bool is_special, const char *numbers)
{
    static int64_t ids[MAX_IDS];
    const tokenizer_options_t options = {.parses_special = is_special, .adds_ends = is_special};
    const int n = encode(ctx, tokenizer, text, is_special ? &options : NULL, ids);
    int i = 0;
    for (char *end = NULL;; numbers = end, i++) {
        const long id = strtol(numbers, &end, 10);
        if (end == numbers) break;
        if (i >= n || ids[i] != id)
            fail_msg("token %d of \"%s\" is %ld, not %ld", i, text, i < n ? (long)ids[i] : -1L, id);
    }
    assert_int_equal(i, n);
}

/* The text of the tokens is the text again, if every byte has a token. */
static void check_text(context_t *ctx, const tokenizer_t *tokenizer, const char *string)
{
    static int64_t ids[MAX_IDS];
    const int n = encode(ctx, tokenizer, string, NULL, ids);
    text_t whole = text_begin(ctx), parts = text_begin(ctx);
    tokenizer_stream_t stream = {{0}, 0, false};
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, n, ids, true, NULL, &whole));
    for (int i = 0; i < n; i++) {
        CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 1, &ids[i], true, &stream, &parts));
        assert_in_range(stream.n_bytes, 0, 3);
    }
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 0, NULL, true, &stream, &parts));
    assert_string_equal(text_string(&whole), string);
    assert_string_equal(text_string(&parts), string);
    text_clear(&parts);
    text_clear(&whole);
}

/* Checks the strings of one vocabulary. */
static void check_strings(context_t *ctx, const tokenizer_t *tokenizer, const char *name,
                          const char *way, bool is_reversible)
{
    static char line[MAX_LINE], string[MAX_LINE];
    char wanted[128];
    bool is_ours = false;
    int n = 0;
    FILE *file = fopen(FOLDER "token_ids.txt", "r");
    assert_non_null(file);
    snprintf(wanted, sizeof wanted, "@ %s %s", name, way);
    while (lines_read(file, MAX_LINE, line)) {
        if (line[0] == '@') is_ours = strcmp(line, wanted) == 0;
        if (!is_ours || line[0] != '=') continue;
        strcpy(string, line + 2);
        assert_true(lines_read(file, MAX_LINE, line));
        check_ids(ctx, tokenizer, string, false, line);
        assert_true(lines_read(file, MAX_LINE, line));
        check_ids(ctx, tokenizer, string, true, line);
        if (is_reversible) check_text(ctx, tokenizer, string);
        n++;
    }
    fclose(file);
    assert_true(n >= MIN_STRINGS);
}

#ifdef TESSERA_HAVE_PCRE

static void tokens_of_smollm2_are_those_of_llama_cpp(void **state)
{
    context_t *ctx = fixture_context(state);
    FILE *file = fopen(SMOLLM2, "r");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    tokenizer_t *tokenizer = open_tokenizer(ctx, SMOLLM2);
    assert_int_equal(tokenizer_count(tokenizer), 49152);
    assert_int_equal(tokenizer_begin_token(tokenizer), 1);
    for (int64_t i = -1; i < 49153; i++)
        assert_int_equal(tokenizer_is_end(tokenizer, i), i == 0 || i == 2);
    assert_memory_equal(tokenizer_template(tokenizer), "{% for message in messages %}", 29);
    check_strings(ctx, tokenizer, "smollm2.gguf", "smollm", false);
    tokenizer_destroy(tokenizer);
}

static void words_are_split_as_llama_cpp_splits_them(void **state)
{
    static const char *const ways[] = {"smollm", "gpt-2", "llama-bpe", "qwen2", "chatglm-bpe"};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        tokenizer_t *tokenizer = open_way(ctx, "words.gguf", ways[i]);
        check_strings(ctx, tokenizer, "words.gguf", ways[i], false);
        tokenizer_destroy(tokenizer);
    }
}

/* llama.cpp and this code might share a fault. Three words by hand. */
static void merges_apply_by_rank(void **state)
{
    context_t *ctx = fixture_context(state);
    tokenizer_t *tokenizer = open_way(ctx, "words.gguf", "smollm");
    int64_t ids[MAX_IDS];
    text_t text = text_begin(ctx);
    const int n = encode(ctx, tokenizer, " the", NULL, ids);
    assert_int_equal(n, 1);
    check_text(ctx, tokenizer, "the \xf0\x9f\x98\x80 \xc3\xa9");
    const tokenizer_options_t special = {.parses_special = true};
    assert_int_equal(encode(ctx, tokenizer, "<|im_end|>", &special, ids), 1);
    assert_true(ids[0] == 2 && tokenizer_is_end(tokenizer, 2));
    assert_true(encode(ctx, tokenizer, "<|im_end|>", NULL, ids) > 1);
    assert_int_equal(encode(ctx, tokenizer, "<user>", NULL, ids), 1); /* is not a control token */
    assert_int_equal(encode(ctx, tokenizer, "", NULL, ids), 0);
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 2, (int64_t[]){2, 2}, false, NULL, &text));
    assert_string_equal(text_string(&text), "");
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 1, (int64_t[]){2}, true, NULL, &text));
    assert_string_equal(text_string(&text), "<|im_end|>");
    text_clear(&text);
    tokenizer_destroy(tokenizer);
}

/* Bytes that are not UTF-8 become U+FFFD, one for each part that could begin a character, as in
 * Python's bytes.decode(errors="replace"). */
static void incomplete_characters_wait_for_their_last_byte(void **state)
{
    context_t *ctx = fixture_context(state);
    tokenizer_t *tokenizer = open_way(ctx, "words.gguf", "smollm");
    int64_t smile[4], letter = 0;
    text_t text = text_begin(ctx);
    tokenizer_stream_t stream = {{0}, 0, false};
    /* The small vocabulary has no merges of these bytes. */
    assert_int_equal(encode(ctx, tokenizer, "\xf0\x9f\x98\x80", NULL, smile), 4);
    assert_int_equal(encode(ctx, tokenizer, "x", NULL, &letter), 1);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 1, &smile[i], false, &stream, &text));
        assert_string_equal(text_string(&text), i < 3 ? "" : "\xf0\x9f\x98\x80");
    }
    text_clear(&text);
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 3, smile, false, &stream, &text));
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 1, &letter, false, &stream, &text));
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 2, smile + 2, false, &stream, &text));
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 2, smile, false, &stream, &text));
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 0, NULL, false, &stream, &text));
    assert_string_equal(text_string(&text), "\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    text_clear(&text);
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, 3, smile, false, NULL, &text));
    assert_string_equal(text_string(&text), "\xef\xbf\xbd");
    text_clear(&text);
    stream.n_bytes = 4;
    CHECK_FAILS(ctx, tokenizer_decode(ctx, tokenizer, 1, &letter, false, &stream, &text),
                STATUS_INVALID_ARGUMENT, "a stream with 4 bytes, at most 3");
    CHECK_FAILS(ctx, tokenizer_decode(ctx, tokenizer, 1, (int64_t[]){-1}, false, NULL, &text),
                STATUS_INVALID_ARGUMENT, "tokenizer_decode: token -1, the vocabulary has ");
    tokenizer_destroy(tokenizer);
}

/* Time must not grow with the square of the length: words of a megabyte would take hours. */
static void long_words_take_linear_time(void **state)
{
    enum { LENGTH = IS_SLOW ? 100000 : 1000000 };
    static const char *const repeated[] = {"a",   " ",        "\n",    "!", "1",
                                           "ab ", "\xc3\xa9", "<|im_", "'s"};
    context_t *ctx = fixture_context(state);
    char *text = malloc(LENGTH + 1);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
        static const char *const ways[] = {"smollm", "llama-bpe"};
        const size_t length = strlen(repeated[i]), n = LENGTH / length * length;
        for (size_t j = 0; j < n; j++) text[j] = repeated[i][j % length];
        text[n] = '\0';
        for (size_t way = 0; way < 2; way++) {
            tokenizer_t *tokenizer = open_way(ctx, "words.gguf", ways[way]);
            tensor_t *tokens = NULL;
            text_t decoded = text_begin(ctx);
            CHECK_OK(ctx, tokenizer_encode(ctx, tokenizer, text, NULL, &tokens));
            const size_t n_tokens = (size_t)tensor_numel(tokens);
            int64_t *ids = malloc(n_tokens * 8);
            assert_non_null(ids);
            CHECK_OK(ctx, tensor_read(ctx, tokens, ids, n_tokens * 8));
            CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, (int64_t)n_tokens, ids, true, NULL,
                                           &decoded));
            assert_int_equal(decoded.length, n);
            assert_memory_equal(decoded.bytes, text, n);
            free(ids);
            text_clear(&decoded);
            tensor_release(tokens);
            tokenizer_destroy(tokenizer);
        }
    }
    free(text);
}

#endif

/* SentencePiece itself computed the same tokens. */
static void sentences_are_those_of_sentencepiece(void **state)
{
    context_t *ctx = fixture_context(state);
    tokenizer_t *tokenizer = open_tokenizer(ctx, FOLDER "sentences.gguf");
    text_t text = text_begin(ctx);
    int64_t ids[MAX_IDS];
    check_strings(ctx, tokenizer, "sentences.gguf", "default", false);
    check_text(ctx, tokenizer, "a  b \xf0\x9f\x98\x80\n");
    const int n = encode(ctx, tokenizer, "the file", NULL, ids);
    const tokenizer_stream_t answer = {{0}, 0, true};
    tokenizer_stream_t stream = answer;
    CHECK_OK(ctx, tokenizer_decode(ctx, tokenizer, n, ids, false, &stream, &text));
    assert_string_equal(text_string(&text), " the file");
    text_clear(&text);
    tokenizer_destroy(tokenizer);
}

/* A .tessera file keeps the vocabulary as a buffer of its module. */
static void a_tokenizer_travels_in_a_tessera_file(void **state)
{
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    tensor_t *metadata = NULL;
    module_t *net = NULL, *frozen = NULL, *loaded = NULL;
    tokenizer_t *tokenizer = NULL;
    const void *data = NULL;
    char saved[160];
    snprintf(saved, sizeof saved, "%s/net.tessera", scratch);
    CHECK_OK(ctx, gguf_open(ctx, FOLDER "sentences.gguf", &file));
    CHECK_OK(ctx, gguf_metadata(ctx, file, &metadata));
    gguf_close(file);
    CHECK_OK(ctx, layer_linear(ctx, 2, 2, true, &net));
    CHECK_OK(ctx, module_set_buffer(ctx, net, "metadata", metadata));
    tensor_release(metadata);
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 2), &x));
    const tensor_t *input = x;
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, &input));
    CHECK_OK(ctx,
             freeze(ctx, net, &(freeze_options_t){.preserved = (const char *[]){"metadata", NULL}},
                    &frozen));
    CHECK_OK(ctx, freeze_save(ctx, frozen, saved));
    CHECK_OK(ctx, freeze_load(ctx, saved, &loaded));
    tensor_t *kept = module_buffer(loaded, "metadata");
    assert_non_null(kept);
    CHECK_OK(ctx, tensor_data(ctx, kept, &data));
    CHECK_OK(ctx, gguf_open_bytes(ctx, data, (size_t)tensor_numel(kept), &file));
    CHECK_OK(ctx, tokenizer_create(ctx, file, &tokenizer));
    gguf_close(file);
    check_strings(ctx, tokenizer, "sentences.gguf", "default", false);
    tokenizer_destroy(tokenizer);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
    tensor_release(x);
}

/* ---- errors ---- */

static void check_refused(context_t *ctx, status_t status, const char *part)
{
    gguf_t *file = NULL;
    tokenizer_t *tokenizer = NULL;
    write_file();
    CHECK_OK(ctx, gguf_open(ctx, path, &file));
    CHECK_FAILS(ctx, tokenizer_create(ctx, file, &tokenizer), status, part);
    assert_null(tokenizer);
    gguf_close(file);
}

static void broken_vocabularies_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    read_file(FOLDER "sentences.gguf");
    set_string("tokenizer.ggml.model", "t5");
    check_refused(ctx, STATUS_UNSUPPORTED, "has a vocabulary of kind \"t5\", supported are");
    read_file(FOLDER "sentences.gguf");
    bytes[find_key("tokenizer.ggml.model") - 1] = 'x';
    check_refused(ctx, STATUS_CORRUPT, "has no tokenizer.ggml.model");
    read_file(FOLDER "sentences.gguf");
    bytes[find_key("tokenizer.ggml.tokens") - 1] = 'x';
    check_refused(ctx, STATUS_CORRUPT, "has no vocabulary, tokenizer.ggml.tokens");
    read_file(FOLDER "sentences.gguf");
    bytes[find_key("tokenizer.ggml.scores") + 4] = 5; /* s32 */
    check_refused(ctx, STATUS_CORRUPT, "tokenizer.ggml.scores must be an array of f32");
    read_file(FOLDER "sentences.gguf");
    bytes[find_key("tokenizer.ggml.token_type") + 16] = 7;
    check_refused(ctx, STATUS_CORRUPT, "token 0 has type 7, types are 0 to 6");
    read_file(FOLDER "sentences.gguf");
    bytes[find_key("tokenizer.ggml.bos_token_id") + 6] = 1;
    check_refused(ctx, STATUS_CORRUPT, "tokenizer.ggml.bos_token_id is 65537, the vocabulary has");
    read_file(FOLDER "words.gguf");
#ifdef TESSERA_HAVE_PCRE
    set_string("tokenizer.ggml.pre", "other");
    check_refused(ctx, STATUS_UNSUPPORTED, "splits text by \"other\" (tokenizer.ggml.pre)");
    read_file(FOLDER "words.gguf");
    bytes[find_key("tokenizer.ggml.merges") - 1] = 'x';
    check_refused(ctx, STATUS_CORRUPT, "has no merges, tokenizer.ggml.merges");
    read_file(FOLDER "words.gguf");
    bytes[find_key("tokenizer.ggml.merges") + 24] = '\x01';
    check_refused(ctx, STATUS_CORRUPT, "merge 0 must name two tokens that together are a token");
#else
    check_refused(ctx, STATUS_UNSUPPORTED, "this build has no PCRE2");
#endif
}

static void text_has_to_be_utf_8(void **state)
{
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {{"a\xff", "not UTF-8 at byte 1"},        {"\xc0\x80", "not UTF-8 at byte 0"},
                 {"\xed\xa0\x80", "not UTF-8 at byte 0"}, {"ab\xe2\x82", "not UTF-8 at byte 2"},
                 {"\xf4\x90\x80\x80", "at byte 0"},       {"\xe0\x9f\xbf", "at byte 0"},
                 {"\xf0\x8f\xbf\xbf", "at byte 0"},       {"\x80", "at byte 0"}};
    context_t *ctx = fixture_context(state);
    tokenizer_t *tokenizer = open_tokenizer(ctx, FOLDER "sentences.gguf");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tensor_t *tokens = NULL;
        CHECK_FAILS(ctx, tokenizer_encode(ctx, tokenizer, cases[i].text, NULL, &tokens),
                    STATUS_INVALID_ARGUMENT, cases[i].part);
        assert_null(tokens);
    }
    tokenizer_destroy(tokenizer);
}

static status_t encode_and_decode(context_t *ctx, const char *name)
{
    char from[512];
    gguf_t *file = NULL;
    tokenizer_t *tokenizer = NULL;
    tensor_t *tokens = NULL;
    text_t text = text_begin(ctx);
    const tokenizer_options_t options = {true, true};
    snprintf(from, sizeof from, FOLDER "%s", name);
    TRY(gguf_open(ctx, from, &file));
    status_t status = tokenizer_create(ctx, file, &tokenizer);
    gguf_close(file);
    if (status == STATUS_OK)
        status = tokenizer_encode(ctx, tokenizer, "Hello 12 <|im_end|>", &options, &tokens);
    if (status == STATUS_OK)
        status = tokenizer_decode(ctx, tokenizer, 3, (int64_t[]){70, 80, 90}, true, NULL, &text);
    text_clear(&text);
    tensor_release(tokens);
    tokenizer_destroy(tokenizer);
    return status;
}

static status_t encode_sentence(context_t *ctx)
{
    return encode_and_decode(ctx, "sentences.gguf");
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(encode_sentence);
}

#ifdef TESSERA_HAVE_PCRE
static status_t encode_words(context_t *ctx)
{
    return encode_and_decode(ctx, "words.gguf");
}

static void every_allocation_of_words_may_fail(void **state)
{
    (void)state;
    check_every_allocation(encode_words);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef TESSERA_HAVE_PCRE
        TEST(tokens_of_smollm2_are_those_of_llama_cpp),
        TEST(words_are_split_as_llama_cpp_splits_them),
        TEST(merges_apply_by_rank),
        TEST(incomplete_characters_wait_for_their_last_byte),
        TEST(long_words_take_linear_time),
        TEST(every_allocation_of_words_may_fail),
#endif
        TEST(sentences_are_those_of_sentencepiece),
        TEST(a_tokenizer_travels_in_a_tessera_file),
        TEST(broken_vocabularies_are_refused),
        TEST(text_has_to_be_utf_8),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, begin_directory, scratch_end);
}
