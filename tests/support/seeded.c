#include "tests/support/support.h"

#include "tests/support/seeded.h"

#include <stdlib.h>

static uint64_t random_state;
static uint64_t only_seed; /* 0: all seeds run */
static const char *program = "?";

void seeded_begin(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
}

int seeded_below(int n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int)((random_state >> 11) % (uint64_t)n);
}

void seeded_arguments(int argc, char **argv)
{
    program = argv[0];
    if (argc > 1) only_seed = strtoull(argv[1], NULL, 10);
}

void seeded_check(context_t *ctx, uint64_t n_seeds, void (*check)(context_t *ctx, uint64_t seed))
{
    if (only_seed != 0) {
        check(ctx, only_seed);
        return;
    }
    for (uint64_t seed = 1; seed <= n_seeds; seed++) check(ctx, seed);
}

void seeded_fail(context_t *ctx, uint64_t seed, const graph_t *graph, const char *what)
{
    text_t text = text_begin(ctx);
    print_message("%s: %s\n", what, context_error(ctx) != NULL ? context_error(ctx) : "");
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &text));
    print_message("%s\nagain: %s %llu\n", text_string(&text), program, (unsigned long long)seed);
    text_clear(&text);
    fail();
}
