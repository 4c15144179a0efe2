/* Functions of two tensors, with broadcasting and PyTorch's type promotion: arithmetic,
 * comparisons, logic, bits. binary.def lists them. */
#include <string.h>
#include <tgmath.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/function_impl.h"
#include "ops/elementwise/rows_impl.h"
#include "ops/gradient_impl.h"
#include "ops/ops_impl.h"
#include "ops/walk_impl.h"

/* ---- integers: they wrap, and are divided where the divisor is not 0 ---- */

static int64_t quotient_s64(int64_t x, int64_t y)
{
    if (y == 0) return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static uint64_t quotient_u64(uint64_t x, uint64_t y)
{
    return y == 0 ? 0 : x / y;
}

static int64_t rest_s64(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}

static uint64_t rest_u64(uint64_t x, uint64_t y)
{
    return y == 0 ? 0 : x % y;
}

static bool differs_in_sign(int64_t rest, int64_t y)
{
    return rest != 0 && (rest < 0) != (y < 0);
}

static int64_t floor_quotient_s64(int64_t x, int64_t y)
{
    int64_t quotient = quotient_s64(x, y);
    return differs_in_sign(rest_s64(x, y), y) ? quotient - 1 : quotient;
}

static int64_t floor_remainder_s64(int64_t x, int64_t y)
{
    int64_t rest = rest_s64(x, y);
    return differs_in_sign(rest, y) ? rest + y : rest;
}

/* By squaring. */
static uint64_t power_u64(uint64_t base, uint64_t exponent)
{
    uint64_t power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) power *= base;
        base *= base;
    }
    return power;
}

/* A negative exponent leaves nothing of any base but 1 and -1. */
static int64_t power_s64(int64_t base, int64_t exponent)
{
    if (exponent >= 0) return (int64_t)power_u64((uint64_t)base, (uint64_t)exponent);
    return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
}

static int64_t right_shift_s64(int64_t x, int64_t y)
{
    return x >> ((uint64_t)y < 64 ? y : 63);
}

static uint64_t right_shift_u64(uint64_t x, uint64_t y)
{
    return y < 64 ? x >> y : 0;
}

/* ---- floating numbers, divided as Python does ---- */

#define DIVISION(suffix, type)                                                                     \
    static type floor_remainder_##suffix(type x, type y)                                           \
    {                                                                                              \
        type rest = fmod(x, y);                                                                    \
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;                               \
    }                                                                                              \
                                                                                                   \
    /* (x - rest) / y is whole but for rounding errors. */                                         \
    static type floor_quotient_##suffix(type x, type y)                                            \
    {                                                                                              \
        if (y == 0) return x / y;                                                                  \
        type rest = fmod(x, y), quotient = (x - rest) / y;                                         \
        if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;                                     \
        if (quotient == 0) return copysign((type)0, x / y);                                        \
        type whole = floor(quotient);                                                              \
        return quotient - whole > (type)0.5 ? whole + 1 : whole;                                   \
    }

DIVISION(f32, float)
DIVISION(f64, double)

#define BY_SIGN(function, x) _Generic((x), int64_t : function##_s64, uint64_t : function##_u64)
#define BY_TYPE(function, x, of_u64)                                                               \
    _Generic((x), float                                                                            \
             : function##_f32, double                                                              \
             : function##_f64, int64_t                                                             \
             : function##_s64, uint64_t                                                            \
             : of_u64)
#define NEVER(x, y) ((void)(x), (void)(y), 0)
#define QUOTIENT(x, y) BY_SIGN(quotient, x)(x, y)
#define REMAINDER(x, y) BY_SIGN(rest, x)(x, y)
#define POWER(x, y) BY_SIGN(power, x)(x, y)
#define RIGHT_SHIFT(x, y) BY_SIGN(right_shift, x)(x, y)
#define FLOOR_QUOTIENT(x, y) BY_TYPE(floor_quotient, x, quotient_u64)(x, y)
#define FLOOR_REMAINDER(x, y) BY_TYPE(floor_remainder, x, rest_u64)(x, y)

