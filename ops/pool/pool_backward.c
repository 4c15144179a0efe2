/* Gradients of pooling. The gradient of a maximum goes to the first largest element of its window,
 * or to the last NaN, as PyTorch's; that of an average to all in equal parts. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/pool/pool_impl.h"
#include "ops/walk_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/simd_impl.h"
#include "tensor/sizes_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

#define INPUT_SIZE                                                                                 \
    {                                                                                              \
        "input_size", ATTR_INTS, false, offsetof(pool_backward_attrs_t, input_size), 0, 0, NULL    \
    }

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

/* The forward's input: the operand, or the sizes that the attribute names. */
static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
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

/* ---- kernel: window by window ----
 *
 * Up to LANES channels of a block at a time. Channels of bf16 and f16 are copied to f32 first, in
 * which their gradients are summed up; those of f64 go one by one. */

#define LANES 64

typedef struct state {
    pool_plan_t plan;
    int n_threads;
    int64_t lanes, floats; /* of bf16 and f16: channels at a time, floats of scratch for a thread */
} state_t;

/* Blocks of channels, and channels last, are taken as such where rows would have the same bytes:
 * f32[4,128,1,1] in aBcd16b or acdb may be the gradient of larger images, whose bytes differ. */
static format_t format_of(const tensor_info_t *info)
{
    const format_t own = accept_own(info), last = format_channels_last(info->rank);
    if (own.n_blocks == 0 && memcmp(own.order, last.order, (size_t)info->rank) == 0) return last;
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
    const format_t format = choose_format(call);
    state_t *state = NULL;
    TRY(context_get_zeroed(ctx, sizeof *state, "pooling", &state));
    prepared->state = state;
    const pool_plan_t *plan = &state->plan;
    TRY(pool_prepare(ctx, call, x, call->in[grad_of(call->op)], &format, prepared, &state->plan));
    state->n_threads = context_threads(ctx);
    if (x->dtype == DTYPE_F32 || x->dtype == DTYPE_F64) return STATUS_OK;
    state->lanes = plan->block < LANES ? plan->block : LANES;
    const int64_t limit = INT64_MAX / (int64_t)sizeof(float) / LANES / state->n_threads;
    if (plan->in_plane > limit / 4 || plan->out_plane > limit / 4)
        return prepared_decline(prepared, "native: too many elements of a channel");
    state->floats = (2 * plan->in_plane + plan->out_plane) * state->lanes;
    prepared->scratch_bytes = (size_t)(state->floats * state->n_threads) * sizeof(float);
    return STATUS_OK;
}

/* `step` floats lie from an element of a plane to the next, `n` are of channels. */
typedef struct lanes {
    int64_t n, step;
    const float *src, *grad;
    float *dst;
} lanes_t;

FOR_EACH_ISA static void spread_average(const pool_plan_t *plan, const window_t *w, int64_t q,
                                        const lanes_t *lanes)
{
    float part[LANES];
    const int64_t n = lanes->n;
    const float *grad = lanes->grad + q * lanes->step;
    const float scale = (float)(1.0 / pool_divisor(w, plan->counts_padding));
    for (int64_t i = 0; i < n; i++) part[i] = grad[i] * scale;
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        float *line = lanes->dst + at * lanes->step;
        for (int64_t i = 0; i < n; i++) line[i] += part[i];
    }
}

/* The number of the first element under a window. */
static int64_t first_of(const pool_plan_t *plan, const window_t *w)
{
    return plan->axes[2].in * (plan->axes[1].in * w[0].first + w[1].first) + w[2].first;
}

FOR_EACH_ISA static void give_largest(const pool_plan_t *plan, const window_t *w, int64_t q,
                                      const lanes_t *lanes)
{
    float value[LANES];
    int64_t place[LANES];
    const int64_t n = lanes->n, first = first_of(plan, w);
    const float *grad = lanes->grad + q * lanes->step;
    for (int64_t i = 0; i < n; i++) {
        value[i] = -INFINITY;
        place[i] = first;
    }
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        const float *line = lanes->src + at * lanes->step;
        for (int64_t i = 0; i < n; i++) {
            const float x = line[i];
            const bool is_larger = x > value[i] || x != x;
            value[i] = is_larger ? x : value[i];
            place[i] = is_larger ? at : place[i];
        }
    }
    for (int64_t i = 0; i < n; i++) lanes->dst[place[i] * lanes->step + i] += grad[i];
}

#define WIDE 16 /* channels whose largest values and places stay in registers */

