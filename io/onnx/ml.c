/* Functions shared by the importers of ai.onnx.ml. */
#include "io/onnx/ml_impl.h"

#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- attributes ---- */

static status_t fail_kind(onnx_node_t *node, const char *name, const char *kind)
{
    FAIL(node->onnx->ctx, STATUS_CORRUPT, "attribute %s is no list of %s", name, kind);
}

static bool is_type(const Onnx__AttributeProto *attr, Onnx__AttributeProto__AttributeType type)
{
    return !attr->has_type || attr->type == type ||
           attr->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

status_t ml_read_ints(onnx_node_t *node, const char *name, ml_ints_t *out)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out = (ml_ints_t){0, NULL};
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS))
        return fail_kind(node, name, "integers");
    *out = (ml_ints_t){attr->n_ints, attr->ints};
    return STATUS_OK;
}

status_t ml_read_floats(onnx_node_t *node, const char *name, ml_floats_t *out)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out = (ml_floats_t){0, NULL};
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS))
        return fail_kind(node, name, "floats");
    *out = (ml_floats_t){attr->n_floats, attr->floats};
    return STATUS_OK;
}

status_t ml_count_strings(onnx_node_t *node, const char *name, size_t *out_n)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out_n = 0;
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS))
        return fail_kind(node, name, "texts");
    *out_n = attr->n_strings;
    return STATUS_OK;
}

/* ---- items ---- */

status_t ml_known(onnx_node_t *node, dtype_t dtype, int rank, const int64_t *sizes,
                  const void *elements, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(shape_check(ctx, "a list", dtype, rank, sizes));
    const tensor_info_t info = info_dense(dtype, rank, sizes);
    TRY(tensor_make(ctx, &info, &tensor));
    TRY_OR(tensor_writable(ctx, tensor, &bytes), tensor_drop(tensor));
    if (info_bytes(&info) > 0) memcpy(bytes, elements, info_bytes(&info));
    return onnx_item_take(node->onnx, NULL, tensor, out);
}

status_t ml_reduce(onnx_node_t *node, const char *op, int dim, item_t x, item_t *out)
{
    const int64_t dims[] = {dim};
    return onnx_op(node, op, ONNX_ATTRS(SET_INTS("dims", 1, dims), SET("keepdim", true)), 1, &x,
                   out);
}

status_t ml_rows(onnx_node_t *node, bool keeps_wide, item_t *out)
{
    const tensor_info_t info = onnx_input_info(node, 0);
    const int64_t sizes[] = {1, info.rank == 1 ? info.sizes[0] : 0};
    *out = node->in[0];
    if (info.rank < 1 || info.rank > 2)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is %s, rows of features are needed",
             onnx_brief(node, &info));
    if (info.rank == 1) TRY(onnx_reshape(node, *out, 2, sizes, out));
    return info.dtype == DTYPE_F64 && keeps_wide ? STATUS_OK
                                                 : onnx_cast(node, *out, DTYPE_F32, out);
}

/* ---- scores ---- */

status_t ml_read_transform(onnx_node_t *node, ml_transform_t *out)
{
    static const char *const names[] = {"NONE",         "SOFTMAX", "LOGISTIC",
                                        "SOFTMAX_ZERO", "PROBIT",  NULL};
    int transform = ML_NONE;
    TRY(onnx_attr_name(node, "post_transform", names, ML_NONE, &transform));
    if (transform == ML_PROBIT)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "post_transform \"PROBIT\"");
    *out = (ml_transform_t)transform;
    return STATUS_OK;
}

/* Softmax that ignores zeros: their results are 0. */
static status_t softmax_zero(onnx_node_t *node, item_t x, item_t *out)
{
    item_t largest, is_some, powers, sums, zero;
    TRY(ml_reduce(node, "amax", 1, x, &largest));
    TRY(onnx_binary(node, "sub", x, largest, &powers));
    TRY(onnx_unary(node, "exp", powers, &powers));
    TRY(onnx_unary(node, "abs", x, &is_some));
    TRY(onnx_with_number(node, "gt", is_some, 1e-7, &is_some));
    TRY(onnx_number(node->onnx, 0.0, &zero));
    TRY(onnx_op(node, "where", NULL, 3, (const item_t[]){is_some, powers, zero}, &powers));
    TRY(ml_reduce(node, "sum", 1, powers, &sums));
    return onnx_binary(node, "div", powers, sums, out);
}

status_t ml_transform(onnx_node_t *node, ml_transform_t transform, item_t scores, item_t *out)
{
    *out = scores;
    if (transform == ML_LOGISTIC) return onnx_unary(node, "sigmoid", scores, out);
    if (transform == ML_SOFTMAX_ZERO) return softmax_zero(node, scores, out);
    if (transform != ML_SOFTMAX) return STATUS_OK;
    return onnx_op(node, "softmax", ONNX_ATTRS(SET("dim", 1)), 1, &scores, out);
}

