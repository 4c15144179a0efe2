/* Group norm and its gradients. Sums are computed per channel, then combined per group. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/norm/group_gradient_impl.h"
#include "kernels/norm/moments_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int64_t num_groups;
    double epsilon;
} attrs_t;

static const attr_field_t fields[] = {FIELD_INT(attrs_t, num_groups, 1),
                                      FIELD_FLOAT(attrs_t, epsilon, 1e-5)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_BIAS, true, false},
                                     {"bias", ROLE_BIAS, true, false}};
static const operand_t backward_operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                              {"weight", ROLE_BIAS, true, false},
                                              {"grad", ROLE_ACTIVATION, false, false}};
enum { X, WEIGHT, BIAS, GRAD = BIAS };
enum { OF_X, OF_WEIGHT, OF_BIAS, N_OF };

/* ---- inference ---- */

/* Checks x, num_groups, weight and bias. */
static status_t check(context_t *ctx, const op_call_t *call, int n_channelwise)
{
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const char *op = call->op->name;
    REQUIRE(ctx, x->rank >= 2 && dtype_is_floating(x->dtype),
            "%s: x is %s, a floating type of rank 2 or more is needed", op, info_brief(x));
    REQUIRE(ctx,
            sym_at_most(ctx, 1, attrs->num_groups) &&
                sym_divides(ctx, attrs->num_groups, x->sizes[1]),
            "%s: num_groups=%lld, input %s needs a divisor of %lld", op,
            (long long)attrs->num_groups, info_brief(x), (long long)x->sizes[1]);
    for (int i = WEIGHT; i < WEIGHT + n_channelwise; i++) {
        const tensor_info_t *info = call->in[i];
        if (!call_has(call, i)) continue;
        REQUIRE(ctx,
                info->rank == 1 && sym_equal(ctx, info->sizes[0], x->sizes[1]) &&
                    dtype_is_floating(info->dtype),
                "%s: %s is %s, input %s needs floating [%lld]", op, operands[i].name,
                info_brief(info), info_brief(x), (long long)x->sizes[1]);
    }
    return STATUS_OK;
}

static status_t group_norm_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                 tensor_info_t *out)
{
    (void)out_n;
    TRY(check(ctx, call, 2));
    out[0] = info_dense(call->in[X]->dtype, call->in[X]->rank, call->in[X]->sizes);
    return STATUS_OK;
}

/* The gradients of weight and bias are sums over many elements, so they are at least f32. */
static status_t group_norm_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                          tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *grad = call->in[GRAD];
    TRY(check(ctx, call, 1));
    REQUIRE(ctx, sizes_are_like(ctx, grad, x), "%s: grad is %s, x is %s, equal ones are needed",
            call->op->name, info_brief(grad), info_brief(x));
    out[OF_X] = info_dense(x->dtype, x->rank, x->sizes);
    out[OF_WEIGHT] = info_dense(x->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32, 1, &x->sizes[1]);
    out[OF_BIAS] = out[OF_WEIGHT];
    return STATUS_OK;
}

/* ---- specification ---- */

/* Sum of x - mean, or of its square, over the group of channel index[1] in image index[0]. Sets
 * *out_n to the number of elements. */
static double spec_sum(const spec_call_t *call, const int64_t *index, double mean, bool squares,
                       int64_t *out_n)
{
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const int64_t channels = x->sizes[1] / attrs->num_groups;
    int64_t at[TENSOR_MAX_RANK] = {index[0]};
    double sum = 0.0;
    *out_n = 0;
    for (int64_t c = 0; c < channels; c++) {
        at[1] = index[1] / channels * channels + c;
        do {
            double difference = spec_at(call, X, at) - mean;
            sum += squares ? difference * difference : difference;
            ++*out_n;
        } while (shape_next(x->rank - 2, &x->sizes[2], &at[2]));
    }
    return sum;
}

static double group_norm_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    int64_t n = 0;
    double mean = spec_sum(call, index, 0.0, false, &n);
    mean /= (double)n;
    double variance = spec_sum(call, index, mean, true, &n) / (double)n;
    double value = (spec_at(call, X, index) - mean) /
                   sqrt(variance + ((const attrs_t *)call->attrs)->epsilon);
    if (spec_has(call, WEIGHT)) value *= spec_at(call, WEIGHT, &index[1]);
    return spec_has(call, BIAS) ? value + spec_at(call, BIAS, &index[1]) : value;
}

/* Statistics of one group. v is grad weight, h is (x - mean) / deviation, and deviation is
 * sqrt(variance + epsilon). */
typedef struct spec_group {
    double mean, deviation, mean_v, mean_vh;
} spec_group_t;

