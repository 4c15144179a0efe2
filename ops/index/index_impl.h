/* Functions that convert indices to element numbers, and write elements there. */
#ifndef TESSERA_OPS_INDEX_INDEX_IMPL_H
#define TESSERA_OPS_INDEX_INDEX_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/index/indexing.h"

/* The sizes of a tensor. Rank 0 becomes rank 1 with size 1, as in PyTorch. */
typedef struct index_shape {
    int rank;
    int64_t sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK]; /* row-major, in elements */
} index_shape_t;
index_shape_t index_shape(const tensor_info_t *info);

/* For `infer`: fails unless the index is s32 or s64. */
status_t index_check_dtype(context_t *ctx, const char *op, const tensor_info_t *index);
/* For `infer`: fails unless the index has the rank of x and, except along dim, is not longer than
 * x. */
status_t index_check_sizes(context_t *ctx, const char *op, const tensor_info_t *x,
                           const tensor_info_t *index, int dim);

/* The dimensions of x that indices refer to. With depth > 0, the last dimension of the index tensor
 * holds tuples of `depth` indices, for dimensions `first` to first + depth - 1 of x. With depth 0,
 * each index is for dimension `first`. */
typedef struct index_target {
    const tensor_info_t *x, *index;
    int first, depth;
} index_target_t;

/* Converts n indices or tuples to element numbers: row-major positions in the target dimensions.
 * Fails with INVALID_ARGUMENT at the first index that is out of range. */
status_t index_resolve(context_t *ctx, const char *op, const index_target_t *target,
                       const void *bytes, int64_t n, int64_t *out_places);

/* Writes src[i], or its reduction with the old element, to dst[places[i * place_step] * step + i *
 * next], for i = 0 to n - 1 in order. */
typedef struct index_put {
    int64_t n, place_step, step, next;
    const int64_t *places;
    const void *src;
    void *dst;
} index_put_t;
typedef void (*index_put_run_t)(const index_put_t *put);

/* The loop for a reduction, or NULL: bool supports SCATTER_NONE only. bf16 and f16 are reduced in
 * f32. */
index_put_run_t index_put_find(dtype_t dtype, scatter_reduction_t reduction);

/* Shared by scatter and scatter_nd, whose kernels copy x, then write src to the copy. */
extern const char *const index_reduction_names[];
enum { SCATTER_X, SCATTER_INDEX, SCATTER_SRC };

status_t index_prepare_scatter(const op_call_t *call, prepared_t *prepared,
                               scatter_reduction_t reduction, int64_t n_places);

/* The buffers of one run of a scatter kernel. `dst` and `src` have elements of `dtype`. */
typedef struct index_buffers {
    int64_t *places;
    dtype_t dtype;
    const char *src;
    char *dst;
    index_put_run_t put;
} index_buffers_t;
/* Converts the indices, then copies x. Writes nothing if an index is out of range. */
status_t index_begin_scatter(context_t *ctx, const prepared_t *prepared,
                             const index_target_t *target, scatter_reduction_t reduction,
                             int64_t n_places, void *const *in, void *out, void *scratch,
                             index_buffers_t *out_buffers);
/* Rounds results that were reduced in f32. */
void index_end_scatter(const prepared_t *prepared, const index_buffers_t *buffers, void *out);

/* For specifications: combines `value` with `update`, and rounds to the dtype. */
double index_combine(dtype_t dtype, scatter_reduction_t reduction, double value, double update);

#endif
