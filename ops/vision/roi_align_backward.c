/* Gradient of roi_align's images: each bin adds its gradient to the pixels of its samples, times
 * their weights. In mode max, only one pixel gets the gradient: the first one whose product with
 * its weight is the largest, or the last one with NaN. No pixel gets it if the largest value is the
 * 0 of a sample outside the image. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/vision/roi_align_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"boxes", ROLE_ACTIVATION, false, false},
                                     {"images", ROLE_ACTIVATION, false, false},
                                     {"grad", ROLE_ACTIVATION, false, false}};

static status_t roi_align_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                         tensor_info_t *out)
{
    const tensor_info_t *x = call->in[ROI_X], *grad = call->in[ROI_GRAD];
    tensor_info_t pooled;
    op_call_t forward = *call;
    forward.op = &op_def_roi_align;
    forward.n_in = ROI_GRAD;
    TRY(forward.op->infer(ctx, &forward, out_n, &pooled));
    REQUIRE(ctx, sizes_are_like(ctx, grad, &pooled),
            "roi_align_backward: grad is %s, the bins are %s", info_brief(grad),
            info_brief(&pooled));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- a bin: the pixels of its samples, with their weights ---- */

/* One of the four pixels (tap 0 to 3) next to a sample. */
typedef struct tap {
    int64_t row, column;
    double weight;
} tap_t;

static int64_t count_taps(const roi_bin_t *bin)
{
    return 4 * (bin->last[0] - bin->first[0]) * (bin->last[1] - bin->first[1]);
}

/* Tap `i` of count_taps. */
static tap_t tap_at(const roi_bin_t *bin, int64_t i)
{
    const int64_t n_columns = bin->last[1] - bin->first[1], sample = i / 4;
    const int tap = (int)(i % 4);
    const roi_taps_t rows = roi_find_taps(&bin->side[0], bin->index[0],
                                          bin->first[0] + sample / n_columns);
    const roi_taps_t columns = roi_find_taps(&bin->side[1], bin->index[1],
                                             bin->first[1] + sample % n_columns);
    return (tap_t){rows.index[tap / 2], columns.index[tap % 2],
                   rows.weight[tap / 2] * columns.weight[tap % 2]};
}

static double count_samples(const roi_bin_t *bin)
{
    return bin->side[0].n_samples * bin->side[1].n_samples;
}

/* ---- specification ---- */

static void spec_sides(const spec_call_t *call, int64_t box, roi_side_t *out_sides)
{
    const roi_align_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[ROI_X];
    for (int d = 0; d < 2; d++) {
        const int64_t low[] = {box, 1 - d}, high[] = {box, 3 - d};
        out_sides[d] = roi_find_side(attrs, x->dtype, spec_at(call, ROI_BOXES, low),
                                     spec_at(call, ROI_BOXES, high), attrs->output_size[d],
                                     x->sizes[2 + d]);
    }
}

/* Derivative of a bin with respect to the pixel at `index`. */
static double spec_share(const spec_call_t *call, const roi_bin_t *bin, const int64_t *index)
{
    const roi_align_attrs_t *attrs = call->attrs;
    double sum = 0.0, largest = bin->least, of_largest = 0.0;
    for (int64_t i = 0; i < count_taps(bin); i++) {
        const tap_t tap = tap_at(bin, i);
        const bool is_here = tap.row == index[2] && tap.column == index[3];
        if (is_here) sum += tap.weight;
        if (attrs->mode != ROI_ALIGN_MAX) continue;
        const int64_t at[] = {index[0], index[1], tap.row, tap.column};
        const double value = tap.weight * spec_at(call, ROI_X, at);
        if (!(value > largest || isnan(value))) continue;
        largest = value;
        of_largest = is_here ? tap.weight : 0.0;
    }
    if (count_samples(bin) <= 0.0) return 0.0;
    return attrs->mode == ROI_ALIGN_MAX ? of_largest : sum / count_samples(bin);
}

static double roi_align_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *grad = call->in[ROI_GRAD];
    double sum = 0.0;
    (void)output;
    for (int64_t box = 0; box < grad->sizes[0]; box++) {
        roi_side_t side[2];
        if ((int64_t)spec_at(call, ROI_IMAGES, &box) != index[0]) continue;
        spec_sides(call, box, side);
        for (int64_t bin = 0; bin < grad->sizes[2] * grad->sizes[3]; bin++) {
            const roi_bin_t place = roi_find_bin(side, bin / grad->sizes[3], bin % grad->sizes[3]);
            const int64_t at[] = {box, index[1], place.index[0], place.index[1]};
            sum += spec_at(call, ROI_GRAD, at) * spec_share(call, &place, index);
        }
    }
    return sum;
}

/* ---- dense kernel ----
 *
 * The threads divide the planes; each adds the gradients of all boxes in order. */

