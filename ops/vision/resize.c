/* Resize: resamples the last dimensions of x, one after the other. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/shape/adjoint_impl.h"
#include "ops/vision/resize_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const char *const mode_names[] = {"nearest", "linear", "cubic", NULL};
static const char *const coordinate_names[] = {
    "asymmetric",           "half_pixel", "align_corners", "pytorch_half_pixel",
    "half_pixel_symmetric", "crop",       "tf_half_pixel", NULL};
static const char *const rounding_names[] = {"floor",       "ceil",     "prefer_floor",
                                             "prefer_ceil", "by_scale", NULL};

static const attr_field_t fields[] = {
    FIELD_INTS(resize_attrs_t, sizes),
    FIELD_NAME(resize_attrs_t, mode, 0, mode_names),
    FIELD_NAME(resize_attrs_t, coordinates, 0, coordinate_names),
    FIELD_FLOATS(resize_attrs_t, scales),
    FIELD_FLOAT(resize_attrs_t, cubic_coefficient, -0.75),
    FIELD_BOOL(resize_attrs_t, exclude_outside, 0),
    FIELD_FLOATS(resize_attrs_t, starts),
    FIELD_FLOATS(resize_attrs_t, ends),
    FIELD_BOOL(resize_attrs_t, antialias, 0),
    FIELD_NAME(resize_attrs_t, rounding, RESIZE_FLOOR, rounding_names),
    FIELD_BOOL(resize_attrs_t, as_onnx, 0)};
#define N_FIELDS ((int)(sizeof fields / sizeof *fields))

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- dimensions ---- */

/* One resized dimension. scale 0 means out / in. start and end: range of RESIZE_CROP, where 0 to 1
 * is all of x. */
typedef struct axis {
    int64_t in, out;
    double scale, start, end;
} axis_t;

/* True if ONNX Runtime copies x. It does so if no size changes, whatever the scales are. */
static bool is_copy(const resize_attrs_t *attrs, const tensor_info_t *x, const tensor_info_t *out)
{
    return attrs->as_onnx && attrs->coordinates != RESIZE_CROP &&
           memcmp(x->sizes, out->sizes, (size_t)x->rank * sizeof *x->sizes) == 0;
}

static axis_t describe_axis(const resize_attrs_t *attrs, const tensor_info_t *x,
                            const tensor_info_t *out, int i)
{
    int dim = x->rank - attrs->sizes.n + i;
    const bool has_scale = attrs->scales.n > 0 && !is_copy(attrs, x, out);
    return (axis_t){.in = x->sizes[dim],
                    .out = out->sizes[dim],
                    .scale = has_scale ? attrs->scales.values[i] : 0.0,
                    .start = attrs->starts.n > 0 ? attrs->starts.values[i] : 0.0,
                    .end = attrs->ends.n > 0 ? attrs->ends.values[i] : 1.0};
}

/* Factor by which antialias widens the filter: 1 / scale for dimensions that shrink. */
static double find_stretch(const resize_attrs_t *attrs, const axis_t *axis)
{
    const double scale = axis->scale != 0.0 ? axis->scale : (double)axis->out / (double)axis->in;
    return attrs->antialias && scale < 1.0 ? 1.0 / scale : 1.0;
}

/* Number of taps: input elements that contribute to an output element, with weights. */
static int64_t count_taps(const resize_attrs_t *attrs, const axis_t *axis)
{
    if (attrs->mode == RESIZE_NEAREST) return 1;
    const double width = attrs->mode == RESIZE_LINEAR ? 1.0 : 2.0;
    return 2 * (int64_t)ceil(width * find_stretch(attrs, axis));
}

/* ---- inference ---- */

/* Limit of starts and ends, because larger positions would not be exact. */
#define MAX_CROP 65536.0

static status_t check_crop(context_t *ctx, const resize_attrs_t *attrs)
{
    const int n = attrs->coordinates == RESIZE_CROP ? attrs->sizes.n : 0;
    REQUIRE(ctx, attrs->starts.n == n && attrs->ends.n == n,
            "resize: %d starts and %d ends for coordinates %s, %d of each are needed",
            attrs->starts.n, attrs->ends.n, coordinate_names[attrs->coordinates], n);
    for (int i = 0; i < n; i++)
        REQUIRE(ctx,
                fabs(attrs->starts.values[i]) <= MAX_CROP &&
                    fabs(attrs->ends.values[i]) <= MAX_CROP,
                "resize: from %g to %g, numbers up to %g are needed", attrs->starts.values[i],
                attrs->ends.values[i], MAX_CROP);
    return STATUS_OK;
}

