/* Gradients of pooling. The gradient of a maximum is added to the first largest element of the
 * window, or to the last NaN, as in PyTorch. The gradient of an average is divided equally among
 * the elements of the window. */
#include <math.h>
#include <string.h>

#include "kernels/pool/gradient_impl.h"
#include "ops/accept_impl.h"
#include "ops/pool/pool_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

#define INPUT_SIZE FIELD_INTS(pool_backward_attrs_t, input_size)

static const attr_field_t fields_max_1d[] = {POOL_FIELDS(1)};
static const attr_field_t fields_max_2d[] = {POOL_FIELDS(2)};
static const attr_field_t fields_max_3d[] = {POOL_FIELDS(3)};
static const attr_field_t fields_avg_1d[] = {POOL_FIELDS(1), POOL_COUNT_INCLUDE_PAD, INPUT_SIZE};
static const attr_field_t fields_avg_2d[] = {POOL_FIELDS(2), POOL_COUNT_INCLUDE_PAD, INPUT_SIZE};
static const attr_field_t fields_avg_3d[] = {POOL_FIELDS(3), POOL_COUNT_INCLUDE_PAD, INPUT_SIZE};
static const attr_field_t fields_adaptive_avg[] = {INPUT_SIZE};

static const operand_t max_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                         {"grad", ROLE_ACTIVATION, false, false}};
static const operand_t avg_operands[] = {{"grad", ROLE_ACTIVATION, false, false}};
enum { X };

/* Index of the last operand: the gradient of the result. */
static int grad_of(const opdef_t *op)
{
    return op->n_operands - 1;
}

/* ---- inference ---- */

static const opdef_t *forward_of(const opdef_t *op, int n_spatial)
{
    static const opdef_t *const windowed[2][3] = {
        {&op_def_max_pool1d, &op_def_max_pool2d, &op_def_max_pool3d},
        {&op_def_avg_pool1d, &op_def_avg_pool2d, &op_def_avg_pool3d}};
    if (pool_is_adaptive(op))
        return pool_is_average(op) ? &op_def_adaptive_avg_pool : &op_def_adaptive_max_pool;
    return windowed[pool_is_average(op)][n_spatial - 1];
}

const opdef_t *pool_backward_op(const opdef_t *forward, int n_spatial)
{
    static const opdef_t *const windowed[2][3] = {
        {&op_def_max_pool1d_backward, &op_def_max_pool2d_backward, &op_def_max_pool3d_backward},
        {&op_def_avg_pool1d_backward, &op_def_avg_pool2d_backward, &op_def_avg_pool3d_backward}};
    if (pool_is_adaptive(forward))
        return pool_is_average(forward) ? &op_def_adaptive_avg_pool_backward
                                        : &op_def_adaptive_max_pool_backward;
    return windowed[pool_is_average(forward)][n_spatial >= 1 && n_spatial <= 3 ? n_spatial - 1 : 0];
}

