/* What implementations of oneDNN accept and then get wrong, each seen with oneDNN 2.6.3 alone. */
#include <string.h>

#include "tensor/onednn/onednn.h"

static bool has_post(const onednn_problem_t *problem, onednn_post_kind_t kind)
{
    for (int i = 0; i < problem->n_post; i++)
        if (problem->post[i].kind == kind) return true;
    return false;
}

static bool has_hardswish(const onednn_problem_t *problem)
{
    for (int i = 0; i < problem->n_post; i++)
        if (problem->post[i].kind == ONEDNN_POST_ELTWISE &&
            problem->post[i].algorithm == ONEDNN_ELTWISE_HARDSWISH)
            return true;
    return false;
}

static bool has_initial_states(const onednn_problem_t *problem)
{
    return problem->n_src > 1 && problem->src[1].dtype != DTYPE_NONE;
}

const char *onednn_fault(const onednn_problem_t *problem, const char *implementation,
                         const tensor_info_t *dst)
{
    if (problem->kind == ONEDNN_RNN && problem->propagation == ONEDNN_BACKWARD &&
        !has_initial_states(problem))
        return "gives other gradients of the weights where there are no initial states";
    const format_t last = format_channels_last(dst->rank);
    const bool is_sve = strstr(implementation, "sve") != NULL;
    /* "brgemm" is another. */
    const bool is_gemm = strstr(implementation, ":gemm") != NULL;
    if (problem->kind == ONEDNN_SOFTMAX && is_sve && dst->dtype == DTYPE_BF16)
        return "says success and writes no bf16";
    if (problem->kind == ONEDNN_CONVOLUTION && is_sve && has_hardswish(problem))
        return "computes something else for hardswish";
    if (problem->kind == ONEDNN_CONVOLUTION && is_gemm && has_post(problem, ONEDNN_POST_BINARY) &&
        format_same(&dst->format, &last, dst->sizes))
        return "reads wrong elements of post-op operands in channels last";
    return NULL;
}
