/* Random ONNX models that calculate with sizes, as exporters write it: Shape, Gather, Slice,
 * arithmetic on sizes, crops, windows, Reshape with -1, Resize, pooling with strides, padding to
 * multiples, Range, and a branch on a size. Any bytes are such a model, of one input x [N,3,H,W];
 * some of its sizes may be too small for it. tests/python/shape_programs.py is its sister in
 * Python, whose models are compared with ONNX's reference. */
#ifndef TESSERA_TESTS_RANDOM_SIZES_H
#define TESSERA_TESTS_RANDOM_SIZES_H

#include <stddef.h>
#include <stdint.h>

#ifdef TESSERA_HAVE_ONNX

enum { RANDOM_SIZES_RUNS = 6 };

/* Sizes of x to run the model of these bytes at. */
void random_sizes_draw(const uint8_t *bytes, size_t n_bytes,
                       int64_t out_sizes[RANDOM_SIZES_RUNS][4]);

/* The model, which the caller frees: x has these sizes, or with NULL the names N, H and W. */
uint8_t *random_sizes_make(const uint8_t *bytes, size_t n_bytes, const int64_t *sizes,
                           size_t *out_n_packed);

#endif
#endif
