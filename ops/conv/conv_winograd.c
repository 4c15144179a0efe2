/* 3x3 convolutions with stride 1 or 2, and 5x5 convolutions with stride 1, with Winograd's
 * transforms, in our own kernels.
 *
 * Each size of transform, 2, 4 or 6, is a kernel of the operator. The size is the side of a tile
 * for 3x3, and the side plus 2 for 5x5: then polynomials of one size have the same length and
 * rounding error. Stride 2 has no size 6. Larger tiles need fewer products, round more, and read a
 * larger weight. The attribute `algorithm` determines the allowed sizes. Among these and direct
 * sums, the one with the lowest estimate is chosen.
 *
 * Activations and weight are f32 or bf16. If the processor can multiply pairs of bf16, size 2 of
 * 3x3 bf16 kernels uses these instructions, 2.25 times fewer than direct sums do. All other sizes
 * compute in f32. For bf16, sizes 4 and 6 can take 0.5 and 0.4 of the time of direct sums. But
 * their weights are 8 and 14 times as large, so they are faster only if the weight stays in a
 * cache.
 *
 * Activations are in blocks of the machine's lanes. The packed weight is the transformed weight. */
#include <math.h>
#include <stdio.h>

#include "ops/accept_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS, POST };
/* numbers stored with a packed weight; MORE_STRIDE is stride - 1 */
enum { TILE, LANES, MORE_STRIDE, N_NUMBERS };

#define VERSION 2 /* version of the format of winograd_pack */

typedef struct state {
    winograd_t winograd; /* without pointers */
    isa_t isa;
    int n_threads;
    int addend; /* index of the added input, or -1 */
    char name[CONV_WINOGRAD_NAME_MAX];
} state_t;

/* ---- supported calls ---- */

int conv_winograd_size(int algorithm)
{
    switch (algorithm) {
    case CONV_WINOGRAD:
    case CONV_WINOGRAD_4: return 4;
    case CONV_WINOGRAD_UP_TO_2:
    case CONV_WINOGRAD_2: return 2;
    case CONV_WINOGRAD_UP_TO_6:
    case CONV_WINOGRAD_6: return 6;
    default: return 0;
    }
}

bool conv_winograd_is_exact(int algorithm)
{
    return algorithm == CONV_WINOGRAD_2 || algorithm == CONV_WINOGRAD_4 ||
           algorithm == CONV_WINOGRAD_6;
}

int conv_winograd_tile(int64_t kernel, int64_t stride, int size)
{
    const int64_t tile = size + 3 - kernel;
    if (stride == 2) return kernel == 3 && tile <= 4 ? (int)tile : 0;
    return stride == 1 && (kernel == 3 || kernel == 5) && tile >= 2 ? (int)tile : 0;
}

bool conv_winograd_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups, int size)
{
    return weight->rank == 4 && weight->sizes[2] == weight->sizes[3] && stride[0] == stride[1] &&
           conv_winograd_tile(weight->sizes[2], stride[0], size) > 0 && groups == 1 &&
           dilation[0] == 1 && dilation[1] == 1;
}

bool conv_winograd_has_empty_window(const tensor_info_t *src, const tensor_info_t *weight,
                                    const tensor_info_t *dst, const int64_t *stride,
                                    const int64_t *padding)
{
    for (int i = 0; i < 2; i++) {
        const int64_t last = (dst->sizes[2 + i] - 1) * stride[i] - padding[i];
        if (padding[i] >= weight->sizes[2 + i] || last >= src->sizes[2 + i]) return true;
    }
    return false;
}

/* True if an allowed size supports the call. */
static bool fits(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    for (int size = conv_winograd_size(attrs->algorithm); size >= 2; size -= 2) {
        if (conv_winograd_fits(call->in[WEIGHT], attrs->stride, attrs->dilation, attrs->groups,
                               size))
            return true;
        if (conv_winograd_is_exact(attrs->algorithm)) return false;
    }
    return false;
}

