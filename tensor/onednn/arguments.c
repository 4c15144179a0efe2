/* Arguments of primitives: which a problem gives, which a primitive takes, what oneDNN calls them.
 */
#include "tensor/onednn/onednn_impl.h"

const tensor_info_t *onednn_operand(const onednn_problem_t *p, int argument)
{
    const tensor_info_t *info = NULL;
    if (argument >= ONEDNN_ARGUMENT_SRC && argument < ONEDNN_ARGUMENT_SRC + p->n_src)
        info = &p->src[argument - ONEDNN_ARGUMENT_SRC];
    int post = argument - ONEDNN_ARGUMENT_OPERAND;
    if (post >= 0 && post < p->n_post && p->post[post].kind == ONEDNN_POST_BINARY)
        info = p->post[post].operand;
    switch (argument) {
    case ONEDNN_ARGUMENT_WEIGHT: info = p->weight; break;
    case ONEDNN_ARGUMENT_BIAS: info = p->bias; break;
    case ONEDNN_ARGUMENT_DST: info = p->dst; break;
    case ONEDNN_ARGUMENT_DIFF_DST: info = p->diff_dst; break;
    case ONEDNN_ARGUMENT_DIFF_SRC: info = p->diff_src; break;
    case ONEDNN_ARGUMENT_DIFF_WEIGHT: info = p->diff_weight; break;
    case ONEDNN_ARGUMENT_DIFF_BIAS: info = p->diff_bias; break;
    default: break;
    }
    return info;
}

int onednn_argument_number(int argument)
{
    static const int numbers[ONEDNN_ARGUMENT_COUNT] = {
        [ONEDNN_ARGUMENT_WEIGHT] = DNNL_ARG_WEIGHTS,
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
        [ONEDNN_ARGUMENT_DST] = DNNL_ARG_DST,
        [ONEDNN_ARGUMENT_DIFF_DST] = DNNL_ARG_DIFF_DST,
        [ONEDNN_ARGUMENT_WORKSPACE] = DNNL_ARG_WORKSPACE,
        [ONEDNN_ARGUMENT_DIFF_SRC] = DNNL_ARG_DIFF_SRC,
        [ONEDNN_ARGUMENT_DIFF_WEIGHT] = DNNL_ARG_DIFF_WEIGHTS,
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

/* Whether a primitive takes an argument that no info of the problem is about. */
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

size_t onednn_argument_bytes(const onednn_primitive_t *primitive, int argument)
{
    tensor_info_t info;
    const void *constant = NULL;
    if (onednn_argument_index(primitive, argument) < 0) return 0;
    if (onednn_quantity(primitive->problem, argument, &info, &constant)) return info_bytes(&info);
    const_dnnl_memory_desc_t md = onednn_wanted(primitive, argument);
    return md == NULL ? 0 : dnnl_memory_desc_get_size(md);
}
