/* tessera bench MODEL.gguf: tokens a second of prompts and of single tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/support/limit.h"
#include "tensor/base/try_impl.h"
#include "tools/bench/bench.h"
#include "tools/support/print.h"
#include "tools/support/stop.h"

#define NAME "bench"
#define ROUNDS 3
#define MAX_SEQUENCES 256
#define READ_BYTES ((size_t)512 << 20)

typedef struct result {
    double prompt_tokens_s, decode_tokens_s, first_token_ms, bandwidth_share;
    double bytes_per_token;
} result_t;

typedef struct sequences {
    int n;
    generator_t *generators[MAX_SEQUENCES];
} sequences_t;

/* Random tokens, the same in each run. */
static int64_t *make_tokens(int64_t n, int64_t n_vocabulary)
{
    uint32_t state = 1;
    int64_t *tokens = calloc((size_t)n, sizeof *tokens);
    for (int64_t i = 0; i < n && tokens != NULL; i++) {
        state = state * 1664525u + 1013904223u;
        tokens[i] = (int64_t)(state >> 8) % n_vocabulary;
    }
    return tokens;
}

/* Feeds the prompts one after the other; only the first one is measured. */
static status_t measure_round(context_t *ctx, const sequences_t *s, const int64_t *tokens,
                              int64_t n_prompt, int64_t n_decode, result_t *best)
{
    int64_t chosen[MAX_SEQUENCES];
    double begin = session_now_ms(), prompt_ms = 0.0;
    for (int i = 0; i < s->n; i++) {
        TRY(generator_reset(ctx, s->generators[i], NULL));
        TRY(generator_feed(ctx, s->generators[i], n_prompt, tokens));
        TRY(generator_step(ctx, s->generators[i], &chosen[i]));
        if (i == 0) prompt_ms = session_now_ms() - begin;
    }
    begin = session_now_ms();
    for (int64_t i = 0; i < n_decode; i++)
        TRY(generator_step_all(ctx, s->n, s->generators, chosen));
    const double decode_ms = session_now_ms() - begin;
    best->prompt_tokens_s = fmax(best->prompt_tokens_s, 1e3 * (double)n_prompt / prompt_ms);
    best->decode_tokens_s = fmax(best->decode_tokens_s,
                                 1e3 * (double)s->n * (double)n_decode / decode_ms);
    best->first_token_ms = fmin(best->first_token_ms, prompt_ms);
    return STATUS_OK;
}

/* Reads memory that is larger than the caches, and returns GB/s of the best of three times. */
static double measure_bandwidth(int n_threads)
{
    float *memory = limit_make(READ_BYTES, true, n_threads);
    double best = NAN;
    for (int i = 0; i < ROUNDS && memory != NULL; i++)
        best = fmax(best, limit_read(memory, READ_BYTES, n_threads));
    if (memory != NULL) limit_free(memory, READ_BYTES);
    return best;
}

static status_t measure(context_t *ctx, const sequences_t *sequences, int64_t n_prompt,
                        int64_t n_decode, result_t *out_result)
{
    int64_t *tokens = make_tokens(n_prompt, generator_vocabulary(sequences->generators[0]));
    *out_result = (result_t){.first_token_ms = INFINITY};
    if (tokens == NULL) return STATUS_OUT_OF_MEMORY;
    status_t status = STATUS_OK;
    for (int i = 0; i <= ROUNDS && status == STATUS_OK; i++) {
        if (i == 1) *out_result = (result_t){.first_token_ms = INFINITY}; /* round 0 warms up */
        status = measure_round(ctx, sequences, tokens, n_prompt, n_decode, out_result);
    }
    free(tokens);
    return status;
}

static void print_result(const char *spec, const result_t *r, double peak_mb, bool as_json)
{
    if (as_json)
        print("{\"model\":\"%s\",\"prompt_tokens_s\":%.2f,\"decode_tokens_s\":%.2f,"
              "\"bytes_per_token\":%.0f,\"bandwidth_share\":%.3f,\"first_token_ms\":%.2f,"
              "\"peak_rss_mb\":%.1f}\n",
              spec, r->prompt_tokens_s, r->decode_tokens_s, r->bytes_per_token, r->bandwidth_share,
              r->first_token_ms, peak_mb);
    else
        print("prompt %.1f tokens/s, first token after %.1f ms\ndecode %.1f tokens/s, %.1f MB of "
              "weights for each token, %.0f %% of the bandwidth\npeak memory %.1f MB\n",
              r->prompt_tokens_s, r->first_token_ms, r->decode_tokens_s, r->bytes_per_token / 1e6,
              1e2 * r->bandwidth_share, peak_mb);
}

static status_t open_sequences(context_t *ctx, const char *spec,
                               const bench_generate_options_t *options, sequences_t *s)
{
    const generator_options_t generating = {.capacity = options->n_prompt + options->n_decode + 1,
                                            .n_sequences = (int)options->n_sequences};
    s->n = (int)options->n_sequences;
    TRY(generator_create(ctx, spec, &generating, &s->generators[0]));
    for (int i = 1; i < s->n; i++)
        TRY(generator_add(ctx, s->generators[0], NULL, &s->generators[i]));
    return STATUS_OK;
}

int bench_generate(const char *spec, const bench_generate_options_t *options)
{
    const context_options_t context = {.n_threads = (int)options->n_threads};
    context_t *ctx = NULL;
    sequences_t s = {.n = 0};
    result_t result = {.first_token_ms = 0};
    if (stop_create(&context, &ctx) != STATUS_OK) {
        print_error("tessera " NAME ": %s\n", context_error(NULL));
        return EXIT_FAILED;
    }
    status_t status = open_sequences(ctx, spec, options, &s);
    if (status == STATUS_OK)
        status = measure(ctx, &s, options->n_prompt, options->n_decode, &result);
    const double peak_mb = bench_peak_mb(); /* before the memory that is read */
    result.bytes_per_token = (double)generator_step_bytes(s.generators[0]) / s.n;
    result.bandwidth_share = result.bytes_per_token * result.decode_tokens_s * 1e-9 /
                             measure_bandwidth(context_threads(ctx));
    const bool is_done = session_check(NAME, ctx, status);
    if (is_done) print_result(spec, &result, peak_mb, options->as_json);
    for (int i = 0; i < s.n; i++) generator_destroy(s.generators[i]);
    stop_destroy(ctx);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
