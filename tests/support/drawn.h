/* Pseudo-random numbers determined by a name, the same in C and Python (draw.py). They replace
 * trained weights. */
#ifndef TESSERA_TESTS_DRAWN_H
#define TESSERA_TESTS_DRAWN_H

#include "module/module.h"

/* Element i is shift + scale * d, rounded once to f32. d in [-1, 1) depends only on the key and
 * i. */
void drawn_fill(const char *key, double shift, double scale, int64_t n, float *out_elements);

/* Fills weights by their names, like fill in tests/train/parity.py: scaled by the length of their
 * sums; norms near 1, biases near 0. */
void drawn_weights(context_t *ctx, module_t *module);

/* Makes s64 integers from 0 to limit - 1. */
tensor_t *drawn_integers(context_t *ctx, const char *key, int64_t limit, int rank,
                         const int64_t *sizes);

#endif
