/* Our own elementwise kernels, for operands that broadcast to the result. Operands can have any
 * strides, or blocks of one dimension.
 *
 * Each dimension of the result is a loop. A blocked dimension is two loops: over its blocks, and
 * over the lanes of a block. Each operand has a step in each loop, 0 if the operand broadcasts.
 * Neighbouring loops are merged if the steps of all operands allow it. If all operands have the
 * same format, a single loop is left. The innermost one or two loops are cut into pieces, which are
 * divided among the threads. Loops of kernels/elementwise compute a piece. */
#ifndef TESSERA_OPS_ELEMENTWISE_BROADCAST_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_BROADCAST_IMPL_H

#include "dispatch/prepared_impl.h"
#include "kernels/elementwise/rows_impl.h"

#define BROADCAST_LOOPS (TENSOR_MAX_RANK + 1)

typedef struct broadcast_loop {
    int64_t size, step[ELEMENTWISE_OPERANDS], out;
} broadcast_loop_t;

/* The plan of a call; the first member of a kernel's state. The caller sets the fields up to beta;
 * broadcast_prepare sets the others. */
typedef struct broadcast {
    elementwise_loop_t *loop;
    dtype_t in_dtype[ELEMENTWISE_OPERANDS]; /* dtypes that `loop` reads; others are cast */
    dtype_t out_dtype;                      /* dtype that `loop` writes */
    bool keeps_zero;                        /* the function of zeros is zero */
    double alpha, beta;                     /* parameters of the function, if it has any */
    int n;                                  /* number of operands */
    int n_outer;                            /* number of loops outside of `rows` and `inner` */
    int64_t n_pieces;
    broadcast_loop_t loops[BROADCAST_LOOPS], rows, inner;
    int64_t piece_rows, piece_columns;
    size_t n_rows[ELEMENTWISE_OPERANDS]; /* rows of an operand that is copied with padding */
    size_t row_bytes[ELEMENTWISE_OPERANDS], padded_row_bytes[ELEMENTWISE_OPERANDS];
    int64_t n_elements; /* elements of the result, including padding */
    bool is_direct;     /* the loop can read and write the tensors without buffers */
    bool dirties_padding;
} broadcast_t;

/* The dtype that two operands are promoted to, like torch.result_type: tensors with dimensions have
 * priority over 0-dim tensors, which have priority over numbers. DTYPE_NONE if no dtype fits
 * both. */
dtype_t broadcast_dtype(const tensor_info_t *a, const tensor_info_t *b);

/* Finds the shape that all operands of a call broadcast to. Returns false if there is none. */
bool broadcast_infer(context_t *ctx, const op_call_t *call, int *out_rank, int64_t *out_sizes);

/* Chooses the formats of operands and result, or declines the call. */
status_t broadcast_prepare(const op_call_t *call, prepared_t *prepared, broadcast_t *plan);

/* Both compute the result piece by piece. broadcast_run is a kernel's `run`. broadcast_run_by uses
 * `loop` instead of the plan's loop. */
status_t broadcast_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                       void *const *out, void *scratch);
void broadcast_run_by(context_t *ctx, const prepared_t *prepared, elementwise_loop_t *loop,
                      void *const *in, void *const *out, void *scratch);

#endif
