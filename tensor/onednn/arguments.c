/* Arguments of primitives: which of them a problem has, which of them a primitive takes, and
 * oneDNN's numbers for them. */
#include "tensor/onednn/onednn_impl.h"

int onednn_n_operands(const onednn_problem_t *p, int first)
{
    bool is_recurrent = p->kind == ONEDNN_RNN;
    switch (first) {
    case ONEDNN_ARGUMENT_SRC: return p->n_src;
    case ONEDNN_ARGUMENT_DIFF_SRC: return is_recurrent ? p->n_src : 1;
    case ONEDNN_ARGUMENT_WEIGHT:
    case ONEDNN_ARGUMENT_DIFF_WEIGHT: return is_recurrent ? ONEDNN_MAX_WEIGHT : 1;
    case ONEDNN_ARGUMENT_DST:
    case ONEDNN_ARGUMENT_DIFF_DST: return is_recurrent ? ONEDNN_MAX_DST : 1;
    default: return 1;
    }
}

const tensor_info_t *onednn_operand(const onednn_problem_t *p, int argument)
{
    const struct {
        int first;
        const tensor_info_t *infos;
    } lists[] = {{ONEDNN_ARGUMENT_SRC, p->src},
                 {ONEDNN_ARGUMENT_WEIGHT, p->weight},
                 {ONEDNN_ARGUMENT_BIAS, p->bias},
                 {ONEDNN_ARGUMENT_DST, p->dst},
                 {ONEDNN_ARGUMENT_DIFF_DST, p->diff_dst},
                 {ONEDNN_ARGUMENT_DIFF_SRC, p->diff_src},
                 {ONEDNN_ARGUMENT_DIFF_WEIGHT, p->diff_weight},
                 {ONEDNN_ARGUMENT_DIFF_BIAS, p->diff_bias}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int index = argument - lists[i].first;
        if (index < 0 || index >= onednn_n_operands(p, lists[i].first)) continue;
        const tensor_info_t *info = lists[i].infos == NULL ? NULL : &lists[i].infos[index];
        return info != NULL && info->dtype == DTYPE_NONE ? NULL : info;
    }
    int post = argument - ONEDNN_ARGUMENT_OPERAND;
    bool is_binary = post >= 0 && post < p->n_post && p->post[post].kind == ONEDNN_POST_BINARY;
    return is_binary ? p->post[post].operand : NULL;
}

int onednn_argument_number(int argument)
{
    static const int numbers[ONEDNN_ARGUMENT_COUNT] = {
        [ONEDNN_ARGUMENT_WEIGHT] = DNNL_ARG_WEIGHTS_0,
        [ONEDNN_ARGUMENT_WEIGHT + 1] = DNNL_ARG_WEIGHTS_1,
        [ONEDNN_ARGUMENT_WEIGHT + 2] = DNNL_ARG_WEIGHTS_2,
        [ONEDNN_ARGUMENT_WEIGHT + 3] = DNNL_ARG_WEIGHTS_3,
        [ONEDNN_ARGUMENT_BIAS] = DNNL_ARG_BIAS,
        [ONEDNN_ARGUMENT_MEAN] = DNNL_ARG_MEAN,
        [ONEDNN_ARGUMENT_VARIANCE] = DNNL_ARG_VARIANCE,
        [ONEDNN_ARGUMENT_SCALE] = DNNL_ARG_SCALE,
        [ONEDNN_ARGUMENT_SHIFT] = DNNL_ARG_SHIFT,
#if DNNL_VERSION_MAJOR > 2
        [ONEDNN_ARGUMENT_SRC_SCALE] = DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC,
        [ONEDNN_ARGUMENT_WEIGHT_SCALE] = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS,
        [ONEDNN_ARGUMENT_DST_SCALE] = DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST,
#endif
        [ONEDNN_ARGUMENT_SRC_ZERO] = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC,
        [ONEDNN_ARGUMENT_WEIGHT_ZERO] = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_WEIGHTS,
        [ONEDNN_ARGUMENT_DST_ZERO] = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST,
        [ONEDNN_ARGUMENT_DST] = DNNL_ARG_DST_0,
        [ONEDNN_ARGUMENT_DST + 1] = DNNL_ARG_DST_1,
        [ONEDNN_ARGUMENT_DST + 2] = DNNL_ARG_DST_2,
        [ONEDNN_ARGUMENT_DIFF_DST] = DNNL_ARG_DIFF_DST_0,
        [ONEDNN_ARGUMENT_DIFF_DST + 1] = DNNL_ARG_DIFF_DST_1,
        [ONEDNN_ARGUMENT_DIFF_DST + 2] = DNNL_ARG_DIFF_DST_2,
        [ONEDNN_ARGUMENT_WORKSPACE] = DNNL_ARG_WORKSPACE,
        [ONEDNN_ARGUMENT_DIFF_SRC] = DNNL_ARG_DIFF_SRC_0,
        [ONEDNN_ARGUMENT_DIFF_SRC + 1] = DNNL_ARG_DIFF_SRC_1,
        [ONEDNN_ARGUMENT_DIFF_SRC + 2] = DNNL_ARG_DIFF_SRC_2,
        [ONEDNN_ARGUMENT_DIFF_WEIGHT] = DNNL_ARG_DIFF_WEIGHTS_0,
        [ONEDNN_ARGUMENT_DIFF_WEIGHT + 1] = DNNL_ARG_DIFF_WEIGHTS_1,
        [ONEDNN_ARGUMENT_DIFF_WEIGHT + 2] = DNNL_ARG_DIFF_WEIGHTS_2,
        [ONEDNN_ARGUMENT_DIFF_WEIGHT + 3] = DNNL_ARG_DIFF_WEIGHTS_3,
        [ONEDNN_ARGUMENT_DIFF_BIAS] = DNNL_ARG_DIFF_BIAS,
        [ONEDNN_ARGUMENT_DIFF_SCALE] = DNNL_ARG_DIFF_SCALE,
        [ONEDNN_ARGUMENT_DIFF_SHIFT] = DNNL_ARG_DIFF_SHIFT,
    };
    int post = argument - ONEDNN_ARGUMENT_OPERAND;
    if (argument < ONEDNN_ARGUMENT_SRC + ONEDNN_MAX_SRC)
        return DNNL_ARG_SRC_0 + (argument - ONEDNN_ARGUMENT_SRC);
    if (post >= 0 && post < ONEDNN_MAX_POST_OPS)
        return DNNL_ARG_ATTR_MULTIPLE_POST_OP(post) | DNNL_ARG_SRC_1;
    return numbers[argument];
}

