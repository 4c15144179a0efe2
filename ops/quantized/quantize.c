/* Conversion of real numbers to integers and back, as in ONNX QuantizeLinear and DequantizeLinear,
 * and of sums of products to narrower integers (requantize).
 *
 * Scales become f32 and zero points s32 first. Then elements are processed in memory order, in
 * lines. A line has one scale for all its elements, or one scale for each. */

#include <string.h>

#include "kernels/quantized/quantize_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* Variants of the operator. */
enum { QUANTIZE, DEQUANTIZE, REQUANTIZE };

typedef struct quantize_attrs {
    int64_t dim, block_size;
    dtype_t dtype;
    bool relu; /* requantize only */
} quantize_attrs_t;

#define DIM FIELD_INT(quantize_attrs_t, dim, 1)
#define BLOCK_SIZE FIELD_INT(quantize_attrs_t, block_size, 0)
#define DTYPE FIELD_DTYPE(quantize_attrs_t, dtype, 0)

static const attr_field_t quantize_fields[] = {DIM, BLOCK_SIZE, DTYPE};
static const attr_field_t dequantize_fields[] = {DIM, BLOCK_SIZE};
static const attr_field_t requantize_fields[] = {DIM, DTYPE, FIELD_BOOL(quantize_attrs_t, relu, 0)};

/* Operands of all variants. The last one, the bias, belongs to requantize only. */
static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"scale", ROLE_STATE, false, false},
                                     {"zero", ROLE_STATE, true, false},
                                     {"bias", ROLE_BIAS, true, false}};
enum { X, SCALE, ZERO, BIAS };

/* ---- inference ---- */

static bool is_small(dtype_t dtype)
{
    return dtype == DTYPE_S8 || dtype == DTYPE_U8 || dtype == DTYPE_S16 || dtype == DTYPE_U16;
}

static bool is_number(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

static bool is_one(const tensor_info_t *info)
{
    return info->rank <= 1 && info_numel(info) == 1;
}

/* Checks the sizes of a scale, zero or bias: one for all, for each index of dim, or for each block
 * of indices. */
static status_t check_sizes(context_t *ctx, const op_call_t *call, int operand)
{
    const quantize_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X], *info = call->in[operand];
    const char *op = call->op->name, *what = operands[operand].name;
    const bool has_blocks = attrs->block_size > 0 && operand != BIAS;
    int dim = 0;
    const bool is_single = info->rank <= 1 && call_has(call, operand) && sizes_are_one(ctx, info);
    if (!call_has(call, operand) || (is_single && !has_blocks)) return STATUS_OK;
    REQUIRE(ctx, x->rank > 0 && shape_dim(x->rank, attrs->dim, &dim),
            "%s: dim %lld of %s, out of range", op, (long long)attrs->dim, info_brief(x));
    if (!has_blocks) {
        REQUIRE(ctx, info->rank == 1 && sym_equal(ctx, info->sizes[0], x->sizes[dim]),
                "%s: %s is %s, one or [%lld] for dimension %d of %s is needed", op, what,
                info_brief(info), (long long)x->sizes[dim], dim, info_brief(x));
        return STATUS_OK;
    }
    int64_t wanted[TENSOR_MAX_RANK];
    memcpy(wanted, x->sizes, (size_t)x->rank * sizeof *wanted);
    wanted[dim] = sym_divide_up(ctx, x->sizes[dim], attrs->block_size);
    REQUIRE(ctx, sizes_equal(ctx, info->rank, info->sizes, x->rank, wanted),
            "%s: %s is %s, %lld blocks of %lld in dimension %d of %s are needed", op, what,
            info_brief(info), (long long)wanted[dim], (long long)attrs->block_size, dim,
            info_brief(x));
    return STATUS_OK;
}

static status_t check_dtypes(context_t *ctx, const op_call_t *call, dtype_t integer)
{
    const char *op = call->op->name;
    const int variant = call->op->variant;
    const dtype_t x = call->in[X]->dtype, scale = call->in[SCALE]->dtype;
    bool is_right = variant == QUANTIZE     ? is_number(x) || x == DTYPE_S32
                    : variant == DEQUANTIZE ? is_small(x) || x == DTYPE_S32
                                            : x == DTYPE_S32;
    REQUIRE(ctx, is_right, "%s: x is %s, %s is needed", op, info_brief(call->in[X]),
            variant == QUANTIZE     ? "f32, bf16, f16 or s32"
            : variant == DEQUANTIZE ? "s8, u8, s16, u16 or s32"
                                    : "s32");
    REQUIRE(ctx, scale == DTYPE_F32 || (variant != REQUANTIZE && is_number(scale)),
            "%s: scale is %s, %s is needed", op, info_brief(call->in[SCALE]),
            variant == REQUANTIZE ? "f32" : "f32, bf16 or f16");
    if (call_has(call, ZERO))
        REQUIRE(ctx, call->in[ZERO]->dtype == integer || call->in[ZERO]->dtype == DTYPE_S32,
                "%s: zero is %s, %s or s32 is needed", op, info_brief(call->in[ZERO]),
                dtype_name(integer));
    if (call_has(call, BIAS))
        REQUIRE(ctx, call->in[BIAS]->dtype == DTYPE_S32 || call->in[BIAS]->dtype == DTYPE_F32,
                "%s: bias is %s, s32 or f32 is needed", op, info_brief(call->in[BIAS]));
    return STATUS_OK;
}

