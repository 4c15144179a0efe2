/* Products of a few rows with a large weight, which is read once, as fast as memory gives it:
 *
 *   out[b][o] = bias[o] + sum(i) x[b][i] * weight[o][i]
 *
 * The weight lies in rows, [outputs][inputs], or in blocks of outputs as wide as a vector,
 * [outputs / lanes][inputs][lanes]. Rows serve up to STREAM_ROWS rows of x: each element that is
 * loaded is multiplied by one of every row of x, and vectors are summed up at the end. More rows
 * want blocks, where an element of x is multiplied by a whole vector. A trimmed weight lies in
 * blocks of its own, the same for all instruction sets: tensor/trim_impl.h. */
#ifndef TESSERA_KERNELS_LINEAR_STREAM_IMPL_H
#define TESSERA_KERNELS_LINEAR_STREAM_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_impl.h"
#include "tensor/trim_impl.h"

#define STREAM_ROWS 4          /* of x, at most, where the weight lies in rows */
#define STREAM_BLOCKED_ROWS 16 /* where it lies in blocks */

/* The elements of a weight. */
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
    int64_t weight_stride; /* [outputs / lanes] blocks are padded to whole ones; of trimmed ones
                              words */
    bool is_blocked;
    stream_weight_t elements;
    const float *bias; /* [n_outputs], or NULL */
    float *out;        /* rows out_stride elements apart */
    int64_t out_stride;
} stream_t;

/* On this many threads, by an instruction set that isa_has. scratch: see stream_scratch. */
void stream_run(const stream_t *stream, isa_t isa, int n_threads, void *scratch);

/* Bytes that a product of so many rows needs beside, 64-byte aligned. */
size_t stream_scratch(bool is_blocked, int64_t n_rows, int64_t n_inputs);

/* Loops of one instruction set: outputs [first, last), for blocked weights those of blocks [first,
 * last) with `columns` for x: [n_inputs][n_rows]. */
typedef struct stream_loops {
    void (*rows)(const stream_t *stream, int64_t first, int64_t last);
    void (*blocks)(const stream_t *stream, const float *columns, int64_t first, int64_t last);
} stream_loops_t;

ISA_EXTERN(const stream_loops_t, stream);

#endif
