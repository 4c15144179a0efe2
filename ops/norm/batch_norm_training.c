/* Batch norm in training, which normalizes with the mean and variance of the batch, and its
 * gradients. Both passes, forward and backward, can include a relu or relu6 of the result.
 *
 * Both passes process one strip (strips_impl.h), a few adjacent channels of all images, at a time.
 * They sum over its elements, compute factors for each channel, then read the elements again to
 * compute the result, while they are in the cache. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/norm/strips_impl.h"
#include "tensor/onednn/cost.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef enum activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_RELU6 } activation_t;

static const char *const activations[] = {"none", "relu", "relu6", NULL};

typedef struct attrs {
    double epsilon;
    int activation; /* activation_t: function applied to the result */
} attrs_t;

#define FIELDS 2
static const attr_field_t fields[FIELDS] = {FIELD_FLOAT(attrs_t, epsilon, 1e-5),
                                            FIELD_NAME(attrs_t, activation, 0, activations)};

static const operand_t forward_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                             {"weight", ROLE_BIAS, true, false},
                                             {"bias", ROLE_BIAS, true, false}};
static const operand_t backward_operands[] = {
    {"x", ROLE_ACTIVATION, false, false},    {"weight", ROLE_BIAS, true, false},
    {"mean", ROLE_STATE, false, false},      {"variance", ROLE_STATE, false, false},
    {"grad", ROLE_ACTIVATION, false, false}, {"bias", ROLE_BIAS, true, false}};
enum { X, WEIGHT, BIAS, MEAN = 2, VARIANCE, GRAD, OLD_BIAS /* read only with an activation */ };
enum { Y, OUT_MEAN, OUT_VARIANCE };
enum { GRAD_X, GRAD_WEIGHT, GRAD_BIAS };

/* ---- inference ---- */

static dtype_t statistics_dtype(const tensor_info_t *x)
{
    return x->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

static status_t check(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    REQUIRE(ctx, x->rank >= 2 && x->rank <= 5, "%s: x is %s, rank 2 to 5 is needed", op,
            info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed", op,
            info_brief(x));
    int64_t per_channel = 0;
    const bool fits = sizes_numel(ctx, x->rank - 2, &x->sizes[2], &per_channel) &&
                      sizes_multiply(ctx, per_channel, x->sizes[0], &per_channel);
    REQUIRE(ctx, sym_equal(ctx, x->sizes[1], 0) || (fits && sym_less(ctx, 1, per_channel)),
            "%s: x is %s, more than 1 value per channel is needed in training", op, info_brief(x));
    for (int i = 0; i < call->op->n_operands; i++) {
        const tensor_info_t *info = call->in[i];
        if (!call_has(call, i) || call->op->operands[i].role == ROLE_ACTIVATION) continue;
        REQUIRE(ctx,
                info->rank == 1 && sym_equal(ctx, info->sizes[0], x->sizes[1]) &&
                    dtype_is_floating(info->dtype),
                "%s: %s is %s, input %s needs floating [%lld]", op, call->op->operands[i].name,
                info_brief(info), info_brief(x), (long long)x->sizes[1]);
    }
    return STATUS_OK;
}

static status_t infer_forward(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    TRY(check(ctx, call));
    out[Y] = info_dense(x->dtype, x->rank, x->sizes);
    out[OUT_MEAN] = out[OUT_VARIANCE] = info_dense(statistics_dtype(x), 1, &x->sizes[1]);
    return STATUS_OK;
}

static status_t batch_norm_training_backward_infer(context_t *ctx, const op_call_t *call,
                                                   int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD];
    TRY(check(ctx, call));
    REQUIRE(ctx, sizes_are_like(ctx, grad, x),
            "%s: grad is %s, x is %s, equal sizes and dtypes are needed", call->op->name,
            info_brief(grad), info_brief(x));
    dtype_t dtype = call_has(call, WEIGHT) ? call->in[WEIGHT]->dtype : statistics_dtype(x);
    out[GRAD_X] = info_dense(x->dtype, x->rank, x->sizes);
    out[GRAD_WEIGHT] = out[GRAD_BIAS] = info_dense(dtype, 1, &x->sizes[1]);
    return STATUS_OK;
}

/* ---- specification ---- */

