/* Convolution of 8-bit integers to s32: ONNX ConvInteger.
 *
 * oneDNN convolves u8 x without zero points, and s8 x only in some implementations. If x has a zero
 * point or oneDNN does not support its dtype, x is copied as u8 and padded with the zero point, and
 * zero * sum(w) is subtracted from conv(x, w). sum(w) is computed as the convolution of ones with
 * the packed weight. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/conv/planes_impl.h"
#include "ops/ops_impl.h"
#include "ops/quantized/integer_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

static const attr_field_t fields_1d[] = {CONV_FIELDS(1)};
static const attr_field_t fields_2d[] = {CONV_FIELDS(2)};
static const attr_field_t fields_3d[] = {CONV_FIELDS(3)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_WEIGHT, false, false},
                                     {"x_zero", ROLE_STATE, true, false},
                                     {"weight_zero", ROLE_STATE, true, false}};
enum { X, WEIGHT, X_ZERO, WEIGHT_ZERO };

/* ---- inference ---- */

static status_t conv_integer_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                   tensor_info_t *out)
{
    (void)out_n;
    const char *op = call->op->name;
    TRY(conv_infer(ctx, call, DTYPE_S32, &out[0]));
    for (int i = X; i <= WEIGHT; i++) {
        const tensor_info_t *info = call->in[i], *zero = call->in[X_ZERO + i];
        REQUIRE(ctx, integer_is_byte(info->dtype), "%s: %s is %s, s8 or u8 is needed", op,
                operands[i].name, info_brief(info));
        if (!call_has(call, X_ZERO + i)) continue;
        REQUIRE(ctx, zero->dtype == info->dtype, "%s: %s is %s, that of %s is %s", op,
                operands[X_ZERO + i].name, info_brief(zero), operands[i].name,
                dtype_name(info->dtype));
        bool is_one = zero->rank <= 1 && sizes_are_one(ctx, zero);
        bool is_by_output = i == WEIGHT && zero->rank == 1 &&
                            sym_equal(ctx, zero->sizes[0], info->sizes[0]);
        REQUIRE(ctx, is_one || is_by_output, "%s: %s is %s, one%s is needed", op,
                operands[X_ZERO + i].name, info_brief(zero),
                i == WEIGHT ? " for all or for each output" : "");
    }
    return STATUS_OK;
}

/* ---- specification ---- */

static double conv_integer_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return conv_spec_sum(call, call->attrs, integer_zero_at(call, X_ZERO, 0),
                         integer_zero_at(call, WEIGHT_ZERO, index[1]), index);
}

/* ---- shared by both kernels: x with explicit padding, channels last ---- */

typedef struct padded {
    planes_t planes;
    int64_t sizes[3], n; /* spatial sizes covered by windows; elements in a padded image */
} padded_t;

/* Maximum number of bytes of the padded images of a call. */
#define MAX_PADDED (INT64_MAX / 8)

/* Returns false if a padded copy would exceed MAX_PADDED: with a large stride, huge padding can
 * leave a small result. */
static bool describe_padded(const op_call_t *call, padded_t *out_padded)
{
    const conv_attrs_t *attrs = call->attrs;
    int64_t n_all = 0;
    padded_t p = {.planes = planes_between(call->in[X], call->in[WEIGHT], &call->out[0],
                                           attrs->stride, attrs->dilation, attrs->padding,
                                           attrs->groups)};
    p.n = p.planes.channels;
    for (int i = 0; i < 3; i++) {
        p.sizes[i] = (p.planes.out[i] - 1) * p.planes.stride[i] +
                     (p.planes.kernel[i] - 1) * p.planes.dilation[i] + 1;
        if (!shape_multiply(p.n, p.sizes[i], &p.n)) return false;
    }
    if (!shape_multiply(p.n, call->in[X]->sizes[0] + 1, &n_all) || n_all > MAX_PADDED) return false;
    *out_padded = p;
    return true;
}

/* Stores n elements of x at out[at], or n elements of padding if x is NULL. */
typedef void (*put_t)(dtype_t dtype, int32_t zero, int64_t n, const void *x, void *out, int64_t at);

/* Arguments of pad_rows, which pads one image [D][H][W][C]. */
typedef struct padding {
    const padded_t *p;
    dtype_t dtype;
    int32_t zero;
    put_t put;
    const char *x;
    void *out;
} padding_t;

