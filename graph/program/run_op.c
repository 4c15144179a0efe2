/* Runs operators on datums. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/program/run_inside_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* Releases a tensor that this file created, after removing it from any open scope. */
static void drop(context_t *ctx, tensor_t *tensor)
{
    scope_take(ctx, tensor);
    tensor_drop(tensor);
}

static status_t number_of(context_t *ctx, const char *op, const datum_t *datum, tensor_t **out)
{
    switch (datum_kind(datum)) {
    case DATUM_INT: return tensor_integer(ctx, datum_as_int(datum), out);
    case DATUM_FLOAT: return tensor_number(ctx, datum_as_float(datum), out);
    case DATUM_BOOL: return tensor_full(ctx, DTYPE_BOOL, 0, NULL, datum_as_bool(datum), out);
    default:
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "%s: an operand of kind %s, must be a tensor or a number", op,
             datum_kind_name(datum_kind(datum)));
    }
}

/* Operands for dispatch. `made` marks number tensors that were created for the call. */
typedef struct operands {
    int n;
    tensor_t *tensors[OP_MAX_INPUTS];
    bool made[OP_MAX_INPUTS];
} operands_t;

static status_t add_operand(context_t *ctx, const char *op, const datum_t *datum,
                            operands_t *operands)
{
    datum_kind_t kind = datum != NULL ? datum_kind(datum) : DATUM_NONE;
    if (kind == DATUM_LIST || kind == DATUM_TUPLE) {
        for (int i = 0; i < datum_length(datum); i++)
            TRY(add_operand(ctx, op, datum_item(datum, i), operands));
        return STATUS_OK;
    }
    REQUIRE(ctx, operands->n < OP_MAX_INPUTS, "%s: more than %d operands", op, OP_MAX_INPUTS);
    tensor_t *tensor = NULL;
    bool made = false;
    if (kind == DATUM_TENSOR) {
        tensor = datum_as_tensor(datum);
    } else if (kind != DATUM_NONE) {
        TRY(number_of(ctx, op, datum, &tensor));
        made = true;
    }
    operands->tensors[operands->n] = tensor;
    operands->made[operands->n++] = made;
    return STATUS_OK;
}

static status_t run_on_tensors(context_t *ctx, const opdef_t *op, const void *attrs,
                               const operands_t *operands, weight_use_t weights,
                               const format_t *out_format, int n_out, datum_t **out)
{
    tensor_t *results[OP_MAX_OUTPUTS] = {NULL};
    datum_t *datums[OP_MAX_OUTPUTS] = {NULL};
    int n = OP_MAX_OUTPUTS;
    TRY(dispatch_run_as(ctx, op, attrs, operands->n, (const tensor_t *const *)operands->tensors,
                        weights, out_format, &n, results));
    status_t status = STATUS_OK;
    if (n != n_out)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "%s: returns %d tensors, the graph takes %d", op->name, n, n_out);
    for (int i = 0; i < n; i++) {
        if (status == STATUS_OK) status = datum_tensor(ctx, results[i], &datums[i]);
        drop(ctx, results[i]);
    }
    if (status == STATUS_OK) {
        memcpy(out, datums, (size_t)n * sizeof *out);
        return STATUS_OK;
    }
    for (int i = 0; i < n; i++) datum_release(datums[i]);
    return status;
}

status_t run_op(context_t *ctx, const opdef_t *op, const void *attrs, int n_in, datum_t *const *in,
                weight_use_t weights, const format_t *out_format, int n_out, datum_t **out)
{
    operands_t operands = {.n = 0};
    status_t status = STATUS_OK;
    for (int i = 0; i < n_in && status == STATUS_OK; i++)
        status = add_operand(ctx, op->name, in[i], &operands);
    if (status == STATUS_OK)
        status = run_on_tensors(ctx, op, attrs, &operands, weights, out_format, n_out, out);
    for (int i = 0; i < operands.n; i++) {
        if (operands.made[i]) drop(ctx, operands.tensors[i]);
    }
    return status;
}

status_t run_op_in_place(context_t *ctx, const graph_node_t *node, const void *attrs,
                         datum_t *const *in, datum_t **out)
{
    operands_t operands = {.n = 0};
    status_t status = STATUS_OK;
    for (int i = 0; i < node->n_inputs && status == STATUS_OK; i++)
        status = add_operand(ctx, node->op->name, in[i], &operands);
    if (status == STATUS_OK)
        status = dispatch_run_in_place(ctx, node->op, attrs, operands.tensors[0], operands.n - 1,
                                       (const tensor_t *const *)&operands.tensors[1]);
    for (int i = 0; i < operands.n; i++)
        if (operands.made[i]) drop(ctx, operands.tensors[i]);
    if (status == STATUS_OK) *out = datum_retain(in[0]);
    return status;
}

status_t run_write_in_place(context_t *ctx, const graph_node_t *node, datum_t *target,
                            datum_t **result)
{
    REQUIRE(ctx, node->n_outputs == 1 && datum_kind(target) == DATUM_TENSOR,
            "%s_: operand 0 is not a tensor, must be one to be written in place", node->op->name);
    tensor_t *dst = datum_as_tensor(target);
    const tensor_t *src = datum_as_tensor(*result);
    if (dst != src) {
        REQUIRE(ctx,
                tensor_dtype(dst) == tensor_dtype(src) &&
                    shape_equal(tensor_rank(dst), tensor_sizes(dst), tensor_rank(src),
                                tensor_sizes(src)),
                "%s_: operand 0 is %s, the result %s cannot be written into it", node->op->name,
                tensor_text(dst), tensor_text(src));
        TRY(tensor_copy(ctx, dst, src));
    }
    datum_release(*result);
    *result = datum_retain(target);
    return STATUS_OK;
}

bool run_is_blocked(const datum_t *datum)
{
    return datum != NULL && datum_kind(datum) == DATUM_TENSOR &&
           tensor_layout(datum_as_tensor(datum)) == LAYOUT_MKLDNN;
}

status_t run_make_dense(context_t *ctx, datum_t **datum)
{
    const tensor_info_t *info = tensor_info(datum_as_tensor(*datum));
    tensor_info_t want = info_dense(info->dtype, info->rank, info->sizes);
    tensor_t *dense = NULL;
    datum_t *wrapped = NULL;
    TRY(convert_to(ctx, datum_as_tensor(*datum), &want, CAUSE_OUTPUT, &dense));
    status_t status = datum_tensor(ctx, dense, &wrapped);
    tensor_drop(dense);
    TRY(status);
    datum_release(*datum);
    *datum = wrapped;
    return STATUS_OK;
}
