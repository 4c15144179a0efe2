/* Depthwise convolutions, and convolutions in small groups, with our own kernel for blocks of
 * channels as wide as a vector; depthwise ones also in channels last. The weight has format Abcd16a
 * if depthwise, as in oneDNN's kernels, otherwise Acdb16a. Files can store both formats, and other
 * kernels can reorder them. */
#include <math.h>
#include <string.h>

#include "kernels/conv/depthwise_impl.h"

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

/* Maximum channels in a group. With more, oneDNN's direct sums are as fast. */
#define MOST_OF_GROUP 32

/* Speed in channels last divided by that in blocks, measured on MobileNetV2's layers (0.6 to 1). */
#define SHARE_OF_LAST 0.65

static int64_t group_of(const op_call_t *call)
{
    return call->in[WEIGHT]->sizes[1];
}

static bool is_depthwise(const op_call_t *call)
{
    return group_of(call) == 1;
}

static const char *check_group(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    const int64_t group = group_of(call);
    const int lanes = isa_lanes(isa_best());
    if (x->rank != 4 || attrs->groups < 2) return "groups of images only";
    if (x->sizes[1] != weight->sizes[0]) return "as many outputs as inputs only";
    if (is_depthwise(call)) return NULL;
    if (isa_best() == ISA_PORTABLE)
        return "groups of several channels: slower than oneDNN without AVX2";
    if (weight->sizes[2] != 3) return "groups of more than a channel have kernels of 3 by 3 only";
    if (call->weights == WEIGHT_KEPT) return "the weight may be trained";
    if (group > MOST_OF_GROUP || (group > lanes ? group % lanes : lanes % group) != 0)
        return "groups of 2, 4, 8, 16 and 32 channels only";
    return NULL;
}

static const char *check_windows(const op_call_t *call)
{
    const conv_attrs_t *attrs = call->attrs;
    const tensor_info_t *weight = call->in[WEIGHT];
    const int64_t kernel = weight->sizes[2];
    if ((kernel != 3 && kernel != 5 && kernel != 7) || weight->sizes[3] != kernel)
        return "kernels of 3 by 3, 5 by 5 and 7 by 7 only";
    if (attrs->stride[0] != attrs->stride[1] || attrs->stride[0] > 2)
        return "strides of 1 and 2 only";
    if (attrs->dilation[0] != 1 || attrs->dilation[1] != 1) return "no dilation";
    return check_group(call);
}

/* Reads post-ops from prepared->attrs, because they may have been removed from call->attrs.
 * Declines post-ops that only oneDNN fuses. */
static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const post_ops_t *post = &((const conv_attrs_t *)prepared->attrs)->post;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    if (x->dtype != DTYPE_F32) return "f32 only";
    if (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32) return "a bias of f32 only";
    for (int i = 0; i < post->n; i++)
        if (post->op[i].kind != POST_ELTWISE) return "a post-op with an operand";
    return check_windows(call);
}

/* The weight [C][C / G][R][S] with blocks of outputs. If depthwise, the format is that of oneDNN's
 * weight with groups and outputs in one dimension, so gradients have it, too. Otherwise, for each
 * element of the window the inputs of a group are adjacent. */
static tensor_info_t blocked_weight(const tensor_info_t *weight, int lanes)
{
    static const uint8_t inputs_inside[] = {0, 2, 3, 1};
    format_t format = format_plain(weight->rank);
    if (weight->sizes[1] > 1) memcpy(format.order, inputs_inside, sizeof inputs_inside);
    format.block_dims[format.n_blocks] = 0;
    format.block_sizes[format.n_blocks++] = (uint16_t)lanes;
    return info_mkldnn(weight, &format);
}

/* Measured share of the peak. Sums of groups are slower, because each vector of x must be copied to
 * the lanes of its group, once for three results (1.5 with stride 2), and AVX2 has few
 * registers. */
static double share_of_peak(const op_call_t *call)
{
    const bool is_strided = ((const conv_attrs_t *)call->attrs)->stride[0] > 1;
    if (is_depthwise(call)) return 0.9;
    if (isa_best() == ISA_AVX512) return is_strided ? 0.77 : 0.93;
    return is_strided ? 0.35 : 0.6;
}

/* The kernel reads channels last if no part of a vector is padding, and if clamping is all that
 * follows, because other post-ops need adjacent results. */