static void pad_rows(void *user, int64_t begin, int64_t end)
{
    const padding_t *pad = user;
    const padded_t *p = pad->p;
    const planes_t *planes = &p->planes;
    const int64_t width = p->sizes[2] * planes->channels;
    const int64_t before = planes->padding[2] < p->sizes[2] ? planes->padding[2] : p->sizes[2];
    const int64_t room = p->sizes[2] - before;
    const int64_t n = (room < planes->in[2] ? room : planes->in[2]) * planes->channels;
    const int64_t left = before * planes->channels;
    for (int64_t row = begin; row < end; row++) {
        const int64_t d = row / p->sizes[1] - planes->padding[0], first = row * width;
        const int64_t h = row % p->sizes[1] - planes->padding[1];
        if (d < 0 || d >= planes->in[0] || h < 0 || h >= planes->in[1]) {
            pad->put(pad->dtype, pad->zero, width, NULL, pad->out, first);
            continue;
        }
        const char *x = pad->x + (d * planes->in[1] + h) * planes->in[2] * planes->channels;
        pad->put(pad->dtype, pad->zero, left, NULL, pad->out, first);
        pad->put(pad->dtype, pad->zero, n, x, pad->out, first + left);
        pad->put(pad->dtype, pad->zero, width - left - n, NULL, pad->out, first + left + n);
    }
}

static void pad_image(context_t *ctx, const padded_t *p, dtype_t dtype, int32_t zero, put_t put,
                      const char *x, void *out)
{
    padding_t padding = {p, dtype, zero, put, x, out};
    threads_share(threads_for(ctx, p->n), p->sizes[0] * p->sizes[1], pad_rows, &padding);
}

/* ---- kernel on oneDNN ---- */

typedef struct state {
    /* computes sums of the packed weight; NULL if x is read without a copy */
    onednn_primitive_t *sums;
    padded_t padded;
    size_t sums_at, copy_at; /* offsets in scratch */
} state_t;

static void destroy(void *state)
{
    onednn_release(((state_t *)state)->sums);
}

static tensor_info_t channels_last(dtype_t dtype, int rank, const int64_t *sizes)
{
    const format_t last = format_channels_last(rank);
    tensor_info_t info = info_dense(dtype, rank, sizes);
    return info_mkldnn(&info, &last);
}

static status_t describe_plain(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                               onednn_primitive_t **out_primitive)
{
    const tensor_info_t *x = call->in[X], *out = &call->out[0];
    tensor_info_t src = channels_last(x->dtype, x->rank, x->sizes);
    tensor_info_t dst = channels_last(DTYPE_S32, out->rank, out->sizes);
    tensor_info_t weight = conv_group_weight(call->in[WEIGHT],
                                             ((const conv_attrs_t *)call->attrs)->groups);
    weight.format = (format_t){.kind = FORMAT_ANY};
    onednn_problem_t problem = {.kind = ONEDNN_CONVOLUTION,
                                .algorithm = ONEDNN_DIRECT,
                                .n_src = 1,
                                .src = &src,
                                .weight = &weight,
                                .dst = &dst};
    double n_terms = conv_set_windows(call, &problem);
    return integer_describe(ctx, prepared, &problem, n_terms, out_primitive, &prepared->in[WEIGHT]);
}

/* Describes the convolution of ones with the packed weight. For each output channel, the first
 * element of its result is the sum of the weights. Tries an x of one window first. If oneDNN has no
 * such primitive for this weight format, tries an x of full width, because oneDNN's formats depend
 * on the width. */
static status_t describe_sums(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                              const onednn_problem_t *base, double n_terms,
                              onednn_primitive_t **out_sums)
{
    const int last = call->in[X]->rank - 1;
    tensor_info_t src = base->src[0], dst = *base->dst, same;
    onednn_problem_t problem = *base;
    status_t status = STATUS_UNSUPPORTED;
    problem.src = &src;
    problem.dst = &dst;
    src.sizes[0] = dst.sizes[0] = 1;
    for (int i = 2; i <= last; i++) {
        src.sizes[i] = problem.dilation[i - 2] * (call->in[WEIGHT]->sizes[i] - 1) + 1;
        dst.sizes[i] = 1;
    }
    for (int is_wide = 0; is_wide < 2 && status == STATUS_UNSUPPORTED; is_wide++) {
        if (is_wide == 1) {
            src.sizes[last] = base->src[0].sizes[last];
            dst.sizes[last] = base->dst->sizes[last];
        }
        status = integer_describe(ctx, prepared, &problem, n_terms / 255, out_sums, &same);
    }
    return status;
}

