/* Samples images between their pixels, at the positions of a grid.
 *
 * A position has one coordinate for each spatial dimension. Along each dimension, one, two or four
 * pixels contribute with weights (taps). A sample is the sum over all combinations of taps. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/vision/grid_sample_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const char *const modes[] = {"linear", "nearest", "cubic", NULL};
static const char *const paddings[] = {"zeros", "border", "reflection", NULL};

const attr_field_t grid_sample_fields[3] = {
    FIELD_NAME(grid_sample_attrs_t, mode, GRID_LINEAR, modes),
    FIELD_NAME(grid_sample_attrs_t, padding, GRID_ZEROS, paddings),
    FIELD_BOOL(grid_sample_attrs_t, align_corners, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"grid", ROLE_ACTIVATION, false, false}};
enum { X, GRID };

static status_t grid_sample_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                  tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *grid = call->in[GRID];
    const grid_sample_attrs_t *attrs = call->attrs;
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    const int n_spatial = x->rank - 2;
    char text[INFO_TEXT_MAX];
    REQUIRE(ctx, dtype_is_floating(x->dtype) && x->dtype == grid->dtype,
            "grid_sample: x %s and grid %s, one floating dtype is needed", info_text(x, text),
            info_brief(grid));
    REQUIRE(ctx, x->rank == 4 || x->rank == 5, "grid_sample: x is %s, images or volumes are needed",
            info_brief(x));
    REQUIRE(ctx,
            grid->rank == x->rank && sym_equal(ctx, grid->sizes[0], x->sizes[0]) &&
                sym_equal(ctx, grid->sizes[grid->rank - 1], n_spatial),
            "grid_sample: grid %s, for x %s places of %d numbers are needed", info_text(grid, text),
            info_brief(x), n_spatial);
    REQUIRE(ctx, attrs->mode != GRID_CUBIC || n_spatial == 2,
            "grid_sample: x is %s, cubic is for images", info_brief(x));
    for (int d = 2; d < x->rank; d++)
        REQUIRE(ctx, sym_less(ctx, 0, x->sizes[d]), "grid_sample: x is %s, an image without pixels",
                info_brief(x));
    sizes[0] = x->sizes[0];
    sizes[1] = x->sizes[1];
    for (int d = 0; d < n_spatial; d++) sizes[d + 2] = grid->sizes[d + 1];
    TRY(shape_check(ctx, "grid_sample", x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

/* ---- taps ---- */

/* Position along one dimension in pixels, and its derivative with respect to the grid's number. */
typedef struct place {
    double at, slope;
} place_t;

/* Mode nearest rounds intermediate results to f32 (unless the grid is f64), like PyTorch and ONNX
 * Runtime: a position halfway between pixels must be rounded to the same pixel. Small errors do not
 * matter in other modes, which stay in double. */
static double round_place(const grid_sample_attrs_t *attrs, dtype_t dtype, double at)
{
    return attrs->mode == GRID_NEAREST && dtype != DTYPE_F64 ? (double)(float)at : at;
}

/* Mirrors a position at both ends until it is between low / 2 and high / 2. */
static place_t reflect(const grid_sample_attrs_t *attrs, dtype_t dtype, place_t place, double low,
                       double high)
{
    if (low == high) return (place_t){0.0, 0.0};
    const double begin = low / 2, span = (high - low) / 2;
    const double far = round_place(attrs, dtype, fabs(place.at - begin)), rest = fmod(far, span);
    const double slope = place.at < begin ? -place.slope : place.slope;
    if (fmod(floor(far / span), 2.0) == 0.0)
        return (place_t){round_place(attrs, dtype, rest + begin), slope};
    return (place_t){round_place(attrs, dtype, span - rest + begin), -slope};
}

/* Moves a position into x, as the padding requires. At the edge, the derivative is 0. */
static place_t move_inside(const grid_sample_attrs_t *attrs, dtype_t dtype, place_t place,
                           int64_t size)
{
    const double last = (double)(size - 1);
    if (attrs->padding == GRID_ZEROS) return place;
    if (attrs->padding == GRID_REFLECTION)
        place = attrs->align_corners ? reflect(attrs, dtype, place, 0.0, 2.0 * last)
                                     : reflect(attrs, dtype, place, -1.0, 2.0 * (double)size - 1.0);
    if (!(place.at > 0.0)) return (place_t){0.0, 0.0}; /* NaN too, as in PyTorch */
    if (place.at >= last) return (place_t){last, 0.0};
    return place;
}

