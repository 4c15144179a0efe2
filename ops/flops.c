/* Counts multiplications and additions of layers with weights. */
#include "ops/ops_impl.h"

/* Number of elements that a weight has for one index of its first dimension. */
static double terms_of(const tensor_info_t *weight)
{
    const int64_t n = weight->sizes[0], terms = n > 0 ? info_numel(weight) / n : 0;
    return (double)terms;
}

double ops_flops_of_weight(const op_call_t *call)
{
    return 2.0 * (double)info_numel(&call->out[0]) * terms_of(call->in[1]);
}

double ops_flops_of_transposed(const op_call_t *call)
{
    return 2.0 * (double)info_numel(call->in[0]) * terms_of(call->in[1]);
}
