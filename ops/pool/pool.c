/* Max and average pooling over one to three spatial dimensions, windowed or adaptive. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/pool/pool_impl.h"
#include "ops/accept_impl.h"
#include "ops/pool/pool_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const attr_field_t fields_max_1d[] = {POOL_FIELDS(1)};
static const attr_field_t fields_max_2d[] = {POOL_FIELDS(2)};
static const attr_field_t fields_max_3d[] = {POOL_FIELDS(3)};
static const attr_field_t fields_avg_1d[] = {POOL_FIELDS(1), POOL_COUNT_INCLUDE_PAD};
static const attr_field_t fields_avg_2d[] = {POOL_FIELDS(2), POOL_COUNT_INCLUDE_PAD};
static const attr_field_t fields_avg_3d[] = {POOL_FIELDS(3), POOL_COUNT_INCLUDE_PAD};
static const attr_field_t fields_adaptive[] = {FIELD_INTS(adaptive_attrs_t, output_size)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* ---- windows ---- */

bool pool_counts_padding(const opdef_t *op, const void *attrs)
{
    return pool_is_average(op) && !pool_is_adaptive(op) &&
           ((const pool_attrs_t *)attrs)->count_include_pad;
}

/* Number of windows that are `length` elements long. In ceil mode, the last one must begin inside
 * the input or in the padding before it. */
static int64_t count_windows(context_t *ctx, const pool_axis_t *axis, int64_t length,
                             bool ceil_mode)
{
    const int64_t rest = sym_subtract(ctx, sym_add(ctx, axis->padding, axis->padded), length);
    if (!ceil_mode) return sym_add(ctx, sym_divide(ctx, rest, axis->stride), 1);
    const int64_t inside = sym_add(ctx, axis->in, axis->padding);
    return sym_min(ctx, sym_add(ctx, sym_divide_up(ctx, rest, axis->stride), 1),
                   sym_divide_up(ctx, inside, axis->stride));
}

/* Describes one axis of a call, except the sizes of input and result. */
static pool_axis_t describe_axis(const opdef_t *op, const void *attrs, int d)
{
    if (pool_is_adaptive(op)) return (pool_axis_t){.kernel = 0};
    const pool_attrs_t *given = attrs;
    pool_axis_t axis = {.kernel = given->kernel[d],
                        .stride = given->stride[d],
                        .dilation = given->dilation[d],
                        .padding = given->padding[d]};
    if (axis.stride == 0) axis.stride = axis.kernel;
    const int64_t extra = given->extra_padding[d];
    if (__builtin_add_overflow(axis.padding, extra, &axis.padded))
        axis.padded = extra > 0 ? INT64_MAX : INT64_MIN;
    return axis;
}

void pool_axes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
               const tensor_info_t *out, pool_axis_t *out_axes)
{
    int n_spatial = x->rank - 2;
    for (int i = 0; i < 3; i++) {
        int d = i - (3 - n_spatial);
        out_axes[i] = (pool_axis_t){
            .in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1, .padded = 1};
        if (d < 0) continue;
        out_axes[i] = describe_axis(op, attrs, d);
        out_axes[i].in = x->sizes[2 + d];
        out_axes[i].out = out->sizes[2 + d];
        out_axes[i].padded += x->sizes[2 + d];
    }
}

/* ---- inference ---- */