/* Index of the pixel at a position that is an integer; -1 if the position is outside of x or
 * NaN. */
static int64_t pixel_at(double at, int64_t size)
{
    return at >= 0.0 && at < (double)size ? (int64_t)at : -1;
}

#define CUBIC (-0.75)

static double cubic_weight(double distance)
{
    const double a = CUBIC, x = fabs(distance);
    if (x <= 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
}

static double cubic_slope(double distance)
{
    const double a = CUBIC, x = fabs(distance);
    const double slope = x <= 1.0 ? (3.0 * (a + 2.0) * x - 2.0 * (a + 3.0)) * x
                                  : (3.0 * a * x - 10.0 * a) * x + 8.0 * a;
    return distance < 0.0 ? -slope : slope;
}

static place_t find_place(const grid_sample_attrs_t *attrs, dtype_t dtype, double number,
                          int64_t size)
{
    const double from_edge = round_place(attrs, dtype, number + 1.0);
    const double steps = (double)(attrs->align_corners ? size - 1 : size);
    const double at = round_place(attrs, dtype, from_edge / 2.0 * steps);
    return (place_t){attrs->align_corners ? at : round_place(attrs, dtype, at - 0.5), steps / 2.0};
}

grid_taps_t grid_find_taps(const grid_sample_attrs_t *attrs, dtype_t dtype, double number,
                           int64_t size)
{
    const bool is_cubic = attrs->mode == GRID_CUBIC;
    place_t place = find_place(attrs, dtype, number, size);
    grid_taps_t taps = {.n = is_cubic ? 4 : attrs->mode == GRID_LINEAR ? 2 : 1};
    if (!is_cubic) place = move_inside(attrs, dtype, place, size);
    if (attrs->mode == GRID_NEAREST) {
        taps.index[0] = pixel_at(rint(place.at), size);
        taps.weight[0] = 1.0;
        return taps;
    }
    const double low = floor(place.at), first = is_cubic ? low - 1.0 : low;
    for (int i = 0; i < taps.n; i++) {
        place_t pixel = {first + i, 0.0};
        /* Subtracts `low` first: it is near place.at, so the difference is exact. */
        const double distance = place.at - low - (is_cubic ? i - 1 : i);
        taps.weight[i] = is_cubic ? cubic_weight(distance) : 1.0 - fabs(distance);
        taps.slope[i] = place.slope * (is_cubic ? cubic_slope(distance) : i == 0 ? -1.0 : 1.0);
        if (is_cubic) pixel = move_inside(attrs, dtype, pixel, size);
        taps.index[i] = pixel_at(pixel.at, size);
        if (taps.index[i] >= 0) continue;
        taps.weight[i] = isnan(place.at) ? place.at : 0.0; /* a sample at NaN is NaN */
        taps.slope[i] = 0.0;
    }
    return taps;
}

/* ---- specification ---- */

static double grid_sample_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    const int n_spatial = x->rank - 2;
    int64_t place[TENSOR_MAX_RANK] = {index[0]}, at[TENSOR_MAX_RANK] = {index[0], index[1]};
    grid_taps_t taps[GRID_MAX_SPATIAL] = {
        {.n = 1, .weight = {1.0}}, {.n = 1, .weight = {1.0}}, {.n = 1, .weight = {1.0}}};
    double sum = 0.0;
    for (int d = 0; d < n_spatial; d++) place[d + 1] = index[d + 2];
    for (int d = 0; d < n_spatial; d++) {
        place[n_spatial + 1] = n_spatial - 1 - d; /* the grid's order is x, y, z */
        taps[d] = grid_find_taps(call->attrs, x->dtype, spec_at(call, GRID, place),
                                 x->sizes[d + 2]);
    }
    for (int d = 0; d < n_spatial; d++)
        if (isnan(taps[d].weight[0])) return taps[d].weight[0];
    for (int i = 0; i < taps[0].n * taps[1].n * taps[2].n; i++) {
        const int which[] = {i / taps[2].n / taps[1].n, i / taps[2].n % taps[1].n, i % taps[2].n};
        double weight = 1.0;
        bool is_inside = true;
        for (int d = 0; d < n_spatial; d++) {
            at[d + 2] = taps[d].index[which[d]];
            weight *= taps[d].weight[which[d]];
            is_inside = is_inside && at[d + 2] >= 0;
        }
        if (is_inside) sum += weight * spec_at(call, X, at);
    }
    return sum;
}

/* ---- dense kernel: for each position, finds the pixels, then computes all channels ---- */

#define MAX_PIXELS 16

