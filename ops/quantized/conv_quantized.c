/* Convolution of u8 with s8 that rescales its sums in the same pass, to f32 or 8-bit integers. It
 * applies a multiplier per channel, an addend and a relu, then rounds.
 *
 * On CPUs with 8-bit dot products, oneDNN computes all of this in one primitive. On other CPUs,
 * oneDNN's integer kernels saturate sums of two products to 16 bits. There, oneDNN convolves the
 * integers as floats: f32 represents sums below 2^24 exactly. */
#include <math.h>
#include <string.h>

#include "kernels/quantized/quantize_impl.h"
#include "ops/accept_impl.h"
#include "ops/conv/conv_impl.h"
#include "ops/conv/planes_impl.h"
#include "ops/ops_impl.h"
#include "ops/quantized/integer_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

#define FIELDS(n)                                                                                  \
    CONV_FIELDS(n), FIELD_DTYPE(conv_quantized_attrs_t, dtype, 0),                                 \
        FIELD_BOOL(conv_quantized_attrs_t, relu, 0),                                               \
        FIELD_OR(conv_quantized_attrs_t, ATTR_FLOAT, addend_scale, 0, 1.0)

static const attr_field_t fields_1d[] = {FIELDS(1)};
static const attr_field_t fields_2d[] = {FIELDS(2)};
static const attr_field_t fields_3d[] = {FIELDS(3)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_WEIGHT, false, false},
                                     {"bias", ROLE_BIAS, true, false},
                                     {"multiplier", ROLE_STATE, false, false},
                                     {"addend", ROLE_ACTIVATION, true, false}};
enum { X, WEIGHT, BIAS, MULTIPLIER, ADDEND };

static dtype_t dtype_of(const op_call_t *call)
{
    const dtype_t dtype = ((const conv_quantized_attrs_t *)call->attrs)->dtype;
    return dtype == DTYPE_NONE ? DTYPE_U8 : dtype;
}

/* ---- inference ---- */

static status_t check_channels(context_t *ctx, const op_call_t *call, int operand)
{
    const tensor_info_t *info = call->in[operand];
    REQUIRE(ctx,
            info->dtype == DTYPE_F32 && info->rank == 1 &&
                sym_equal(ctx, info->sizes[0], call->in[WEIGHT]->sizes[0]),
            "%s: %s is %s, f32[%lld] is needed", call->op->name, operands[operand].name,
            info_brief(info), (long long)call->in[WEIGHT]->sizes[0]);
    return STATUS_OK;
}

static status_t conv_quantized_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                     tensor_info_t *out)
{
    (void)out_n;
    const char *op = call->op->name;
    const dtype_t dtype = dtype_of(call);
    REQUIRE(ctx, integer_is_byte(dtype) || dtype == DTYPE_F32,
            "%s: dtype=%s, u8, s8 or f32 is needed", op, dtype_name(dtype));
    TRY(conv_infer(ctx, call, dtype, &out[0]));
    REQUIRE(ctx, call->in[X]->dtype == DTYPE_U8, "%s: x is %s, u8 is needed", op,
            info_brief(call->in[X]));
    REQUIRE(ctx, call->in[WEIGHT]->dtype == DTYPE_S8, "%s: weight is %s, s8 is needed", op,
            info_brief(call->in[WEIGHT]));
    TRY(check_channels(ctx, call, MULTIPLIER));
    if (call_has(call, BIAS)) TRY(check_channels(ctx, call, BIAS));
    if (!call_has(call, ADDEND)) return STATUS_OK;
    const tensor_info_t *addend = call->in[ADDEND];
    REQUIRE(ctx, sizes_are_like(ctx, addend, &out[0]),
            "%s: addend is %s, the result is %s, equal dtypes and sizes are needed", op,
            info_brief(addend), info_brief(&out[0]));
    return STATUS_OK;
}

/* ---- specification: each step in f32, like the kernels ---- */

static float scale_sum(double sum, float bias, float multiplier)
{
    return ((float)sum + bias) * multiplier;
}

