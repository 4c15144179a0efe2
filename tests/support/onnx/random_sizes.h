/* Random ONNX models that compute with sizes, as exporters write them: Shape, Gather, Slice,
 * arithmetic on sizes, crops, windows, Reshape with -1, Resize, pooling with strides, padding to
 * multiples, Range, and a branch on a size. Any bytes make such a model with one input x [N,3,H,W];
 * some of its sizes may be too small for it. tests/python/shape_programs.py does the same in Python
 * and compares with ONNX's reference. */
#ifndef TESSERA_TESTS_RANDOM_SIZES_H
#define TESSERA_TESTS_RANDOM_SIZES_H

#include <stddef.h>
#include <stdint.h>

#ifdef TESSERA_HAVE_ONNX

enum { RANDOM_SIZES_RUNS = 6 };

/* Chooses sizes of x at which to run the model of these bytes. */
void random_sizes_draw(const uint8_t *bytes, size_t n_bytes,
                       int64_t out_sizes[RANDOM_SIZES_RUNS][4]);

/* Makes the model, which the caller frees. sizes: those of x; NULL: open sizes named N, H and W. */
uint8_t *random_sizes_make(const uint8_t *bytes, size_t n_bytes, const int64_t *sizes,
                           size_t *out_n_packed);

#endif
#endif
