/* Sequences of tokens: prompts, steps, and their text. */
#include "io/generate/generator.h"

#include <string.h>

#include "io/generate/runner_impl.h"
#include "kernels/random/generator_impl.h"
#include "ops/ops_impl.h"
#include "tensor/tensor_impl.h"

#define N_RECENT 64

struct generator {
    allocator_t allocator;
    runner_t *runner;
    int slot; /* of the runner, or -1 */
    sampling_t sampling;
    int64_t length;   /* tokens of the sequence */
    int64_t pending;  /* the last of them if the model has not run it, or -1 */
    tensor_t *logits; /* row `row` is that of the last token that was run; or NULL */
    int64_t row;
    tokenizer_stream_t stream;
    int64_t n_told;           /* tokens of the sequence whose text generator_text has returned */
    int64_t recent[N_RECENT]; /* token i of the sequence is recent[i % N_RECENT] */
};

/* ---- creating ---- */

/* Makes a generator over a runner, in whose slot it is. The generator leaves the slot when it is
 * destroyed. */
static status_t create(context_t *ctx, runner_t *runner, int slot, const sampling_t *sampling,
                       generator_t **out_generator)
{
    generator_t *generator = NULL;
    const status_t status = context_get_zeroed(ctx, sizeof *generator, "a generator", &generator);
    if (status != STATUS_OK) {
        runner_leave(runner, slot);
        return status;
    }
    generator->allocator = *context_allocator(ctx);
    generator->runner = runner;
    generator->slot = slot;
    *out_generator = generator;
    return generator_reset(ctx, generator, sampling);
}

status_t generator_create(context_t *ctx, const char *path, const generator_options_t *options,
                          generator_t **out_generator)
{
    static const generator_options_t defaults = {.capacity = 0};
    runner_t *runner = NULL;
    if (out_generator == NULL) return context_null(ctx, "generator_create", "out_generator");
    *out_generator = NULL;
    if (path == NULL) return context_null(ctx, "generator_create", "path");
    if (options == NULL) options = &defaults;
    TRY(sampler_check(ctx, &options->sampling));
    const decoder_options_t decoder = {.capacity = options->capacity,
                                       .cache_dtype = options->cache_dtype,
                                       .n_slots = options->n_sequences};
    TRY(runner_create(ctx, path, &decoder, &runner));
    return create(ctx, runner, 0, &options->sampling, out_generator);
}

status_t generator_add(context_t *ctx, const generator_t *generator, const sampling_t *sampling,
                       generator_t **out_generator)
{
    if (out_generator == NULL) return context_null(ctx, "generator_add", "out_generator");
    *out_generator = NULL;
    if (generator == NULL) return context_null(ctx, "generator_add", "generator");
    if (sampling == NULL) sampling = &generator->sampling;
    TRY(sampler_check(ctx, sampling));
    const int slot = runner_join(generator->runner);
    REQUIRE(ctx, slot >= 0, "generator_add: there are %d generators already, which is n_sequences",
            generator->runner->n_slots);
    return create(ctx, generator->runner, slot, sampling, out_generator);
}

void generator_destroy(generator_t *generator)
{
    if (generator == NULL) return;
    const allocator_t allocator = generator->allocator;
    tensor_drop(generator->logits);
    runner_leave(generator->runner, generator->slot);
    allocator_put(&allocator, generator);
}

/* ---- running ---- */

static void set_logits(generator_t *generator, tensor_t *logits, int64_t row)
{
    tensor_drop(generator->logits);
    generator->logits = logits;
    generator->row = row;
}

/* Runs the pending tokens of n generators together, up to RUNNER_STEP. */
static status_t run_pending(context_t *ctx, int n, generator_t *const *generators)
{
    runner_row_t rows[RUNNER_STEP];
    generator_t *members[RUNNER_STEP];
    tensor_t *logits = NULL;
    int n_rows = 0;
    for (int i = 0; i < n; i++) {
        generator_t *g = generators[i];
        if (g->pending < 0) continue;
        members[n_rows] = g;
        rows[n_rows++] = (runner_row_t){g->slot, g->length - 1, g->pending};
    }
    if (n_rows == 0) return STATUS_OK;
    TRY(runner_step(ctx, generators[0]->runner, n_rows, rows, &logits));
    for (int i = 0; i < n_rows; i++) {
        set_logits(members[i], tensor_hold(logits), i);
        members[i]->pending = -1;
    }
    tensor_drop(logits);
    return STATUS_OK;
}