/* Saturates first, then rounds. The order does not matter, because the bounds are integers. */
static double settle(float value, dtype_t dtype)
{
    int32_t low, high;
    if (dtype == DTYPE_F32) return (double)value;
    quantize_range(dtype, &low, &high);
    if (!(value > (float)low)) return low;
    return value < (float)high ? nearbyint((double)value) : high;
}

static double conv_quantized_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const conv_quantized_attrs_t *attrs = call->attrs;
    const double sum = conv_spec_sum(call, &attrs->conv, 0.0, 0.0, index);
    const double bias = spec_has(call, BIAS) ? spec_at(call, BIAS, &index[1]) : 0.0;
    float value = scale_sum(sum, (float)bias, (float)spec_at(call, MULTIPLIER, &index[1]));
    if (spec_has(call, ADDEND))
        value = fmaf((float)spec_at(call, ADDEND, index), (float)attrs->addend_scale, value);
    if (attrs->relu && !(value > 0.0f)) value = 0.0f;
    return settle(value, call->out->dtype);
}

/* ---- shared by the kernels ---- */

/* A channels-last problem and the descriptions that it points to. */
typedef struct description {
    onednn_problem_t problem;
    tensor_info_t src, weight, bias, multiplier, dst;
} description_t;

static tensor_info_t channels_last(dtype_t dtype, const tensor_info_t *info)
{
    const format_t last = format_channels_last(info->rank);
    const tensor_info_t dense = info_dense(dtype, info->rank, info->sizes);
    return info_mkldnn(&dense, &last);
}

/* Describes the convolution without post-ops for the given dtypes. */
static void describe(const op_call_t *call, dtype_t src, dtype_t weight, dtype_t dst,
                     description_t *d)
{
    const conv_quantized_attrs_t *attrs = call->attrs;
    const int64_t n_outputs = call->in[WEIGHT]->sizes[0];
    onednn_problem_t *p = &d->problem;
    d->src = channels_last(src, call->in[X]);
    d->dst = channels_last(dst, &call->out[0]);
    d->weight = conv_group_weight(call->in[WEIGHT], attrs->conv.groups);
    d->weight.dtype = weight;
    d->weight.format = (format_t){.kind = FORMAT_ANY};
    d->bias = info_dense(DTYPE_F32, 1, &n_outputs);
    *p = (onednn_problem_t){.kind = ONEDNN_CONVOLUTION,
                            .algorithm = ONEDNN_DIRECT,
                            .n_src = 1,
                            .src = &d->src,
                            .weight = &d->weight,
                            .dst = &d->dst};
    (void)conv_set_windows(call, p);
    if (call_has(call, BIAS)) p->bias = &d->bias;
}

/* Adds the post-ops that are applied to the sums. */
static void describe_post(const op_call_t *call, description_t *d)
{
    const conv_quantized_attrs_t *attrs = call->attrs;
    onednn_problem_t *p = &d->problem;
    int64_t sizes[TENSOR_MAX_RANK];
    for (int i = 0; i < TENSOR_MAX_RANK; i++) sizes[i] = 1;
    sizes[1] = call->in[WEIGHT]->sizes[0];
    d->multiplier = info_dense(DTYPE_F32, call->in[X]->rank, sizes);
    p->post[p->n_post++] = (onednn_post_op_t){
        .kind = ONEDNN_POST_BINARY, .algorithm = ONEDNN_BINARY_MUL, .operand = &d->multiplier};
    if (call_has(call, ADDEND))
        p->post[p->n_post++] = (onednn_post_op_t){.kind = ONEDNN_POST_SUM,
                                                  .alpha = (float)attrs->addend_scale};
    if (attrs->relu)
        p->post[p->n_post++] = (onednn_post_op_t){.kind = ONEDNN_POST_ELTWISE,
                                                  .algorithm = ONEDNN_ELTWISE_RELU};
}

