/* Runs a frozen decoder: first the prompt, in parts of fixed numbers of rows, then one row for each
 * token. */
#include "io/generate/generator.h"

#include <string.h>

#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "io/generate/decoder_impl.h"
#include "io/generate/sampler_impl.h"
#include "kernels/random/generator_impl.h"
#include "ops/ops_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

#define N_RECENT 64
#define LONGEST 256 /* largest number of rows of a run */
#define TRACED 3    /* rows of the trace, which tries others, too: few, so that all fit in caches */

/* Runs, each with its own plan: the number of rows, and the least number of tokens for which these
 * rows take less time than several smaller runs. */
static const struct {
    int64_t rows, least;
} parts[] = {{LONGEST, 160}, {64, 33}, {16, 4}, {1, 1}};
#define N_PARTS (int)(sizeof parts / sizeof *parts)

struct generator {
    allocator_t allocator;
    module_t *model;
    sampling_t sampling;
    int64_t capacity, n_vocabulary, step_bytes;
    int64_t length;   /* tokens of the sequence */
    int64_t pending;  /* the last of them if the model has not run it, or -1 */
    tensor_t *logits; /* of the last token that was run, or NULL */
    candidate_t *candidates;
    tokenizer_t *tokenizer; /* NULL: the file has none */
    tokenizer_stream_t stream;
    int64_t n_told;           /* tokens of the sequence whose text generator_text has returned */
    int64_t recent[N_RECENT]; /* token i of the sequence is recent[i % N_RECENT] */
};

enum { TOKENS, POSITIONS, START, LENGTH, ROW, N_INPUTS };

/* ---- creating ---- */

/* Adds the bytes of a module's parameters. */
static status_t add_bytes(context_t *ctx, void *user, const char *path, module_t *module)
{
    int64_t *bytes = user;
    (void)ctx, (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        const tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name) : NULL;
        if (tensor != NULL) *bytes += (int64_t)info_bytes(tensor_info(tensor));
    }
    return STATUS_OK;
}

/* Counts the bytes of the weights that a step reads. A step reads only one row of an embedding. */
static status_t count_bytes(context_t *ctx, module_t *model, int64_t *out_bytes)
{
    const tensor_t *embedding = module_parameter(model, "token_embd.weight");
    *out_bytes = 0;
    TRY(module_walk(ctx, model, add_bytes, out_bytes));
    if (module_parameter(model, "output.weight") != NULL)
        *out_bytes -= (int64_t)info_bytes(tensor_info(embedding));
    return STATUS_OK;
}

static void describe_inputs(int64_t n, tensor_info_t *infos, const tensor_info_t **out_pointers)
{
    infos[TOKENS] = infos[POSITIONS] = info_dense(DTYPE_S64, SHAPE(n));
    infos[START] = infos[LENGTH] = info_dense(DTYPE_S64, 0, NULL);
    infos[ROW] = info_dense(DTYPE_S64, SHAPE(1));
    for (int i = 0; i < N_INPUTS; i++) out_pointers[i] = &infos[i];
}

/* Takes ownership of the model, whose weights are large, on success. */
static status_t freeze_model(context_t *ctx, module_t **model, module_t **out_frozen)
{
    tensor_info_t infos[N_INPUTS];
    const tensor_info_t *pointers[N_INPUTS];
    describe_inputs(TRACED, infos, pointers);
    TRY(graph_trace_for(ctx, *model, "forward", N_INPUTS, pointers));
    return freeze_take(ctx, model, NULL, out_frozen);
}

static status_t build_plans(context_t *ctx, module_t *frozen)
{
    tensor_info_t infos[N_INPUTS];
    const tensor_info_t *pointers[N_INPUTS];
    for (int i = 0; i < N_PARTS; i++) {
        describe_inputs(parts[i].rows, infos, pointers);
        TRY(plan_warm_for(ctx, frozen, "forward", N_INPUTS, pointers));
    }
    return STATUS_OK;
}

static status_t open_model(context_t *ctx, const gguf_t *file, const decoder_options_t *options,
                           generator_t *generator)
{
    module_t *model = NULL;
    TRY(decoder_create(ctx, file, options, &model));
    const tensor_t *embedding = module_parameter(model, "token_embd.weight");
    generator->n_vocabulary = tensor_sizes(embedding)[0];
    generator->capacity = tensor_sizes(module_buffer(model, "rope.cos"))[0] - LONGEST;
    status_t status = count_bytes(ctx, model, &generator->step_bytes);
    if (status == STATUS_OK) status = freeze_model(ctx, &model, &generator->model);
    module_release(model); /* before plans pack weights */
    if (status == STATUS_OK) status = build_plans(ctx, generator->model);
    return status;
}

