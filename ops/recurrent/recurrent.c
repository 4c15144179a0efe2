/* Recurrent layers lstm, gru and rnn: attributes, inference, activations and definitions. */
#include <math.h>

#include "ops/accept_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/ops_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- attributes ---- */

static const char *const function_names[] = {
    "usual",       "sigmoid",     "tanh", "relu",     "affine",   "leaky_relu", "thresholded_relu",
    "scaled_tanh", "hardsigmoid", "elu",  "softsign", "softplus", NULL};

static const char *const algorithm_names[] = {"direct", "strassen", "strassen_only", NULL};

#define FLAG(name) FIELD_BOOL(recurrent_attrs_t, name, 0)
#define ACTIVATION(text, name, usual)                                                              \
    {text, ATTR_NAME, true, offsetof(recurrent_attrs_t, name.function), 0, usual, function_names}, \
        {text "_alpha", ATTR_FLOAT, false, offsetof(recurrent_attrs_t, name.alpha), 0, 0, NULL},   \
    {                                                                                              \
        text "_beta", ATTR_FLOAT, false, offsetof(recurrent_attrs_t, name.beta), 0, 0, NULL        \
    }
#define COMMON FLAG(reverse), FLAG(batch_first), FIELD_FLOAT(recurrent_attrs_t, clip, 0)

const attr_field_t recurrent_lstm_fields[] = {
    COMMON,
    FLAG(input_forget),
    ACTIVATION("gate", gate, RECURRENT_SIGMOID),
    ACTIVATION("candidate", candidate, RECURRENT_TANH),
    ACTIVATION("output", output, RECURRENT_TANH),
    FIELD_NAME(recurrent_attrs_t, algorithm, RECURRENT_DIRECT, algorithm_names)};
const attr_field_t recurrent_gru_fields[] = {COMMON, FLAG(reset_before),
                                             ACTIVATION("gate", gate, RECURRENT_SIGMOID),
                                             ACTIVATION("candidate", candidate, RECURRENT_TANH)};
const attr_field_t recurrent_rnn_fields[] = {COMMON,
                                             ACTIVATION("nonlinearity", candidate, RECURRENT_TANH)};

static const operand_t operands[RECURRENT_N_OPERANDS] = {
    [RECURRENT_X] = {"x", ROLE_ACTIVATION, false, false},
    [RECURRENT_WEIGHT_IH] = {"weight_ih", ROLE_WEIGHT, false, false},
    [RECURRENT_WEIGHT_HH] = {"weight_hh", ROLE_WEIGHT, false, false},
    [RECURRENT_BIAS_IH] = {"bias_ih", ROLE_BIAS, true, false},
    [RECURRENT_BIAS_HH] = {"bias_hh", ROLE_BIAS, true, false},
    [RECURRENT_H0] = {"h0", ROLE_ACTIVATION, true, false},
    [RECURRENT_LENGTHS] = {"lengths", ROLE_STATE, true, false},
    [RECURRENT_C0] = {"c0", ROLE_ACTIVATION, true, false},
    [RECURRENT_PEEPHOLE] = {"peephole", ROLE_BIAS, true, false}};

/* ---- sizes ---- */

static int gates_of(const opdef_t *op)
{
    static const int gates[] = {[RECURRENT_RNN] = 1, [RECURRENT_GRU] = 3, [RECURRENT_LSTM] = 4};
    return gates[op->variant];
}

recurrent_sizes_t recurrent_sizes(const opdef_t *op, const void *attrs, const tensor_info_t *x,
                                  const tensor_info_t *weight_hh)
{
    const bool batch_first = ((const recurrent_attrs_t *)attrs)->batch_first;
    return (recurrent_sizes_t){.t = x->sizes[batch_first ? 1 : 0],
                               .n = x->sizes[batch_first ? 0 : 1],
                               .c = x->sizes[2],
                               .h = weight_hh->sizes[1],
                               .g = gates_of(op)};
}

/* ---- inference ---- */

static status_t check_operand(context_t *ctx, const op_call_t *call, int index, int rank,
                              const int64_t *sizes)
{
    const tensor_info_t *info = call->in[index], *x = call->in[RECURRENT_X];
    const char *op = call->op->name, *name = call->op->operands[index].name;
    if (info->dtype == DTYPE_NONE) return STATUS_OK;
    tensor_info_t needed = info_dense(x->dtype, rank, sizes);
    REQUIRE(ctx, sizes_equal(ctx, info->rank, info->sizes, rank, sizes) && info->dtype == x->dtype,
            "%s: %s is %s, the layer needs %s", op, name, info_brief(info), info_brief(&needed));
    return STATUS_OK;
}

