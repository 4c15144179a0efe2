/* Random ONNX models: bytes choose operators, what they read and their attributes, so that any
 * bytes are a model that ONNX allows, of one input "x" [N][C][H][W] whose sizes but for the
 * channels are open. */
#ifndef TESSERA_TESTS_RANDOM_MODEL_H
#define TESSERA_TESTS_RANDOM_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef TESSERA_HAVE_ONNX

enum { RANDOM_MODEL_RUNS = 2, RANDOM_MODEL_NUMEL = 16384 };
#define RANDOM_MODEL_SHAKE 1e-5 /* of a second run's numbers, which shows how far errors reach */

/* The model of these bytes, the caller frees it, and sizes of x to run it at, of at most
 * RANDOM_MODEL_NUMEL elements. */
uint8_t *random_model_make(const uint8_t *bytes, size_t n_bytes,
                           int64_t out_sizes[RANDOM_MODEL_RUNS][4], size_t *out_n_packed);

/* Elements of x; shake 0, or RANDOM_MODEL_SHAKE for numbers a little off. */
void random_model_fill(int64_t n, double shake, float *out_elements);

#endif
#endif