static bool reads_last(const op_call_t *call, const prepared_t *prepared, int lanes)
{
    const format_t own = info_tag(call->in[X]), last = format_channels_last(4);
    const post_ops_t *post = &((const conv_attrs_t *)prepared->attrs)->post;
    float lower, upper;
    return is_depthwise(call) && call->in[X]->sizes[1] % lanes == 0 &&
           format_same(&own, &last, call->in[X]->sizes) &&
           (post->n == 0 || (post->n == 1 && post_is_clamp(&post->op[0], &lower, &upper)));
}

static const kernel_rows_t depthwise_rows;

static status_t prepare_any(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                            const char *name)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "%s: %s", name, reason);
    const int lanes = isa_lanes(isa_best());
    const format_t blocks = format_channel_blocks(4, lanes), own = info_tag(call->in[X]);
    const format_t wanted = reads_last(call, prepared, lanes) ? format_channels_last(4) : blocks;
    const tensor_info_t *weight = call->in[WEIGHT];
    if (!format_same(&own, &wanted, call->in[X]->sizes))
        return prepared_decline(prepared, "%s: channels in blocks of %d, or all of them last", name,
                                lanes);
    TRY(accept_format(call, prepared, X, &wanted));
    TRY(accept_out(call, prepared, 0, &wanted));
    prepared->in[WEIGHT] = blocked_weight(weight, lanes);
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, weight->sizes);
    conv_set_rows(call, prepared, &depthwise_rows);
    const double flops = 2.0 * (double)info_numel(&call->out[0]) *
                         (double)(weight->sizes[1] * weight->sizes[2] * weight->sizes[3]);
    prepared->cost_ns = cost_run(ctx, name, 0.9 / share_of_peak(call) * flops,
                                 (double)info_bytes(&prepared->in[X]) +
                                     (double)info_bytes(&prepared->out[0]));
    if (wanted.n_blocks == 0) prepared->cost_ns /= SHARE_OF_LAST;
    return STATUS_OK;
}

static status_t conv_depthwise_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    if (!is_depthwise(call))
        return prepared_decline(prepared, "depthwise: no channel has a kernel of its own");
    return prepare_any(ctx, call, prepared, "depthwise");
}

static status_t conv_depthwise_prepare_groups(context_t *ctx, const op_call_t *call,
                                              prepared_t *prepared)
{
    if (is_depthwise(call)) return prepared_decline(prepared, "groups: of one channel");
    return prepare_any(ctx, call, prepared, "groups");
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch, const image_rows_t *rows)
{
    (void)scratch;
    const conv_attrs_t *attrs = prepared->kernel_attrs;
    const tensor_info_t *x = &prepared->in[X], *result = &prepared->out[0];
    const post_rest_t all = {&attrs->post, 0};
    post_rest_t rest = all;
    depthwise_t d = {.kernel = (int)prepared->in[WEIGHT].sizes[3],
                     .stride = (int)attrs->stride[0],
                     .group = (int)prepared->in[WEIGHT].sizes[1],
                     .is_last = prepared->out[0].format.n_blocks == 0,
                     .n_images = x->sizes[0],
                     .n_channels = x->sizes[1],
                     .height = x->sizes[2],
                     .width = x->sizes[3],
                     .out_height = result->sizes[2],
                     .out_width = result->sizes[3],
                     .top = attrs->padding[0],
                     .left = attrs->padding[1],
                     .rows = *rows,
                     .x = in[X],
                     .weight = in[WEIGHT],
                     .bias = in[BIAS],
                     .user = &rest,
                     .out = out[0]};
    d.is_clamped = attrs->post.n > 0 && post_is_clamp(&attrs->post.op[0], &d.lower, &d.upper);
    rest.first = d.is_clamped;
    if (rest.first < attrs->post.n) d.finish = post_finish;
    depthwise_run(&d, isa_best(), threads_for(ctx, info_numel(result)));
    if (!post_keep_zero(&all)) walk_zero_padding(result, out[0]);
    return STATUS_OK;
}

static status_t conv_depthwise_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                   void *const *out, void *scratch)
{
    return run_rows(ctx, prepared, in, out, scratch, &(image_rows_t){0});
}

static const kernel_rows_t depthwise_rows = {.run = run_rows};

const kernel_t conv_depthwise = {.name = "depthwise",
                                 .prepare = conv_depthwise_prepare,
                                 .run = conv_depthwise_run,
                                 .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                          KERNEL_COMPETES};
const kernel_t conv_groups = {.name = "groups",
                              .prepare = conv_depthwise_prepare_groups,
                              .run = conv_depthwise_run,
                              .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                       KERNEL_COMPETES};