/* Limit of taps. With antialias and a tiny scale, a filter can be much wider than x. */
#define MAX_TAPS ((double)((int64_t)1 << 36))

static status_t check_taps(context_t *ctx, const resize_attrs_t *attrs, const tensor_info_t *x,
                           const tensor_info_t *out)
{
    for (int i = 0; i < attrs->sizes.n && attrs->antialias; i++) {
        const axis_t axis = describe_axis(attrs, x, out, i);
        if (sym_is(axis.in) || sym_is(axis.out)) continue; /* checked again when sizes are known */
        const double stretch = find_stretch(attrs, &axis);
        REQUIRE(ctx, stretch * (double)axis.out <= MAX_TAPS,
                "resize: a scale of %g for %lld elements, too small for antialias", axis.scale,
                (long long)axis.in);
    }
    return STATUS_OK;
}

static status_t resize_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const resize_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    const int n = attrs->sizes.n, first = x->rank - n;
    REQUIRE(ctx, n >= 1 && n <= x->rank, "resize: %d sizes for %s, needs 1 to %d", n, info_brief(x),
            x->rank);
    REQUIRE(ctx, attrs->scales.n == 0 || attrs->scales.n == n,
            "resize: %d scales for %d sizes, none or as many are needed", attrs->scales.n, n);
    REQUIRE(ctx, attrs->mode == RESIZE_NEAREST || dtype_is_floating(x->dtype),
            "resize: x is %s, %s needs a floating dtype", info_brief(x), mode_names[attrs->mode]);
    TRY(check_crop(ctx, attrs));
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, x->sizes, sizeof sizes);
    for (int i = 0; i < n; i++) {
        const int64_t in = x->sizes[first + i];
        sizes[first + i] = attrs->sizes.values[i];
        bool fits = sym_less(ctx, 0, in)
                        ? sizes_within(ctx, in, 1, INT32_MAX - 1) &&
                              sizes_within(ctx, sizes[first + i], 1, INT32_MAX - 1)
                        : sym_equal(ctx, in, 0) && sym_equal(ctx, sizes[first + i], 0);
        REQUIRE(ctx, fits, "resize: dimension %d of %s to %lld, sizes of at least 1 are needed",
                first + i, info_brief(x), (long long)sizes[first + i]);
        REQUIRE(ctx,
                attrs->scales.n == 0 ||
                    (attrs->scales.values[i] > 0 && isfinite(attrs->scales.values[i])),
                "resize: a scale of %g for dimension %d, positive ones are needed",
                attrs->scales.values[i], first + i);
    }
    TRY(shape_check(ctx, "resize", x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return check_taps(ctx, attrs, x, out);
}

/* ---- taps of an output index ---- */

/* Input position of output element i, rounded at each step like ONNX Runtime's. */
static double find_place_in_f32(int coordinates, const axis_t *axis, int64_t i)
{
    const float in = (float)axis->in, out = (float)axis->out, at = (float)i;
    const float scale = axis->scale != 0.0 ? (float)axis->scale : out / in;
    const float middle = (at + 0.5F) / scale, half_pixel = middle - 0.5F;
    switch (coordinates) {
    case RESIZE_HALF_PIXEL: return (double)half_pixel;
    case RESIZE_PYTORCH_HALF_PIXEL: return axis->out > 1 ? (double)half_pixel : 0.0;
    case RESIZE_TF_HALF_PIXEL: return (double)middle;
    case RESIZE_HALF_PIXEL_SYMMETRIC: {
        const float length = axis->scale != 0.0 ? scale * in : out;
        const float moved = in / 2 * (1 - out / length);
        return (double)(float)((double)moved + ((double)at + 0.5) / (double)scale - 0.5);
    }
    case RESIZE_ALIGN_CORNERS: {
        const float length = axis->scale != 0.0 ? scale * in : out;
        return axis->out > 1 && length > 1 ? (double)(at * (in - 1) / (length - 1)) : 0.0;
    }
    case RESIZE_CROP:
        return (double)resize_crop_place(axis->in, axis->out, (float)axis->start, (float)axis->end,
                                         i);
    default: return (double)(at / scale);
    }
}

static double find_place(const resize_attrs_t *attrs, const axis_t *axis, int64_t i)
{
    const int coordinates = attrs->coordinates;
    const double in = (double)axis->in, out = (double)axis->out, at = (double)i;
    const bool has_scale = axis->scale != 0.0;
    if (attrs->as_onnx) return find_place_in_f32(coordinates, axis, i);
    const double middle = has_scale ? (at + 0.5) / axis->scale : (at + 0.5) * in / out;
    switch (coordinates) {
    case RESIZE_HALF_PIXEL: return middle - 0.5;
    case RESIZE_PYTORCH_HALF_PIXEL: return axis->out > 1 ? middle - 0.5 : 0.0;
    case RESIZE_TF_HALF_PIXEL: return middle;
    case RESIZE_HALF_PIXEL_SYMMETRIC:
        return middle - 0.5 + (has_scale ? in / 2 * (1 - out / (axis->scale * in)) : 0.0);
    case RESIZE_ALIGN_CORNERS: {
        const double steps = (has_scale ? axis->scale * in : out) - 1;
        return axis->out > 1 && steps > 0 ? at * (in - 1) / steps : 0.0;
    }
    case RESIZE_CROP:
        if (axis->out == 1) return (axis->start + axis->end) / 2 * (in - 1);
        return (axis->start + at * (axis->end - axis->start) / (out - 1)) * (in - 1);
    default: return has_scale ? at / axis->scale : at * in / out;
    }
}

/* The position that mode nearest rounds. PyTorch multiplies i by an f32 factor: for i = 29 and a
 * factor of 1 / 29, the position is less than 1. */
static double find_nearest_place(const resize_attrs_t *attrs, const axis_t *axis, int64_t i)
{
    if (attrs->as_onnx || attrs->coordinates != RESIZE_ASYMMETRIC)
        return find_place(attrs, axis, i);
    if (axis->in == axis->out) return (double)i;
    const float factor = axis->scale != 0.0 ? (float)(1.0 / axis->scale)
                                            : (float)axis->in / (float)axis->out;
    return (double)((float)i * factor);
}

static int64_t clamp_index(int64_t index, int64_t n)
{
    return index < 0 ? 0 : index >= n ? n - 1 : index;
}

/* ONNX Runtime treats positions this close to a half as a half, because f32 positions have
 * errors. */
#define HALF_WIDTH 1e-6F

static int64_t find_nearest(const resize_attrs_t *attrs, const axis_t *axis, int64_t i)
{
    const double place = find_nearest_place(attrs, axis, i), low = floor(place);
    const bool shrinks = axis->scale != 0.0 ? axis->scale < 1.0 : axis->out < axis->in;
    const double rest = place - low, width = attrs->as_onnx ? (double)HALF_WIDTH : 0.0;
    bool is_up = false;
    switch (attrs->rounding) {
    case RESIZE_CEIL: is_up = rest > 0.0; break;
    case RESIZE_PREFER_FLOOR: is_up = rest - 0.5 > width; break;
    case RESIZE_PREFER_CEIL: is_up = rest - 0.5 >= -width; break;
    case RESIZE_BY_SCALE: is_up = shrinks && rest > 0.0; break;
    default: break;
    }
    const double last = (double)(axis->in - 1), index = low + (is_up ? 1.0 : 0.0);
    return index < 0 ? 0 : index > last ? axis->in - 1 : (int64_t)index;
}

/* Keys' cubic filter: one polynomial for |distance| <= 1, one for 1 to 2. */
static double weigh_cubic(double a, double distance)
{
    double d = fabs(distance);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0.0;
}

/* Filter of an output element: the weights of n input elements from `first` on. An index outside of
 * x counts as the edge element, or has weight 0 (exclude_outside). With antialias or
 * exclude_outside, weights are divided by their `sum`. */
typedef struct filter {
    const resize_attrs_t *attrs;
    const axis_t *axis;
    double place, stretch, sum;
    int64_t first, n;
} filter_t;

static double weigh(const filter_t *filter, int64_t at)
{
    const resize_attrs_t *attrs = filter->attrs;
    const bool is_outside = at < 0 || at >= filter->axis->in;
    const double distance = fabs(filter->place - (double)at) / filter->stretch;
    if (is_outside && attrs->exclude_outside && (attrs->mode == RESIZE_CUBIC || attrs->antialias))
        return 0.0;
    if (attrs->mode == RESIZE_CUBIC) return weigh_cubic(attrs->cubic_coefficient, distance);
    return distance < 1.0 ? 1.0 - distance : 0.0;
}

/* Filter of output element i. `moved` is added to its position. */
static filter_t make_filter(const resize_attrs_t *attrs, const axis_t *axis, int64_t i,
                            double moved)
{
    filter_t filter = {.attrs = attrs,
                       .axis = axis,
                       .stretch = find_stretch(attrs, axis),
                       .sum = 1.0,
                       .n = count_taps(attrs, axis)};
    if (attrs->mode == RESIZE_NEAREST) {
        filter.first = find_nearest(attrs, axis, i);
        return filter;
    }
    filter.place = find_place(attrs, axis, i) + moved;
    filter.first = (int64_t)floor(filter.place) - filter.n / 2 + 1;
    if (!attrs->antialias && !(attrs->exclude_outside && attrs->mode == RESIZE_CUBIC))
        return filter;
    filter.sum = 0.0;
    for (int64_t t = 0; t < filter.n; t++) filter.sum += weigh(&filter, filter.first + t);
    return filter;
}

static row_sum_tap_t tap_of(const filter_t *filter, int64_t t)
{
    const int64_t at = filter->first + t;
    if (filter->attrs->mode == RESIZE_NEAREST) return (row_sum_tap_t){at, 1.0};
    return (row_sum_tap_t){clamp_index(at, filter->axis->in), weigh(filter, at) / filter->sum};
}

/* ---- specification: the product of the taps of all dimensions ---- */

static double resize_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const resize_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0];
    const int n = attrs->sizes.n, first = x->rank - n;
    axis_t axes[TENSOR_MAX_RANK];
    filter_t filters[TENSOR_MAX_RANK];
    int64_t counts[TENSOR_MAX_RANK], which[TENSOR_MAX_RANK] = {0}, at[TENSOR_MAX_RANK];
    double sum = 0.0;
    memcpy(at, index, (size_t)x->rank * sizeof *at);
    for (int i = 0; i < n; i++) {
        axes[i] = describe_axis(attrs, x, &call->out[output], i);
        double place = find_place(attrs, &axes[i], index[first + i]);
        /* the number before half a pixel is subtracted */
        double moved = spec_rounding(call, i, fabs(place) + 0.5);
        filters[i] = make_filter(attrs, &axes[i], index[first + i], moved);
        counts[i] = filters[i].n;
    }
    do {
        double weight = 1.0;
        for (int i = 0; i < n; i++) {
            const row_sum_tap_t tap = tap_of(&filters[i], which[i]);
            at[first + i] = tap.index;
            weight *= tap.weight;
        }
        if (weight != 0.0) sum += weight * spec_at(call, 0, at);
    } while (shape_next(n, counts, which));
    return sum;
}

