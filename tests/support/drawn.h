/* Numbers that follow from a name: what stands for trained weights, in C and in Python (draw.py).
 */
#ifndef TESSERA_TESTS_DRAWN_H
#define TESSERA_TESTS_DRAWN_H

#include "module/module.h"

/* Element i is shift + scale * d, rounded to f32 once, where d of [-1, 1) follows from the key and
 * i alone. */
void drawn_fill(const char *key, double shift, double scale, int64_t n, float *out_elements);

/* Weights by their names, as fill of tests/train/parity.py: scaled by what they sum up over; norms
 * near 1, biases near 0. */
void drawn_weights(context_t *ctx, module_t *module);

/* Integers s64 from 0 to limit - 1. */
tensor_t *drawn_integers(context_t *ctx, const char *key, int64_t limit, int rank,
                         const int64_t *sizes);

#endif
