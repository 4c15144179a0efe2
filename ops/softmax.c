/* Softmax and its logarithm over one dimension. */
#include <math.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "ops/walk_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int64_t dim;
} attrs_t;

static const attr_field_t fields[] = {
    {"dim", ATTR_INT, false, offsetof(attrs_t, dim), 0, -1, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

static bool is_log(const opdef_t *op)
{
    return op == &op_def_log_softmax;
}

/* The dimension counted from the front; `infer` has seen that there is one. */
static int dim_of(const void *attrs, int rank)
{
    int dim = 0;
    shape_dim(rank, ((const attrs_t *)attrs)->dim, &dim);
    return dim;
}

/* ---- inference ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, attrs->dim, &dim),
            "%s: dim=%lld, input %s has no such dimension", call->op->name, (long long)attrs->dim,
            info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed",
            call->op->name, info_brief(x));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK] = {0};
    int dim = dim_of(call->attrs, x->rank);
    int64_t n = x->rank > 0 ? x->sizes[dim] : 1;
    double largest = -INFINITY, sum = 0.0;
    for (int d = 0; d < x->rank; d++) at[d] = index[d];
    for (at[dim] = 0; at[dim] < n; at[dim]++) {
        double value = spec_at(call, X, at);
        if (value > largest || isnan(value)) largest = value;
    }
    for (at[dim] = 0; at[dim] < n; at[dim]++) sum += exp(spec_at(call, X, at) - largest);
    double difference = spec_at(call, X, index) - largest;
    return is_log(call->op) ? difference - log(sum) : exp(difference) / sum;
}

/* ---- kernel on oneDNN: no reference where the dimension is the innermost in memory. A NaN stays
 * one, but does not spread over its row as PyTorch's does ---- */

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    if (x->rank == 0 || (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16))
        return prepared_decline(prepared, "onednn: %s", info_brief(x));
    tensor_info_t src = *x, dst = call->out[0];
    onednn_problem_t problem = {.kind = ONEDNN_SOFTMAX,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst,
                                .axis = dim_of(call->attrs, x->rank)};
    problem.algorithm = is_log(call->op) ? ONEDNN_SOFTMAX_LOG : ONEDNN_SOFTMAX_ACCURATE;
    op_call_t own = *call;
    own.keep_formats = true;
    return choose_formats(ctx, &own, prepared, &problem, 0.0);
}

/* Over channels in blocks of 4 oneDNN leaves numbers in padded lanes. */
static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {"onednn", prepare_onednn, run_onednn};

/* ---- kernel of our own: memory is [outer][n][inner] if the dimension itself has no blocks ---- */

#define TILE 64 /* inner positions done at a time */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    format_t format = accept_own(x);
    int dim = dim_of(call->attrs, x->rank);
    for (int i = 0; i < format.n_blocks; i++)
        if (format.block_dims[i] == dim) format = format_plain(x->rank);
    TRY(accept_format(call, prepared, X, &format));
    TRY(accept_out(call, prepared, 0, &format));
    prepared->cost_ns = choose_cost(ctx, "native", 0.0, 8.0 * (double)info_bytes(x));
    return STATUS_OK;
}

static void tile_f32(bool is_logarithm, int64_t n, int64_t inner, int64_t width, const float *src,
                     float *dst)
{
    float largest[TILE], sum[TILE];
    for (int64_t i = 0; i < width; i++) {
        largest[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float x = src[a * inner + i];
            largest[i] = x > largest[i] || x != x ? x : largest[i];
        }
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float difference = src[a * inner + i] - largest[i], power = expf(difference);
            sum[i] += power;
            dst[a * inner + i] = is_logarithm ? difference : power;
        }
    for (int64_t i = 0; i < width; i++) sum[i] = is_logarithm ? logf(sum[i]) : 1.0f / sum[i];
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float value = dst[a * inner + i];
            dst[a * inner + i] = is_logarithm ? value - sum[i] : value * sum[i];
        }
}