status_t pool_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const pool_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    const int n_spatial = call->op->attrs.fields[0].length;
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    REQUIRE(ctx, x->rank == n_spatial + 2, "%s: x is %s, rank %d is needed", op, info_brief(x),
            n_spatial + 2);
    REQUIRE(ctx, dtype_is_floating(x->dtype) || !pool_is_average(call->op),
            "%s: x is %s, a floating type is needed", op, info_brief(x));
    sizes[0] = x->sizes[0];
    sizes[1] = x->sizes[1];
    for (int i = 0; i < n_spatial; i++) {
        pool_axis_t axis = describe_axis(call->op, attrs, i);
        const int64_t most = INT32_MAX, extra = attrs->extra_padding[i];
        if (sym_is(axis.padding) || sym_is(extra)) axis.padded = sym_add(ctx, axis.padding, extra);
        REQUIRE(ctx,
                sizes_within(ctx, axis.kernel, 1, most) &&
                    sizes_within(ctx, axis.stride, 1, most) &&
                    sizes_within(ctx, axis.dilation, 1, most),
                "%s: kernel %lld, stride %lld, dilation %lld, positive ones are needed", op,
                (long long)axis.kernel, (long long)axis.stride, (long long)axis.dilation);
        int64_t length = sym_multiply(ctx, sym_subtract(ctx, axis.kernel, 1), axis.dilation);
        length = sym_add(ctx, length, 1);
        REQUIRE(ctx,
                sym_at_most(ctx, 0, axis.padding) && sym_less(ctx, axis.padding, length) &&
                    sym_at_most(ctx, 0, axis.padded) && sym_less(ctx, axis.padded, length),
                "%s: padding %lld before and %lld behind, from 0 to less than the window of %lld "
                "is needed",
                op, (long long)axis.padding, (long long)axis.padded, (long long)length);
        axis.in = x->sizes[2 + i];
        axis.padded = sym_add(ctx, axis.padded, axis.in);
        sizes[2 + i] = sym_less(ctx, 0, axis.in)
                           ? count_windows(ctx, &axis, length, attrs->ceil_mode)
                           : 0;
        REQUIRE(ctx, sym_at_most(ctx, 1, sizes[2 + i]),
                "%s: a window of %lld is larger than the padded input %s", op, (long long)length,
                info_brief(x));
    }
    TRY(shape_check(ctx, op, x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

status_t pool_infer_adaptive(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const ints_t *output_size = &((const adaptive_attrs_t *)call->attrs)->output_size;
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    REQUIRE(ctx, x->rank >= 3 && x->rank <= 5, "%s: x is %s, rank 3 to 5 is needed", op,
            info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype) || !pool_is_average(call->op),
            "%s: x is %s, a floating type is needed", op, info_brief(x));
    REQUIRE(ctx, output_size->n == x->rank - 2, "%s: output_size has %d numbers, input %s needs %d",
            op, output_size->n, info_brief(x), x->rank - 2);
    sizes[0] = x->sizes[0];
    sizes[1] = x->sizes[1];
    for (int i = 0; i < output_size->n; i++) {
        sizes[2 + i] = output_size->values[i];
        REQUIRE(ctx,
                sizes_within(ctx, sizes[2 + i], 0, INT32_MAX) &&
                    sizes_within(ctx, x->sizes[2 + i], 1, INT32_MAX),
                "%s: output_size %lld of input %s, something of something is needed", op,
                (long long)sizes[2 + i], info_brief(x));
    }
    TRY(shape_check(ctx, op, x->dtype, x->rank, sizes));
    out[0] = info_dense(x->dtype, x->rank, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double pool_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const bool average = pool_is_average(call->op);
    pool_axis_t axes[3];
    pool_window_t windows[3] = {{0}};
    int64_t counts[3], tap[3] = {0}, at[TENSOR_MAX_RANK] = {index[0], index[1]};
    double sum = 0.0, largest = -INFINITY;
    bool is_empty = false;
    int lead = 5 - x->rank;
    pool_axes(call->op, call->attrs, x, &call->out[output], axes);
    for (int i = 0; i < 3; i++) {
        windows[i] = pool_window(&axes[i], i < lead ? 0 : index[2 + i - lead]);
        counts[i] = windows[i].count;
        is_empty = is_empty || counts[i] == 0;
    }
    if (is_empty) return average ? 0.0 : -INFINITY;
    do {
        for (int i = lead; i < 3; i++)
            at[2 + i - lead] = windows[i].first + tap[i] * windows[i].step;
        double value = spec_at(call, X, at);
        sum += value;
        if (value > largest || isnan(value)) largest = value;
    } while (shape_next(3, counts, tap));
    if (!average) return largest;
    return sum / pool_divisor(windows, pool_counts_padding(call->op, call->attrs));
}

/* ---- kernel on oneDNN ----
 *
 * Computes averages, and maxima of integers, if all windows have one size and no dilation. It does
 * not compute floating maxima: oneDNN's maximum of NaNs, or of -inf alone, is -FLT_MAX. */

/* Describes an adaptive axis by kernel and stride. Returns false if its windows have different
 * sizes. */
static bool as_windowed(pool_axis_t *axis)
{
    if (axis->kernel != 0) return true;
    if (axis->in % axis->out != 0) return false;
    axis->kernel = axis->stride = axis->in / axis->out;
    axis->dilation = 1;
    axis->padded = axis->in;
    return true;
}

static bool has_dtype(const op_call_t *call)
{
    dtype_t dtype = call->in[X]->dtype;
    bool is_small = dtype == DTYPE_S8 || dtype == DTYPE_U8;
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || (is_small && !pool_is_average(call->op));
}

static status_t pool_prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const bool counts_padding = pool_counts_padding(call->op, call->attrs);
    pool_axis_t axes[3];
    if (!has_dtype(call))
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    if (!pool_is_average(call->op) && dtype_is_floating(x->dtype))
        return prepared_decline(prepared, "onednn: its maximum loses NaN and -inf");
    if (x->dtype == DTYPE_F32 && info_numel(&call->out[0]) == x->sizes[0] * x->sizes[1])
        return prepared_decline(prepared,
                                "onednn: one mean of a channel is as fast without OpenMP");
    tensor_info_t src = *x, dst = call->out[0];
    onednn_problem_t problem = {.kind = ONEDNN_POOLING, .n_src = 1, .src = &src, .dst = &dst};
    problem.algorithm = !pool_is_average(call->op) ? ONEDNN_POOL_MAX
                        : counts_padding           ? ONEDNN_POOL_AVERAGE_PADDED
                                                   : ONEDNN_POOL_AVERAGE;
    pool_axes(call->op, call->attrs, x, &dst, axes);
    int64_t n_under = 1;
    for (int i = 0; i < x->rank - 2; i++) {
        pool_axis_t *axis = &axes[i + 5 - x->rank];
        if (!as_windowed(axis))
            return prepared_decline(prepared, "onednn: windows of %lld over %lld differ in size",
                                    (long long)axis->out, (long long)axis->in);
        if (axis->dilation != 1)
            return prepared_decline(prepared, "onednn: dilated pooling is slow reference code");
        int64_t reach = (axis->out - 1) * axis->stride + axis->kernel - axis->padding;
        if (counts_padding && reach > axis->padded)
            return prepared_decline(
                prepared,
                "onednn: its divisor of the last window counts elements beyond the padding");
        problem.kernel[i] = axis->kernel;
        problem.stride[i] = axis->stride;
        problem.dilation[i] = 1;
        problem.pad_begin[i] = axis->padding;
        problem.pad_end[i] = reach > axis->in ? reach - axis->in : 0;
        n_under *= axis->kernel < axis->in ? axis->kernel : axis->in;
    }
    if (pool_is_average(call->op) && n_under > REDUCE_NAIVE_MOST)
        return prepared_decline(prepared, "onednn: it sums %lld elements in one float",
                                (long long)n_under);
    op_call_t own = *call;
    own.keep_formats = true;
    return choose_formats(ctx, &own, prepared, &problem, 0.0);
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = pool_prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel: window by window, all channels of a block at a time ---- */

format_t pool_format(const tensor_info_t *x)
{
    format_t own = info_tag(x), plain = format_plain(x->rank);
    format_t last = format_channels_last(x->rank);
    if (format_same(&own, &plain, x->sizes)) return plain;
    if (format_same(&own, &last, x->sizes)) return last;
    if (own.n_blocks == 1 && own.block_dims[0] == 1) {
        format_t blocks = format_channel_blocks(x->rank, own.block_sizes[0]);
        if (format_same(&own, &blocks, x->sizes)) return blocks;
    }
    return plain;
}

status_t pool_prepare(context_t *ctx, const op_call_t *call, const tensor_info_t *x,
                      const tensor_info_t *pooled, const format_t *format, prepared_t *prepared,
                      pool_plan_t *out_plan)
{
    pool_plan_t *plan = out_plan;
    const format_t plain = format_plain(x->rank);
    const bool is_plain = memcmp(format->order, plain.order, (size_t)x->rank) == 0;
    for (int i = 0; i < call->n_in; i++) TRY(accept_format(call, prepared, i, format));
    TRY(accept_out(call, prepared, 0, format));
    pool_axes(call->op, call->attrs, x, pooled, plan->axes);
    plan->is_average = pool_is_average(call->op);
    plan->counts_padding = pool_counts_padding(call->op, call->attrs);
    plan->block = format->n_blocks == 1 ? format->block_sizes[0] : is_plain ? 1 : x->sizes[1];
    plan->n_outer = x->sizes[0] * ((x->sizes[1] + plan->block - 1) / plan->block);
    plan->in_plane = plan->out_plane = 1;
    for (int i = 0; i < 3; i++) {
        plan->in_plane *= plan->axes[i].in;
        plan->out_plane *= plan->axes[i].out;
    }
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(x));
    return STATUS_OK;
}

static const kernel_rows_t native_rows;

/* Padded channels are not computed by rows: they would have to be cleared. */
static void set_rows(const op_call_t *call, const pool_plan_t *plan, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const pool_axis_t *axis = &plan->axes[1];
    if (x->rank != 4 || x->sizes[0] != 1 || plan->block == 1 || axis->kernel == 0 ||
        x->sizes[1] % plan->block != 0)
        return;
    prepared->rows = &native_rows;
    prepared->rows_stride = axis->stride;
    prepared->rows_padding = axis->padding;
    prepared->rows_reach = (axis->kernel - 1) * axis->dilation + 1;
}

static status_t pool_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const format_t format = pool_format(x);
    pool_plan_t *plan = NULL;
    TRY(context_get_zeroed(ctx, sizeof *plan, "pooling", &plan));
    prepared->state = plan;
    TRY(pool_prepare(ctx, call, x, &call->out[0], &format, prepared, plan));
    const bool has_vectors = x->dtype == DTYPE_F32 || x->dtype == DTYPE_BF16;
    if (!plan->is_average && has_vectors) /* limited by memory */
        prepared->cost_ns = cost_run(ctx, "native", 0.0,
                                     (double)(info_bytes(x) + info_bytes(&call->out[0])));
    prepared->scratch_bytes = pool_scratch(plan, x->dtype);
    set_rows(call, plan, prepared);
    return STATUS_OK;
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch, const image_rows_t *rows)
{
    pool_plan_t plan = *(const pool_plan_t *)prepared->state;
    plan.rows = *rows;
    pool_forward(&plan, prepared->in[X].dtype, in[X], out[0],
                 threads_for(ctx, walk_elements(&prepared->in[X])), scratch);
    return STATUS_OK;
}

