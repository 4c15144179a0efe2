/* Fully connected layers with an x of many rows and a constant weight, with our own kernels. These
 * are fast for any number of rows, not only for multiples of a block, and divide the work equally
 * among threads. oneDNN reorders the weight to format AB16b32a. */
#include <string.h>

#include "kernels/linear/product_impl.h"
#include "kernels/linear/strassen_impl.h"
#include "ops/accept_impl.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_impl.h"
#include "ops/linear/strassen_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS, POST };

#define INPUTS 16        /* inputs in a block of the weight; the last block is padded */
#define LEAST_OUTPUTS 64 /* packing does not pay for fewer outputs */
#define READ_SHARE 0.8   /* memory bandwidth, relative to linear_stream */
#define PACK_NS 200.0    /* fixed time of packing the rows */

/* Corrects the estimate in favour of Strassen's algorithm: on Zen 4, the direct kernel takes longer
 * than estimated. */
#define STRASSEN_SPEED 1.06

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static status_t check(const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    if (call->per_op)
        return prepared_decline(prepared, "product: oneDNN alone under policy per_op");
    if (isa_best() == ISA_PORTABLE)
        return prepared_decline(prepared, "product: wants AVX2 or more");
    if (x->dtype != DTYPE_F32)
        return prepared_decline(prepared, "product: dtype %s", dtype_name(x->dtype));
    if (call->weights != WEIGHT_CONSTANT)
        return prepared_decline(prepared, "product: the weight is not constant");
    if (weight->sizes[0] < LEAST_OUTPUTS || weight->sizes[1] < INPUTS)
        return prepared_decline(prepared,
                                "product: %s, %d outputs and %d inputs or more are packed",
                                info_brief(weight), LEAST_OUTPUTS, INPUTS);
    if (((const linear_attrs_t *)call->attrs)->flatten && call->in[X]->rank > 2 &&
        format_is_blocked(&x->format))
        return prepared_decline(prepared, "product: %s is flattened", info_brief(x));
    return STATUS_OK;
}

status_t linear_settle_post(const op_call_t *call, prepared_t *prepared)
{
    const post_ops_t *post = &((const linear_attrs_t *)call->attrs)->post;
    const char *name = prepared->kernel->name;
    int operand = POST;
    for (int i = 0; i < post->n; i++) {
        const tensor_info_t *info = call->in[operand];
        if (post->op[i].kind == POST_ELTWISE) continue;
        if (post->op[i].kind == POST_SUM && i > 0)
            return prepared_decline(prepared, "%s: a sum behind another post-op", name);
        if (post->op[i].kind != POST_SUM && post->op[i].kind != POST_ADD &&
            post->op[i].kind != POST_MUL)
            return prepared_decline(prepared, "%s: post-op %s", name, post_name(post->op[i].kind));
        if (info->dtype != DTYPE_F32 ||
            !shape_equal(info->rank, info->sizes, prepared->out[0].rank, prepared->out[0].sizes))
            return prepared_decline(prepared, "%s: post-op %s with %s", name,
                                    post_name(post->op[i].kind), info_brief(info));
        if (post->op[i].kind == POST_SUM) prepared->sum_operand = operand;
        prepared->in[operand++] = prepared->out[0];
    }
    return STATUS_OK;
}

/* Prepares the common fields of both kernels. Returns the number of rows. */
static status_t prepare_rows(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                             int64_t *out_rows)
{
    TRY(check(call, prepared));
    const int64_t outputs = call->in[WEIGHT]->sizes[0], features = call->in[WEIGHT]->sizes[1];
    TRY(accept_plain(call, prepared, X));
    TRY(accept_out_plain(call, prepared, 0));
    TRY(linear_settle_post(call, prepared));
    tensor_info_t *weight = &prepared->in[WEIGHT];
    *weight = linear_matrix(DTYPE_F32, outputs, features);
    weight->format.n_blocks = 2;
    weight->format.block_dims[0] = 1;
    weight->format.block_sizes[0] = INPUTS;
    weight->format.block_dims[1] = 0;
    weight->format.block_sizes[1] = PRODUCT_BLOCK;
    TRY(linear_check_blocks(ctx, prepared, weight));
    if (call_has(call, BIAS))
        prepared->in[BIAS] = info_dense(call->in[BIAS]->dtype, 1, call->in[BIAS]->sizes);
    if (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32)
        return prepared_decline(prepared, "product: bias of dtype %s",
                                dtype_name(call->in[BIAS]->dtype));
    *out_rows = info_numel(&prepared->out[0]) / outputs;
    return STATUS_OK;
}

static double estimate(const context_t *ctx, const tensor_info_t *weight, const char *name,
                       double n_rows, double flops)
{
    const double inputs = (double)weight->sizes[1], outputs = (double)weight->sizes[0];
    return PACK_NS + cost_layer(ctx, name, flops, n_rows * (inputs + outputs) * sizeof(float),
                                (double)info_bytes(weight) / READ_SHARE);
}