static void remember(generator_t *generator, int64_t n, const int64_t *tokens)
{
    for (int64_t i = 0; i < n; i++)
        generator->recent[(generator->length + i) % N_RECENT] = tokens[i];
    generator->length += n;
}

status_t generator_feed(context_t *ctx, generator_t *generator, int64_t n, const int64_t *tokens)
{
    tensor_t *logits = NULL;
    if (generator == NULL) return context_null(ctx, "generator_feed", "generator");
    if (tokens == NULL) return context_null(ctx, "generator_feed", "tokens");
    REQUIRE(ctx, n >= 1, "generator_feed: %lld tokens, at least one is needed", (long long)n);
    REQUIRE(ctx, n <= generator->runner->capacity - generator->length,
            "generator_feed: %lld tokens after %lld, the capacity is %lld", (long long)n,
            (long long)generator->length, (long long)generator->runner->capacity);
    for (int64_t i = 0; i < n; i++)
        REQUIRE(ctx, tokens[i] >= 0 && tokens[i] < generator->runner->n_vocabulary,
                "generator_feed: token %lld, the vocabulary has %lld", (long long)tokens[i],
                (long long)generator->runner->n_vocabulary);
    TRY(run_pending(ctx, 1, &generator));
    TRY(runner_feed(ctx, generator->runner, generator->slot, n, tokens, generator->length,
                    &logits));
    set_logits(generator, logits, 0);
    remember(generator, n, tokens);
    generator->n_told = generator->length;
    return STATUS_OK;
}

status_t generator_logits(context_t *ctx, generator_t *generator, const float **out_logits)
{
    const void *data = NULL;
    if (generator == NULL) return context_null(ctx, "generator_logits", "generator");
    if (out_logits == NULL) return context_null(ctx, "generator_logits", "out_logits");
    *out_logits = NULL;
    REQUIRE(ctx, generator->length > 0, "generator_logits: the sequence is empty");
    TRY(run_pending(ctx, 1, &generator));
    TRY(tensor_data(ctx, generator->logits, &data));
    *out_logits = (const float *)data + generator->row * generator->runner->n_vocabulary;
    return STATUS_OK;
}

/* Chooses the next token of a generator whose tokens have all been run. */
static status_t choose(context_t *ctx, generator_t *g, int64_t *out_token)
{
    const runner_t *runner = g->runner;
    const float *logits = NULL;
    TRY(generator_logits(ctx, g, &logits));
    const int64_t n = g->length < N_RECENT ? g->length : N_RECENT;
    const double uniform = generator_uniform(g->sampling.seed, g->length);
    const int64_t token = sampler_choose(&g->sampling, runner->n_vocabulary, logits, n, g->recent,
                                         runner->candidates, uniform);
    remember(g, 1, &token);
    g->pending = *out_token = token;
    return STATUS_OK;
}

static status_t check_step(context_t *ctx, const char *function, const generator_t *generator)
{
    REQUIRE(ctx, generator->length > 0, "%s: the sequence is empty", function);
    REQUIRE(ctx, generator->length < generator->runner->capacity,
            "%s: the sequence has %lld tokens, which is its capacity", function,
            (long long)generator->length);
    return STATUS_OK;
}

status_t generator_step(context_t *ctx, generator_t *generator, int64_t *out_token)
{
    if (generator == NULL) return context_null(ctx, "generator_step", "generator");
    if (out_token == NULL) return context_null(ctx, "generator_step", "out_token");
    TRY(check_step(ctx, "generator_step", generator));
    TRY(run_pending(ctx, 1, &generator));
    return choose(ctx, generator, out_token);
}

