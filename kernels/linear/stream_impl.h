/* Products of a few rows of x with a large weight. The weight is read once, and memory bandwidth
 * limits the speed:
 *
 *   out[b][o] = bias[o] + sum(i) x[b][i] * weight[o][i]
 *
 * The weight is stored in rows, [outputs][inputs], or in blocks of one vector of outputs, [outputs
 * / lanes][inputs][lanes]. A weight in rows supports at most STREAM_ROWS rows of x: each vector of
 * the weight is multiplied with a vector of each row of x, and lanes are summed at the end. More
 * rows of x need a weight in blocks: each element of x is multiplied with a vector of outputs. A
 * trimmed weight (3 bytes per element, tensor/convert/trim_impl.h) has its own kind of blocks, the
 * same for all instruction sets. */
#ifndef TESSERA_KERNELS_LINEAR_STREAM_IMPL_H
#define TESSERA_KERNELS_LINEAR_STREAM_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/convert/trim_impl.h"

#define STREAM_ROWS 4          /* maximum rows of x for a weight in rows */
#define STREAM_BLOCKED_ROWS 16 /* maximum rows of x for a weight in blocks */

/* Kind of the elements of a weight. */
typedef enum stream_weight {
    STREAM_F32,
    STREAM_BF16,
    STREAM_TRIMMED /* in blocks of TRIM_ROWS outputs */
} stream_weight_t;

typedef struct stream {
    int64_t n_rows, n_outputs, n_inputs;
    const float *x; /* rows x_stride elements apart */
    int64_t x_stride;
    const void *weight;    /* rows or blocks weight_stride elements apart */
    int64_t weight_stride; /* blocks are padded; for trimmed weights, in 32-bit words */
    bool is_blocked;
    stream_weight_t elements;
    const float *bias; /* [n_outputs], or NULL */
    float *out;        /* rows out_stride elements apart */
    int64_t out_stride;
} stream_t;

/* Computes the product on n_threads threads. isa_has(isa) must be true. scratch has stream_scratch
 * bytes. */
void stream_run(const stream_t *stream, isa_t isa, int n_threads, void *scratch);

/* Number of bytes of scratch memory that a product of n_rows rows needs, 64-byte aligned. */
size_t stream_scratch(bool is_blocked, int64_t n_rows, int64_t n_inputs);

/* Loops of one instruction set. `rows` computes outputs [first, last) of a weight in rows. `blocks`
 * computes blocks of outputs [first, last), and reads x from `columns`, [n_inputs][n_rows]. */
typedef struct stream_loops {
    void (*rows)(const stream_t *stream, int64_t first, int64_t last);
    void (*blocks)(const stream_t *stream, const float *columns, int64_t first, int64_t last);
} stream_loops_t;

ISA_EXTERN(const stream_loops_t, stream);

#endif