static double spec_v(const spec_call_t *call, const int64_t *at)
{
    const double grad = spec_at(call, GRAD, at);
    return spec_has(call, WEIGHT) ? grad * spec_at(call, WEIGHT, &at[1]) : grad;
}

static spec_group_t spec_numbers(const spec_call_t *call, const int64_t *index)
{
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const int64_t channels = x->sizes[1] / attrs->num_groups;
    int64_t at[TENSOR_MAX_RANK] = {index[0]}, n = 0;
    spec_group_t group = {0};
    group.mean = spec_sum(call, index, 0.0, false, &n) / (double)n;
    group.deviation = sqrt(spec_sum(call, index, group.mean, true, &n) / (double)n +
                           attrs->epsilon);
    for (int64_t c = 0; c < channels; c++) {
        at[1] = index[1] / channels * channels + c;
        do {
            double v = spec_v(call, at) / (double)n;
            group.mean_v += v;
            group.mean_vh += v * (spec_at(call, X, at) - group.mean) / group.deviation;
        } while (shape_next(x->rank - 2, &x->sizes[2], &at[2]));
    }
    return group;
}

static double group_norm_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK] = {0};
    double sum = 0.0;
    if (output == OF_X) {
        const spec_group_t group = spec_numbers(call, index);
        const double h = (spec_at(call, X, index) - group.mean) / group.deviation;
        return (spec_v(call, index) - group.mean_v - h * group.mean_vh) / group.deviation;
    }
    if (info_numel(x) == 0) return 0.0;
    at[1] = index[0];
    for (at[0] = 0; at[0] < x->sizes[0]; at[0]++) {
        const spec_group_t group = spec_numbers(call, at);
        do {
            double h = (spec_at(call, X, at) - group.mean) / group.deviation;
            sum += spec_at(call, GRAD, at) * (output == OF_WEIGHT ? h : 1.0);
        } while (shape_next(x->rank - 2, &x->sizes[2], &at[2]));
    }
    return sum;
}

/* ---- kernel ----
 *
 * Sums each channel and combines the sums into means of groups; computes variances in the same way;
 * then computes x * scale[c] + shift[c], both 0 for padded channels. */

static status_t group_norm_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    walk_t walk = {0};
    TRY(walk_follow(call, prepared, true));
    accept_contiguous(call, prepared, WEIGHT, call->n_in - 1);
    if (walk_channels(&prepared->in[X], &walk))
        prepared->scratch_bytes = (size_t)(walk.n * walk.n_blocks * walk.block) * 4 *
                                  sizeof(double);
    prepared->overwrites = 1u << X;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* The arrays have one element per channel of each image, including padding: [n][padded]. */
typedef struct work {
    const prepared_t *prepared;
    void *const *in;
    walk_t walk;
    int64_t padded; /* channels of one image */
    double *means, *sums, *scale, *shift;
} work_t;

typedef struct channel_sums {
    const work_t *work;
    moment_t moment;
} channel_sums_t;

static void sum_channel_blocks(void *user, int64_t first, int64_t last)
{
    const channel_sums_t *s = user;
    const work_t *work = s->work;
    const walk_t *walk = &work->walk;
    const dtype_t dtype = work->prepared->in[X].dtype;
    const int64_t bytes = walk->spatial * walk->block * (int64_t)dtype_size(dtype);
    for (int64_t i = first; i < last; i++) {
        const char *src = (const char *)work->in[X] + i * bytes;
        if (walk->block == 1)
            work->sums[i] = moments_line(isa_best(), dtype, walk->spatial, src, s->moment,
                                         work->means[i]);
        else
            moments_columns(isa_best(), dtype, walk->spatial, walk->block, src, s->moment,
                            &work->means[i * walk->block], &work->sums[i * walk->block]);
    }
}

static void add_channels(const work_t *work, int n_threads, moment_t moment)
{
    channel_sums_t sums = {work, moment};
    threads_share(n_threads, work->walk.n * work->walk.n_blocks, sum_channel_blocks, &sums);
}

/* Averages the channel sums over each group, and stores the mean for each channel of the group. */
static void average_groups(const work_t *work, double *out)
{
    const walk_t *walk = &work->walk;
    const int64_t n_groups = ((const attrs_t *)work->prepared->attrs)->num_groups;
    const int64_t channels = walk->channels / n_groups;
    for (int64_t i = 0; i < walk->n * n_groups; i++) {
        int64_t first = i / n_groups * work->padded + i % n_groups * channels;
        double sum = 0.0;
        for (int64_t c = first; c < first + channels; c++) sum += work->sums[c];
        for (int64_t c = first; c < first + channels; c++)
            out[c] = sum / (double)(channels * walk->spatial);
    }
}

