/* Random ONNX models: bytes choose operators, their inputs and attributes. Any bytes make a valid
 * model with one input "x" [N][C][H][W], whose sizes are open except C. */
#ifndef TESSERA_TESTS_RANDOM_MODEL_H
#define TESSERA_TESTS_RANDOM_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef TESSERA_HAVE_ONNX

enum { RANDOM_MODEL_RUNS = 2, RANDOM_MODEL_NUMEL = 16384 };
/* Relative change of all numbers before a second run. The change of its results shows how much the
 * model enlarges rounding errors. */
#define RANDOM_MODEL_SHAKE 1e-5

/* Makes the model, which the caller frees, and sizes of x for its runs, at most RANDOM_MODEL_NUMEL
 * elements. */
uint8_t *random_model_make(const uint8_t *bytes, size_t n_bytes,
                           int64_t out_sizes[RANDOM_MODEL_RUNS][4], size_t *out_n_packed);

/* Fills x. shake is 0, or RANDOM_MODEL_SHAKE for the second run. */
void random_model_fill(int64_t n, double shake, float *out_elements);

#endif
#endif