/* ---- oneDNN kernel: for attributes with which oneDNN samples the same positions ---- */

/* True if an output size is 1. RESIZE_PYTORCH_HALF_PIXEL is a special case then. */
static bool has_one(const ints_t *sizes)
{
    for (int i = 0; i < sizes->n; i++)
        if (sizes->values[i] == 1) return true;
    return false;
}

/* True if each dimension repeats every input element equally often, as oneDNN's nearest does with
 * integer factors. */
static bool repeats_elements(const resize_attrs_t *attrs, const tensor_info_t *x,
                             const tensor_info_t *out)
{
    for (int d = 0; d < attrs->sizes.n; d++) {
        const axis_t axis = describe_axis(attrs, x, out, d);
        if (axis.in < 1 || axis.out % axis.in != 0 || axis.out > 1 << 20) return false;
        for (int64_t i = 0; i < axis.out; i++)
            if (find_nearest(attrs, &axis, i) != i / (axis.out / axis.in)) return false;
    }
    return true;
}

/* True if each scale equals out / in in f32. */
static bool has_scales_of_sizes(const resize_attrs_t *attrs, const tensor_info_t *x)
{
    for (int d = 0; d < attrs->scales.n; d++)
        if ((float)attrs->scales.values[d] !=
            (float)attrs->sizes.values[d] / (float)x->sizes[x->rank - attrs->sizes.n + d])
            return false;
    return true;
}

