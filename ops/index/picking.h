/* Operators that pick elements by what the elements are: as op_nonzero (measured.h) their results
 * have sizes that are found when they run. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_INDEX_PICKING_H
#define TESSERA_OPS_INDEX_PICKING_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* The elements where the mask is true, as torch.masked_select.
 *
 * x     any dtype
 * mask  bool     x and mask broadcast
 * out   [n]      in row-major order of what they broadcast to */
status_t op_masked_select(context_t *ctx, const tensor_t *x, const tensor_t *mask, tensor_t **out)
    TESSERA_API(op_masked_select);

/* The slices along *dim where the condition is true, as numpy.compress; dim NULL: of x flattened.
 *
 * x          any dtype
 * condition  bool [m]    m no larger than the dimension: what lies behind is left out
 * out        of x's sizes, along dim as many as are true */
status_t op_compress(context_t *ctx, const tensor_t *x, const tensor_t *condition,
                     const int64_t *dim, tensor_t **out) TESSERA_API(op_compress);

/* Each different element once, as torch.unique; or each different slice along *dim.
 *
 * x            any dtype; every NaN differs from every other
 * sorted       ascending, slices compared element by element; else in order of first appearance
 * out_values   [n], or x's sizes with n along dim
 * out_indices  s64 [n]                        where each value appears first
 * out_inverse  s64, of x's sizes, or [size]   which value each element of x is
 * out_counts   s64 [n]                        how often each value appears
 *
 * The last three may be NULL. INVALID_ARGUMENT where slices have no elements. */
status_t op_unique(context_t *ctx, const tensor_t *x, const int64_t *dim, bool sorted,
                   tensor_t **out_values, tensor_t **out_indices, tensor_t **out_inverse,
                   tensor_t **out_counts) TESSERA_API(op_unique);

/* Non-maximum suppression, as ONNX NonMaxSuppression; of one image and one class column 2 is what
 * torchvision.ops.nms gives.
 *
 *   iou(a, b) = area of what a and b share / area of what they cover
 *
 * boxes            [N][M][4]    two opposite corners, or (x, y, width, height) if is_center
 * scores           [N][C][M]    the same floating dtype
 * max_per_class    boxes kept of one class in one image; negative: all
 * iou_threshold    a box that has more than this iou with a better one that is kept, goes
 * score_threshold  boxes of this score or less go, and those of NaN; -INFINITY: few do
 * out              s64 [n][3]   image, class and box: by image, then class, then the best score;
 *                               of equal scores the box with the smaller index is better */
status_t op_nms(context_t *ctx, const tensor_t *boxes, const tensor_t *scores,
                int64_t max_per_class, double iou_threshold, double score_threshold, bool is_center,
                tensor_t **out) TESSERA_API(op_nms);

TESSERA_END

#endif
