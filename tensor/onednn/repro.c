/* Prints problems as command lines of benchdnn, oneDNN's test and benchmark program. Uses options
 * that versions 2 and 3 accept, if possible; DNNL_VERSION_MAJOR selects the others. */
#include <string.h>

#include "tensor/onednn/onednn_impl.h"

/* benchdnn's name of an algorithm, and the number of parameters (alpha, beta) that it accepts; a
 * parameter that it does not accept must be 0. */
static const struct algorithm {
    const char *name;
    int n_parameters;
} algorithms[ONEDNN_ALGORITHM_COUNT] = {
    [ONEDNN_DIRECT] = {"DIRECT", 0},
    [ONEDNN_WINOGRAD] = {"WINO", 0},
    [ONEDNN_POOL_MAX] = {"max", 0},
    [ONEDNN_POOL_AVERAGE] = {"avg_np", 0},
    [ONEDNN_POOL_AVERAGE_PADDED] = {"avg_p", 0},
    [ONEDNN_ELTWISE_RELU] = {"relu", 1},
    [ONEDNN_ELTWISE_ELU] = {"elu", 1},
    [ONEDNN_ELTWISE_TANH] = {"tanh", 0},
    [ONEDNN_ELTWISE_SQUARE] = {"square", 0},
    [ONEDNN_ELTWISE_ABS] = {"abs", 0},
    [ONEDNN_ELTWISE_SQRT] = {"sqrt", 0},
    [ONEDNN_ELTWISE_LINEAR] = {"linear", 2},
    [ONEDNN_ELTWISE_CLIP] = {"clip", 2},
    [ONEDNN_ELTWISE_SIGMOID] = {"logistic", 0},
    [ONEDNN_ELTWISE_EXP] = {"exp", 0},
    [ONEDNN_ELTWISE_LOG] = {"log", 0},
    [ONEDNN_ELTWISE_GELU_TANH] = {"gelu_tanh", 0},
    [ONEDNN_ELTWISE_GELU_ERF] = {"gelu_erf", 0},
    [ONEDNN_ELTWISE_SWISH] = {"swish", 1},
    [ONEDNN_ELTWISE_SOFTPLUS] = {"soft_relu", DNNL_VERSION_MAJOR == 2 ? 0 : 1},
    [ONEDNN_ELTWISE_HARDSWISH] = {"hardswish", DNNL_VERSION_MAJOR == 2 ? 0 : 2},
    [ONEDNN_ELTWISE_HARDSIGMOID] = {"hardsigmoid", 2},
    [ONEDNN_BINARY_ADD] = {"add", 0},
    [ONEDNN_BINARY_SUB] = {"sub", 0},
    [ONEDNN_BINARY_MUL] = {"mul", 0},
    [ONEDNN_BINARY_DIV] = {"div", 0},
    [ONEDNN_BINARY_MAX] = {"max", 0},
    [ONEDNN_BINARY_MIN] = {"min", 0},
    [ONEDNN_SOFTMAX_ACCURATE] = {"SOFTMAX", 0},
    [ONEDNN_SOFTMAX_LOG] = {"LOGSOFTMAX", 0},
    [ONEDNN_LRN_ACROSS_CHANNELS] = {"ACROSS", 0},
    [ONEDNN_RESAMPLING_NEAREST] = {"nearest", 0},
    [ONEDNN_RESAMPLING_LINEAR] = {"linear", 0},
    [ONEDNN_RNN_TANH] = {"VANILLA_RNN", 0},
    [ONEDNN_RNN_RELU] = {"VANILLA_RNN", 0},
    [ONEDNN_RNN_LSTM] = {"VANILLA_LSTM", 0},
    [ONEDNN_RNN_GRU] = {"VANILLA_GRU", 0},
    [ONEDNN_RNN_LBR_GRU] = {"LBR_GRU", 0},
};