/* As give_largest for WIDE channels from `lane` on, in planes whose elements an int32_t counts. */
FOR_EACH_ISA static void give_largest_wide(const pool_plan_t *plan, const window_t *w, int64_t q,
                                           const lanes_t *lanes, int64_t lane)
{
    const int64_t step = lanes->step;
    const float *src = lanes->src + lane, *grad = lanes->grad + q * step + lane;
    float *dst = lanes->dst + lane;
    float value[WIDE];
    int32_t places[WIDE];
    for (int i = 0; i < WIDE; i++) {
        value[i] = -INFINITY;
        places[i] = (int32_t)first_of(plan, w);
    }
    POOL_FOR_TAPS(plan->axes, w, at)
    {
        const float *line = src + at * step;
        const int32_t here = (int32_t)at;
#pragma omp simd
        for (int i = 0; i < WIDE; i++) {
            const float x = line[i];
            const bool is_larger = x > value[i] || x != x;
            value[i] = is_larger ? x : value[i];
            places[i] = is_larger ? here : places[i];
        }
    }
    for (int64_t i = 0; i < WIDE; i++) dst[places[i] * step + i] += grad[i];
}

static void give_all_largest(const pool_plan_t *plan, const window_t *w, int64_t q,
                             const lanes_t *lanes)
{
    const bool is_small = plan->in_plane <= INT32_MAX;
    int64_t lane = 0;
    for (; is_small && lane + WIDE <= lanes->n; lane += WIDE)
        give_largest_wide(plan, w, q, lanes, lane);
    if (lane == lanes->n) return;
    const lanes_t rest = {.n = lanes->n - lane,
                          .step = lanes->step,
                          .src = lanes->src + lane,
                          .grad = lanes->grad + lane,
                          .dst = lanes->dst + lane};
    give_largest(plan, w, q, &rest);
}

/* The windows of a row of results but for the last axis; false: nothing is under any. */
static bool find_row(const pool_plan_t *plan, int64_t row, window_t *out_windows)
{
    const int64_t rows = plan->axes[1].out;
    out_windows[0] = pool_window(&plan->axes[0], row / rows);
    out_windows[1] = pool_window(&plan->axes[1], row % rows);
    return out_windows[0].count > 0 && out_windows[1].count > 0;
}

/* And that of result `column`; false: nothing is under it. */
static bool find_column(const pool_plan_t *plan, int64_t column, window_t *out_windows)
{
    out_windows[2] = pool_window(&plan->axes[2], column);
    return out_windows[2].count > 0;
}

static void clear(const pool_plan_t *plan, const lanes_t *lanes)
{
    const size_t bytes = (size_t)lanes->n * sizeof *lanes->dst;
    if (lanes->n == lanes->step)
        memset(lanes->dst, 0, (size_t)plan->in_plane * bytes);
    else
        for (int64_t i = 0; i < plan->in_plane; i++) memset(lanes->dst + i * lanes->step, 0, bytes);
}

/* All windows in turn, since they may overlap. */
static void run_lanes(const pool_plan_t *plan, const lanes_t *lanes)
{
    const int64_t rows = plan->axes[0].out * plan->axes[1].out, columns = plan->axes[2].out;
    clear(plan, lanes);
    for (int64_t row = 0; row < rows; row++) {
        window_t w[3];
        if (!find_row(plan, row, w)) continue;
        for (int64_t column = 0; column < columns; column++) {
            if (!find_column(plan, column, w)) continue;
            if (plan->is_average)
                spread_average(plan, w, row * columns + column, lanes);
            else
                give_all_largest(plan, w, row * columns + column, lanes);
        }
    }
}

/* Casts n channels of each element of a plane. */
static void cast_plane(int64_t n_elements, int64_t n, dtype_t src_dtype, const char *src,
                       int64_t src_step, dtype_t dst_dtype, char *dst, int64_t dst_step)
{
    const int64_t src_size = src_step * (int64_t)dtype_size(src_dtype);
    const int64_t dst_size = dst_step * (int64_t)dtype_size(dst_dtype);
    if (src_step == n && dst_step == n) {
        dtype_cast(n_elements * n, src_dtype, src, 1, dst_dtype, dst, 1);
        return;
    }
    for (int64_t i = 0; i < n_elements; i++)
        dtype_cast(n, src_dtype, src + i * src_size, 1, dst_dtype, dst + i * dst_size, 1);
}

/* As run_lanes for n channels of another dtype, by way of f32 in `room`. */
static void run_narrow(const state_t *state, dtype_t dtype, int64_t n, const char *src,
                       const char *grad, char *dst, float *room)
{
    const pool_plan_t *plan = &state->plan;
    float *of_out = room + plan->in_plane * n, *of_grad = of_out + plan->in_plane * n;
    const lanes_t lanes = {.n = n, .step = n, .src = room, .grad = of_grad, .dst = of_out};
    if (!plan->is_average)
        cast_plane(plan->in_plane, n, dtype, src, plan->block, DTYPE_F32, (char *)room, n);
    cast_plane(plan->out_plane, n, dtype, grad, plan->block, DTYPE_F32, (char *)of_grad, n);
    run_lanes(plan, &lanes);
    cast_plane(plan->in_plane, n, DTYPE_F32, (const char *)of_out, n, dtype, dst, plan->block);
}

