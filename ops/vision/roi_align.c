/* Resamples boxes of images to one size, as detectors do with regions of interest.
 *
 * A box is divided into P x Q bins, and a bin into a grid of cells. Each cell's centre is a sample,
 * interpolated from the four pixels around it. The result of a bin is the mean of its samples, or
 * the largest product of a pixel and its weight. */
#include <math.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/vision/roi_align_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const char *const modes[] = {"mean", "max", NULL};

const attr_field_t roi_align_fields[5] = {
    FIELD_OR(roi_align_attrs_t, ATTR_ARRAY, output_size, 2, 1),
    FIELD_OR(roi_align_attrs_t, ATTR_FLOAT, spatial_scale, 0, 1),
    FIELD_INT(roi_align_attrs_t, sampling_ratio, 0), FIELD_BOOL(roi_align_attrs_t, aligned, 0),
    FIELD_NAME(roi_align_attrs_t, mode, ROI_ALIGN_MEAN, modes)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"boxes", ROLE_ACTIVATION, false, false},
                                     {"images", ROLE_ACTIVATION, false, false}};

static status_t roi_align_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const roi_align_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[ROI_X], *boxes = call->in[ROI_BOXES],
                        *images = call->in[ROI_IMAGES];
    const int64_t *size = attrs->output_size;
    char text[INFO_TEXT_MAX];
    REQUIRE(ctx, dtype_is_floating(x->dtype) && x->dtype == boxes->dtype,
            "roi_align: x %s and boxes %s, one floating dtype is needed", info_text(x, text),
            info_brief(boxes));
    REQUIRE(ctx, x->rank == 4 && sym_less(ctx, 0, x->sizes[2]) && sym_less(ctx, 0, x->sizes[3]),
            "roi_align: x is %s, images with pixels are needed", info_brief(x));
    REQUIRE(ctx, boxes->rank == 2 && sym_equal(ctx, boxes->sizes[1], 4),
            "roi_align: boxes are %s, rows of 4 numbers are needed", info_brief(boxes));
    REQUIRE(ctx,
            (images->dtype == DTYPE_S64 || images->dtype == DTYPE_S32) && images->rank == 1 &&
                sym_equal(ctx, images->sizes[0], boxes->sizes[0]),
            "roi_align: images are %s, s64 or s32 for each of the boxes %s is needed",
            info_text(images, text), info_brief(boxes));
    REQUIRE(ctx, sym_at_most(ctx, 1, size[0]) && sym_at_most(ctx, 1, size[1]),
            "roi_align: output_size %lld x %lld, positive ones "
            "are needed",
            (long long)size[0], (long long)size[1]);
    REQUIRE(ctx, attrs->sampling_ratio >= 0 && attrs->sampling_ratio <= ROI_MAX_SAMPLES,
            "roi_align: sampling_ratio %lld, 0 to %d are possible",
            (long long)attrs->sampling_ratio, ROI_MAX_SAMPLES);
    const int64_t sizes[] = {boxes->sizes[0], x->sizes[1], size[0], size[1]};
    TRY(shape_check(ctx, "roi_align", x->dtype, 4, sizes));
    out[0] = info_dense(x->dtype, 4, sizes);
    return STATUS_OK;
}

/* ---- geometry, separately for height and width ---- */

/* Rounds a number to f32, unless dtype is f64. */
static double narrow(dtype_t dtype, double number)
{
    return dtype == DTYPE_F64 ? number : (double)(float)number;
}

/* Computes in f32, like torchvision and ONNX Runtime: the number of samples can depend on the last
 * bit of the length. */
roi_side_t roi_find_side(const roi_align_attrs_t *attrs, dtype_t dtype, double low, double high,
                         int64_t n_bins, int64_t size)
{
    const double offset = attrs->aligned ? 0.5 : 0.0, scale = narrow(dtype, attrs->spatial_scale);
    roi_side_t side = {.start = narrow(dtype, narrow(dtype, low * scale) - offset), .size = size};
    const double end = narrow(dtype, narrow(dtype, high * scale) - offset);
    double length = narrow(dtype, end - side.start);
    if (!attrs->aligned && length < 1.0) length = 1.0;
    side.bin = narrow(dtype, length / (double)n_bins);
    side.n_samples = attrs->sampling_ratio > 0 ? (double)attrs->sampling_ratio : ceil(side.bin);
    return side;
}

roi_taps_t roi_find_taps(const roi_side_t *side, int64_t bin, int64_t sample)
{
    double at = side->start + (double)bin * side->bin +
                ((double)sample + 0.5) * side->bin / side->n_samples;
    roi_taps_t taps = {.is_outside = !(at >= -1.0 && at <= (double)side->size), .index = {0}};
    if (taps.is_outside) return taps;
    if (at < 0.0) at = 0.0;
    if (at > (double)(side->size - 1)) at = (double)(side->size - 1);
    taps.index[0] = (int64_t)at;
    taps.index[1] = taps.index[0] + (taps.index[0] < side->size - 1);
    taps.weight[1] = at - (double)taps.index[0];
    taps.weight[0] = 1.0 - taps.weight[1];
    return taps;
}