static status_t check_lengths(context_t *ctx, const op_call_t *call, int64_t n)
{
    if (!call_has(call, RECURRENT_LENGTHS)) return STATUS_OK;
    const tensor_info_t *lengths = call->in[RECURRENT_LENGTHS];
    REQUIRE(ctx, lengths->rank == 1 && sym_equal(ctx, lengths->sizes[0], n),
            "%s: lengths is %s, one number for each of %lld sequences is needed", call->op->name,
            info_brief(lengths), (long long)n);
    REQUIRE(ctx, lengths->dtype == DTYPE_S32 || lengths->dtype == DTYPE_S64,
            "%s: lengths is %s, s32 or s64 is needed", call->op->name, info_brief(lengths));
    return STATUS_OK;
}

static status_t check_weights(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *x = call->in[RECURRENT_X];
    const tensor_info_t *weight_hh = call->in[RECURRENT_WEIGHT_HH];
    const recurrent_attrs_t *attrs = call->attrs;
    const char *op = call->op->name;
    int64_t rows = 0;
    REQUIRE(ctx, x->rank == 3, "%s: x is %s, rank 3 is needed", op, info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: x is %s, a floating type is needed", op,
            info_brief(x));
    REQUIRE(ctx, attrs->clip >= 0, "%s: clip=%g, must not be negative", op, attrs->clip);
    REQUIRE(ctx,
            weight_hh->rank == 2 &&
                sizes_multiply(ctx, weight_hh->sizes[1], gates_of(call->op), &rows) &&
                sym_equal(ctx, weight_hh->sizes[0], rows),
            "%s: weight_hh is %s, [%d H,H] is needed", op, info_brief(weight_hh),
            gates_of(call->op));
    TRY(check_operand(ctx, call, RECURRENT_WEIGHT_HH, 2, weight_hh->sizes));
    TRY(check_operand(ctx, call, RECURRENT_WEIGHT_IH, 2, (int64_t[]){rows, x->sizes[2]}));
    TRY(check_operand(ctx, call, RECURRENT_BIAS_IH, 1, &rows));
    return check_operand(ctx, call, RECURRENT_BIAS_HH, 1, &rows);
}

status_t recurrent_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    TRY(check_weights(ctx, call));
    const tensor_info_t *x = call->in[RECURRENT_X];
    const recurrent_sizes_t s = recurrent_sizes(call->op, call->attrs, x,
                                                call->in[RECURRENT_WEIGHT_HH]);
    const int64_t state[] = {s.n, s.h}, peephole = sym_multiply(ctx, 3, s.h);
    const bool is_lstm = call->op->variant == RECURRENT_LSTM;
    TRY(check_operand(ctx, call, RECURRENT_H0, 2, state));
    TRY(check_lengths(ctx, call, s.n));
    if (is_lstm) TRY(check_operand(ctx, call, RECURRENT_C0, 2, state));
    if (is_lstm) TRY(check_operand(ctx, call, RECURRENT_PEEPHOLE, 1, &peephole));
    out[RECURRENT_Y] = info_dense(x->dtype, 3, (int64_t[]){x->sizes[0], x->sizes[1], s.h});
    out[RECURRENT_H] = info_dense(x->dtype, 2, state);
    if (is_lstm) out[RECURRENT_C] = out[RECURRENT_H];
    return STATUS_OK;
}

/* ---- cells ---- */

double recurrent_value(const recurrent_activation_t *activation, double clip, double x)
{
    const double alpha = activation->alpha, beta = activation->beta;
    if (clip > 0) x = x < -clip ? -clip : x > clip ? clip : x;
    switch ((recurrent_function_t)activation->function) {
    case RECURRENT_SIGMOID: return eltwise_value(ELTWISE_SIGMOID, x, 0, 0);
    case RECURRENT_TANH: return tanh(x);
    case RECURRENT_RELU: return eltwise_value(ELTWISE_RELU, x, 0, 0);
    case RECURRENT_AFFINE: return alpha * x + beta;
    case RECURRENT_LEAKY_RELU: return eltwise_value(ELTWISE_LEAKY_RELU, x, alpha, 0);
    case RECURRENT_THRESHOLDED_RELU: return x > alpha || isnan(x) ? x : 0.0;
    case RECURRENT_SCALED_TANH: return alpha * tanh(beta * x);
    case RECURRENT_HARDSIGMOID: return eltwise_value(ELTWISE_HARDSIGMOID, x, alpha, beta);
    case RECURRENT_ELU: return eltwise_value(ELTWISE_ELU, x, alpha, 0);
    case RECURRENT_SOFTSIGN: return x / (1.0 + fabs(x));
    case RECURRENT_SOFTPLUS: return eltwise_value(ELTWISE_SOFTPLUS, x, 0, 0);
    case RECURRENT_USUAL: break;
    }
    return NAN;
}