static dtype_t integer_of(const op_call_t *call)
{
    const quantize_attrs_t *attrs = call->attrs;
    if (call->op->variant == DEQUANTIZE) return call->in[X]->dtype;
    if (attrs->dtype != DTYPE_NONE) return attrs->dtype;
    return call_has(call, ZERO) ? call->in[ZERO]->dtype : DTYPE_U8;
}

static status_t quantize_infer(context_t *ctx, const op_call_t *call, int *out_n,
                               tensor_info_t *out)
{
    (void)out_n;
    const quantize_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    dtype_t integer = integer_of(call);
    REQUIRE(ctx, attrs->block_size >= 0, "%s: block_size %lld, must not be negative", op,
            (long long)attrs->block_size);
    if (call->op->variant != DEQUANTIZE)
        REQUIRE(ctx, is_small(integer), "%s: result of %s, s8, u8, s16 or u16 is needed", op,
                dtype_name(integer));
    TRY(check_dtypes(ctx, call, integer));
    for (int i = SCALE; i < call->op->n_operands; i++) TRY(check_sizes(ctx, call, i));
    dtype_t dtype = call->op->variant == DEQUANTIZE ? call->in[SCALE]->dtype : integer;
    TRY(shape_check(ctx, op, dtype, x->rank, x->sizes));
    out[0] = info_dense(dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double parameter_at(const spec_call_t *call, int operand, const int64_t *index)
{
    const quantize_attrs_t *attrs = call->attrs;
    int64_t at[TENSOR_MAX_RANK] = {0};
    if (!spec_has(call, operand)) return 0.0;
    const bool has_blocks = attrs->block_size > 0 && operand != BIAS;
    if (is_one(call->in[operand]) && !has_blocks) return spec_at(call, operand, at);
    const int rank = call->in[X]->rank, dim = ops_dim(rank, attrs->dim);
    if (!has_blocks) return spec_at(call, operand, &index[dim]);
    memcpy(at, index, (size_t)rank * sizeof *at);
    at[dim] /= attrs->block_size;
    return spec_at(call, operand, at);
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    const double x = spec_at(call, X, index), scale = parameter_at(call, SCALE, index);
    const double zero = parameter_at(call, ZERO, index);
    const dtype_t dtype = call->out[output].dtype;
    if (call->op->variant == DEQUANTIZE) return (x - zero) * scale;
    if (call->op->variant == QUANTIZE) return quantize_spec((double)(float)x / scale, zero, dtype);
    const double bias = parameter_at(call, BIAS, index);
    const bool has_shift = spec_has(call, BIAS) && call->in[BIAS]->dtype == DTYPE_F32;
    const double sum = has_shift ? x : x + bias;
    double number = (double)(float)((double)(float)sum * scale) + (has_shift ? bias : 0.0);
    if (((const quantize_attrs_t *)call->attrs)->relu && !(number > 0.0)) number = 0.0;
    return quantize_spec(number, zero, dtype);
}

/* ---- dense kernel ---- */

static int64_t count_parameters(const prepared_t *prepared)
{
    int64_t n = 1;
    for (int i = SCALE; i < prepared->n_in; i++)
        if (prepared->in[i].dtype != DTYPE_NONE && info_numel(&prepared->in[i]) != 1)
            n = info_numel(&prepared->in[i]);
    return n;
}

/* Number of times that scratch repeats the parameters. In channels last with few channels, a line
 * covers several pixels, because short lines cost more than their elements. */
static int64_t count_copies(int64_t n_parameters)
{
    return n_parameters > 1 && n_parameters < QUANTIZE_CHUNK ? QUANTIZE_CHUNK / n_parameters : 1;
}

/* All arrays have the same length. An s32 bias is `bias`; an f32 bias is `shift`. */
typedef struct parameters {
    float *scale, *shift;
    int32_t *zero, *bias;
} parameters_t;
#define PARAMETER_BYTES (2 * sizeof(float) + 2 * sizeof(int32_t))

static status_t quantize_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const quantize_attrs_t *attrs = call->attrs;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    format_t format = info_tag(call->in[X]);
    if (attrs->block_size > 0) format = format_plain(call->in[X]->rank);
    if (call->out_format != NULL && call->out_format->kind == FORMAT_TAG && attrs->block_size == 0)
        format = *call->out_format;
    TRY(accept_format(call, prepared, X, &format));
    for (int i = SCALE; i < call->op->n_operands; i++)
        if (call_has(call, i)) TRY(accept_plain(call, prepared, i));
    const int64_t n = count_parameters(prepared);
    prepared->scratch_bytes = (size_t)(n * count_copies(n)) * PARAMETER_BYTES;
    return accept_out(call, prepared, 0, &format);
}

static void spread(const prepared_t *prepared, void *const *in, int operand, int64_t n,
                   dtype_t dtype, void *out)
{
    static const int32_t none = 0;
    const bool is_there = operand < prepared->n_in && prepared->in[operand].dtype != DTYPE_NONE;
    const bool is_shared = !is_there || info_numel(&prepared->in[operand]) == 1;
    if (n == 0) return;
    const int64_t n_copies = count_copies(n);
    dtype_cast(n, is_there ? prepared->in[operand].dtype : DTYPE_S32,
               is_there ? in[operand] : &none, is_shared ? 0 : 1, dtype, out, 1);
    for (int64_t i = 1; i < n_copies; i++)
        memcpy((char *)out + (size_t)(i * n) * dtype_size(dtype), out,
               (size_t)n * dtype_size(dtype));
}

/* A line has `length` contiguous elements. Channel c is an index of dim, and o the index of the
 * dimensions before it. The line begins with parameter (o * n_blocks + c / block_size) * stride. */
typedef struct lines {
    int64_t n, length, total;
    int64_t step; /* stride of parameters within a line: 0 for one scale, else 1 */
    int64_t channels, block_size, n_blocks, stride;
} lines_t;

/* Number of elements that are contiguous for one index of dim. */
static int64_t count_inner(const tensor_info_t *x, int dim)
{
    int64_t n = 1;
    for (int d = 0; d < x->rank; d++)
        if (d != dim && x->sizes[d] > 1 && x->format.strides[d] < x->format.strides[dim])
            n *= x->sizes[d];
    return n;
}

static lines_t divide_lines(const prepared_t *prepared, int64_t n_parameters)
{
    const quantize_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->in[X];
    lines_t lines = {.total = info_numel(x), .channels = 1, .block_size = 1, .stride = 1};
    lines.length = 16 * QUANTIZE_CHUNK;
    if (n_parameters > 1) {
        const int dim = ops_dim(x->rank, attrs->dim);
        lines.length = count_inner(x, dim);
        lines.channels = x->sizes[dim];
        if (attrs->block_size > 0) {
            lines.block_size = attrs->block_size;
            lines.n_blocks = (lines.channels - 1) / lines.block_size + 1;
            lines.stride = lines.length;
            lines.step = 1;
        } else if (lines.length == 1) { /* channels last */
            lines.length = lines.channels * count_copies(n_parameters);
            lines.channels = lines.step = 1;
        }
    }
    lines.n = lines.total > 0 ? (lines.total - 1) / lines.length + 1 : 0;
    return lines;
}

static void convert_chunk(const prepared_t *prepared, int64_t n, const char *x,
                          const parameters_t *p, int64_t step, char *out)
{
    const dtype_t from = prepared->in[X].dtype, to = prepared->out[0].dtype;
    int32_t integers[QUANTIZE_CHUNK];
    float floats[QUANTIZE_CHUNK];
    if (prepared->op->variant == DEQUANTIZE) {
        if (step == 0 && to == DTYPE_F32 &&
            quantize_undo_bytes(n, from, x, *p->scale, *p->zero, (float *)(void *)out))
            return;
        dtype_cast(n, from, x, 1, DTYPE_S32, integers, 1);
        quantize_loops()->undo(n, integers, p->scale, p->zero, step, floats);
        dtype_cast(n, DTYPE_F32, floats, 1, to, out, 1);
        return;
    }
    if (prepared->op->variant == QUANTIZE) {
        const float *numbers = (const void *)x;
        if (from != DTYPE_F32) {
            dtype_cast(n, from, x, 1, DTYPE_F32, floats, 1);
            numbers = floats;
        }
        quantize_divide(n, numbers, p->scale, p->zero, step, to, integers);
    } else {
        const quantize_attrs_t *attrs = prepared->attrs;
        const requantize_t how = {p->scale, p->shift, p->bias, p->zero, step, to, attrs->relu};
        quantize_multiply(n, (const void *)x, &how, integers);
    }
    quantize_loops()->store(n, integers, dtype_size(to), out);
}

static void convert_line(const prepared_t *prepared, const lines_t *lines, int64_t line,
                         const char *x, const parameters_t *parameters, char *out)
{
    const int64_t in_size = (int64_t)dtype_size(prepared->in[X].dtype);
    const int64_t out_size = (int64_t)dtype_size(prepared->out[0].dtype);
    const int64_t channel = line % lines->channels, outer = line / lines->channels;
    const int64_t first = line * lines->length;
    int64_t at = (outer * lines->n_blocks + channel / lines->block_size) * lines->stride;
    int64_t length = lines->total - first < lines->length ? lines->total - first : lines->length;
    for (int64_t i = 0; i < length; i += QUANTIZE_CHUNK) {
        int64_t n = length - i < QUANTIZE_CHUNK ? length - i : QUANTIZE_CHUNK;
        const int64_t own = at + i * lines->step;
        const parameters_t p = {parameters->scale + own, parameters->shift + own,
                                parameters->zero + own, parameters->bias + own};
        convert_chunk(prepared, n, x + (first + i) * in_size, &p, lines->step,
                      out + (first + i) * out_size);
    }
}

typedef struct line_run {
    const prepared_t *prepared;
    const lines_t *lines;
    const parameters_t *parameters;
    const void *x;
    void *out;
} line_run_t;

static void convert_lines(void *user, int64_t first, int64_t last)
{
    const line_run_t *c = user;
    for (int64_t line = first; line < last; line++)
        convert_line(c->prepared, c->lines, line, c->x, c->parameters, c->out);
}

static status_t quantize_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    const int64_t n = count_parameters(prepared), room = n * count_copies(n);
    const parameters_t parameters = {scratch, (float *)scratch + room,
                                     (int32_t *)scratch + 2 * room, (int32_t *)scratch + 3 * room};
    const bool has_shift = prepared->n_in > BIAS && prepared->in[BIAS].dtype == DTYPE_F32;
    spread(prepared, in, SCALE, n, DTYPE_F32, parameters.scale);
    spread(prepared, in, ZERO, n, DTYPE_S32, parameters.zero);
    spread(prepared, in, has_shift ? OP_MAX_INPUTS : BIAS, n, DTYPE_S32, parameters.bias);
    spread(prepared, in, has_shift ? BIAS : OP_MAX_INPUTS, n, DTYPE_F32, parameters.shift);
    const lines_t lines = divide_lines(prepared, n);
    line_run_t run = {prepared, &lines, &parameters, in[X], out[0]};
    threads_share(threads_for(ctx, lines.total), lines.n, convert_lines, &run);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = quantize_prepare, .run = quantize_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- definitions ---- */

#define DEFINE(op, number, field_table, n)                                                         \
    const opdef_t op_def_##op = {.name = #op,                                                      \
                                 .variant = number,                                                \
                                 .preference = OP_DENSE,                                           \
                                 .attrs = {sizeof(quantize_attrs_t),                               \
                                           sizeof(field_table) / sizeof *(field_table),            \
                                           field_table},                                           \
                                 .n_operands = n,                                                  \
                                 .operands = operands,                                             \
                                 .n_outputs = 1,                                                   \
                                 .infer = quantize_infer,                                          \
                                 .infers_symbols = true,                                           \
                                 .kernels = kernels,                                               \
                                 .spec = spec};