/* Infers the forward operator's result from its input: operand x, or attribute input_size. */
static status_t pool_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                    tensor_info_t *out)
{
    const opdef_t *op = call->op;
    const pool_backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[grad_of(op)];
    const bool is_adaptive = pool_is_adaptive(op);
    const int n_spatial = is_adaptive ? grad->rank - 2 : op->attrs.fields[0].length;
    REQUIRE(ctx, grad->rank == n_spatial + 2 && n_spatial >= 1 && n_spatial <= 3,
            "%s: grad is %s, another rank is needed", op->name, info_brief(grad));
    tensor_info_t x = *call->in[X], pooled = {.dtype = DTYPE_NONE};
    if (pool_is_average(op)) {
        int64_t sizes[TENSOR_MAX_RANK] = {grad->sizes[0], grad->sizes[1]};
        REQUIRE(ctx, attrs->input_size.n == n_spatial,
                "%s: input_size has %d numbers, grad %s needs %d", op->name, attrs->input_size.n,
                info_brief(grad), n_spatial);
        for (int i = 0; i < n_spatial; i++) sizes[2 + i] = attrs->input_size.values[i];
        TRY(shape_check(ctx, op->name, grad->dtype, grad->rank, sizes));
        x = info_dense(grad->dtype, grad->rank, sizes);
    }
    adaptive_attrs_t adaptive = {.output_size.n = n_spatial};
    for (int i = 0; i < n_spatial; i++) adaptive.output_size.values[i] = grad->sizes[2 + i];
    const tensor_info_t *const in[] = {&x};
    op_call_t forward = {.op = forward_of(op, n_spatial), .n_in = 1, .in = in};
    forward.attrs = is_adaptive ? (const void *)&adaptive : (const void *)&attrs->windows;
    TRY(forward.op->infer(ctx, &forward, out_n, &pooled));
    REQUIRE(ctx, dtype_is_floating(grad->dtype) && sizes_are_like(ctx, grad, &pooled),
            "%s: grad is %s, the pooled input is %s", op->name, info_brief(grad),
            info_brief(&pooled));
    out[0] = info_dense(x.dtype, x.rank, x.sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

/* Finds the element of a window to which the maximum's gradient is added. index: image, channel. */
static void find_largest(const spec_call_t *call, const pool_window_t *w, const int64_t *index,
                         int64_t *out_at)
{
    const int lead = 5 - call->in[X]->rank;
    const int64_t counts[] = {w[0].count, w[1].count, w[2].count};
    int64_t tap[3] = {0}, at[TENSOR_MAX_RANK] = {index[0], index[1]};
    double largest = -INFINITY;
    for (int i = 0; i < 3; i++) out_at[i] = w[i].first;
    do {
        for (int i = lead; i < 3; i++) at[2 + i - lead] = w[i].first + tap[i] * w[i].step;
        const double value = spec_at(call, X, at);
        if (!(value > largest || isnan(value))) continue;
        largest = value;
        for (int i = 0; i < 3; i++) out_at[i] = w[i].first + tap[i] * w[i].step;
    } while (shape_next(3, counts, tap));
}

static double pool_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *grad = call->in[grad_of(call->op)], *x = &call->out[0];
    const int lead = 5 - grad->rank;
    pool_axis_t axes[3];
    int64_t q[3] = {0}, at[TENSOR_MAX_RANK] = {index[0], index[1]};
    double sum = 0.0;
    pool_axes(call->op, call->attrs, x, grad, axes);
    const int64_t counts[] = {axes[0].out, axes[1].out, axes[2].out};
    do {
        pool_window_t w[3];
        int64_t largest[3] = {0};
        bool is_under = true, is_largest = true;
        for (int i = 0; i < 3; i++) {
            w[i] = pool_window(&axes[i], q[i]);
            const int64_t here = i < lead ? 0 : index[2 + i - lead], way = here - w[i].first;
            is_under = is_under && way >= 0 && way % w[i].step == 0 && way / w[i].step < w[i].count;
        }
        if (!is_under) continue;
        if (!pool_is_average(call->op)) find_largest(call, w, index, largest);
        for (int i = lead; i < 3; i++) {
            at[2 + i - lead] = q[i];
            is_largest = is_largest && largest[i] == index[2 + i - lead];
        }
        const double g = spec_at(call, grad_of(call->op), at);
        if (pool_is_average(call->op))
            sum += g / pool_divisor(w, pool_counts_padding(call->op, call->attrs));
        else if (is_largest)
            sum += g;
    } while (shape_next(3, counts, q));
    return sum;
}

/* ---- kernel: window by window, up to POOL_GRADIENT_LANES channels of a block at a time ---- */

/* The format in which x or grad is read. A format with blocks of channels or channels last is kept,
 * even if the plain format has the same bytes, as for f32[4,128,1,1]: this may be the gradient of a
 * larger x, for which the formats differ. */
static format_t format_of(const tensor_info_t *info)
{
    const format_t own = info_tag(info), last = format_channels_last(info->rank);
    if (own.n_blocks == 0 && memcmp(own.order, last.order, (size_t)info->rank) == 0) return last;
    if (own.n_blocks != 1 || own.block_dims[0] != 1) return pool_format(info);
    const format_t blocks = format_channel_blocks(info->rank, own.block_sizes[0]);
    return format_same(&own, &blocks, info->sizes) ? blocks : pool_format(info);
}

/* The format of x, or that of grad if only grad has blocks. */
static format_t choose_format(const op_call_t *call)
{
    const format_t first = format_of(call->in[X]);
    const format_t other = format_of(call->in[grad_of(call->op)]);
    return first.n_blocks == 0 && other.n_blocks > 0 ? other : first;
}

static status_t pool_backward_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = &call->out[0];
    const format_t format = choose_format(call);
    const int n_threads = context_threads(ctx);
    pool_plan_t *plan = NULL;
    TRY(context_get_zeroed(ctx, sizeof *plan, "pooling", &plan));
    prepared->state = plan;
    TRY(pool_prepare(ctx, call, x, call->in[grad_of(call->op)], &format, prepared, plan));
    if (x->dtype == DTYPE_F32 || x->dtype == DTYPE_F64) return STATUS_OK;
    const int64_t limit = INT64_MAX / (int64_t)sizeof(float) / POOL_GRADIENT_LANES / n_threads;
    if (plan->in_plane > limit / 4 || plan->out_plane > limit / 4)
        return prepared_decline(prepared, "native: too many elements of a channel");
    prepared->scratch_bytes = (size_t)pool_gradient_scratch(plan, x->dtype) * (size_t)n_threads *
                              sizeof(float);
    return STATUS_OK;
}