/* Computes the mean of each group into work->means, then its variance into work->sums. */
static void add_moments(const work_t *work, int n_threads)
{
    for (int64_t i = 0; i < work->walk.n * work->padded; i++) work->means[i] = 0.0;
    add_channels(work, n_threads, MOMENT_SUM);
    average_groups(work, work->means);
    add_channels(work, n_threads, MOMENT_SQUARES);
    average_groups(work, work->sums);
}

static double element(const work_t *work, int operand, int64_t index, double absent)
{
    if (work->in[operand] == NULL) return absent;
    const dtype_t dtype = work->prepared->in[operand].dtype;
    return dtype_load(dtype, (const char *)work->in[operand] + index * (int64_t)dtype_size(dtype));
}

/* Computes scale and shift; work->sums has the variances. Both are f32 if x is f32, else f64. */
static void make_factors(const work_t *work)
{
    const attrs_t *attrs = work->prepared->attrs;
    const bool is_f32 = work->prepared->in[X].dtype == DTYPE_F32;
    for (int64_t i = 0; i < work->walk.n * work->padded; i++) {
        const int64_t c = i % work->padded;
        double scale = 0.0, shift = 0.0;
        if (c < work->walk.channels) {
            scale = element(work, WEIGHT, c, 1.0) / sqrt(work->sums[i] + attrs->epsilon);
            shift = element(work, BIAS, c, 0.0) - work->means[i] * scale;
        }
        if (is_f32) {
            ((float *)(void *)work->scale)[i] = (float)scale;
            ((float *)(void *)work->shift)[i] = (float)shift;
        } else {
            work->scale[i] = scale;
            work->shift[i] = shift;
        }
    }
}

typedef struct pieces {
    const work_t *work;
    char *out;
} pieces_t;

static void apply_pieces(void *user, int64_t first, int64_t last)
{
    const pieces_t *pieces = user;
    const work_t *work = pieces->work;
    const walk_t *walk = &work->walk;
    const dtype_t dtype = work->prepared->in[X].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    const int64_t factor = dtype == DTYPE_F32 ? sizeof(float) : sizeof(double);
    const int64_t image = walk->n_blocks * walk->spatial * walk->block;
    for (int64_t i = first; i < last; i++) {
        const walk_piece_t piece = walk_piece(walk, i);
        const int64_t at = (piece.offset / image * work->padded + piece.channel) * factor;
        moments_apply(isa_best(), dtype, piece.rows, piece.width, walk->block == 1,
                      (const char *)work->scale + at, (const char *)work->shift + at,
                      (const char *)work->in[X] + piece.offset * size,
                      pieces->out + piece.offset * size);
    }
}

