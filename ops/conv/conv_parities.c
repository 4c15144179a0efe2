/* Convolutions with stride 2 and kernels of 5 to 8 over up to 4 channels, as in the first layer of
 * many networks. Rows and columns of x are split by parity (even or odd), which makes four channels
 * of each (kernels/conv/parities_impl.h). This gives a convolution with stride 1 and half the
 * kernel size, for which Winograd's transforms are used. Without the split, most lanes of a block
 * of channels would be empty. x is row-major and is split one image at a time. Tiles have the
 * largest allowed size, because the weight is small. */
#include <stdint.h>
#include <stdio.h>

#include "kernels/conv/parities_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS, POST };
enum { TILE, LANES, N_NUMBERS }; /* numbers stored with a packed weight */

#define VERSION 1 /* version of the packed format */
#define MAX_CHANNELS 4
#define LEAST_SIZE 5
#define MAX_SIZE 8

typedef struct state {
    winograd_t winograd; /* for one image, without pointers */
    parities_t parities;
    isa_t isa;
    int n_threads;
    int addend;     /* index of the added input, or -1 */
    size_t n_split; /* floats of the split x, before the kernel's scratch */
    char name[CONV_WINOGRAD_NAME_MAX];
} state_t;

/* ---- supported calls ---- */

/* Half the kernel's side, rounded up. */
static int half_of(const tensor_info_t *weight)
{
    return (int)(weight->sizes[2] + 1) / 2;
}

int conv_parities_tile(const tensor_info_t *weight, int size)
{
    const int half = half_of(weight), tile = size + 3 - half;
    return tile >= 2 && (half == 3 || tile >= 3) ? tile : 0;
}

bool conv_parities_fits(const tensor_info_t *weight, const int64_t *stride, const int64_t *dilation,
                        int64_t groups)
{
    return weight->rank == 4 && weight->sizes[2] == weight->sizes[3] &&
           weight->sizes[2] >= LEAST_SIZE && weight->sizes[2] <= MAX_SIZE &&
           weight->sizes[1] <= MAX_CHANNELS && stride[0] == 2 && stride[1] == 2 && groups == 1 &&
           dilation[0] == 1 && dilation[1] == 1;
}

static const char *obstacle(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (!conv_parities_fits(call->in[WEIGHT], attrs->stride, attrs->dilation, attrs->groups))
        return "kernels of 5 to 8, stride 2, up to 4 channels, dilation 1 and one group only";
    if (conv_parities_tile(call->in[WEIGHT], conv_winograd_size(attrs->algorithm)) == 0)
        return "algorithm does not allow it";
    if (conv_winograd_has_empty_window(call->in[X], call->in[WEIGHT], &call->out[0], attrs->stride,
                                       attrs->padding))
        return CONV_WINOGRAD_EMPTY_WINDOW;
    if (call->in[X]->dtype != DTYPE_F32 || call->in[WEIGHT]->dtype != DTYPE_F32 ||
        (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32))
        return "f32 is needed";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    if (call->weights == WEIGHT_GIVEN && !conv_winograd_is_exact(attrs->algorithm))
        return "the weight would be transformed in each call";
    return NULL;
}

/* ---- preparing ---- */

static void describe(const op_call_t *call, state_t *made)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT], *out = &call->out[0];
    const int half = half_of(weight), lanes = isa_lanes(made->isa);
    parities_t *parities = &made->parities;
    *parities = (parities_t){.n_channels = x->sizes[1],
                             .height = x->sizes[2],
                             .width = x->sizes[3],
                             .top = attrs->padding[0],
                             .left = attrs->padding[1],
                             .split_height = out->sizes[2] + half - 1,
                             .split_width = out->sizes[3] + half - 1,
                             .lanes = lanes};
    made->winograd = (winograd_t){
        .tile = conv_parities_tile(weight, conv_winograd_size(attrs->algorithm)),
        .kernel = half,
        .split = (int)weight->sizes[2],
        .stride = 1,
        .n_images = 1,
        .n_inputs = 4 * x->sizes[1],
        .n_outputs = out->sizes[1],
        .height = parities->split_height,
        .width = parities->split_width,
        .out_height = out->sizes[2],
        .out_width = out->sizes[3],
        .streams = conv_winograd_streams(out)};
    const int64_t n_blocks = (made->winograd.n_inputs + lanes - 1) / lanes;
    const int64_t n = n_blocks * lanes * parities->split_height * parities->split_width;
    made->n_split = (size_t)((n + 15) / 16 * 16);
}

static double estimate(const context_t *ctx, const op_call_t *call, const state_t *made)
{
    winograd_t all = made->winograd;
    all.n_images = call->out[0].sizes[0];
    const double moved = (double)info_bytes(call->in[X]) +
                         (double)all.n_images * (double)made->n_split * sizeof(float);
    return conv_winograd_estimate(ctx, &all, made->isa) + cost_run(ctx, "native", 0.0, moved);
}

