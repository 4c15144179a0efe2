/* Softmax and its logarithm over one dimension. */
#include <math.h>

#include "dispatch/choose_impl.h"
#include "kernels/scalar_functions_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/simd_impl.h"
#include "tensor/sizes_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int64_t dim;
} attrs_t;

static const attr_field_t fields[] = {
    {"dim", ATTR_INT, false, offsetof(attrs_t, dim), 0, -1, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
static const operand_t backward_operands[] = {{"y", ROLE_ACTIVATION, false, false},
                                              {"grad", ROLE_ACTIVATION, false, false}};
enum { X };
enum { Y, GRAD };

enum { VARIANT_softmax, VARIANT_log_softmax };

static bool is_log(const opdef_t *op)
{
    return op->variant == VARIANT_log_softmax;
}

/* The dimension counted from the front; `infer` has checked it. */
static int dim_of(const void *attrs, int rank)
{
    return ops_dim(rank, ((const attrs_t *)attrs)->dim);
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
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: %s is %s, a floating type is needed",
            call->op->name, call->op->operands[X].name, info_brief(x));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

static status_t infer_backward(context_t *ctx, const op_call_t *call, int *out_n,
                               tensor_info_t *out)
{
    const tensor_info_t *y = call->in[Y], *grad = call->in[GRAD];
    TRY(infer(ctx, call, out_n, out));
    REQUIRE(ctx, sizes_are_like(ctx, grad, y), "%s: grad is %s, y is %s, equal ones are needed",
            call->op->name, info_brief(grad), info_brief(y));
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

static double spec_backward(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *y = call->in[Y];
    const int dim = dim_of(call->attrs, y->rank);
    const int64_t n = y->rank > 0 ? y->sizes[dim] : 1;
    int64_t at[TENSOR_MAX_RANK] = {0};
    double sum = 0.0;
    for (int d = 0; d < y->rank; d++) at[d] = index[d];
    for (at[dim] = 0; at[dim] < n; at[dim]++)
        sum += spec_at(call, GRAD, at) * (is_log(call->op) ? 1.0 : spec_at(call, Y, at));
    const double grad = spec_at(call, GRAD, index), element = spec_at(call, Y, index);
    return is_log(call->op) ? grad - exp(element) * sum : element * (grad - sum);
}

/* ---- oneDNN kernel: softmax of contiguous rows. Its log_softmax is not used: it computes wrong
 * logarithms of sums near 1, so results can be positive ---- */

/* Memory layout [outer][n][inner], for a dimension that is not blocked. */
typedef struct geometry {
    int64_t outer, n, inner;
} geometry_t;

static bool has_blocks(const format_t *format, int dim)
{
    for (int i = 0; i < format->n_blocks; i++)
        if (format->block_dims[i] == dim) return true;
    return false;
}

static geometry_t geometry_of(const tensor_info_t *x, int dim)
{
    int64_t strides[TENSOR_MAX_RANK] = {1};
    format_t format = accept_own(x);
    format_strides(&format, x->sizes, strides);
    geometry_t geometry = {.n = x->rank > 0 ? x->sizes[dim] : 1, .inner = strides[dim]};
    geometry.outer = walk_elements(x) / (geometry.n * geometry.inner);
    return geometry;
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const int dim = dim_of(call->attrs, x->rank);
    if (x->rank == 0 || (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16))
        return prepared_decline(prepared, "onednn: %s", info_brief(x));
    format_t format = accept_own(x);
    if (has_blocks(&format, dim) || geometry_of(x, dim).inner != 1)
        return prepared_decline(prepared, "onednn: dimension %d is not the innermost", dim);
    tensor_info_t src = *x, dst = call->out[0];
    onednn_problem_t problem = {.kind = ONEDNN_SOFTMAX,
                                .algorithm = ONEDNN_SOFTMAX_ACCURATE,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst,
                                .axis = dim};
    op_call_t own = *call;
    own.keep_formats = true;
    TRY(choose_formats(ctx, &own, prepared, &problem, 0.0));
    if (geometry_of(&prepared->out[0], dim).inner != 1)
        return prepared_decline(prepared, "onednn: its result has another innermost dimension");
    return STATUS_OK;
}

/* Fills rows that contain NaN with NaN; oneDNN sets only that element. */
FOR_EACH_ISA static void spread_nan_f32(int64_t n, float *row)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= row[i] != row[i];
    for (int64_t i = 0; found != 0 && i < n; i++) row[i] = NAN;
}

FOR_EACH_ISA static void spread_nan_bf16(int64_t n, uint16_t *row)
{
    uint16_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t magnitude = row[i] & 0x7fff;
        largest = magnitude > largest ? magnitude : largest;
    }
    for (int64_t i = 0; largest > 0x7f80 && i < n; i++) row[i] = 0x7fc0;
}

typedef struct nan_rows {
    bool is_f32;
    int64_t n; /* elements in a row */
    void *out;
} nan_rows_t;

static void spread_nan(void *user, int64_t first, int64_t last)
{
    const nan_rows_t *rows = user;
    for (int64_t i = first; i < last; i++)
        if (rows->is_f32)
            spread_nan_f32(rows->n, (float *)rows->out + i * rows->n);
        else
            spread_nan_bf16(rows->n, (uint16_t *)rows->out + i * rows->n);
}

static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    const tensor_info_t *info = &prepared->out[0];
    const geometry_t rows = geometry_of(info, dim_of(prepared->attrs, info->rank));
    nan_rows_t nan_rows = {info->dtype == DTYPE_F32, rows.n, out[0]};
    threads_share(threads_for(ctx, rows.outer * rows.n), rows.outer, spread_nan, &nan_rows);
    walk_zero_padding(info, out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {
    .name = "onednn", .prepare = prepare_onednn, .run = run_onednn, .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- native kernel ---- */

#define TILE 64 /* columns computed at a time */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    format_t format = accept_own(x);
    int dim = dim_of(call->attrs, x->rank);
    if (has_blocks(&format, dim)) format = format_plain(x->rank);
    TRY(accept_format(call, prepared, X, &format));
    TRY(accept_out(call, prepared, 0, &format));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(x));
    return STATUS_OK;
}

static inline float larger(float a, float b)
{
    return b > a || b != b ? b : a;
}

/* A row of n contiguous elements. Lanes hold partial results, which are combined at the end. The
 * last n % LANES elements are padded with -inf, whose exponential is 0. */
#define LANES 32

FOR_EACH_ISA static void run_row(bool is_logarithm, int64_t n, const float *restrict src,
                                 float *restrict dst)
{
    float lanes[LANES], tail[LANES];
    const int64_t whole = n / LANES * LANES;
    for (int l = 0; l < LANES; l++) tail[l] = -INFINITY;
    memcpy(tail, src + whole, (size_t)(n - whole) * sizeof *tail);
    memcpy(lanes, tail, sizeof lanes);
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = larger(lanes[l], src[i + l]);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] = larger(lanes[l], lanes[l + half]);
    const float largest = lanes[0];

    for (int64_t i = 0; i < whole; i++) dst[i] = scalar_exp(src[i] - largest);
    for (int l = 0; l < LANES; l++) lanes[l] = tail[l] = scalar_exp(tail[l] - largest);
    memcpy(dst + whole, tail, (size_t)(n - whole) * sizeof *tail);
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += dst[i + l];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];

    const float logarithm = scalar_log(lanes[0]), factor = 1.0f / lanes[0];
    if (is_logarithm)
        for (int64_t i = 0; i < n; i++) dst[i] = src[i] - largest - logarithm;
    else
        for (int64_t i = 0; i < n; i++) dst[i] *= factor;
}

