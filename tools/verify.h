/* Checking operators while a model runs: random elements of every output, by the specification. */
#ifndef TESSERA_TOOLS_VERIFY_H
#define TESSERA_TOOLS_VERIFY_H

#include "tools/mode.h"

typedef struct verify_result {
    int n_operators;
    int n_failed;
    double largest; /* error as a multiple of what rounding explains: right is at most 1 */
    char where[512];
} verify_result_t;

/* Runs the model once more with every operator's outputs checked at n_elements random elements.
 * Eager modes run as they are; graph and frozen have the optimised graph of their plan interpreted,
 * which takes the same kernels and formats through dispatch. Failing operators are told on
 * stderr. */
status_t verify_run(runner_t *runner, int64_t n_elements, uint64_t seed,
                    verify_result_t *out_result);

#endif