/* One channel of f64. */
static void run_double(const pool_plan_t *plan, const double *src, const double *grad, double *dst)
{
    const int64_t step = plan->block, columns = plan->axes[2].out;
    for (int64_t i = 0; i < plan->in_plane; i++) dst[i * step] = 0.0;
    for (int64_t q = 0; q < plan->out_plane; q++) {
        window_t w[3];
        if (!find_row(plan, q / columns, w) || !find_column(plan, q % columns, w)) continue;
        const double divisor = plan->is_average ? pool_divisor(w, plan->counts_padding) : 1.0;
        const double part = grad[q * step] / divisor;
        int64_t largest = first_of(plan, w);
        POOL_FOR_TAPS(plan->axes, w, at)
        {
            if (plan->is_average)
                dst[at * step] += part;
            else if (src[at * step] > src[largest * step] || isnan(src[at * step]))
                largest = at;
        }
        if (!plan->is_average) dst[largest * step] += part;
    }
}

/* n channels from the lane-th of a block on. */
static void run_part(const prepared_t *prepared, void *const *in, void *const *out, int64_t outer,
                     int64_t lane, float *room)
{
    const state_t *state = prepared->state;
    const pool_plan_t *plan = &state->plan;
    const dtype_t dtype = prepared->out[0].dtype;
    const int64_t size = (int64_t)dtype_size(dtype), block = plan->block;
    const int64_t n = block - lane < LANES ? block - lane : LANES;
    const int64_t from = (outer * plan->in_plane * block + lane) * size;
    const void *grad = (const char *)in[grad_of(prepared->op)] +
                       (outer * plan->out_plane * block + lane) * size;
    const void *src = plan->is_average ? NULL : (const char *)in[X] + from;
    void *dst = (char *)out[0] + from;
    if (dtype == DTYPE_F32) {
        const lanes_t lanes = {.n = n, .step = block, .src = src, .grad = grad, .dst = dst};
        run_lanes(plan, &lanes);
    } else if (dtype == DTYPE_F64) {
        for (int64_t i = 0; i < n; i++)
            run_double(plan, plan->is_average ? NULL : (const double *)src + i,
                       (const double *)grad + i, (double *)dst + i);
    } else {
        run_narrow(state, dtype, n, src, grad, dst, room);
    }
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const state_t *state = prepared->state;
    const pool_plan_t *plan = &state->plan;
    const int64_t n_parts = (plan->block + LANES - 1) / LANES, n = plan->n_outer * n_parts;
    const int n_threads = threads_for(ctx, walk_elements(&prepared->out[0]));
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int thread = 0; thread < n_threads; thread++)
        for (int64_t i = n * thread / n_threads; i < n * (thread + 1) / n_threads; i++)
            run_part(prepared, in, out, i / n_parts, i % n_parts * LANES,
                     (float *)scratch + thread * state->floats);
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
    "(bf16[1,70,9,9], bf16[1,70,5,5]) kernel=[3,3] stride=[2,2] padding=[1,1]",
    "(f16[2,17,6,6], f16[2,17,5,5]) kernel=[2,2] stride=[1,1]",
    "(f64[2,17,6,7], f64[2,17,3,3]) kernel=[3,2] stride=[2,2] padding=[1,0]",
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
    "(bf16[1,70,5,5]) kernel=[3,3] stride=[2,2] padding=[1,1] input_size=[9,9]",
    "(f16[2,17,5,5]) kernel=[2,2] stride=[1,1] input_size=[6,6]",
    "(f64[2,17,3,3]) kernel=[3,2] stride=[2,2] padding=[1,0] count_include_pad=true "
    "input_size=[6,7]",
    NULL};
static const char *const cases_avg_3d[] = {
    "(f32[1,3,3,4,3]) kernel=[3,3,3] stride=[2,2,2] padding=[1,1,1] input_size=[5,7,6]",
    "(f32[1,17,2,3,3]) kernel=[2,2,2] input_size=[4,6,6]", NULL};
static const char *const cases_adaptive_avg[] = {"(f32[2,3,1,1]) input_size=[7,7]",
                                                 "(f32[1,31,6,6]) input_size=[13,11]",
                                                 "(f32[2,32,7,3]) input_size=[6,6]",
                                                 "(f32[2,7,4]) input_size=[11]",
                                                 "(f32[1,17,2,3,4]) input_size=[4,6,6]",
                                                 "(bf16[2,17,3,2]) input_size=[7,5]",
                                                 "(f64[1,3,4]) input_size=[11]",
                                                 "(f32[2,7,3,0]) input_size=[7,5]",
                                                 NULL};
static const char *const cases_adaptive_max[] = {"(f32[2,3,7,7], f32[2,3,1,1])",
                                                 "(f32[1,31,13,11], f32[1,31,6,6])",
                                                 "(f32[2,32,6,6], f32[2,32,7,3])",
                                                 "(f32[2,7,11], f32[2,7,4])",
                                                 "(f32[1,17,4,6,6], f32[1,17,2,3,4])",
                                                 "(f16[2,17,7,5], f16[2,17,3,2])",
                                                 "(f64[1,3,11], f64[1,3,4])",
                                                 "(f32[2,7,7,5], f32[2,7,3,0])",
                                                 NULL};

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
                                                 .infers_symbols = true,                           \
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