/* `width` columns of n elements, `inner` apart. */
FOR_EACH_ISA static void run_tile(bool is_logarithm, int64_t n, int64_t inner, int64_t width,
                                  const float *restrict src, float *restrict dst)
{
    float largest[TILE], sum[TILE];
    for (int64_t i = 0; i < width; i++) {
        largest[i] = -INFINITY;
        sum[i] = 0.0f;
    }
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) largest[i] = larger(largest[i], src[a * inner + i]);
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float difference = src[a * inner + i] - largest[i], power = scalar_exp(difference);
            sum[i] += power;
            dst[a * inner + i] = is_logarithm ? difference : power;
        }
    for (int64_t i = 0; i < width; i++) sum[i] = is_logarithm ? scalar_log(sum[i]) : 1.0f / sum[i];
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++) {
            float value = dst[a * inner + i];
            dst[a * inner + i] = is_logarithm ? value - sum[i] : value * sum[i];
        }
}

/* One column of any dtype, in double. */
static void run_column(bool is_logarithm, int64_t n, int64_t inner, dtype_t dtype, const char *src,
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

/* Rows and columns of bf16 and f16 with up to NARROW elements are converted to f32 on the stack. */
#define NARROW 2048

static void run_widened(bool is_logarithm, int64_t n, int64_t inner, dtype_t dtype, const char *src,
                        char *dst)
{
    float wide[NARROW], result[NARROW];
    dtype_cast(n, dtype, src, inner, DTYPE_F32, wide, 1);
    run_row(is_logarithm, n, wide, result);
    dtype_cast(n, DTYPE_F32, result, 1, dtype, dst, inner);
}

static void run_part(bool is_logarithm, int64_t n, int64_t inner, int64_t width, dtype_t dtype,
                     const void *src, void *dst)
{
    if (dtype == DTYPE_F32 && inner == 1)
        run_row(is_logarithm, n, src, dst);
    else if (dtype == DTYPE_F32)
        run_tile(is_logarithm, n, inner, width, src, dst);
    else if (dtype != DTYPE_F64 && n <= NARROW)
        run_widened(is_logarithm, n, inner, dtype, src, dst);
    else
        run_column(is_logarithm, n, inner, dtype, src, dst);
}

/* Columns along the softmax dimension, `step` at a time. */
typedef struct tiles {
    bool is_logarithm;
    dtype_t dtype;
    geometry_t g;
    int64_t step, n_tiles; /* tiles per outer index */
    const char *x, *grad;  /* backward only: gradient of the result, and x is y */
    char *out;
} tiles_t;

static tiles_t tiles_of(const prepared_t *prepared, const tensor_info_t *x)
{
    tiles_t tiles = {.is_logarithm = is_log(prepared->op),
                     .dtype = x->dtype,
                     .g = geometry_of(x, dim_of(prepared->attrs, x->rank)),
                     .step = x->dtype == DTYPE_F32 ? TILE : 1};
    tiles.n_tiles = (tiles.g.inner + tiles.step - 1) / tiles.step;
    return tiles;
}

static void run_tiles(void *user, int64_t begin, int64_t end)
{
    const tiles_t *t = user;
    const int64_t size = (int64_t)dtype_size(t->dtype);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % t->n_tiles * t->step, left = t->g.inner - first;
        const int64_t at = (i / t->n_tiles * t->g.n * t->g.inner + first) * size;
        run_part(t->is_logarithm, t->g.n, t->g.inner, left < t->step ? left : t->step, t->dtype,
                 t->x + at, t->out + at);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X];
    tiles_t tiles = tiles_of(prepared, x);
    tiles.x = in[X];
    tiles.out = out[0];
    threads_share(threads_for(ctx, walk_elements(x)), tiles.g.outer * tiles.n_tiles, run_tiles,
                  &tiles);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const either[] = {&onednn, &native, NULL};
static const kernel_t *const ours[] = {&native, NULL};

/* ---- gradients: softmax: y (grad - sum(grad y)); log_softmax: grad - exp(y) sum(grad) ---- */

static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *y = call->in[Y];
    format_t format = accept_own(y);
    if (has_blocks(&format, dim_of(call->attrs, y->rank))) format = format_plain(y->rank);
    TRY(accept_format(call, prepared, Y, &format));
    TRY(accept_format(call, prepared, GRAD, &format));
    TRY(accept_out(call, prepared, 0, &format));
    prepared->overwrites = 1u << Y | 1u << GRAD;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(y));
    return STATUS_OK;
}