/* True if a primitive takes this argument although the problem has no info for it, such as a
 * workspace. */
static bool is_implied(const onednn_primitive_t *primitive, int argument)
{
    const onednn_problem_t *p = primitive->problem;
    const_dnnl_memory_desc_t workspace = NULL;
    bool keeps = p->propagation != ONEDNN_INFERENCE;
    tensor_info_t info;
    const void *constant = NULL;
    if (onednn_quantity(p, argument, &info, &constant)) return constant == NULL;
    switch (argument) {
    case ONEDNN_ARGUMENT_MEAN:
    case ONEDNN_ARGUMENT_VARIANCE:
        return p->kind == ONEDNN_BATCH_NORM ||
               (p->kind == ONEDNN_LAYER_NORM && (keeps || p->fixed_statistics));
    case ONEDNN_ARGUMENT_SCALE: return p->has_scale;
    case ONEDNN_ARGUMENT_SHIFT: return p->has_scale && p->propagation != ONEDNN_BACKWARD;
    case ONEDNN_ARGUMENT_DIFF_SCALE:
    case ONEDNN_ARGUMENT_DIFF_SHIFT: return p->has_scale && p->propagation == ONEDNN_BACKWARD;
    case ONEDNN_ARGUMENT_WORKSPACE:
        workspace = dnnl_primitive_desc_query_md(primitive->description, dnnl_query_workspace_md,
                                                 0);
        return keeps && workspace != NULL && dnnl_memory_desc_get_size(workspace) > 0;
    default: return false;
    }
}

void onednn_list_arguments(onednn_primitive_t *primitive)
{
    int n = 0;
    for (int argument = 0; argument < ONEDNN_ARGUMENT_COUNT; argument++)
        if (onednn_operand(primitive->problem, argument) != NULL || is_implied(primitive, argument))
            primitive->arguments[n++] = (uint8_t)argument;
    primitive->n_arguments = n;
}

int onednn_n_arguments(const onednn_primitive_t *primitive)
{
    return primitive->n_arguments;
}

int onednn_argument_index(const onednn_primitive_t *primitive, int argument)
{
    for (int i = 0; i < primitive->n_arguments; i++)
        if (primitive->arguments[i] == argument) return i;
    return -1;
}

const_dnnl_memory_desc_t onednn_wanted(const onednn_primitive_t *primitive, int argument)
{
    if (onednn_argument_index(primitive, argument) < 0) return NULL;
    return dnnl_primitive_desc_query_md(primitive->description, dnnl_query_exec_arg_md,
                                        onednn_argument_number(argument));
}

status_t onednn_query(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                      tensor_info_t *out_info)
{
    (void)ctx;
    const void *constant = NULL;
    if (onednn_argument_index(primitive, argument) < 0) return STATUS_UNSUPPORTED;
    if (onednn_quantity(primitive->problem, argument, out_info, &constant)) return STATUS_OK;
    const_dnnl_memory_desc_t md = onednn_wanted(primitive, argument);
    return md != NULL && onednn_md_info(md, out_info) ? STATUS_OK : STATUS_UNSUPPORTED;
}

status_t onednn_query_weight(const onednn_primitive_t *primitive, tensor_info_t *out_info)
{
    const_dnnl_memory_desc_t md = onednn_wanted(primitive, ONEDNN_ARGUMENT_WEIGHT);
    return md != NULL && onednn_md_info_of_any(md, out_info) ? STATUS_OK : STATUS_UNSUPPORTED;
}

size_t onednn_argument_bytes(const onednn_primitive_t *primitive, int argument)
{
    tensor_info_t info;
    const void *constant = NULL;
    if (onednn_argument_index(primitive, argument) < 0) return 0;
    if (onednn_quantity(primitive->problem, argument, &info, &constant)) return info_bytes(&info);
    const_dnnl_memory_desc_t md = onednn_wanted(primitive, argument);
    return md == NULL ? 0 : dnnl_memory_desc_get_size(md);
}