static status_t pool_backward_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    const pool_plan_t *plan = prepared->state;
    const pool_gradient_t gradient = {.plan = plan,
                                      .dtype = prepared->out[0].dtype,
                                      .src = plan->is_average ? NULL : in[X],
                                      .grad = in[grad_of(prepared->op)],
                                      .out = out[0]};
    pool_gradient_run(&gradient, isa_best(), threads_for(ctx, walk_elements(&prepared->out[0])),
                      scratch);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = pool_backward_prepare, .run = pool_backward_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- definitions ---- */

#define DEFINE(op_name, kind, bits, ...)                                                           \
    const opdef_t op_def_##op_name##_backward = {.name = #op_name "_backward",                     \
                                                 .variant = VARIANT_##kind | (bits),               \
                                                 .preference = OP_FOLLOWS,                         \
                                                 .attrs = {__VA_ARGS__},                           \
                                                 .n_operands = sizeof kind##_operands /            \
                                                               sizeof *kind##_operands,            \
                                                 .operands = kind##_operands,                      \
                                                 .n_outputs = 1,                                   \
                                                 .infer = pool_backward_infer,                     \
                                                 .infers_symbols = true,                           \
                                                 .kernels = kernels,                               \
                                                 .spec = pool_backward_spec}
#define ATTRS(fields) sizeof(pool_backward_attrs_t), sizeof(fields) / sizeof *(fields), fields

DEFINE(max_pool1d, max, 0, ATTRS(fields_max_1d));
DEFINE(max_pool2d, max, 0, ATTRS(fields_max_2d));
DEFINE(max_pool3d, max, 0, ATTRS(fields_max_3d));
DEFINE(avg_pool1d, avg, 0, ATTRS(fields_avg_1d));
DEFINE(avg_pool2d, avg, 0, ATTRS(fields_avg_2d));
DEFINE(avg_pool3d, avg, 0, ATTRS(fields_avg_3d));
DEFINE(adaptive_avg_pool, avg, POOL_ADAPTIVE, ATTRS(fields_adaptive_avg));
DEFINE(adaptive_max_pool, max, POOL_ADAPTIVE, 0, 0, NULL);