static const char *const drivers[] = {
    [ONEDNN_CONVOLUTION] = "conv", [ONEDNN_DECONVOLUTION] = "deconv",
    [ONEDNN_INNER_PRODUCT] = "ip", [ONEDNN_MATMUL] = "matmul",
    [ONEDNN_POOLING] = "pool",     [ONEDNN_ELTWISE] = "eltwise",
    [ONEDNN_BINARY] = "binary",    [ONEDNN_BATCH_NORM] = "bnorm",
    [ONEDNN_LAYER_NORM] = "lnorm", [ONEDNN_SOFTMAX] = "softmax",
    [ONEDNN_LRN] = "lrn",          [ONEDNN_RESAMPLING] = "resampling",
    [ONEDNN_RNN] = "rnn",          [ONEDNN_REORDER] = "reorder",
};

/* ---- options ---- */

/* Returns the text of a format; "any" if no tag describes it, because then oneDNN chose it. */
static const char *tag_of(const tensor_info_t *info, char *out_text)
{
    format_t format = info->format;
    if (format.kind == FORMAT_STRIDED)
        format = format_of_strides(info->rank, info->sizes, format.strides);
    return format.kind == FORMAT_TAG ? format_text(&format, out_text) : "any";
}

static void append_tag(text_t *text, const char *option, const tensor_info_t *info)
{
    char tag[FORMAT_TEXT_MAX];
    text_append(text, " --%s=%s", option, tag_of(info, tag));
}

/* Appends the dtypes of all infos, or a single one if all are equal. */
static void append_dtypes(text_t *text, const char *option, const char *separator, int n,
                          const tensor_info_t *const *infos)
{
    bool are_equal = true;
    for (int i = 1; i < n; i++) are_equal = are_equal && infos[i]->dtype == infos[0]->dtype;
    bool is_one = are_equal && (separator[0] != '\0' || infos[0]->dtype != DTYPE_BF16);
    text_append(text, " --%s=%s", option, dtype_name(infos[0]->dtype));
    for (int i = 1; i < n && !is_one; i++)
        text_append(text, "%s%s", separator, dtype_name(infos[i]->dtype));
}

static void append_sizes(text_t *text, const char *before, const tensor_info_t *info)
{
    for (int d = 0; d < info->rank; d++)
        text_append(text, "%s%lld", d == 0 ? before : "x", (long long)info->sizes[d]);
}

/* Returns benchdnn's name for the set of dimensions in which a post-op's operand is not
 * broadcast. */
static const char *policy_of(const tensor_info_t *operand, const tensor_info_t *dst)
{
    unsigned mask = 0;
    for (int d = 0; d < operand->rank; d++)
        if (operand->sizes[d] == dst->sizes[d] && dst->sizes[d] > 1) mask |= 1U << d;
    switch (mask) {
    case 0: return "common";
    case 1: return "per_dim_0";
    case 2: return "per_oc";
    default: return "per_tensor";
    }
}

static double scale_of(const onednn_quantization_t *q)
{
    return q->has_scale && q->scale != NULL ? (double)q->scale[0] : 1.0;
}

/* Appends scales. Version 2 has one scale, which multiplies sums. If there is a scale for each
 * channel, only the first is printed. */
static void append_scales(text_t *text, const onednn_problem_t *p)
{
    const onednn_quantization_t *src = &p->src_quantization, *weight = &p->weight_quantization,
                                *dst = &p->dst_quantization;
    const char *policy = weight->is_per_channel ? "per_oc" : "common";
    if (!src->has_scale && !weight->has_scale && !dst->has_scale) return;
    if (DNNL_VERSION_MAJOR == 2) {
        double product = scale_of(src) * scale_of(weight);
        bool at_run = (src->has_scale && src->scale == NULL) ||
                      (weight->has_scale && weight->scale == NULL) ||
                      (dst->has_scale && dst->scale == NULL);
        text_append(text, " --attr-oscale=%s:%g%s", policy,
                    p->n_post > 0 ? product : product / scale_of(dst), at_run ? "*" : "");
        return;
    }
    const char *separator = " --attr-scales=";
    if (src->has_scale) text_append(text, "%ssrc:common:%g", separator, scale_of(src));
    if (src->has_scale) separator = "+";
    if (weight->has_scale) text_append(text, "%swei:%s:%g", separator, policy, scale_of(weight));
    if (weight->has_scale) separator = "+";
    if (dst->has_scale) text_append(text, "%sdst:common:%g", separator, scale_of(dst));
}

