/* Language models compared with an evaluation in PyTorch (decoder_values.py): logits of each token,
 * in parts and one by one, and the most likely tokens after prompts. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/generate/generator.h"
#include "io/generate/sampler_impl.h"
#include "tensor/counters.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/"
#define SMOLLM2 TESSERA_SOURCE_DIR "/build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
#define MAX_TOKENS 128
#define MAX_LINE 8192

/* ---- stored values ---- */

typedef struct values {
    FILE *file;
    char line[MAX_LINE];
    int64_t n_tokens, tokens[MAX_TOKENS];
} values_t;

/* Reads the next line whose first word is `word`. Returns false at the next model. */
static bool next(values_t *v, const char *word)
{
    while (fgets(v->line, sizeof v->line, v->file) != NULL) {
        if (strncmp(v->line, word, strlen(word)) == 0) return true;
        if (strncmp(v->line, "model", 5) == 0) return false;
    }
    return false;
}

static int64_t read_integers(char **cursor, int64_t *numbers)
{
    const int64_t n = strtoll(*cursor, cursor, 10);
    assert_in_range(n, 1, MAX_TOKENS);
    for (int64_t i = 0; i < n; i++) numbers[i] = strtoll(*cursor, cursor, 10);
    return n;
}

static void open_values(values_t *v, const char *model)
{
    char head[128];
    v->file = fopen(FOLDER "decoder_values.txt", "r");
    assert_non_null(v->file);
    snprintf(head, sizeof head, "model %s\n", model);
    do assert_non_null(fgets(v->line, sizeof v->line, v->file));
    while (strcmp(v->line, head) != 0);
    assert_true(next(v, "tokens"));
    char *cursor = v->line + strlen("tokens");
    v->n_tokens = read_integers(&cursor, v->tokens);
}

/* Compares logits with the lines of the next position. */
static void check_logits(values_t *v, const float *logits, double bound)
{
    char largest[256];
    assert_true(next(v, "logits"));
    char *cursor = v->line + strlen("logits");
    const long long position = strtoll(cursor, &cursor, 10), step = strtoll(cursor, &cursor, 10);
    const long long n = strtoll(cursor, &cursor, 10);
    assert_non_null(fgets(largest, sizeof largest, v->file));
    char *end = largest + strlen("largest");
    assert_int_equal(strtoll(end, &end, 10), position);
    const long long token = strtoll(end, &end, 10);
    const double size = strtod(end, &end);
    for (long long i = 0; i < n; i++) {
        const double wanted = strtod(cursor, &cursor), given = (double)logits[i * step];
        if (!(fabs(given - wanted) <= bound * size))
            fail_msg("position %lld: logit %lld is %g, must be %g", position, i * step, given,
                     wanted);
    }
    if (!(fabs((double)logits[token] - size) <= bound * size))
        fail_msg("position %lld: the largest logit is %g, must be %g", position,
                 (double)logits[token], size);
}

/* ---- checks of one model ---- */

static void check_each_token(context_t *ctx, generator_t *generator, const char *model,
                             double bound)
{
    values_t v;
    const float *logits = NULL;
    counters_t before, after;
    open_values(&v, model);
    CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
    counters_read(ctx, &before);
    for (int64_t i = 0; i < v.n_tokens; i++) {
        CHECK_OK(ctx, generator_feed(ctx, generator, 1, &v.tokens[i]));
        CHECK_OK(ctx, generator_logits(ctx, generator, &logits));
        check_logits(&v, logits, bound);
    }
    counters_read(ctx, &after);
    assert_int_equal(counters_activation_reorders(&after), counters_activation_reorders(&before));
    fclose(v.file);
}

/* Feeds the sequence in parts of n tokens, and compares the last logits of each part. */
static void check_parts(context_t *ctx, generator_t *generator, const char *model, int64_t n,
                        double bound)
{
    values_t v;
    const float *logits = NULL;
    open_values(&v, model);
    CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
    for (int64_t first = 0; first < v.n_tokens; first += n) {
        const int64_t count = v.n_tokens - first < n ? v.n_tokens - first : n;
        CHECK_OK(ctx, generator_feed(ctx, generator, count, v.tokens + first));
        CHECK_OK(ctx, generator_logits(ctx, generator, &logits));
        for (int64_t i = 1; i < count; i++) assert_true(next(&v, "logits"));
        check_logits(&v, logits, bound);
    }
    fclose(v.file);
}