static bool samples_alike(const resize_attrs_t *attrs, const tensor_info_t *x,
                          const tensor_info_t *out)
{
    if (x->rank < 3 || x->rank > 5 || attrs->sizes.n != x->rank - 2 || attrs->antialias)
        return false;
    if (attrs->mode == RESIZE_NEAREST) return repeats_elements(attrs, x, out);
    if (attrs->mode == RESIZE_CUBIC || !has_scales_of_sizes(attrs, x)) return false;
    return attrs->coordinates == RESIZE_HALF_PIXEL ||
           attrs->coordinates == RESIZE_HALF_PIXEL_SYMMETRIC ||
           (attrs->coordinates == RESIZE_PYTORCH_HALF_PIXEL && !has_one(&attrs->sizes));
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const resize_attrs_t *attrs = call->attrs;
    tensor_info_t src = *call->in[0], dst = call->out[0];
    if (src.dtype != DTYPE_F32 && src.dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(src.dtype));
    if (!samples_alike(attrs, call->in[0], &call->out[0]))
        return prepared_decline(prepared, "onednn: %s with coordinates %s samples elsewhere",
                                mode_names[attrs->mode], coordinate_names[attrs->coordinates]);
    onednn_problem_t problem = {.kind = ONEDNN_RESAMPLING,
                                .algorithm = attrs->mode == RESIZE_LINEAR
                                                 ? ONEDNN_RESAMPLING_LINEAR
                                                 : ONEDNN_RESAMPLING_NEAREST,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst};
    return choose_formats(ctx, call, prepared, &problem, 0.0);
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- native kernel: one pass for each dimension that changes; x is plain or channels last ---- */

/* Resizes [outer][in][inner] to [outer][out][inner]. Output index q has n_taps taps, from taps[at +
 * q * n_taps] on. */
typedef struct pass {
    int64_t outer, in, out, inner, n_taps;
    size_t at;
} pass_t;

typedef struct plan {
    int n_passes;
    pass_t passes[TENSOR_MAX_RANK];
    dtype_t compute;     /* DTYPE_NONE: mode nearest, which copies elements */
    size_t buffer_bytes; /* size of each of two buffers for intermediate results */
    row_sum_tap_t taps[];
} plan_t;

static bool changes(const axis_t *axis)
{
    return axis->in > 0 && (axis->in != axis->out || (axis->scale != 0.0 && axis->scale != 1.0) ||
                            axis->start != 0.0 || axis->end != 1.0);
}

/* Index of a dimension when dimensions are ordered as in memory, outermost first. is_last: channels
 * last. */
static int find_place_of_dim(int dim, int rank, bool is_last)
{
    if (!is_last || dim == 0) return dim;
    return dim == 1 ? rank - 1 : dim - 1;
}

/* Describes the passes, without taps. Returns the number of taps of all passes. */
static size_t make_passes(const op_call_t *call, bool is_last, plan_t *plan)
{
    const resize_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[0], *out = &call->out[0];
    int64_t lies[TENSOR_MAX_RANK];
    size_t n_taps = 0;
    for (int d = 0; d < x->rank; d++) lies[find_place_of_dim(d, x->rank, is_last)] = x->sizes[d];
    for (int i = 0; i < attrs->sizes.n; i++) {
        axis_t axis = describe_axis(attrs, x, out, i);
        int at = find_place_of_dim(x->rank - attrs->sizes.n + i, x->rank, is_last);
        if (!changes(&axis)) continue;
        pass_t *pass = &plan->passes[plan->n_passes++];
        *pass = (pass_t){.outer = 1, .in = axis.in, .out = axis.out, .inner = 1, .at = n_taps};
        pass->n_taps = count_taps(attrs, &axis);
        for (int d = 0; d < at; d++) pass->outer *= lies[d];
        for (int d = at + 1; d < x->rank; d++) pass->inner *= lies[d];
        lies[at] = axis.out;
        n_taps += (size_t)(pass->n_taps * axis.out);
    }
    return n_taps;
}

static void make_taps(const op_call_t *call, plan_t *plan)
{
    const resize_attrs_t *attrs = call->attrs;
    row_sum_tap_t *taps = plan->taps;
    for (int i = 0; i < attrs->sizes.n; i++) {
        axis_t axis = describe_axis(attrs, call->in[0], &call->out[0], i);
        if (!changes(&axis)) continue;
        for (int64_t q = 0; q < axis.out; q++) {
            const filter_t filter = make_filter(attrs, &axis, q, 0.0);
            for (int64_t t = 0; t < filter.n; t++) *taps++ = tap_of(&filter, t);
        }
    }
}

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[0];
    const resize_attrs_t *attrs = call->attrs;
    format_t plain = format_plain(x->rank), last = format_channels_last(x->rank);
    bool is_last = x->rank > 2 && format_same(&x->format, &last, x->sizes) &&
                   !format_same(&x->format, &plain, x->sizes);
    TRY(accept_format(call, prepared, 0, is_last ? &last : &plain));
    TRY(accept_out(call, prepared, 0, is_last ? &last : &plain));
    plan_t passes = {.n_passes = 0}, *plan = NULL;
    size_t n_taps = make_passes(call, is_last, &passes);
    TRY(context_get_zeroed(ctx, sizeof *plan + n_taps * sizeof *plan->taps, "resize", &plan));
    prepared->state = plan;
    *plan = passes;
    make_taps(call, plan);
    if (attrs->mode != RESIZE_NEAREST)
        plan->compute = x->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    const size_t size = dtype_size(plan->compute != DTYPE_NONE ? plan->compute : x->dtype);
    int64_t most = info_numel(x);
    for (int i = 0; i < plan->n_passes; i++) {
        const pass_t *pass = &plan->passes[i];
        int64_t n = pass->outer * pass->out * pass->inner;
        if (n > most) most = n;
    }
    plan->buffer_bytes = ((size_t)most * size + 63) & ~(size_t)63;
    prepared->scratch_bytes = 2 * plan->buffer_bytes;
    return STATUS_OK;
}

