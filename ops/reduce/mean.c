/* Sums and means over dimensions. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/sums_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/reduce/reduce_impl.h"
#include "ops/walk_impl.h"
#include "tensor/threads/threads_impl.h"

static const attr_field_t fields[] = {REDUCE_FIELDS};
static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

/* ---- inference ---- */

static status_t infer_mean(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    dtype_t dtype = call->in[0]->dtype;
    REQUIRE(ctx, dtype_is_floating(dtype), "mean: x is %s, a floating dtype is needed",
            info_brief(call->in[0]));
    return reduce_infer(ctx, call, dtype, out);
}

static status_t infer_sum(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    dtype_t dtype = call->in[0]->dtype;
    return reduce_infer(ctx, call, dtype_is_floating(dtype) ? dtype : DTYPE_S64, out);
}

/* ---- specification ---- */

static double spec_total(const spec_call_t *call, const int64_t *index, int64_t *out_n)
{
    reduce_spec_t spec;
    double sum = 0.0, value = 0.0;
    *out_n = reduce_spec(call, index, &spec);
    while (reduce_spec_next(&spec, &value)) sum += value;
    return sum;
}

static double spec_sum(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    int64_t n = 0;
    return spec_total(call, index, &n);
}

static double spec_mean(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    int64_t n = 0;
    double sum = spec_total(call, index, &n);
    return sum / (double)n;
}

/* ---- mkldnn kernel: the mean over all spatial dimensions is an average pooling ---- */

static bool is_over_space(const op_call_t *call)
{
    const tensor_info_t *x = call->in[0];
    bool gone[TENSOR_MAX_RANK];
    reduce_mark(&((const reduce_attrs_t *)call->attrs)->dims, x->rank, gone);
    if (x->rank < 3 || x->rank > 5) return false;
    for (int d = 0; d < x->rank; d++)
        if (gone[d] != (d >= 2)) return false;
    return true;
}

/* True if the pooled result is contiguous as [images][channels], including padded channels. */
static bool has_rows(const tensor_info_t *pooled)
{
    const format_t *format = &pooled->format;
    int64_t padded[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK], block = 1;
    if (format->n_blocks > 1 || (format->n_blocks == 1 && format->block_dims[0] != 1)) return false;
    if (format->n_blocks == 1) block = format->block_sizes[0];
    format_padded_sizes(format, pooled->sizes, padded);
    format_strides(format, pooled->sizes, strides);
    return (padded[0] == 1 || strides[0] == padded[1]) &&
           (padded[1] == block || strides[1] == block);
}

/* Without keepdim, the result has no padded channels. If the pooled tensor has some, it is computed
 * in scratch memory, and then copied without them. */
static status_t drop_space(const op_call_t *call, prepared_t *prepared, const tensor_info_t *pooled)
{
    TRY(accept_out_plain(call, prepared, 0));
    if (!has_rows(pooled)) return prepared_decline(prepared, "pooling: channels are not in order");
    if (format_is_padded(&pooled->format, pooled->sizes))
        prepared->scratch_bytes = ((prepared->scratch_bytes + 63) & ~(size_t)63) +
                                  info_bytes(pooled);
    return STATUS_OK;
}

static status_t prepare_pooling(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[0];
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "pooling: dtype %s", dtype_name(x->dtype));
    if (call->layout == LAYOUT_DENSE || !is_over_space(call))
        return prepared_decline(prepared, "pooling: for the mean over space of mkldnn only");
    int64_t sizes[TENSOR_MAX_RANK] = {x->sizes[0], x->sizes[1], 1, 1, 1};
    bool keepdim = ((const reduce_attrs_t *)call->attrs)->keepdim;
    tensor_info_t src = *x, dst = info_dense(x->dtype, x->rank, sizes);
    onednn_problem_t problem = {.kind = ONEDNN_POOLING,
                                .algorithm = ONEDNN_POOL_AVERAGE,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst};
    int64_t n_under = 1;
    for (int i = 0; i < x->rank - 2; i++) {
        problem.kernel[i] = x->sizes[2 + i];
        problem.stride[i] = problem.dilation[i] = 1;
        n_under *= x->sizes[2 + i];
    }
    if (n_under > REDUCE_NAIVE_MOST)
        return prepared_decline(prepared, "pooling: it adds %lld elements in one float",
                                (long long)n_under);
    op_call_t pooling = *call; /* out_format may be for a result without spatial dimensions */
    if (!keepdim) pooling.out_format = NULL;
    TRY(choose_formats(ctx, &pooling, prepared, &problem, 0.0));
    if (keepdim) return STATUS_OK;
    tensor_info_t pooled = prepared->out[0];
    return drop_space(call, prepared, &pooled);
}

