/* Operators on images: resizing, sampling, boxes. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_VISION_VISION_H
#define TESSERA_OPS_VISION_VISION_H

#include "dispatch/dispatch.h"

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode_t;
/* Position in the input of output element i. scale is out / in, unless the attributes set it. */
typedef enum resize_coordinates {
    RESIZE_ASYMMETRIC,           /* i / scale */
    RESIZE_HALF_PIXEL,           /* (i + 0.5) / scale - 0.5 */
    RESIZE_ALIGN_CORNERS,        /* i * (in - 1) / (scale * in - 1) */
    RESIZE_PYTORCH_HALF_PIXEL,   /* as RESIZE_HALF_PIXEL, but 0 if out is 1 */
    RESIZE_HALF_PIXEL_SYMMETRIC, /* RESIZE_HALF_PIXEL + in / 2 * (1 - out / (scale * in)) */
    /* (start + i * (end - start) / (out - 1)) * (in - 1), where `starts` and `ends` are 0 for the
     * first element and 1 for the last; if out is 1, the middle of the range */
    RESIZE_CROP,
    RESIZE_TF_HALF_PIXEL /* (i + 0.5) / scale */
} resize_coordinates_t;

/* How RESIZE_NEAREST rounds a position. PREFER_FLOOR and PREFER_CEIL differ only at halves.
 * BY_SCALE, as in ONNX before opset 11, rounds up if the dimension shrinks and down if it grows. */
typedef enum resize_rounding {
    RESIZE_FLOOR,
    RESIZE_CEIL,
    RESIZE_PREFER_FLOOR,
    RESIZE_PREFER_CEIL,
    RESIZE_BY_SCALE
} resize_rounding_t;

typedef struct resize_attrs {
    ints_t sizes;             /* output sizes of the last dimensions */
    int mode;                 /* resize_mode_t */
    int coordinates;          /* resize_coordinates_t */
    floats_t scales;          /* one for each size; none means out / in */
    double cubic_coefficient; /* -0.75 in PyTorch */
    bool exclude_outside;  /* cubic: ignores samples outside of x, instead of repeating the edge */
    floats_t starts, ends; /* RESIZE_CROP: one for each size */
    bool antialias; /* linear, cubic: widens the filter if a dimension shrinks, by the same factor,
                       as ONNX Resize; exclude_outside applies to both then */
    int rounding;   /* nearest: resize_rounding_t */
    bool as_onnx;   /* computes positions like ONNX Runtime, in f32 with the scale rounded to f32;
                       otherwise like PyTorch */
} resize_attrs_t;

/* Resizes the last n dimensions to `sizes`, one after the other. Mode nearest copies the element at
 * the rounded position, linear interpolates between two elements, cubic between four, like
 * torch.nn.functional.interpolate. A dimension of size 0 stays 0. */
status_t op_resize(context_t *ctx, const tensor_t *x, int n, const int64_t *sizes,
                   resize_mode_t mode, resize_coordinates_t coordinates, tensor_t **out)
    TESSERA_API(op_resize);
status_t op_resize_attrs(context_t *ctx, const tensor_t *x, const resize_attrs_t *attrs,
                         tensor_t **out) TESSERA_API(op_resize_attrs);

typedef enum roi_align_mode { ROI_ALIGN_MEAN, ROI_ALIGN_MAX } roi_align_mode_t;

typedef struct roi_align_attrs {
    int64_t output_size[2];
    double spatial_scale;   /* pixels of x per unit of the boxes; 0: 1 */
    int64_t sampling_ratio; /* samples along a side of a bin; 0: one for each pixel of the bin */
    bool aligned;           /* coordinates count pixel corners: subtracts half a pixel */
    int mode;               /* roi_align_mode_t */
} roi_align_attrs_t;

/* Resamples each box of an image to output_size, like torchvision.ops.roi_align and ONNX RoiAlign.
 *
 * x       [N][C][H][W]
 * boxes   [R][4]        (x1, y1, x2, y2), of x's dtype
 * images  [R]           s64 or s32: the image of each box
 * attrs   NULL: one bin, one sample for each pixel, not aligned, ROI_ALIGN_MEAN
 * out     [R][C][P][Q]  dense. A box has P x Q bins. ROI_ALIGN_MEAN averages a bin's interpolated
 *                       samples. ROI_ALIGN_MAX, from ONNX, is the largest pixel times weight
 *
 * INVALID_ARGUMENT  an image index is out of range; a box is not finite, or needs more than 65536
 *                   samples along a side */
status_t op_roi_align(context_t *ctx, const tensor_t *x, const tensor_t *boxes,
                      const tensor_t *images, const roi_align_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_roi_align);

typedef enum grid_mode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC } grid_mode_t;
typedef enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding_t;

/* Samples images or volumes at the positions of a grid, like torch.nn.functional.grid_sample.
 *
 * x     [N][C][H][W]   or [N][C][D][H][W]; floating
 * grid  [N][P][Q][2]   or [N][O][P][Q][3]; the same dtype. A position is (x, y) or (x, y, z). -1 is
 *                      the first pixel and 1 the last: their centres if align_corners, otherwise
 *                      their outer edges
 * out   [N][C][P][Q]   or [N][C][O][P][Q]
 *
 * The padding outside of x is zeros, the nearest edge pixel, or the mirrored image. A NaN position
 * returns 0. GRID_CUBIC is for images only. */
status_t op_grid_sample(context_t *ctx, const tensor_t *x, const tensor_t *grid, grid_mode_t mode,
                        grid_padding_t padding, bool align_corners, tensor_t **out)
    TESSERA_API(op_grid_sample);

/* Non-maximum suppression, like ONNX NonMaxSuppression. For one image and one class, column 2 of
 * the result equals the result of torchvision.ops.nms.
 *
 *   iou(a, b) = area of the intersection of a and b / area of their union
 *
 * boxes            [N][M][4]    two opposite corners, or (x, y, width, height) if is_center
 * scores           [N][C][M]    of the same floating dtype
 * max_per_class    maximum number of boxes for each class of each image; negative: all
 * iou_threshold    drops a box if its iou with a better box of the result exceeds this
 * score_threshold  drops boxes with this score or less, or NaN
 * out              s64 [n][3]   image, class and box, sorted by image, class, and descending score;
 *                               boxes with equal scores by index */
status_t op_nms(context_t *ctx, const tensor_t *boxes, const tensor_t *scores,
                int64_t max_per_class, double iou_threshold, double score_threshold, bool is_center,
                tensor_t **out) TESSERA_API(op_nms);

#endif