/* A row of n contiguous elements; dst may be y or grad. */
FOR_EACH_ISA static void pass_row(bool is_logarithm, int64_t n, const float *y, const float *grad,
                                  float *dst)
{
    float lanes[LANES] = {0.0f}, sum = 0.0f;
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += is_logarithm ? grad[i + l] : grad[i + l] * y[i + l];
    for (int64_t i = whole; i < n; i++) lanes[i - whole] += is_logarithm ? grad[i] : grad[i] * y[i];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    if (is_logarithm) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = grad[i] - scalar_exp(y[i]) * sum;
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dst[i] = y[i] * (grad[i] - sum);
    }
}

/* `width` columns of n elements, `inner` apart. */
FOR_EACH_ISA static void pass_tile(bool is_logarithm, int64_t n, int64_t inner, int64_t width,
                                   const float *y, const float *grad, float *dst)
{
    float sum[TILE] = {0.0f};
    for (int64_t a = 0; a < n; a++)
        for (int64_t i = 0; i < width; i++)
            sum[i] += is_logarithm ? grad[a * inner + i] : grad[a * inner + i] * y[a * inner + i];
    for (int64_t a = 0; a < n; a++) {
        const float *of_y = y + a * inner, *of_grad = grad + a * inner;
        float *to = dst + a * inner;
        if (is_logarithm) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) to[i] = of_grad[i] - scalar_exp(of_y[i]) * sum[i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) to[i] = of_y[i] * (of_grad[i] - sum[i]);
        }
    }
}

