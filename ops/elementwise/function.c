/* Inference, specification and kernel of the functions in unary.def and binary.def. */
#include "ops/elementwise/function_impl.h"

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"

/* The promoted dtype of the operands. */
static dtype_t common_dtype(const function_t *function, int n_in, const tensor_info_t *const *in)
{
    dtype_t dtype = n_in > 1 ? broadcast_dtype(in[0], in[1]) : in[0]->dtype;
    bool is_taken = dtype == DTYPE_NONE || dtype_is_floating(dtype);
    return function->result == FLOATING && !is_taken ? DTYPE_F32 : dtype;
}

/* The dtype to compute in: f64 or f32 for floating dtypes, otherwise u64 or s64. */
static dtype_t compute_dtype(const function_t *function, int n_in, const tensor_info_t *const *in)
{
    dtype_t dtype = common_dtype(function, n_in, in);
    if (dtype_is_floating(dtype)) return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    return dtype == DTYPE_U64 ? DTYPE_U64 : DTYPE_S64;
}

static elementwise_loop_t *loop_of(const elementwise_loops_t *loops, dtype_t compute)
{
    switch (compute) {
    case DTYPE_F32: return loops->f32;
    case DTYPE_F64: return loops->f64;
    case DTYPE_U64: return loops->u64;
    default: return loops->s64;
    }
}

/* ---- inference ---- */

/* Fails with "add: a is f32[2], b is f32[3], <rule>". */
static status_t refuse(context_t *ctx, const op_call_t *call, const char *rule)
{
    if (call->n_in == 1)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: x is %s, %s", call->op->name,
             info_brief(call->in[0]), rule);
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: a is %s, b is %s, %s", call->op->name,
         info_brief(call->in[0]), info_brief(call->in[1]), rule);
}

status_t function_infer(context_t *ctx, const op_call_t *call, const function_t *function,
                        tensor_info_t *out)
{
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    if (!broadcast_infer(ctx, call, &rank, sizes))
        return refuse(ctx, call, "these shapes do not broadcast");
    dtype_t dtype = common_dtype(function, call->n_in, call->in);
    if (dtype == DTYPE_NONE) return refuse(ctx, call, "these dtypes meet in none");
    if (dtype == DTYPE_BOOL && function->takes == NUMBERS)
        return refuse(ctx, call, "numbers are needed");
    for (int i = 0; function->takes == NUMBERS_ONLY && i < call->n_in; i++)
        if (call->in[i]->dtype == DTYPE_BOOL)
            return refuse(ctx, call,
                          "a bool is no number; logical_xor and logical_not take it as truth");
    if (dtype_is_floating(dtype) && function->takes == INTEGERS)
        return refuse(ctx, call, "integers are needed");
    out[0] = info_dense(function->result == TRUTH ? DTYPE_BOOL : dtype, rank, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

double function_spec(const spec_call_t *call, const function_t *function,
                     const elementwise_loops_t *loops, const int64_t *index)
{
    const tensor_info_t *out = &call->out[0];
    dtype_t dtype = compute_dtype(function, call->n_in, call->in);
    uint64_t in[2] = {0}, element = 0, result = 0;
    if (dtype == DTYPE_F32) dtype = DTYPE_F64;
    for (int i = 0; i < call->n_in; i++)
        dtype_store(dtype, &in[i], spec_at_broadcast(call, i, out->rank, index));
    const elementwise_rows_t rows = {
        .rows = 1, .n = 1, .in = {&in[0], &in[1]}, .step = {1, 1}, .out = &element};
    loop_of(loops, dtype)(&rows);
    if (out->dtype == DTYPE_BOOL && function->result == TRUTH)
        return dtype_load(DTYPE_BOOL, &element);
    if (dtype_is_floating(out->dtype)) return dtype_load(dtype, &element);
    dtype_cast(1, dtype, &element, 1, out->dtype, &result, 1);
    return dtype_load(out->dtype, &result);
}

/* ---- kernel ---- */

static bool all_are(dtype_t dtype, const op_call_t *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != dtype) return false;
    return true;
}

status_t function_prepare(context_t *ctx, const op_call_t *call, const function_t *function,
                          const elementwise_loops_t *loops, elementwise_loop_t *s32,
                          prepared_t *prepared)
{
    function_state_t *state = NULL;
    TRY(context_get_zeroed(ctx, sizeof *state, "an elementwise operator", &state));
    prepared->state = state;
    state->function = function;
    state->compute = compute_dtype(function, call->n_in, call->in);
    broadcast_t *broadcast = &state->broadcast;
    broadcast->loop = loop_of(loops, state->compute);
    if (s32 != NULL && all_are(DTYPE_S32, call)) {
        state->compute = DTYPE_S32;
        broadcast->loop = s32;
    }
    for (int i = 0; i < call->n_in; i++) broadcast->in_dtype[i] = state->compute;
    broadcast->out_dtype = function->result == TRUTH ? DTYPE_BOOL : state->compute;
    broadcast->keeps_zero = (function->flags & ZERO) != 0;
    TRY(broadcast_prepare(call, prepared, broadcast));
    prepared->cost_ns = cost_run(ctx, "native", 0.0,
                                 (1.0 + call->n_in) * (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}
