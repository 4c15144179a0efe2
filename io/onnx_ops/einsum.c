/* Einsum, decomposed into other operators. */
#include "io/onnx/node_impl.h"

#include <string.h>

#include "ops/linear/einsum_impl.h"

static status_t make_reshape(void *user, int x, int rank, const int64_t *sizes, int *out)
{
    return onnx_reshape(user, x, rank, sizes, out);
}

static status_t make_permute(void *user, int x, int n, const int64_t *dims, int *out)
{
    return onnx_permute(user, x, n, dims, out);
}

static status_t make_stride(void *user, int x, int rank, int64_t size, int64_t step, int *out)
{
    return onnx_slice(user, x, rank - 1, 0, size, step, out);
}

/* sum returns s64 for integers, so the result is cast back. */
static status_t make_sum(void *user, int x, int n, const int64_t *dims, int *out)
{
    onnx_node_t *node = user;
    const dtype_t dtype = onnx_info(node->onnx, x)->dtype;
    TRY(onnx_op(node, "sum", ONNX_ATTRS(SET_INTS("dims", n, dims)), 1, &x, out));
    return onnx_cast(node, *out, dtype, out);
}

static status_t make_mul(void *user, int a, int b, int *out)
{
    return onnx_binary(user, "mul", a, b, out);
}

static status_t make_matmul(void *user, int a, int b, int *out)
{
    return onnx_binary(user, "matmul", a, b, out);
}

status_t onnx_import_einsum(onnx_node_t *node)
{
    const einsum_maker_t maker = {node,     make_reshape, make_permute, make_stride,
                                  make_sum, make_mul,     make_matmul};
    context_t *ctx = node->onnx->ctx;
    tensor_info_t copies[EINSUM_MAX_OPERANDS];
    const tensor_info_t *infos[EINSUM_MAX_OPERANDS];
    const Onnx__AttributeProto *equation = onnx_attr(node, "equation");
    char text[256] = "";
    if (equation == NULL || equation->s.data == NULL || equation->s.len >= sizeof text)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "equation is missing, or has %d characters and more",
             (int)sizeof text);
    memcpy(text, equation->s.data, equation->s.len);
    TRY(onnx_check_inputs(node, 0, node->n_in));
    for (int i = 0; i < node->n_in && i < EINSUM_MAX_OPERANDS; i++) {
        copies[i] = onnx_input_info(node, i);
        infos[i] = &copies[i];
    }
    return einsum_make(ctx, text, node->n_in, infos, node->in, &maker, &node->out[0]);
}
