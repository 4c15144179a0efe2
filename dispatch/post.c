#include "dispatch/post_impl.h"

#include <math.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- properties ---- */

int post_operands(const post_ops_t *post)
{
    int n = 0;
    for (int i = 0; post != NULL && i < post->n && i < POST_MAX; i++)
        n += post->op[i].kind != POST_ELTWISE;
    return n;
}

const char *post_name(post_kind_t kind)
{
    static const char *const names[] = {
        [POST_SUM] = "sum", [POST_ADD] = "add",     [POST_SUB] = "sub",     [POST_MUL] = "mul",
        [POST_DIV] = "div", [POST_MAXIMUM] = "max", [POST_MINIMUM] = "min", [POST_ELTWISE] = ""};
    return (unsigned)kind < POST_ELTWISE ? names[kind] : "";
}

/* ---- applying them after a kernel ---- */

/* An operand with the result's shape has the result's format, too, so the two are read in memory
 * order, in chunks. For an operand that broadcasts, the index of each element is needed. */

#define CHUNK 1024

static bool has_shape_of(const tensor_info_t *operand, const tensor_info_t *out)
{
    return shape_equal(operand->rank, operand->sizes, out->rank, out->sizes);
}

void post_leave(prepared_t *prepared, int first)
{
    const post_ops_t *post = attrs_post(&prepared->op->attrs, prepared->attrs);
    prepared->post_left = post->n - first;
    prepared->operands_left = 0;
    for (int i = first; i < post->n; i++)
        prepared->operands_left += post->op[i].kind != POST_ELTWISE;
}

void post_settle_operands(prepared_t *prepared)
{
    const tensor_info_t *out = &prepared->out[0];
    for (int i = prepared->n_in - prepared->operands_left; i < prepared->n_in; i++) {
        tensor_info_t *operand = &prepared->in[i];
        if (!has_shape_of(operand, out)) {
            *operand = info_dense(operand->dtype, operand->rank, operand->sizes);
        } else {
            operand->layout = out->layout;
            operand->format = out->format;
        }
    }
}

static void combine_f32(const post_op_t *op, int64_t n, const float *operand, float *out)
{
#define LOOP(expr)                                                                                 \
    for (int64_t i = 0; i < n; i++) out[i] = (expr);                                               \
    return
    switch (op->kind) {
    case POST_SUM:
    case POST_ADD: LOOP(out[i] + operand[i]);
    case POST_SUB: LOOP(out[i] - operand[i]);
    case POST_MUL: LOOP(out[i] * operand[i]);
    case POST_DIV: LOOP(out[i] / operand[i]);
    case POST_ELTWISE: eltwise_apply(op->eltwise, op->alpha, op->beta, n, out, out); return;
    default: LOOP((float)post_value(op, out[i], operand[i]));
    }
#undef LOOP
}

static void combine_any(const post_op_t *op, int64_t n, dtype_t operand_dtype, const char *operand,
                        dtype_t dtype, char *out)
{
    const int64_t size = (int64_t)dtype_size(dtype), step = (int64_t)dtype_size(operand_dtype);
    for (int64_t i = 0; i < n; i++) {
        double other = operand == NULL ? 0.0 : dtype_load(operand_dtype, operand + i * step);
        dtype_store(dtype, out + i * size,
                    post_value(op, dtype_load(dtype, out + i * size), other));
    }
}

static bool is_up_to_f32(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

/* Does the same as combine_f32 if the result or the operand is bf16 or f16. Converts both to f32.
 * operand is NULL for an elementwise function. */
static void combine_widened(const post_op_t *op, int64_t n, dtype_t operand_dtype,
                            const char *operand, dtype_t dtype, char *out)
{
    float wide[CHUNK], others[CHUNK];
    dtype_cast(n, dtype, out, 1, DTYPE_F32, wide, 1);
    if (operand != NULL) dtype_cast(n, operand_dtype, operand, 1, DTYPE_F32, others, 1);
    combine_f32(op, n, others, wide);
    dtype_cast(n, DTYPE_F32, wide, 1, dtype, out, 1);
}

typedef struct post_run {
    const prepared_t *prepared;
    const post_op_t *op;
    const tensor_info_t *operand; /* for apply_broadcast */
    dtype_t operand_dtype;
    const char *bytes; /* the operand; NULL for an elementwise function */
    char *out;
} post_run_t;

static void apply_chunks(void *user, int64_t begin, int64_t end)
{
    const post_run_t *run = user;
    const dtype_t dtype = run->prepared->out[0].dtype, operand_dtype = run->operand_dtype;
    const int64_t size = (int64_t)dtype_size(dtype), step = (int64_t)dtype_size(operand_dtype);
    const int64_t n = (int64_t)info_bytes(&run->prepared->out[0]) / size;
    const bool has_f32 = run->bytes == NULL || operand_dtype == DTYPE_F32;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t first = chunk * CHUNK, count = n - first < CHUNK ? n - first : CHUNK;
        const char *operand = run->bytes == NULL ? NULL : run->bytes + first * step;
        void *at = run->out + first * size;
        if (dtype == DTYPE_F32 && has_f32)
            combine_f32(run->op, count, (const void *)operand, at);
        else if (is_up_to_f32(dtype) && (operand == NULL || is_up_to_f32(operand_dtype)))
            combine_widened(run->op, count, operand_dtype, operand, dtype, at);
        else
            combine_any(run->op, count, operand_dtype, operand, dtype, at);
    }
}