static status_t conv_parities_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const char *reason = obstacle(call);
    if (reason != NULL) return prepared_decline(prepared, "parities: %s", reason);
    state_t made = {.isa = isa_best()}, *state = NULL;
    winograd_t *w = &made.winograd;
    const format_t blocks = format_channel_blocks(4, isa_lanes(made.isa));
    describe(call, &made);
    TRY(accept_plain(call, prepared, X));
    TRY(accept_out(call, prepared, 0, &blocks));
    TRY(conv_winograd_take_post(call, prepared, w, &made.addend));
    prepared->cost_ns = estimate(ctx, call, &made);
    prepared->is_asked_for = conv_winograd_is_exact(((const conv_attrs_t *)call->attrs)->algorithm);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    const int64_t numbers[N_NUMBERS] = {[TILE] = w->tile, [LANES] = isa_lanes(made.isa)};
    const int64_t n_elements = winograd_weight_elements(w->tile, w->kernel, w->n_inputs,
                                                        w->n_outputs, made.isa);
    TRY(prepared_want_packed(ctx, prepared, WEIGHT, n_elements, VERSION, N_NUMBERS, numbers));
    made.n_threads = threads_for(ctx, info_numel(&call->out[0]) * w->n_inputs / 16);
    prepared_set_scratch(prepared, winograd_scratch(w, made.isa, made.n_threads) +
                                       made.n_split * sizeof(float));
    snprintf(made.name, sizeof made.name, "winograd_parities:%s", isa_name(made.isa));
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    *state = made;
    prepared->implementation = state->name;
    return STATUS_OK;
}

/* ---- the weight ---- */

/* Computes the weight of the convolution with stride 1. The caller frees *out_split with
 * context_put. */
static status_t split_weight(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             tensor_info_t *out_info, float **out_split)
{
    const int64_t half = half_of(weight);
    const int64_t sizes[] = {weight->sizes[0], 4 * weight->sizes[1], half, half};
    *out_info = info_dense(DTYPE_F32, 4, sizes);
    TRY(context_get(ctx, info_bytes(out_info), "a weight by parities", out_split));
    parities_split_weight(weight->sizes[0], weight->sizes[1], weight->sizes[2], bytes, *out_split);
    return STATUS_OK;
}

/* ISAs with the same number of lanes share one packed format. */
static status_t conv_parities_pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                   const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    tensor_info_t info;
    float *split = NULL;
    isa_t isa = isa_best();
    if (isa_lanes(isa) != numbers[LANES]) isa = ISA_PORTABLE;
    INVARIANT(isa_lanes(isa) == numbers[LANES]);
    TRY(split_weight(ctx, from, bytes, &info, &split));
    const winograd_weight_t weight = winograd_plain_weight((int)numbers[TILE], (int)info.sizes[2],
                                                           1, info.sizes[1], info.sizes[0], split);
    winograd_pack(&weight, isa, threads_for(ctx, info_numel(&info)), out);
    context_put(ctx, split);
    return STATUS_OK;
}

status_t conv_parities_error(context_t *ctx, const tensor_info_t *weight, const float *bytes,
                             int size, double *out_error)
{
    tensor_info_t info;
    float *split = NULL;
    TRY(split_weight(ctx, weight, bytes, &info, &split));
    FINISH(
        conv_winograd_tile_error(ctx, &info, split, 1, conv_parities_tile(weight, size), out_error),
        context_put(ctx, split));
}

/* ---- running ---- */

static void split_rows(void *user, int64_t first, int64_t last)
{
    parities_split(user, first, last);
}

static status_t conv_parities_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    const state_t *state = prepared_state(prepared);
    winograd_t w = state->winograd;
    parities_t parities = state->parities;
    const int64_t n_images = prepared->out[0].sizes[0];
    const int64_t n_blocks = (w.n_outputs + parities.lanes - 1) / parities.lanes;
    const int64_t n_out = n_blocks * parities.lanes * w.out_height * w.out_width;
    (void)ctx;
    parities.split = scratch;
    w.x = scratch;
    w.weight = in[WEIGHT];
    w.bias = in[BIAS];
    for (int64_t n = 0; n < n_images; n++) {
        parities.x = (const float *)in[X] +
                     n * parities.n_channels * parities.height * parities.width;
        w.addend = state->addend < 0 ? NULL : (const float *)in[state->addend] + n * n_out;
        w.out = (float *)out[0] + n * n_out;
        threads_share(state->n_threads, parities.split_height, split_rows, &parities);
        winograd_run(&w, state->isa, state->n_threads, (float *)scratch + state->n_split);
    }
    return STATUS_OK;
}

const kernel_t conv_parities = {.name = "parities",
                                .prepare = conv_parities_prepare,
                                .run = conv_parities_run,
                                .flags = KERNEL_IS_STORED | KERNEL_FUSES_POST_OPS |
                                         KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES,
                                .pack = conv_parities_pack};