roi_bin_t roi_find_bin(const roi_side_t *side, int64_t row, int64_t column)
{
    roi_bin_t bin = {.side = side, .index = {row, column}, .least = -INFINITY};
    for (int d = 0; d < 2; d++) {
        const int64_t n = (int64_t)side[d].n_samples;
        while (bin.first[d] < n && roi_find_taps(&side[d], bin.index[d], bin.first[d]).is_outside)
            bin.first[d]++;
        bin.last[d] = bin.first[d];
        while (bin.last[d] < n && !roi_find_taps(&side[d], bin.index[d], bin.last[d]).is_outside)
            bin.last[d]++;
        if (bin.last[d] - bin.first[d] < n) bin.least = 0.0;
    }
    return bin;
}

/* Result of a bin; 0 if it has no samples. */
static double combine(int mode, double sum, double largest, double n)
{
    if (n <= 0.0) return 0.0;
    return mode == ROI_ALIGN_MAX ? largest : sum / n;
}

/* ---- specification ---- */

static double roi_align_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const roi_align_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[ROI_X];
    const int64_t box = index[0];
    int64_t at[] = {(int64_t)spec_at(call, ROI_IMAGES, &box), index[1], 0, 0};
    roi_side_t side[2];
    double sum = 0.0;
    for (int d = 0; d < 2; d++) {
        const int64_t low[] = {box, 1 - d}, high[] = {box, 3 - d};
        side[d] = roi_find_side(attrs, x->dtype, spec_at(call, ROI_BOXES, low),
                                spec_at(call, ROI_BOXES, high), attrs->output_size[d],
                                x->sizes[2 + d]);
    }
    const roi_bin_t bin = roi_find_bin(side, index[2], index[3]);
    double largest = bin.least;
    for (int64_t i = bin.first[0]; i < bin.last[0]; i++)
        for (int64_t k = bin.first[1]; k < bin.last[1]; k++) {
            const roi_taps_t rows = roi_find_taps(&side[0], index[2], i);
            const roi_taps_t columns = roi_find_taps(&side[1], index[3], k);
            for (int tap = 0; tap < 4; tap++) {
                at[2] = rows.index[tap / 2];
                at[3] = columns.index[tap % 2];
                const double weight = rows.weight[tap / 2] * columns.weight[tap % 2];
                const double value = weight * spec_at(call, ROI_X, at);
                sum += value;
                largest = value > largest || isnan(value) ? value : largest;
            }
        }
    return combine(attrs->mode, sum, largest, side[0].n_samples * side[1].n_samples);
}

/* ---- dense kernel ---- */

static double pixel(dtype_t dtype, const char *plane, int64_t i)
{
    if (dtype == DTYPE_F32) return (double)((const float *)(const void *)plane)[i];
    return dtype_load(dtype, plane + (size_t)i * dtype_size(dtype));
}

static double pool_bin(int mode, dtype_t dtype, const char *plane, const roi_side_t *side,
                       int64_t p, int64_t q)
{
    const roi_bin_t bin = roi_find_bin(side, p, q);
    double sum = 0.0, largest = bin.least;
    for (int64_t i = bin.first[0]; i < bin.last[0]; i++) {
        const roi_taps_t rows = roi_find_taps(&side[0], p, i);
        for (int64_t k = bin.first[1]; k < bin.last[1]; k++) {
            const roi_taps_t columns = roi_find_taps(&side[1], q, k);
            for (int tap = 0; tap < 4; tap++) {
                const int64_t at = rows.index[tap / 2] * side[1].size + columns.index[tap % 2];
                const double weight = rows.weight[tap / 2] * columns.weight[tap % 2];
                const double value = weight * pixel(dtype, plane, at);
                sum += value;
                largest = value > largest || isnan(value) ? value : largest;
            }
        }
    }
    return combine(mode, sum, largest, side[0].n_samples * side[1].n_samples);
}

void roi_find_sides(const prepared_t *prepared, const void *boxes, int64_t box,
                    roi_side_t *out_sides)
{
    const roi_align_attrs_t *attrs = prepared_attrs(prepared);
    const tensor_info_t *x = prepared_input(prepared, ROI_X);
    double corner[4];
    dtype_cast(4, x->dtype, (const char *)boxes + (size_t)(box * 4) * dtype_size(x->dtype), 1,
               DTYPE_F64, corner, 1);
    for (int d = 0; d < 2; d++)
        out_sides[d] = roi_find_side(attrs, x->dtype, corner[1 - d], corner[3 - d],
                                     attrs->output_size[d], x->sizes[2 + d]);
}