/* Caches have LONGEST more rows, because a part may end after the sequence. */
static status_t choose_capacity(context_t *ctx, const gguf_t *file, int64_t wanted,
                                int64_t *out_capacity)
{
    decoder_shape_t shape;
    TRY(decoder_read_shape(ctx, file, &(decoder_options_t){.capacity = wanted}, &shape));
    *out_capacity = shape.capacity + LONGEST;
    return STATUS_OK;
}

static status_t fill(context_t *ctx, const char *path, const generator_options_t *options,
                     generator_t *generator)
{
    gguf_t *file = NULL;
    decoder_options_t decoder = {.cache_dtype = options->cache_dtype};
    TRY(gguf_open(ctx, path, &file));
    status_t status = choose_capacity(ctx, file, options->capacity, &decoder.capacity);
    if (status == STATUS_OK && gguf_find_value(file, "tokenizer.ggml.model") != NULL)
        status = tokenizer_create(ctx, file, &generator->tokenizer);
    if (status == STATUS_OK) status = open_model(ctx, file, &decoder, generator);
    gguf_close(file);
    TRY(status);
    return context_get(ctx, (size_t)generator->n_vocabulary * sizeof *generator->candidates,
                       "candidates", &generator->candidates);
}

status_t generator_create(context_t *ctx, const char *path, const generator_options_t *options,
                          generator_t **out_generator)
{
    static const generator_options_t defaults = {.capacity = 0};
    generator_t *generator = NULL;
    if (out_generator == NULL) return context_null(ctx, "generator_create", "out_generator");
    *out_generator = NULL;
    if (path == NULL) return context_null(ctx, "generator_create", "path");
    if (options == NULL) options = &defaults;
    TRY(sampler_check(ctx, &options->sampling));
    TRY(context_get_zeroed(ctx, sizeof *generator, "a generator", &generator));
    generator->allocator = *context_allocator(ctx);
    status_t status = fill(ctx, path, options, generator);
    if (status == STATUS_OK) status = generator_reset(ctx, generator, &options->sampling);
    GIVE(status, out_generator, generator, generator_destroy(generator));
}

void generator_destroy(generator_t *generator)
{
    if (generator == NULL) return;
    const allocator_t allocator = generator->allocator;
    tensor_drop(generator->logits);
    tokenizer_destroy(generator->tokenizer);
    module_release(generator->model);
    allocator_put(&allocator, generator->candidates);
    allocator_put(&allocator, generator);
}

/* ---- running ---- */

static status_t make_inputs(context_t *ctx, int64_t n, int64_t n_rows, const int64_t *tokens,
                            int64_t start, tensor_t **out)
{
    int64_t padded[LONGEST] = {0}, positions[LONGEST];
    const int64_t length = start + n_rows, row = n - 1;
    memcpy(padded, tokens, (size_t)n * sizeof *tokens);
    for (int64_t i = 0; i < n_rows; i++) positions[i] = start + i;
    TRY(tensor_from(ctx, DTYPE_S64, SHAPE(n_rows), padded, &out[TOKENS]));
    TRY(tensor_from(ctx, DTYPE_S64, SHAPE(n_rows), positions, &out[POSITIONS]));
    TRY(tensor_from(ctx, DTYPE_S64, 0, NULL, &start, &out[START]));
    TRY(tensor_from(ctx, DTYPE_S64, 0, NULL, &length, &out[LENGTH]));
    return tensor_from(ctx, DTYPE_S64, SHAPE(1), &row, &out[ROW]);
}

/* Runs n tokens, which begin at token `start` of the sequence, in a plan for n_rows. */
static status_t run_part(context_t *ctx, generator_t *generator, int64_t n, int64_t n_rows,
                         const int64_t *tokens, int64_t start)
{
    tensor_t *in[N_INPUTS] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    status_t status = make_inputs(ctx, n, n_rows, tokens, start, in);
    if (status == STATUS_OK)
        status = module_call_tensors(ctx, generator->model, "forward", N_INPUTS,
                                     (const tensor_t *const *)in, &n_out, out);
    for (int i = 0; i < N_INPUTS; i++) ops_drop(ctx, in[i]);
    TRY(status);
    tensor_drop(generator->logits);
    scope_take(ctx, out[0]); /* it outlives an open scope */
    generator->logits = out[0];
    return STATUS_OK;
}