static void append_quantization(text_t *text, const onednn_problem_t *p)
{
    static const char *const names[] = {"src", "wei", "dst"};
    const onednn_quantization_t *each[] = {&p->src_quantization, &p->weight_quantization,
                                           &p->dst_quantization};
    const char *separator = " --attr-zero-points=";
    append_scales(text, p);
    for (int i = 0; i < 3; i++) {
        if (!each[i]->has_zero) continue;
        text_append(text, "%s%s:common:%d*", separator, names[i],
                    each[i]->zero != NULL ? (int)each[i]->zero[0] : 1);
        separator = "+";
    }
}

static void append_sum(text_t *text, const onednn_problem_t *p, float factor)
{
    const onednn_quantization_t *dst = &p->dst_quantization;
    text_append(text, "sum");
    if (factor != 0.0f) text_append(text, ":%g", (double)factor);
    if (factor != 0.0f) return;
    if (dst->has_scale || dst->has_zero) text_append(text, ":%g", scale_of(dst));
    if (dst->has_zero) text_append(text, ":%d", dst->zero != NULL ? (int)dst->zero[0] : 0);
}

static void append_post_ops(text_t *text, const onednn_problem_t *p)
{
    append_quantization(text, p);
    char tag[FORMAT_TEXT_MAX];
    for (int i = 0; i < p->n_post; i++) {
        const onednn_post_op_t *op = &p->post[i];
        const struct algorithm *algorithm = &algorithms[op->algorithm];
        text_append(text, "%s", i == 0 ? " --attr-post-ops=" : "+");
        switch (op->kind) {
        case ONEDNN_POST_SUM: append_sum(text, p, op->alpha); break;
        case ONEDNN_POST_ELTWISE:
            text_append(text, "%s", algorithm->name);
            if (algorithm->n_parameters == 2)
                text_append(text, ":%g:%g", (double)op->alpha, (double)op->beta);
            else if (algorithm->n_parameters == 1 && op->alpha != 0.0f)
                text_append(text, ":%g", (double)op->alpha);
            break;
        case ONEDNN_POST_BINARY:
            text_append(text, "%s:%s:%s", algorithm->name, dtype_name(op->operand->dtype),
                        policy_of(op->operand, p->dst));
            if (strcmp(policy_of(op->operand, p->dst), "per_tensor") == 0)
                text_append(text, ":%s", tag_of(op->operand, tag));
            break;
        }
    }
    if (DNNL_VERSION_MAJOR == 2 && p->n_post > 0 && p->dst_quantization.has_scale)
        text_append(text, "+linear:%g:0", 1.0 / scale_of(&p->dst_quantization));
}

/* Appends the direction (forward or backward). For some of benchdnn's drivers, only the direction
 * says whether there is a bias. */
static void append_direction(text_t *text, const onednn_problem_t *p)
{
    const char *direction = p->bias != NULL ? "FWD_B" : "FWD_I";
    switch (p->propagation) {
    case ONEDNN_INFERENCE: break;
    case ONEDNN_TRAINING: direction = p->bias != NULL ? "FWD_B" : "FWD_D"; break;
    case ONEDNN_BACKWARD: direction = "BWD_DW"; break;
    case ONEDNN_BACKWARD_DATA: direction = "BWD_D"; break;
    case ONEDNN_BACKWARD_WEIGHT: direction = p->bias != NULL ? "BWD_WB" : "BWD_W"; break;
    }
    text_append(text, " --dir=%s", direction);
}

/* ---- problem descriptors ---- */

/* Letters of the spatial dimensions: "dhw", "hw" or "w". */
static const char *letters_of(const tensor_info_t *info)
{
    return info->rank >= 5 ? "dhw" : info->rank == 4 ? "hw" : "w";
}

/* Appends a text such as "_ih224oh112kh7sh2dh0ph3" for each spatial dimension. Without a window it
 * has only the sizes, without an output only "ih224". */
