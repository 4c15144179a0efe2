/* Gradients of pooling. The gradient of a maximum goes to the first largest element of its window,
 * or to the last NaN, as PyTorch's; that of an average to all in equal parts. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/pool_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/simd_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

#define AT(name) offsetof(pool_backward_attrs_t, windows.name)
#define FIELDS(n)                                                                                  \
    {"kernel", ATTR_ARRAY, true, AT(kernel), n, 0, NULL},                                          \
        {"stride", ATTR_ARRAY, true, AT(stride), n, 0, NULL},                                      \
        {"padding", ATTR_ARRAY, false, AT(padding), n, 0, NULL},                                   \
        {"extra_padding", ATTR_ARRAY, false, AT(extra_padding), n, 0, NULL},                       \
        {"ceil_mode", ATTR_BOOL, false, AT(ceil_mode), 0, 0, NULL},                                \
    {                                                                                              \
        "dilation", ATTR_ARRAY, true, AT(dilation), n, 1, NULL                                     \
    }
#define COUNT_INCLUDE_PAD                                                                          \
    {                                                                                              \
        "count_include_pad", ATTR_BOOL, false, AT(count_include_pad), 0, 0, NULL                   \
    }
#define INPUT_SIZE                                                                                 \
    {                                                                                              \
        "input_size", ATTR_INTS, false, offsetof(pool_backward_attrs_t, input_size), 0, 0, NULL    \
    }

static const attr_field_t fields_max_1d[] = {FIELDS(1)};
static const attr_field_t fields_max_2d[] = {FIELDS(2)};
static const attr_field_t fields_max_3d[] = {FIELDS(3)};
static const attr_field_t fields_avg_1d[] = {FIELDS(1), COUNT_INCLUDE_PAD, INPUT_SIZE};
static const attr_field_t fields_avg_2d[] = {FIELDS(2), COUNT_INCLUDE_PAD, INPUT_SIZE};
static const attr_field_t fields_avg_3d[] = {FIELDS(3), COUNT_INCLUDE_PAD, INPUT_SIZE};
static const attr_field_t fields_adaptive_avg[] = {INPUT_SIZE};

static const operand_t max_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                         {"grad", ROLE_ACTIVATION, false, false}};
static const operand_t avg_operands[] = {{"grad", ROLE_ACTIVATION, false, false}};
enum { X };

static bool is_average(const opdef_t *op)
{
    return (op->variant & POOL_AVERAGE) != 0;
}

/* The gradient of the result: the last operand. */
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
    if ((op->variant & POOL_ADAPTIVE) != 0)
        return is_average(op) ? &op_def_adaptive_avg_pool : &op_def_adaptive_max_pool;
    return windowed[is_average(op)][n_spatial - 1];
}

const opdef_t *pool_backward_op(const opdef_t *forward, int n_spatial)
{
    static const opdef_t *const windowed[2][3] = {
        {&op_def_max_pool1d_backward, &op_def_max_pool2d_backward, &op_def_max_pool3d_backward},
        {&op_def_avg_pool1d_backward, &op_def_avg_pool2d_backward, &op_def_avg_pool3d_backward}};
    if ((forward->variant & POOL_ADAPTIVE) != 0)
        return is_average(forward) ? &op_def_adaptive_avg_pool_backward
                                   : &op_def_adaptive_max_pool_backward;
    return windowed[is_average(forward)][n_spatial >= 1 && n_spatial <= 3 ? n_spatial - 1 : 0];
}

