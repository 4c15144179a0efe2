/* Operators that view, join, cut and pad tensors. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_SHAPE_SHAPES_H
#define TESSERA_OPS_SHAPE_SHAPES_H

#include "dispatch/dispatch.h"

/* ---- views ----
 *
 * If x is dense and strides can describe the result, the result shares memory with x: a write to
 * one of them changes the other. If x is mkldnn, the result is a snapshot, which later writes to x
 * do not change. In graphs, views always share memory; see graph_run. */

status_t op_reshape(context_t *ctx, const tensor_t *x, int rank, const int64_t *sizes,
                    tensor_t **out) TESSERA_API(op_reshape);
status_t op_flatten(context_t *ctx, const tensor_t *x, int64_t start_dim, int64_t end_dim,
                    tensor_t **out) TESSERA_API(op_flatten);
status_t op_transpose(context_t *ctx, const tensor_t *x, int64_t dim0, int64_t dim1, tensor_t **out)
    TESSERA_API(op_transpose);
status_t op_permute(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_permute);
status_t op_squeeze(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_squeeze);
status_t op_unsqueeze(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, tensor_t **out)
    TESSERA_API(op_unsqueeze);
status_t op_expand(context_t *ctx, const tensor_t *x, int rank, const int64_t *sizes,
                   tensor_t **out) TESSERA_API(op_expand);
/* Elements start, start + step, ... before end, along dim. Negative bounds count from the end. */
status_t op_slice(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t end,
                  int64_t step, tensor_t **out) TESSERA_API(op_slice);
/* Cuts x along dim into n pieces of the given sizes. out has n entries. */
status_t op_split(context_t *ctx, const tensor_t *x, int64_t dim, int n, const int64_t *sizes,
                  tensor_t **out) TESSERA_API(op_split);

/* ---- copies ---- */

status_t op_concat(context_t *ctx, int n, const tensor_t *const *tensors, int64_t dim,
                   tensor_t **out) TESSERA_API(op_concat);

/* The lower and the upper triangle of the last two dimensions, and 0 elsewhere: out[i][j] = x[i][j]
 * if j - i <= diagonal (tril), or if j - i >= diagonal (triu). */
status_t op_tril(context_t *ctx, const tensor_t *x, int64_t diagonal, tensor_t **out)
    TESSERA_API(op_tril);
status_t op_triu(context_t *ctx, const tensor_t *x, int64_t diagonal, tensor_t **out)
    TESSERA_API(op_triu);

/* Values of padding elements, in the order of the enumeration: a constant; x mirrored, without
 * repeating the edge; the edge element; x repeated. PyTorch calls PAD_EDGE "replicate" and PAD_WRAP
 * "circular". */
typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode_t;
/* Pads x; `before` and `after` have one number for each dimension. Negative numbers crop x before
 * the padding: [0,1,2,3] with -1 before and 2 after is [1,2,3,1,2] in mode wrap. */
status_t op_pad(context_t *ctx, const tensor_t *x, const int64_t *before, const int64_t *after,
                pad_mode_t mode, double value, tensor_t **out) TESSERA_API(op_pad);

#endif