static void append_spatial(text_t *text, const onednn_problem_t *p, const int64_t *kernel,
                           bool has_output)
{
    int n = p->src[0].rank - 2;
    const char *letters = letters_of(&p->src[0]);
    for (int i = 0; i < n; i++) {
        char at = letters[i];
        text_append(text, "%si%c%lld", has_output ? "_" : "", at,
                    (long long)p->src[0].sizes[2 + i]);
        if (has_output) text_append(text, "o%c%lld", at, (long long)p->dst->sizes[2 + i]);
        if (kernel == NULL) continue;
        text_append(text, "k%c%llds%c%lldd%c%lldp%c%lld", at, (long long)kernel[i], at,
                    (long long)p->stride[i], at, (long long)p->dilation[i] - 1, at,
                    (long long)p->pad_begin[i]);
    }
}

static void append_channels(text_t *text, const onednn_problem_t *p)
{
    text_append(text, " mb%lldic%lld", (long long)p->src[0].sizes[0],
                (long long)p->src[0].sizes[1]);
}

/* Appends a convolution, deconvolution or inner product. --cfg is older than --dt, but both
 * versions accept it. */
static void append_weighted(text_t *text, const onednn_problem_t *p)
{
    const tensor_info_t *infos[] = {&p->src[0], p->weight, p->dst};
    append_direction(text, p);
    append_dtypes(text, "cfg", "", 3, infos);
    append_tag(text, "stag", &p->src[0]);
    append_tag(text, "wtag", p->weight);
    append_tag(text, "dtag", p->dst);
    if (p->algorithm == ONEDNN_WINOGRAD)
        text_append(text, " --alg=%s", algorithms[p->algorithm].name);
    append_post_ops(text, p);
    if (p->kind == ONEDNN_INNER_PRODUCT) {
        append_channels(text, p);
        append_spatial(text, p, NULL, false);
        text_append(text, "oc%lld", (long long)p->dst->sizes[1]);
        return;
    }
    bool is_grouped = p->weight->rank > p->src[0].rank;
    text_append(text, " ");
    if (is_grouped) text_append(text, "g%lld", (long long)p->weight->sizes[0]);
    text_append(text, "mb%lld_ic%lldoc%lld", (long long)p->src[0].sizes[0],
                (long long)p->src[0].sizes[1], (long long)p->dst->sizes[1]);
    append_spatial(text, p, p->weight->sizes + (is_grouped ? 3 : 2), true);
}

static void append_matmul(text_t *text, const onednn_problem_t *p)
{
    const tensor_info_t *infos[] = {&p->src[0], p->weight, p->dst};
    bool is_old = DNNL_VERSION_MAJOR == 2;
    append_dtypes(text, is_old ? "cfg" : "dt", is_old ? "" : ":", 3, infos);
    append_tag(text, "stag", &p->src[0]);
    append_tag(text, "wtag", p->weight);
    append_tag(text, "dtag", p->dst);
    if (p->bias != NULL) {
        unsigned mask = 0;
        for (int d = 0; d < p->bias->rank; d++)
            if (p->bias->sizes[d] == p->dst->sizes[d]) mask |= 1U << d;
        text_append(text, " --bia_dt=%s --bia_mask=%u", dtype_name(p->bias->dtype), mask);
    }
    append_post_ops(text, p);
    append_sizes(text, " ", &p->src[0]);
    append_sizes(text, ":", p->weight);
}

static void append_pooling(text_t *text, const onednn_problem_t *p)
{
    append_direction(text, p);
    text_append(text, " --cfg=%s", dtype_name(p->src[0].dtype));
    append_tag(text, "tag", &p->src[0]);
    text_append(text, " --alg=%s", algorithms[p->algorithm].name);
    append_post_ops(text, p);
    append_channels(text, p);
    append_spatial(text, p, p->kernel, true);
}