static int check_greedy(context_t *ctx, generator_t *generator, const char *model)
{
    values_t v;
    int n_prompts = 0;
    open_values(&v, model);
    for (; next(&v, "greedy"); n_prompts++) {
        int64_t prompt[MAX_TOKENS], answer[MAX_TOKENS], token = -1;
        char *cursor = v.line + strlen("greedy");
        const int64_t n = read_integers(&cursor, prompt), n_answer = read_integers(&cursor, answer);
        CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
        CHECK_OK(ctx, generator_feed(ctx, generator, n, prompt));
        for (int64_t i = 0; i < n_answer; i++) {
            CHECK_OK(ctx, generator_step(ctx, generator, &token));
            if (token != answer[i])
                fail_msg("%s, prompt %d: token %d is %d, must be %d", model, n_prompts, (int)i,
                         (int)token, (int)answer[i]);
        }
        assert_int_equal(generator_length(generator), n + n_answer);
    }
    fclose(v.file);
    return n_prompts;
}

static void check_model(context_t *ctx, const char *path, const char *model, double bound)
{
    generator_t *generator = NULL;
    counters_t counters;
    CHECK_OK(ctx, generator_create(ctx, path, &(generator_options_t){.capacity = 128}, &generator));
    assert_int_equal(generator_capacity(generator), 128);
    counters_reset(ctx);
    check_parts(ctx, generator, model, 90, bound);
    check_parts(ctx, generator, model, 23, bound);
    check_each_token(ctx, generator, model, bound);
    assert_in_range(check_greedy(ctx, generator, model), 1, 5);
    /* generator_create built all plans, and runs write only the new rows of the caches. */
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 0);
    assert_int_equal(counters_copies(&counters), 0);
    generator_destroy(generator);
}

/* ---- tests ---- */

static void models_of_each_architecture_agree_with_pytorch(void **state)
{
    static const char *const models[] = {
        "decoder_llama.gguf",  "decoder_qwen2.gguf", "decoder_qwen3.gguf", "decoder_gemma2.gguf",
        "decoder_gemma3.gguf", "decoder_phi3.gguf",  "decoder_yarn.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s", models[i]);
        check_model(fixture_context(state), path, models[i], 1e-4);
    }
}

static void smollm2_agrees_with_pytorch(void **state)
{
    FILE *file = fopen(SMOLLM2, "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    check_model(fixture_context(state), SMOLLM2, "smollm2", 1e-3);
}

/* The text of four tokens, taken after each of them, is that of all four. */
static void smollm2_continues_a_text(void **state)
{
    context_t *ctx = fixture_context(state);
    FILE *file = fopen(SMOLLM2, "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    generator_t *generator = NULL;
    int64_t token = 0;
    text_t each = text_begin(ctx), all = text_begin(ctx);
    CHECK_OK(ctx,
             generator_create(ctx, SMOLLM2, &(generator_options_t){.capacity = 64}, &generator));
    assert_false(tokenizer_is_end(generator_tokenizer(generator), 100));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
        CHECK_OK(ctx, generator_prompt(ctx, generator, "The capital of France is", false));
        assert_int_equal(generator_length(generator), 5);
        for (int k = 0; k < 4; k++) {
            CHECK_OK(ctx, generator_step(ctx, generator, &token));
            if (i == 0) CHECK_OK(ctx, generator_text(ctx, generator, &each));
        }
    }
    CHECK_OK(ctx, generator_text(ctx, generator, &all));
    assert_string_equal(text_string(&each), text_string(&all));
    assert_true(strncmp(text_string(&all), " Paris", 6) == 0);
    text_clear(&each);
    text_clear(&all);
    generator_destroy(generator);
}

static void files_without_a_tokenizer_have_no_text(void **state)
{
    context_t *ctx = fixture_context(state);
    generator_t *generator = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, generator_create(ctx, FOLDER "decoder_llama.gguf", NULL, &generator));
    assert_null(generator_tokenizer(generator));
    CHECK_FAILS(ctx, generator_prompt(ctx, generator, "a", false), STATUS_UNSUPPORTED,
                "generator_prompt: the file has no tokenizer");
    CHECK_FAILS(ctx, generator_text(ctx, generator, &text), STATUS_UNSUPPORTED,
                "generator_text: the file has no tokenizer");
    text_clear(&text);
    generator_destroy(generator);
}