const char *conv_winograd_obstacle(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    if (conv_winograd_size(attrs->algorithm) == 0) return "algorithm does not allow it";
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (!fits(call))
        return "3 by 3, or 5 by 5 of a size above 2, stride 1, or 2 with 3 by 3 of a size up to 4, "
               "dilation 1 and one group are needed";
    if (conv_winograd_has_empty_window(call->in[X], call->in[WEIGHT], &call->out[0], attrs->stride,
                                       attrs->padding))
        return CONV_WINOGRAD_EMPTY_WINDOW;
    const dtype_t dtype = call->in[X]->dtype;
    if ((dtype != DTYPE_F32 && dtype != DTYPE_BF16) || call->in[WEIGHT]->dtype != dtype ||
        (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32))
        return "f32, or bf16 with a bias of f32, is needed";
    if (call->layout != LAYOUT_MKLDNN) return "blocks of channels are needed";
    if (call->weights == WEIGHT_GIVEN && !conv_winograd_is_exact(attrs->algorithm))
        return "the weight would be transformed in each call";
    return NULL;
}

/* ---- estimates ---- */

/* True if the algorithm allows this size. */
static bool is_allowed(int algorithm, int size)
{
    return size == conv_winograd_size(algorithm) ||
           (size < conv_winograd_size(algorithm) && !conv_winograd_is_exact(algorithm));
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Products run at the same share of the peak as in direct convolution. For each point and channel
 * of a tile, the transforms take as long as TRANSFORM_FLOPS operations. */
#define TRANSFORM_FLOPS 40.0

/* Points of all tiles in a row or column of n results. Short tiles (winograd_impl.h) have `stride`
 * points fewer. */
static double count_points(const winograd_t *w, int64_t n)
{
    const int64_t n_tiles = winograd_count_tiles(n, w->tile);
    const int64_t n_short = n_tiles - winograd_count_long(n, w->tile);
    return (double)(n_tiles * winograd_side(w->tile, w->kernel, w->stride) - n_short * w->stride);
}

double conv_winograd_estimate(const context_t *ctx, const winograd_t *w, isa_t isa)
{
    const int64_t lanes = isa_lanes(isa);
    const double n_inputs = (double)round_up(w->n_inputs, lanes);
    const double n_outputs = (double)round_up(w->n_outputs, lanes);
    const double n_points = (double)w->n_images * count_points(w, w->out_height) *
                            count_points(w, w->out_width);
    const double n_weights = (double)winograd_weight_elements(w->tile, w->kernel, w->n_inputs,
                                                              w->n_outputs, isa);
    const double n_at_once = w->in_pairs ? 2.0 : 1.0;
    const double flops = n_points * (2.0 / n_at_once * n_inputs * n_outputs +
                                     TRANSFORM_FLOPS * (n_inputs + n_outputs));
    const double bytes = (w->is_bf16 ? 2.0 : 4.0) * (double)w->n_images *
                         ((double)(w->height * w->width) * n_inputs +
                          (double)(w->out_height * w->out_width) * n_outputs);
    return cost_layer(ctx, "tiles", flops, bytes, n_weights * 4.0 / n_at_once);
}

/* ---- preparing ---- */

/* Results of this size have mostly left the caches before they are read. So they are stored without
 * using the caches, which saves reading the cache lines first. Measured on Zen 4: the next operator
 * is not slower. */
#define LARGE_RESULT ((size_t)6 << 20)

bool conv_winograd_streams(const tensor_info_t *result)
{
    return info_bytes(result) >= LARGE_RESULT;
}

static bool take_act(const post_op_t *post, winograd_t *w)
{
    w->alpha = (float)post->alpha;
    w->beta = (float)post->beta;
    switch (post->eltwise) {
    case ELTWISE_RELU:
        w->act = WINOGRAD_CLAMP;
        w->alpha = 0.0f;
        w->beta = INFINITY;
        return true;
    case ELTWISE_CLAMP: w->act = WINOGRAD_CLAMP; return !isnan(w->alpha) && !isnan(w->beta);
    case ELTWISE_LEAKY_RELU: w->act = WINOGRAD_LEAKY; return true;
    default: return false;
    }
}

status_t conv_winograd_take_post(const op_call_t *call, prepared_t *prepared, winograd_t *winograd,
                                 int *out_addend)
{
    const post_ops_t *post = &((const conv_attrs_t *)call->attrs)->post;
    int i = 0;
    *out_addend = -1;
    if (i < post->n && (post->op[i].kind == POST_SUM || post->op[i].kind == POST_ADD)) {
        const tensor_info_t *operand = call->in[POST], *out = &prepared->out[0];
        if (operand->dtype != out->dtype ||
            !shape_equal(operand->rank, operand->sizes, out->rank, out->sizes))
            return prepared_decline(prepared,
                                    "winograd: adds what has the result's dtype and sizes only");
        TRY(accept_format(call, prepared, POST, &out->format));
        *out_addend = POST;
        prepared->overwrites = UINT64_C(1) << POST;
        i++;
    }
    if (i < post->n && post->op[i].kind == POST_ELTWISE && take_act(&post->op[i], winograd)) i++;
    if (i == post->n) return STATUS_OK;
    return prepared_decline(prepared, "winograd: computes no post-op %s",
                            post->op[i].kind == POST_ELTWISE ? eltwise_name(post->op[i].eltwise)
                                                             : post_name(post->op[i].kind));
}

bool conv_winograd_is_in_pairs(const tensor_info_t *weight, int size)
{
    return weight->dtype == DTYPE_BF16 && weight->sizes[2] == 3 && size == 2;
}

winograd_t conv_winograd_describe(const tensor_info_t *src, const tensor_info_t *weight,
                                  const tensor_info_t *dst, int64_t stride, int size)
{
    const int kernel = (int)weight->sizes[2];
    return (winograd_t){.tile = conv_winograd_tile(kernel, stride, size),
                        .kernel = kernel,
                        .stride = (int)stride,
                        .n_images = src->sizes[0],
                        .n_inputs = src->sizes[1],
                        .n_outputs = dst->sizes[1],
                        .height = src->sizes[2],
                        .width = src->sizes[3],
                        .out_height = dst->sizes[2],
                        .out_width = dst->sizes[3],
                        .is_bf16 = src->dtype == DTYPE_BF16,
                        .in_pairs = conv_winograd_is_in_pairs(weight, size)};
}

void conv_winograd_name(isa_t isa, const winograd_t *w, char *out)
{
    snprintf(out, CONV_WINOGRAD_NAME_MAX, "winograd_%dx%d%s:%s", w->tile, w->tile,
             w->stride == 2 ? "_stride_2" : "", isa_name(isa));
}

static const kernel_rows_t winograd_rows;

/* If a reason applies to all sizes, only the kernel of the largest allowed size reports it. */
static status_t conv_winograd_prepare(context_t *ctx, const op_call_t *call, int size,
                                      prepared_t *prepared)
{
    const char *obstacle = conv_winograd_obstacle(call);
    const conv_attrs_t *attrs = call->attrs;
    const int algorithm = attrs->algorithm;
    if (!is_allowed(algorithm, size)) return STATUS_UNSUPPORTED;
    if (obstacle != NULL && size != conv_winograd_size(algorithm)) return STATUS_UNSUPPORTED;
    if (obstacle != NULL) return prepared_decline(prepared, "winograd: %s", obstacle);
    if (conv_winograd_tile(call->in[WEIGHT]->sizes[2], attrs->stride[0], size) == 0)
        return STATUS_UNSUPPORTED;
    const isa_t isa = isa_best();
    const int64_t lanes = isa_lanes(isa);
    const format_t blocks = format_channel_blocks(4, (int)lanes);
    state_t made = {.winograd = conv_winograd_describe(call->in[X], call->in[WEIGHT], &call->out[0],
                                                       attrs->stride[0], size),
                    .isa = isa};
    state_t *state = NULL;
    winograd_t *w = &made.winograd;
    w->top = attrs->padding[0];
    w->left = attrs->padding[1];
    w->streams = conv_winograd_streams(&call->out[0]);
    if (w->in_pairs && !winograd_is_for_pairs(isa))
        return prepared_decline(prepared, "winograd: this processor multiplies no pairs of bf16");
    TRY(accept_format(call, prepared, X, &blocks));
    TRY(accept_out(call, prepared, 0, &blocks));
    TRY(conv_winograd_take_post(call, prepared, w, &made.addend));
    prepared->cost_ns = conv_winograd_estimate(ctx, w, isa);
    prepared->is_asked_for = conv_winograd_is_exact(algorithm);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    const int64_t numbers[N_NUMBERS] = {
        [TILE] = w->tile, [LANES] = lanes, [MORE_STRIDE] = w->stride - 1};
    const int64_t n_floats = winograd_weight_elements(w->tile, w->kernel, w->n_inputs, w->n_outputs,
                                                      isa);
    const bool is_wider = w->is_bf16 && !w->in_pairs; /* f32, from a weight of bf16 */
    TRY(prepared_want_packed(ctx, prepared, WEIGHT, is_wider ? 2 * n_floats : n_floats, VERSION,
                             N_NUMBERS, numbers));
    conv_set_rows(call, prepared, &winograd_rows);
    made.n_threads = threads_for(ctx, info_numel(&call->out[0]) * w->n_inputs / 16);
    prepared_set_scratch(prepared, winograd_scratch(w, isa, made.n_threads));
    conv_winograd_name(isa, w, made.name);
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    *state = made;
    prepared->implementation = state->name;
    return STATUS_OK;
}

/* ---- running ---- */

/* ISAs with the same number of lanes share one packed format, in f32, or bf16 for pairs. */
static status_t conv_winograd_pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                   const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    isa_t isa = isa_best();
    if (isa_lanes(isa) != numbers[LANES]) isa = ISA_PORTABLE;
    INVARIANT(isa_lanes(isa) == numbers[LANES]);
    const int n_threads = threads_for(ctx, info_numel(from));
    const tensor_info_t wide = info_dense(DTYPE_F32, from->rank, from->sizes);
    float *widened = NULL;
    if (from->dtype != DTYPE_F32) {
        TRY(context_get(ctx, info_bytes(&wide), "a weight in f32", &widened));
        convert_strided(from->rank, from->sizes, from->dtype, wide.format.strides, bytes, DTYPE_F32,
                        wide.format.strides, widened, n_threads);
    }
    winograd_weight_t weight = winograd_plain_weight(
        (int)numbers[TILE], (int)from->sizes[2], (int)numbers[MORE_STRIDE] + 1, from->sizes[1],
        from->sizes[0], widened != NULL ? widened : bytes);
    weight.in_pairs = conv_winograd_is_in_pairs(from, weight.tile + weight.kernel - 3);
    if (weight.in_pairs && !winograd_has_pairs(isa)) isa = ISA_PORTABLE;
    winograd_pack(&weight, isa, n_threads, out);
    context_put(ctx, widened);
    return STATUS_OK;
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch, const image_rows_t *rows)
{
    const state_t *state = prepared_state(prepared);
    winograd_t w = state->winograd;
    (void)ctx;
    w.rows = *rows;
    w.streams &= rows->last == 0;
    w.x = in[X];
    w.weight = in[WEIGHT];
    w.bias = in[BIAS];
    w.addend = state->addend < 0 ? NULL : in[state->addend];
    w.out = out[0];
    winograd_run(&w, state->isa, state->n_threads, scratch);
    return STATUS_OK;
}