static status_t group_norm_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                               void *const *out, void *scratch)
{
    work_t work = {.prepared = prepared, .in = in};
    if (info_numel(&prepared->in[X]) == 0) return STATUS_OK;
    walk_channels(&prepared->in[X], &work.walk);
    work.padded = work.walk.n_blocks * work.walk.block;
    const int64_t n = work.walk.n * work.padded;
    work.means = scratch;
    work.sums = work.means + n;
    work.scale = work.sums + n;
    work.shift = work.scale + n;
    const int n_threads = threads_for(ctx, walk_elements(&prepared->in[X]));
    add_moments(&work, n_threads);
    make_factors(&work);
    pieces_t pieces = {&work, out[0]};
    threads_share(n_threads, walk_pieces(&work.walk), apply_pieces, &pieces);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = group_norm_prepare, .run = group_norm_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- gradients ----
 *
 * With v = grad weight, h = (x - mean) / deviation, and means over the group:
 *
 *   dx = (v - mean(v) - h mean(v h)) / deviation
 *
 * The kernel sums grad and grad (x - mean) per channel and combines the sums per group. Then dx =
 * grad of_grad + (x - mean) of_x + shift, with factors per channel. */

static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    const format_t plain = format_plain(1);
    walk_t walk = {0};
    TRY(walk_follow(call, prepared, true));
    const format_t own = info_tag(&prepared->in[X]);
    TRY(accept_format(call, prepared, GRAD, &own));
    if (call_has(call, WEIGHT))
        prepared->in[WEIGHT] = info_dense(weight->dtype, weight->rank, weight->sizes);
    for (int i = OF_WEIGHT; i < N_OF; i++)
        prepared->out[i] = accept_info(&call->out[i], call->layout, &plain);
    if (walk_channels(&prepared->in[X], &walk))
        prepared->scratch_bytes = (size_t)(walk.n * walk.n_blocks * walk.block) * 8 *
                                  sizeof(double);
    prepared->overwrites = 1u << X | 1u << GRAD;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 7.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* Arrays are [n][padded], as in work_t. `products` are sums of grad (x - mean). Factors are f32 if
 * x is f32, else f64. */
typedef struct backward {
    work_t work;
    double *sums, *products;
    char *factors[GROUP_FACTORS];
} backward_t;

static void add_blocks(void *user, int64_t first, int64_t last)
{
    const backward_t *backward = user;
    const work_t *work = &backward->work;
    const walk_t *walk = &work->walk;
    const dtype_t dtype = work->prepared->in[X].dtype;
    const int64_t bytes = walk->spatial * walk->block * (int64_t)dtype_size(dtype);
    for (int64_t i = first; i < last; i++) {
        const int64_t c = i * walk->block;
        group_gradient_sums(isa_best(), dtype, walk->spatial, walk->block,
                            (const char *)work->in[X] + i * bytes,
                            (const char *)work->in[GRAD] + i * bytes, work->means + c,
                            backward->sums + c, backward->products + c);
    }
}

static void add_products(backward_t *backward, int n_threads)
{
    const walk_t *walk = &backward->work.walk;
    threads_share(n_threads, walk->n * walk->n_blocks, add_blocks, backward);
}

static void store_factor(dtype_t dtype, char *factors, int64_t index, double value)
{
    const dtype_t compute = dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F64;
    dtype_store(compute, factors + index * (int64_t)dtype_size(compute), value);
}

/* Computes the factors of one group of one image; work.sums has the variances. For f32, the
 * products were computed with the mean rounded to f32; `lost`, the rounding error, corrects
 * them. */
static void make_group(const backward_t *backward, int64_t first, int64_t channels)
{
    const work_t *work = &backward->work;
    const attrs_t *attrs = work->prepared->attrs;
    const dtype_t dtype = work->prepared->in[X].dtype;
    const double n = (double)(channels * work->walk.spatial);
    const double scale = 1.0 / sqrt(work->sums[first] + attrs->epsilon);
    const double mean = work->means[first];
    const double lost = dtype == DTYPE_F32 ? (double)(float)mean - mean : 0.0;
    double mean_v = 0.0, mean_vh = 0.0;
    for (int64_t i = first; i < first + channels; i++) {
        const double weight = element(work, WEIGHT, i % work->padded, 1.0);
        backward->products[i] += backward->sums[i] * lost;
        mean_v += weight * backward->sums[i] / n;
        mean_vh += weight * backward->products[i] * scale / n;
    }
    for (int64_t i = first; i < first + channels; i++) {
        const double weight = element(work, WEIGHT, i % work->padded, 1.0);
        const double factors[GROUP_FACTORS] = {[GROUP_OF_GRAD] = weight * scale,
                                               [GROUP_OF_X] = -scale * scale * mean_vh,
                                               [GROUP_SHIFT] = -scale *
                                                               (mean_v + scale * mean_vh * lost),
                                               [GROUP_MEAN] = mean};
        for (int k = 0; k < GROUP_FACTORS; k++)
            store_factor(dtype, backward->factors[k], i, factors[k]);
        backward->products[i] *= scale;
    }
}

/* Computes the factors of all groups, and the gradients of weight and bias: sums over the batch. */
static void make_gradients(const backward_t *backward, void *const *out)
{
    const work_t *work = &backward->work;
    const walk_t *walk = &work->walk;
    const dtype_t of_weight = work->prepared->out[OF_WEIGHT].dtype;
    const int64_t n_groups = ((const attrs_t *)work->prepared->attrs)->num_groups;
    const int64_t channels = walk->channels / n_groups, size = (int64_t)dtype_size(of_weight);
    memset(backward->factors[0], 0,
           (size_t)(GROUP_FACTORS * walk->n * work->padded) * sizeof(double));
    for (int64_t i = 0; i < walk->n * n_groups; i++)
        make_group(backward, i / n_groups * work->padded + i % n_groups * channels, channels);
    for (int64_t c = 0; c < walk->channels; c++) {
        double sum = 0.0, product = 0.0;
        for (int64_t n = 0; n < walk->n; n++) {
            sum += backward->sums[n * work->padded + c];
            product += backward->products[n * work->padded + c];
        }
        dtype_store(of_weight, (char *)out[OF_WEIGHT] + c * size, product);
        dtype_store(of_weight, (char *)out[OF_BIAS] + c * size, sum);
    }
}

typedef struct gradient_pieces {
    const backward_t *backward;
    char *out;
} gradient_pieces_t;

static void pass_pieces(void *user, int64_t first, int64_t last)
{
    const gradient_pieces_t *pieces = user;
    const work_t *work = &pieces->backward->work;
    const dtype_t dtype = work->prepared->in[X].dtype;
    const int64_t size = (int64_t)dtype_size(dtype);
    const int64_t factor = dtype == DTYPE_F32 ? sizeof(float) : sizeof(double);
    const int64_t image = work->walk.n_blocks * work->walk.spatial * work->walk.block;
    for (int64_t i = first; i < last; i++) {
        const walk_piece_t piece = walk_piece(&work->walk, i);
        const int64_t at = piece.offset / image * work->padded + piece.channel;
        const void *factors[GROUP_FACTORS];
        for (int k = 0; k < GROUP_FACTORS; k++)
            factors[k] = pieces->backward->factors[k] + at * factor;
        group_gradient_apply(isa_best(), dtype, piece.rows, piece.width, work->walk.block == 1,
                             factors, (const char *)work->in[X] + piece.offset * size,
                             (const char *)work->in[GRAD] + piece.offset * size,
                             pieces->out + piece.offset * size);
    }
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    backward_t backward = {.work = {.prepared = prepared, .in = in}};
    work_t *work = &backward.work;
    if (info_numel(&prepared->in[X]) == 0) {
        for (int i = OF_WEIGHT; i < N_OF; i++) memset(out[i], 0, info_bytes(&prepared->out[i]));
        return STATUS_OK;
    }
    walk_channels(&prepared->in[X], &work->walk);
    work->padded = work->walk.n_blocks * work->walk.block;
    const int64_t n = work->walk.n * work->padded, bytes = n * (int64_t)sizeof(double);
    work->means = scratch;
    work->sums = work->means + n;
    backward.sums = work->sums + n;
    backward.products = backward.sums + n;
    for (int k = 0; k < GROUP_FACTORS; k++)
        backward.factors[k] = (char *)(backward.products + n) + k * bytes;
    const int n_threads = threads_for(ctx, walk_elements(&prepared->in[X]));
    add_moments(work, n_threads);
    add_products(&backward, n_threads);
    make_gradients(&backward, out);
    gradient_pieces_t pieces = {&backward, out[OF_X]};
    threads_share(n_threads, walk_pieces(&work->walk), pass_pieces, &pieces);
    return STATUS_OK;
}

/* ---- gradient rule ---- */

static void group_norm_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t in[] = {call->in[X], call->in[WEIGHT], call->out_grad[0]};
    value_t out[N_OF] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    emit_op_n(e, &op_def_group_norm_backward, call->attrs, 3, in, N_OF, out);
    call->in_grad[X] = out[OF_X];
    for (int i = WEIGHT; i <= BIAS; i++)
        if (call->in[i] != VALUE_NONE)
            call->in_grad[i] = emit_cast(e, out[i], emit_info(e, call->in[i])->dtype);
}