/* Describes the convolution of a padded copy of x, and the primitive that computes the sums. */
static status_t describe_padded_pair(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                                     onednn_primitive_t **out_primitive,
                                     onednn_primitive_t **out_sums)
{
    const tensor_info_t *x = call->in[X], *out = &call->out[0];
    tensor_info_t src = channels_last(DTYPE_U8, x->rank, x->sizes), packed;
    tensor_info_t dst = channels_last(DTYPE_S32, out->rank, out->sizes);
    tensor_info_t any = conv_group_weight(call->in[WEIGHT],
                                          ((const conv_attrs_t *)call->attrs)->groups);
    any.format = (format_t){.kind = FORMAT_ANY};
    onednn_problem_t problem = {.kind = ONEDNN_CONVOLUTION,
                                .algorithm = ONEDNN_DIRECT,
                                .n_src = 1,
                                .src = &src,
                                .weight = &any,
                                .dst = &dst};
    double n_terms = conv_set_windows(call, &problem);
    for (int i = 0; i < x->rank - 2; i++) {
        src.sizes[2 + i] = conv_reach(call, i);
        problem.pad_begin[i] = problem.pad_end[i] = 0;
    }
    TRY(integer_describe(ctx, prepared, &problem, n_terms, out_primitive, &packed));
    prepared->in[WEIGHT] = packed;
    problem.weight = &packed;
    status_t status = describe_sums(ctx, call, prepared, &problem, n_terms, out_sums);
    if (status != STATUS_OK) onednn_release(*out_primitive);
    return status;
}

/* Lays out scratch: oneDNN's scratch, the sums of the weight, the copy of x, and after it the ones
 * that describe_sums needs. */
static status_t settle(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                       onednn_primitive_t *primitive, onednn_primitive_t *sums)
{
    state_t *state = NULL;
    status_t status = prepared_make_state(ctx, prepared, sizeof *state, &state);
    if (status != STATUS_OK) {
        onednn_release(primitive);
        onednn_release(sums);
        return status;
    }
    state->sums = sums;
    prepared_take_primitive(prepared, primitive);
    const double flops = 2.0 * (double)info_numel(&call->out[0]) *
                         (double)info_numel(call->in[WEIGHT]) / (double)call->in[WEIGHT]->sizes[0];
    prepared->cost_ns = cost_run(ctx, prepared->implementation, flops / 4,
                                 (double)info_bytes(call->in[X]) +
                                     (double)info_bytes(&call->out[0]));
    if (sums == NULL) return STATUS_OK;
    if (!describe_padded(call, &state->padded))
        return prepared_decline(prepared, "onednn: its padded input overflows");
    const padded_t padded = state->padded;
    size_t own = onednn_scratch_bytes(primitive), other = onednn_scratch_bytes(sums);
    state->sums_at = integer_align(own > other ? own : other);
    /* enough for windows as wide as x */
    const int64_t n_sums = padded.planes.outputs * padded.planes.out[2];
    state->copy_at = state->sums_at + integer_align((size_t)n_sums * sizeof(int32_t));
    prepared->scratch_bytes = state->copy_at + (size_t)(padded.n * (call->in[X]->sizes[0] + 1));
    return STATUS_OK;
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const format_t last = format_channels_last(call->in[X]->rank);
    onednn_primitive_t *primitive = NULL, *sums = NULL;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "onednn: dense only");
    if (call->in[WEIGHT]->dtype != DTYPE_S8 || call_has(call, WEIGHT_ZERO))
        return prepared_decline(prepared, "onednn: weights are s8 without zeros");
    TRY(accept_format(call, prepared, X, &last));
    TRY(accept_out(call, prepared, 0, &last));
    if (call_has(call, X_ZERO)) TRY(accept_plain(call, prepared, X_ZERO));
    status_t status = STATUS_UNSUPPORTED;
    if (!call_has(call, X_ZERO)) status = describe_plain(ctx, call, prepared, &primitive);
    if (status == STATUS_UNSUPPORTED)
        status = describe_padded_pair(ctx, call, prepared, &primitive, &sums);
    TRY(status);
    return settle(ctx, call, prepared, primitive, sums);
}

