/* Resize, Upsample, grids and boxes. A Resize becomes one `resize` with ONNX Runtime's rules. */
#include "io/onnx/node_impl.h"

#include <math.h>
#include <string.h>

#include "ops/vision/resize_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

static const char *const coordinate_names[] = {
    "half_pixel",           "pytorch_half_pixel",   "align_corners",      "asymmetric",
    "half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize", NULL};
static const resize_coordinates_t coordinates_of[] = {
    RESIZE_HALF_PIXEL,           RESIZE_PYTORCH_HALF_PIXEL, RESIZE_ALIGN_CORNERS, RESIZE_ASYMMETRIC,
    RESIZE_HALF_PIXEL_SYMMETRIC, RESIZE_TF_HALF_PIXEL,      RESIZE_CROP};

static const char *const rounding_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                             "ceil", NULL};
static const resize_rounding_t rounding_of[] = {RESIZE_PREFER_FLOOR, RESIZE_PREFER_CEIL,
                                                RESIZE_FLOOR, RESIZE_CEIL};

/* One scale for each dimension; or one scale for all, so that sizes are at most, or at least, those
 * requested. */
typedef enum policy_kind { STRETCH, NOT_LARGER, NOT_SMALLER } policy_kind_t;
static const char *const policy_names[] = {"stretch", "not_larger", "not_smaller", NULL};

typedef struct resize {
    resize_mode_t mode;
    double cubic_coefficient;
    bool excludes_outside, has_antialias;
    resize_coordinates_t coordinates;
    resize_rounding_t rounding;
    int rank;
    int64_t from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK];
    bool has_scales;                                     /* false: scales are to / from */
    double scale[TENSOR_MAX_RANK];                       /* 1 for dimensions that have no scale */
    double start[TENSOR_MAX_RANK], end[TENSOR_MAX_RANK]; /* crop, as fractions; 0 and 1: none */
    double extrapolation;                                /* value outside of x, for crops */
    policy_kind_t policy;                                /* how requested sizes are interpreted */
} resize_t;

/* True if the resize changes nothing in a dimension. */
static bool is_kept(const resize_t *resize, int dim)
{
    /* Equal symbolic integers are equal sizes. */
    return resize->from[dim] == resize->to[dim] && resize->scale[dim] == 1.0 &&
           resize->start[dim] == 0.0 && resize->end[dim] == 1.0;
}

/* ONNX maps the last corner to scale * from - 1, which may be a fraction. PyTorch and ONNX Runtime
 * map it to the last element, which is used for files of PyTorch's exporter. */
static bool sizes_say_corners(const onnx_node_t *node, const resize_t *resize)
{
    const char *producer = node->onnx->model->producer_name;
    return resize->coordinates == RESIZE_ALIGN_CORNERS && producer != NULL &&
           strcmp(producer, "pytorch") == 0;
}

/* Emits a resize that begins at the first changed dimension, but no later than dimension 2. */
static status_t emit_plain(onnx_node_t *node, const resize_t *resize, item_t x, item_t *out)
{
    int first = 0;
    while (first < resize->rank - 1 && first < 2 && is_kept(resize, first)) first++;
    const int n = resize->rank - first;
    onnx_call_t call;
    onnx_call(node, "resize", &call);
    onnx_set_ints(&call, "sizes", n, &resize->to[first]);
    onnx_set_int(&call, "mode", resize->mode);
    onnx_set_int(&call, "coordinates", resize->coordinates);
    onnx_set_int(&call, "as_onnx", true);
    if (resize->has_scales && !sizes_say_corners(node, resize))
        onnx_set_floats(&call, "scales", n, &resize->scale[first]);
    if (resize->coordinates == RESIZE_CROP) {
        onnx_set_floats(&call, "starts", n, &resize->start[first]);
        onnx_set_floats(&call, "ends", n, &resize->end[first]);
    }
    if (resize->mode == RESIZE_NEAREST) onnx_set_int(&call, "rounding", resize->rounding);
    if (resize->mode == RESIZE_CUBIC)
        onnx_set_float(&call, "cubic_coefficient", resize->cubic_coefficient);
    if (resize->mode == RESIZE_CUBIC || resize->has_antialias)
        onnx_set_int(&call, "exclude_outside", resize->excludes_outside);
    if (resize->mode != RESIZE_NEAREST) onnx_set_int(&call, "antialias", resize->has_antialias);
    return onnx_emit(&call, 1, &x, out);
}

