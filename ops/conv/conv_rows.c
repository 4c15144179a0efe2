/* Convolutions over one dimension, without padding, computed as products of many rows. With
 * channels last, the window of an output is one contiguous range of x, and the window of the next
 * output begins stride * C elements later:
 *
 *   out[p][k] = bias[k] + sum(i < R*C) x[p*stride*C + i] * weight[k][i],   i = r*C + c
 *
 * 2-D convolutions are accepted if their second dimension is 1. */
#include "kernels/linear/product_impl.h"

#include <string.h>

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };
enum { BLOCK, N_NUMBERS }; /* numbers stored with a packed weight */

#define VERSION 1
#define LEAST_INPUTS 16 /* with fewer inputs or outputs, packing does not pay */
#define LEAST_ROWS 16   /* with fewer, reading the weight takes most of the time */
#define SHARE 0.95      /* measured share of the peak; the default estimate is 0.9 */

static const char *check_windows(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    if (attrs->groups != 1) return "one group only";
    for (int i = 1; i < x->rank - 2; i++)
        if (x->sizes[2 + i] != 1 || weight->sizes[2 + i] != 1 || call->out[0].sizes[2 + i] != 1)
            return "one dimension only";
    for (int i = 0; i < x->rank - 2; i++)
        if (attrs->padding[i] != 0 || conv_reach(call, i) > x->sizes[2 + i]) return "no padding";
    if (weight->sizes[2] < 2 || attrs->dilation[0] != 1)
        return "windows of two elements or more, side by side";
    if (weight->sizes[0] < PRODUCT_BLOCK || weight->sizes[1] * weight->sizes[2] < LEAST_INPUTS)
        return "fewer outputs or inputs than are packed";
    return call->out[0].sizes[2] < LEAST_ROWS ? "few rows" : NULL;
}

/* Reads post-ops from prepared->attrs, because they may have been removed from call->attrs. */
static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const post_ops_t *post = &((const conv_attrs_t *)prepared->attrs)->post;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (isa_best() == ISA_PORTABLE) return "slower than oneDNN without AVX2";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    if (call->in[X]->dtype != DTYPE_F32 || call->in[WEIGHT]->dtype != DTYPE_F32) return "f32 only";
    if (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32) return "a bias of f32 only";
    if (call->weights != WEIGHT_CONSTANT) return "the weight is not constant";
    for (int i = 0; i < post->n; i++)
        if (post->op[i].kind != POST_ELTWISE) return "a post-op with an operand";
    return check_windows(call);
}

static status_t conv_rows_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "rows: %s", reason);
    const tensor_info_t *weight = call->in[WEIGHT];
    const format_t last = format_channels_last(call->in[X]->rank);
    const int64_t outputs = weight->sizes[0], n_inputs = weight->sizes[1] * weight->sizes[2];
    const int64_t numbers[N_NUMBERS] = {[BLOCK] = PRODUCT_BLOCK};
    int64_t elements = 0;
    if (__builtin_mul_overflow((outputs - 1) / PRODUCT_BLOCK + 1, n_inputs * PRODUCT_BLOCK,
                               &elements))
        return prepared_decline(prepared, "rows: a weight of %s overflows", info_brief(weight));
    TRY(accept_format(call, prepared, X, &last));
    TRY(accept_out(call, prepared, 0, &last));
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    TRY(prepared_want_packed(ctx, prepared, WEIGHT, elements, VERSION, N_NUMBERS, numbers));
    prepared_set_scratch(prepared, product_scratch(call->out[0].sizes[2], n_inputs));
    prepared->cost_ns = cost_layer(
        ctx, "product", 0.9 / SHARE * 2.0 * (double)info_numel(&call->out[0]) * (double)n_inputs,
        (double)info_bytes(call->in[X]) + (double)info_bytes(&call->out[0]),
        (double)elements * sizeof(float));
    return STATUS_OK;
}

/* Packs [K][C][R] to [K / block][R][C][block]. */
static status_t conv_rows_pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                               const tensor_info_t *want, void *out)
{
    const int64_t block = format_numbers(&want->format)[BLOCK];
    const int64_t n_channels = from->sizes[1], n_taps = from->sizes[2];
    const float *weight = bytes;
    (void)ctx;
    memset(out, 0, info_bytes(want));
    for (int64_t k = 0; k < from->sizes[0]; k++) {
        float *to = (float *)out + k / block * n_taps * n_channels * block + k % block;
        for (int64_t c = 0; c < n_channels; c++)
            for (int64_t r = 0; r < n_taps; r++) to[(r * n_channels + c) * block] = *weight++;
    }
    return STATUS_OK;
}

static void finish(const void *user, int64_t row, int64_t column, int64_t n, float *values)
{
    const post_rest_t all = {user, 0};
    (void)row, (void)column;
    post_finish(&all, values, n);
}

static status_t conv_rows_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                              void *const *out, void *scratch)
{
    const conv_attrs_t *attrs = prepared->kernel_attrs;
    const tensor_info_t *x = &prepared->in[X], *weight = &prepared->in[WEIGHT];
    const tensor_info_t *result = &prepared->out[0];
    const int64_t n_inputs = weight->sizes[1] * weight->sizes[2];
    const int n_threads = threads_for(ctx, info_numel(result));
    product_t product = {.n_rows = result->sizes[2],
                         .n_outputs = result->sizes[1],
                         .n_inputs = n_inputs,
                         .x = in[X],
                         .x_stride = attrs->stride[0] * x->sizes[1],
                         .weight = in[WEIGHT],
                         .block_stride = n_inputs * PRODUCT_BLOCK,
                         .bias = in[BIAS],
                         .out = out[0],
                         .out_stride = result->sizes[1],
                         .finish = attrs->post.n > 0 ? finish : NULL,
                         .user = &attrs->post};
    for (int64_t n = 0; n < result->sizes[0]; n++) {
        product_run(&product, isa_best(), n_threads, scratch);
        product.x += x->sizes[1] * x->sizes[2];
        product.out += result->sizes[1] * result->sizes[2];
    }
    return STATUS_OK;
}

const kernel_t conv_rows = {.name = "rows",
                            .prepare = conv_rows_prepare,
                            .run = conv_rows_run,
                            .flags = KERNEL_IS_STORED | KERNEL_FUSES_POST_OPS |
                                     KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES,
                            .pack = conv_rows_pack};
