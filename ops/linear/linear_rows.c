/* Fully connected layers with an x of a few rows and a weight that is trained, with our own kernel.
 * The weight stays in oneDNN's preferred format, which its gradients have, too. Only memory
 * bandwidth limits the speed. */
#include "dispatch/post_impl.h"
#include "ops/accept_impl.h"
#include "ops/axes_impl.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

#define LEAST_ROWS 5 /* with fewer rows, most lanes of a vector would be empty */

/* ---- formats ---- */

/* Accepts AB16b64a and similar formats, with blocks of outputs by inputs. */
bool linear_rows_fit(const tensor_info_t *weight, int results)
{
    const format_t *format = &weight->format;
    if (format->kind != FORMAT_TAG || format->n_blocks != 2 || format->order[0] != 0 ||
        format->block_dims[0] != 1 || format->block_dims[1] != 0)
        return false;
    const int block = format->block_sizes[1 - results];
    return block % 4 == 0 && block <= ROWS_PRODUCT_BLOCK;
}

axis_t linear_rows_axis(const tensor_info_t *weight, int dim)
{
    axis_t axes[TENSOR_MAX_RANK] = {{0}};
    const bool has_axes = axes_find(weight, axes);
    INVARIANT(has_axes);
    (void)has_axes;
    return axes[dim];
}

/* ---- kernel ---- */

static status_t check(const op_call_t *call, prepared_t *prepared, int64_t rows)
{
    const linear_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    if (call->per_op) return prepared_decline(prepared, "rows: oneDNN alone under policy per_op");
    if (x->dtype != DTYPE_F32 || (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32))
        return prepared_decline(prepared, "rows: f32 is needed");
    if (call->weights != WEIGHT_KEPT)
        return prepared_decline(prepared, "rows: the weight is not trained");
    if (call->layout != LAYOUT_MKLDNN || rows < LEAST_ROWS || rows > ROWS_PRODUCT_ROWS)
        return prepared_decline(prepared, "rows: a weight in blocks, and %d to %d rows are needed",
                                LEAST_ROWS, ROWS_PRODUCT_ROWS);
    if (attrs->flatten && x->rank > 2)
        return prepared_decline(prepared, "rows: %s is flattened", info_brief(x));
    for (int i = 0; i < attrs->post.n; i++)
        if (attrs->post.op[i].kind != POST_ELTWISE)
            return prepared_decline(prepared, "rows: post-op %s",
                                    post_name(attrs->post.op[i].kind));
    return STATUS_OK;
}

/* Number of rows, rounded up to a multiple of a vector's lanes. */
static int64_t padded_rows(int64_t rows)
{
    const int64_t lanes = isa_lanes(isa_best());
    return (rows + lanes - 1) / lanes * lanes;
}

static status_t linear_rows_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X], *weight = &prepared->in[WEIGHT];
    const int64_t outputs = call->in[WEIGHT]->sizes[0], features = call->in[WEIGHT]->sizes[1];
    const int64_t rows = info_numel(&call->out[0]) / (outputs > 0 ? outputs : 1);
    const double flops = 2.0 * (double)padded_rows(rows) * (double)features * (double)outputs;
    const tensor_info_t dst = linear_matrix(x->dtype, rows, outputs);
    tensor_info_t bias = {.dtype = DTYPE_NONE};
    onednn_problem_t problem = {.kind = ONEDNN_INNER_PRODUCT, .n_src = 1, .dst = &dst};
    onednn_primitive_t *primitive = NULL;
    TRY(check(call, prepared, rows));
    if (call_has(call, BIAS)) {
        bias = info_dense(call->in[BIAS]->dtype, 1, call->in[BIAS]->sizes);
        prepared->in[BIAS] = bias;
        problem.bias = &bias;
    }
    TRY(accept_out_plain(call, prepared, 0));
    TRY(linear_choose_matrix(ctx, call, prepared, &problem, flops, &primitive));
    onednn_release(primitive);
    if (!linear_rows_fit(weight, 0))
        return prepared_decline(prepared, "rows: weight %s is not in blocks of outputs",
                                info_brief(weight));
    prepared_set_scratch(prepared, rows_product_scratch(rows, features));
    prepared->cost_ns = cost_layer(ctx, "rows", flops,
                                   (double)(rows * (features + outputs)) * sizeof(float),
                                   (double)info_bytes(weight));
    return STATUS_OK;
}

static status_t linear_rows_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    const post_rest_t all = {&((const linear_attrs_t *)prepared->kernel_attrs)->post, 0};
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const int64_t n = info_numel(&prepared->out[0]);
    const rows_product_t product = {.n_rows = n / weight->sizes[0],
                                    .terms = linear_rows_axis(weight, 1),
                                    .results = linear_rows_axis(weight, 0),
                                    .x = in[X],
                                    .weight = in[WEIGHT],
                                    .bias = in[BIAS],
                                    .out = out[0]};
    rows_product_run(&product, isa_best(), threads_for(ctx, n * weight->sizes[1]), scratch);
    post_finish(&all, out[0], n);
    return STATUS_OK;
}

const kernel_t linear_rows = {.name = "rows",
                              .prepare = linear_rows_prepare,
                              .run = linear_rows_run,
                              .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                       KERNEL_COMPETES};