/* Rounds to the nearest integer, and clamps to the range of dtypes with 8 bits. */
static status_t round_inside(onnx_node_t *node, dtype_t dtype, item_t x, item_t *out)
{
    TRY(onnx_unary(node, "round", x, out));
    if (dtype != DTYPE_U8 && dtype != DTYPE_S8) return STATUS_OK;
    return onnx_op(node, "clamp",
                   ONNX_ATTRS(SET_FLOAT("min", dtype == DTYPE_U8 ? 0.0 : -128.0),
                              SET_FLOAT("max", dtype == DTYPE_U8 ? 255.0 : 127.0)),
                   1, out, out);
}

/* Integers are interpolated in f64, which keeps the mean of equal numbers exact. As in ONNX
 * Runtime, the fraction of a result is dropped; with antialias, results are rounded. */
static status_t emit_any(onnx_node_t *node, const resize_t *resize)
{
    const dtype_t dtype = onnx_input_info(node, 0).dtype;
    item_t x = node->in[0];
    if (resize->mode == RESIZE_NEAREST || dtype_is_floating(dtype))
        return emit_plain(node, resize, x, &node->out[0]);
    TRY(onnx_cast(node, x, DTYPE_F64, &x));
    TRY(emit_plain(node, resize, x, &x));
    if (resize->has_antialias) TRY(round_inside(node, dtype, x, &x));
    TRY(onnx_cast(node, x, DTYPE_F32, &x));
    return onnx_cast(node, x, dtype, &node->out[0]);
}

/* ---- crops ---- */

/* True for outputs that sample outside of the input in dimension `dim`: bool, with size 1 in all
 * other dimensions. ITEM_NONE if there are none. */
static status_t find_beside(onnx_node_t *node, const resize_t *resize, int dim, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t from = sym_pin(ctx, resize->from[dim]), to = sym_pin(ctx, resize->to[dim]);
    const double last = (double)(from - 1);
    int64_t sizes[TENSOR_MAX_RANK], n_beside = 0;
    tensor_t *mask = NULL;
    void *elements = NULL;
    for (int d = 0; d < resize->rank; d++) sizes[d] = d == dim ? to : 1;
    TRY(tensor_zeros(ctx, DTYPE_BOOL, resize->rank, sizes, &mask));
    scope_take(ctx, mask);
    TRY_OR(tensor_data_mutable(ctx, mask, &elements), tensor_drop(mask));
    for (int64_t i = 0; i < to; i++) {
        const float place = resize_crop_place(from, to, (float)resize->start[dim],
                                              (float)resize->end[dim], i);
        const bool is_beside = place < 0.0F || place > last;
        ((bool *)elements)[i] = is_beside;
        n_beside += is_beside;
    }
    *out = ITEM_NONE;
    if (n_beside > 0) return onnx_item_take(node->onnx, NULL, mask, out);
    tensor_drop(mask);
    return STATUS_OK;
}

/* Writes the extrapolation value to outputs that sample outside of the input. */
static status_t extrapolate(onnx_node_t *node, const resize_t *resize)
{
    item_t beside = ITEM_NONE, number;
    for (int d = 0; d < resize->rank; d++) {
        item_t mask;
        if (sym_is(resize->from[d]) && is_kept(resize, d)) continue; /* no output is outside */
        TRY(find_beside(node, resize, d, &mask));
        if (mask == ITEM_NONE) continue;
        if (beside != ITEM_NONE) TRY(onnx_binary(node, "logical_or", beside, mask, &mask));
        beside = mask;
    }
    if (beside == ITEM_NONE) return STATUS_OK;
    TRY(onnx_number(node->onnx, resize->extrapolation, &number));
    return onnx_op(node, "where", NULL, 3, (item_t[]){beside, number, node->out[0]}, &node->out[0]);
}

