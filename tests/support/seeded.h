/* Tests of what is made at random, which a seed makes again. */
#ifndef TESSERA_TESTS_SEEDED_H
#define TESSERA_TESTS_SEEDED_H

#include "graph/ir/graph.h"

/* Numbers from here on follow from the seed. */
void seeded_begin(uint64_t seed);

/* From 0 to n - 1. */
int seeded_below(int n);

/* Checks the seeds from 1 to n_seeds, or the one that the program was given: "test_random_nets 17".
 */
void seeded_arguments(int argc, char **argv);
void seeded_check(context_t *ctx, uint64_t n_seeds, void (*check)(context_t *ctx, uint64_t seed));

/* Fails the test, and prints what failed, why, the graph, and the command that repeats it. */
void seeded_fail(context_t *ctx, uint64_t seed, const graph_t *graph, const char *what);

#endif