/* One position, any dtype, in double. */
static void column_any(bool is_logarithm, int64_t n, int64_t inner, dtype_t dtype, const char *src,
                       char *dst)
{
    const int64_t step = inner * (int64_t)dtype_size(dtype);
    double largest = -INFINITY, sum = 0.0;
    for (int64_t a = 0; a < n; a++) {
        double x = dtype_load(dtype, src + a * step);
        if (x > largest || isnan(x)) largest = x;
    }
    for (int64_t a = 0; a < n; a++) sum += exp(dtype_load(dtype, src + a * step) - largest);
    for (int64_t a = 0; a < n; a++) {
        double difference = dtype_load(dtype, src + a * step) - largest;
        dtype_store(dtype, dst + a * step,
                    is_logarithm ? difference - log(sum) : exp(difference) / sum);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X];
    const dtype_t dtype = x->dtype;
    const bool is_f32 = dtype == DTYPE_F32, is_logarithm = is_log(prepared->op);
    const int dim = dim_of(prepared->attrs, x->rank);
    int64_t strides[TENSOR_MAX_RANK] = {1};
    format_t format = accept_own(x);
    format_strides(&format, x->sizes, strides);
    const int64_t n = x->rank > 0 ? x->sizes[dim] : 1, inner = strides[dim];
    const int64_t size = (int64_t)dtype_size(dtype), total = walk_elements(x);
    const int64_t step = is_f32 ? TILE : 1, n_tiles = (inner + step - 1) / step;
#pragma omp parallel for num_threads(threads_for(ctx, total)) schedule(static)
    for (int64_t i = 0; i < total / (n * inner) * n_tiles; i++) {
        int64_t first = i % n_tiles * step, at = i / n_tiles * n * inner + first;
        int64_t width = inner - first < step ? inner - first : step;
        const void *src = (const char *)in[X] + at * size;
        void *dst = (char *)out[0] + at * size;
        if (is_f32)
            tile_f32(is_logarithm, n, inner, width, src, dst);
        else
            column_any(is_logarithm, n, inner, dtype, src, dst);
    }
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {"native", prepare_native, run_native};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- cases ---- */

static const char *const cases[] = {"(f32[5,17])",
                                    "(f32[2,31,7,5]) dim=1",
                                    "(f32[2,17,9,9]) dim=1",
                                    "(f32[2,32,6,6]) dim=1",
                                    "(f32[2,17,9,7]) dim=2",
                                    "(f32[2,17,9,7])",
                                    "(f32[3,7,5]) dim=0",
                                    "(f32[2,3,40,40])",
                                    "(f32[1000]) dim=0",
                                    "(f32[4,1])",
                                    "(f32[1,1,3,3]) dim=1",
                                    "(f32[]) dim=0",
                                    "(f32[2,3,4,5,6]) dim=2",
                                    "(bf16[3,17])",
                                    "(f16[2,7,3]) dim=1",
                                    "(f64[2,7,3,3]) dim=1",
                                    "(f32[0,5])",
                                    NULL};

/* ---- definitions ---- */

#define DEFINE(op_name)                                                                            \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .preference = OP_FOLLOWS,                                    \
                                      .attrs = {sizeof(attrs_t), 1, fields},                       \
                                      .n_operands = 1,                                             \
                                      .operands = operands,                                        \
                                      .n_outputs = 1,                                              \
                                      .infer = infer,                                              \
                                      .kernels = kernels,                                          \
                                      .spec = spec,                                                \
                                      .cases = cases}

DEFINE(softmax);
DEFINE(log_softmax);

/* ---- public ---- */

status_t op_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    attrs_t attrs = {dim};
    return dispatch_run(ctx, &op_def_softmax, &attrs, 1, &x, NULL, out);
}

status_t op_log_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    attrs_t attrs = {dim};
    return dispatch_run(ctx, &op_def_log_softmax, &attrs, 1, &x, NULL, out);
}