/* Emits a result in which a dimension has size 0. */
static status_t emit_nothing(onnx_node_t *node, const resize_t *resize, int dim)
{
    item_t nothing = ITEM_NONE;
    TRY(onnx_slice(node, node->in[0], dim, 0, 0, 1, &nothing));
    return onnx_reshape(node, nothing, resize->rank, resize->to, &node->out[0]);
}

static status_t emit_resize(onnx_node_t *node, const resize_t *resize)
{
    context_t *ctx = node->onnx->ctx;
    bool is_same = true;
    for (int d = 0; d < resize->rank; d++) {
        const int64_t from = resize->from[d], to = resize->to[d];
        is_same = is_same && is_kept(resize, d);
        if (from == to || onnx_is_late(node, from) || onnx_is_late(node, to)) continue;
        if (sym_equal(ctx, to, 0)) return emit_nothing(node, resize, d);
        if (sym_less(ctx, to, 0) || sym_equal(ctx, from, 0))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "size %lld to %lld in dimension %d",
                 (long long)sym_hint(ctx, from), (long long)sym_hint(ctx, to), d);
    }
    if (is_same) return onnx_import_identity(node);
    TRY(emit_any(node, resize));
    return resize->coordinates == RESIZE_CROP ? extrapolate(node, resize) : STATUS_OK;
}

/* A symbolic size times a scale, computed in f32. */
static int64_t scale_symbolic(context_t *ctx, int64_t size, double scale)
{
    if (scale == 1.0) return size;
    const int64_t real = sym_real_calculate(ctx, '*', sym_real(ctx, SYM_F32, scale),
                                            sym_to_real(ctx, SYM_F32, size));
    return sym_round(ctx, SYM_TRUNCATE, real);
}

/* Sizes are computed in f32: 30 * 1.3f is rounded to 39, although 1.3f is less than 1.3. */
static status_t set_scales(onnx_node_t *node, resize_t *resize, int n, const double *scales,
                           const int64_t *axes)
{
    context_t *ctx = node->onnx->ctx;
    resize->has_scales = true;
    for (int i = 0; i < n; i++) {
        const int d = (int)axes[i];
        const float to = (float)scales[i] * (float)sym_hint(ctx, resize->from[d]);
        if (!(scales[i] > 0) || !(to < 0x1p31F))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a scale of %g for a size of %lld", scales[i],
                 (long long)sym_hint(ctx, resize->from[d]));
        resize->scale[d] = scales[i];
        resize->to[d] = sym_is(resize->from[d]) ? scale_symbolic(ctx, resize->from[d], scales[i])
                                                : (int64_t)to;
    }
    return STATUS_OK;
}

/* Replaces all scales by the smallest or largest of them, according to the policy. Guards fix the
 * sizes involved. */
static void keep_aspect(context_t *ctx, resize_t *resize, int n, const int64_t *axes)
{
    float one = 0.0F;
    for (int i = 0; i < n; i++) {
        const int d = (int)axes[i];
        resize->from[d] = sym_pin(ctx, resize->from[d]);
        const float scale = (float)sym_pin(ctx, resize->to[d]) / (float)resize->from[d];
        const bool is_better = resize->policy == NOT_LARGER ? scale < one : scale > one;
        if (i == 0 || is_better) one = scale;
    }
    for (int i = 0; i < n; i++) {
        const int d = (int)axes[i];
        resize->to[d] = (int64_t)roundf(one * (float)resize->from[d]);
        resize->scale[d] = (double)one;
    }
}