status_t ml_add_first_class(onnx_node_t *node, ml_transform_t transform, bool is_positive,
                            item_t scores, item_t *out)
{
    item_t both[2] = {scores, scores};
    const bool is_logistic = transform == ML_LOGISTIC;
    if (is_logistic) TRY(onnx_unary(node, "sigmoid", scores, &both[1]));
    TRY(onnx_unary(node, "neg", both[1], &both[0]));
    if (is_logistic || is_positive) TRY(onnx_with_number(node, "add", both[0], 1.0, &both[0]));
    return onnx_op(node, "concat", ONNX_ATTRS(SET("dim", 1)), 2, both, out);
}

status_t ml_label_largest(onnx_node_t *node, ml_ints_t labels, item_t scores)
{
    const int64_t n = (int64_t)labels.n;
    item_t index, known;
    if (labels.n == 0 || !onnx_wants(node, 0)) return STATUS_OK;
    TRY(ml_known(node, DTYPE_S64, 1, &n, labels.at, &known));
    TRY(onnx_op(node, "argmax", ONNX_ATTRS(SET_INTS("dims", 1, (const int64_t[]){1})), 1, &scores,
                &index));
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", 0)), 2, (const item_t[]){known, index},
                   &node->out[0]);
}

status_t ml_label_above(onnx_node_t *node, const int64_t *labels, item_t score, double threshold)
{
    item_t in[3];
    const int64_t dims[] = {1};
    if (labels == NULL || !onnx_wants(node, 0)) return STATUS_OK;
    TRY(onnx_op(node, "squeeze", ONNX_ATTRS(SET_INTS("dims", 1, dims)), 1, &score, &in[0]));
    TRY(onnx_with_number(node, "gt", in[0], threshold, &in[0]));
    for (int i = 0; i < 2; i++) TRY(ml_known(node, DTYPE_S64, 0, NULL, &labels[1 - i], &in[1 + i]));
    return onnx_op(node, "where", NULL, 3, in, &node->out[0]);
}

/* ---- strings ---- */

bool ml_gives_text(const Onnx__NodeProto *proto)
{
    if (proto->domain == NULL || strcmp(proto->domain, "ai.onnx.ml") != 0) return false;
    for (size_t i = 0; i < proto->n_attribute; i++)
        if (proto->attribute[i]->name != NULL && proto->attribute[i]->n_strings > 0 &&
            strcmp(proto->attribute[i]->name, "classlabels_strings") == 0)
            return true;
    return false;
}

status_t ml_bind_text(onnx_t *onnx, const char *name)
{
    item_t item;
    TRY(onnx_value(onnx, name, &(tensor_info_t){.dtype = DTYPE_NONE}, &item));
    onnx->items[item].is_missing = onnx->items[item].is_text = true;
    return onnx_bind(onnx, name, item);
}

status_t ml_pass_text(onnx_t *onnx, const Onnx__NodeProto *proto, bool *out_is_text)
{
    *out_is_text = false;
    for (size_t i = 0; i < proto->n_input; i++) {
        const item_t item = *proto->input[i] != '\0' ? onnx_find(onnx, proto->input[i]) : ITEM_NONE;
        *out_is_text |= item != ITEM_NONE && onnx->items[item].is_text;
    }
    for (size_t i = 0; i < proto->n_output && *out_is_text; i++)
        if (*proto->output[i] != '\0') TRY(ml_bind_text(onnx, proto->output[i]));
    return STATUS_OK;
}

/* True if the file declares the output as a string tensor. */
static bool is_declared_text(const Onnx__ValueInfoProto *output)
{
    const Onnx__TypeProto *type = output->type;
    return type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
           type->tensor_type != NULL &&
           type->tensor_type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING;
}

static bool is_text_output(const onnx_t *onnx, const Onnx__ValueInfoProto *output)
{
    const item_t item = output->name != NULL ? onnx_find(onnx, output->name) : ITEM_NONE;
    return item != ITEM_NONE && onnx->items[item].is_text;
}

status_t ml_drop_texts(onnx_t *onnx)
{
    Onnx__GraphProto *graph = onnx->model->graph;
    size_t n = 0, n_texts = 0;
    for (size_t i = 0; i < graph->n_output; i++) {
        if (!is_text_output(onnx, graph->output[i])) continue;
        if (!is_declared_text(graph->output[i]) || ++n_texts == graph->n_output)
            FAIL(onnx->ctx, STATUS_UNSUPPORTED,
                 "onnx: output \"%.200s\" is made of texts, tensors of texts are not supported",
                 graph->output[i]->name);
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        if (is_text_output(onnx, graph->output[i]))
            onnx__value_info_proto__free_unpacked(graph->output[i], &onnx->allocator);
        else
            graph->output[n++] = graph->output[i];
    }
    graph->n_output = n;
    return STATUS_OK;
}
