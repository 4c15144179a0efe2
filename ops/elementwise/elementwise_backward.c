/* Gradients of functions of one tensor: the gradient of the result times the function's slope, in
 * one pass. elementwise_backward.def lists the slopes. */
#include "ops/elementwise/elementwise_backward_impl.h"

#include <string.h>
#include <tgmath.h>

#include "dispatch/choose_impl.h"
#include "dispatch/vector_math_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/function_impl.h"
#include "ops/elementwise/rows_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sizes_impl.h"

/* ---- attributes ---- */

typedef enum slope {
#define SLOPE(name, reads, expr) SLOPE_##name,
#include "ops/elementwise/elementwise_backward.def"
#undef SLOPE
    SLOPE_COUNT
} slope_t;

static const char *const names[] = {
#define SLOPE(name, reads, expr) #name,
#include "ops/elementwise/elementwise_backward.def"
#undef SLOPE
    NULL};

typedef struct attrs {
    int function; /* slope_t */
    double alpha, beta;
} attrs_t;

static const attr_field_t fields[] = {
    {"function", ATTR_NAME, false, offsetof(attrs_t, function), 0, 0, names},
    {"alpha", ATTR_FLOAT, false, offsetof(attrs_t, alpha), 0, 0, NULL},
    {"beta", ATTR_FLOAT, false, offsetof(attrs_t, beta), 0, 0, NULL}};

/* value: the function's input or its result, as the table says. */
static const operand_t operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                     {"value", ROLE_ACTIVATION, false, false}};
enum { GRAD, VALUE };

/* ---- the slopes ---- */

#define HALF ((element_t)0.5)
#define LN_2 ((element_t)0.69314718055994530942)
#define LN_10 ((element_t)2.30258509299404568402)
#define SELU_SCALE ((element_t)1.0507009873554804934193349852946)
#define SELU_ALPHA ((element_t)1.6732632423543772848170429916717)
#define TWO_BY_ROOT_PI ((element_t)1.1283791670955125739)

#define EXP(x) _Generic((x), float : vector_exp, double : exp)(x)
#define SIGMOID(x) (1 / (1 + EXP(-(x))))

/* Phi(x) + x phi(x), with Phi and phi of the normal distribution. */
#define GELU_SLOPE(suffix, type)                                                                   \
    static inline type gelu_slope_##suffix(type x)                                                 \
    {                                                                                              \
        const type density = (type)0.39894228040143267794 * EXP(-(type)0.5 * x * x);               \
        return (type)0.5 * erfc(-x * (type)0.70710678118654752440) + x * density;                  \
    }                                                                                              \
                                                                                                   \
    /* gelu_tanh is x sigmoid(u) with u = k (x + 0.044715 x^3). */                                 \
    static inline type gelu_tanh_slope_##suffix(type x)                                            \
    {                                                                                              \
        const type k = (type)1.5957691216057307117597842374, square = x * x;                       \
        const type bounded = square < 400 ? square : 400;                                          \
        const type s = SIGMOID(k * x * (1 + (type)0.044715 * square));                             \
        return s + s * (1 - s) * k * x * (1 + (type)0.134145 * bounded);                           \
    }                                                                                              \
                                                                                                   \
    static inline type silu_slope_##suffix(type x)                                                 \
    {                                                                                              \
        const type s = SIGMOID(x);                                                                 \
        return s * (1 + x * (1 - s));                                                              \
    }                                                                                              \
                                                                                                   \
    /* mish is x t, t = tanh(softplus(x)) = n / (n + 2) with n = e^x (e^x + 2). Behind 20 its      \
     * slope is 1. */                                                                              \
    static inline type mish_slope_##suffix(type x)                                                 \
    {                                                                                              \
        const type bounded = x > 20 ? 20 : x;                                                      \
        const type e = EXP(bounded), n = e * (e + 2), t = n / (n + 2);                             \
        return t + bounded * 4 * e * (e + 1) / ((n + 2) * (n + 2));                                \
    }

GELU_SLOPE(f32, float)
GELU_SLOPE(f64, double)

#define BY_WIDTH(function, x) _Generic((x), float : function##_f32, double : function##_f64)(x)
#define GELU(x) BY_WIDTH(gelu_slope, x)
#define GELU_TANH(x) BY_WIDTH(gelu_tanh_slope, x)
#define SILU(x) BY_WIDTH(silu_slope, x)
#define MISH(x) BY_WIDTH(mish_slope, x)