/* The number of rows in which to run the first of n tokens. */
static int64_t choose_rows(int64_t n)
{
    for (int i = 0; i < N_PARTS; i++)
        if (n >= parts[i].least) return parts[i].rows;
    return 1;
}

static status_t run_tokens(context_t *ctx, generator_t *generator, int64_t n, const int64_t *tokens,
                           int64_t start)
{
    for (int64_t at = 0; at < n;) {
        const int64_t n_rows = choose_rows(n - at), left = n - at < n_rows ? n - at : n_rows;
        TRY(run_part(ctx, generator, left, n_rows, tokens + at, start + at));
        at += left;
    }
    return STATUS_OK;
}

static status_t run_pending(context_t *ctx, generator_t *generator)
{
    if (generator->pending < 0) return STATUS_OK;
    TRY(run_tokens(ctx, generator, 1, &generator->pending, generator->length - 1));
    generator->pending = -1;
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
    if (generator == NULL) return context_null(ctx, "generator_feed", "generator");
    if (tokens == NULL) return context_null(ctx, "generator_feed", "tokens");
    REQUIRE(ctx, n >= 1, "generator_feed: %lld tokens, at least one is needed", (long long)n);
    REQUIRE(ctx, n <= generator->capacity - generator->length,
            "generator_feed: %lld tokens after %lld, the capacity is %lld", (long long)n,
            (long long)generator->length, (long long)generator->capacity);
    for (int64_t i = 0; i < n; i++)
        REQUIRE(ctx, tokens[i] >= 0 && tokens[i] < generator->n_vocabulary,
                "generator_feed: token %lld, the vocabulary has %lld", (long long)tokens[i],
                (long long)generator->n_vocabulary);
    TRY(run_pending(ctx, generator));
    TRY(run_tokens(ctx, generator, n, tokens, generator->length));
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
    TRY(run_pending(ctx, generator));
    TRY(tensor_data(ctx, generator->logits, &data));
    *out_logits = data;
    return STATUS_OK;
}

status_t generator_step(context_t *ctx, generator_t *generator, int64_t *out_token)
{
    const float *logits = NULL;
    if (generator == NULL) return context_null(ctx, "generator_step", "generator");
    if (out_token == NULL) return context_null(ctx, "generator_step", "out_token");
    REQUIRE(ctx, generator->length < generator->capacity,
            "generator_step: the sequence has %lld tokens, which is its capacity",
            (long long)generator->length);
    TRY(generator_logits(ctx, generator, &logits));
    const int64_t n = generator->length < N_RECENT ? generator->length : N_RECENT;
    const double uniform = generator_uniform(generator->sampling.seed, generator->length);
    const int64_t token = sampler_choose(&generator->sampling, generator->n_vocabulary, logits, n,
                                         generator->recent, generator->candidates, uniform);
    remember(generator, 1, &token);
    generator->pending = *out_token = token;
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
    return generator != NULL ? generator->tokenizer : NULL;
}

status_t generator_text(context_t *ctx, generator_t *generator, text_t *text)
{
    if (generator == NULL) return context_null(ctx, "generator_text", "generator");
    if (text == NULL) return context_null(ctx, "generator_text", "text");
    if (generator->tokenizer == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "generator_text: the file has no tokenizer");
    REQUIRE(ctx, generator->length - generator->n_told <= N_RECENT,
            "generator_text: %lld tokens were chosen since the last call, at most %d are possible",
            (long long)(generator->length - generator->n_told), N_RECENT);
    for (; generator->n_told < generator->length; generator->n_told++)
        TRY(tokenizer_decode(ctx, generator->tokenizer, 1,
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
    if (generator->tokenizer == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "generator_prompt: the file has no tokenizer");
    TRY(tokenizer_encode(ctx, generator->tokenizer, prompt, &options, &tokens));
    status_t status = tensor_data(ctx, tokens, &data);
    if (status == STATUS_OK) status = generator_feed(ctx, generator, tensor_sizes(tokens)[0], data);
    ops_drop(ctx, tokens);
    return status;
}

int64_t generator_length(const generator_t *generator)
{
    return generator != NULL ? generator->length : 0;
}

int64_t generator_capacity(const generator_t *generator)
{
    return generator != NULL ? generator->capacity : 0;
}

int64_t generator_vocabulary(const generator_t *generator)
{
    return generator != NULL ? generator->n_vocabulary : 0;
}

int64_t generator_step_bytes(const generator_t *generator)
{
    return generator != NULL ? generator->step_bytes : 0;
}