/* Accepts all operands except the weight. */
static status_t accept_operands(const op_call_t *call, prepared_t *prepared)
{
    const format_t last = format_channels_last(call->in[X]->rank);
    TRY(accept_format(call, prepared, X, &last));
    TRY(accept_out(call, prepared, 0, &last));
    if (call_has(call, ADDEND)) TRY(accept_format(call, prepared, ADDEND, &last));
    for (int i = BIAS; i <= MULTIPLIER; i++)
        if (call_has(call, i)) prepared->in[i] = info_dense(DTYPE_F32, 1, call->in[i]->sizes);
    return STATUS_OK;
}

static double flops_of(const op_call_t *call)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    return 2.0 * (double)info_numel(&call->out[0]) * (double)info_numel(weight) /
           (double)weight->sizes[0];
}

static double bytes_of(const op_call_t *call)
{
    return (double)info_bytes(call->in[X]) + (double)info_bytes(&call->out[0]);
}

/* ---- kernel on oneDNN with dot products of bytes ---- */

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    description_t d;
    onednn_primitive_t *primitive = NULL;
    TRY(accept_operands(call, prepared));
    describe(call, DTYPE_U8, DTYPE_S8, call->out[0].dtype, &d);
    describe_post(call, &d);
    /* n_terms 0 allows inexact sums: the post-ops convert them to f32 anyway */
    TRY(integer_describe(ctx, prepared, &d.problem, 0.0, &primitive, &prepared->in[WEIGHT]));
    if (call_has(call, ADDEND)) prepared->sum_operand = ADDEND;
    prepared_take_primitive(prepared, primitive);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, flops_of(call) / 4, bytes_of(call));
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- kernel on oneDNN with floats ---- */

#define VERSION 1
enum { GROUPS, ORDER, FIRST_BLOCK };

static status_t want_floats(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                            const tensor_info_t *wanted)
{
    const format_t *format = &wanted->format;
    const conv_quantized_attrs_t *attrs = call->attrs;
    int64_t numbers[FORMAT_MAX_NUMBERS] = {[GROUPS] = attrs->conv.groups}, elements = 0;
    INVARIANT(FIRST_BLOCK + FORMAT_MAX_BLOCKS <= FORMAT_MAX_NUMBERS);
    if (!format_elements(format, wanted->sizes, &elements) || elements > INT64_MAX / 8)
        return prepared_decline(prepared, "floats: a weight of %s overflows", info_brief(wanted));
    for (int i = 0; i < wanted->rank; i++) numbers[ORDER] = numbers[ORDER] * 8 + format->order[i];
    for (int i = 0; i < format->n_blocks; i++)
        numbers[FIRST_BLOCK + i] = (int64_t)format->block_sizes[i] * 8 + format->block_dims[i];
    return prepared_want_packed(ctx, prepared, WEIGHT, elements * (int64_t)sizeof(float), VERSION,
                                FIRST_BLOCK + format->n_blocks, numbers);
}

static format_t format_of_numbers(int rank, const int64_t *numbers)
{
    format_t format = {.kind = FORMAT_TAG, .rank = (uint8_t)rank};
    int64_t order = numbers[ORDER];
    for (int i = rank - 1; i >= 0; i--, order /= 8) format.order[i] = (uint8_t)(order % 8);
    while (format.n_blocks < FORMAT_MAX_BLOCKS && numbers[FIRST_BLOCK + format.n_blocks] > 0) {
        const int64_t block = numbers[FIRST_BLOCK + format.n_blocks];
        format.block_dims[format.n_blocks] = (uint8_t)(block % 8);
        format.block_sizes[format.n_blocks++] = (uint16_t)(block / 8);
    }
    return format;
}

typedef struct packing {
    const tensor_info_t *weight;
    const format_t *format;
    int n_lead;            /* 1 for outputs, 2 for groups and outputs */
    int64_t each;          /* weights of one output channel */
    const int64_t *places; /* [each]: offsets from the output's first weight */
    const int8_t *in;
    float *out;
} packing_t;