/* The forward's input: the operand, or the sizes that the attribute names. */
static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const opdef_t *op = call->op;
    const pool_backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[grad_of(op)];
    const bool is_adaptive = (op->variant & POOL_ADAPTIVE) != 0;
    const int n_spatial = is_adaptive ? grad->rank - 2 : op->attrs.fields[0].length;
    REQUIRE(ctx, grad->rank == n_spatial + 2 && n_spatial >= 1 && n_spatial <= 3,
            "%s: grad is %s, another rank is needed", op->name, info_brief(grad));
    tensor_info_t x = *call->in[X], pooled = {.dtype = DTYPE_NONE};
    if (is_average(op)) {
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
    REQUIRE(ctx,
            dtype_is_floating(grad->dtype) && grad->dtype == pooled.dtype &&
                shape_equal(grad->rank, grad->sizes, pooled.rank, pooled.sizes),
            "%s: grad is %s, the pooled input is %s", op->name, info_brief(grad),
            info_brief(&pooled));
    out[0] = info_dense(x.dtype, x.rank, x.sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double divisor_of(const window_t *w, bool counts_padding)
{
    double divisor = 1.0;
    for (int i = 0; i < 3; i++) divisor *= (double)(counts_padding ? w[i].length : w[i].count);
    return divisor > 0.0 ? divisor : 1.0;
}

static bool counts_padding(const opdef_t *op, const void *attrs)
{
    return is_average(op) && (op->variant & POOL_ADAPTIVE) == 0 &&
           ((const pool_backward_attrs_t *)attrs)->windows.count_include_pad;
}

/* The element of a window that is given the gradient of its maximum; index has the first two
 * dimensions. */
static void find_largest(const spec_call_t *call, const window_t *w, const int64_t *index,
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

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *grad = call->in[grad_of(call->op)], *x = &call->out[0];
    const int lead = 5 - grad->rank;
    axis_t axes[3];
    int64_t q[3] = {0}, at[TENSOR_MAX_RANK] = {index[0], index[1]};
    double sum = 0.0;
    pool_axes(call->op, call->attrs, x, grad, axes);
    const int64_t counts[] = {axes[0].out, axes[1].out, axes[2].out};
    do {
        window_t w[3];
        int64_t largest[3] = {0};
        bool is_under = true, is_largest = true;
        for (int i = 0; i < 3; i++) {
            w[i] = pool_window(&axes[i], q[i]);
            const int64_t here = i < lead ? 0 : index[2 + i - lead], way = here - w[i].first;
            is_under = is_under && way >= 0 && way % w[i].step == 0 && way / w[i].step < w[i].count;
        }
        if (!is_under) continue;
        if (!is_average(call->op)) find_largest(call, w, index, largest);
        for (int i = lead; i < 3; i++) {
            at[2 + i - lead] = q[i];
            is_largest = is_largest && largest[i] == index[2 + i - lead];
        }
        const double g = spec_at(call, grad_of(call->op), at);
        if (is_average(call->op))
            sum += g / divisor_of(w, counts_padding(call->op, call->attrs));
        else if (is_largest)
            sum += g;
    } while (shape_next(3, counts, q));
    return sum;
}

/* ---- kernel: window by window, up to LANES channels of a block at a time; only f32 ---- */

#define LANES 64

typedef struct plan {
    axis_t axes[3];
    bool is_average, counts_padding;
    int64_t n_outer, block, in_plane, out_plane;
} plan_t;

/* Blocks of channels are taken as such where rows would have the same bytes: f32[4,128,1,1] in
 * aBcd16b may be the gradient of larger images, whose bytes differ. */
static format_t format_of(const tensor_info_t *info)
{
    const format_t own = accept_own(info);
    if (own.n_blocks != 1 || own.block_dims[0] != 1) return pool_format(info);
    const format_t blocks = format_channel_blocks(info->rank, own.block_sizes[0]);
    return format_same(&own, &blocks, info->sizes) ? blocks : pool_format(info);
}

/* The format of x, or of grad where that has blocks and x has not. */
static format_t choose_format(const op_call_t *call)
{
    const format_t first = format_of(call->in[X]);
    const format_t other = format_of(call->in[grad_of(call->op)]);
    return first.n_blocks == 0 && other.n_blocks > 0 ? other : first;
}

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = &call->out[0];
    const format_t format = choose_format(call), plain = format_plain(x->rank);
    plan_t *plan = NULL;
    if (x->dtype != DTYPE_F32)
        return prepared_decline(prepared, "native: dtype %s", dtype_name(x->dtype));
    for (int i = 0; i < call->n_in; i++) TRY(accept_format(call, prepared, i, &format));
    TRY(accept_out(call, prepared, 0, &format));
    TRY(context_get_zeroed(ctx, sizeof *plan, "pooling", &plan));
    prepared->state = plan;
    pool_axes(call->op, call->attrs, x, call->in[grad_of(call->op)], plan->axes);
    plan->is_average = is_average(call->op);
    plan->counts_padding = counts_padding(call->op, call->attrs);
    const bool is_plain = memcmp(format.order, plain.order, (size_t)x->rank) == 0;
    plan->block = format.n_blocks == 1 ? format.block_sizes[0] : is_plain ? 1 : x->sizes[1];
    plan->n_outer = x->sizes[0] * ((x->sizes[1] + plan->block - 1) / plan->block);
    plan->in_plane = plan->out_plane = 1;
    for (int i = 0; i < 3; i++) {
        plan->in_plane *= plan->axes[i].in;
        plan->out_plane *= plan->axes[i].out;
    }
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(x));
    return STATUS_OK;
}