static void put_unsigned(dtype_t dtype, int32_t zero, int64_t n, const void *x, void *out,
                         int64_t at)
{
    uint8_t *to = (uint8_t *)out + at;
    if (n <= 0) return;
    if (x == NULL)
        memset(to, zero, (size_t)n);
    else
        integer_unsign(dtype, n, x, to);
}

typedef struct subtraction {
    int64_t n; /* elements of a row */
    uint32_t zero;
    const int32_t *sums;
    int32_t *out;
} subtraction_t;

static void subtract_rows(void *user, int64_t first, int64_t last)
{
    const subtraction_t *s = user;
    for (int64_t row = first; row < last; row++) {
        uint32_t *to = (uint32_t *)s->out + row * s->n;
#pragma omp simd
        for (int64_t k = 0; k < s->n; k++) to[k] -= s->zero * (uint32_t)s->sums[k];
    }
}

static void subtract_sums(context_t *ctx, int64_t rows, int64_t n, int32_t zero,
                          const int32_t *sums, int32_t *out)
{
    subtraction_t subtraction = {n, (uint32_t)zero, sums, out};
    if (zero != 0) threads_share(threads_for(ctx, rows * n), rows, subtract_rows, &subtraction);
}

static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const state_t *state = prepared->state;
    void *arguments[] = {in[X], in[WEIGHT], out[0]};
    if (state->sums == NULL) return onednn_run(ctx, prepared->primitive, arguments, scratch);
    const padded_t padded = state->padded;
    const tensor_info_t *x = &prepared->in[X];
    const int32_t zero = integer_zero(prepared, in, X_ZERO, 0) + integer_shift(x->dtype);
    const int64_t n_images = x->sizes[0], image = info_numel(x) / n_images;
    char *copy = (char *)scratch + state->copy_at;
    int32_t *sums = (int32_t *)(void *)((char *)scratch + state->sums_at);
    for (int64_t i = 0; i < n_images; i++)
        pad_image(ctx, &padded, x->dtype, zero, put_unsigned, (const char *)in[X] + i * image,
                  copy + i * padded.n);
    arguments[0] = copy;
    TRY(onednn_run(ctx, prepared->primitive, arguments, scratch));
    if (zero == 0) return STATUS_OK;
    arguments[0] = copy + n_images * padded.n;
    arguments[2] = sums;
    memset(arguments[0], 1, (size_t)padded.n);
    TRY(onednn_run(ctx, state->sums, arguments, scratch));
    subtract_sums(ctx, info_numel(&prepared->out[0]) / padded.planes.outputs, padded.planes.outputs,
                  zero, sums, out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = run_onednn,
                                .flags = KERNEL_NEEDS_ELEMENTS,
                                .destroy = destroy};

/* ---- our own kernel ----
 *
 * Copies x with explicit padding, as u8 or as s16 minus its zero point, packs the weight, and calls
 * kernels/quantized. */

enum { BLOCK, GROUPS, JOINED, STEP, N_NUMBERS }; /* numbers in the format of a packed weight */
#define VERSION 2

/* A window is read as runs of adjacent elements of x. A run is a row of the window if the row is
 * contiguous in x, else a single pixel of it. Packed weights pad each run to full steps. */
typedef struct window {
    int64_t groups, group_outputs, plane, columns, channels;
    int64_t n_runs, length, steps; /* elements and steps in a run */
    integer_step_t step;
} window_t;

static window_t describe_window(const tensor_info_t *weight, int64_t groups, bool is_joined,
                                integer_step_t step)
{
    window_t w = {.groups = groups,
                  .group_outputs = weight->sizes[0] / groups,
                  .plane = 1,
                  .columns = is_joined ? weight->sizes[weight->rank - 1] : 1,
                  .channels = weight->sizes[1],
                  .step = step};
    for (int d = 2; d < weight->rank; d++) w.plane *= weight->sizes[d];
    w.n_runs = w.plane / w.columns;
    w.length = w.columns * w.channels;
    w.steps = (w.length + step - 1) / step;
    return w;
}