static status_t roi_align_backward_prepare(context_t *ctx, const op_call_t *call,
                                           prepared_t *prepared)
{
    const tensor_info_t *x = call->in[ROI_X];
    int64_t n_pixels = 0, bytes = 0;
    TRY(ops_prepare_dense(ctx, call, prepared));
    if (!shape_multiply(x->sizes[2], x->sizes[3], &n_pixels) ||
        !shape_multiply(n_pixels, (int64_t)sizeof(double) * context_threads(ctx), &bytes))
        return prepared_decline(prepared, "native: too many pixels");
    prepared->scratch_bytes = (size_t)bytes; /* one plane of sums for each thread */
    return STATUS_OK;
}

static double pixel(dtype_t dtype, const char *plane, int64_t i)
{
    if (dtype == DTYPE_F32) return (double)((const float *)(const void *)plane)[i];
    return dtype_load(dtype, plane + (size_t)i * dtype_size(dtype));
}

/* Adds a bin's gradient to its pixels in `sums`. Mode max reads the pixels of x, a plane. */
static void give_bin(int mode, dtype_t dtype, const roi_bin_t *bin, double grad, const char *x,
                     double *sums)
{
    const double part = grad / count_samples(bin);
    double largest = bin->least, of_largest = 0.0;
    int64_t place = 0;
    for (int64_t i = 0; i < count_taps(bin); i++) {
        const tap_t tap = tap_at(bin, i);
        const int64_t at = tap.row * bin->side[1].size + tap.column;
        if (mode != ROI_ALIGN_MAX) {
            sums[at] += tap.weight * part;
            continue;
        }
        const double value = tap.weight * pixel(dtype, x, at);
        if (!(value > largest || isnan(value))) continue;
        largest = value;
        of_largest = tap.weight;
        place = at;
    }
    if (of_largest != 0.0) sums[place] += of_largest * grad;
}

/* Computes the gradient of one channel of one image. */
static void give_plane(const prepared_t *prepared, void *const *in, int64_t plane, double *sums)
{
    const roi_align_attrs_t *attrs = prepared_attrs(prepared);
    const tensor_info_t *x = prepared_input(prepared, ROI_X);
    const tensor_info_t *grad = prepared_input(prepared, ROI_GRAD);
    const dtype_t index_type = prepared_input(prepared, ROI_IMAGES)->dtype;
    const int64_t channels = x->sizes[1], n_bins = grad->sizes[2] * grad->sizes[3];
    const int64_t n_pixels = x->sizes[2] * x->sizes[3];
    const char *src = (const char *)in[ROI_X] + (size_t)(plane * n_pixels) * dtype_size(x->dtype);
    memset(sums, 0, (size_t)n_pixels * sizeof *sums);
    for (int64_t box = 0; box < grad->sizes[0]; box++) {
        roi_side_t side[2];
        if (roi_image_at(index_type, in[ROI_IMAGES], box) != plane / channels) continue;
        roi_find_sides(prepared, in[ROI_BOXES], box, side);
        for (int64_t bin = 0; bin < n_bins; bin++) {
            const roi_bin_t place = roi_find_bin(side, bin / grad->sizes[3], bin % grad->sizes[3]);
            const int64_t at = (box * channels + plane % channels) * n_bins + bin;
            give_bin(attrs->mode, x->dtype, &place, pixel(x->dtype, in[ROI_GRAD], at), src, sums);
        }
    }
}

typedef struct planes {
    const prepared_t *prepared;
    void *const *in;
    char *out;
    double *sums; /* [members][n_pixels] */
    int64_t n_pixels;
} planes_t;

static void give_planes(void *user, int64_t first, int64_t last, int member)
{
    const planes_t *planes = user;
    const dtype_t dtype = prepared_input(planes->prepared, ROI_X)->dtype;
    const int64_t n_pixels = planes->n_pixels;
    double *sums = planes->sums + member * n_pixels;
    for (int64_t i = first; i < last; i++) {
        give_plane(planes->prepared, planes->in, i, sums);
        dtype_cast(n_pixels, DTYPE_F64, sums, 1, dtype,
                   planes->out + (size_t)(i * n_pixels) * dtype_size(dtype), 1);
    }
}

static status_t roi_align_backward_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                       void *const *out, void *scratch)
{
    const tensor_info_t *x = prepared_input(prepared, ROI_X);
    const int64_t numel = 16 * info_numel(prepared_input(prepared, ROI_GRAD)) + info_numel(x);
    planes_t planes = {prepared, in, out[0], scratch, x->sizes[2] * x->sizes[3]};
    TRY(roi_check_boxes(ctx, prepared, in));
    threads_share_members(threads_for(ctx, numel), x->sizes[0] * x->sizes[1], give_planes, &planes);
    return STATUS_OK;
}

const opdef_t op_def_roi_align_backward = {
    .name = "roi_align_backward",
    FUNCTIONS_OF(roi_align_backward),
    .preference = OP_DENSE,
    .attrs = {sizeof(roi_align_attrs_t), 5, roi_align_fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", roi_align_backward_prepare, roi_align_backward_run))};
