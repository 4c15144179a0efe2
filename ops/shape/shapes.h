/* Operators that reduce, move or resample elements, and those that change a tensor's layout. The
 * rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_SHAPE_SHAPES_H
#define TESSERA_OPS_SHAPE_SHAPES_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* ---- reductions: n 0 means all dimensions ----
 *
 * keepdim leaves the dimensions that go at size 1. Sums are rounded to the result's dtype once.
 * mean, norm, var and std are of floating dtypes. Integers and bool are summed and multiplied as
 * s64. */

status_t op_mean(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_mean);
status_t op_sum(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_sum);
status_t op_prod(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_prod);
/* The largest and the smallest element, of any dtype. A NaN among them is the result.
 * INVALID_ARGUMENT where a dimension that goes has no elements. */
status_t op_amax(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_amax);
status_t op_amin(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out) TESSERA_API(op_amin);
/* Whether an element is not zero, and whether none is: NaN is not zero. bool; u8 of a u8. */
status_t op_any(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_any);
status_t op_all(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out) TESSERA_API(op_all);
/* log(sum(exp(x))), which does not overflow where the result does not. Integers give f32. */
status_t op_logsumexp(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                      tensor_t **out) TESSERA_API(op_logsumexp);
/* sum(|x|^p)^(1/p), as torch.linalg.vector_norm: p 0 counts what is not zero, infinity is the
 * largest |x|, -infinity the smallest. INVALID_ARGUMENT for p < 0 and infinity of no elements. */
status_t op_norm(context_t *ctx, const tensor_t *x, double p, int n, const int64_t *dims,
                 bool keepdim, tensor_t **out) TESSERA_API(op_norm);
/* sum((x - mean)^2) / max(0, N - correction) of N elements, and its root. PyTorch's correction is
 * 1 unless told otherwise. */
status_t op_var(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, int64_t correction,
                bool keepdim, tensor_t **out) TESSERA_API(op_var);
status_t op_std(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, int64_t correction,
                bool keepdim, tensor_t **out) TESSERA_API(op_std);

/* The index of the largest and of the smallest element along *dim, or among all of them, row-major,
 * where dim is NULL: s64. Of equal elements the first; NaN comes before all numbers. Not of bool;
 * INVALID_ARGUMENT where there are no elements. */
status_t op_argmax(context_t *ctx, const tensor_t *x, const int64_t *dim, bool keepdim,
                   tensor_t **out) TESSERA_API(op_argmax);
status_t op_argmin(context_t *ctx, const tensor_t *x, const int64_t *dim, bool keepdim,
                   tensor_t **out) TESSERA_API(op_argmin);

/* The elements along dim in order, and their indices there, s64. NaN is larger than all numbers; of
 * equal elements that with the smaller index comes first. */
status_t op_sort(context_t *ctx, const tensor_t *x, int64_t dim, bool descending,
                 tensor_t **out_values, tensor_t **out_indices) TESSERA_API(op_sort);
/* The k largest or smallest ones, in order as well; not of bool. */
status_t op_topk(context_t *ctx, const tensor_t *x, int64_t k, int64_t dim, bool largest,
                 tensor_t **out_values, tensor_t **out_indices) TESSERA_API(op_topk);

/* Running sums: out[i] = sum(j <= i) x[j] along dim. exclusive leaves x[i] out; reverse adds from
 * the end, those with j >= i. Integers are summed as s64. */