static void set_sizes(context_t *ctx, resize_t *resize, int n, const int64_t *sizes,
                      const int64_t *axes)
{
    resize->has_scales = resize->policy != STRETCH;
    for (int i = 0; i < n; i++) resize->to[axes[i]] = sizes[i];
    if (resize->has_scales) keep_aspect(ctx, resize, n, axes);
}

static void begin(onnx_node_t *node, resize_t *out_resize, int64_t *axes)
{
    tensor_info_t x = onnx_input_info(node, 0);
    memset(out_resize, 0, sizeof *out_resize);
    out_resize->rank = x.rank;
    for (int d = 0; d < x.rank; d++) {
        axes[d] = d;
        out_resize->from[d] = out_resize->to[d] = x.sizes[d];
        out_resize->scale[d] = out_resize->end[d] = 1.0;
    }
}

/* Reads a mode, and scales for all dimensions. */
static status_t read_simple(onnx_node_t *node, int input, resize_t *out_resize)
{
    static const char *const modes[] = {"nearest", "linear", "bilinear", NULL};
    int mode = 0, n = 0;
    double scales[TENSOR_MAX_RANK];
    int64_t axes[TENSOR_MAX_RANK];
    begin(node, out_resize, axes);
    TRY(onnx_attr_name(node, "mode", modes, 0, &mode));
    if (node->opset < 9) {
        TRY(onnx_attr_floats(node, "scales", TENSOR_MAX_RANK, &n, scales));
    } else {
        TRY(onnx_input_floats(node, input, "scales", TENSOR_MAX_RANK, &n, scales));
    }
    if (n != out_resize->rank)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%d scales, x is of rank %d", n,
             out_resize->rank);
    out_resize->mode = mode > 0 ? RESIZE_LINEAR : RESIZE_NEAREST;
    out_resize->coordinates = RESIZE_ASYMMETRIC;
    out_resize->rounding = RESIZE_BY_SCALE;
    return set_scales(node, out_resize, n, scales, axes);
}

status_t onnx_import_upsample(onnx_node_t *node)
{
    resize_t resize;
    TRY(read_simple(node, 1, &resize));
    return emit_resize(node, &resize);
}

static status_t read_modes(onnx_node_t *node, resize_t *resize)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL}; /* as resize_mode_t */
    int mode = 0, coordinates = 0, rounding = 0, policy = 0;
    TRY(onnx_attr_name(node, "mode", modes, 0, &mode));
    TRY(onnx_attr_name(node, "coordinate_transformation_mode", coordinate_names, 0, &coordinates));
    TRY(onnx_attr_name(node, "nearest_mode", rounding_names, 0, &rounding));
    TRY(onnx_attr_float(node, "cubic_coeff_a", -0.75, &resize->cubic_coefficient));
    TRY(onnx_attr_bool(node, "exclude_outside", false, &resize->excludes_outside));
    TRY(onnx_attr_float(node, "extrapolation_value", 0.0, &resize->extrapolation));
    if (node->opset >= 18) {
        TRY(onnx_attr_bool(node, "antialias", false, &resize->has_antialias));
        TRY(onnx_attr_name(node, "keep_aspect_ratio_policy", policy_names, 0, &policy));
    }
    resize->mode = (resize_mode_t)mode;
    resize->coordinates = coordinates_of[coordinates];
    resize->rounding = rounding_of[rounding];
    resize->policy = (policy_kind_t)policy;
    return STATUS_OK;
}

static status_t read_axes(onnx_node_t *node, int rank, int *out_n, int64_t *axes)
{
    int n = -1;
    int64_t given[TENSOR_MAX_RANK];
    *out_n = rank;
    if (node->opset >= 18) TRY(onnx_attr_ints(node, "axes", TENSOR_MAX_RANK, &n, given));
    for (int i = 0; i < n; i++) {
        int dim = 0;
        if (rank == 0 || !shape_dim(rank, given[i], &dim))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d",
                 (long long)given[i], rank);
        axes[i] = dim;
    }
    if (n >= 0) *out_n = n;
    return STATUS_OK;
}