/* A gradient that was expanded is one number for a row: its step is 0. */
#define ROWS(name, type, expr)                                                                     \
    FOR_EACH_ISA static void name(const broadcast_rows_t *rows)                                    \
    {                                                                                              \
        typedef type element_t;                                                                    \
        const element_t a = (element_t)rows->alpha, b = (element_t)rows->beta;                     \
        const int64_t p_step = rows->step[GRAD], q_step = rows->step[VALUE];                       \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const element_t *p = (const element_t *)rows->in[GRAD] + row * rows->row_step[GRAD];   \
            const element_t *q = (const element_t *)rows->in[VALUE] + row * rows->row_step[VALUE]; \
            element_t *o = (element_t *)rows->out + row * rows->out_row_step;                      \
            if (p_step != 0 && q_step != 0) {                                                      \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t g = p[i], v = q[i];                                            \
                    o[i] = (element_t)(expr);                                                      \
                }                                                                                  \
            } else {                                                                               \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t g = p[i * p_step], v = q[i * q_step];                          \
                    o[i] = (element_t)(expr);                                                      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
    }

#define SLOPE(name, reads, expr)                                                                   \
    ROWS(name##_f32, float, expr)                                                                  \
    ROWS(name##_f64, double, expr)
#include "ops/elementwise/elementwise_backward.def"
#undef SLOPE

static const struct {
    broadcast_compute_t f32, f64;
} functions[] = {
#define SLOPE(name, reads, expr) {name##_f32, name##_f64},
#include "ops/elementwise/elementwise_backward.def"
#undef SLOPE
};

/* ---- inference and specification ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *grad = call->in[GRAD], *value = call->in[VALUE];
    REQUIRE(ctx, dtype_is_floating(grad->dtype) && grad->dtype == value->dtype,
            "elementwise_backward: grad is %s, value is %s, one floating dtype is needed",
            info_brief(grad), info_brief(value));
    REQUIRE(ctx, sizes_equal(ctx, grad->rank, grad->sizes, value->rank, value->sizes),
            "elementwise_backward: grad is %s, value is %s, equal sizes are needed",
            info_brief(grad), info_brief(value));
    out[0] = info_dense(grad->dtype, grad->rank, grad->sizes);
    return STATUS_OK;
}

static double slope_value(const attrs_t *attrs, double grad, double value)
{
    double result = 0.0;
    broadcast_rows_t rows = {.rows = 1,
                             .n = 1,
                             .in = {&grad, &value},
                             .step = {1, 1},
                             .out = &result,
                             .alpha = attrs->alpha,
                             .beta = attrs->beta};
    functions[attrs->function].f64(&rows);
    return result;
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return slope_value(call->attrs, spec_at(call, GRAD, index), spec_at(call, VALUE, index));
}

/* ---- kernel on oneDNN: gelu, whose erf our loop computes element by element ---- */

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *grad = call->in[GRAD], *value = call->in[VALUE];
    const attrs_t *attrs = call->attrs;
    onednn_primitive_t *primitive = NULL;
    if (attrs->function != SLOPE_gelu)
        return prepared_decline(prepared, "onednn: our loop of %s is as fast",
                                names[attrs->function]);
    if (grad->dtype != DTYPE_F32)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(grad->dtype));
    format_t own = accept_own(grad);
    if (grad->rank == 0 || !format_same(&grad->format, &value->format, grad->sizes) ||
        !format_same(&grad->format, &own, grad->sizes))
        return prepared_decline(prepared, "onednn: %s and %s do not lie alike", info_brief(grad),
                                info_brief(value));
    TRY(accept_out(call, prepared, 0, &own));
    int64_t n = walk_elements(grad);
    tensor_info_t flat = info_dense(grad->dtype, 1, &n);
    onednn_problem_t problem = {.kind = ONEDNN_ELTWISE,
                                .algorithm = ONEDNN_ELTWISE_GELU_ERF,
                                .propagation = ONEDNN_TRAINING,
                                .n_src = 1,
                                .src = &flat,
                                .dst = &flat};
    status_t status = onednn_describe(ctx, &problem, &problem.forward);
    if (status == STATUS_OK) {
        problem.propagation = ONEDNN_BACKWARD_DATA;
        problem.dst = NULL;
        problem.diff_src = problem.diff_dst = &flat;
        status = onednn_describe(ctx, &problem, &primitive);
    }
    onednn_release(problem.forward);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: %s for %s", onednn_refusal(ctx),
                                info_brief(grad));
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: the backward of gelu is %s",
                                prepared->implementation);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, 0.0,
                                 3.0 * (double)info_bytes(grad));
    return STATUS_OK;
}

/* oneDNN takes the function's input before the gradient. */
static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    void *arguments[] = {in[VALUE], in[GRAD], out[0]};
    return onednn_run(ctx, prepared->primitive, arguments, scratch);
}