typedef struct planes {
    const pass_t *pass;
    const row_sum_tap_t *taps;
    size_t size; /* bytes of an element */
    const char *from;
    char *to;
} planes_t;

/* Mode nearest: copies rows of planes [in][inner] to [out][inner]. */
static void move_planes(void *user, int64_t first, int64_t last)
{
    const planes_t *p = user;
    const pass_t *pass = p->pass;
    const size_t row = (size_t)pass->inner * p->size;
    for (int64_t i = first; i < last; i++)
        for (int64_t q = 0; q < pass->out; q++)
            memcpy(p->to + (size_t)(i * pass->out + q) * row,
                   p->from + (size_t)(i * pass->in + p->taps[q].index) * row, row);
}

static void run_pass(context_t *ctx, const plan_t *plan, const pass_t *pass, size_t size,
                     const char *from, char *to)
{
    const int n_threads = threads_for(ctx, pass->outer * pass->out * pass->inner);
    const row_sum_t sum = {.outer = pass->outer,
                           .n_from = pass->in,
                           .n_to = pass->out,
                           .inner = pass->inner,
                           .n_taps = pass->n_taps,
                           .taps = plan->taps + pass->at,
                           .is_wide = plan->compute == DTYPE_F64,
                           .from = from,
                           .to = to};
    planes_t planes = {pass, sum.taps, size, from, to};
    if (plan->compute == DTYPE_NONE)
        threads_share(n_threads, pass->outer, move_planes, &planes);
    else
        row_sum_run(&sum, isa_best(), n_threads);
}

