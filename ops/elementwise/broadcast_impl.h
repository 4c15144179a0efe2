/* Kernels of ours over operands that broadcast to the result: any strides, and blocks of one
 * dimension.
 *
 * The result's dimensions become loops, a blocked one two of them: its blocks, and the lanes of a
 * block. Operands have a step in each, 0 where they broadcast. Loops that walk all tensors alike
 * are merged, so that equal formats and scalars end up as a single loop. The innermost one or two
 * are cut into pieces, which threads share. */
#ifndef TESSERA_OPS_ELEMENTWISE_BROADCAST_IMPL_H
#define TESSERA_OPS_ELEMENTWISE_BROADCAST_IMPL_H

#include "dispatch/prepared_impl.h"

#define BROADCAST_OPERANDS 3
#define BROADCAST_LOOPS (TENSOR_MAX_RANK + 1)

/* Rows of elements, `rows` of `n`; an operand's elements are 0 or 1 apart in a row. Steps are in
 * elements, those of the result are 1. The result may lie where an operand lies, element for
 * element. */
typedef struct broadcast_rows {
    int64_t rows, n;
    const void *in[BROADCAST_OPERANDS];
    int64_t step[BROADCAST_OPERANDS], row_step[BROADCAST_OPERANDS];
    void *out;
    int64_t out_row_step;
    double alpha, beta; /* of the plan */
} broadcast_rows_t;

/* Computes rows in the dtypes of the plan. */
typedef void (*broadcast_compute_t)(const broadcast_rows_t *rows);

typedef struct broadcast_loop {
    int64_t size, step[BROADCAST_OPERANDS], out;
} broadcast_loop_t;

/* How a call is computed; the state of a kernel begins with it. The caller sets the first part,
 * broadcast_prepare the rest. */
typedef struct broadcast {
    broadcast_compute_t compute;
    dtype_t in_dtype[BROADCAST_OPERANDS]; /* what `compute` reads; others are cast */
    dtype_t out_dtype;                    /* and what it gives */
    bool keeps_zero;                      /* of zeros it makes zero */
    double alpha, beta;                   /* parameters of the function, if it has some */
    int n;                                /* operands */
    int n_outer;                          /* loops before the last one or two */
    int64_t n_pieces;
    broadcast_loop_t loops[BROADCAST_LOOPS], rows, inner;
    int64_t piece_rows, piece_columns;
    size_t n_rows[BROADCAST_OPERANDS]; /* of operands that are padded by copy */
    size_t row_bytes[BROADCAST_OPERANDS], padded_row_bytes[BROADCAST_OPERANDS];
    int64_t n_elements; /* of the result, padding included */
    bool is_direct;     /* the dtypes are those that are computed in, and rows have no gaps */
    bool dirties_padding;
} broadcast_t;

/* The dtype that two operands meet in, as torch.result_type: tensors with dimensions stand above
 * 0-dim tensors, and these above numbers. DTYPE_NONE if there is none. */
dtype_t broadcast_dtype(const tensor_info_t *a, const tensor_info_t *b);

/* The shape that all operands of a call broadcast to; false if there is none. */
bool broadcast_infer(context_t *ctx, const op_call_t *call, int *out_rank, int64_t *out_sizes);

/* Settles the formats of operands and result, or declines. */
status_t broadcast_prepare(const op_call_t *call, prepared_t *prepared, broadcast_t *plan);

/* Computes the result piece by piece. The first is the `run` of a kernel; the second takes
 * `compute` in place of the plan's. */
status_t broadcast_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                       void *const *out, void *scratch);
void broadcast_run_by(context_t *ctx, const prepared_t *prepared, broadcast_compute_t compute,
                      void *const *in, void *const *out, void *scratch);

#endif
