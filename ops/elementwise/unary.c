/* Functions of one tensor that are not activations: rounding, truth, bits, trigonometry. unary.def
 * lists them. */
#include "ops/elementwise/elementwise_backward_impl.h"
#include "ops/elementwise/function_impl.h"
#include "ops/ops_impl.h"

/* ---- the table ---- */

static const function_t functions[] = {
#define UNARY(name, result, takes, flags, rule) [UNARY_##name] = {result, takes, flags},
#include "ops/elementwise/unary.def"
#undef UNARY
};

/* For bool, bitwise_not computes logical_not. The integer function would return ~1, which is not 0,
 * so true. */
static unary_function_t find(const opdef_t *op, dtype_t dtype)
{
    const bool is_not = op->variant == UNARY_bitwise_not && dtype == DTYPE_BOOL;
    return is_not ? UNARY_logical_not : (unary_function_t)op->variant;
}

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* ---- inference and specification ---- */

static status_t unary_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    return function_infer(ctx, call, &functions[find(call->op, call->in[X]->dtype)], out);
}

static double unary_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const unary_function_t function = find(call->op, call->in[X]->dtype);
    return function_spec(call, &functions[function], elementwise_unary(function, ISA_PORTABLE),
                         index);
}

/* ---- our own kernel ---- */

static status_t unary_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const unary_function_t function = find(call->op, call->in[X]->dtype);
    return function_prepare(ctx, call, &functions[function],
                            elementwise_unary(function, isa_best()), NULL, prepared);
}

/* ---- definitions ---- */

#define UNARY(op_name, result, takes, op_flags, rule)                                              \
    const opdef_t op_def_##op_name = {                                                             \
        .name = #op_name,                                                                          \
        .variant = UNARY_##op_name,                                                                \
        .preference = FUNCTION_PREFERENCE(result),                                                 \
        .traits = FUNCTION_TRAITS(op_flags),                                                       \
        OPERANDS(operands),                                                                        \
        .n_outputs = 1,                                                                            \
        .infer = unary_infer,                                                                      \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", unary_prepare_native, broadcast_run)),                 \
        .spec = unary_spec,                                                                        \
        .gradient = rule};
#include "ops/elementwise/unary.def"
#undef UNARY

/* ---- public ---- */

#define UNARY(op_name, result, takes, flags, rule)                                                 \
    status_t op_##op_name(context_t *ctx, const tensor_t *x, tensor_t **out)                       \
    {                                                                                              \
        return dispatch_run(ctx, &op_def_##op_name, NULL, 1, &x, NULL, out);                       \
    }                                                                                              \
    status_t op_##op_name##_(context_t *ctx, tensor_t *x)                                          \
    {                                                                                              \
        return dispatch_run_in_place(ctx, &op_def_##op_name, NULL, x, 0, NULL);                    \
    }
#include "ops/elementwise/unary.def"
#undef UNARY
