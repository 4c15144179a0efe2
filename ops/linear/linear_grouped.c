/* Fully connected layers with a weight in a grouped format (grouping_t), for any number of rows.
 * The weight is read as it is. The result differs from that with the widened weight by rounding of
 * f32 only (grouped_product_impl.h). */
#include "kernels/linear/grouped_product_impl.h"
#include "ops/accept_impl.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

static status_t check(const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    if (weight->format.kind != FORMAT_GROUPED)
        return prepared_decline(prepared, "grouped: the weight has no low-bit codes");
    if (call->per_op)
        return prepared_decline(prepared, "grouped: oneDNN alone under policy per_op");
    if (call_has(call, BIAS) && call->in[BIAS]->dtype != DTYPE_F32)
        return prepared_decline(prepared, "grouped: bias of dtype %s",
                                dtype_name(call->in[BIAS]->dtype));
    return STATUS_OK;
}

static grouped_t describe(const prepared_t *prepared)
{
    grouped_t grouped = {.n_rows = 0};
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const bool is_found = grouped_find(&weight->format, weight->sizes, &grouped);
    INVARIANT(is_found);
    (void)is_found;
    return grouped;
}

static int64_t count_rows(const prepared_t *prepared)
{
    return info_numel(&prepared->out[0]) / prepared->in[WEIGHT].sizes[0];
}

static status_t linear_grouped_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(check(call, prepared));
    TRY(accept_plain(call, prepared, X));
    TRY(accept_out_plain(call, prepared, 0));
    TRY(linear_settle_post(call, prepared));
    prepared->in[WEIGHT] = *call->in[WEIGHT];
    if (call_has(call, BIAS)) prepared->in[BIAS] = info_dense(DTYPE_F32, 1, call->in[BIAS]->sizes);
    const grouped_t grouped = describe(prepared);
    const int64_t n_rows = count_rows(prepared);
    prepared_set_scratch(prepared, grouped_product_scratch(&grouped, n_rows, context_threads(ctx)));
    const double n_elements = (double)n_rows * (double)(grouped.n_columns + grouped.n_rows);
    prepared->cost_ns = cost_layer(
        ctx, "grouped", 2.0 * (double)n_rows * (double)info_numel(call->in[WEIGHT]),
        n_elements * sizeof(float), (double)info_bytes(call->in[WEIGHT]));
    prepared->implementation = grouped_product_name(isa_best(), &grouped, n_rows);
    prepared->is_asked_for = true;
    return STATUS_OK;
}

static status_t linear_grouped_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                   void *const *out, void *scratch)
{
    const grouped_t grouped = describe(prepared);
    const linear_finish_t finish = linear_find_finish(prepared, in);
    grouped_product_t product = {.grouped = &grouped,
                                 .weight = in[WEIGHT],
                                 .n_rows = count_rows(prepared),
                                 .x = in[X],
                                 .x_stride = grouped.n_columns,
                                 .bias = in[BIAS],
                                 .accumulates = prepared->sum_operand >= 0,
                                 .out = out[0],
                                 .out_stride = grouped.n_rows,
                                 .user = &finish};
    if (finish.post->n > (product.accumulates ? 1 : 0)) product.finish = linear_apply;
    grouped_product_run(&product, isa_best(), threads_for(ctx, grouped.n_rows * grouped.n_columns),
                        scratch);
    return STATUS_OK;
}

const kernel_t linear_grouped = {.name = "grouped",
                                 .prepare = linear_grouped_prepare,
                                 .run = linear_grouped_run,
                                 .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS |
                                          KERNEL_COMPETES};