DEFINE(quantize, QUANTIZE, quantize_fields, 3)
DEFINE(dequantize, DEQUANTIZE, dequantize_fields, 3)
DEFINE(requantize, REQUANTIZE, requantize_fields, 4)

/* ---- public ---- */

status_t op_quantize(context_t *ctx, const tensor_t *x, const tensor_t *scale, const tensor_t *zero,
                     int64_t dim, int64_t block_size, dtype_t dtype, tensor_t **out)
{
    const quantize_attrs_t attrs = {.dim = dim, .block_size = block_size, .dtype = dtype};
    const tensor_t *in[] = {x, scale, zero};
    return dispatch_run(ctx, &op_def_quantize, &attrs, 3, in, NULL, out);
}

status_t op_dequantize(context_t *ctx, const tensor_t *x, const tensor_t *scale,
                       const tensor_t *zero, int64_t dim, int64_t block_size, tensor_t **out)
{
    const quantize_attrs_t attrs = {.dim = dim, .block_size = block_size};
    const tensor_t *in[] = {x, scale, zero};
    return dispatch_run(ctx, &op_def_dequantize, &attrs, 3, in, NULL, out);
}

status_t op_requantize(context_t *ctx, const tensor_t *x, const tensor_t *multiplier,
                       const tensor_t *bias, const tensor_t *zero, int64_t dim, bool relu,
                       dtype_t dtype, tensor_t **out)
{
    const quantize_attrs_t attrs = {.dim = dim, .dtype = dtype, .relu = relu};
    const tensor_t *in[] = {x, multiplier, zero, bias};
    return dispatch_run(ctx, &op_def_requantize, &attrs, 4, in, NULL, out);
}