/* Number of channels in the pooled tensor, including padding. */
static int64_t padded_channels(const prepared_t *prepared)
{
    const tensor_info_t *x = &prepared->in[0];
    int64_t padded[TENSOR_MAX_RANK];
    format_padded_sizes(&x->format, x->sizes, padded);
    return padded[1];
}

static status_t run_pooling(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, void *scratch)
{
    const tensor_info_t *result = &prepared->out[0];
    const int64_t n = prepared->in[0].sizes[0], channels = prepared->in[0].sizes[1];
    const size_t size = dtype_size(result->dtype);
    int64_t padded = padded_channels(prepared);
    bool is_direct = result->rank > 2 || padded == channels;
    size_t own = onednn_scratch_bytes(prepared->primitive);
    char *pooled = is_direct ? out[0] : (char *)scratch + ((own + 63) & ~(size_t)63);
    void *arguments[] = {in[0], pooled};
    TRY(onednn_run(ctx, prepared->primitive, arguments, scratch));
    for (int64_t i = 0; !is_direct && i < n; i++)
        memcpy((char *)out[0] + (size_t)(i * channels) * size, pooled + (size_t)(i * padded) * size,
               (size_t)channels * size);
    return STATUS_OK;
}

static const kernel_t pooling = {.name = "pooling", .prepare = prepare_pooling, .run = run_pooling};

/* ---- mkldnn kernel ----
 *
 * Sum or mean over spatial dimensions, the batch, or both, if blocks of channels are
 * contiguous. */

#define LANES 16

static bool is_by_channels(const op_call_t *call, bool *out_sums_batch)
{
    const tensor_info_t *x = call->in[0];
    bool gone[TENSOR_MAX_RANK];
    reduce_mark(&((const reduce_attrs_t *)call->attrs)->dims, x->rank, gone);
    if (x->rank < 2 || gone[1] || (x->rank == 2 && !gone[0])) return false;
    for (int d = 2; d < x->rank; d++)
        if (!gone[d]) return false;
    *out_sums_batch = gone[0];
    return true;
}

static status_t prepare_channels(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[0];
    const format_t own = info_tag(x);
    const tensor_info_t taken = accept_info(x, call->layout, &own);
    bool sums_batch = false;
    walk_t walk;
    if (call->layout == LAYOUT_DENSE || !is_by_channels(call, &sums_batch))
        return prepared_decline(prepared,
                                "channels: for sums over all but channels of mkldnn only");
    if (!dtype_is_floating(x->dtype) || !walk_channels(&taken, &walk))
        return prepared_decline(prepared, "channels: %s does not lie by channels", info_brief(x));
    TRY(accept_format(call, prepared, 0, &own));
    prepared->cost_ns = cost_run(ctx, "channels", 0.0, (double)info_bytes(&taken));
    if (((const reduce_attrs_t *)call->attrs)->keepdim) return accept_out(call, prepared, 0, &own);
    return accept_out_plain(call, prepared, 0);
}

/* Channels [first, first + n) of one block, at all positions of some images. */
typedef struct lanes {
    const walk_t *walk;
    const tensor_info_t *x;
    const char *bytes;
    int64_t first_image, n_images, block, first, n;
} lanes_t;

static void add_lanes(const lanes_t *lanes, double *out_sums)
{
    const walk_t *walk = lanes->walk;
    const int64_t size = (int64_t)dtype_size(lanes->x->dtype);
    double row[LANES];
    for (int j = 0; j < LANES; j++) out_sums[j] = 0.0;
    for (int64_t i = lanes->first_image; i < lanes->first_image + lanes->n_images; i++) {
        const int64_t image = (i * walk->n_blocks + lanes->block) * walk->spatial * walk->block;
        const char *at = lanes->bytes + (image + lanes->first) * size;
        if (lanes->x->dtype == DTYPE_F32) {
            sums_add_rows((const float *)(const void *)at, walk->spatial, walk->block, lanes->n,
                          out_sums);
            continue;
        }
        for (int64_t s = 0; s < walk->spatial; s++, at += walk->block * size) {
            dtype_cast(lanes->n, lanes->x->dtype, at, 1, DTYPE_F64, row, 1);
            for (int64_t j = 0; j < lanes->n; j++) out_sums[j] += row[j];
        }
    }
}

