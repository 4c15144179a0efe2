/* Pseudo-random numbers that depend only on a name. C and Python (draw.py) compute the same ones,
 * so tests need no stored weights. */
#ifndef TESSERA_TESTS_DRAWN_H
#define TESSERA_TESTS_DRAWN_H

#include "module/module.h"

/* Element i is shift + scale * d, rounded once to f32, where d in [-1, 1) depends on key and i. */
void drawn_fill(const char *key, double shift, double scale, int64_t n, float *out_elements);

/* Makes a tensor of f32 numbers in [-1, 1). */
tensor_t *drawn_tensor(context_t *ctx, const char *key, int rank, const int64_t *sizes);

/* Makes a tensor of f32 multiples of 1 / 128 in [-1, 1), which depend on the number. */
tensor_t *drawn_ramp(context_t *ctx, int number, int rank, const int64_t *sizes);

/* Fills all weights, depending on their names, as fill in tests/train/values/parity.py does:
 * weights of norms near 1, other vectors near 0, other weights scaled by the number of terms in
 * their sums. */
void drawn_weights(context_t *ctx, module_t *module);

/* Makes s64 integers from 0 to limit - 1. */
tensor_t *drawn_integers(context_t *ctx, const char *key, int64_t limit, int rank,
                         const int64_t *sizes);

#endif
