/* Transposed convolutions of f32 whose kernel size equals their stride, with channels last
 * (kernels/conv/tiling_impl.h). It replaces oneDNN, which computes each window separately and pads
 * the outputs to full vectors. */
#include "kernels/conv/tiling_impl.h"

#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };
enum { BLOCK, N_NUMBERS }; /* numbers stored with a packed weight */
#define VERSION 1

static const char *check_windows(const op_call_t *call)
{
    const conv_transpose_attrs_t *attrs = call->attrs;
    if (attrs->groups != 1) return "one group only";
    for (int i = 0; i < call->in[X]->rank - 2; i++)
        if (attrs->stride[i] != call->in[WEIGHT]->sizes[2 + i] || attrs->padding[i] != 0 ||
            attrs->output_padding[i] != 0 || (attrs->dilation[i] != 1 && attrs->stride[i] != 1))
            return "windows side by side only";
    return NULL;
}

/* Reads post-ops from prepared->attrs, because they may have been removed from call->attrs. */
static const char *check(const op_call_t *call, const prepared_t *prepared)
{
    const post_ops_t *post = &((const conv_transpose_attrs_t *)prepared->attrs)->post;
    if (call->per_op) return "oneDNN alone under policy per_op";
    if (isa_best() == ISA_PORTABLE) return "slower than oneDNN without AVX2";
    if (call->layout != LAYOUT_MKLDNN) return "mkldnn only";
    if (call->weights != WEIGHT_CONSTANT) return "the weight is not constant";
    for (int i = X; i <= BIAS; i++)
        if (call_has(call, i) && call->in[i]->dtype != DTYPE_F32) return "f32 only";
    for (int i = 0; i < post->n; i++)
        if (post->op[i].kind != POST_ELTWISE) return "a post-op with an operand";
    if (info_numel(&call->out[0]) == 0 || info_numel(call->in[WEIGHT]) == 0) return "empty";
    return check_windows(call);
}

static tiling_t describe(const tensor_info_t *x, const tensor_info_t *weight)
{
    tiling_t t = {.n_images = x->sizes[0],
                  .n_inputs = x->sizes[1],
                  .n_outputs = weight->sizes[1],
                  .in = {1, 1, 1},
                  .tile = {1, 1, 1}};
    for (int d = 2; d < x->rank; d++) {
        t.in[3 - x->rank + d] = x->sizes[d];
        t.tile[3 - x->rank + d] = weight->sizes[d];
    }
    return t;
}

static int64_t places(const tiling_t *t)
{
    return t->tile[0] * t->tile[1] * t->tile[2];
}

static status_t conv_tiling_pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                 const tensor_info_t *want, void *out)
{
    int64_t n_places = 1;
    (void)ctx, (void)want;
    for (int d = 2; d < from->rank; d++) n_places *= from->sizes[d];
    tiling_pack(from->sizes[0], from->sizes[1], n_places, bytes, out);
    return STATUS_OK;
}

static status_t conv_tiling_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const char *reason = check(call, prepared);
    if (reason != NULL) return prepared_decline(prepared, "tiling: %s", reason);
    const tensor_info_t *weight = call->in[WEIGHT];
    const format_t last = format_channels_last(call->in[X]->rank);
    const tiling_t t = describe(call->in[X], weight);
    TRY(accept_format(call, prepared, X, &last));
    TRY(accept_out(call, prepared, 0, &last));
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    const int64_t n_weight = tiling_weight_size(t.n_inputs, t.n_outputs, places(&t));
    TRY(prepared_want_packed(ctx, prepared, WEIGHT, n_weight, VERSION, N_NUMBERS,
                             (const int64_t[]){[BLOCK] = TILING_BLOCK}));
    prepared_set_scratch(prepared,
                         (size_t)tiling_bias_size(t.n_outputs, places(&t)) * sizeof(float));
    const int64_t n_rows = info_numel(call->in[X]) / t.n_inputs;
    const double rows = (double)n_rows;
    prepared->cost_ns = cost_run(ctx, "tiling", 2.0 * rows * (double)n_weight,
                                 (double)info_bytes(call->in[X]) +
                                     (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

static status_t conv_tiling_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    const conv_transpose_attrs_t *attrs = prepared->kernel_attrs;
    const post_rest_t rest = {&attrs->post, 0};
    tiling_t t = describe(&prepared->in[X], &prepared->in[WEIGHT]);
    float *bias = scratch;
    tiling_spread(t.n_outputs, places(&t), in[BIAS], bias);
    t.x = in[X];
    t.weight = in[WEIGHT];
    t.bias = bias;
    t.out = out[0];
    t.finish = attrs->post.n > 0 ? post_finish : NULL;
    t.user = &rest;
    tiling_run(&t, isa_best(), threads_for(ctx, info_numel(&prepared->out[0]) * t.n_inputs / 16));
    return STATUS_OK;
}

const kernel_t conv_transpose_tiling = {.name = "tiling",
                                        .prepare = conv_tiling_prepare,
                                        .run = conv_tiling_run,
                                        .pack = conv_tiling_pack,
                                        .flags = KERNEL_IS_STORED | KERNEL_FUSES_POST_OPS |
                                                 KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES};