typedef struct channels {
    const prepared_t *prepared;
    walk_t walk;
    int64_t n_images, n_parts; /* images in a sum; parts of up to LANES channels in a block */
    double divisor;
    const void *x;
    char *out;
} channels_t;

/* Computes parts of the result. With keepdim, the result has the blocks of x, including padded
 * channels; otherwise it is plain. */
static void add_parts(void *user, int64_t begin, int64_t end)
{
    const channels_t *c = user;
    const walk_t *walk = &c->walk;
    const tensor_info_t *result = &c->prepared->out[0];
    const bool keepdim = ((const reduce_attrs_t *)c->prepared->attrs)->keepdim;
    const int64_t width = keepdim ? walk->n_blocks * walk->block : walk->channels;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / c->n_parts / walk->n_blocks, first = i % c->n_parts * LANES;
        const int64_t block = i / c->n_parts % walk->n_blocks;
        const int64_t channel = block * walk->block + first;
        lanes_t lanes = {walk,  &c->prepared->in[0], c->x, image, c->n_images, block,
                         first, walk->block - first};
        double sums[LANES];
        if (lanes.n > LANES) lanes.n = LANES;
        if (!keepdim && lanes.n > walk->channels - channel) lanes.n = walk->channels - channel;
        if (lanes.n <= 0) continue;
        add_lanes(&lanes, sums);
        for (int j = 0; j < LANES; j++) sums[j] /= c->divisor;
        dtype_cast(lanes.n, DTYPE_F64, sums, 1, result->dtype,
                   c->out + (size_t)(image * width + channel) * dtype_size(result->dtype), 1);
    }
}

static status_t add_channels(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, bool is_mean)
{
    const tensor_info_t *x = &prepared->in[0];
    channels_t channels = {.prepared = prepared, .x = in[0], .out = out[0]};
    walk_t *walk = &channels.walk;
    bool gone[TENSOR_MAX_RANK];
    reduce_mark(&((const reduce_attrs_t *)prepared->attrs)->dims, x->rank, gone);
    walk_channels(x, walk);
    const int64_t n_sums = gone[0] ? 1 : walk->n;
    channels.n_images = gone[0] ? walk->n : 1;
    channels.n_parts = (walk->block + LANES - 1) / LANES;
    channels.divisor = is_mean ? (double)(channels.n_images * walk->spatial) : 1.0;
    threads_share(threads_for(ctx, walk_elements(x)), n_sums * walk->n_blocks * channels.n_parts,
                  add_parts, &channels);
    return STATUS_OK;
}

static status_t run_channels_sum(context_t *ctx, const prepared_t *prepared, void *const *in,
                                 void *const *out, void *scratch)
{
    (void)scratch;
    return add_channels(ctx, prepared, in, out, false);
}

static status_t run_channels_mean(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    (void)scratch;
    return add_channels(ctx, prepared, in, out, true);
}

static const kernel_t channels_sum = {.name = "channels",
                                      .prepare = prepare_channels,
                                      .run = run_channels_sum,
                                      .flags = KERNEL_NEEDS_ELEMENTS};
static const kernel_t channels_mean = {.name = "channels",
                                       .prepare = prepare_channels,
                                       .run = run_channels_mean,
                                       .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- dense kernel ---- */

static double add_run(dtype_t dtype, const char *x, int64_t n, int64_t stride)
{
    double sum = 0.0;
    if (dtype == DTYPE_F32) {
        const float *from = (const float *)(const void *)x;
        for (int64_t i = 0; i < n; i++) sum += (double)from[i * stride];
        return sum;
    }
    const int64_t step = stride * (int64_t)dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) sum += dtype_load(dtype, x + i * step);
    return sum;
}

static int64_t add_integers(dtype_t dtype, const char *x, int64_t n, int64_t stride)
{
    uint64_t sum = 0;
    const int64_t step = stride * (int64_t)dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) sum += (uint64_t)dtype_load_integer(dtype, x + i * step);
    return (int64_t)sum;
}

/* Computes one element of the result: sums the elements along the innermost dimension for each
 * index of the others. */
static void add_all(const tensor_info_t *x, const reduce_loops_t *loops, const char *from,
                    double *out_sum, int64_t *out_integer)
{
    const int64_t size = (int64_t)dtype_size(x->dtype);
    int64_t run = loops->n > 0 ? loops->sizes[loops->n - 1] : 1;
    int64_t stride = loops->n > 0 ? loops->strides[loops->n - 1] : 1;
    int64_t n_runs = loops->total == 0 ? 0 : loops->total / run;
    uint64_t integer = 0;
    double sum = 0.0;
    for (int64_t r = 0; r < n_runs; r++) {
        const char *at = from + reduce_offset(loops, loops->n - 1, r) * size;
        if (dtype_is_floating(x->dtype))
            sum += add_run(x->dtype, at, run, stride);
        else
            integer += (uint64_t)add_integers(x->dtype, at, run, stride);
    }
    *out_sum = sum;
    *out_integer = (int64_t)integer;
}

