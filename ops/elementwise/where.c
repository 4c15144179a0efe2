/* Selects each element from one of two tensors. */
#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/gradient_impl.h"

/* ---- attributes: none ---- */

static const operand_t operands[] = {{"condition", ROLE_ACTIVATION, false, false},
                                     {"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { CONDITION, A, B };

/* ---- inference ---- */

static status_t where_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *condition = call->in[CONDITION], *a = call->in[A], *b = call->in[B];
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    REQUIRE(ctx, condition->dtype == DTYPE_BOOL, "where: condition is %s, bool is needed",
            info_brief(condition));
    REQUIRE(ctx, broadcast_infer(ctx, call, &rank, sizes),
            "where: condition is %s, a is %s, b is %s, these shapes do not broadcast",
            info_brief(condition), info_brief(a), info_brief(b));
    dtype_t dtype = broadcast_dtype(a, b);
    REQUIRE(ctx, dtype != DTYPE_NONE, "where: a is %s, b is %s, these dtypes meet in none",
            info_brief(a), info_brief(b));
    out[0] = info_dense(dtype, rank, sizes);
    return STATUS_OK;
}

/* ---- specification ---- */

static double where_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *out = &call->out[output];
    bool is_a = spec_at_broadcast(call, CONDITION, out->rank, index) != 0.0;
    double value = spec_at_broadcast(call, is_a ? A : B, out->rank, index);
    uint64_t element = 0;
    dtype_store(out->dtype, &element, value);
    return dtype_load(out->dtype, &element);
}

/* ---- dense kernel ---- */

static status_t where_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    broadcast_t *plan = NULL;
    if (call->layout == LAYOUT_MKLDNN)
        return prepared_decline(prepared, "native: dense only, as the condition is");
    TRY(context_get_zeroed(ctx, sizeof *plan, "where", &plan));
    prepared->state = plan;
    plan->loop = elementwise_select(dtype_size(call->out[0].dtype), isa_best());
    plan->in_dtype[CONDITION] = DTYPE_BOOL;
    plan->in_dtype[A] = plan->in_dtype[B] = plan->out_dtype = call->out[0].dtype;
    TRY(broadcast_prepare(call, prepared, plan));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 3.0 * (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

/* ---- gradients: grad for the selected operand, 0 for the other ---- */

static void where_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t zero = emit_number(e, 0.0);
    const value_t grad = call->out_grad[0], condition = call->in[CONDITION];
    if (call->is_wanted[A])
        call->in_grad[A] = emit_unbroadcast(e, emit_where(e, condition, grad, zero), call->in[A]);
    if (call->is_wanted[B])
        call->in_grad[B] = emit_unbroadcast(e, emit_where(e, condition, zero, grad), call->in[B]);
}

/* ---- definition ---- */

const opdef_t op_def_where = {
    .name = "where",
    FUNCTIONS_OF(where),
    .preference = OP_DENSE,
    .traits = TRAIT_ELEMENTWISE,
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", where_prepare_native, broadcast_run)),
    .gradient = GRADIENT(.pass = where_pass, .reads_in = 1u << CONDITION)};

/* ---- public ---- */

status_t op_where(context_t *ctx, const tensor_t *condition, const tensor_t *a, const tensor_t *b,
                  tensor_t **out)
{
    const tensor_t *in[] = {condition, a, b};
    return dispatch_run(ctx, &op_def_where, NULL, 3, in, NULL, out);
}
