/* Functions of one tensor that are no activations: rounding, truth, bits, trigonometry. unary.def
 * lists them. */
#include <float.h>
#include <tgmath.h>

#include "ops/elementwise/elementwise_backward_impl.h"
#include "ops/elementwise/function_impl.h"
#include "ops/elementwise/rows_impl.h"
#include "ops/ops_impl.h"

#define NEVER(x) ((void)(x), 0)
#define IS_NEGATIVE(x) _Generic((x), int64_t : (int64_t)(x) < 0, uint64_t : 0)
#define LARGEST(x) _Generic((x), float : FLT_MAX, double : DBL_MAX)

/* ---- the table: rows of each function for each type that is computed in ---- */

#define UNARY(name, result, takes, flags, floating, integral, passes)                              \
    ROWS_UNARY(name##_f32, float, FUNCTION_OUT_##result, floating)                                 \
    ROWS_UNARY(name##_f64, double, FUNCTION_OUT_##result, floating)                                \
    ROWS_UNARY(name##_s64, int64_t, FUNCTION_OUT_##result, integral)                               \
    ROWS_UNARY(name##_u64, uint64_t, FUNCTION_OUT_##result, integral)
#include "ops/elementwise/unary.def"
#undef UNARY

/* The variants: lines of the table. */
enum {
#define UNARY(name, result, takes, flags, floating, integral, passes) VARIANT_##name,
#include "ops/elementwise/unary.def"
#undef UNARY
};

static const function_t functions[] = {
#define UNARY(name, result, takes, flags, floating, integral, passes)                              \
    [VARIANT_##name] = {result, takes, flags, name##_f32, name##_f64, name##_s64, name##_u64},
#include "ops/elementwise/unary.def"
#undef UNARY
};

/* ~1 is not 0: the bits of bool are not those of the integer that is computed in. */
static const function_t *find(const opdef_t *op, dtype_t dtype)
{
    bool is_not = op->variant == VARIANT_bitwise_not && dtype == DTYPE_BOOL;
    return &functions[is_not ? VARIANT_logical_not : op->variant];
}

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* ---- inference and specification ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    return function_infer(ctx, call, find(call->op, call->in[X]->dtype), out);
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return function_spec(call, find(call->op, call->in[X]->dtype), index);
}

/* ---- kernel of our own ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    return function_prepare(ctx, call, find(call->op, call->in[X]->dtype), NULL, prepared);
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = broadcast_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- cases ---- */

#define FLOATS                                                                                     \
    "(f32[2,3,7,5])", "(f32[1,17,9,9])", "(f32[1,1,4,3])", "(f32[2,7,11])", "(f32[1,31,3,4,5])",   \
        "(f32[2,32,6,6])", "(f32[5,13])", "(f32[0,3,4,4])", "(f32[1,24,40,40])",                   \
        "(bf16[2,17,5,5])", "(f16[2,3,5])", "(f64[2,7,3,3])", "(f32[])", "(f32[1])",               \
        "(f32[2,17,3]+)", "(f32[1,3,4]+*16)"
#define WHOLE                                                                                      \
    "(s32[2,7,3])", "(s64[3,5])", "(s8[1,3,5,5])", "(u8[1,17,3,3])", "(s16[31])", "(u16[2,7])",    \
        "(u32[3,1])", "(u64[17])"

static const char *const cases_ANY[] = {FLOATS, WHOLE, "(bool[2,17])", NULL};
static const char *const cases_NUMBERS[] = {FLOATS, WHOLE, NULL};
static const char *const cases_INTEGERS[] = {WHOLE, "(bool[2,17])", NULL};

/* ---- definitions ---- */

#define UNARY(op_name, result, takes, op_flags, floating, integral, passes)                        \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = VARIANT_##op_name,                                \
                                      .preference = FUNCTION_PREFERENCE(result),                   \
                                      .traits = FUNCTION_TRAITS(op_flags),                         \
                                      .n_operands = 1,                                             \
                                      .operands = operands,                                        \
                                      .n_outputs = 1,                                              \
                                      .infer = infer,                                              \
                                      .infers_symbols = true,                                      \
                                      .kernels = kernels,                                          \
                                      .spec = spec,                                                \
                                      .gradient = passes,                                          \
                                      .cases = cases_##takes};
#include "ops/elementwise/unary.def"
#undef UNARY

/* ---- public ---- */

#define UNARY(op_name, result, takes, flags, floating, integral, passes)                           \
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
