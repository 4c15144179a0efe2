/* Limits of the machine, with which the programs in perf/ compare. */
#ifndef TESSERA_PERF_LIMIT_H
#define TESSERA_PERF_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates bytes to read, in huge pages if available. Each page is first written by the thread
 * that reads it later. Returns NULL if out of memory. */
float *limit_make(size_t bytes, bool is_huge, int n_threads);
void limit_free(float *memory, size_t bytes);

/* limit_read reads all bytes once on n_threads, four streams each; returns GB/s. limit_copy copies
 * one half to the other; returns GB/s read plus written. */
double limit_read(const float *memory, size_t bytes, int n_threads);
double limit_copy(float *memory, size_t bytes, int n_threads);

/* Measures f32 multiply-adds in registers: GFLOP/s of all threads. */
double limit_fma(int n_threads);

#endif