int64_t roi_image_at(dtype_t dtype, const void *images, int64_t box)
{
    return dtype_load_integer(dtype, (const char *)images + (size_t)box * dtype_size(dtype));
}

status_t roi_check_boxes(context_t *ctx, const prepared_t *prepared, void *const *in)
{
    const tensor_info_t *x = prepared_input(prepared, ROI_X),
                        *images = prepared_input(prepared, ROI_IMAGES);
    for (int64_t box = 0; box < images->sizes[0]; box++) {
        const int64_t image = roi_image_at(images->dtype, in[ROI_IMAGES], box);
        roi_side_t side[2];
        REQUIRE(ctx, image >= 0 && image < x->sizes[0],
                "roi_align: box %lld is of image %lld, x has %lld", (long long)box,
                (long long)image, (long long)x->sizes[0]);
        roi_find_sides(prepared, in[ROI_BOXES], box, side);
        for (int d = 0; d < 2; d++)
            REQUIRE(ctx, isfinite(side[d].start) && side[d].n_samples <= ROI_MAX_SAMPLES,
                    "roi_align: box %lld begins at %g with bins of %g, finite ones of at most %d "
                    "are needed",
                    (long long)box, side[d].start, side[d].bin, ROI_MAX_SAMPLES);
    }
    return STATUS_OK;
}

typedef struct planes {
    const prepared_t *prepared;
    void *const *in;
    char *out;
} planes_t;

static void run_planes(void *user, int64_t first, int64_t last)
{
    const planes_t *planes = user;
    const prepared_t *prepared = planes->prepared;
    const roi_align_attrs_t *attrs = prepared_attrs(prepared);
    const tensor_info_t *x = prepared_input(prepared, ROI_X), *y = prepared_output(prepared, 0);
    const dtype_t index_type = prepared_input(prepared, ROI_IMAGES)->dtype;
    const size_t size = dtype_size(x->dtype);
    const int64_t channels = x->sizes[1], n_pixels = x->sizes[2] * x->sizes[3];
    for (int64_t plane = first; plane < last; plane++) {
        const int64_t box = plane / channels;
        const int64_t image = roi_image_at(index_type, planes->in[ROI_IMAGES], box);
        const char *src = (const char *)planes->in[ROI_X] +
                          (size_t)((image * channels + plane % channels) * n_pixels) * size;
        char *dst = planes->out + (size_t)(plane * y->sizes[2] * y->sizes[3]) * size;
        roi_side_t side[2];
        roi_find_sides(prepared, planes->in[ROI_BOXES], box, side);
        for (int64_t p = 0; p < y->sizes[2]; p++)
            for (int64_t q = 0; q < y->sizes[3]; q++, dst += size)
                dtype_store(x->dtype, dst, pool_bin(attrs->mode, x->dtype, src, side, p, q));
    }
}

static status_t roi_align_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                              void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = prepared_input(prepared, ROI_X), *y = prepared_output(prepared, 0);
    planes_t planes = {prepared, in, out[0]};
    TRY(roi_check_boxes(ctx, prepared, in));
    threads_share(threads_for(ctx, 16 * info_numel(y)), y->sizes[0] * x->sizes[1], run_planes,
                  &planes);
    return STATUS_OK;
}

/* As in torchvision, boxes have no gradient; requesting it is an error. */
static void roi_align_pass(const gradient_call_t *call)
{
    const value_t in[] = {call->in[ROI_X], call->in[ROI_BOXES], call->in[ROI_IMAGES],
                          call->out_grad[0]};
    if (call->is_wanted[ROI_BOXES])
        emit_fail(call->emitter, STATUS_UNSUPPORTED,
                  "roi_align: boxes have no gradient, detached ones are needed");
    else
        call->in_grad[ROI_X] = emit_op(call->emitter, &op_def_roi_align_backward, call->attrs, 4,
                                       in);
}

const opdef_t op_def_roi_align = {
    .name = "roi_align",
    FUNCTIONS_OF(roi_align),
    .preference = OP_DENSE,
    .attrs = {sizeof(roi_align_attrs_t), 5, roi_align_fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", ops_prepare_dense, roi_align_run)),
    .gradient = GRADIENT(.pass = roi_align_pass,
                         .reads_in = 1u << ROI_X | 1u << ROI_BOXES | 1u << ROI_IMAGES)};

status_t op_roi_align(context_t *ctx, const tensor_t *x, const tensor_t *boxes,
                      const tensor_t *images, const roi_align_attrs_t *attrs, tensor_t **out)
{
    const tensor_t *in[] = {x, boxes, images};
    return dispatch_run(ctx, &op_def_roi_align, attrs, 3, in, NULL, out);
}
