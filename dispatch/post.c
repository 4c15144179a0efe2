#include "dispatch/post_impl.h"

#include "tensor/convert_impl.h"
#include "tensor/threads_impl.h"

/* Operands of the result's shape lie as the result does, so they are walked together, byte by byte;
 * for the others the index is needed. */

static bool has_shape_of(const tensor_info_t *operand, const tensor_info_t *out)
{
    return shape_equal(operand->rank, operand->sizes, out->rank, out->sizes);
}

void post_settle_operands(prepared_t *prepared, const post_ops_t *post, int first)
{
    const tensor_info_t *out = &prepared->out[0];
    for (int i = first; i < first + post_operands(post); i++) {
        tensor_info_t *operand = &prepared->in[i];
        if (!has_shape_of(operand, out)) {
            *operand = info_dense(operand->dtype, operand->rank, operand->sizes);
        } else {
            operand->layout = out->layout;
            operand->format = out->format;
        }
    }
}

static double combine(const post_op_t *op, double value, double operand)
{
    switch (op->kind) {
    case POST_SUM:
    case POST_ADD: return value + operand;
    case POST_MUL: return value * operand;
    default: return eltwise_value(op->eltwise, value, op->alpha, op->beta);
    }
}

static void apply_flat(const prepared_t *prepared, const post_op_t *op,
                       const tensor_info_t *operand, const char *bytes, char *out, int n_threads)
{
    const tensor_info_t *info = &prepared->out[0];
    const int64_t size = (int64_t)dtype_size(info->dtype);
    const int64_t n = (int64_t)info_bytes(info) / size;
    const int64_t operand_size = operand == NULL ? 0 : (int64_t)dtype_size(operand->dtype);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        double other = operand == NULL ? 0.0 : dtype_load(operand->dtype, bytes + i * operand_size);
        dtype_store(info->dtype, out + i * size,
                    combine(op, dtype_load(info->dtype, out + i * size), other));
    }
}

static int64_t broadcast_offset(const tensor_info_t *operand, int rank, const int64_t *index)
{
    int64_t at[TENSOR_MAX_RANK];
    for (int d = 0; d < operand->rank; d++)
        at[d] = operand->sizes[d] == 1 ? 0 : index[d + rank - operand->rank];
    return format_offset(&operand->format, operand->sizes, at);
}

static void apply_broadcast(const prepared_t *prepared, const post_op_t *op,
                            const tensor_info_t *operand, const char *bytes, char *out,
                            int n_threads)
{
    const tensor_info_t *info = &prepared->out[0];
    const int64_t size = (int64_t)dtype_size(info->dtype), n = info_numel(info);
    const int64_t operand_size = (int64_t)dtype_size(operand->dtype);
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        int64_t index[TENSOR_MAX_RANK], rest = i;
        for (int d = info->rank - 1; d >= 0; d--) {
            index[d] = rest % info->sizes[d];
            rest /= info->sizes[d];
        }
        char *at = out + format_offset(&info->format, info->sizes, index) * size;
        double other = dtype_load(
            operand->dtype, bytes + broadcast_offset(operand, info->rank, index) * operand_size);
        dtype_store(info->dtype, at, combine(op, dtype_load(info->dtype, at), other));
    }
}

void post_apply(context_t *ctx, const prepared_t *prepared, const post_ops_t *post, int first,
                void *const *in, void *out)
{
    const int n_threads = threads_for(ctx, info_numel(&prepared->out[0]));
    int next = first;
    for (int i = 0; i < post->n; i++) {
        const post_op_t *op = &post->op[i];
        if (op->kind == POST_ELTWISE) {
            apply_flat(prepared, op, NULL, NULL, out, n_threads);
            continue;
        }
        const tensor_info_t *operand = &prepared->in[next];
        if (has_shape_of(operand, &prepared->out[0]))
            apply_flat(prepared, op, operand, in[next], out, n_threads);
        else
            apply_broadcast(prepared, op, operand, in[next], out, n_threads);
        next++;
    }
    convert_zero_padding(&prepared->out[0], out);
}