double recurrent_slope(const recurrent_activation_t *activation, double clip, double x)
{
    const double alpha = activation->alpha, beta = activation->beta;
    double y = 0.0;
    if (clip > 0 && (x < -clip || x > clip)) return 0.0;
    switch ((recurrent_function_t)activation->function) {
    case RECURRENT_SIGMOID: y = eltwise_value(ELTWISE_SIGMOID, x, 0, 0); return y * (1.0 - y);
    case RECURRENT_TANH: y = tanh(x); return 1.0 - y * y;
    case RECURRENT_RELU: return x > 0.0 ? 1.0 : 0.0;
    case RECURRENT_AFFINE: return alpha;
    case RECURRENT_LEAKY_RELU: return x > 0.0 ? 1.0 : alpha;
    case RECURRENT_THRESHOLDED_RELU: return x > alpha ? 1.0 : 0.0;
    case RECURRENT_SCALED_TANH: y = tanh(beta * x); return alpha * beta * (1.0 - y * y);
    case RECURRENT_HARDSIGMOID: y = alpha * x + beta; return y > 0.0 && y < 1.0 ? alpha : 0.0;
    case RECURRENT_ELU: return x > 0.0 ? 1.0 : alpha * exp(x);
    case RECURRENT_SOFTSIGN: y = 1.0 + fabs(x); return 1.0 / (y * y);
    case RECURRENT_SOFTPLUS: return eltwise_value(ELTWISE_SIGMOID, x, 0, 0);
    case RECURRENT_USUAL: break;
    }
    return NAN;
}

static double step_lstm(const recurrent_attrs_t *attrs, const recurrent_unit_t *unit, double *out_c)
{
    const double clip = attrs->clip, *x = unit->x, *h = unit->h, *peephole = unit->peephole;
    double input = recurrent_value(&attrs->gate, clip, x[0] + h[0] + peephole[0] * unit->old_c);
    double forget = attrs->input_forget ? 1.0 - input
                                        : recurrent_value(&attrs->gate, clip,
                                                          x[1] + h[1] + peephole[1] * unit->old_c);
    double c = forget * unit->old_c + input * recurrent_value(&attrs->candidate, clip, x[2] + h[2]);
    double output = recurrent_value(&attrs->gate, clip, x[3] + h[3] + peephole[2] * c);
    *out_c = c;
    return output * recurrent_value(&attrs->output, 0.0, c);
}

double recurrent_reset(const recurrent_attrs_t *attrs, const recurrent_unit_t *unit)
{
    return recurrent_value(&attrs->gate, attrs->clip, unit->x[0] + unit->h[0]);
}

static double step_gru(const recurrent_attrs_t *attrs, const recurrent_unit_t *unit)
{
    double factor = attrs->reset_before ? 1.0 : recurrent_reset(attrs, unit);
    double update = recurrent_value(&attrs->gate, attrs->clip, unit->x[1] + unit->h[1]);
    double fresh = recurrent_value(&attrs->candidate, attrs->clip,
                                   unit->x[2] + factor * unit->h[2]);
    return (1.0 - update) * fresh + update * unit->old_h;
}

double recurrent_step(recurrent_cell_t cell, const recurrent_attrs_t *attrs,
                      const recurrent_unit_t *unit, double *out_c)
{
    switch (cell) {
    case RECURRENT_LSTM: return step_lstm(attrs, unit, out_c);
    case RECURRENT_GRU: return step_gru(attrs, unit);
    case RECURRENT_RNN: break;
    }
    return recurrent_value(&attrs->candidate, attrs->clip, unit->x[0] + unit->h[0]);
}

/* ---- definitions ---- */

static const kernel_t *const lstm_kernels[] = {&recurrent_strassen, &recurrent_sequence,
                                               &recurrent_onednn, &recurrent_native, NULL};
static const kernel_t *const gru_kernels[] = {&recurrent_sequence, &recurrent_onednn,
                                              &recurrent_native, NULL};
static const kernel_t *const rnn_kernels[] = {&recurrent_onednn, &recurrent_native, NULL};

double recurrent_flops(const op_call_t *call)
{
    const recurrent_sizes_t s = recurrent_sizes(call->op, call->attrs, call->in[RECURRENT_X],
                                                call->in[RECURRENT_WEIGHT_HH]);
    return 2.0 * (double)(s.t * s.n) * (double)(s.g * s.h) * (double)(s.c + s.h);
}

static double amplifies(const void *attrs)
{
    return ((const recurrent_attrs_t *)attrs)->algorithm == RECURRENT_DIRECT ? 1.0
                                                                             : STRASSEN_AMPLIFIES;
}