static void a_cache_in_bf16_changes_logits_little(void **state)
{
    context_t *ctx = fixture_context(state);
    const generator_options_t options = {.capacity = 128, .cache_dtype = DTYPE_BF16};
    generator_t *generator = NULL;
    CHECK_OK(ctx, generator_create(ctx, FOLDER "decoder_qwen3.gguf", &options, &generator));
    check_each_token(ctx, generator, "decoder_qwen3.gguf", 0.03);
    generator_destroy(generator);
}

/* 200, 40 and 5 tokens run in plans for 256, 64 and 16. */
static void prompts_of_all_lengths_agree_with_single_tokens(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t lengths[] = {200, 40, 5};
    int64_t tokens[200];
    generator_t *generator = NULL;
    const float *logits = NULL;
    CHECK_OK(ctx, generator_create(ctx, FOLDER "decoder_llama.gguf", NULL, &generator));
    for (int i = 0; i < 200; i++) tokens[i] = 7 * i % 61;
    for (int k = 0; k < 3; k++) {
        float wanted[61];
        CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
        for (int64_t i = 0; i < lengths[k]; i++)
            CHECK_OK(ctx, generator_feed(ctx, generator, 1, &tokens[i]));
        CHECK_OK(ctx, generator_logits(ctx, generator, &logits));
        memcpy(wanted, logits, sizeof wanted);
        CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
        CHECK_OK(ctx, generator_feed(ctx, generator, lengths[k], tokens));
        CHECK_OK(ctx, generator_logits(ctx, generator, &logits));
        for (int i = 0; i < 61; i++)
            if (!(fabsf(logits[i] - wanted[i]) <= 1e-3F))
                fail_msg("%d tokens: logit %d is %g, must be %g", (int)lengths[k], i,
                         (double)logits[i], (double)wanted[i]);
    }
    generator_destroy(generator);
}

/* Steps after the third allocate no memory that stays. */
static void steps_need_no_more_memory(void **state)
{
    context_t *ctx = fixture_context(state);
    fixture_t *fixture = *state;
    const int64_t tokens[] = {1, 2};
    int64_t token = 0;
    generator_t *generator = NULL;
    CHECK_OK(ctx, generator_create(ctx, FOLDER "decoder_llama.gguf", NULL, &generator));
    long live = 0;
    for (int round = 0; round < 2; round++) {
        CHECK_OK(ctx, generator_reset(ctx, generator, NULL));
        CHECK_OK(ctx, generator_feed(ctx, generator, 2, tokens));
        while (generator_length(generator) < generator_capacity(generator)) {
            CHECK_OK(ctx, generator_step(ctx, generator, &token));
            if (generator_length(generator) == 5 && round == 0) live = fixture->memory.live;
        }
    }
    assert_int_equal(generator_length(generator), 256); /* the model's context */
    assert_int_equal(fixture->memory.live, live);
    generator_destroy(generator);
}

static void wrong_calls_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t tokens[] = {1, 2, 3, 61};
    int64_t token = 0;
    const float *logits = NULL;
    generator_t *generator = NULL;
    generator_options_t options = {.capacity = 3, .sampling = {.top_p = 2}};
    const char *path = FOLDER "decoder_llama.gguf";
    CHECK_FAILS(ctx, generator_create(ctx, path, &options, &generator), STATUS_INVALID_ARGUMENT,
                "sampling: top_p is 2, 0 to 1 is possible");
    CHECK_FAILS(ctx,
                generator_create(ctx, path, &(generator_options_t){.capacity = -1}, &generator),
                STATUS_INVALID_ARGUMENT, "decoder_create: capacity -1 is out of range");
    CHECK_FAILS(
        ctx,
        generator_create(ctx, path, &(generator_options_t){.cache_dtype = DTYPE_S8}, &generator),
        STATUS_INVALID_ARGUMENT, "decoder_create: the cache is s8, f32 or bf16 is possible");
    CHECK_FAILS(ctx, generator_create(ctx, FOLDER "blocks.gguf", NULL, &generator),
                STATUS_UNSUPPORTED,
                "architecture \"test\", only llama, qwen2, qwen3, gemma2, gemma3 and phi3 are "
                "supported");
    options.sampling = (sampling_t){.top_k = 0};
    CHECK_OK(ctx, generator_create(ctx, path, &options, &generator));
    assert_int_equal(generator_vocabulary(generator), 61);
    /* f32: 61 x 32, a norm, and two layers of two norms and seven matrices */
    assert_int_equal(generator_step_bytes(generator), 4 * (61 * 32 + 32 + 2 * 7744));
    CHECK_FAILS(ctx, generator_step(ctx, generator, &token), STATUS_INVALID_ARGUMENT,
                "generator_step: the sequence is empty");
    CHECK_FAILS(ctx, generator_feed(ctx, generator, 0, tokens), STATUS_INVALID_ARGUMENT,
                "generator_feed: 0 tokens, at least one is needed");
    CHECK_FAILS(ctx, generator_feed(ctx, generator, 1, tokens + 3), STATUS_INVALID_ARGUMENT,
                "generator_feed: token 61, the vocabulary has 61");
    CHECK_FAILS(ctx, generator_feed(ctx, generator, 4, tokens), STATUS_INVALID_ARGUMENT,
                "generator_feed: 4 tokens after 0, the capacity is 3");
    CHECK_OK(ctx, generator_feed(ctx, generator, 2, tokens));
    CHECK_OK(ctx, generator_step(ctx, generator, &token));
    CHECK_FAILS(ctx, generator_step(ctx, generator, &token), STATUS_INVALID_ARGUMENT,
                "generator_step: the sequence has 3 tokens, which is its capacity");
    CHECK_OK(ctx, generator_logits(ctx, generator, &logits));
    generator_destroy(generator);
}