/* Advances `index` to the next element of its channel. Returns false after the last one. */
static bool next_of_channel(const tensor_info_t *x, int64_t *index)
{
    if (shape_next(x->rank - 2, &x->sizes[2], &index[2])) return true;
    return ++index[0] < x->sizes[0];
}

static double spec_moment(const spec_call_t *call, int64_t channel, double mean, bool squares)
{
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK] = {0, channel};
    double sum = 0.0;
    do {
        double difference = spec_at(call, X, at) - mean;
        sum += squares ? difference * difference : difference;
    } while (next_of_channel(x, at));
    const int64_t count = info_numel(x) / x->sizes[1];
    return sum / (double)count;
}

static double spec_forward(const spec_call_t *call, int output, const int64_t *index)
{
    const int64_t *channel = output == Y ? &index[1] : index;
    const double mean = spec_moment(call, *channel, 0.0, false);
    if (output == OUT_MEAN) return mean;
    const double variance = spec_moment(call, *channel, mean, true);
    if (output == OUT_VARIANCE) return variance;
    double value = (spec_at(call, X, index) - mean) /
                   sqrt(variance + ((const attrs_t *)call->attrs)->epsilon);
    if (spec_has(call, WEIGHT)) value *= spec_at(call, WEIGHT, channel);
    if (spec_has(call, BIAS)) value += spec_at(call, BIAS, channel);
    switch (((const attrs_t *)call->attrs)->activation) {
    case ACTIVATION_RELU: return value < 0.0 ? 0.0 : value;
    case ACTIVATION_RELU6: return value < 0.0 ? 0.0 : value > 6.0 ? 6.0 : value;
    default: return value;
    }
}

/* Element of grad, or 0 if relu or relu6 clamped the result's element, so that its slope is 0. */
static double spec_passed(const spec_call_t *call, const int64_t *index, double mean, double scale)
{
    const int activation = ((const attrs_t *)call->attrs)->activation;
    const double g = spec_at(call, GRAD, index);
    if (activation == ACTIVATION_NONE) return g;
    double value = (spec_at(call, X, index) - mean) * scale;
    if (spec_has(call, WEIGHT)) value *= spec_at(call, WEIGHT, &index[1]);
    if (spec_has(call, OLD_BIAS)) value += spec_at(call, OLD_BIAS, &index[1]);
    return value <= 0.0 || (activation == ACTIVATION_RELU6 && value >= 6.0) ? 0.0 : g;
}

static double batch_norm_training_backward_spec(const spec_call_t *call, int output,
                                                const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const int64_t *channel = output == GRAD_X ? &index[1] : index;
    const double mean = spec_at(call, MEAN, channel);
    const double scale = 1.0 / sqrt(spec_at(call, VARIANCE, channel) +
                                    ((const attrs_t *)call->attrs)->epsilon);
    const int64_t n = info_numel(x) / x->sizes[1];
    const double count = (double)n;
    int64_t at[TENSOR_MAX_RANK] = {0, *channel};
    double sum = 0.0, dot = 0.0;
    do {
        double g = spec_passed(call, at, mean, scale);
        sum += g;
        dot += g * (spec_at(call, X, at) - mean) * scale;
    } while (next_of_channel(x, at));
    if (output == GRAD_BIAS) return sum;
    if (output == GRAD_WEIGHT) return dot;
    const double normal = (spec_at(call, X, index) - mean) * scale;
    const double value = spec_passed(call, index, mean, scale) - sum / count - normal * dot / count;
    return value * scale * (spec_has(call, WEIGHT) ? spec_at(call, WEIGHT, channel) : 1.0);
}

/* ---- kernels ---- */

/* State of one run. */
typedef struct work {
    const prepared_t *prepared;
    void *const *in, *const *out;
    strips_t strips;
    const batch_loops_t *loops;
    bool is_activated;
    dtype_t number;  /* dtype in which the loops compute */
    double *partial; /* [strips][chunks][2][width]: two sums per channel */
    char *factors;   /* [strips][BATCH_FACTORS][STRIP_LANES], dtype `number` */
} work_t;

/* Requests weight, bias and statistics without gaps. mkldnn tensors in the plain format never have
 * gaps. */