/* Places of the elements under a window, in units of the block. */
#define FOR_TAPS(plan, w, at)                                                                      \
    for (int64_t t_ = 0; t_ < (w)[0].count; t_++)                                                  \
        for (int64_t r_ = 0; r_ < (w)[1].count; r_++)                                              \
            for (int64_t s_ = 0,                                                                   \
                         at = (plan)->axes[2].in *                                                 \
                                  ((plan)->axes[1].in * ((w)[0].first + t_ * (w)[0].step) +        \
                                   (w)[1].first + r_ * (w)[1].step) +                              \
                              (w)[2].first;                                                        \
                 s_ < (w)[2].count; s_++, at += (w)[2].step)

FOR_EACH_ISA static void spread_average(const plan_t *plan, const window_t *w, const float *grad,
                                        int64_t n, float *dst)
{
    float part[LANES];
    const float scale = (float)(1.0 / divisor_of(w, plan->counts_padding));
    for (int64_t i = 0; i < n; i++) part[i] = grad[i] * scale;
    FOR_TAPS(plan, w, at)
    {
        float *line = dst + at * plan->block;
        for (int64_t i = 0; i < n; i++) line[i] += part[i];
    }
}

FOR_EACH_ISA static void give_largest(const plan_t *plan, const window_t *w, const float *src,
                                      const float *grad, int64_t n, float *dst)
{
    float value[LANES];
    int64_t place[LANES];
    const int64_t first = plan->axes[2].in * (plan->axes[1].in * w[0].first + w[1].first) +
                          w[2].first;
    if (w[0].count == 0 || w[1].count == 0 || w[2].count == 0) return;
    for (int64_t i = 0; i < n; i++) {
        value[i] = -INFINITY;
        place[i] = first;
    }
    FOR_TAPS(plan, w, at)
    {
        const float *line = src + at * plan->block;
        for (int64_t i = 0; i < n; i++) {
            const float x = line[i];
            const bool is_larger = x > value[i] || x != x;
            value[i] = is_larger ? x : value[i];
            place[i] = is_larger ? at : place[i];
        }
    }
    for (int64_t i = 0; i < n; i++) dst[place[i] * plan->block + i] += grad[i];
}