#define DEFINE(op, which, n_in, n_results, list, terms)                                            \
    const opdef_t op_def_##op = {                                                                  \
        .name = #op,                                                                               \
        .variant = which,                                                                          \
        .preference = OP_PREFERS,                                                                  \
        .attrs = {sizeof(recurrent_attrs_t),                                                       \
                  (int)(sizeof recurrent_##op##_fields / sizeof *(recurrent_##op##_fields)),       \
                  recurrent_##op##_fields},                                                        \
        .n_operands = n_in,                                                                        \
        .operands = operands,                                                                      \
        .n_outputs = n_results,                                                                    \
        .infer = recurrent_infer,                                                                  \
        .infers_symbols = true,                                                                    \
        .kernels = list,                                                                           \
        .cancels = terms,                                                                          \
        .amplifies = amplifies,                                                                    \
        .flops = recurrent_flops,                                                                  \
        .spec = recurrent_spec,                                                                    \
        .gradient = &recurrent_gradient}

/* The last number (opdef_t.cancels): results add terms that may have opposite signs, each at most
 * about 1, such as f * c and i * g, or (1 - z) * n and z * h. */
DEFINE(lstm, RECURRENT_LSTM, RECURRENT_N_OPERANDS, 3, lstm_kernels, 1.0);
DEFINE(gru, RECURRENT_GRU, RECURRENT_C0, 2, gru_kernels, 1.0);
DEFINE(rnn, RECURRENT_RNN, RECURRENT_C0, 2, rnn_kernels, 0.0);

/* ---- public ---- */

static status_t call(context_t *ctx, const opdef_t *op, const tensor_t *const *states,
                     const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                     tensor_t **out)
{
    const tensor_t *in[RECURRENT_N_OPERANDS];
    if (weights == NULL) return context_null(ctx, op->name, "weights");
    for (int i = 0; i < RECURRENT_N_OPERANDS; i++) in[i] = states[i];
    in[RECURRENT_WEIGHT_IH] = weights->weight_ih;
    in[RECURRENT_WEIGHT_HH] = weights->weight_hh;
    in[RECURRENT_BIAS_IH] = weights->bias_ih;
    in[RECURRENT_BIAS_HH] = weights->bias_hh;
    in[RECURRENT_PEEPHOLE] = weights->peephole;
    return dispatch_run(ctx, op, attrs, op->n_operands, in, NULL, out);
}

status_t op_lstm(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *c0,
                 const tensor_t *lengths, const recurrent_weights_t *weights,
                 const recurrent_attrs_t *attrs, tensor_t **out_y, tensor_t **out_h,
                 tensor_t **out_c)
{
    const tensor_t *states[RECURRENT_N_OPERANDS] = {
        [RECURRENT_X] = x, [RECURRENT_H0] = h0, [RECURRENT_LENGTHS] = lengths, [RECURRENT_C0] = c0};
    tensor_t *out[3] = {NULL};
    if (out_h != NULL) *out_h = NULL;
    if (out_c != NULL) *out_c = NULL;
    TRY(context_output(ctx, "lstm", out_y));
    TRY(context_output(ctx, "lstm", out_h));
    TRY(context_output(ctx, "lstm", out_c));
    TRY(call(ctx, &op_def_lstm, states, weights, attrs, out));
    *out_y = out[RECURRENT_Y];
    *out_h = out[RECURRENT_H];
    *out_c = out[RECURRENT_C];
    return STATUS_OK;
}

static status_t call_without_cell(context_t *ctx, const opdef_t *op, const tensor_t *x,
                                  const tensor_t *h0, const tensor_t *lengths,
                                  const recurrent_weights_t *weights,
                                  const recurrent_attrs_t *attrs, tensor_t **out_y,
                                  tensor_t **out_h)
{
    const tensor_t *states[RECURRENT_N_OPERANDS] = {
        [RECURRENT_X] = x, [RECURRENT_H0] = h0, [RECURRENT_LENGTHS] = lengths};
    tensor_t *out[2] = {NULL};
    if (out_h != NULL) *out_h = NULL;
    TRY(context_output(ctx, op->name, out_y));
    TRY(context_output(ctx, op->name, out_h));
    REQUIRE(ctx, weights == NULL || weights->peephole == NULL, "%s: a peephole, only lstm has one",
            op->name);
    TRY(call(ctx, op, states, weights, attrs, out));
    *out_y = out[RECURRENT_Y];
    *out_h = out[RECURRENT_H];
    return STATUS_OK;
}

status_t op_gru(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *lengths,
                const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                tensor_t **out_y, tensor_t **out_h)
{
    return call_without_cell(ctx, &op_def_gru, x, h0, lengths, weights, attrs, out_y, out_h);
}

status_t op_rnn(context_t *ctx, const tensor_t *x, const tensor_t *h0, const tensor_t *lengths,
                const recurrent_weights_t *weights, const recurrent_attrs_t *attrs,
                tensor_t **out_y, tensor_t **out_h)
{
    return call_without_cell(ctx, &op_def_rnn, x, h0, lengths, weights, attrs, out_y, out_h);
}