static void pack_rows(void *user, int64_t begin, int64_t end)
{
    const packing_t *p = user;
    for (int64_t row = begin; row < end; row++) {
        const int8_t *in = p->in + row * p->each;
        int64_t first[TENSOR_MAX_RANK] = {row};
        if (p->n_lead == 2) {
            first[0] = row / p->weight->sizes[1];
            first[1] = row % p->weight->sizes[1];
        }
        float *to = p->out + format_offset(p->format, p->weight->sizes, first);
        for (int64_t i = 0; i < p->each; i++) to[p->places[i]] = in[i];
    }
}

static status_t pack_floats(context_t *ctx, const tensor_info_t *from, const void *bytes,
                            const tensor_info_t *want, void *out)
{
    const int64_t *numbers = format_numbers(&want->format);
    const tensor_info_t weight = conv_group_weight(from, numbers[GROUPS]);
    const format_t format = format_of_numbers(weight.rank, numbers);
    const int64_t n = info_numel(from), n_rows = from->sizes[0], each = n > 0 ? n / n_rows : 0;
    int64_t index[TENSOR_MAX_RANK] = {0}, *places = NULL;
    memset(out, 0, info_bytes(want));
    if (n == 0) return STATUS_OK;
    TRY(context_get(ctx, (size_t)each * sizeof *places, "places of an output's weights", &places));
    /* an offset is a sum over dimensions, so these offsets are the same for every output channel */
    for (int64_t i = 0; i < each; i++) {
        places[i] = format_offset(&format, weight.sizes, index);
        (void)shape_next(weight.rank, weight.sizes, index);
    }
    packing_t packing = {&weight, &format, weight.rank - from->rank + 1, each, places, bytes, out};
    threads_share(threads_for(ctx, n), n_rows, pack_rows, &packing);
    context_put(ctx, places);
    return STATUS_OK;
}

typedef struct places {
    size_t src_at, dst_at; /* offsets in scratch */
} places_t;

static status_t prepare_floats(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    description_t d;
    tensor_info_t packed;
    places_t *state = NULL;
    onednn_primitive_t *primitive = NULL;
    TRY(accept_operands(call, prepared));
    describe(call, DTYPE_F32, DTYPE_F32, DTYPE_F32, &d);
    status_t status = onednn_describe(ctx, &d.problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "floats: %s", onednn_refusal(ctx));
    TRY(status);
    status = onednn_query_weight(primitive, &packed);
    if (status != STATUS_OK || packed.format.kind != FORMAT_TAG) {
        onednn_release(primitive);
        return prepared_decline(prepared, "floats: weights that no tag describes");
    }
    prepared_take_primitive(prepared, primitive);
    TRY(want_floats(ctx, call, prepared, &packed));
    TRY(prepared_make_state(ctx, prepared, sizeof *state, &state));
    state->src_at = integer_align(prepared->scratch_bytes);
    state->dst_at = state->src_at + integer_align((size_t)info_numel(call->in[X]) * sizeof(float));
    prepared->scratch_bytes = state->dst_at + (size_t)info_numel(&call->out[0]) * sizeof(float);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, flops_of(call),
                                 5.0 * bytes_of(call));
    return STATUS_OK;
}

typedef struct widening {
    const char *x;
    float *out;
} widening_t;

static void widen_range(void *user, int64_t first, int64_t last)
{
    const widening_t *w = user;
    dtype_cast(last - first, DTYPE_U8, w->x + first, 1, DTYPE_F32, w->out + first, 1);
}

static void widen(context_t *ctx, int64_t n, const void *x, float *out)
{
    widening_t widening = {x, out};
    threads_share(threads_for(ctx, n), n, widen_range, &widening);
}