static const kernel_rows_t native_rows = {.run = run_rows};

static status_t pool_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    pool_forward(prepared->state, prepared->in[X].dtype, in[X], out[0],
                 threads_for(ctx, walk_elements(&prepared->in[X])), scratch);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = pool_prepare_native, .run = pool_run_native};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- gradients: operators of pool_backward.c ---- */

static void pool_pass(const gradient_call_t *call)
{
    const bool average = pool_is_average(call->op);
    const tensor_info_t x = *emit_info(call->emitter, call->in[X]);
    pool_backward_attrs_t attrs = {.input_size.n = x.rank > 2 ? x.rank - 2 : 0};
    for (int i = 0; i < attrs.input_size.n; i++) attrs.input_size.values[i] = x.sizes[2 + i];
    if (!pool_is_adaptive(call->op)) attrs.windows = *(const pool_attrs_t *)call->attrs;
    const opdef_t *op = pool_backward_op(call->op, attrs.input_size.n);
    const value_t in[] = {average ? call->out_grad[0] : call->in[X], call->out_grad[0]};
    if (x.rank < 3) return;
    call->in_grad[X] = emit_op(call->emitter, op, &attrs, average ? 1 : 2, in);
}

static const gradient_t gradient_max = {.pass = pool_pass, .reads_in = 1u << X};
static const gradient_t gradient_avg = {.pass = pool_pass};

