/* Group norm: statistics of the channels of each group, in whatever blocks the channels lie. */
#include <math.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/moments_impl.h"
#include "ops/ops_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int64_t num_groups;
    double epsilon;
} attrs_t;

static const attr_field_t fields[] = {
    {"num_groups", ATTR_INT, false, offsetof(attrs_t, num_groups), 0, 1, NULL},
    {"epsilon", ATTR_FLOAT, false, offsetof(attrs_t, epsilon), 0, 1e-5, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_BIAS, true, false},
                                     {"bias", ROLE_BIAS, true, false}};
enum { X, WEIGHT, BIAS };

/* ---- inference ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    REQUIRE(ctx, x->rank >= 2 && dtype_is_floating(x->dtype),
            "group_norm: x is %s, a floating type of rank 2 or more is needed", info_brief(x));
    REQUIRE(ctx, attrs->num_groups >= 1 && x->sizes[1] % attrs->num_groups == 0,
            "group_norm: num_groups=%lld, input %s needs a divisor of %lld",
            (long long)attrs->num_groups, info_brief(x), (long long)x->sizes[1]);
    for (int i = WEIGHT; i <= BIAS; i++) {
        const tensor_info_t *info = call->in[i];
        if (!call_has(call, i)) continue;
        REQUIRE(ctx,
                info->rank == 1 && info->sizes[0] == x->sizes[1] && dtype_is_floating(info->dtype),
                "group_norm: %s is %s, input %s needs floating [%lld]", operands[i].name,
                info_brief(info), info_brief(x), (long long)x->sizes[1]);
    }
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

/* Sum over the group of channel index[1] of x - mean, or of its square. */
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

static double spec(const spec_call_t *call, int output, const int64_t *index)
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

/* ---- kernel: sums of each channel become those of its group, twice; then a scale and a shift for
 * each channel, 0 and 0 for padded ones ---- */

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    walk_t walk = {0};
    TRY(walk_follow(call, prepared, true));
    for (int i = WEIGHT; i < call->n_in; i++)
        if (call_has(call, i))
            prepared->in[i] = info_dense(call->in[i]->dtype, call->in[i]->rank, call->in[i]->sizes);
    if (walk_channels(&prepared->in[X], &walk))
        prepared->scratch_bytes = (size_t)(walk.n * walk.n_blocks * walk.block) * 4 *
                                  sizeof(double);
    prepared->overwrites = 1u << X;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* [n][channels], padded ones too. */
typedef struct work {
    const prepared_t *prepared;
    void *const *in;
    walk_t walk;
    int64_t padded; /* channels of one n */
    double *means, *sums, *scale, *shift;
} work_t;

static void add_channels(const work_t *work, int n_threads, moment_t moment)
{
    const walk_t *walk = &work->walk;
    const dtype_t dtype = work->prepared->in[X].dtype;
    const int64_t n = walk->spatial * walk->block;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < walk->n * walk->n_blocks; i++) {
        const char *src = (const char *)work->in[X] + i * n * (int64_t)dtype_size(dtype);
        if (walk->block == 1)
            work->sums[i] = moments_line(dtype, n, src, moment, work->means[i]);
        else
            moments_columns(dtype, walk->spatial, walk->block, src, moment,
                            &work->means[i * walk->block], &work->sums[i * walk->block]);
    }
}

/* The mean over each group of what was added, for each of its channels. */
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

static double element(const work_t *work, int operand, int64_t index, double absent)
{
    if (work->in[operand] == NULL) return absent;
    const dtype_t dtype = work->prepared->in[operand].dtype;
    return dtype_load(dtype, (const char *)work->in[operand] + index * (int64_t)dtype_size(dtype));
}

/* Variances are in sums; scale and shift are f32 for f32, else f64. */
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

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    work_t work = {.prepared = prepared, .in = in};
    const dtype_t dtype = prepared->in[X].dtype;
    if (info_numel(&prepared->in[X]) == 0) return STATUS_OK;
    walk_channels(&prepared->in[X], &work.walk);
    work.padded = work.walk.n_blocks * work.walk.block;
    const int64_t n = work.walk.n * work.padded;
    work.means = scratch;
    work.sums = work.means + n;
    work.scale = work.sums + n;
    work.shift = work.scale + n;
    for (int64_t i = 0; i < n; i++) work.means[i] = 0.0;
    const int n_threads = threads_for(ctx, walk_elements(&prepared->in[X]));
    add_channels(&work, n_threads, MOMENT_SUM);
    average_groups(&work, work.means);
    add_channels(&work, n_threads, MOMENT_SQUARES);
    average_groups(&work, work.sums);
    make_factors(&work);
    const int64_t size = (int64_t)dtype_size(dtype), n_pieces = walk_pieces(&work.walk);
    const int64_t factor = dtype == DTYPE_F32 ? sizeof(float) : sizeof(double);
    const int64_t image = work.walk.n_blocks * work.walk.spatial * work.walk.block;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n_pieces; i++) {
        walk_piece_t piece = walk_piece(&work.walk, i);
        int64_t at = (piece.offset / image * work.padded + piece.channel) * factor;
        moments_apply(&piece, work.walk.block == 1, dtype, (const char *)work.scale + at,
                      (const char *)work.shift + at, (const char *)in[X] + piece.offset * size,
                      (char *)out[0] + piece.offset * size);
    }
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare, .run = run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- cases ---- */

static const char *const cases[] = {"(f32[2,6,7,5], f32[6], f32[6]) num_groups=3",
                                    "(f32[2,32,6,6], f32[32], f32[32]) num_groups=2",
                                    "(f32[2,34,5,3], f32[34], f32[34]) num_groups=17",
                                    "(f32[2,256,6,6], f32[256], f32[256]) num_groups=64",
                                    "(f32[1,17,9,9], f32[17], none) num_groups=17 epsilon=0.001",
                                    "(f32[2,7,4,4], none, f32[7]) num_groups=1",
                                    "(f32[3,31,4], none, none) num_groups=31",
                                    "(f32[5,12], f32[12], f32[12]) num_groups=4",
                                    "(f32[1,16,3,4,5], f32[16], f32[16]) num_groups=4",
                                    "(f32[1,4,24,24], f32[4], f32[4]) num_groups=2",
                                    "(f32[1,4,2,3,2,3], f32[4], f32[4]) num_groups=2",
                                    "(bf16[2,18,5,5], f32[18], f32[18]) num_groups=2",
                                    "(f16[2,3,5,5], f16[3], f16[3]) num_groups=3",
                                    "(f64[2,8,3,3], f64[8], f32[8]) num_groups=4",
                                    "(f32[0,4,3,3], f32[4], f32[4]) num_groups=2",
                                    "(f32[2,4,0], f32[4], f32[4]) num_groups=2",
                                    NULL};

/* ---- definition ---- */

const opdef_t op_def_group_norm = {.name = "group_norm",
                                   .preference = OP_FOLLOWS,
                                   .attrs = {sizeof(attrs_t), 2, fields},
                                   .n_operands = 3,
                                   .operands = operands,
                                   .n_outputs = 1,
                                   .infer = infer,
                                   .kernels = kernels,
                                   .spec = spec,
                                   .cases = cases};

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