/* Replaces n bytes of a file. */
static void write_changed_bytes(size_t n_changed, const char *from, const char *to,
                                const char *path)
{
    static char bytes[65536];
    FILE *file = fopen(FOLDER "decoder_llama.gguf", "rb");
    assert_non_null(file);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    size_t at = 0;
    while (at + n_changed < n && memcmp(bytes + at, from, n_changed) != 0) at++;
    assert_true(at + n_changed < n);
    memcpy(bytes + at, to, n_changed);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* Replaces a string by another one of the same length. */
static void write_changed(const char *from, const char *to, const char *path)
{
    write_changed_bytes(strlen(from), from, to, path);
}

/* The key, the type u32 (4) and the number of a value of the metadata. */
#define PAIRS(n) "dimension_count\4\0\0\0" n "\0\0\0"

static void sizes_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *length, *message;
    } cases[] = {{PAIRS("\17"), "rotary embedding of 15 elements in heads of 16"},
                 {PAIRS("\22"), "rotary embedding of 18 elements in heads of 16"},
                 {PAIRS("\10"), "rope_freqs.weight is not f32[4]"}};
    context_t *ctx = fixture_context(state);
    char path[256];
    snprintf(path, sizeof path, "%s/a.gguf", scratch);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_t *file = NULL;
        module_t *model = NULL;
        write_changed_bytes(sizeof PAIRS("\20") - 1, PAIRS("\20"), cases[i].length, path);
        CHECK_OK(ctx, gguf_open(ctx, path, &file));
        CHECK_FAILS(ctx, decoder_create(ctx, file, NULL, &model), STATUS_CORRUPT, cases[i].message);
        gguf_close(file);
    }
}

static void methods_count_their_tensors(void **state)
{
    context_t *ctx = fixture_context(state);
    gguf_t *file = NULL;
    module_t *model = NULL;
    tensor_t *x = NULL, *y = NULL;
    int n = 1;
    CHECK_OK(ctx, gguf_open(ctx, FOLDER "decoder_llama.gguf", &file));
    CHECK_OK(ctx, decoder_create(ctx, file, NULL, &model));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 32), &x));
    CHECK_FAILS(ctx, module_forward(ctx, model, x, &y), STATUS_INVALID_ARGUMENT,
                "forward: 1 tensors are given, it takes");
    const tensor_t *in[] = {x};
    CHECK_FAILS(ctx, module_call_tensors(ctx, model, "blk.0.forward", 1, in, &n, &y),
                STATUS_INVALID_ARGUMENT, "a layer takes 6 tensors, 1 are given");
    CHECK_FAILS(ctx, module_call_tensors(ctx, model, "step", 1, in, &n, &y),
                STATUS_INVALID_ARGUMENT, "step: 1 tensors are given, it takes 5");
    tensor_release(x);
    module_release(model);
    gguf_close(file);
}

