/* Gradients of grid_sample. A sample's gradient, times the weights of its taps (grid_sample.c), is
 * added to the taps' pixels. Times the derivatives of the weights, it is the gradient of the grid.
 * As in PyTorch, the grid has no gradient in mode nearest, and none in dimensions in which the
 * position was moved to the edge. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/vision/grid_sample_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"grid", ROLE_ACTIVATION, false, false},
                                     {"grad", ROLE_ACTIVATION, false, false}};
enum { X, GRID, GRAD };
enum { OF_X, OF_GRID };

static status_t grid_sample_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                           tensor_info_t *out)
{
    const tensor_info_t *grad = call->in[GRAD];
    tensor_info_t sampled;
    op_call_t forward = *call;
    forward.op = &op_def_grid_sample;
    forward.n_in = 2;
    TRY(forward.op->infer(ctx, &forward, out_n, &sampled));
    REQUIRE(ctx, sizes_are_like(ctx, grad, &sampled),
            "grid_sample_backward: grad is %s, the samples are %s", info_brief(grad),
            info_brief(&sampled));
    for (int i = X; i <= GRID; i++)
        out[i] = info_dense(call->in[i]->dtype, call->in[i]->rank, call->in[i]->sizes);
    return STATUS_OK;
}

/* ---- a position: its taps in each dimension, and all combinations of them ---- */

typedef struct sample {
    int n_spatial;
    grid_taps_t taps[GRID_MAX_SPATIAL];
} sample_t;

static sample_t find_sample(const grid_sample_attrs_t *attrs, const tensor_info_t *x,
                            const double *place)
{
    sample_t s = {.n_spatial = x->rank - 2};
    for (int d = 0; d < GRID_MAX_SPATIAL; d++) s.taps[d] = (grid_taps_t){.n = 1, .weight = {1.0}};
    for (int d = 0; d < s.n_spatial; d++) /* the grid's order is x, y, z */
        s.taps[d] = grid_find_taps(attrs, x->dtype, place[s.n_spatial - 1 - d], x->sizes[d + 2]);
    return s;
}

static int count_combinations(const sample_t *s)
{
    return s->taps[0].n * s->taps[1].n * s->taps[2].n;
}

/* Pixel and weight of combination i of the taps of all dimensions. In dimension `moved` (-1: none),
 * the derivative replaces the weight. Returns false if the pixel is outside of x. */
static bool combine(const sample_t *s, int i, int moved, int64_t *out_at, double *out_weight)
{
    const int which[] = {i / s->taps[2].n / s->taps[1].n, i / s->taps[2].n % s->taps[1].n,
                         i % s->taps[2].n};
    *out_weight = 1.0;
    for (int d = 0; d < GRID_MAX_SPATIAL && d < s->n_spatial; d++) {
        const grid_taps_t *taps = &s->taps[d];
        out_at[d] = taps->index[which[d]];
        if (out_at[d] < 0) return false;
        *out_weight *= d == moved ? taps->slope[which[d]] : taps->weight[which[d]];
    }
    return true;
}

/* ---- specification ---- */

static sample_t spec_sample(const spec_call_t *call, const int64_t *place)
{
    const tensor_info_t *x = call->in[X];
    const int n_spatial = x->rank - 2;
    int64_t at[TENSOR_MAX_RANK];
    double numbers[GRID_MAX_SPATIAL];
    memcpy(at, place, (size_t)(n_spatial + 1) * sizeof *at);
    for (int i = 0; i < n_spatial; i++) {
        at[n_spatial + 1] = i;
        numbers[i] = spec_at(call, GRID, at);
    }
    return find_sample(call->attrs, x, numbers);
}

/* Gradient of a pixel: a sum over all samples to which it contributes. */
static double spec_x(const spec_call_t *call, const int64_t *index)
{
    const tensor_info_t *grad = call->in[GRAD];
    const int n_spatial = grad->rank - 2;
    int64_t place[TENSOR_MAX_RANK] = {index[0]}, at_grad[TENSOR_MAX_RANK] = {index[0], index[1]};
    double sum = 0.0;
    if (info_numel(grad) == 0) return 0.0;
    do {
        memcpy(&place[1], &at_grad[2], (size_t)n_spatial * sizeof *place);
        const sample_t s = spec_sample(call, place);
        for (int i = 0; i < count_combinations(&s); i++) {
            int64_t at[GRID_MAX_SPATIAL];
            double weight = 0.0;
            if (combine(&s, i, -1, at, &weight) &&
                memcmp(at, &index[2], (size_t)n_spatial * sizeof *at) == 0)
                sum += weight * spec_at(call, GRAD, at_grad);
        }
    } while (shape_next(n_spatial, &grad->sizes[2], &at_grad[2]));
    return sum;
}

