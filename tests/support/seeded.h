/* Tests with random input that a seed reproduces. */
#ifndef TESSERA_TESTS_SEEDED_H
#define TESSERA_TESTS_SEEDED_H

#include "graph/ir/graph.h"

/* Starts the random sequence of this seed. */
void seeded_begin(uint64_t seed);

/* Returns a random number from 0 to n - 1. */
int seeded_below(int n);

/* Checks the seeds from 1 to n_seeds, or the one on the command line: "test_random_nets 17". */
void seeded_arguments(int argc, char **argv);
void seeded_check(context_t *ctx, uint64_t n_seeds, void (*check)(context_t *ctx, uint64_t seed));

/* Fails the test. Prints the check, the context's message, the graph, and the command that repeats
 * it. */
void seeded_fail(context_t *ctx, uint64_t seed, const graph_t *graph, const char *what);

#endif