/* Lanes of one block of channels: all windows in turn, since they may overlap. */
static void run_lanes(const plan_t *plan, const float *src, const float *grad, int64_t n,
                      float *dst)
{
    const int64_t columns = plan->axes[2].out, rows = plan->axes[1].out;
    for (int64_t i = 0; i < plan->in_plane; i++)
        memset(dst + i * plan->block, 0, (size_t)n * sizeof *dst);
    for (int64_t q = 0; q < plan->out_plane; q++) {
        const window_t w[3] = {pool_window(&plan->axes[0], q / columns / rows),
                               pool_window(&plan->axes[1], q / columns % rows),
                               pool_window(&plan->axes[2], q % columns)};
        if (plan->is_average)
            spread_average(plan, w, grad + q * plan->block, n, dst);
        else
            give_largest(plan, w, src, grad + q * plan->block, n, dst);
    }
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    (void)scratch;
    const plan_t *plan = prepared->state;
    const int64_t block = plan->block, n_parts = (block + LANES - 1) / LANES;
    const float *src = in[X], *grad = in[grad_of(prepared->op)];
    float *dst = out[0];
#pragma omp parallel for num_threads(threads_for(ctx, walk_elements(&prepared->out[0])))           \
    schedule(static)
    for (int64_t i = 0; i < plan->n_outer * n_parts; i++) {
        const int64_t lane = i % n_parts * LANES;
        const int64_t from = i / n_parts * plan->in_plane * block + lane;
        const int64_t n = block - lane < LANES ? block - lane : LANES;
        run_lanes(plan, plan->is_average ? NULL : src + from,
                  grad + i / n_parts * plan->out_plane * block + lane, n, dst + from);
    }
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare, .run = run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- cases ---- */

static const char *const cases_max_1d[] = {"(f32[2,3,11], f32[2,3,5]) kernel=[3] stride=[2]",
                                           "(f32[1,17,20], f32[1,17,11]) kernel=[2] padding=[1]",
                                           NULL};
static const char *const cases_max_2d[] = {
    "(f32[2,3,13,11], f32[2,3,7,6]) kernel=[3,3] stride=[2,2] padding=[1,1]",
    "(f32[1,1,7,7], f32[1,1,3,3]) kernel=[2,2]",
    "(f32[1,17,14,14], f32[1,17,7,7]) kernel=[3,3] stride=[2,2] ceil_mode=true",
    "(f32[1,31,7,7], f32[1,31,4,4]) kernel=[3,3] stride=[2,2] padding=[1,1]",
    "(f32[2,64,8,8], f32[2,64,8,8]) kernel=[3,3] stride=[1,1] dilation=[2,2] padding=[2,2]",
    "(f32[0,3,4,4], f32[0,3,2,2]) kernel=[2,2]",
    NULL};
static const char *const cases_max_3d[] = {
    "(f32[1,3,5,7,6], f32[1,3,3,4,3]) kernel=[3,3,3] stride=[2,2,2] padding=[1,1,1]",
    "(f32[1,17,4,6,6], f32[1,17,2,3,3]) kernel=[2,2,2]", NULL};
static const char *const cases_avg_1d[] = {
    "(f32[2,3,5]) kernel=[3] stride=[2] input_size=[11]",
    "(f32[1,17,11]) kernel=[2] padding=[1] count_include_pad=true input_size=[20]", NULL};
static const char *const cases_avg_2d[] = {
    "(f32[2,3,7,6]) kernel=[3,3] stride=[2,2] padding=[1,1] input_size=[13,11]",
    "(f32[1,17,7,7]) kernel=[3,3] stride=[2,2] ceil_mode=true count_include_pad=true "
    "input_size=[14,14]",
    "(f32[1,31,4,4]) kernel=[3,3] stride=[2,2] padding=[1,1] count_include_pad=true "
    "input_size=[7,7]",
    "(f32[1,1,3,3]) kernel=[2,2] input_size=[7,7]",
    "(f32[2,64,6,6]) kernel=[2,2] stride=[1,1] dilation=[2,2] input_size=[8,8]",
    NULL};
static const char *const cases_avg_3d[] = {
    "(f32[1,3,3,4,3]) kernel=[3,3,3] stride=[2,2,2] padding=[1,1,1] input_size=[5,7,6]",
    "(f32[1,17,2,3,3]) kernel=[2,2,2] input_size=[4,6,6]", NULL};
static const char *const cases_adaptive_avg[] = {
    "(f32[2,3,1,1]) input_size=[7,7]",      "(f32[1,31,6,6]) input_size=[13,11]",
    "(f32[2,32,7,3]) input_size=[6,6]",     "(f32[2,7,4]) input_size=[11]",
    "(f32[1,17,2,3,4]) input_size=[4,6,6]", NULL};
static const char *const cases_adaptive_max[] = {
    "(f32[2,3,7,7], f32[2,3,1,1])",       "(f32[1,31,13,11], f32[1,31,6,6])",
    "(f32[2,32,6,6], f32[2,32,7,3])",     "(f32[2,7,11], f32[2,7,4])",
    "(f32[1,17,4,6,6], f32[1,17,2,3,4])", NULL};

/* ---- definitions ---- */

#define DEFINE(op_name, kind, bits, cases_name, ...)                                               \
    const opdef_t op_def_##op_name##_backward = {.name = #op_name "_backward",                     \
                                                 .variant = VARIANT_##kind | (bits),               \
                                                 .preference = OP_FOLLOWS,                         \
                                                 .attrs = {__VA_ARGS__},                           \
                                                 .n_operands = sizeof kind##_operands /            \
                                                               sizeof *kind##_operands,            \
                                                 .operands = kind##_operands,                      \
                                                 .n_outputs = 1,                                   \
                                                 .infer = infer,                                   \
                                                 .kernels = kernels,                               \
                                                 .spec = spec,                                     \
                                                 .cases = cases_name}
#define ATTRS(fields) sizeof(pool_backward_attrs_t), sizeof(fields) / sizeof *(fields), fields

DEFINE(max_pool1d, max, 0, cases_max_1d, ATTRS(fields_max_1d));
DEFINE(max_pool2d, max, 0, cases_max_2d, ATTRS(fields_max_2d));
DEFINE(max_pool3d, max, 0, cases_max_3d, ATTRS(fields_max_3d));
DEFINE(avg_pool1d, avg, 0, cases_avg_1d, ATTRS(fields_avg_1d));
DEFINE(avg_pool2d, avg, 0, cases_avg_2d, ATTRS(fields_avg_2d));
DEFINE(avg_pool3d, avg, 0, cases_avg_3d, ATTRS(fields_avg_3d));
DEFINE(adaptive_avg_pool, avg, POOL_ADAPTIVE, cases_adaptive_avg, ATTRS(fields_adaptive_avg));
DEFINE(adaptive_max_pool, max, POOL_ADAPTIVE, cases_adaptive_max, 0, 0, NULL);
