/* Several sequences over one model: they choose the tokens that each chooses alone. */
#include "tests/support/support.h"

#include <stdio.h>

#include "io/generate/generator.h"
#include "tensor/counters.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/"
#define SMOLLM2 TESSERA_SOURCE_DIR "/build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

#define N_STEPS 24

/* The tokens that a generator chooses alone after a prompt of n tokens. */
static void run_alone(context_t *ctx, generator_t *g, int64_t n, const int64_t *prompt,
                      int64_t *out_tokens)
{
    CHECK_OK(ctx, generator_reset(ctx, g, NULL));
    CHECK_OK(ctx, generator_feed(ctx, g, n, prompt));
    for (int i = 0; i < N_STEPS; i++) CHECK_OK(ctx, generator_step(ctx, g, &out_tokens[i]));
}

/* Sequence i has a prompt of 1 + 7 i tokens, joins at step 2 i, and leaves after N_STEPS tokens.
 * Then another one gets its slot. */
static void check_sequences(context_t *ctx, const char *path, int n_sequences)
{
    const generator_options_t options = {.capacity = 160, .n_sequences = n_sequences};
    const sampling_t random = {.temperature = 1.5, .seed = 5};
    int64_t prompts[8][64], wanted[8][N_STEPS], given[8][N_STEPS] = {{0}}, tokens[8];
    generator_t *all[8] = {NULL}, *first = NULL;
    int n_made[8] = {0}, n_left = 8, n_alive = 0;
    counters_t counters;
    CHECK_OK(ctx, generator_create(ctx, path, &options, &first));
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 64; k++) prompts[i][k] = (11 * i + 5 * k) % 61;
        if (i == 5) CHECK_OK(ctx, generator_reset(ctx, first, &random));
        run_alone(ctx, first, 1 + 7 * i, prompts[i], wanted[i]);
    }
    generator_t *parked = NULL; /* the model stays while `first` leaves its slot */
    CHECK_OK(ctx, generator_add(ctx, first, NULL, &parked));
    generator_destroy(first);
    counters_reset(ctx);
    for (int step = 0; n_left > 0; step++) {
        generator_t *members[8];
        int numbers[8], n = 0;
        for (int i = 0; i < 8; i++) {
            if (all[i] == NULL && n_made[i] == 0 && step >= 2 * i && n_alive < n_sequences - 1) {
                const sampling_t greedy = {.temperature = 0};
                CHECK_OK(ctx, generator_add(ctx, parked, i < 5 ? &greedy : &random, &all[i]));
                CHECK_OK(ctx, generator_feed(ctx, all[i], 1 + 7 * i, prompts[i]));
                n_alive++;
            }
            if (all[i] != NULL) numbers[n] = i, members[n++] = all[i];
        }
        CHECK_OK(ctx, generator_step_all(ctx, n, members, tokens));
        for (int m = 0; m < n; m++) {
            const int i = numbers[m];
            given[i][n_made[i]++] = tokens[m];
            if (n_made[i] < N_STEPS) continue;
            generator_destroy(all[i]);
            all[i] = NULL;
            n_alive--, n_left--;
        }
    }
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < N_STEPS; k++)
            if (given[i][k] != wanted[i][k])
                fail_msg("sequence %d of up to %d: token %d is %d, alone %d", i, n_sequences - 1, k,
                         (int)given[i][k], (int)wanted[i][k]);
    counters_read(ctx, &counters);
    assert_int_equal(counters.plans_built, 0);
    assert_int_equal(counters_copies(&counters), 0);
    generator_destroy(parked);
}

static void sequences_that_join_and_leave_are_as_alone(void **state)
{
    context_t *ctx = fixture_context(state);
    check_sequences(ctx, FOLDER "decoder_llama.gguf", 3);
    check_sequences(ctx, FOLDER "decoder_qwen3.gguf", 6);
    check_sequences(ctx, FOLDER "decoder_qwen2.gguf", 9);
    FILE *file = fopen(SMOLLM2, "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    check_sequences(ctx, SMOLLM2, 5);
}

/* More sequences than a run has rows. */
static void many_sequences_run_in_groups(void **state)
{
    context_t *ctx = fixture_context(state);
    const generator_options_t options = {.capacity = 16, .n_sequences = 19};
    generator_t *all[19] = {NULL}, *one = NULL;
    int64_t tokens[19], prompt[2] = {0};
    CHECK_OK(ctx, generator_create(ctx, FOLDER "decoder_llama.gguf", &options, &all[0]));
    for (int i = 0; i < 19; i++) {
        if (i > 0) CHECK_OK(ctx, generator_add(ctx, all[0], NULL, &all[i]));
        prompt[1] = i;
        CHECK_OK(ctx, generator_feed(ctx, all[i], 2, prompt));
    }
    CHECK_FAILS(ctx, generator_add(ctx, all[0], NULL, &one), STATUS_INVALID_ARGUMENT,
                "generator_add: there are 19 generators already, which is n_sequences");
    for (int i = 0; i < 5; i++) CHECK_OK(ctx, generator_step_all(ctx, 19, all, tokens));
    CHECK_OK(ctx, generator_create(ctx, FOLDER "decoder_llama.gguf", NULL, &one));
    for (int i = 0; i < 19; i++) {
        int64_t token = -1;
        CHECK_OK(ctx, generator_reset(ctx, one, NULL));
        prompt[1] = i;
        CHECK_OK(ctx, generator_feed(ctx, one, 2, prompt));
        for (int k = 0; k < 5; k++) CHECK_OK(ctx, generator_step(ctx, one, &token));
        assert_int_equal(token, tokens[i]);
    }
    generator_t *wrong[] = {all[0], one, all[0]};
    CHECK_FAILS(ctx, generator_step_all(ctx, 2, wrong, tokens), STATUS_INVALID_ARGUMENT,
                "generator_step_all: generator 1 is over another model");
    wrong[1] = all[1];
    CHECK_FAILS(ctx, generator_step_all(ctx, 3, wrong, tokens), STATUS_INVALID_ARGUMENT,
                "generator_step_all: generators 0 and 2 are the same");
    CHECK_FAILS(ctx, generator_step_all(ctx, 0, wrong, tokens), STATUS_INVALID_ARGUMENT,
                "generator_step_all: 0 generators, at least one is needed");
    CHECK_OK(ctx, generator_reset(ctx, all[1], NULL));
    CHECK_FAILS(ctx, generator_step_all(ctx, 2, wrong, tokens), STATUS_INVALID_ARGUMENT,
                "generator_step_all: the sequence is empty");
    assert_int_equal(generator_length(all[0]), 7); /* a wrong call changes nothing */
    CHECK_FAILS(ctx,
                generator_create(ctx, FOLDER "decoder_llama.gguf",
                                 &(generator_options_t){.n_sequences = 257}, &wrong[0]),
                STATUS_INVALID_ARGUMENT, "decoder_create: 257 slots, 1 to 256 are possible");
    generator_destroy(one);
    for (int i = 0; i < 19; i++) generator_destroy(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sequences_that_join_and_leave_are_as_alone),
        TEST(many_sequences_run_in_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