static void want_contiguous(const op_call_t *call, prepared_t *prepared)
{
    for (int i = 0; i < call->n_in; i++) {
        const tensor_info_t *info = call->in[i];
        const format_t plain = format_plain(1);
        if (!call_has(call, i) || call->op->operands[i].role == ROLE_ACTIVATION) continue;
        if (info->layout == LAYOUT_DENSE || !format_same(&info->format, &plain, info->sizes))
            prepared->in[i] = info_dense(info->dtype, info->rank, info->sizes);
    }
}

/* Chooses one format for x and grad: that of x, or that of grad if only grad is blocked. The plain
 * format if strips_of supports neither. */
static format_t choose_format(const op_call_t *call, int operand)
{
    const tensor_info_t *info = call->in[operand];
    const format_t tag = info_tag(info);
    const tensor_info_t taken = accept_info(info, call->layout, &tag);
    walk_t walk;
    strips_t strips;
    const bool fits = walk_channels(&taken, &walk) && strips_of(&walk, &strips);
    if (call->op->n_operands > GRAD && operand == X && (!fits || tag.n_blocks == 0)) {
        const format_t other = choose_format(call, GRAD);
        if (!fits || other.n_blocks > 0) return other;
    }
    return fits ? tag : format_plain(info->rank);
}