/* Reads the start and end of a crop in each dimension. Only mode tf_crop_and_resize has crops. */
static status_t read_crop(onnx_node_t *node, int n_axes, const int64_t *axes, resize_t *resize)
{
    double crop[2 * TENSOR_MAX_RANK];
    int n = 0;
    if (resize->coordinates != RESIZE_CROP) return STATUS_OK;
    TRY(onnx_input_floats(node, 1, "roi", 2 * TENSOR_MAX_RANK, &n, crop));
    if (n != 2 * n_axes)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "roi has %d numbers, needs %d",
             n < 0 ? 0 : n, 2 * n_axes);
    for (int i = 0; i < n_axes; i++) {
        resize->start[axes[i]] = crop[i];
        resize->end[axes[i]] = crop[n_axes + i];
    }
    return STATUS_OK;
}

status_t onnx_import_resize(onnx_node_t *node)
{
    resize_t resize;
    int64_t axes[TENSOR_MAX_RANK], sizes[TENSOR_MAX_RANK];
    double scales[TENSOR_MAX_RANK];
    int n_axes = 0, n_scales = 0, n_sizes = 0;
    if (node->opset < 11) {
        TRY(read_simple(node, 1, &resize));
        return emit_resize(node, &resize);
    }
    begin(node, &resize, axes);
    TRY(read_modes(node, &resize));
    TRY(read_axes(node, resize.rank, &n_axes, axes));
    TRY(read_crop(node, n_axes, axes, &resize));
    TRY(onnx_input_floats(node, 2, "scales", TENSOR_MAX_RANK, &n_scales, scales));
    TRY(onnx_input_ints(node, 3, "sizes", TENSOR_MAX_RANK, &n_sizes, sizes));
    if (n_scales > 0 && n_sizes > 0)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "%d scales and %d sizes, one of them must be left out", n_scales, n_sizes);
    if (n_scales > 0 ? n_scales != n_axes : n_sizes != n_axes)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%d scales and %d sizes for %d dimensions",
             n_scales, n_sizes, n_axes);
    if (n_scales > 0) {
        TRY(set_scales(node, &resize, n_scales, scales, axes));
    } else {
        set_sizes(node->onnx->ctx, &resize, n_axes, sizes, axes);
    }
    return emit_resize(node, &resize);
}

/* ---- grids ---- */

/* Opset 20 renamed the modes and added 3-D grids. */
status_t onnx_import_grid_sample(onnx_node_t *node)
{
    static const char *const modes[] = {"linear", "nearest", "cubic", NULL};
    static const char *const first_modes[] = {"bilinear", "nearest", "bicubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    int mode = 0, padding = 0;
    bool aligns = false;
    TRY(onnx_attr_name(node, "mode", node->opset >= 20 ? modes : first_modes, 0, &mode));
    TRY(onnx_attr_name(node, "padding_mode", paddings, 0, &padding));
    TRY(onnx_attr_bool(node, "align_corners", false, &aligns));
    return onnx_op(
        node, "grid_sample",
        ONNX_ATTRS(SET("mode", mode), SET("padding", padding), SET("align_corners", aligns)), 2,
        node->in, &node->out[0]);
}

/* ---- AffineGrid ---- */

/* The coordinate of pixel i, from -1 to 1. With align_corners, -1 and 1 are the centres of the
 * outer pixels; otherwise their outer edges. */
static double number_at(int64_t i, int64_t size, bool is_aligned)
{
    if (!is_aligned) return (2.0 * (double)i + 1.0) / (double)size - 1.0;
    return size > 1 ? 2.0 * (double)i / (double)(size - 1) - 1.0 : 0.0;
}

/* Homogeneous coordinates of all pixels, [pixels, n + 1]: last dimension first, then a 1. */
static status_t make_places(onnx_node_t *node, dtype_t dtype, int n, const int64_t *sizes,
                            bool is_aligned, item_t *out)
{
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    int64_t n_pixels = 1;
    for (int d = 0; d < n; d++)
        if (sizes[d] < 1 || !shape_multiply(n_pixels, sizes[d], &n_pixels) ||
            n_pixels > ONNX_MAX_VALUES * (int64_t)64)
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "a grid of size %lld",
                 (long long)sizes[d]);
    tensor_info_t info = info_dense(dtype, 2, (int64_t[]){n_pixels, n + 1});
    TRY(tensor_make(node->onnx->ctx, &info, &tensor));
    TRY_OR(tensor_writable(node->onnx->ctx, tensor, &bytes), tensor_drop(tensor));
    for (int64_t p = 0; p < n_pixels; p++) {
        int64_t rest = p;
        for (int k = 0; k <= n; k++) {
            const int d = n - 1 - k;
            const double place = k < n ? number_at(rest % sizes[d], sizes[d], is_aligned) : 1.0;
            if (k < n) rest /= sizes[d];
            dtype_store(dtype, (char *)bytes + (size_t)(p * (n + 1) + k) * dtype_size(dtype),
                        place);
        }
    }
    return onnx_item_take(node->onnx, NULL, tensor, out);
}

