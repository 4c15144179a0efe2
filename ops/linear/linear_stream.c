/* Fully connected layers with an x of few rows, with our own kernel. Reading the weight takes most
 * of the time.
 *
 * A flattened x is read in its own format, with padding; the weight is reordered to match. If x is
 * aBcd8b, the weight is [K][C][H][W] in aBcd8b for one to four rows of x, and in ABcd8b8a (blocks
 * of 8 outputs) for more rows. With AVX-512 and x in aBcd16b, the weight is in ABcd16b16a for any
 * number of rows. oneDNN can reorder to these formats, and files can store them. If the number of
 * rows or the machine changes, the weight is reordered. Only a constant weight gets blocks of
 * outputs. A constant weight that is trimmed to 3 bytes per element (tensor/convert/trim_impl.h)
 * stays trimmed, with its columns in the order of x's elements. */
#include <string.h>

#include "kernels/linear/stream_impl.h"
#include "ops/accept_impl.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_impl.h"
#include "tensor/convert/trim_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/threads/threads_impl.h"

enum { X, WEIGHT, BIAS };

/* Returns true if the rows of x are stored one after another. */
static bool has_rows(const format_t *format)
{
    for (int b = 0; b < format->n_blocks; b++)
        if (format->block_dims[b] == 0) return false;
    return format->kind == FORMAT_TAG && format->order[0] == 0;
}

/* Finds the format in which x is read. Returns false if x is read row-major. */
static bool keeps_order(const op_call_t *call, format_t *out_format)
{
    const tensor_info_t *x = call->in[X];
    const format_t plain = format_plain(x->rank);
    *out_format = info_tag(x);
    return ((const linear_attrs_t *)call->attrs)->flatten && x->rank >= 3 && x->rank <= 5 &&
           has_rows(out_format) && !format_same(out_format, &plain, x->sizes);
}

/* Adds blocks of outputs to the blocks of inputs: aBcd8b becomes ABcd8b8a. Returns false unless the
 * inputs have blocks of `lanes`. */
static bool block_outputs(format_t *format, int lanes)
{
    if (format->n_blocks != 1 || format->block_sizes[0] != lanes) return false;
    format->block_dims[format->n_blocks] = 0;
    format->block_sizes[format->n_blocks++] = (uint16_t)lanes;
    return true;
}

/* Stride of the rows of x in elements, with padding. */
static int64_t row_elements(const tensor_info_t *info, int64_t n_rows)
{
    return (int64_t)(info_bytes(info) / dtype_size(info->dtype)) / n_rows;
}

typedef struct shape {
    int64_t rows, outputs, features;
} shape_t;

static shape_t shape_of(const op_call_t *call)
{
    const linear_attrs_t *attrs = call->attrs;
    shape_t shape = {.outputs = call->in[WEIGHT]->sizes[0], .features = call->in[WEIGHT]->sizes[1]};
    shape.rows = attrs->flatten
                     ? call->in[X]->sizes[0]
                     : info_numel(call->in[X]) / call->in[X]->sizes[call->in[X]->rank - 1];
    return shape;
}

static status_t check(const op_call_t *call, prepared_t *prepared, const shape_t *shape)
{
    const tensor_info_t *x = call->in[X];
    if (call->per_op) return prepared_decline(prepared, "stream: oneDNN alone under policy per_op");
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "stream: dtype %s", dtype_name(x->dtype));
    if (call->weights == WEIGHT_KEPT)
        return prepared_decline(prepared, "stream: the weight may be trained");
    const int64_t most = call->weights == WEIGHT_CONSTANT ? STREAM_BLOCKED_ROWS : STREAM_ROWS;
    if (shape->rows > most)
        return prepared_decline(prepared, "stream: %lld rows, at most %lld are streamed",
                                (long long)shape->rows, (long long)most);
    return STATUS_OK;
}

/* Describes the weight with x's dimensions (the first one is the outputs) and x's format. */
static tensor_info_t spread(const tensor_info_t *x, int64_t outputs, const format_t *order)
{
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, x->sizes, sizeof sizes);
    sizes[0] = outputs;
    const tensor_info_t weight = info_dense(x->dtype, x->rank, sizes);
    return info_mkldnn(&weight, order);
}

/* True if a weight in blocks of outputs is read faster than a row-major one (perf/linear): blocks
 * of 16 for any number of rows of x, blocks of 8 only for more than STREAM_ROWS rows. */
static bool prefers_blocks(const op_call_t *call, const shape_t *shape)
{
    return shape->rows > STREAM_ROWS ||
           (call->weights == WEIGHT_CONSTANT && isa_best() == ISA_AVX512);
}

static bool is_blocked(const tensor_info_t *weight)
{
    bool is = trim_is(weight);
    for (int b = 0; b < weight->format.n_blocks; b++) is |= weight->format.block_dims[b] == 0;
    return is;
}

/* Requests the weight in blocks of outputs. oneDNN has such formats only with blocks of inputs,
 * too, for weights of convolutions. So a matrix is treated as the weight of a 1x1 convolution. The
 * last block may be padded. */
static status_t want_blocks(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                            const shape_t *shape, const format_t *order)
{
    const tensor_info_t *x = call->in[X];
    const int lanes = isa_lanes(isa_best());
    tensor_info_t weight;
    if (order != NULL) {
        weight = spread(x, shape->outputs, order);
    } else {
        const int64_t sizes[] = {shape->outputs, shape->features, 1, 1};
        const format_t blocks = format_channel_blocks(4, lanes);
        const tensor_info_t matrix = info_dense(x->dtype, 4, sizes);
        weight = info_mkldnn(&matrix, &blocks);
    }
    if (!block_outputs(&weight.format, lanes))
        return prepared_decline(prepared, "stream: no blocks of outputs beside %s", info_brief(x));
    TRY(linear_check_blocks(ctx, prepared, &weight));
    prepared->in[WEIGHT] = weight;
    return STATUS_OK;
}