static void append_norm(text_t *text, const onednn_problem_t *p)
{
    append_direction(text, p);
    text_append(text, " --dt=%s", dtype_name(p->src[0].dtype));
    append_tag(text, "tag", &p->src[0]);
    if (p->kind == ONEDNN_LRN) {
        text_append(text, " --alg=%s", algorithms[p->algorithm].name);
        append_channels(text, p);
        append_spatial(text, p, NULL, false);
        text_append(text, "_ls%lld_alpha%g_beta%g_k%g", (long long)p->size, (double)p->alpha,
                    (double)p->beta, (double)p->k);
        return;
    }
    const unsigned flags = onednn_norm_flags(p);
    if (flags != 0)
        text_append(text, " --flags=%s%s%s", flags & dnnl_use_global_stats ? "G" : "",
                    p->has_scale ? "CH" : "", p->has_relu ? "R" : "");
    append_post_ops(text, p);
    if (p->kind == ONEDNN_LAYER_NORM) {
        append_sizes(text, " ", &p->src[0]);
        return;
    }
    append_channels(text, p);
    append_spatial(text, p, NULL, false);
    text_append(text, "_eps%g", (double)p->epsilon);
}

static void append_eltwise(text_t *text, const onednn_problem_t *p)
{
    const struct algorithm *algorithm = &algorithms[p->algorithm];
    append_direction(text, p);
    text_append(text, " --dt=%s", dtype_name(p->src[0].dtype));
    append_tag(text, "tag", &p->src[0]);
    text_append(text, " --alg=%s%s --alpha=%g --beta=%g", algorithm->name,
                p->from_dst ? "_dst" : "", algorithm->n_parameters >= 1 ? (double)p->alpha : 0.0,
                algorithm->n_parameters == 2 ? (double)p->beta : 0.0);
    append_post_ops(text, p);
    append_sizes(text, " ", &p->src[0]);
}

static void append_binary(text_t *text, const onednn_problem_t *p)
{
    char a[FORMAT_TEXT_MAX], b[FORMAT_TEXT_MAX];
    text_append(text, " --alg=%s --sdt=%s:%s --ddt=%s --stag=%s:%s", algorithms[p->algorithm].name,
                dtype_name(p->src[0].dtype), dtype_name(p->src[1].dtype), dtype_name(p->dst->dtype),
                tag_of(&p->src[0], a), tag_of(&p->src[1], b));
    append_post_ops(text, p);
    append_sizes(text, " ", &p->src[0]);
    append_sizes(text, ":", &p->src[1]);
}

/* Appends a softmax or reorder, which have separate options for source and destination. */
static void append_converting(text_t *text, const onednn_problem_t *p)
{
    if (p->kind == ONEDNN_SOFTMAX) append_direction(text, p);
    text_append(text, " --sdt=%s --ddt=%s", dtype_name(p->src[0].dtype), dtype_name(p->dst->dtype));
    append_tag(text, "stag", &p->src[0]);
    append_tag(text, "dtag", p->dst);
    if (p->kind == ONEDNN_SOFTMAX)
        text_append(text, " --alg=%s --axis=%d", algorithms[p->algorithm].name, p->axis);
    append_post_ops(text, p);
    append_sizes(text, " ", &p->src[0]);
}

static void append_resampling(text_t *text, const onednn_problem_t *p)
{
    append_direction(text, p);
    text_append(text, " --sdt=%s --ddt=%s", dtype_name(p->src[0].dtype), dtype_name(p->dst->dtype));
    append_tag(text, "tag", &p->src[0]);
    text_append(text, " --alg=%s", algorithms[p->algorithm].name);
    append_post_ops(text, p);
    append_channels(text, p);
    append_spatial(text, p, NULL, true);
}

/* Appends a recurrent layer, without formats. benchdnn's dic is the hidden size, or the size of the
 * projection. */
static void append_recurrent(text_t *text, const onednn_problem_t *p)
{
    static const char *const directions[] = {[ONEDNN_LEFT_TO_RIGHT] = "left2right",
                                             [ONEDNN_RIGHT_TO_LEFT] = "right2left",
                                             [ONEDNN_BOTH_CONCATENATED] = "concat",
                                             [ONEDNN_BOTH_SUMMED] = "sum"};
    const tensor_info_t *layer = &p->weight[0], *iter = &p->weight[1];
    bool is_projected = p->weight[3].dtype != DTYPE_NONE;
    const char *prop = p->propagation == ONEDNN_INFERENCE  ? "FWD_I"
                       : p->propagation == ONEDNN_TRAINING ? "FWD_D"
                                                           : "BWD_DW";
    text_append(text, " --prop=%s --cfg=%s --alg=%s --direction=%s", prop,
                dtype_name(p->src[0].dtype), algorithms[p->algorithm].name,
                directions[p->direction]);
    if (p->algorithm == ONEDNN_RNN_TANH) text_append(text, " --activation=TANH");
    if (p->algorithm == ONEDNN_RNN_RELU) text_append(text, " --activation=RELU");
    if (p->weight[2].dtype != DTYPE_NONE) text_append(text, " --with-peephole=true");
    if (is_projected) text_append(text, " --with-projection=true");
    text_append(text, " l%lldt%lldmb%lldsic%lldslc%llddhc%llddic%lld", (long long)layer->sizes[0],
                (long long)p->src[0].sizes[0], (long long)p->src[0].sizes[1],
                (long long)iter->sizes[2], (long long)layer->sizes[2], (long long)layer->sizes[4],
                (long long)(is_projected ? p->weight[3].sizes[3] : layer->sizes[4]));
}