static status_t batch_norm_training_prepare(context_t *ctx, const op_call_t *call,
                                            prepared_t *prepared)
{
    const format_t format = choose_format(call, X);
    const bool is_backward = call->op->n_operands > GRAD;
    walk_t walk;
    strips_t strips;
    int64_t numbers = 0;
    TRY(accept_format(call, prepared, X, &format));
    if (is_backward) TRY(accept_format(call, prepared, GRAD, &format));
    TRY(accept_out(call, prepared, 0, &format));
    want_contiguous(call, prepared);
    if (!walk_channels(&prepared->in[X], &walk) || !strips_of(&walk, &strips))
        return prepared_decline(prepared, "native: %s", info_brief(call->in[X]));
    if (!shape_multiply(strips.n * strips.n_chunks, 2 * strips.width, &numbers) ||
        numbers > INT64_MAX / 16)
        return prepared_decline(prepared, "native: scratch for %s overflows",
                                info_brief(call->in[X]));
    numbers += strips.n * BATCH_FACTORS * STRIP_LANES;
    prepared->scratch_bytes = (size_t)numbers * sizeof(double);
    prepared->overwrites = 1u << X | (is_backward ? 1u << GRAD : 0);
    prepared->cost_ns = cost_run(ctx, "native", 0.0,
                                 (is_backward ? 3.0 : 2.0) * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

static int activation_of(const work_t *work)
{
    return ((const attrs_t *)work->prepared->attrs)->activation;
}

static work_t begin(const prepared_t *prepared, void *const *in, void *const *out, void *scratch)
{
    work_t work = {.prepared = prepared, .in = in, .out = out};
    walk_t walk = {0};
    walk_channels(&prepared->in[X], &walk);
    strips_of(&walk, &work.strips);
    work.number = statistics_dtype(&prepared->in[X]);
    work.loops = batch_loops(isa_best(), work.number == DTYPE_F64);
    work.is_activated = activation_of(&work) != ACTIVATION_NONE;
    work.partial = scratch;
    work.factors = (char *)(work.partial +
                            work.strips.n * work.strips.n_chunks * 2 * work.strips.width);
    return work;
}

/* Address of a chunk in a tensor of x's dtype. */
static char *chunk_bytes(const work_t *work, void *tensor, const chunk_t *chunk)
{
    return (char *)tensor + chunk->offset * (int64_t)dtype_size(work->prepared->in[X].dtype);
}

#define WIDE_ELEMENTS 4096

/* Returns the elements of a chunk in dtype `number`: the operand's own bytes, or a copy in `wide`
 * without gaps between rows. */
static const void *take(const work_t *work, int operand, const chunk_t *chunk, float *wide)
{
    const dtype_t dtype = work->prepared->in[X].dtype;
    const char *src = chunk_bytes(work, work->in[operand], chunk);
    if (dtype == work->number) return src;
    for (int64_t row = 0; row < chunk->rows; row++)
        dtype_cast(chunk->width, dtype, src + row * chunk->step * (int64_t)dtype_size(dtype), 1,
                   work->number, wide + row * chunk->width, 1);
    return wide;
}

/* Converts results in `wide` to x's dtype and stores them; results of dtype `number` are stored
 * already. */
static void give(const work_t *work, const chunk_t *chunk, const float *wide)
{
    const dtype_t dtype = work->prepared->in[X].dtype;
    char *dst = chunk_bytes(work, work->out[0], chunk);
    if (dtype == work->number) return;
    for (int64_t row = 0; row < chunk->rows; row++)
        dtype_cast(chunk->width, work->number, wide + row * chunk->width, 1, dtype,
                   dst + row * chunk->step * (int64_t)dtype_size(dtype), 1);
}

static void lines_of(const work_t *work, const chunk_t *chunk, lines_t lines[2])
{
    chunk_t taken = *chunk;
    if (work->prepared->in[X].dtype != work->number) taken.step = taken.width;
    strips_lines(&taken, lines);
}

static double *partial_of(const work_t *work, int64_t strip, int64_t index)
{
    return work->partial + (strip * work->strips.n_chunks + index) * 2 * work->strips.width;
}

static void *factors_of(const work_t *work, int64_t strip)
{
    return work->factors + strip * BATCH_FACTORS * STRIP_LANES * (int64_t)dtype_size(work->number);
}

/* Sets a factor of channel c in each of its lanes. With width 16, these are c, c + 16, c + 32, c +
 * 48. */
static void set_factor(const work_t *work, int64_t strip, int64_t width, int64_t c,
                       batch_factor_t factor, double value)
{
    void *factors = factors_of(work, strip);
    for (int64_t l = c; l < STRIP_LANES; l += width) {
        const int64_t at = factor * STRIP_LANES + l;
        if (work->number == DTYPE_F64)
            ((double *)factors)[at] = value;
        else
            ((float *)factors)[at] = (float)value;
    }
}

/* Element of a parameter, or `absent` if there is no such parameter. */
static double element(const work_t *work, int operand, int64_t c, double absent)
{
    if (work->in[operand] == NULL) return absent;
    const dtype_t dtype = work->prepared->in[operand].dtype;
    return dtype_load(dtype, (const char *)work->in[operand] + c * (int64_t)dtype_size(dtype));
}

static void store(const work_t *work, int output, int64_t c, double value)
{
    const dtype_t dtype = work->prepared->out[output].dtype;
    dtype_store(dtype, (char *)work->out[output] + c * (int64_t)dtype_size(dtype), value);
}

static double epsilon_of(const work_t *work)
{
    return ((const attrs_t *)work->prepared->attrs)->epsilon;
}

/* Multiplier of a channel: weight / sqrt(variance + epsilon). The variance is rounded like the
 * result that the backward pass reads, so that both passes compute the same pre-activations. */
static double scale_of(const work_t *work, int64_t channel, double variance)
{
    const double given = work->number == DTYPE_F64 ? variance : (double)(float)variance;
    return element(work, WEIGHT, channel, 1.0) / sqrt(given + epsilon_of(work));
}

static void set_bound(const work_t *work, int64_t strip, int64_t width)
{
    const double high = activation_of(work) == ACTIVATION_RELU6 ? 6.0 : NAN;
    for (int64_t c = 0; c < width; c++) set_factor(work, strip, width, c, BATCH_HIGH, high);
}

/* ---- forward ---- */

/* Merges the mean and the sum of squared deviations of `more` elements into those of `count`
 * elements, for each of `width` channels (Chan's formula). */
static void merge(int64_t width, double *count, double *means, double *squares, double more,
                  const double *more_means, const double *more_squares)
{
    const double all = *count + more, share = more / all, weight = *count * share;
    for (int64_t c = 0; c < width; c++) {
        const double way = more_means[c] - means[c];
        means[c] += way * share;
        squares[c] += more_squares[c] + way * way * weight;
    }
    *count = all;
}

static void add_moments(void *user, const chunk_t *chunk, int64_t index)
{
    const work_t *work = user;
    float wide[WIDE_ELEMENTS];
    double lane_means[STRIP_LANES], lane_squares[STRIP_LANES], count = 0.0;
    double *means = partial_of(work, chunk->strip, index), *squares = means + work->strips.width;
    const void *x = take(work, X, chunk, wide);
    lines_t lines[2];
    lines_of(work, chunk, lines);
    for (int64_t c = 0; c < chunk->width; c++) means[c] = squares[c] = 0.0;
    for (int part = 0; part < 2; part++) {
        if (lines[part].n == 0) continue;
        work->loops->moments(&lines[part], x, lane_means, lane_squares);
        for (int64_t l = 0; l < lines[part].lanes; l += chunk->width)
            merge(chunk->width, &count, means, squares, (double)lines[part].n, &lane_means[l],
                  &lane_squares[l]);
    }
}

static void settle_moments(void *user, int64_t strip)
{
    const work_t *work = user;
    double means[STRIP_LANES] = {0.0}, squares[STRIP_LANES] = {0.0}, count = 0.0;
    int64_t width = 0;
    for (int64_t i = 0; i < work->strips.n_chunks; i++) {
        const chunk_t chunk = strips_chunk(&work->strips, strip, i);
        const double *more = partial_of(work, strip, i);
        width = chunk.width;
        merge(width, &count, means, squares, (double)chunk.rows, more, more + work->strips.width);
    }
    for (int64_t c = 0; c < width; c++) {
        const int64_t channel = strip * work->strips.width + c;
        const bool is_padding = channel >= work->strips.channels;
        const double variance = squares[c] > 0.0 || isnan(squares[c]) ? squares[c] / count : 0.0;
        double center = 0.0, scale = 0.0, shift = 0.0;
        if (!is_padding) {
            center = work->number == DTYPE_F64 ? means[c] : (double)(float)means[c];
            scale = scale_of(work, channel, variance);
            shift = element(work, BIAS, channel, 0.0) - (means[c] - center) * scale;
            store(work, OUT_MEAN, channel, means[c]);
            store(work, OUT_VARIANCE, channel, variance);
        }
        set_factor(work, strip, width, c, BATCH_CENTER, center);
        set_factor(work, strip, width, c, BATCH_A, scale);
        set_factor(work, strip, width, c, BATCH_B, shift);
    }
    set_bound(work, strip, width);
}

static void apply_moments(void *user, const chunk_t *chunk)
{
    const work_t *work = user;
    float wide[WIDE_ELEMENTS];
    const void *x = take(work, X, chunk, wide), *factors = factors_of(work, chunk->strip);
    void *y = x == wide ? (void *)wide : chunk_bytes(work, work->out[Y], chunk);
    lines_t lines[2];
    lines_of(work, chunk, lines);
    for (int part = 0; part < 2; part++)
        work->loops->scale(&lines[part], work->is_activated, x, factors, y);
    give(work, chunk, wide);
}

static status_t run_forward(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, void *scratch)
{
    static const strips_body_t body = {NULL, add_moments, settle_moments, apply_moments};
    work_t work = begin(prepared, in, out, scratch);
    strips_run(threads_for(ctx, walk_elements(&prepared->in[X])), &work.strips, &body, &work);
    return STATUS_OK;
}

static const kernel_t forward = {.name = "native",
                                 .prepare = batch_norm_training_prepare,
                                 .run = run_forward,
                                 .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- backward ---- */

static void begin_dots(void *user, int64_t strip)
{
    const work_t *work = user;
    const chunk_t chunk = strips_chunk(&work->strips, strip, 0);
    for (int64_t c = 0; c < chunk.width; c++) {
        const int64_t channel = chunk.channel + c;
        const bool is_padding = channel >= work->strips.channels;
        const double variance = is_padding ? 0.0 : element(work, VARIANCE, channel, 0.0);
        set_factor(work, strip, chunk.width, c, BATCH_CENTER,
                   is_padding ? 0.0 : element(work, MEAN, channel, 0.0));
        set_factor(work, strip, chunk.width, c, BATCH_A,
                   is_padding ? 0.0 : scale_of(work, channel, variance));
        set_factor(work, strip, chunk.width, c, BATCH_SHIFT,
                   is_padding ? 0.0 : element(work, OLD_BIAS, channel, 0.0));
    }
    set_bound(work, strip, chunk.width);
}

static void add_dots(void *user, const chunk_t *chunk, int64_t index)
{
    const work_t *work = user;
    float wide[WIDE_ELEMENTS], wide_grad[WIDE_ELEMENTS];
    double lane_sums[STRIP_LANES], lane_dots[STRIP_LANES];
    double *sums = partial_of(work, chunk->strip, index), *dots = sums + work->strips.width;
    const void *x = take(work, X, chunk, wide), *g = take(work, GRAD, chunk, wide_grad);
    lines_t lines[2];
    lines_of(work, chunk, lines);
    for (int64_t c = 0; c < chunk->width; c++) sums[c] = dots[c] = 0.0;
    for (int part = 0; part < 2; part++) {
        work->loops->dots(&lines[part], work->is_activated, x, g, factors_of(work, chunk->strip),
                          lane_sums, lane_dots);
        for (int64_t l = 0; l < lines[part].lanes; l += chunk->width)
            for (int64_t c = 0; c < chunk->width; c++) {
                sums[c] += lane_sums[l + c];
                dots[c] += lane_dots[l + c];
            }
    }
}

static void settle_dots(void *user, int64_t strip)
{
    const work_t *work = user;
    const double count = (double)strips_count(&work->strips);
    const chunk_t chunk = strips_chunk(&work->strips, strip, 0);
    double sums[STRIP_LANES] = {0.0}, dots[STRIP_LANES] = {0.0};
    for (int64_t i = 0; i < work->strips.n_chunks; i++) {
        const double *more = partial_of(work, strip, i);
        for (int64_t c = 0; c < chunk.width; c++) {
            sums[c] += more[c];
            dots[c] += more[work->strips.width + c];
        }
    }
    for (int64_t c = 0; c < chunk.width; c++) {
        const int64_t channel = chunk.channel + c;
        double b = 0.0, shift = 0.0;
        if (channel < work->strips.channels) {
            const double variance = element(work, VARIANCE, channel, 0.0);
            const double a = scale_of(work, channel, variance);
            const double scale = 1.0 / sqrt(variance + epsilon_of(work));
            b = -a * scale * scale * dots[c] / count;
            shift = -a * sums[c] / count;
            store(work, GRAD_WEIGHT, channel, dots[c] * scale);
            store(work, GRAD_BIAS, channel, sums[c]);
        }
        set_factor(work, strip, chunk.width, c, BATCH_B, b);
        set_factor(work, strip, chunk.width, c, BATCH_C, shift);
    }
}

static void apply_dots(void *user, const chunk_t *chunk)
{
    const work_t *work = user;
    float wide[WIDE_ELEMENTS], wide_grad[WIDE_ELEMENTS];
    const void *x = take(work, X, chunk, wide), *g = take(work, GRAD, chunk, wide_grad);
    const void *factors = factors_of(work, chunk->strip);
    void *y = x == wide ? (void *)wide : chunk_bytes(work, work->out[GRAD_X], chunk);
    lines_t lines[2];
    lines_of(work, chunk, lines);
    for (int part = 0; part < 2; part++)
        work->loops->combine(&lines[part], work->is_activated, x, g, factors, y);
    give(work, chunk, wide);
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    static const strips_body_t body = {begin_dots, add_dots, settle_dots, apply_dots};
    work_t work = begin(prepared, in, out, scratch);
    strips_run(threads_for(ctx, walk_elements(&prepared->in[X])), &work.strips, &body, &work);
    return STATUS_OK;
}

static const kernel_t backward = {.name = "native",
                                  .prepare = batch_norm_training_prepare,
                                  .run = run_backward,
                                  .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- gradients ---- */

/* Reshapes a value with one element per channel so that it broadcasts to x; casts it to `dtype`. */
static value_t spread(const gradient_call_t *call, value_t value, dtype_t dtype)
{
    const tensor_info_t x = *emit_info(call->emitter, call->in[X]);
    int64_t sizes[TENSOR_MAX_RANK] = {1, 1, 1, 1, 1};
    if (value == VALUE_NONE || x.dtype == DTYPE_NONE) return VALUE_NONE;
    sizes[1] = x.sizes[1];
    return emit_cast(call->emitter, emit_ints(call->emitter, &op_def_reshape, value, x.rank, sizes),
                     dtype);
}

/* The part of x's gradient that comes from the gradients of the results mean and variance: (dmean +
 * 2 (x - mean) dvariance) / count. Computed in f32 for bf16 and f16. */
static value_t pass_statistics(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    value_t of_mean = call->out_grad[OUT_MEAN], of_variance = call->out_grad[OUT_VARIANCE];
    if (info_numel(emit_info(e, call->in[X])) == 0 ||
        (of_mean == VALUE_NONE && of_variance == VALUE_NONE))
        return VALUE_NONE;
    const value_t wide = emit_widen(e, call->in[X]);
    const tensor_info_t x = *emit_info(e, wide);
    if (x.dtype == DTYPE_NONE) return VALUE_NONE; /* an earlier emitter call failed */
    of_mean = spread(call, of_mean, x.dtype);
    of_variance = spread(call, of_variance, x.dtype);
    const int64_t n = info_numel(&x) / x.sizes[1];
    const double count = (double)n;
    value_t way = emit_binary(e, &op_def_sub, wide, spread(call, call->out[OUT_MEAN], x.dtype));
    way = emit_mul(e, way, of_variance == VALUE_NONE ? 0.0 : 2.0 / count);
    if (of_variance != VALUE_NONE) way = emit_binary(e, &op_def_mul, way, of_variance);
    if (of_mean != VALUE_NONE)
        way = emit_binary(e, &op_def_add, way, emit_mul(e, of_mean, 1.0 / count));
    return emit_cast(e, way, emit_info(e, call->in[X])->dtype);
}

static void batch_norm_training_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    value_t grads[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    if (call->out_grad[Y] != VALUE_NONE) {
        const bool is_activated = ((const attrs_t *)call->attrs)->activation != ACTIVATION_NONE;
        const value_t in[] = {call->in[X],         call->in[WEIGHT],
                              call->out[OUT_MEAN], call->out[OUT_VARIANCE],
                              call->out_grad[Y],   is_activated ? call->in[BIAS] : VALUE_NONE};
        emit_op_n(e, &op_def_batch_norm_backward, call->attrs, 6, in, 3, grads);
    }
    if (call->is_wanted[X]) call->in_grad[X] = emit_sum(e, grads[GRAD_X], pass_statistics(call));
    if (grads[GRAD_WEIGHT] == VALUE_NONE) return;
    if (call->is_wanted[WEIGHT]) call->in_grad[WEIGHT] = grads[GRAD_WEIGHT];
    if (call->is_wanted[BIAS])
        call->in_grad[BIAS] = emit_cast(e, grads[GRAD_BIAS], emit_info(e, call->in[BIAS])->dtype);
}

/* ---- definitions ---- */

const opdef_t op_def_batch_norm_training = {
    .name = "batch_norm_training",
    .preference = OP_FOLLOWS,
    .attrs = {sizeof(attrs_t), FIELDS, fields},
    OPERANDS(forward_operands),
    .n_outputs = 3,
    .infer = infer_forward,
    .infers_symbols = true,
    .kernels = KERNELS(&forward),
    .spec = spec_forward,
    .gradient = GRADIENT(.pass = batch_norm_training_pass,
                         .reads_in = 1u << X | 1u << WEIGHT | 1u << BIAS,
                         .reads_out = 1u << OUT_MEAN | 1u << OUT_VARIANCE)};

const opdef_t op_def_batch_norm_backward = {.name = "batch_norm_backward",
                                            .preference = OP_FOLLOWS,
                                            .attrs = {sizeof(attrs_t), FIELDS, fields},
                                            OPERANDS(backward_operands),
                                            .n_outputs = 3,
                                            .infer = batch_norm_training_backward_infer,
                                            .infers_symbols = true,
                                            .kernels = KERNELS(&backward),
                                            .spec = batch_norm_training_backward_spec};

/* ---- public ---- */

status_t op_batch_norm_training(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                                const tensor_t *bias, double epsilon, tensor_t **out,
                                tensor_t **out_mean, tensor_t **out_variance)
{
    const tensor_t *in[] = {x, weight, bias};
    const attrs_t attrs = {.epsilon = epsilon};
    tensor_t *made[3] = {NULL};
    int n = 3;
    TRY(context_output(ctx, "batch_norm_training", out));
    TRY(context_output(ctx, "batch_norm_training", out_mean));
    TRY(context_output(ctx, "batch_norm_training", out_variance));
    TRY(dispatch_run(ctx, &op_def_batch_norm_training, &attrs, 3, in, &n, made));
    *out = made[Y];
    *out_mean = made[OUT_MEAN];
    *out_variance = made[OUT_VARIANCE];
    return STATUS_OK;
}