static const kernel_t onednn = {
    .name = "onednn", .prepare = prepare_onednn, .run = run_onednn, .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- kernel of our own ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const attrs_t *attrs = call->attrs;
    const dtype_t compute = call->out[0].dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    broadcast_t *broadcast = NULL;
    TRY(context_get_zeroed(ctx, sizeof *broadcast, "elementwise_backward", &broadcast));
    prepared->state = broadcast;
    broadcast->compute = compute == DTYPE_F64 ? functions[attrs->function].f64
                                              : functions[attrs->function].f32;
    broadcast->in_dtype[GRAD] = broadcast->in_dtype[VALUE] = broadcast->out_dtype = compute;
    broadcast->alpha = attrs->alpha;
    broadcast->beta = attrs->beta;
    const double of_zeros = slope_value(attrs, 0.0, 0.0);
    broadcast->keeps_zero = of_zeros == 0.0 && !signbit(of_zeros);
    TRY(broadcast_prepare(call, prepared, broadcast));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 3.0 * (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = broadcast_run};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- cases ---- */

#define CASE(text) "(f32[2,17,5,3], f32[2,17,5,3]) function=\"" text "\""
#define SHAPES(text)                                                                               \
    "(f32[1,3,4], f32[1,3,4])" text, "(f32[2,32,6,6], f32[2,32,6,6])" text,                        \
        "(bf16[2,17,5,5], bf16[2,17,5,5])" text, "(f16[2,3], f16[2,3])" text,                      \
        "(f64[2,7,3], f64[2,7,3])" text, "(f32[0,3], f32[0,3])" text, "(f32[], f32[])" text,       \
        "(f32[1,24,40,40], f32[1,24,40,40])" text, "(f32[2,17,3,4,5], f32[2,17,3,4,5])" text

static const char *const cases[] = {SHAPES(""),
                                    SHAPES(" function=\"gelu\""),
                                    SHAPES(" function=\"sqrt\""),
                                    CASE("relu6"),
                                    CASE("clamp") " alpha=-0.5 beta=0.75",
                                    CASE("leaky_relu") " alpha=0.3",
                                    CASE("elu") " alpha=0.3",
                                    CASE("celu") " alpha=-2.0",
                                    CASE("selu"),
                                    CASE("gelu_tanh"),
                                    CASE("erf"),
                                    CASE("sigmoid"),
                                    CASE("tanh"),
                                    CASE("mish"),
                                    CASE("shrink") " alpha=0.25",
                                    CASE("threshold") " alpha=0.5",
                                    CASE("hardsigmoid") " alpha=0.2 beta=0.4",
                                    CASE("hardswish"),
                                    CASE("silu"),
                                    CASE("softplus"),
                                    CASE("softsign"),
                                    CASE("logsigmoid"),
                                    CASE("rsqrt"),
                                    CASE("square"),
                                    CASE("reciprocal"),
                                    CASE("exp"),
                                    CASE("exp2"),
                                    CASE("expm1"),
                                    CASE("log"),
                                    CASE("log2"),
                                    CASE("log10"),
                                    CASE("log1p"),
                                    CASE("abs"),
                                    CASE("sin"),
                                    CASE("cos"),
                                    CASE("tan"),
                                    CASE("asin"),
                                    CASE("acos"),
                                    CASE("atan"),
                                    CASE("sinh"),
                                    CASE("cosh"),
                                    CASE("asinh"),
                                    CASE("acosh"),
                                    CASE("atanh"),
                                    NULL};

/* ---- definition ---- */

const opdef_t op_def_elementwise_backward = {.name = "elementwise_backward",
                                             .preference = OP_FOLLOWS,
                                             .traits = TRAIT_ELEMENTWISE,
                                             .attrs = {sizeof(attrs_t), 3, fields},
                                             .n_operands = 2,
                                             .operands = operands,
                                             .n_outputs = 1,
                                             .infer = infer,
                                             .infers_symbols = true,
                                             .kernels = kernels,
                                             .spec = spec,
                                             .cancels = 8.0,
                                             .cases = cases};

/* ---- the rule ---- */

#define IN false
#define OUT true
static const bool reads_out[] = {
#define SLOPE(name, reads, expr) reads,
#include "ops/elementwise/elementwise_backward.def"
#undef SLOPE
};

void elementwise_backward_pass(const gradient_call_t *call, const char *function, double alpha,
                               double beta)
{
    int i = 0;
    while (i + 1 < SLOPE_COUNT && strcmp(names[i], function) != 0) i++;
    INVARIANT(strcmp(names[i], function) == 0);
    const attrs_t attrs = {.function = i, .alpha = alpha, .beta = beta};
    const value_t in[] = {call->out_grad[0], reads_out[i] ? call->out[0] : call->in[0]};
    call->in_grad[0] = emit_op(call->emitter, &op_def_elementwise_backward, &attrs, 2, in);
}

static void pass(const gradient_call_t *call)
{
    elementwise_backward_pass(call, call->op->name, 0.0, 0.0);
}

const gradient_t elementwise_backward_in = {.pass = pass, .reads_in = 1};
const gradient_t elementwise_backward_out = {.pass = pass, .reads_out = 1};