/* Rescales n sums to elements of the result from `first` on; the first one belongs to channel k. */
static void finish(const prepared_t *prepared, void *const *in, const float *sums, int64_t k,
                   int64_t first, int64_t n, char *out)
{
    const conv_quantized_attrs_t *attrs = prepared->attrs;
    const dtype_t dtype = prepared->out[0].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    const bool has_addend = prepared->n_in > ADDEND && prepared->in[ADDEND].dtype != DTYPE_NONE;
    const float one = 1.0f, *multiplier = (const float *)in[MULTIPLIER] + k;
    const int32_t none = 0;
    float numbers[QUANTIZE_CHUNK], addend[QUANTIZE_CHUNK];
    int32_t integers[QUANTIZE_CHUNK];
    if (has_addend)
        dtype_cast(n, dtype, (const char *)in[ADDEND] + first * size, 1, DTYPE_F32, addend, 1);
    quantize_loops()->rescale(n, sums + first, multiplier, has_addend ? addend : NULL,
                              (float)attrs->addend_scale, attrs->relu, numbers);
    if (dtype == DTYPE_F32) {
        memcpy(out + first * size, numbers, (size_t)n * sizeof *numbers);
        return;
    }
    quantize_divide(n, numbers, &one, &none, 0, dtype, integers);
    quantize_loops()->store(n, integers, dtype_size(dtype), out + first);
}

typedef struct finishing {
    const prepared_t *prepared;
    void *const *in;
    const float *sums;
    void *out;
} finishing_t;

static void finish_rows(void *user, int64_t first, int64_t last)
{
    const finishing_t *f = user;
    const int64_t n = f->prepared->out[0].sizes[1];
    for (int64_t row = first; row < last; row++)
        for (int64_t k = 0; k < n; k += QUANTIZE_CHUNK) {
            const int64_t left = n - k < QUANTIZE_CHUNK ? n - k : QUANTIZE_CHUNK;
            finish(f->prepared, f->in, f->sums, k, row * n + k, left, f->out);
        }
}

static void finish_all(context_t *ctx, const prepared_t *prepared, void *const *in,
                       const float *sums, void *out)
{
    const int64_t numel = info_numel(&prepared->out[0]), n = prepared->out[0].sizes[1];
    finishing_t finishing = {prepared, in, sums, out};
    threads_share(threads_for(ctx, numel), numel / n, finish_rows, &finishing);
}

static status_t run_floats(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const places_t *state = prepared->state;
    float *src = (float *)(void *)((char *)scratch + state->src_at);
    float *sums = (float *)(void *)((char *)scratch + state->dst_at);
    void *arguments[] = {src, in[WEIGHT], in[BIAS], sums};
    if (prepared->in[BIAS].dtype == DTYPE_NONE) arguments[2] = sums;
    widen(ctx, info_numel(&prepared->in[X]), in[X], src);
    TRY(onednn_run(ctx, prepared->primitive, arguments, scratch));
    finish_all(ctx, prepared, in, sums, out[0]);
    return STATUS_OK;
}

static const kernel_t floats = {.name = "floats",
                                .prepare = prepare_floats,
                                .run = run_floats,
                                .pack = pack_floats,
                                .flags = KERNEL_IS_STORED | KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel: problems that oneDNN does not support ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *weight = call->in[WEIGHT];
    TRY(accept_operands(call, prepared));
    prepared->in[WEIGHT] = info_dense(DTYPE_S8, weight->rank, weight->sizes);
    prepared->cost_ns = 1e9;
    return STATUS_OK;
}

/* Sums the products of output channel k in the window at `position`, for one image. */
static double sum_window(const planes_t *p, const uint8_t *x, const int8_t *weight, int64_t k,
                         int64_t position)
{
    const int64_t first = k / p->group_outputs * p->group_channels;
    const int64_t d0 = position / (p->out[1] * p->out[2]) * p->stride[0] - p->padding[0];
    const int64_t h0 = position / p->out[2] % p->out[1] * p->stride[1] - p->padding[1];
    const int64_t w0 = position % p->out[2] * p->stride[2] - p->padding[2];
    int64_t sum = 0;
    weight += k * p->group_channels * p->kernel_plane;
    for (int64_t i = 0; i < p->kernel_plane; i++) {
        const int64_t d = d0 + i / (p->kernel[1] * p->kernel[2]) * p->dilation[0];
        const int64_t h = h0 + i / p->kernel[2] % p->kernel[1] * p->dilation[1];
        const int64_t w = w0 + i % p->kernel[2] * p->dilation[2];
        if (d < 0 || d >= p->in[0] || h < 0 || h >= p->in[1] || w < 0 || w >= p->in[2]) continue;
        const uint8_t *from = x + ((d * p->in[1] + h) * p->in[2] + w) * p->channels + first;
        for (int64_t c = 0; c < p->group_channels; c++)
            sum += from[c] * weight[c * p->kernel_plane + i];
    }
    return (double)sum;
}