/* Replaces gradients by the tensors to which they belong, because benchdnn describes a gradient by
 * the dtype, sizes and format of this tensor. */
static onednn_problem_t without_gradients(const onednn_problem_t *problem)
{
    onednn_problem_t p = *problem;
    if (p.n_src == 0) p.src = p.diff_src;
    if (p.weight == NULL) p.weight = p.diff_weight;
    if (p.bias == NULL) p.bias = p.diff_bias;
    if (p.dst == NULL) p.dst = p.diff_dst;
    return p;
}

void onednn_repro_problem(const onednn_problem_t *problem, text_t *text)
{
    const onednn_problem_t whole = without_gradients(problem), *p = &whole;
    text_append(text, "./benchdnn --%s --allow-enum-tags-only=0", drivers[p->kind]);
    switch (p->kind) {
    case ONEDNN_CONVOLUTION:
    case ONEDNN_DECONVOLUTION:
    case ONEDNN_INNER_PRODUCT: append_weighted(text, p); break;
    case ONEDNN_MATMUL: append_matmul(text, p); break;
    case ONEDNN_POOLING: append_pooling(text, p); break;
    case ONEDNN_BATCH_NORM:
    case ONEDNN_LAYER_NORM:
    case ONEDNN_LRN: append_norm(text, p); break;
    case ONEDNN_ELTWISE: append_eltwise(text, p); break;
    case ONEDNN_BINARY: append_binary(text, p); break;
    case ONEDNN_SOFTMAX:
    case ONEDNN_REORDER: append_converting(text, p); break;
    case ONEDNN_RESAMPLING: append_resampling(text, p); break;
    case ONEDNN_RNN: append_recurrent(text, p); break;
    }
}

/* ---- primitives ---- */

/* Returns the primitive's info for an argument; with FORMAT_ANY if no tag describes its format. */
static tensor_info_t settle(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                            const tensor_info_t *given)
{
    tensor_info_t info;
    if (onednn_query(ctx, primitive, argument, &info) == STATUS_OK) return info;
    info = *given;
    info.format = (format_t){.kind = FORMAT_ANY};
    return info;
}

void onednn_repro(const onednn_primitive_t *primitive, text_t *text)
{
    onednn_problem_t p = *primitive->problem;
    tensor_info_t infos[ONEDNN_ARGUMENT_COUNT] = {0};
    for (int i = 0; i < ONEDNN_ARGUMENT_COUNT; i++) {
        const tensor_info_t *given = onednn_operand(&p, i);
        if (given != NULL) infos[i] = settle(text->ctx, primitive, i, given);
    }
    p.src = &infos[ONEDNN_ARGUMENT_SRC];
    if (p.weight != NULL) p.weight = &infos[ONEDNN_ARGUMENT_WEIGHT];
    if (p.dst != NULL) p.dst = &infos[ONEDNN_ARGUMENT_DST];
    if (p.diff_src != NULL) p.diff_src = &infos[ONEDNN_ARGUMENT_DIFF_SRC];
    if (p.diff_weight != NULL) p.diff_weight = &infos[ONEDNN_ARGUMENT_DIFF_WEIGHT];
    if (p.diff_dst != NULL) p.diff_dst = &infos[ONEDNN_ARGUMENT_DIFF_DST];
    onednn_repro_problem(&p, text);
}
