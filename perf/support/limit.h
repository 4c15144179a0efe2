/* Measures limits of the machine, for comparison with the other programs in perf/. */
#ifndef TESSERA_PERF_LIMIT_H
#define TESSERA_PERF_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates memory to read, in huge pages if available. The thread that will read a page writes to
 * the page first. NULL if out of memory. */
float *limit_make(size_t bytes, bool is_huge, int n_threads);
void limit_free(float *memory, size_t bytes);

/* limit_read reads all bytes once, with n_threads threads of four streams each, and returns GB/s.
 * limit_copy copies one half of the memory to the other and returns GB/s read plus written. */
double limit_read(const float *memory, size_t bytes, int n_threads);
double limit_copy(float *memory, size_t bytes, int n_threads);

/* Measures the rate of f32 multiply-adds in registers, in GFLOP/s of all threads together. */
double limit_fma(int n_threads);

#endif