static void files_without_a_tensor_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[256];
    gguf_t *file = NULL;
    module_t *model = NULL;
    snprintf(path, sizeof path, "%s/a.gguf", scratch);
    write_changed("blk.1.attn_k.weight", "blk.1.attn_x.weight", path);
    CHECK_OK(ctx, gguf_open(ctx, path, &file));
    CHECK_FAILS(ctx, decoder_create(ctx, file, NULL, &model), STATUS_CORRUPT,
                "blk.1.attn_k.weight is missing, or not [16,32]");
    assert_null(model);
    gguf_close(file);
    write_changed("token_embd.weight", "token_embx.weight", path);
    CHECK_OK(ctx, gguf_open(ctx, path, &file));
    CHECK_FAILS(ctx, decoder_create(ctx, file, NULL, &model), STATUS_CORRUPT,
                "token_embd.weight is missing, or its rows do not have 32 elements");
    gguf_close(file);
}

/* Draws tokens of given probabilities, and counts them. */
static void draw(const sampling_t *sampling, int n_recent, const int64_t *recent, int *counts)
{
    const float logits[] = {logf(0.2f), logf(0.5f), logf(0.3f)};
    candidate_t candidates[3];
    memset(counts, 0, 3 * sizeof *counts);
    for (int i = 0; i < 1000; i++)
        counts[sampler_choose(sampling, 3, logits, n_recent, recent, candidates, i / 1000.0)]++;
}

static void tokens_are_drawn_by_their_probabilities(void **state)
{
    context_t *ctx = fixture_context(state);
    int counts[3];
    const int64_t recent[] = {1, 1};
    draw(&(sampling_t){.temperature = 1}, 0, NULL, counts);
    assert_in_range(counts[0], 199, 201);
    assert_in_range(counts[1], 499, 501);
    draw(&(sampling_t){.temperature = 0.5}, 0, NULL, counts); /* 0.04 : 0.25 : 0.09 */
    assert_in_range(counts[1], 657, 659);
    draw(&(sampling_t){.temperature = 1, .top_k = 2}, 0, NULL, counts);
    assert_true(counts[0] == 0 && counts[1] >= 624 && counts[1] <= 626);
    draw(&(sampling_t){.temperature = 1, .top_p = 0.6}, 0, NULL, counts);
    assert_true(counts[0] == 0 && counts[2] > 0);
    draw(&(sampling_t){.temperature = 1, .top_p = 0.5}, 0, NULL, counts);
    assert_int_equal(counts[1], 1000);
    draw(&(sampling_t){.temperature = 1, .min_p = 0.5}, 0, NULL, counts);
    assert_true(counts[0] == 0 && counts[2] > 0);
    draw(&(sampling_t){.top_k = 1}, 0, NULL, counts);
    assert_int_equal(counts[1], 1000);
    draw(&(sampling_t){.repeat_penalty = 2}, 2, recent, counts); /* 2 log 0.5 = log 0.25 */
    assert_int_equal(counts[2], 1000);
    CHECK_OK(ctx, sampler_check(ctx, &(sampling_t){.top_k = 3}));
    CHECK_FAILS(ctx, sampler_check(ctx, &(sampling_t){.top_k = -1}), STATUS_INVALID_ARGUMENT,
                "sampling: top_k is -1, must not be negative");
    CHECK_FAILS(ctx, sampler_check(ctx, &(sampling_t){.min_p = -1}), STATUS_INVALID_ARGUMENT,
                "sampling: min_p is -1, 0 to 1 is possible");
    CHECK_FAILS(ctx, sampler_check(ctx, &(sampling_t){.temperature = -1}), STATUS_INVALID_ARGUMENT,
                "sampling: temperature is -1, must not be negative");
    CHECK_FAILS(ctx, sampler_check(ctx, &(sampling_t){.repeat_penalty = -1}),
                STATUS_INVALID_ARGUMENT,
                "sampling: repeat_penalty is -1, must be positive, or 0 for none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_of_each_architecture_agree_with_pytorch),
        TEST(smollm2_agrees_with_pytorch),
        TEST(smollm2_continues_a_text),
        TEST(files_without_a_tokenizer_have_no_text),
        TEST(a_cache_in_bf16_changes_logits_little),
        TEST(prompts_of_all_lengths_agree_with_single_tokens),
        TEST(steps_need_no_more_memory),
        TEST(wrong_calls_are_refused),
        TEST(files_without_a_tensor_are_refused),
        TEST(sizes_that_do_not_fit_are_refused),
        TEST(methods_count_their_tensors),
        TEST(tokens_are_drawn_by_their_probabilities),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