/* Applies a post-op to all elements in memory order. `bytes` is the post-op's operand, or NULL. */
static void apply_flat(const prepared_t *prepared, const post_op_t *op, dtype_t operand_dtype,
                       const char *bytes, char *out, int n_threads)
{
    const int64_t n = (int64_t)(info_bytes(&prepared->out[0]) / dtype_size(prepared->out[0].dtype));
    post_run_t run = {prepared, op, NULL, operand_dtype, bytes, out};
    threads_share(n_threads, (n + CHUNK - 1) / CHUNK, apply_chunks, &run);
}

static int64_t broadcast_offset(const tensor_info_t *operand, int rank, const int64_t *index)
{
    int64_t at[TENSOR_MAX_RANK];
    for (int d = 0; d < operand->rank; d++)
        at[d] = operand->sizes[d] == 1 ? 0 : index[d + rank - operand->rank];
    return format_offset(&operand->format, operand->sizes, at);
}

static void apply_elements(void *user, int64_t first, int64_t last)
{
    const post_run_t *run = user;
    const tensor_info_t *info = &run->prepared->out[0], *operand = run->operand;
    const int64_t size = (int64_t)dtype_size(info->dtype);
    const int64_t operand_size = (int64_t)dtype_size(operand->dtype);
    for (int64_t i = first; i < last; i++) {
        int64_t index[TENSOR_MAX_RANK], rest = i;
        for (int d = info->rank - 1; d >= 0; d--) {
            index[d] = rest % info->sizes[d];
            rest /= info->sizes[d];
        }
        char *at = run->out + format_offset(&info->format, info->sizes, index) * size;
        const double other = dtype_load(operand->dtype,
                                        run->bytes + broadcast_offset(operand, info->rank, index) *
                                                         operand_size);
        dtype_store(info->dtype, at, post_value(run->op, dtype_load(info->dtype, at), other));
    }
}

static void apply_broadcast(const prepared_t *prepared, const post_op_t *op,
                            const tensor_info_t *operand, const char *bytes, char *out,
                            int n_threads)
{
    post_run_t run = {prepared, op, operand, operand->dtype, bytes, out};
    threads_share(n_threads, info_numel(&prepared->out[0]), apply_elements, &run);
}

void post_apply(context_t *ctx, const prepared_t *prepared, void *const *in, void *out)
{
    const post_ops_t *post = attrs_post(&prepared->op->attrs, prepared->attrs);
    const int n_threads = threads_for(ctx, info_numel(&prepared->out[0]));
    int next = prepared->n_in - prepared->operands_left;
    for (int i = post->n - prepared->post_left; i < post->n; i++) {
        const post_op_t *op = &post->op[i];
        if (op->kind == POST_ELTWISE) {
            apply_flat(prepared, op, DTYPE_F32, NULL, out, n_threads);
            continue;
        }
        const tensor_info_t *operand = &prepared->in[next];
        if (has_shape_of(operand, &prepared->out[0]))
            apply_flat(prepared, op, operand->dtype, in[next], out, n_threads);
        else
            apply_broadcast(prepared, op, operand, in[next], out, n_threads);
        next++;
    }
    if (prepared->post_left > 0) convert_zero_padding(&prepared->out[0], out);
}

/* ---- applying them inside a kernel ---- */

void post_finish(const void *rest, float *values, int64_t n)
{
    const post_rest_t *of = rest;
    for (int i = of->first; i < of->post->n; i++) {
        const post_op_t *op = &of->post->op[i];
        eltwise_apply(op->eltwise, op->alpha, op->beta, n, values, values);
    }
}

bool post_keep_zero(const post_rest_t *rest)
{
    bool keep = true;
    for (int i = rest->first; i < rest->post->n; i++) {
        const post_op_t *op = &rest->post->op[i];
        keep &= eltwise_keeps_zero(op->eltwise, op->alpha, op->beta);
    }
    return keep;
}

bool post_is_clamp(const post_op_t *op, float *lower, float *upper)
{
    const bool is_relu = op->kind == POST_ELTWISE && op->eltwise == ELTWISE_RELU;
    *lower = is_relu ? 0.0f : (float)op->alpha;
    *upper = is_relu ? (float)INFINITY : (float)op->beta;
    const bool has_bounds = !isnan(*lower) && !isnan(*upper);
    return is_relu || (op->kind == POST_ELTWISE && op->eltwise == ELTWISE_CLAMP && has_bounds);
}