static status_t conv_winograd_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    return run_rows(ctx, prepared, in, out, scratch, &(image_rows_t){0});
}

static int64_t row_end(const prepared_t *prepared, int64_t row)
{
    const state_t *state = prepared_state(prepared);
    return winograd_row_end(&state->winograd, row);
}

static size_t scratch_of_rows(const prepared_t *prepared, const image_rows_t *rows)
{
    const state_t *state = prepared_state(prepared);
    winograd_t w = state->winograd;
    w.rows = *rows;
    return winograd_scratch(&w, state->isa, state->n_threads);
}

static const kernel_rows_t winograd_rows = {
    .end = row_end, .scratch = scratch_of_rows, .run = run_rows};

#define DEFINE(size)                                                                               \
    static status_t prepare_##size(context_t *ctx, const op_call_t *call, prepared_t *prepared)    \
    {                                                                                              \
        return conv_winograd_prepare(ctx, call, size, prepared);                                   \
    }                                                                                              \
    const kernel_t conv_winograd_##size = {.name = "winograd_" #size,                              \
                                           .prepare = prepare_##size,                              \
                                           .run = conv_winograd_run,                               \
                                           .flags = KERNEL_IS_STORED | KERNEL_FUSES_POST_OPS |     \
                                                    KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES,       \
                                           .pack = conv_winograd_pack}

DEFINE(2);
DEFINE(4);
DEFINE(6);