/* Multiplies the coordinates by each image's transposed matrix. */
status_t onnx_import_affine_grid(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t theta = onnx_input_info(node, 0);
    int64_t size[5] = {0}, sizes[5];
    int n = 0;
    bool is_aligned = false;
    item_t in[2];
    TRY(onnx_attr_bool(node, "align_corners", false, &is_aligned));
    TRY(onnx_input_ints(node, 1, "the size", 5, &n, size));
    if ((n != 4 && n != 5) || theta.rank != 3 || !sym_equal(ctx, theta.sizes[0], size[0]) ||
        !sym_equal(ctx, theta.sizes[1], n - 2) || !sym_equal(ctx, theta.sizes[2], n - 1))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "theta is %s for a size of %d numbers",
             onnx_brief(node, &theta), n);
    for (int d = 2; d < n; d++) size[d] = sym_pin(ctx, size[d]); /* the grid is a constant */
    TRY(make_places(node, theta.dtype, n - 2, &size[2], is_aligned, &in[0]));
    TRY(onnx_permute(node, node->in[0], 3, (int64_t[]){0, 2, 1}, &in[1]));
    TRY(onnx_op(node, "matmul", NULL, 2, in, &node->out[0]));
    sizes[0] = size[0];
    for (int d = 1; d < n - 1; d++) sizes[d] = size[d + 1];
    sizes[n - 1] = n - 2;
    return onnx_reshape(node, node->out[0], n, sizes, &node->out[0]);
}

/* ---- boxes ---- */

/* Before opset 16, boxes are not aligned. */
status_t onnx_import_roi_align(onnx_node_t *node)
{
    static const char *const modes[] = {"avg", "max", NULL}; /* as roi_align_mode_t */
    static const char *const transforms[] = {"half_pixel", "output_half_pixel", NULL};
    roi_align_attrs_t attrs = {.aligned = node->opset >= 16};
    int transform = 0;
    onnx_call_t call;
    TRY(onnx_attr_name(node, "mode", modes, 0, &attrs.mode));
    TRY(onnx_attr_int(node, "output_height", 1, &attrs.output_size[0]));
    TRY(onnx_attr_int(node, "output_width", 1, &attrs.output_size[1]));
    TRY(onnx_attr_int(node, "sampling_ratio", 0, &attrs.sampling_ratio));
    TRY(onnx_attr_float(node, "spatial_scale", 1.0, &attrs.spatial_scale));
    if (node->opset >= 16) {
        TRY(onnx_attr_name(node, "coordinate_transformation_mode", transforms, 0, &transform));
        attrs.aligned = transform == 0;
    }
    onnx_call(node, "roi_align", &call);
    onnx_set_all(&call, &attrs, sizeof attrs);
    return onnx_emit(&call, 3, node->in, &node->out[0]);
}