/* One column of any dtype, in double. */
static void pass_column(bool is_logarithm, int64_t n, int64_t inner, dtype_t dtype, const char *y,
                        const char *grad, char *dst)
{
    const int64_t step = inner * (int64_t)dtype_size(dtype);
    double sum = 0.0;
    for (int64_t a = 0; a < n; a++)
        sum += dtype_load(dtype, grad + a * step) *
               (is_logarithm ? 1.0 : dtype_load(dtype, y + a * step));
    for (int64_t a = 0; a < n; a++) {
        const double element = dtype_load(dtype, y + a * step);
        const double of_element = dtype_load(dtype, grad + a * step);
        dtype_store(dtype, dst + a * step,
                    is_logarithm ? of_element - exp(element) * sum : element * (of_element - sum));
    }
}

static void pass_widened(bool is_logarithm, int64_t n, int64_t inner, dtype_t dtype, const char *y,
                         const char *grad, char *dst)
{
    float wide[NARROW], wide_grad[NARROW];
    dtype_cast(n, dtype, y, inner, DTYPE_F32, wide, 1);
    dtype_cast(n, dtype, grad, inner, DTYPE_F32, wide_grad, 1);
    pass_row(is_logarithm, n, wide, wide_grad, wide);
    dtype_cast(n, DTYPE_F32, wide, 1, dtype, dst, inner);
}

static void pass_tiles(void *user, int64_t begin, int64_t end)
{
    const tiles_t *t = user;
    const int64_t size = (int64_t)dtype_size(t->dtype), n = t->g.n, inner = t->g.inner;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % t->n_tiles * t->step, left = inner - first;
        const int64_t at = (i / t->n_tiles * n * inner + first) * size;
        const void *y = t->x + at, *grad = t->grad + at;
        void *dst = t->out + at;
        if (t->dtype == DTYPE_F32 && inner == 1)
            pass_row(t->is_logarithm, n, y, grad, dst);
        else if (t->dtype == DTYPE_F32)
            pass_tile(t->is_logarithm, n, inner, left < t->step ? left : t->step, y, grad, dst);
        else if (t->dtype != DTYPE_F64 && n <= NARROW)
            pass_widened(t->is_logarithm, n, inner, t->dtype, y, grad, dst);
        else
            pass_column(t->is_logarithm, n, inner, t->dtype, y, grad, dst);
    }
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *info = &prepared->in[Y];
    tiles_t tiles = tiles_of(prepared, info);
    tiles.x = in[Y];
    tiles.grad = in[GRAD];
    tiles.out = out[0];
    threads_share(threads_for(ctx, walk_elements(info)), tiles.g.outer * tiles.n_tiles, pass_tiles,
                  &tiles);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native_backward = {
    .name = "native", .prepare = prepare_backward, .run = run_backward};