static int64_t packed_group(const window_t *w)
{
    return integer_packed(w->group_outputs, w->n_runs * w->steps, w->step);
}

/* Offset, in one output's weight [C/G][plane], of element i of the packed order; -1 for padding. */
static int64_t find_element(const void *user, int64_t i)
{
    const window_t *w = user;
    const int64_t padded = w->step * w->steps, run = i / padded, at = i % padded;
    if (at >= w->length) return -1;
    return at % w->channels * w->plane + run * w->columns + at / w->channels;
}

static void pack_weight(const window_t *w, dtype_t dtype, const void *from, int8_t *to)
{
    const int64_t n = w->group_outputs * w->channels * w->plane;
    for (int64_t g = 0; g < w->groups; g++)
        integer_pack(dtype, w->group_outputs, w->n_runs * w->steps, w->step, w->channels * w->plane,
                     find_element, w, (const char *)from + g * n, to + g * packed_group(w));
}

static status_t pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    const window_t window = describe_window(from, numbers[GROUPS], numbers[JOINED] != 0,
                                            (integer_step_t)numbers[STEP]);
    (void)ctx;
    pack_weight(&window, from->dtype, bytes, out);
    return STATUS_OK;
}

typedef struct native_state {
    padded_t padded;
    window_t window;
    bool is_packed;
    /* Offsets in scratch, after the copy of x. sums_at: sums of pixels, then sums of windows. */
    size_t weight_at, offsets_at, starts_at, sums_at, zeros_at;
} native_state_t;

#define PAST_END 4 /* the last step may read elements after the end of the copy */