/* Converts bf16 and f16 to f32 before the first pass and back after the last. */
static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const plan_t *plan = prepared->state;
    const dtype_t dtype = prepared->in[0].dtype;
    const dtype_t compute = plan->compute != DTYPE_NONE ? plan->compute : dtype;
    char *buffers[2] = {scratch, (char *)scratch + plan->buffer_bytes};
    const char *from = in[0];
    if (plan->n_passes == 0) {
        memcpy(out[0], in[0], info_bytes(&prepared->in[0]));
        return STATUS_OK;
    }
    if (compute != dtype) {
        dtype_cast(info_numel(&prepared->in[0]), dtype, in[0], 1, compute, buffers[1], 1);
        from = buffers[1];
    }
    for (int i = 0; i < plan->n_passes; i++) {
        bool is_result = i == plan->n_passes - 1 && compute == dtype;
        char *to = is_result ? out[0] : buffers[i % 2];
        run_pass(ctx, plan, &plan->passes[i], dtype_size(compute), from, to);
        from = to;
    }
    if (compute != dtype)
        dtype_cast(info_numel(&prepared->out[0]), compute, from, 1, dtype, out[0], 1);
    return STATUS_OK;
}

/* ---- gradients: resize_backward has the attributes of resize; `sizes` are those of x ---- */