typedef struct pixels {
    int n;
    int64_t offset[MAX_PIXELS]; /* offset in a channel */
    double weight[MAX_PIXELS];
} pixels_t;

static pixels_t find_pixels(const grid_sample_attrs_t *attrs, const tensor_info_t *x,
                            const double *place)
{
    const int n_spatial = x->rank - 2;
    pixels_t pixels = {.n = 1, .offset = {0}, .weight = {1.0}};
    for (int d = 0; d < n_spatial; d++) {
        const grid_taps_t taps = grid_find_taps(attrs, x->dtype, place[n_spatial - 1 - d],
                                                x->sizes[d + 2]);
        const pixels_t before = pixels;
        if (isnan(taps.weight[0])) return (pixels_t){.n = 1, .weight = {taps.weight[0]}};
        pixels.n = 0;
        for (int i = 0; i < before.n; i++)
            for (int k = 0; k < taps.n; k++) {
                if (taps.index[k] < 0) continue;
                pixels.offset[pixels.n] = before.offset[i] * x->sizes[d + 2] + taps.index[k];
                pixels.weight[pixels.n++] = before.weight[i] * taps.weight[k];
            }
    }
    return pixels;
}

static double sample(const pixels_t *pixels, dtype_t dtype, const char *channel)
{
    double sum = 0.0;
    if (dtype == DTYPE_F32) {
        const float *pixel = (const float *)(const void *)channel;
        for (int i = 0; i < pixels->n; i++)
            sum += pixels->weight[i] * (double)pixel[pixels->offset[i]];
        return sum;
    }
    for (int i = 0; i < pixels->n; i++)
        sum += pixels->weight[i] *
               dtype_load(dtype, channel + (size_t)pixels->offset[i] * dtype_size(dtype));
    return sum;
}

typedef struct positions {
    const prepared_t *prepared;
    int64_t n_pixels, n_positions; /* pixels and samples in one image */
    const char *x, *grid;
    char *out;
} positions_t;

static void sample_positions(void *user, int64_t first, int64_t last)
{
    const positions_t *run = user;
    const tensor_info_t *x = &run->prepared->in[X];
    const size_t size = dtype_size(x->dtype);
    const int n_spatial = x->rank - 2;
    for (int64_t p = first; p < last; p++) {
        double position[GRID_MAX_SPATIAL];
        const int64_t channel = p / run->n_positions * x->sizes[1];
        dtype_cast(n_spatial, x->dtype, run->grid + (size_t)(p * n_spatial) * size, 1, DTYPE_F64,
                   position, 1);
        const pixels_t pixels = find_pixels(run->prepared->attrs, x, position);
        for (int64_t c = channel; c < channel + x->sizes[1]; c++)
            dtype_store(x->dtype,
                        run->out + (size_t)(c * run->n_positions + p % run->n_positions) * size,
                        sample(&pixels, x->dtype, run->x + (size_t)(c * run->n_pixels) * size));
    }
}

static status_t grid_sample_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X], *y = &prepared->out[0];
    positions_t positions = {prepared, 1, 1, in[X], in[GRID], out[0]};
    for (int d = 2; d < x->rank; d++) {
        positions.n_pixels *= x->sizes[d];
        positions.n_positions *= y->sizes[d];
    }
    threads_share(threads_for(ctx, info_numel(y)), y->sizes[0] * positions.n_positions,
                  sample_positions, &positions);
    return STATUS_OK;
}

static void grid_sample_pass(const gradient_call_t *call)
{
    const value_t in[] = {call->in[X], call->in[GRID], call->out_grad[0]};
    emit_op_n(call->emitter, &op_def_grid_sample_backward, call->attrs, 3, in, 2, call->in_grad);
}

const opdef_t op_def_grid_sample = {
    .name = "grid_sample",
    FUNCTIONS_OF(grid_sample),
    .preference = OP_DENSE,
    .attrs = {sizeof(grid_sample_attrs_t), 3, grid_sample_fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", ops_prepare_dense, grid_sample_run)),
    .gradient = GRADIENT(.pass = grid_sample_pass, .reads_in = 1u << X | 1u << GRID)};

status_t op_grid_sample(context_t *ctx, const tensor_t *x, const tensor_t *grid, grid_mode_t mode,
                        grid_padding_t padding, bool align_corners, tensor_t **out)
{
    const tensor_t *in[] = {x, grid};
    grid_sample_attrs_t attrs = {(int)mode, (int)padding, align_corners};
    return dispatch_run(ctx, &op_def_grid_sample, &attrs, 2, in, NULL, out);
}
