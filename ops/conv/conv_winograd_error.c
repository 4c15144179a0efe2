/* Measures the error of Winograd's transforms for a given weight: computes some outputs of a few
 * random tiles, and compares them with sums in double. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/conv/conv_winograd_impl.h"
#include "ops/sample_impl.h"
#include "tensor/context_impl.h"

enum { MAX_OUTPUTS = 16, N_TILES = 2 };

typedef struct sample {
    winograd_t winograd;
    isa_t isa;
    int64_t lanes;
    float *x, *out, *plain, *weight; /* plain: weights of the compared outputs, row-major */
    void *scratch;
} sample_t;

/* Index of channel c, point `at`, of image n in a tensor with blocks of `lanes` channels. Images
 * are side x side: each is one tile. */
static int64_t place(const sample_t *s, int64_t n_channels, int64_t side, int64_t n, int64_t c,
                     int64_t at)
{
    const int64_t n_blocks = (n_channels + s->lanes - 1) / s->lanes;
    return ((n * n_blocks + c / s->lanes) * side * side + at) * s->lanes + c % s->lanes;
}

static double sum_at(const sample_t *s, int64_t n, int64_t k, int64_t y, int64_t x)
{
    const winograd_t *w = &s->winograd;
    double sum = 0.0;
    for (int64_t c = 0; c < w->n_inputs; c++) {
        const float *weight = s->plain + (k * w->n_inputs + c) * w->kernel * w->kernel;
        for (int64_t i = 0; i < w->kernel * w->kernel; i++) {
            const int64_t row = y * w->stride + i / w->kernel;
            const int64_t at = row * w->width + x * w->stride + i % w->kernel;
            sum += (double)s->x[place(s, w->n_inputs, w->width, n, c, at)] * (double)weight[i];
        }
    }
    return sum;
}

static double compare(const sample_t *s)
{
    const winograd_t *w = &s->winograd;
    sample_error_t error = {0.0, 0.0};
    for (int64_t n = 0; n < w->n_images; n++)
        for (int64_t k = 0; k < w->n_outputs; k++)
            for (int64_t at = 0; at < w->out_height * w->out_width; at++) {
                const double sum = sum_at(s, n, k, at / w->out_width, at % w->out_width);
                const double is = (double)s->out[place(s, w->n_outputs, w->out_width, n, k, at)];
                sample_add(&error, is - sum, sum);
            }
    return sample_ratio(&error);
}

static status_t allocate(context_t *ctx, sample_t *s)
{
    static const char purpose[] = "a sample of a convolution";
    const winograd_t *w = &s->winograd;
    const size_t n_x = (size_t)place(s, w->n_inputs, w->width, w->n_images, 0, 0);
    const size_t n_out = (size_t)place(s, w->n_outputs, w->out_width, w->n_images, 0, 0);
    const size_t n_plain = (size_t)(w->n_outputs * w->n_inputs * w->kernel * w->kernel);
    const size_t n_weight = (size_t)winograd_weight_elements(w->tile, w->kernel, w->n_inputs,
                                                             w->n_outputs, s->isa);
    TRY(context_get_zeroed(ctx, n_x * sizeof *s->x, purpose, &s->x));
    TRY(context_get(ctx, n_out * sizeof *s->out, purpose, &s->out));
    TRY(context_get(ctx, n_plain * sizeof *s->plain, purpose, &s->plain));
    TRY(context_get(ctx, n_weight * sizeof *s->weight, purpose, &s->weight));
    return context_get(ctx, winograd_scratch(w, s->isa, 1), purpose, &s->scratch);
}

static void fill(sample_t *s, const tensor_info_t *weight, const float *bytes)
{
    winograd_t *w = &s->winograd;
    const int64_t size = w->n_inputs * w->kernel * w->kernel; /* weights of one output */
    uint64_t state = 1;
    for (int64_t n = 0; n < w->n_images; n++)
        for (int64_t c = 0; c < w->n_inputs; c++)
            for (int64_t at = 0; at < w->height * w->width; at++)
                s->x[place(s, w->n_inputs, w->width, n, c, at)] = sample_draw(&state);
    for (int64_t k = 0; k < w->n_outputs; k++)
        memcpy(s->plain + k * size, bytes + k * weight->sizes[0] / w->n_outputs * size,
               (size_t)size * sizeof *bytes);
    winograd_weight_t plain = winograd_plain_weight(w->tile, w->kernel, w->stride, w->n_inputs,
                                                    w->n_outputs, s->plain);
    plain.in_pairs = w->in_pairs;
    winograd_pack(&plain, s->isa, 1, s->weight);
}

/* True if all weights are finite, and stay finite in the transform. */
static bool is_transformable(int64_t n, const float *weight)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(weight[i]) < FLT_MAX / 64.0f)) return false;
    return true;
}

status_t conv_winograd_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int64_t stride, int size, double *out_error)
{
    const int tile = conv_winograd_tile(weight->sizes[2], stride, size);
    return conv_winograd_tile_error(ctx, weight, bytes, stride, tile, out_error);
}

status_t conv_winograd_pairs_error(context_t *ctx, const conv_attrs_t *attrs,
                                   const tensor_info_t *weight, const float *bytes,
                                   double *out_error)
{
    const tensor_info_t narrow = info_dense(DTYPE_BF16, weight->rank, weight->sizes);
    *out_error = 0.0;
    if (!conv_winograd_fits(weight, attrs->stride, attrs->dilation, attrs->groups, 2) ||
        !conv_winograd_is_in_pairs(&narrow, 2))
        return STATUS_OK;
    return conv_winograd_error(ctx, &narrow, bytes, attrs->stride[0], 2, out_error);
}

status_t conv_winograd_tile_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                                  int64_t stride, int tile, double *out_error)
{
    const int kernel = (int)weight->sizes[2];
    const int side = winograd_side(tile, kernel, (int)stride);
    const bool in_pairs = conv_winograd_is_in_pairs(weight, tile + kernel - 3);
    sample_t s = {.isa = isa_best()};
    *out_error = NAN;
    if (!is_transformable(info_numel(weight), bytes)) return STATUS_OK;
    if (in_pairs && !winograd_has_pairs(s.isa)) s.isa = ISA_PORTABLE;
    s.lanes = isa_lanes(s.isa);
    s.winograd = (winograd_t){.tile = tile,
                              .kernel = kernel,
                              .stride = (int)stride,
                              .n_images = N_TILES,
                              .n_inputs = weight->sizes[1],
                              .n_outputs = weight->sizes[0] < MAX_OUTPUTS ? weight->sizes[0]
                                                                          : MAX_OUTPUTS,
                              .height = side,
                              .width = side,
                              .out_height = tile,
                              .out_width = tile,
                              .in_pairs = in_pairs};
    status_t status = allocate(ctx, &s);
    if (status == STATUS_OK) {
        fill(&s, weight, bytes);
        s.winograd.x = s.x;
        s.winograd.weight = s.weight;
        s.winograd.out = s.out;
        winograd_run(&s.winograd, s.isa, 1, s.scratch);
        *out_error = compare(&s);
    }
    CONTEXT_PUT(ctx, s.x, s.out, s.plain, s.weight, s.scratch);
    return status;
}
