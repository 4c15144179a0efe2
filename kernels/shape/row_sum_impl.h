/* Weighted sums of rows along one dimension: [outer][n_from][inner] becomes [outer][n_to][inner].
 *
 *   to[o][i][j] = sum over t in [starts[i], starts[i + 1]) of
 *                 taps[t].weight * from[o][taps[t].index][j]
 *
 * Resize and the gradients of resize, pad and slice are such sums. One thread sums all taps of an
 * element, in order, so results do not depend on the number of threads.
 *
 * The folder kernels/shape contains the loops of ops/shape that compute; operators that only
 * copy have none. */
#ifndef TESSERA_KERNELS_SHAPE_ROW_SUM_IMPL_H
#define TESSERA_KERNELS_SHAPE_ROW_SUM_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef struct row_sum_tap {
    int64_t index;
    double weight;
} row_sum_tap_t;

typedef struct row_sum {
    int64_t outer, n_from, n_to, inner;
    const int64_t *starts; /* [n_to + 1]; NULL: each row has n_taps */
    int64_t n_taps;
    const row_sum_tap_t *taps;
    bool is_wide; /* elements are double; otherwise float */
    const void *from;
    void *to;
} row_sum_t;

void row_sum_run(const row_sum_t *sum, isa_t isa, int n_threads);

/* Computes rows [first, last) of the result, which has outer * n_to rows. */
typedef void row_sum_rows_t(const row_sum_t *sum, int64_t first, int64_t last);
ISA_EXTERN(row_sum_rows_t, row_sum);

#endif
