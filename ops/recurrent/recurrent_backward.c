/* Gradients of recurrent layers: operators, inference and the backward rule. */
#include <string.h>

#include "ops/gradient_impl.h"
#include "ops/ops_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- operands ---- */

#define LAYER                                                                                      \
    {"x", ROLE_ACTIVATION, false, false}, {"weight_ih", ROLE_WEIGHT, false, false},                \
        {"weight_hh", ROLE_WEIGHT, false, false}, {"bias_ih", ROLE_BIAS, true, false},             \
        {"bias_hh", ROLE_BIAS, true, false}, {"h0", ROLE_ACTIVATION, true, false},                 \
    {                                                                                              \
        "lengths", ROLE_STATE, true, false                                                         \
    }
#define GRADS                                                                                      \
    {"grad_y", ROLE_ACTIVATION, true, false},                                                      \
    {                                                                                              \
        "grad_h", ROLE_ACTIVATION, true, false                                                     \
    }

static const operand_t operands[] = {LAYER, GRADS};
static const operand_t lstm_operands[] = {LAYER,
                                          {"c0", ROLE_ACTIVATION, true, false},
                                          {"peephole", ROLE_BIAS, true, false},
                                          GRADS,
                                          {"grad_c", ROLE_ACTIVATION, true, false}};

/* For each result, the operand of the layer whose gradient it is. */
static const int operand_of[RECURRENT_N_DIFFS] = {[RECURRENT_DIFF_X] = RECURRENT_X,
                                                  [RECURRENT_DIFF_WEIGHT_IH] = RECURRENT_WEIGHT_IH,
                                                  [RECURRENT_DIFF_WEIGHT_HH] = RECURRENT_WEIGHT_HH,
                                                  [RECURRENT_DIFF_BIAS_IH] = RECURRENT_BIAS_IH,
                                                  [RECURRENT_DIFF_BIAS_HH] = RECURRENT_BIAS_HH,
                                                  [RECURRENT_DIFF_H0] = RECURRENT_H0,
                                                  [RECURRENT_DIFF_C0] = RECURRENT_C0,
                                                  [RECURRENT_DIFF_PEEPHOLE] = RECURRENT_PEEPHOLE};

/* ---- inference ---- */

static status_t check_grads(context_t *ctx, const op_call_t *call, const tensor_info_t *results)
{
    const int first = recurrent_grad(call->op);
    for (int i = first; i < call->op->n_operands; i++) {
        const tensor_info_t *grad = call->in[i], *result = &results[i - first];
        REQUIRE(ctx, grad->dtype == DTYPE_NONE || sizes_are_like(ctx, grad, result),
                "%s: %s is %s, the layer gives %s", call->op->name, call->op->operands[i].name,
                info_brief(grad), info_brief(result));
    }
    return STATUS_OK;
}

static status_t recurrent_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                         tensor_info_t *out)
{
    tensor_info_t results[3];
    const recurrent_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[RECURRENT_X];
    if (call->op->variant == RECURRENT_GRU && attrs->reset_before)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "%s: reset_before=true, gradients pass layers that reset behind the product",
             call->op->name);
    TRY(recurrent_infer(ctx, call, out_n, results));
    TRY(check_grads(ctx, call, results));
    const recurrent_sizes_t s = recurrent_sizes(call->op, attrs, x, call->in[RECURRENT_WEIGHT_HH]);
    const int64_t rows = sym_multiply(ctx, s.g, s.h), peephole = sym_multiply(ctx, 3, s.h);
    out[RECURRENT_DIFF_X] = info_dense(x->dtype, 3, x->sizes);
    out[RECURRENT_DIFF_WEIGHT_IH] = info_dense(x->dtype, 2, (int64_t[]){rows, s.c});
    out[RECURRENT_DIFF_WEIGHT_HH] = info_dense(x->dtype, 2, (int64_t[]){rows, s.h});
    out[RECURRENT_DIFF_BIAS_IH] = out[RECURRENT_DIFF_BIAS_HH] = info_dense(x->dtype, 1, &rows);
    out[RECURRENT_DIFF_H0] = info_dense(x->dtype, 2, (int64_t[]){s.n, s.h});
    if (call->op->variant != RECURRENT_LSTM) return STATUS_OK;
    out[RECURRENT_DIFF_C0] = out[RECURRENT_DIFF_H0];
    out[RECURRENT_DIFF_PEEPHOLE] = info_dense(x->dtype, 1, &peephole);
    return STATUS_OK;
}

/* ---- the rule ---- */

static void recurrent_backward_pass(const gradient_call_t *call)
{
    static const opdef_t *const backward[] = {[RECURRENT_RNN] = &op_def_rnn_backward,
                                              [RECURRENT_GRU] = &op_def_gru_backward,
                                              [RECURRENT_LSTM] = &op_def_lstm_backward};
    const opdef_t *op = backward[call->op->variant];
    value_t in[RECURRENT_N_OPERANDS + 3], out[RECURRENT_N_DIFFS];
    for (int i = 0; i < op->n_operands; i++)
        in[i] = i < call->n_in ? call->in[i] : call->out_grad[i - call->n_in];
    emit_op_n(call->emitter, op, call->attrs, op->n_operands, in, op->n_outputs, out);
    for (int i = 0; i < op->n_outputs; i++)
        if (call->in[operand_of[i]] != VALUE_NONE) call->in_grad[operand_of[i]] = out[i];
}

const gradient_t recurrent_gradient = {.pass = recurrent_backward_pass,
                                       .reads_in = ((uint64_t)1 << RECURRENT_N_OPERANDS) - 1};

/* ---- definitions ---- */

#define DEFINE(op, which, its_operands, n_results)                                                 \
    const opdef_t op_def_##op##_backward = {                                                       \
        .name = #op "_backward",                                                                   \
        .variant = which,                                                                          \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(recurrent_attrs_t),                                                       \
                  (int)(sizeof recurrent_##op##_fields / sizeof *(recurrent_##op##_fields)),       \
                  recurrent_##op##_fields},                                                        \
        .n_operands = (int)(sizeof its_operands / sizeof *(its_operands)),                         \
        .operands = its_operands,                                                                  \
        .n_outputs = n_results,                                                                    \
        .infer = recurrent_backward_infer,                                                         \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(&recurrent_backward_native),                                            \
        .cancels = 1.0, /* as for the layer, see recurrent.c */                                    \
        .spec = recurrent_backward_spec}

DEFINE(lstm, RECURRENT_LSTM, lstm_operands, RECURRENT_N_DIFFS);
DEFINE(gru, RECURRENT_GRU, operands, RECURRENT_DIFF_C0);
DEFINE(rnn, RECURRENT_RNN, operands, RECURRENT_DIFF_C0);