static const kernel_t *const backward_kernels[] = {&native_backward, NULL};

static void pass(const gradient_call_t *call)
{
    const opdef_t *op = is_log(call->op) ? &op_def_log_softmax_backward : &op_def_softmax_backward;
    const value_t in[] = {call->out[0], call->out_grad[0]};
    call->in_grad[X] = emit_op(call->emitter, op, call->attrs, 2, in);
}

static const gradient_t gradient = {.pass = pass, .reads_out = 1};

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

static const char *const backward_cases[] = {"(f32[5,17], f32[5,17])",
                                             "(f32[2,31,7,5], f32[2,31,7,5]) dim=1",
                                             "(f32[2,32,6,6], f32[2,32,6,6]) dim=1",
                                             "(f32[2,17,9,7], f32[2,17,9,7]) dim=2",
                                             "(f32[2,17,9,7], f32[2,17,9,7])",
                                             "(f32[3,7,5], f32[3,7,5]) dim=0",
                                             "(f32[2,3,70], f32[2,3,70]) dim=1",
                                             "(f32[200], f32[200]) dim=0",
                                             "(f32[4,1], f32[4,1])",
                                             "(f32[], f32[]) dim=0",
                                             "(f32[2,3,4,5,6], f32[2,3,4,5,6]) dim=2",
                                             "(f32[300,120], f32[300,120])",
                                             "(bf16[3,17], bf16[3,17])",
                                             "(f16[2,7,3], f16[2,7,3]) dim=1",
                                             "(f64[2,7,3,3], f64[2,7,3,3]) dim=1",
                                             "(f32[0,5], f32[0,5])",
                                             NULL};

/* ---- definitions ---- */

#define DEFINE(op_name, op_kernels, terms)                                                         \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = VARIANT_##op_name,                                \
                                      .preference = OP_FOLLOWS,                                    \
                                      .attrs = {sizeof(attrs_t), 1, fields},                       \
                                      .n_operands = 1,                                             \
                                      .operands = operands,                                        \
                                      .n_outputs = 1,                                              \
                                      .infer = infer,                                              \
                                      .infers_symbols = true,                                      \
                                      .kernels = op_kernels,                                       \
                                      .spec = spec,                                                \
                                      .cancels = terms,                                            \
                                      .gradient = &gradient,                                       \
                                      .cases = cases}

DEFINE(softmax, either, 0.0);
DEFINE(log_softmax, ours,
       0.25); /* the sum of exponentials is at least 1, so its logarithm can be near 0 */

#define DEFINE_BACKWARD(of)                                                                        \
    const opdef_t op_def_##of##_backward = {.name = #of "_backward",                               \
                                            .variant = VARIANT_##of,                               \
                                            .preference = OP_FOLLOWS,                              \
                                            .attrs = {sizeof(attrs_t), 1, fields},                 \
                                            .n_operands = 2,                                       \
                                            .operands = backward_operands,                         \
                                            .n_outputs = 1,                                        \
                                            .infer = infer_backward,                               \
                                            .infers_symbols = true,                                \
                                            .kernels = backward_kernels,                           \
                                            .spec = spec_backward,                                 \
                                            .cases = backward_cases}

DEFINE_BACKWARD(softmax);
DEFINE_BACKWARD(log_softmax);

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