static status_t linear_product_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    int64_t n_rows = 0;
    TRY(prepare_rows(ctx, call, prepared, &n_rows));
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    prepared_set_scratch(prepared, product_scratch(n_rows, weight->sizes[1]));
    prepared->cost_ns = estimate(ctx, weight, "product", (double)n_rows,
                                 2.0 * (double)n_rows * (double)info_numel(weight));
    return STATUS_OK;
}

static strassen_t describe_strassen(const prepared_t *prepared)
{
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const int64_t inputs = weight->sizes[1], outputs = weight->sizes[0];
    const int64_t lanes = isa_lanes(isa_best()), n_rows = info_numel(&prepared->out[0]) / outputs;
    return (strassen_t){.n_images = 1,
                        .n_rows = n_rows,
                        .n_inputs = inputs,
                        .n_outputs = outputs,
                        .x_image = n_rows * inputs,
                        .x_row = inputs,
                        .x_block = lanes,
                        .line_rows = n_rows,
                        .weight_outputs = PRODUCT_BLOCK,
                        .weight_block = round_up(inputs, INPUTS) * PRODUCT_BLOCK,
                        .out_image = n_rows * outputs,
                        .out_row = outputs,
                        .out_block = lanes};
}

static status_t prepare_strassen(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const int algorithm = ((const linear_attrs_t *)call->attrs)->algorithm;
    if (algorithm == LINEAR_DIRECT) return STATUS_UNSUPPORTED; /* the graph does not request it */
    int64_t n_rows = 0;
    TRY(prepare_rows(ctx, call, prepared, &n_rows));
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    TRY(strassen_accept(prepared, weight->sizes[1], weight->sizes[0], n_rows,
                        algorithm == LINEAR_STRASSEN_ONLY));
    const strassen_t sizes = describe_strassen(prepared);
    prepared_set_scratch(prepared, strassen_scratch(&sizes, isa_best(), context_threads(ctx)));
    prepared->cost_ns = estimate(ctx, weight, "strassen", (double)n_rows,
                                 strassen_flops(&sizes, isa_best(), context_threads(ctx)) /
                                     STRASSEN_SPEED);
    return STATUS_OK;
}

void linear_apply(const void *user, int64_t row, int64_t column, int64_t n, float *values)
{
    const linear_finish_t *finish = user;
    for (int k = 0; k < finish->post->n; k++) {
        const post_op_t *op = &finish->post->op[k];
        const float *operand = finish->operands[k];
        if (operand != NULL) operand += row * finish->n_outputs + column;
        if (op->kind == POST_ELTWISE)
            eltwise_apply(op->eltwise, op->alpha, op->beta, n, values, values);
        else if (op->kind == POST_ADD)
            for (int64_t i = 0; i < n; i++) values[i] += operand[i];
        else if (op->kind == POST_MUL)
            for (int64_t i = 0; i < n; i++) values[i] *= operand[i];
    }
}

linear_finish_t linear_find_finish(const prepared_t *prepared, void *const *in)
{
    linear_finish_t finish = {.post = &((const linear_attrs_t *)prepared->kernel_attrs)->post,
                              .n_outputs = prepared->in[WEIGHT].sizes[0]};
    int operand = POST;
    for (int i = 0; i < finish.post->n; i++)
        if (finish.post->op[i].kind != POST_ELTWISE) finish.operands[i] = in[operand++];
    return finish;
}

static status_t linear_product_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                   void *const *out, void *scratch)
{
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const int64_t features = weight->sizes[1], outputs = weight->sizes[0];
    const linear_finish_t finish = linear_find_finish(prepared, in);
    product_t product = {.n_rows = info_numel(&prepared->out[0]) / outputs,
                         .n_outputs = outputs,
                         .n_inputs = features,
                         .x = in[X],
                         .x_stride = features,
                         .weight = in[WEIGHT],
                         .block_stride = round_up(features, INPUTS) * PRODUCT_BLOCK,
                         .bias = in[BIAS],
                         .accumulates = prepared->sum_operand >= 0,
                         .out = out[0],
                         .out_stride = outputs,
                         .user = &finish};
    if (finish.post->n > (product.accumulates ? 1 : 0)) product.finish = linear_apply;
    product_run(&product, isa_best(), threads_for(ctx, product.n_rows * outputs), scratch);
    return STATUS_OK;
}

static status_t run_strassen(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    const linear_finish_t finish = linear_find_finish(prepared, in);
    strassen_t strassen = describe_strassen(prepared);
    strassen.x = in[X];
    strassen.weight = in[WEIGHT];
    strassen.bias = in[BIAS];
    strassen.addend = prepared->sum_operand >= 0 ? out[0] : NULL;
    strassen.out = out[0];
    strassen.user = &finish;
    if (finish.post->n > (strassen.addend != NULL ? 1 : 0)) strassen.finish = linear_apply;
    strassen_run(&strassen, isa_best(), threads_for(ctx, strassen.n_rows * strassen.n_outputs),
                 scratch);
    return STATUS_OK;
}

const kernel_t linear_product = {.name = "product",
                                 .prepare = linear_product_prepare,
                                 .run = linear_product_run,
                                 .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                          KERNEL_COMPETES};
const kernel_t linear_strassen = {.name = "strassen",
                                  .prepare = prepare_strassen,
                                  .run = run_strassen,
                                  .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                           KERNEL_COMPETES};