static int backward_taps(const void *attrs, const tensor_info_t *x, const tensor_info_t *grad,
                         int dim, int64_t q, int64_t first, row_sum_tap_t *out_taps)
{
    const resize_attrs_t *given = attrs;
    const int i = dim - (x->rank - given->sizes.n);
    int n = 0;
    if (i < 0) {
        out_taps[0] = (row_sum_tap_t){q, 1.0};
        return first == 0 ? 1 : 0;
    }
    const axis_t axis = describe_axis(given, x, grad, i);
    const filter_t filter = make_filter(given, &axis, q, 0.0);
    for (int64_t t = first; t < filter.n && n < ADJOINT_TAPS; t++)
        out_taps[n++] = tap_of(&filter, t);
    return n;
}

static status_t resize_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                      tensor_info_t *out)
{
    const tensor_info_t *grad = call->in[0];
    TRY(resize_infer(ctx, call, out_n, out));
    REQUIRE(ctx, dtype_is_floating(grad->dtype),
            "resize_backward: grad is %s, a floating dtype is needed", info_brief(grad));
    return STATUS_OK;
}

ADJOINT(backward_taps)

static void pass_back(const gradient_call_t *call)
{
    const tensor_info_t x = *emit_info(call->emitter, call->in[0]);
    resize_attrs_t attrs = *(const resize_attrs_t *)call->attrs;
    for (int i = 0; i < attrs.sizes.n; i++)
        attrs.sizes.values[i] = x.sizes[x.rank - attrs.sizes.n + i];
    call->in_grad[0] = emit_op(call->emitter, &op_def_resize_backward, &attrs, 1, call->out_grad);
}

/* ---- definitions ---- */

const opdef_t op_def_resize = {
    .name = "resize",
    FUNCTIONS_OF(resize),
    .preference = OP_FOLLOWS,
    .attrs = {sizeof(resize_attrs_t), N_FIELDS, fields},
    OPERANDS(operands),
    .kernels = KERNELS(&onednn, KERNEL("native", prepare_native, run_native)),
    .gradient = GRADIENT(.pass = pass_back)};

const opdef_t op_def_resize_backward = {.name = "resize_backward",
                                        .preference = OP_FOLLOWS,
                                        .attrs = {sizeof(resize_attrs_t), N_FIELDS, fields},
                                        .n_operands = 1,
                                        .operands = backward_operands,
                                        .n_outputs = 1,
                                        .infer = resize_backward_infer,
                                        .infers_symbols = true,
                                        .kernels = backward_kernels,
                                        .spec = backward_spec};

/* ---- public ---- */

status_t op_resize(context_t *ctx, const tensor_t *x, int n, const int64_t *sizes,
                   resize_mode_t mode, resize_coordinates_t coordinates, tensor_t **out)
{
    TRY(context_output(ctx, "resize", out));
    resize_attrs_t attrs = {.sizes = {.n = n},
                            .mode = (int)mode,
                            .coordinates = (int)coordinates,
                            .cubic_coefficient = -0.75};
    if (sizes == NULL) return context_null(ctx, "resize", "sizes");
    REQUIRE(ctx, n >= 1 && n <= TENSOR_MAX_RANK, "resize: %d sizes, 1 to %d are possible", n,
            TENSOR_MAX_RANK);
    memcpy(attrs.sizes.values, sizes, (size_t)n * sizeof *sizes);
    return op_resize_attrs(ctx, x, &attrs, out);
}

status_t op_resize_attrs(context_t *ctx, const tensor_t *x, const resize_attrs_t *attrs,
                         tensor_t **out)
{
    TRY(context_output(ctx, "resize", out));
    if (attrs == NULL) return context_null(ctx, "resize", "attrs");
    return dispatch_run(ctx, &op_def_resize, attrs, 1, &x, NULL, out);
}