/* Requests the trimmed weight. Returns false if the weight is not trimmed, or if its columns cannot
 * be in the order of x's elements. */
static bool want_trimmed(const op_call_t *call, prepared_t *prepared, const format_t *order)
{
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    if (call->weights != WEIGHT_CONSTANT || !trim_is(weight)) return false;
    return order != NULL ? trim_ordered(weight, x->rank, x->sizes, order, &prepared->in[WEIGHT])
                         : trim_plain(weight, &prepared->in[WEIGHT]);
}

static status_t want_weight(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                            const shape_t *shape, const format_t *order)
{
    const tensor_info_t *x = call->in[X];
    if (want_trimmed(call, prepared, order)) return STATUS_OK;
    if (prefers_blocks(call, shape)) {
        status_t status = want_blocks(ctx, call, prepared, shape, order);
        if (status != STATUS_UNSUPPORTED || shape->rows > STREAM_ROWS) return status;
    }
    prepared->in[WEIGHT] = order != NULL ? spread(x, shape->outputs, order)
                                         : linear_matrix(x->dtype, shape->outputs, shape->features);
    return STATUS_OK;
}

/* Number of elements that are converted to f32 in scratch memory: x and the result if they are not
 * f32, and the bias in any case. */
static size_t converted_elements(const prepared_t *prepared, const shape_t *shape, int64_t row)
{
    const int64_t n = prepared->in[X].dtype == DTYPE_F32 ? 0 : shape->rows * (row + shape->outputs);
    return (size_t)(n + shape->outputs);
}

static status_t linear_stream_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const shape_t shape = shape_of(call);
    format_t order;
    TRY(check(call, prepared, &shape));
    const bool keeps = keeps_order(call, &order);
    TRY(keeps ? accept_format(call, prepared, X, &order) : accept_plain(call, prepared, X));
    TRY(want_weight(ctx, call, prepared, &shape, keeps ? &order : NULL));
    if (call_has(call, BIAS))
        prepared->in[BIAS] = info_dense(call->in[BIAS]->dtype, 1, call->in[BIAS]->sizes);
    TRY(accept_out_plain(call, prepared, 0));
    const int64_t row = row_elements(&prepared->in[X], shape.rows);
    prepared_set_scratch(prepared,
                         converted_elements(prepared, &shape, row) * sizeof(float) +
                             stream_scratch(is_blocked(&prepared->in[WEIGHT]), shape.rows, row));
    prepared->cost_ns = cost_layer(
        ctx, "stream", 2.0 * (double)shape.rows * (double)row * (double)shape.outputs,
        (double)info_bytes(&prepared->in[X]), (double)info_bytes(&prepared->in[WEIGHT]));
    return STATUS_OK;
}

/* Sets x, bias and result of `stream`: the tensors' own memory if they are f32, otherwise buffers
 * in scratch memory. Returns the unused rest of the scratch memory. */
static float *bind(const prepared_t *prepared, void *const *in, void *out, float *scratch,
                   stream_t *stream)
{
    const dtype_t dtype = prepared->in[X].dtype, bias = prepared->in[BIAS].dtype;
    const int64_t n_x = stream->n_rows * stream->x_stride;
    stream->x = in[X];
    stream->bias = in[BIAS];
    stream->out = out;
    if (in[BIAS] != NULL && bias != DTYPE_F32) {
        dtype_cast(stream->n_outputs, bias, in[BIAS], 1, DTYPE_F32, scratch, 1);
        stream->bias = scratch;
    }
    scratch += stream->n_outputs;
    if (dtype == DTYPE_F32) return scratch;
    dtype_cast(n_x, dtype, in[X], 1, DTYPE_F32, scratch, 1);
    stream->x = scratch;
    stream->out = scratch + n_x;
    return scratch + n_x + stream->n_rows * stream->n_outputs;
}

static stream_weight_t elements_of(const tensor_info_t *weight)
{
    if (trim_is(weight)) return STREAM_TRIMMED;
    return weight->dtype == DTYPE_BF16 ? STREAM_BF16 : STREAM_F32;
}

static status_t linear_stream_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    const tensor_info_t *weight = &prepared->in[WEIGHT], *result = &prepared->out[0];
    stream_t stream = {.n_outputs = weight->sizes[0],
                       .weight = in[WEIGHT],
                       .elements = elements_of(weight),
                       .out_stride = weight->sizes[0]};
    const isa_t isa = isa_best();
    stream.n_rows = info_numel(result) / stream.n_outputs;
    stream.is_blocked = is_blocked(weight);
    stream.n_inputs = row_elements(&prepared->in[X], stream.n_rows);
    stream.x_stride = stream.n_inputs;
    const int64_t lanes = stream.is_blocked ? isa_lanes(isa) : 1;
    const int64_t n_blocks = (stream.n_outputs + lanes - 1) / lanes;
    stream.weight_stride = stream.elements == STREAM_TRIMMED ? trim_groups(weight) * TRIM_WORDS
                                                             : row_elements(weight, n_blocks);
    float *rest = bind(prepared, in, out[0], scratch, &stream);
    stream_run(&stream, isa, threads_for(ctx, stream.n_outputs * stream.n_inputs), rest);
    if (result->dtype != DTYPE_F32)
        dtype_cast(info_numel(result), DTYPE_F32, stream.out, 1, result->dtype, out[0], 1);
    return STATUS_OK;
}

const kernel_t linear_stream = {.name = "stream",
                                .prepare = linear_stream_prepare,
                                .run = linear_stream_run,
                                .flags = KERNEL_NEEDS_ELEMENTS | KERNEL_COMPETES};