/* ---- the table: rows of each function for each type that is computed in ---- */

#define BINARY(name, result, takes, flags, floating, integral, passes)                             \
    ROWS_BINARY(name##_f32, float, FUNCTION_OUT_##result, floating)                                \
    ROWS_BINARY(name##_f64, double, FUNCTION_OUT_##result, floating)                               \
    ROWS_BINARY(name##_s64, int64_t, FUNCTION_OUT_##result, integral)                              \
    ROWS_BINARY(name##_u64, uint64_t, FUNCTION_OUT_##result, integral)
#include "ops/elementwise/binary.def"
#undef BINARY

/* What pow is for the exponents 2 and 0.5. */
ROWS_BINARY(square_f32, float, element_t, ((void)y, x *x))
ROWS_BINARY(square_f64, double, element_t, ((void)y, x *x))
ROWS_BINARY(root_f32, float, element_t, ((void)y, sqrt(x)))
ROWS_BINARY(root_f64, double, element_t, ((void)y, sqrt(x)))

/* What s32 are computed by without a cast: bounds and sums are most of what quantised networks do
 * with them. */
ROWS_BINARY(add_s32, int32_t, element_t, (uint32_t)x + (uint32_t)y)
ROWS_BINARY(sub_s32, int32_t, element_t, (uint32_t)x - (uint32_t)y)
ROWS_BINARY(mul_s32, int32_t, element_t, (uint32_t)x *(uint32_t)y)
ROWS_BINARY(maximum_s32, int32_t, element_t, x > y ? x : y)
ROWS_BINARY(minimum_s32, int32_t, element_t, x < y ? x : y)

/* The variants: lines of the table. */
enum {
#define BINARY(name, result, takes, flags, floating, integral, passes) VARIANT_##name,
#include "ops/elementwise/binary.def"
#undef BINARY
};

static const function_t functions[] = {
#define BINARY(name, result, takes, flags, floating, integral, passes)                             \
    [VARIANT_##name] = {result, takes, flags, name##_f32, name##_f64, name##_s64, name##_u64},
#include "ops/elementwise/binary.def"
#undef BINARY
};

static const operand_t operands[] = {{"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { A, B };

static bool as_post_op(const opdef_t *op, const void *attrs, post_op_t *out_post)
{
    (void)attrs;
    *out_post = (post_op_t){.kind = POST_ELTWISE};
    switch (op->variant) {
    case VARIANT_add: out_post->kind = POST_ADD; return true;
    case VARIANT_sub: out_post->kind = POST_SUB; return true;
    case VARIANT_mul: out_post->kind = POST_MUL; return true;
    case VARIANT_div: out_post->kind = POST_DIV; return true;
    case VARIANT_maximum: out_post->kind = POST_MAXIMUM; return true;
    case VARIANT_minimum: out_post->kind = POST_MINIMUM; return true;
    default: return false;
    }
}

/* ---- inference and specification ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    return function_infer(ctx, call, &functions[call->op->variant], out);
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return function_spec(call, &functions[call->op->variant], index);
}

/* ---- kernel on oneDNN: equal shapes in one format, over the bytes as they lie ---- */

/* Its maximum and minimum lose NaN. */
static bool find_algorithm(const opdef_t *op, onednn_algorithm_t *out_algorithm)
{
    switch (op->variant) {
    case VARIANT_add: *out_algorithm = ONEDNN_BINARY_ADD; return true;
    case VARIANT_sub: *out_algorithm = ONEDNN_BINARY_SUB; return true;
    case VARIANT_mul: *out_algorithm = ONEDNN_BINARY_MUL; return true;
    case VARIANT_div: *out_algorithm = ONEDNN_BINARY_DIV; return true;
    default: return false;
    }
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    onednn_algorithm_t algorithm = ONEDNN_BINARY_ADD;
    onednn_primitive_t *primitive = NULL;
    if (!find_algorithm(call->op, &algorithm))
        return prepared_decline(prepared, "onednn: no good %s", call->op->name);
    if ((a->dtype != DTYPE_F32 && a->dtype != DTYPE_BF16) || a->dtype != b->dtype)
        return prepared_decline(prepared, "onednn: dtypes %s and %s", dtype_name(a->dtype),
                                dtype_name(b->dtype));
    format_t own = accept_own(a);
    if (a->rank == 0 || !shape_equal(a->rank, a->sizes, b->rank, b->sizes) ||
        !format_same(&a->format, &b->format, a->sizes) || !format_same(&a->format, &own, a->sizes))
        return prepared_decline(prepared, "onednn: %s and %s do not lie alike", info_brief(a),
                                info_brief(b));
    TRY(accept_out(call, prepared, 0, &own));

    int64_t n = walk_elements(a);
    tensor_info_t flat = info_dense(a->dtype, 1, &n);
    const tensor_info_t src[] = {flat, flat};
    onednn_problem_t problem = {
        .kind = ONEDNN_BINARY, .algorithm = algorithm, .n_src = 2, .src = src, .dst = &flat};
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: %s for %s", onednn_refusal(ctx), info_brief(a));
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    prepared->overwrites = 1u << A; /* of B oneDNN promises nothing */
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: %s is %s", call->op->name,
                                prepared->implementation);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, 0.0, 3.0 * (double)info_bytes(a));
    return STATUS_OK;
}

/* 0 / 0 is what division leaves in padded lanes. */
static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    if (prepared->op->variant == VARIANT_div) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {
    .name = "onednn", .prepare = prepare_onednn, .run = run_onednn, .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- kernel of our own ---- */

static bool divides_integers(const function_state_t *state)
{
    return (state->function->flags & DIVIDES) != 0 && !dtype_is_floating(state->compute);
}

static broadcast_compute_t rows_of_s32(int variant)
{
    switch (variant) {
    case VARIANT_add: return add_s32;
    case VARIANT_sub: return sub_s32;
    case VARIANT_mul: return mul_s32;
    case VARIANT_maximum: return maximum_s32;
    case VARIANT_minimum: return minimum_s32;
    default: return NULL;
    }
}

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(function_prepare(ctx, call, &functions[call->op->variant], rows_of_s32(call->op->variant),
                         prepared));
    if (call->layout == LAYOUT_MKLDNN && divides_integers(prepared->state))
        return prepared_decline(prepared, "native: padded lanes would be divisors");
    return STATUS_OK;
}

/* An element of a dense tensor is 0. */
static bool has_zero(const tensor_info_t *info, const void *bytes)
{
    const int64_t row = info->rank > 0 ? info->sizes[info->rank - 1] : 1;
    const int64_t step = info->rank > 0 ? info->format.strides[info->rank - 1] : 0;
    const size_t size = dtype_size(info->dtype);
    int64_t index[TENSOR_MAX_RANK] = {0};
    if (info_numel(info) == 0) return false;
    do {
        int64_t offset = 0;
        for (int d = 0; d < info->rank - 1; d++) offset += index[d] * info->format.strides[d];
        for (int64_t i = 0; i < row; i++)
            if (dtype_load_integer(info->dtype,
                                   (const char *)bytes + (size_t)(offset + i * step) * size) == 0)
                return true;
    } while (info->rank > 1 && shape_next(info->rank - 1, info->sizes, index));
    return false;
}

/* pow by an exponent that is one number has shorter ways. */
static broadcast_compute_t choose_rows(const prepared_t *prepared, const void *b)
{
    const function_state_t *state = prepared->state;
    const tensor_info_t *info = &prepared->in[B];
    bool is_f32 = state->compute == DTYPE_F32;
    if (prepared->op->variant != VARIANT_pow || !dtype_is_floating(state->compute) ||
        info_numel(info) != 1)
        return state->broadcast.compute;
    double exponent = dtype_load(info->dtype, b);
    if (exponent == 2.0) return is_f32 ? square_f32 : square_f64;
    if (exponent == 0.5) return is_f32 ? root_f32 : root_f64;
    return state->broadcast.compute;
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    const function_state_t *state = prepared->state;
    if (divides_integers(state) && info_numel(&prepared->out[0]) > 0 &&
        has_zero(&prepared->in[B], in[B]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: b is %s with a 0, an integer has no quotient by it",
             prepared->op->name, info_brief(&prepared->in[B]));
    broadcast_run_by(ctx, prepared, choose_rows(prepared, in[B]), in, out, scratch);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const either[] = {&onednn, &native, NULL};
static const kernel_t *const ours[] = {&native, NULL};

/* ---- gradients ---- */

/* What the gradient of the result is multiplied by for one of the operands. */
static void pass_scaled(const gradient_call_t *call, int operand, value_t factor)
{
    value_t grad = emit_binary(call->emitter, &op_def_mul, call->out_grad[0], factor);
    call->in_grad[operand] = emit_unbroadcast(call->emitter, grad, call->in[operand]);
}

static void pass_add(const gradient_call_t *call)
{
    for (int i = A; i <= B; i++)
        if (call->is_wanted[i])
            call->in_grad[i] = emit_unbroadcast(call->emitter, call->out_grad[0], call->in[i]);
}

static void pass_sub(const gradient_call_t *call)
{
    pass_add(call);
    if (call->is_wanted[B])
        call->in_grad[B] = emit_unary(call->emitter, &op_def_neg, call->in_grad[B]);
}

static void pass_mul(const gradient_call_t *call)
{
    if (call->is_wanted[A]) pass_scaled(call, A, call->in[B]);
    if (call->is_wanted[B]) pass_scaled(call, B, call->in[A]);
}

/* d(a / b) = da / b - (a / b) db / b */
static void pass_div(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    value_t grad = emit_binary(e, &op_def_div, call->out_grad[0], call->in[B]);
    if (call->is_wanted[A]) call->in_grad[A] = emit_unbroadcast(e, grad, call->in[A]);
    if (!call->is_wanted[B]) return;
    grad = emit_unary(e, &op_def_neg, emit_binary(e, &op_def_mul, grad, call->out[0]));
    call->in_grad[B] = emit_unbroadcast(e, grad, call->in[B]);
}

/* fmod and remainder are a - b q with a whole quotient q. */
static void pass_rest(const gradient_call_t *call, const opdef_t *quotient)
{
    emitter_t *e = call->emitter;
    if (call->is_wanted[A]) call->in_grad[A] = emit_unbroadcast(e, call->out_grad[0], call->in[A]);
    if (call->is_wanted[B])
        pass_scaled(call, B,
                    emit_unary(e, &op_def_neg, emit_binary(e, quotient, call->in[A], call->in[B])));
}

static void pass_fmod(const gradient_call_t *call)
{
    pass_rest(call, &op_def_div_trunc);
}

static void pass_remainder(const gradient_call_t *call)
{
    pass_rest(call, &op_def_div_floor);
}

static void pass_backward(const gradient_call_t *call, int operand, binary_backward_t function,
                          value_t a, value_t b)
{
    emitter_t *e = call->emitter;
    if (!call->is_wanted[operand]) return;
    value_t grad = emit_binary_backward(e, function, call->out_grad[0], a, b);
    call->in_grad[operand] = emit_unbroadcast(e, grad, call->in[operand]);
}

static void pass_pow(const gradient_call_t *call)
{
    pass_backward(call, A, BACKWARD_POW_BASE, call->in[A], call->in[B]);
    pass_backward(call, B, BACKWARD_POW_EXPONENT, call->in[A], call->in[B]);
}

static void pass_maximum(const gradient_call_t *call)
{
    pass_backward(call, A, BACKWARD_MAXIMUM, call->in[A], call->in[B]);
    pass_backward(call, B, BACKWARD_MAXIMUM, call->in[B], call->in[A]);
}

static void pass_minimum(const gradient_call_t *call)
{
    pass_backward(call, A, BACKWARD_MINIMUM, call->in[A], call->in[B]);
    pass_backward(call, B, BACKWARD_MINIMUM, call->in[B], call->in[A]);
}

/* d atan2(a, b) = (b da - a db) / (a^2 + b^2) */
static void pass_atan2(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const value_t a = call->in[A], b = call->in[B];
    const value_t sum = emit_binary(e, &op_def_add, emit_binary(e, &op_def_mul, a, a),
                                    emit_binary(e, &op_def_mul, b, b));
    const value_t scale = emit_unary(e, &op_def_reciprocal, sum);
    if (call->is_wanted[A]) pass_scaled(call, A, emit_binary(e, &op_def_mul, b, scale));
    if (!call->is_wanted[B]) return;
    pass_scaled(call, B, emit_unary(e, &op_def_neg, emit_binary(e, &op_def_mul, a, scale)));
}

/* d hypot(a, b) = (a da + b db) / hypot(a, b) */
static void pass_hypot(const gradient_call_t *call)
{
    for (int i = A; i <= B; i++)
        if (call->is_wanted[i])
            pass_scaled(call, i,
                        emit_binary(call->emitter, &op_def_div, call->in[i], call->out[0]));
}

#define READS_BOTH (1u << A | 1u << B)
static const gradient_t gradient_add = {.pass = pass_add};
static const gradient_t gradient_sub = {.pass = pass_sub};
static const gradient_t gradient_mul = {.pass = pass_mul, .reads_in = READS_BOTH};
static const gradient_t gradient_div = {.pass = pass_div, .reads_in = 1u << B, .reads_out = 1};
static const gradient_t gradient_fmod = {.pass = pass_fmod, .reads_in = READS_BOTH};
static const gradient_t gradient_remainder = {.pass = pass_remainder, .reads_in = READS_BOTH};
static const gradient_t gradient_atan2 = {.pass = pass_atan2, .reads_in = READS_BOTH};
static const gradient_t gradient_hypot = {
    .pass = pass_hypot, .reads_in = READS_BOTH, .reads_out = 1};
static const gradient_t gradient_pow = {.pass = pass_pow, .reads_in = READS_BOTH};
static const gradient_t gradient_maximum = {.pass = pass_maximum, .reads_in = READS_BOTH};
static const gradient_t gradient_minimum = {.pass = pass_minimum, .reads_in = READS_BOTH};

/* ---- cases ---- */

#define SHAPES                                                                                     \
    "(f32[2,3,7,5], f32[2,3,7,5])", "(f32[1,17,9,9], f32[1,17,9,9])", "(f32[2,7,11], f32[])",      \
        "(f32[], f32[1,31,6,6])", "(f32[2,17,5,5], f32[2,17,1,1])",                                \
        "(f32[2,32,5,5], f32[1,32,1,1])", "(f32[2,31,6,7], f32[31,1,1])",                          \
        "(f32[2,1,6,7], f32[2,17,6,7])", "(f32[1,7,1,1], f32[3,7,4,4])", "(f32[2,3,4,5], f32[5])", \
        "(f32[3,1], f32[1,7])", "(f32[2,1,5,1], f32[1,3,1,4])", "(f32[1,1,4,3], f32[1,1,4,3])",    \
        "(f32[1,16,40,40], f32[1,16,40,40])", "(f32[2,17,3,4,5], f32[2,17,1,1,1])",                \
        "(f32[2,17,4,4], f32[1])", "(f32[2,17,4,4], f32[17,4,1])", "(f32[0,3,4], f32[3,1])",       \
        "(bf16[2,17,5,5], bf16[2,17,5,5])", "(bf16[2,7,5], f32[])", "(f32[2,7,5], bf16[2,7,1])",   \
        "(f16[3,4], f16[3,4])", "(f64[2,7,3,3], f32[2,7,3,3])", "(f32[3,5], s64[3,5]<9)",          \
        "(s32[3,5]<9, f32[])", "(u32[7], f32[2,7])", "(f32[2,17,4,4], 2.5)", "(s32[3,5]<9, 2.5)",  \
        "(bf16[2,7,5], 3)", "(f64[2,3], -2)", "(f32[2,17,3]+, f32[17,1])"

#define INTEGER_PAIRS                                                                              \
    "(s32[3,5]<9, s32[3,5]<9)", "(s64[3,5]<9, s32[5]<9)", "(s8[2,17,3], u8[2,17,3]<9)",            \
        "(u8[2,7,4,4], u8[2,7,1,1]<9)", "(s64[3,5]<9, s64[])", "(s16[2,31], s8[2,31])",            \
        "(u16[2,17,3], u16[17,1]<5)", "(u32[3,7]<9, u32[7]<9)", "(u64[3,5]<9, u64[3,1]<9)",        \
        "(s32[2,17,3]<3, s32[17,1]<3)"

#define BOOLS "(bool[2,7], bool[7])", "(bool[3,1], bool[31])"

/* Divisors are not 0. */
#define DIVISIONS                                                                                  \
    "(s32[3,5], s32[3,5]+)", "(s64[3,5], 3)", "(s64[7], -4)", "(u8[2,7,4,4], u8[2,7,1,1]+)",       \
        "(s8[2,17,3], s8[2,17,3]+)", "(s16[2,31], s16[31]+)", "(u64[3,5]<9, u64[5]+)",             \
        "(u16[2,17,3], u16[17,1]+)", "(u32[3,7]<9, u32[7]+)", "(s32[0,3], s32[3])"

static const char *const cases_ANY[] = {SHAPES, INTEGER_PAIRS, BOOLS, NULL};
static const char *const cases_NUMBERS[] = {SHAPES, INTEGER_PAIRS, "(bool[7], s8[7])", NULL};
static const char *const cases_NUMBERS_ONLY[] = {SHAPES, INTEGER_PAIRS, NULL};
static const char *const cases_INTEGERS[] = {INTEGER_PAIRS, BOOLS, "(bool[7], s8[7])", NULL};
static const char *const cases_divisions[] = {SHAPES, DIVISIONS, NULL};
#define CASES(takes, flags) ((flags)&DIVIDES) != 0 ? cases_divisions : cases_##takes

/* ---- definitions ---- */

#define BINARY(op_name, result, takes, flags, floating, integral, passes)                          \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = VARIANT_##op_name,                                \
                                      .preference = FUNCTION_PREFERENCE(result),                   \
                                      .traits = TRAIT_ELEMENTWISE |                                \
                                                (((flags)&COMMUTES) != 0 ? TRAIT_COMMUTATIVE : 0), \
                                      .n_operands = 2,                                             \
                                      .operands = operands,                                        \
                                      .n_outputs = 1,                                              \
                                      .infer = infer,                                              \
                                      .infers_symbols = true,                                      \
                                      .kernels = ((flags)&ONEDNN) != 0 ? either : ours,            \
                                      .spec = spec,                                                \
                                      .as_post_op = as_post_op,                                    \
                                      .gradient = passes,                                          \
                                      .cases = CASES(takes, flags)};
#include "ops/elementwise/binary.def"
#undef BINARY

/* ---- public ---- */

#define BINARY(op_name, result, takes, flags, floating, integral, passes)                          \
    status_t op_##op_name(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)    \
    {                                                                                              \
        const tensor_t *in[] = {a, b};                                                             \
        return dispatch_run(ctx, &op_def_##op_name, NULL, 2, in, NULL, out);                       \
    }                                                                                              \
    status_t op_##op_name##_(context_t *ctx, tensor_t *a, const tensor_t *b)                       \
    {                                                                                              \
        return dispatch_run_in_place(ctx, &op_def_##op_name, NULL, a, 1, &b);                      \
    }
#include "ops/elementwise/binary.def"
#undef BINARY
