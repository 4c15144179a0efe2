/* The functions that gradient rules call. They pass each operator on to the emitter's class, until
 * one fails. */
#include "dispatch/emitter_impl.h"

#include <stdarg.h>
#include <stdio.h>

#include "tensor/tensor_impl.h"

static bool goes_on(emitter_t *emitter, status_t status)
{
    if (emitter == NULL) return false;
    if (emitter->status == STATUS_OK) emitter->status = status;
    return emitter->status == STATUS_OK;
}

value_t emit_op(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
                const value_t *in)
{
    value_t out = VALUE_NONE;
    emit_op_n(emitter, op, attrs, n_in, in, 1, &out);
    return out;
}

void emit_op_n(emitter_t *emitter, const opdef_t *op, const void *attrs, int n_in,
               const value_t *in, int n_out, value_t *out_values)
{
    for (int i = 0; i < n_out && out_values != NULL; i++) out_values[i] = VALUE_NONE;
    if (!goes_on(emitter, STATUS_OK) || op == NULL || in == NULL || out_values == NULL) return;
    status_t status = emitter->class_->op(emitter, op, attrs, n_in, in, n_out, out_values);
    if (goes_on(emitter, status)) return;
    for (int i = 0; i < n_out; i++) out_values[i] = VALUE_NONE;
}

value_t emit_number(emitter_t *emitter, double number)
{
    tensor_t *tensor = NULL;
    value_t value = VALUE_NONE;
    if (!goes_on(emitter, STATUS_OK)) return VALUE_NONE;
    tensor_info_t info = info_dense(DTYPE_F64, 0, NULL);
    info.is_number = true;
    void *bytes = NULL;
    if (!goes_on(emitter, tensor_make(emitter->ctx, &info, &tensor))) return VALUE_NONE;
    status_t status = tensor_writable(emitter->ctx, tensor, &bytes);
    if (status != STATUS_OK) {
        tensor_drop(tensor);
    } else {
        *(double *)bytes = number;
        status = emitter->class_->constant(emitter, tensor, &value);
    }
    return goes_on(emitter, status) ? value : VALUE_NONE;
}

const tensor_info_t *emit_info(emitter_t *emitter, value_t value)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    if (value == VALUE_NONE || !goes_on(emitter, STATUS_OK)) return &absent;
    return emitter->class_->info(emitter, value);
}

void emit_fail(emitter_t *emitter, status_t status, const char *format, ...)
{
    char message[CONTEXT_ERROR_MAX];
    va_list list;
    if (!goes_on(emitter, STATUS_OK) || format == NULL) return;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    goes_on(emitter, context_fail(emitter->ctx, status, "%s", message));
}

static void check_result(const gradient_call_t *call, int i)
{
    emitter_t *emitter = call->emitter;
    if (call->in_grad[i] == VALUE_NONE) return;
    const tensor_info_t in = *emit_info(emitter, call->in[i]);
    const tensor_info_t got = *emit_info(emitter, call->in_grad[i]);
    if (got.dtype != in.dtype || !shape_equal(got.rank, got.sizes, in.rank, in.sizes))
        emit_fail(emitter, STATUS_INVALID_ARGUMENT,
                  "%s: its gradient rule returns %s for input %d, which is %s", call->op->name,
                  info_brief(&got), i, info_brief(&in));
}

status_t gradient_pass(const gradient_call_t *call)
{
    emitter_t *emitter = call->emitter;
    const opdef_t *op = call->op;
    if (op->gradient == NULL)
        FAIL(emitter->ctx, STATUS_UNSUPPORTED, "%s: has no gradient rule", op->name);
    const post_ops_t *post = (op->traits & TRAIT_POST_OPS) != 0
                                 ? attrs_post(&op->attrs, call->attrs)
                                 : NULL;
    if (post != NULL && post->n > 0)
        FAIL(emitter->ctx, STATUS_UNSUPPORTED,
             "%s: has post-ops, gradients need an operator without post-ops", op->name);
    for (int i = 0; i < call->n_in; i++) call->in_grad[i] = VALUE_NONE;
    op->gradient->pass(call);
    for (int i = 0; i < call->n_in && emitter->status == STATUS_OK; i++) check_result(call, i);
    return emitter->status;
}