static void place_scratch(native_state_t *s, prepared_t *prepared)
{
    const planes_t *planes = &s->padded.planes;
    s->weight_at = integer_align((size_t)(s->padded.n + PAST_END) * sizeof(int16_t));
    s->offsets_at = s->weight_at;
    if (!s->is_packed)
        s->offsets_at += integer_align((size_t)(s->window.groups * packed_group(&s->window)));
    s->starts_at = s->offsets_at + integer_align((size_t)s->window.n_runs * sizeof(int32_t));
    s->sums_at = s->starts_at + integer_align((size_t)planes->out_plane * sizeof(int64_t));
    const int64_t *sizes = s->padded.sizes;
    const int64_t n_sums = sizes[0] * sizes[1] * sizes[2] + planes->out_plane;
    s->zeros_at = s->sums_at + integer_align((size_t)n_sums * sizeof(int32_t));
    prepared->scratch_bytes = s->zeros_at + integer_zero_bytes(planes->outputs);
}

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const format_t last = format_channels_last(call->in[X]->rank);
    const tensor_info_t *weight = call->in[WEIGHT];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    TRY(accept_format(call, prepared, X, &last));
    TRY(accept_out(call, prepared, 0, &last));
    accept_contiguous(call, prepared, WEIGHT, call->n_in - 1);
    prepared->cost_ns = 1e9;
    if (info_numel(&call->out[0]) == 0) return STATUS_OK;
    native_state_t *s = NULL;
    TRY(prepared_make_state(ctx, prepared, sizeof *s, &s));
    if (!describe_padded(call, &s->padded) || s->padded.n > INT32_MAX)
        return prepared_decline(prepared, "native: its padded input overflows");
    const conv_attrs_t *attrs = call->attrs;
    const bool is_joined = s->padded.planes.dilation[2] == 1 && attrs->groups == 1;
    s->window = describe_window(weight, attrs->groups, is_joined,
                                integer_has_quads(isa_best()) ? INTEGER_QUADS : INTEGER_PAIRS);
    s->is_packed = call->weights == WEIGHT_CONSTANT && !call->per_op && info_numel(weight) > 0;
    if (s->is_packed) {
        const int64_t numbers[N_NUMBERS] = {INTEGER_BLOCK, attrs->groups, is_joined,
                                            s->window.step};
        TRY(prepared_want_packed(ctx, prepared, WEIGHT, attrs->groups * packed_group(&s->window),
                                 VERSION, N_NUMBERS, numbers));
    }
    place_scratch(s, prepared);
    const double flops = 2.0 * (double)info_numel(&call->out[0]) * (double)info_numel(weight) /
                         (double)weight->sizes[0];
    prepared->cost_ns = cost_run(ctx, "native", flops, (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

static void put_centered(dtype_t dtype, int32_t zero, int64_t n, const void *x, void *out,
                         int64_t at)
{
    int16_t *to = (int16_t *)out + at;
    if (n <= 0) return;
    if (x == NULL)
        memset(to, 0, (size_t)n * sizeof *to);
    else
        integer_loops()->center(n, dtype == DTYPE_S8, x, zero, to);
}

/* Offset of each run of a window, relative to the window's first element. */
static void find_offsets(const native_state_t *s, int32_t *offsets)
{
    const planes_t *planes = &s->padded.planes;
    const int64_t runs_of_row = planes->kernel[2] / s->window.columns;
    for (int64_t run = 0; run < s->window.n_runs; run++) {
        const int64_t t = run / runs_of_row / planes->kernel[1];
        const int64_t r = run / runs_of_row % planes->kernel[1];
        const int64_t row = t * planes->dilation[0] * s->padded.sizes[1] + r * planes->dilation[1];
        offsets[run] = (int32_t)((row * s->padded.sizes[2] +
                                  run % runs_of_row * planes->dilation[2]) *
                                 planes->channels);
    }
}

static void find_starts(const padded_t *p, int64_t *starts)
{
    const planes_t *planes = &p->planes;
    const int64_t step = planes->stride[2] * planes->channels;
    for (int64_t d = 0; d < planes->out[0]; d++)
        for (int64_t h = 0; h < planes->out[1]; h++) {
            const int64_t row = d * planes->stride[0] * p->sizes[1] + h * planes->stride[1];
            int64_t at = row * p->sizes[2] * planes->channels;
            for (int64_t w = 0; w < planes->out[2]; w++, at += step) *starts++ = at;
        }
}

typedef struct window_sums {
    const native_state_t *s;
    const int32_t *pixels; /* for each pixel, the sum over a group's channels */
    int32_t *sums;
} window_sums_t;

static void sum_window_lines(void *user, int64_t first, int64_t last)
{
    const window_sums_t *w = user;
    const planes_t *planes = &w->s->padded.planes;
    const int64_t *sizes = w->s->padded.sizes, width = planes->out[2];
    for (int64_t line = first; line < last; line++) {
        const int64_t d = line / planes->out[1] * planes->stride[0];
        const int64_t h = line % planes->out[1] * planes->stride[1];
        memset(w->sums + line * width, 0, (size_t)width * sizeof *w->sums);
        for (int64_t k = 0; k < planes->kernel_plane; k++) {
            const int64_t r = k / planes->kernel[2] % planes->kernel[1] * planes->dilation[1];
            const int64_t t = k / planes->kernel[2] / planes->kernel[1] * planes->dilation[0];
            const int64_t at = ((d + t) * sizes[1] + h + r) * sizes[2] +
                               k % planes->kernel[2] * planes->dilation[2];
            integer_loops()->add(width, planes->stride[2], w->pixels + at, w->sums + line * width);
        }
    }
}

/* For each window of an image, sums x over the window and the channels of one group. */
static void sum_windows(context_t *ctx, const native_state_t *s, const integer_t *p,
                        int32_t *pixels, int32_t *sums)
{
    const planes_t *planes = &s->padded.planes;
    const int64_t *sizes = s->padded.sizes, n = sizes[0] * sizes[1] * sizes[2];
    window_sums_t windows = {s, pixels, sums};
    if (p->step == INTEGER_QUADS)
        integer_loops()->byte_sums(n, planes->channels, s->window.channels, p->x_zero, p->x,
                                   pixels);
    else
        integer_loops()->sums(n, planes->channels, s->window.channels, p->x, pixels);
    threads_share(threads_for(ctx, planes->out_plane * planes->kernel_plane),
                  planes->out[0] * planes->out[1], sum_window_lines, &windows);
}

/* Convolves one image; p.x is its padded copy. */
static void run_groups(context_t *ctx, const native_state_t *s, integer_t p, const int8_t *weight,
                       const int32_t *zeros, int32_t *pixels, int32_t *out)
{
    int32_t *const sums = pixels + s->padded.sizes[0] * s->padded.sizes[1] * s->padded.sizes[2];
    const window_t *w = &s->window;
    const int n_threads = threads_for(ctx, p.n_rows * w->group_outputs * w->n_runs * w->steps);
    const size_t element = p.step == INTEGER_QUADS ? sizeof(uint8_t) : sizeof(int16_t);
    for (int64_t g = 0; g < w->groups; g++) {
        p.weight = weight + g * packed_group(w);
        p.out = out + g * w->group_outputs;
        p.zeros = zeros != NULL ? zeros + g * w->group_outputs : NULL;
        if (zeros != NULL) sum_windows(ctx, s, &p, pixels, sums);
        p.sums = sums;
        integer_run(&p, isa_best(), n_threads);
        p.x = (const char *)p.x + (size_t)w->channels * element;
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const tensor_info_t *x = &prepared->in[X];
    if (info_numel(&prepared->out[0]) == 0) return STATUS_OK;
    const native_state_t *s = prepared->state;
    const planes_t *planes = &s->padded.planes;
    const int64_t image = info_numel(x) / x->sizes[0];
    const bool is_quads = s->window.step == INTEGER_QUADS;
    const int32_t zero = integer_zero(prepared, in, X_ZERO, 0) +
                         (is_quads ? integer_shift(x->dtype) : 0);
    char *bytes = scratch;
    int8_t *weight = s->is_packed ? in[WEIGHT] : (int8_t *)(bytes + s->weight_at);
    int32_t *offsets = (int32_t *)(void *)(bytes + s->offsets_at);
    int64_t *starts = (int64_t *)(void *)(bytes + s->starts_at);
    int32_t *zeros = (int32_t *)(void *)(bytes + s->zeros_at);
    if (!s->is_packed) pack_weight(&s->window, prepared->in[WEIGHT].dtype, in[WEIGHT], weight);
    find_offsets(s, offsets);
    find_starts(&s->padded, starts);
    const bool has_zeros = integer_zeros(prepared, in, WEIGHT, WEIGHT_ZERO, planes->outputs, zeros);
    const integer_t p = {.n_rows = planes->out_plane,
                         .n_outputs = s->window.group_outputs,
                         .n_runs = s->window.n_runs,
                         .n_steps = s->window.steps,
                         .step = s->window.step,
                         .x = scratch,
                         .x_zero = zero,
                         .starts = starts,
                         .offsets = offsets,
                         .out_stride = planes->outputs};
    memset((char *)scratch + s->padded.n * (is_quads ? 1 : 2), 0, PAST_END * sizeof(int16_t));
    for (int64_t i = 0; i < x->sizes[0]; i++) {
        pad_image(ctx, &s->padded, x->dtype, zero, is_quads ? put_unsigned : put_centered,
                  (const char *)in[X] + i * image, scratch);
        run_groups(ctx, s, p, weight, has_zeros ? zeros : NULL,
                   (int32_t *)(void *)(bytes + s->sums_at),
                   (int32_t *)out[0] + i * planes->out_plane * planes->outputs);
    }
    return STATUS_OK;
}

static const kernel_t native = {.name = "native",
                                .prepare = prepare_native,
                                .run = run_native,
                                .flags = KERNEL_IS_STORED,
                                .pack = pack};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- definition ---- */

#define DEFINE(n)                                                                                  \
    const opdef_t op_def_conv##n##d_integer = {                                                    \
        .name = "conv" #n "d_integer",                                                             \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(conv_attrs_t), sizeof fields_##n##d / sizeof *fields_##n##d,              \
                  fields_##n##d},                                                                  \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = conv_integer_infer,                                                               \
        .infers_symbols = true,                                                                    \
        .kernels = kernels,                                                                        \
        .spec = conv_integer_spec,                                                                 \
        .flops = ops_flops_of_weight}

DEFINE(1);
DEFINE(2);
DEFINE(3);

/* ---- public ---- */

#define CALL(n)                                                                                    \
    status_t op_conv##n##d_integer(context_t *ctx, const tensor_t *x, const tensor_t *weight,      \
                                   const tensor_t *x_zero, const tensor_t *weight_zero,            \
                                   const conv_attrs_t *attrs, tensor_t **out)                      \
    {                                                                                              \
        const tensor_t *in[] = {x, weight, x_zero, weight_zero};                                   \
        return dispatch_run(ctx, &op_def_conv##n##d_integer, attrs, 4, in, NULL, out);             \
    }

CALL(1)
CALL(2)
CALL(3)
