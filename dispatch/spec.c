#include "dispatch/opdef.h"
#include "tensor/status_impl.h"

/* A pseudo-random number in [-1, 1) for an element of an operand, computed by splitmix64. */
static double draw(uint64_t seed, int operand, int64_t offset)
{
    uint64_t z = seed + (uint64_t)offset * 0x9e3779b97f4a7c15u +
                 (uint64_t)operand * 0xd1342543de82ef95u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)(int64_t)(z ^ (z >> 31)) * 0x1p-63;
}

/* True if the operand and an index are present; otherwise elements count as 0. A tensor of rank 0
 * needs no index. */
static bool is_readable(const spec_call_t *call, int operand, const int64_t *index)
{
    return call != NULL && call->in != NULL && call->data != NULL && operand >= 0 &&
           operand < call->n_in && call->in[operand] != NULL && call->data[operand] != NULL &&
           (index != NULL || call->in[operand]->rank == 0);
}

double spec_at(const spec_call_t *call, int operand, const int64_t *index)
{
    if (!is_readable(call, operand, index)) return 0.0;
    const tensor_info_t *info = call->in[operand];
    INVARIANT(info->layout == LAYOUT_DENSE && info->format.kind == FORMAT_STRIDED);
    int64_t offset = 0;
    for (int d = 0; d < info->rank; d++) offset += index[d] * info->format.strides[d];
    const char *first = call->data[operand];
    double value = dtype_load(info->dtype, first + offset * (int64_t)dtype_size(info->dtype));
    if (call->probe == NULL) return value;
    call->probe->n_reads++;
    if (!dtype_is_floating(info->dtype)) return value;
    return value * (1.0 + call->probe->shake * draw(call->probe->seed, operand, offset));
}

double spec_rounding(const spec_call_t *call, int which, double number)
{
    const spec_probe_t *probe = call != NULL ? call->probe : NULL;
    if (probe == NULL) return 0.0;
    return number * probe->shake * draw(probe->seed, OP_MAX_INPUTS + which, 0);
}

double spec_at_broadcast(const spec_call_t *call, int operand, int rank, const int64_t *index)
{
    if (!is_readable(call, operand, index)) return 0.0;
    const tensor_info_t *info = call->in[operand];
    int n_leading = rank - info->rank;
    INVARIANT(n_leading >= 0);
    int64_t own[TENSOR_MAX_RANK];
    for (int d = 0; d < info->rank; d++) own[d] = info->sizes[d] == 1 ? 0 : index[n_leading + d];
    return spec_at(call, operand, own);
}

double spec_post(const spec_call_t *call, const post_ops_t *post, int first_operand, double value,
                 const int64_t *index)
{
    if (call == NULL || call->out == NULL || post == NULL) return value;
    INVARIANT(post->n >= 0 && post->n <= POST_MAX);
    int operand = first_operand;
    for (int i = 0; i < post->n; i++) {
        const post_op_t *op = &post->op[i];
        double other = 0.0;
        if (op->kind != POST_ELTWISE)
            other = spec_at_broadcast(call, operand++, call->out->rank, index);
        value = post_value(op, value, other);
    }
    return value;
}