/* Gradient of a grid element: a sum over the channels, which all have the same taps. */
static double spec_grid(const spec_call_t *call, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const int n_spatial = x->rank - 2, moved = n_spatial - 1 - (int)index[n_spatial + 1];
    int64_t at_grad[TENSOR_MAX_RANK] = {index[0]}, at_x[TENSOR_MAX_RANK] = {index[0]};
    const sample_t s = spec_sample(call, index);
    double sum = 0.0;
    memcpy(&at_grad[2], &index[1], (size_t)n_spatial * sizeof *at_grad);
    for (int64_t c = 0; c < x->sizes[1]; c++) {
        at_grad[1] = at_x[1] = c;
        for (int i = 0; i < count_combinations(&s); i++) {
            double weight = 0.0;
            if (combine(&s, i, moved, &at_x[2], &weight))
                sum += weight * spec_at(call, X, at_x) * spec_at(call, GRAD, at_grad);
        }
    }
    return sum;
}

static double grid_sample_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    return output == OF_X ? spec_x(call, index) : spec_grid(call, index);
}

/* ---- dense kernel ---- */

#define LANES 8 /* channels computed at once */

typedef struct sizes {
    dtype_t dtype;
    int64_t channels, n_pixels, n_places;
} sizes_t;

static sizes_t find_sizes(const tensor_info_t *x, const tensor_info_t *grad)
{
    sizes_t sizes = {x->dtype, x->sizes[1], 1, 1};
    for (int d = 2; d < x->rank; d++) {
        sizes.n_pixels *= x->sizes[d];
        sizes.n_places *= grad->sizes[d];
    }
    return sizes;
}

/* Scratch memory: for each thread, LANES planes of sums in double. */
static status_t grid_sample_backward_prepare(context_t *ctx, const op_call_t *call,
                                             prepared_t *prepared)
{
    const sizes_t sizes = find_sizes(call->in[X], call->in[GRAD]);
    const int n_threads = context_threads(ctx);
    int64_t bytes = 0;
    TRY(ops_prepare_dense(ctx, call, prepared));
    if (!shape_multiply(sizes.n_pixels, (int64_t)sizeof(double) * LANES * n_threads, &bytes))
        return prepared_decline(prepared, "native: too many pixels");
    prepared->scratch_bytes = (size_t)bytes;
    return STATUS_OK;
}

typedef struct run {
    const prepared_t *prepared;
    sizes_t sizes;
    const char *x, *grid, *grad;
} run_t;

static sample_t read_sample(const run_t *run, int64_t place)
{
    const tensor_info_t *x = prepared_input(run->prepared, X);
    const int n_spatial = x->rank - 2;
    const size_t size = dtype_size(x->dtype);
    double numbers[GRID_MAX_SPATIAL];
    dtype_cast(n_spatial, x->dtype, run->grid + (size_t)(place * n_spatial) * size, 1, DTYPE_F64,
               numbers, 1);
    return find_sample(prepared_attrs(run->prepared), x, numbers);
}

static int64_t number_of(const run_t *run, const int64_t *at)
{
    const tensor_info_t *x = prepared_input(run->prepared, X);
    int64_t number = 0;
    for (int d = 2; d < x->rank; d++) number = number * x->sizes[d] + at[d - 2];
    return number;
}

static double load(const run_t *run, const char *from, int64_t index)
{
    const dtype_t dtype = run->sizes.dtype;
    if (dtype == DTYPE_F32) return (double)((const float *)(const void *)from)[index];
    return dtype_load(dtype, from + (size_t)index * dtype_size(dtype));
}

/* Computes the image gradient of n channels from `first` on, all of one image. Channels are
 * numbered over all images. */