/* ---- definitions ---- */

#define DEFINE(kind, n)                                                                            \
    const opdef_t op_def_##kind##_pool##n##d = {                                                   \
        .name = #kind "_pool" #n "d",                                                              \
        .variant = VARIANT_##kind,                                                                 \
        .preference = OP_FOLLOWS,                                                                  \
        .traits = TRAIT_BATCHED,                                                                   \
        .attrs = {sizeof(pool_attrs_t),                                                            \
                  sizeof fields_##kind##_##n##d / sizeof *fields_##kind##_##n##d,                  \
                  fields_##kind##_##n##d},                                                         \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = pool_infer,                                                                       \
        .infers_symbols = true,                                                                    \
        .kernels = kernels,                                                                        \
        .spec = pool_spec,                                                                         \
        .gradient = &gradient_##kind}

DEFINE(max, 1);
DEFINE(max, 2);
DEFINE(max, 3);
DEFINE(avg, 1);
DEFINE(avg, 2);
DEFINE(avg, 3);

#define DEFINE_ADAPTIVE(kind)                                                                      \
    const opdef_t op_def_adaptive_##kind##_pool = {                                                \
        .name = "adaptive_" #kind "_pool",                                                         \
        .variant = POOL_ADAPTIVE | VARIANT_##kind,                                                 \
        .preference = OP_FOLLOWS,                                                                  \
        .traits = TRAIT_BATCHED,                                                                   \
        .attrs = {sizeof(adaptive_attrs_t), 1, fields_adaptive},                                   \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = pool_infer_adaptive,                                                              \
        .infers_symbols = true,                                                                    \
        .kernels = kernels,                                                                        \
        .spec = pool_spec,                                                                         \
        .gradient = &gradient_##kind}

DEFINE_ADAPTIVE(avg);
DEFINE_ADAPTIVE(max);

/* ---- public ---- */

#define PUBLIC(name)                                                                               \
    status_t op_##name(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,               \
                       tensor_t **out)                                                             \
    {                                                                                              \
        return dispatch_run(ctx, &op_def_##name, attrs, 1, &x, NULL, out);                         \
    }

PUBLIC(max_pool1d)
PUBLIC(max_pool2d)
PUBLIC(max_pool3d)
PUBLIC(avg_pool1d)
PUBLIC(avg_pool2d)
PUBLIC(avg_pool3d)

status_t pool_read_adaptive(context_t *ctx, const opdef_t *op, int n, const int64_t *output_size,
                            adaptive_attrs_t *out_attrs)
{
    if (output_size == NULL) return context_null(ctx, op->name, "output_size");
    REQUIRE(ctx, n >= 1 && n <= 3, "%s: output_size has %d numbers, 1 to 3 are possible", op->name,
            n);
    *out_attrs = (adaptive_attrs_t){.output_size.n = n};
    memcpy(out_attrs->output_size.values, output_size, (size_t)n * sizeof *output_size);
    return STATUS_OK;
}

static status_t call_adaptive(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                              const int64_t *output_size, tensor_t **out)
{
    adaptive_attrs_t attrs;
    TRY(context_output(ctx, op->name, out));
    TRY(pool_read_adaptive(ctx, op, n, output_size, &attrs));
    return dispatch_run(ctx, op, &attrs, 1, &x, NULL, out);
}

status_t op_adaptive_avg_pool(context_t *ctx, const tensor_t *x, int n, const int64_t *output_size,
                              tensor_t **out)
{
    return call_adaptive(ctx, &op_def_adaptive_avg_pool, x, n, output_size, out);
}

status_t op_adaptive_max_pool(context_t *ctx, const tensor_t *x, int n, const int64_t *output_size,
                              tensor_t **out)
{
    return call_adaptive(ctx, &op_def_adaptive_max_pool, x, n, output_size, out);
}