status_t generator_step_all(context_t *ctx, int n, generator_t *const *generators,
                            int64_t *out_tokens)
{
    if (generators == NULL) return context_null(ctx, "generator_step_all", "generators");
    if (out_tokens == NULL) return context_null(ctx, "generator_step_all", "out_tokens");
    REQUIRE(ctx, n >= 1, "generator_step_all: %d generators, at least one is needed", n);
    for (int i = 0; i < n; i++) {
        if (generators[i] == NULL) return context_null(ctx, "generator_step_all", "generators");
        TRY(check_step(ctx, "generator_step_all", generators[i]));
        REQUIRE(ctx, generators[i]->runner == generators[0]->runner,
                "generator_step_all: generator %d is over another model", i);
        for (int k = 0; k < i; k++)
            REQUIRE(ctx, generators[k] != generators[i],
                    "generator_step_all: generators %d and %d are the same", k, i);
    }
    for (int i = 0; i < n; i += RUNNER_STEP)
        TRY(run_pending(ctx, n - i < RUNNER_STEP ? n - i : RUNNER_STEP, generators + i));
    for (int i = 0; i < n; i++) TRY(choose(ctx, generators[i], &out_tokens[i]));
    return STATUS_OK;
}

status_t generator_reset(context_t *ctx, generator_t *generator, const sampling_t *sampling)
{
    if (generator == NULL) return context_null(ctx, "generator_reset", "generator");
    if (sampling != NULL) {
        TRY(sampler_check(ctx, sampling));
        generator->sampling = *sampling;
    }
    generator->length = generator->n_told = 0;
    generator->pending = -1;
    generator->stream = (tokenizer_stream_t){.n_bytes = 0};
    return STATUS_OK;
}

const tokenizer_t *generator_tokenizer(const generator_t *generator)
{
    return generator != NULL ? generator->runner->tokenizer : NULL;
}

status_t generator_text(context_t *ctx, generator_t *generator, text_t *text)
{
    if (generator == NULL) return context_null(ctx, "generator_text", "generator");
    if (text == NULL) return context_null(ctx, "generator_text", "text");
    if (generator->runner->tokenizer == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "generator_text: the file has no tokenizer");
    REQUIRE(ctx, generator->length - generator->n_told <= N_RECENT,
            "generator_text: %lld tokens were chosen since the last call, at most %d are possible",
            (long long)(generator->length - generator->n_told), N_RECENT);
    for (; generator->n_told < generator->length; generator->n_told++)
        TRY(tokenizer_decode(ctx, generator->runner->tokenizer, 1,
                             &generator->recent[generator->n_told % N_RECENT], false,
                             &generator->stream, text));
    return STATUS_OK;
}

status_t generator_prompt(context_t *ctx, generator_t *generator, const char *prompt, bool is_chat)
{
    const tokenizer_options_t options = {.parses_special = is_chat, .adds_ends = !is_chat};
    tensor_t *tokens = NULL;
    const void *data = NULL;
    if (generator == NULL) return context_null(ctx, "generator_prompt", "generator");
    if (prompt == NULL) return context_null(ctx, "generator_prompt", "prompt");
    if (generator->runner->tokenizer == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "generator_prompt: the file has no tokenizer");
    TRY(tokenizer_encode(ctx, generator->runner->tokenizer, prompt, &options, &tokens));
    const int64_t n = tensor_sizes(tokens)[0];
    status_t status = n > 0 ? tensor_data(ctx, tokens, &data)
                            : context_fail(ctx, STATUS_INVALID_ARGUMENT,
                                           "generator_prompt: the text is empty, and the model has "
                                           "no token that begins a text");
    if (status == STATUS_OK) status = generator_feed(ctx, generator, n, data);
    ops_drop(ctx, tokens);
    return status;
}

int64_t generator_length(const generator_t *generator)
{
    return generator != NULL ? generator->length : 0;
}

int64_t generator_capacity(const generator_t *generator)
{
    return generator != NULL ? generator->runner->capacity : 0;
}

int64_t generator_vocabulary(const generator_t *generator)
{
    return generator != NULL ? generator->runner->n_vocabulary : 0;
}

int64_t generator_step_bytes(const generator_t *generator)
{
    return generator != NULL ? generator->runner->step_bytes : 0;
}
