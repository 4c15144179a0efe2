/* What the machine can do at most, for the programs of perf/ to compare with. */
#ifndef TESSERA_PERF_LIMIT_H
#define TESSERA_PERF_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes to read, each page of which was written by the thread that reads it: in huge pages where
 * the system gives some. NULL: there is no memory. */
float *limit_make(size_t bytes, bool is_huge, int n_threads);
void limit_free(float *memory, size_t bytes);

/* Reads all of them once on so many threads, four streams on each: GB/s. And the same bytes, half
 * of them copied to the other half: GB/s read and written. */
double limit_read(const float *memory, size_t bytes, int n_threads);
double limit_copy(float *memory, size_t bytes, int n_threads);

/* Multiplies and adds in registers, f32: GFLOP/s of all threads. */
double limit_fma(int n_threads);

#endif
