/* Known faults of oneDNN: problems that an implementation accepts, but for which its results are
 * wrong or it needs too much time and memory. All of them were found in oneDNN 2.6.3 only. */
#include <string.h>

#include "tensor/onednn/onednn_impl.h"

#define MAX_GENERATED 4096 /* elements of padding for which brgconv may generate code */

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

static bool is_sve(const char *implementation)
{
    return strstr(implementation, "sve") != NULL;
}

static bool is_sse41(const char *implementation)
{
    return strstr(implementation, "sse41") != NULL;
}

/* The colon in ":gemm" excludes "brgemm". */
static bool is_gemm(const char *implementation)
{
    return strstr(implementation, ":gemm") != NULL;
}

/* True if dimension 0 is neither the slowest nor the fastest in memory, as in bcad, so that neither
 * rows nor columns of the matrix are contiguous. Ignores dimensions of size 1. */
static bool has_rows_inside(const tensor_info_t *info)
{
    int n = 0, at = -1;
    if (info == NULL || info->format.kind != FORMAT_TAG || info->sizes[0] == 1) return false;
    for (int i = 0; i < info->rank; i++) {
        const int d = info->format.order[i];
        if (d == 0) at = n;
        if (info->sizes[d] != 1) n++;
    }
    return at > 0 && at < n - 1;
}

static bool has_padding_beyond(const onednn_problem_t *problem, int64_t most)
{
    for (int i = 0; i < problem->dst->rank - 2; i++)
        if (problem->pad_begin[i] > most || problem->pad_end[i] > most) return true;
    return false;
}

bool onednn_is_doubtful(const char *implementation)
{
    return is_sve(implementation) || is_gemm(implementation) || is_sse41(implementation);
}

const char *onednn_fault(const onednn_problem_t *problem, const char *implementation)
{
    const tensor_info_t *dst = problem->dst;
    if (problem->kind == ONEDNN_RNN && problem->propagation == ONEDNN_BACKWARD &&
        !has_initial_states(problem))
        return "computes wrong weight gradients without initial states";
    if (problem->kind == ONEDNN_INNER_PRODUCT && is_gemm(implementation) &&
        (has_rows_inside(problem->src) || has_rows_inside(problem->weight) ||
         has_rows_inside(problem->diff_src) || has_rows_inside(problem->diff_weight)))
        return "treats operands as matrices although their first dimension is between others";
    if (dst == NULL) return NULL;
    const format_t last = format_channels_last(dst->rank);
    /* 8 million elements: 4 s, 1 GB */
    if (problem->kind == ONEDNN_CONVOLUTION && strncmp(implementation, "brg", 3) == 0 &&
        has_padding_beyond(problem, MAX_GENERATED))
        return "generates code for each element of the padding";
    if (problem->kind == ONEDNN_CONVOLUTION && is_sse41(implementation) &&
        (has_post(problem, ONEDNN_POST_SUM) || has_post(problem, ONEDNN_POST_BINARY)) &&
        dst->sizes[1] % 4 != 0 && format_same(&dst->format, &last, dst->sizes))
        return "crashes if post-ops read unaligned pixels";
    if (problem->kind == ONEDNN_SOFTMAX && is_sve(implementation) && dst->dtype == DTYPE_BF16)
        return "reports success without writing bf16";
    if (problem->kind == ONEDNN_CONVOLUTION && is_sve(implementation) && has_hardswish(problem))
        return "computes hardswish wrongly";
    if (problem->kind == ONEDNN_CONVOLUTION && is_gemm(implementation) &&
        has_post(problem, ONEDNN_POST_BINARY) && format_same(&dst->format, &last, dst->sizes))
        return "reads wrong elements of post-op operands in channels last";
    return NULL;
}