typedef struct elements {
    const prepared_t *prepared;
    planes_t planes;
    void *const *in;
    char *out;
} elements_t;

static void run_elements(void *user, int64_t first, int64_t last)
{
    const elements_t *e = user;
    const planes_t *p = &e->planes;
    const conv_quantized_attrs_t *attrs = e->prepared->attrs;
    const dtype_t dtype = e->prepared->out[0].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    const bool has_addend = e->prepared->n_in > ADDEND &&
                            e->prepared->in[ADDEND].dtype != DTYPE_NONE;
    const float *multiplier = e->in[MULTIPLIER];
    const float *bias = e->prepared->in[BIAS].dtype != DTYPE_NONE ? e->in[BIAS] : NULL;
    for (int64_t i = first; i < last; i++) {
        const int64_t k = i % p->outputs, position = i / p->outputs;
        const uint8_t *x = (const uint8_t *)e->in[X] +
                           position / p->out_plane * p->in_plane * p->channels;
        const double sum = sum_window(p, x, e->in[WEIGHT], k, position % p->out_plane);
        float value = scale_sum(sum, bias != NULL ? bias[k] : 0.0f, multiplier[k]);
        if (has_addend)
            value = fmaf((float)dtype_load(dtype, (const char *)e->in[ADDEND] + i * size),
                         (float)attrs->addend_scale, value);
        if (attrs->relu && !(value > 0.0f)) value = 0.0f;
        dtype_store(dtype, e->out + i * size, settle(value, dtype));
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const conv_attrs_t *conv = &((const conv_quantized_attrs_t *)prepared->attrs)->conv;
    elements_t elements = {
        prepared,
        planes_describe(prepared, conv->stride, conv->dilation, conv->padding, conv->groups), in,
        out[0]};
    const int64_t n = info_numel(&prepared->out[0]);
    threads_share(threads_for(ctx, n * elements.planes.kernel_plane), n, run_elements, &elements);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const kernels[] = {&onednn, &floats, &native, NULL};

/* ---- definition ---- */

#define DEFINE(n)                                                                                  \
    const opdef_t op_def_conv##n##d_quantized = {                                                  \
        .name = "conv" #n "d_quantized",                                                           \
        .preference = OP_PREFERS,                                                                  \
        .attrs = {sizeof(conv_quantized_attrs_t), sizeof fields_##n##d / sizeof *fields_##n##d,    \
                  fields_##n##d},                                                                  \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = conv_quantized_infer,                                                             \
        .infers_symbols = true,                                                                    \
        .kernels = kernels,                                                                        \
        .spec = conv_quantized_spec,                                                               \
        .flops = ops_flops_of_weight}

DEFINE(1);
DEFINE(2);
DEFINE(3);

/* ---- public ---- */

#define CALL(n)                                                                                    \
    status_t op_conv##n##d_quantized(context_t *ctx, const tensor_t *x, const tensor_t *weight,    \
                                     const tensor_t *bias, const tensor_t *multiplier,             \
                                     const tensor_t *addend, const conv_quantized_attrs_t *attrs,  \
                                     tensor_t **out)                                               \
    {                                                                                              \
        const tensor_t *in[] = {x, weight, bias, multiplier, addend};                              \
        return dispatch_run(ctx, &op_def_conv##n##d_quantized, attrs, 5, in, NULL, out);           \
    }

CALL(1)
CALL(2)
CALL(3)
