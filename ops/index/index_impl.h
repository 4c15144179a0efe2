/* What the operators that take an index tensor share: its elements as places in x, and elements
 * that are put at places. */
#ifndef TESSERA_OPS_INDEX_INDEX_IMPL_H
#define TESSERA_OPS_INDEX_INDEX_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/index/indexing.h"

/* A tensor of rank 0 is taken as one of one dimension of size 1, as PyTorch does. */
typedef struct index_shape {
    int rank;
    int64_t sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK]; /* row-major, in elements */
} index_shape_t;
index_shape_t index_shape(const tensor_info_t *info);

/* For `infer`: indices are s32 or s64. */
status_t index_check_dtype(context_t *ctx, const char *op, const tensor_info_t *index);
/* For `infer`: the index has the rank of x, and is nowhere longer than x but along dim. */
status_t index_check_sizes(context_t *ctx, const char *op, const tensor_info_t *x,
                           const tensor_info_t *index, int dim);

/* Where the indices of an operator point: `depth` of them, the index's last dimension, stand for
 * the dimensions of x from `first` on, and give one place. `depth` 0: each stands alone for
 * dimension `first`, and is a place. */
typedef struct index_target {
    const tensor_info_t *x, *index;
    int first, depth;
} index_target_t;

/* Row-major place in those dimensions for each of the n places, or INVALID_ARGUMENT that names the
 * first index out of range. */
status_t index_resolve(context_t *ctx, const char *op, const index_target_t *target,
                       const void *bytes, int64_t n, int64_t *out_places);

/* Elements src[0 .. n) are put at dst[places[i * place_step] * step + i * next], one after the
 * other. */
typedef struct index_put {
    int64_t n, place_step, step, next;
    const int64_t *places;
    const void *src;
    void *dst;
} index_put_t;
typedef void (*index_put_run_t)(const index_put_t *put);

/* The loop for a reduction: NULL for a reduction of bool. bf16 and f16 are reduced in f32. */
index_put_run_t index_put_find(dtype_t dtype, scatter_reduction_t reduction);

/* What scatter and scatter_nd share: x, index, src; x is copied, src is put into the copy. */
extern const char *const index_reduction_names[];
enum { SCATTER_X, SCATTER_INDEX, SCATTER_SRC };

status_t index_prepare_scatter(const op_call_t *call, prepared_t *prepared,
                               scatter_reduction_t reduction, int64_t n_places);

/* Where one run of a scatter puts what: `dst` and `src` have elements of `dtype`. */
typedef struct index_buffers {
    int64_t *places;
    dtype_t dtype;
    const char *src;
    char *dst;
    index_put_run_t put;
} index_buffers_t;
/* Resolves the index, then copies x. Nothing is written before all indices are in range. */
status_t index_begin_scatter(context_t *ctx, const prepared_t *prepared,
                             const index_target_t *target, scatter_reduction_t reduction,
                             int64_t n_places, void *const *in, void *out, void *scratch,
                             index_buffers_t *out_buffers);
/* Rounds what was reduced in f32. */
void index_end_scatter(const prepared_t *prepared, const index_buffers_t *buffers, void *out);

/* For specifications: `value` combined with `update`, as elements of the dtype. */
double index_combine(dtype_t dtype, scatter_reduction_t reduction, double value, double update);

#endif