/* ---- definitions ---- */

const opdef_t op_def_group_norm = {
    .name = "group_norm",
    FUNCTIONS_OF(group_norm),
    .preference = OP_FOLLOWS,
    .attrs = {sizeof(attrs_t), 2, fields},
    OPERANDS(operands),
    .kernels = kernels,
    .gradient = GRADIENT(.pass = group_norm_pass, .reads_in = 1u << X | 1u << WEIGHT)};

const opdef_t op_def_group_norm_backward = {
    .name = "group_norm_backward",
    .preference = OP_FOLLOWS,
    .attrs = {sizeof(attrs_t), 2, fields},
    OPERANDS(backward_operands),
    .n_outputs = N_OF,
    .infer = group_norm_backward_infer,
    .infers_symbols = true,
    .kernels = KERNELS(KERNEL("native", prepare_backward, run_backward)),
    .spec = group_norm_backward_spec};

/* ---- public ---- */

status_t op_group_norm(context_t *ctx, const tensor_t *x, int64_t num_groups,
                       const tensor_t *weight, const tensor_t *bias, double epsilon, tensor_t **out)
{
    const tensor_t *in[] = {x, weight, bias};
    attrs_t attrs = {num_groups, epsilon};
    return dispatch_run(ctx, &op_def_group_norm, &attrs, 3, in, NULL, out);
}

status_t op_instance_norm(context_t *ctx, const tensor_t *x, const tensor_t *weight,
                          const tensor_t *bias, double epsilon, tensor_t **out)
{
    const bool has_channels = x != NULL && tensor_rank(x) > 1;
    return op_group_norm(ctx, x, has_channels ? tensor_sizes(x)[1] : 1, weight, bias, epsilon, out);
}