status_t op_cumsum(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_cumsum);
typedef struct cumsum_attrs {
    int64_t dim;
    bool exclusive, reverse;
} cumsum_attrs_t;
status_t op_cumsum_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                         tensor_t **out) TESSERA_API(op_cumsum_attrs);
/* Running products, likewise. */
status_t op_cumprod(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
    TESSERA_API(op_cumprod);
status_t op_cumprod_attrs(context_t *ctx, const tensor_t *x, const cumsum_attrs_t *attrs,
                          tensor_t **out) TESSERA_API(op_cumprod_attrs);

/* ---- shape: views of dense tensors where strides allow it ----
 *
 * A view shares the bytes of a dense tensor: a write to one is seen in the other. What these give
 * of an mkldnn tensor is a snapshot, whatever its format: no write to one reaches the other. Views
 * in graphs share under every policy; graph_run says how. */

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
/* One dimension, elements start, start + step, ... below end; negative ones count from the end. */
status_t op_slice(context_t *ctx, const tensor_t *x, int64_t dim, int64_t start, int64_t end,
                  int64_t step, tensor_t **out) TESSERA_API(op_slice);
/* Pieces of the given sizes along dim; out has room for n. */
status_t op_split(context_t *ctx, const tensor_t *x, int64_t dim, int n, const int64_t *sizes,
                  tensor_t **out) TESSERA_API(op_split);
status_t op_concat(context_t *ctx, int n, const tensor_t *const *tensors, int64_t dim,
                   tensor_t **out) TESSERA_API(op_concat);

/* Elements of x at `index` along dim, as numpy.take and ONNX Gather: the index's shape replaces the
 * dimension. What torch.gather does is op_gather_elements, see indexing.h. */
status_t op_gather(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                   tensor_t **out) TESSERA_API(op_gather);

/* The lower and the upper triangle of the last two dimensions, 0 elsewhere: out[i][j] = x[i][j]
 * where j - i <= diagonal (tril), where j - i >= diagonal (triu). */
status_t op_tril(context_t *ctx, const tensor_t *x, int64_t diagonal, tensor_t **out)
    TESSERA_API(op_tril);
status_t op_triu(context_t *ctx, const tensor_t *x, int64_t diagonal, tensor_t **out)
    TESSERA_API(op_triu);

/* Outside of x: a value, mirrored without the edge, the edge, or from the other side (PyTorch's
 * "replicate" is edge, its "circular" is wrap). */
typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode_t;
/* before and after: one number for each of x's rank dimensions. Negative ones crop first, and what
 * is left is padded: [0,1,2,3] with -1 before and 2 after is [1,2,3,1,2] in mode wrap. */
status_t op_pad(context_t *ctx, const tensor_t *x, const int64_t *before, const int64_t *after,
                pad_mode_t mode, double value, tensor_t **out) TESSERA_API(op_pad);

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode_t;
/* Where output element i samples the input; `scale` is out / in where attrs give none. */
typedef enum resize_coordinates {
    RESIZE_ASYMMETRIC,           /* i / scale */
    RESIZE_HALF_PIXEL,           /* (i + 0.5) / scale - 0.5 */
    RESIZE_ALIGN_CORNERS,        /* i * (in - 1) / (scale * in - 1) */
    RESIZE_PYTORCH_HALF_PIXEL,   /* half pixel, 0 where out is 1 */
    RESIZE_HALF_PIXEL_SYMMETRIC, /* half pixel + in / 2 * (1 - out / (scale * in)) */
    /* (start + i * (end - start) / (out - 1)) * (in - 1): from `starts` to `ends`, of which 0 is
     * the first element and 1 the last; in the middle where out is 1 */
    RESIZE_CROP,
    RESIZE_TF_HALF_PIXEL /* (i + 0.5) / scale */
} resize_coordinates_t;

/* How nearest rounds a place. PREFER_FLOOR and PREFER_CEIL differ at halves only; BY_SCALE is ceil
 * where sizes shrink and floor where they grow, as ONNX before opset 11. */
typedef enum resize_rounding {
    RESIZE_FLOOR,
    RESIZE_CEIL,
    RESIZE_PREFER_FLOOR,
    RESIZE_PREFER_CEIL,
    RESIZE_BY_SCALE
} resize_rounding_t;

typedef struct resize_attrs {
    ints_t sizes;             /* of the last dimensions */
    int mode;                 /* resize_mode_t */
    int coordinates;          /* resize_coordinates_t */
    floats_t scales;          /* none: out / in; else one for each size */
    double cubic_coefficient; /* PyTorch's is -0.75; 0 is 0, with attrs NULL -0.75 */
    bool exclude_outside;     /* cubic: what lies outside is left out, else it is the edge */
    floats_t starts, ends;    /* of RESIZE_CROP: one for each size; else none */
    bool antialias;           /* linear and cubic: where sizes shrink, the filter is as many times
                                 wider, as ONNX Resize; exclude_outside is for both then */
    int rounding;             /* nearest: resize_rounding_t */
    bool as_onnx;             /* places are computed as ONNX Runtime does: in f32, the scale is
                                 rounded to f32 and divided by; else as PyTorch */
} resize_attrs_t;

/* Resizes the last n dimensions to `sizes`, one after the other. Nearest takes the element at the
 * rounded place; linear weighs two neighbours, cubic four, as torch.nn.functional.interpolate.
 * Where an input size is 0, the output size must be 0, too. */
status_t op_resize(context_t *ctx, const tensor_t *x, int n, const int64_t *sizes,
                   resize_mode_t mode, resize_coordinates_t coordinates, tensor_t **out)
    TESSERA_API(op_resize);
status_t op_resize_attrs(context_t *ctx, const tensor_t *x, const resize_attrs_t *attrs,
                         tensor_t **out) TESSERA_API(op_resize_attrs);

typedef enum roi_align_mode { ROI_ALIGN_MEAN, ROI_ALIGN_MAX } roi_align_mode_t;

typedef struct roi_align_attrs {
    int64_t output_size[2];
    double spatial_scale;   /* pixels of x for one of what the boxes count; 0: 1 */
    int64_t sampling_ratio; /* samples along a side of a bin; 0: as many as it has pixels */
    bool aligned;           /* corners are those of pixels, else boxes lie half a pixel lower */
    int mode;               /* roi_align_mode_t */
} roi_align_attrs_t;

/* Boxes of images, each resampled to output_size, as torchvision.ops.roi_align and ONNX RoiAlign.
 *
 * x       [N][C][H][W]
 * boxes   [R][4]        (x1, y1, x2, y2), of x's dtype
 * images  [R]           s64 or s32: the image of each box
 * attrs   NULL means one bin, all pixels, not aligned, their mean
 * out     [R][C][P][Q]  dense. ROI_ALIGN_MEAN: of a bin's samples, which lie between pixels; MAX,
 * as ONNX has it: the largest of the pixels around them, times their weights
 *
 * INVALID_ARGUMENT  no image of x; a box that is not finite, or of more samples than 65536 a side
 */
status_t op_roi_align(context_t *ctx, const tensor_t *x, const tensor_t *boxes,
                      const tensor_t *images, const roi_align_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_roi_align);

typedef enum grid_mode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC } grid_mode_t;
typedef enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION } grid_padding_t;