static void give(const run_t *run, int64_t first, int64_t n, double *sums, char *out)
{
    const sizes_t *sizes = &run->sizes;
    const int64_t image = first / sizes->channels;
    memset(sums, 0, (size_t)(sizes->n_pixels * n) * sizeof *sums);
    for (int64_t p = 0; p < sizes->n_places; p++) {
        const sample_t s = read_sample(run, image * sizes->n_places + p);
        double grads[LANES];
        for (int64_t c = 0; c < n; c++)
            grads[c] = load(run, run->grad, (first + c) * sizes->n_places + p);
        for (int i = 0; i < count_combinations(&s); i++) {
            int64_t at[GRID_MAX_SPATIAL];
            double weight = 0.0;
            if (!combine(&s, i, -1, at, &weight)) continue;
            double *to = sums + number_of(run, at) * n;
            for (int64_t c = 0; c < n; c++) to[c] += weight * grads[c];
        }
    }
    for (int64_t c = 0; c < n; c++)
        dtype_cast(sizes->n_pixels, DTYPE_F64, sums + c, n, sizes->dtype,
                   out + (size_t)((first + c) * sizes->n_pixels) * dtype_size(sizes->dtype), 1);
}

static void move(const run_t *run, int64_t place, char *out)
{
    const sizes_t *sizes = &run->sizes;
    const int64_t image = place / sizes->n_places, p = place % sizes->n_places;
    const sample_t s = read_sample(run, place);
    for (int k = 0; k < s.n_spatial; k++) {
        double sum = 0.0;
        for (int i = 0; i < count_combinations(&s); i++) {
            int64_t at[GRID_MAX_SPATIAL];
            double weight = 0.0;
            if (!combine(&s, i, s.n_spatial - 1 - k, at, &weight) || weight == 0.0) continue;
            const int64_t pixel = number_of(run, at);
            for (int64_t c = image * sizes->channels; c < (image + 1) * sizes->channels; c++)
                sum += weight * load(run, run->x, c * sizes->n_pixels + pixel) *
                       load(run, run->grad, c * sizes->n_places + p);
        }
        dtype_store(sizes->dtype,
                    out + (size_t)(place * s.n_spatial + k) * dtype_size(sizes->dtype), sum);
    }
}

typedef struct parts {
    const run_t *run;
    int64_t per_image; /* groups of LANES channels in an image */
    double *sums;      /* [members][n_pixels][LANES] */
    char *out;
} parts_t;

static void give_parts(void *user, int64_t begin, int64_t end, int member)
{
    const parts_t *parts = user;
    const sizes_t *sizes = &parts->run->sizes;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % parts->per_image * LANES, left = sizes->channels - first;
        give(parts->run, i / parts->per_image * sizes->channels + first,
             left < LANES ? left : LANES, parts->sums + member * sizes->n_pixels * LANES,
             parts->out);
    }
}

static void move_positions(void *user, int64_t first, int64_t last)
{
    const parts_t *parts = user;
    for (int64_t place = first; place < last; place++) move(parts->run, place, parts->out);
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const tensor_info_t *x = prepared_input(prepared, X), *grad = prepared_input(prepared, GRAD);
    const run_t run = {prepared, find_sizes(x, grad), in[X], in[GRID], in[GRAD]};
    const int64_t per_image = (run.sizes.channels + LANES - 1) / LANES;
    const int n_threads = threads_for(ctx, 16 * info_numel(grad) + info_numel(x));
    parts_t of_x = {&run, per_image, scratch, out[OF_X]},
            of_grid = {.run = &run, .out = out[OF_GRID]};
    threads_share_members(n_threads, x->sizes[0] * per_image, give_parts, &of_x);
    threads_share(n_threads, x->sizes[0] * run.sizes.n_places, move_positions, &of_grid);
    return STATUS_OK;
}

const opdef_t op_def_grid_sample_backward = {
    .name = "grid_sample_backward",
    .preference = OP_DENSE,
    .attrs = {sizeof(grid_sample_attrs_t), 3, grid_sample_fields},
    OPERANDS(operands),
    .n_outputs = 2,
    .infer = grid_sample_backward_infer,
    .infers_symbols = true,
    .kernels = KERNELS(KERNEL("native", grid_sample_backward_prepare, run_native)),
    .spec = grid_sample_backward_spec};