typedef struct results {
    const prepared_t *prepared;
    reduce_loops_t kept, inner;
    bool is_mean;
    const char *x;
    char *out;
} results_t;

static void add_results(void *user, int64_t first, int64_t last)
{
    const results_t *r = user;
    const tensor_info_t *x = &r->prepared->in[0];
    const dtype_t dtype = r->prepared->out[0].dtype;
    for (int64_t i = first; i < last; i++) {
        const int64_t from = reduce_offset(&r->kept, r->kept.n, i) * (int64_t)dtype_size(x->dtype);
        char *to = r->out + (size_t)i * dtype_size(dtype);
        double sum = 0.0;
        int64_t integer = 0;
        add_all(x, &r->inner, r->x + from, &sum, &integer);
        if (dtype == DTYPE_S64)
            dtype_store_integer(DTYPE_S64, to, integer);
        else
            dtype_store(dtype, to, r->is_mean ? sum / (double)r->inner.total : sum);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, bool is_mean)
{
    results_t results = {.prepared = prepared, .is_mean = is_mean, .x = in[0], .out = out[0]};
    reduce_split(prepared, &results.kept, &results.inner);
    threads_share(threads_for(ctx, results.kept.total * results.inner.total), results.kept.total,
                  add_results, &results);
    return STATUS_OK;
}

static status_t run_mean(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    (void)scratch;
    return run_native(ctx, prepared, in, out, true);
}

static status_t run_sum(context_t *ctx, const prepared_t *prepared, void *const *in,
                        void *const *out, void *scratch)
{
    (void)scratch;
    return run_native(ctx, prepared, in, out, false);
}

static const kernel_t native_mean = {.name = "native", .prepare = reduce_prepare, .run = run_mean};
static const kernel_t native_sum = {.name = "native", .prepare = reduce_prepare, .run = run_sum};
static const kernel_t *const mean_kernels[] = {&pooling, &channels_mean, &native_mean, NULL};
static const kernel_t *const sum_kernels[] = {&channels_sum, &native_sum, NULL};

/* ---- gradients ---- */

static void pass_sum(const gradient_call_t *call)
{
    const reduce_attrs_t *attrs = call->attrs;
    call->in_grad[0] = emit_repeat(call->emitter, call->out_grad[0], &attrs->dims, call->in[0]);
}

/* Divides grad before repeating its elements, because it has fewer elements then. */
static void pass_mean(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const int64_t n = info_numel(emit_info(e, call->in[0])),
                  n_out = info_numel(emit_info(e, call->out[0]));
    value_t grad = call->out_grad[0];
    if (n > 0) grad = emit_mul(e, grad, (double)n_out / (double)n);
    call->in_grad[0] = emit_repeat(e, grad, &((const reduce_attrs_t *)call->attrs)->dims,
                                   call->in[0]);
}

static const gradient_t gradient_sum = {.pass = pass_sum};
static const gradient_t gradient_mean = {.pass = pass_mean};

/* ---- definitions ---- */

#define DEFINE(op)                                                                                 \
    const opdef_t op_def_##op = {.name = #op,                                                      \
                                 .preference = OP_FOLLOWS,                                         \
                                 .attrs = {sizeof(reduce_attrs_t), 2, fields},                     \
                                 OPERANDS(operands),                                               \
                                 .n_outputs = 1,                                                   \
                                 .infer = infer_##op,                                              \
                                 .infers_symbols = true,                                           \
                                 .kernels = op##_kernels,                                          \
                                 .spec = spec_##op,                                                \
                                 .gradient = &gradient_##op}

DEFINE(mean);
DEFINE(sum);

/* ---- public ---- */

status_t op_mean(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                 tensor_t **out)
{
    return reduce_call(ctx, &op_def_mean, x, n, dims, (reduce_attrs_t){.keepdim = keepdim}, out);
}

status_t op_sum(context_t *ctx, const tensor_t *x, int n, const int64_t *dims, bool keepdim,
                tensor_t **out)
{
    return reduce_call(ctx, &op_def_sum, x, n, dims, (reduce_attrs_t){.keepdim = keepdim}, out);
}