/* Images and volumes read at places that a grid says, as torch.nn.functional.grid_sample:
 *
 * x     [N][C][H][W]   or [N][C][D][H][W]; floating
 * grid  [N][P][Q][2]   or [N][O][P][Q][3]; the same dtype. A place is (x, y) or (x, y, z): -1 the
 *                      first pixel, 1 the last, their centres with align_corners, else their edges
 * out   [N][C][P][Q]   or [N][C][O][P][Q]
 *
 * Outside of x are zeros, the pixel at the border, or the mirrored image; a place that is NaN is
 * outside, and 0. Cubic is for images. */
status_t op_grid_sample(context_t *ctx, const tensor_t *x, const tensor_t *grid, grid_mode_t mode,
                        grid_padding_t padding, bool align_corners, tensor_t **out)
    TESSERA_API(op_grid_sample);

/* ---- the transitions as operators of graphs; imperative code calls to_mkldnn and to_dense ---- */

/* Attributes of the operator `reorder`: ATTR_FORMAT. */
typedef struct reorder_attrs {
    format_t format;
} reorder_attrs_t;

status_t op_to_mkldnn(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_to_mkldnn);
status_t op_to_dense(context_t *ctx, const tensor_t *x, tensor_t **out) TESSERA_API(op_to_dense);
status_t op_reorder(context_t *ctx, const tensor_t *x, const char *format, tensor_t **out)
    TESSERA_API(op_reorder);

TESSERA_END

#endif
