/* Gradients of functions of two tensors that products and sums do not make, in one pass:
 *
 *   pow_base      of a in a^b: grad b a^(b-1), 0 where b is 0
 *   pow_exponent  of b in a^b: grad a^b log(a), 0 where a is 0 and b >= 0
 *   maximum       of a in max(a, b): grad where a > b, half of it where a = b
 *   minimum       of a in min(a, b)
 *   prelu         of a in a > 0 ? a : b a */
#include <tgmath.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/function_impl.h"
#include "ops/elementwise/rows_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/sizes_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int function; /* binary_backward_t */
} attrs_t;

static const char *const names[] = {"pow_base", "pow_exponent", "maximum",
                                    "minimum",  "prelu",        NULL};
static const attr_field_t fields[] = {
    {"function", ATTR_NAME, false, offsetof(attrs_t, function), 0, 0, names}};

static const operand_t operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                     {"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { GRAD, A, B };

/* ---- the functions ---- */

/* The powers that training has most of are products. */
#define POWER(x, e) ((e) == 1 ? (x) : (e) == 2 ? (x) * (x) : pow(x, e))

#define ROWS(name, type, expr)                                                                     \
    FOR_EACH_ISA static void name(const broadcast_rows_t *rows)                                    \
    {                                                                                              \
        typedef type element_t;                                                                    \
        const int64_t *step = rows->step;                                                          \
        for (int64_t row = 0; row < rows->rows; row++) {                                           \
            const element_t *p = (const element_t *)rows->in[GRAD] + row * rows->row_step[GRAD];   \
            const element_t *q = (const element_t *)rows->in[A] + row * rows->row_step[A];         \
            const element_t *r = (const element_t *)rows->in[B] + row * rows->row_step[B];         \
            element_t *o = (element_t *)rows->out + row * rows->out_row_step;                      \
            if (step[GRAD] != 0 && step[A] != 0 && step[B] != 0) {                                 \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t g = p[i], a = q[i], b = r[i];                                  \
                    o[i] = (element_t)(expr);                                                      \
                }                                                                                  \
            } else {                                                                               \
                ROWS_EACH(rows->n)                                                                 \
                {                                                                                  \
                    const element_t g = p[i * step[GRAD]], a = q[i * step[A]];                     \
                    const element_t b = r[i * step[B]];                                            \
                    o[i] = (element_t)(expr);                                                      \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define BOTH(name, expr)                                                                           \
    ROWS(name##_f32, float, expr)                                                                  \
    ROWS(name##_f64, double, expr)

BOTH(pow_base, b == 0 ? 0 : g * (b * POWER(a, b - 1)))
BOTH(pow_exponent, a == 0 && b >= 0 ? 0 : g * (pow(a, b) * log(a)))
BOTH(maximum, a < b ? 0 : a == b ? g / 2 : g)
BOTH(minimum, a > b ? 0 : a == b ? g / 2 : g)
BOTH(prelu, a > 0 ? g : g * b)

static const struct {
    broadcast_compute_t f32, f64;
} functions[] = {[BACKWARD_POW_BASE] = {pow_base_f32, pow_base_f64},
                 [BACKWARD_POW_EXPONENT] = {pow_exponent_f32, pow_exponent_f64},
                 [BACKWARD_MAXIMUM] = {maximum_f32, maximum_f64},
                 [BACKWARD_MINIMUM] = {minimum_f32, minimum_f64},
                 [BACKWARD_PRELU] = {prelu_f32, prelu_f64}};

/* ---- inference and specification ---- */

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *grad = call->in[GRAD];
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    REQUIRE(ctx, dtype_is_floating(grad->dtype),
            "binary_backward: grad is %s, a floating dtype is needed", info_brief(grad));
    REQUIRE(ctx,
            broadcast_infer(ctx, call, &rank, sizes) &&
                sizes_equal(ctx, rank, sizes, grad->rank, grad->sizes),
            "binary_backward: a is %s, b is %s, they do not broadcast to grad %s",
            info_brief(call->in[A]), info_brief(call->in[B]), info_brief(grad));
    out[0] = info_dense(grad->dtype, rank, sizes);
    return STATUS_OK;
}

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    const int rank = call->out[output].rank;
    double in[3], result = 0.0;
    for (int i = GRAD; i <= B; i++) in[i] = spec_at_broadcast(call, i, rank, index);
    broadcast_rows_t rows = {
        .rows = 1, .n = 1, .in = {&in[GRAD], &in[A], &in[B]}, .step = {1, 1, 1}, .out = &result};
    functions[((const attrs_t *)call->attrs)->function].f64(&rows);
    return result;
}

/* ---- kernel of our own ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const int function = ((const attrs_t *)call->attrs)->function;
    const dtype_t compute = call->out[0].dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    broadcast_t *broadcast = NULL;
    TRY(context_get_zeroed(ctx, sizeof *broadcast, "binary_backward", &broadcast));
    prepared->state = broadcast;
    broadcast->compute = compute == DTYPE_F64 ? functions[function].f64 : functions[function].f32;
    for (int i = GRAD; i <= B; i++) broadcast->in_dtype[i] = compute;
    broadcast->out_dtype = compute;
    broadcast->keeps_zero = true;
    TRY(broadcast_prepare(call, prepared, broadcast));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = broadcast_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- cases ---- */

#define SHAPES(text)                                                                               \
    "(f32[2,17,5,3], f32[2,17,5,3], f32[2,17,5,3])" text,                                          \
        "(f32[2,17,5,3], f32[2,17,5,3], f32[17,1,1])" text,                                        \
        "(f32[2,32,6,6], f32[2,32,1,1], f32[2,32,6,6])" text,                                      \
        "(f32[1,31,3,3], f32[1,31,3,3], f32[])" text, "(f32[3,4], f32[3,1], f32[4])" text,         \
        "(bf16[2,17,3], bf16[2,17,3], f32[])" text, "(f64[2,3], f64[2,3], f64[2,3])" text,         \
        "(f32[0,3], f32[0,3], f32[3])" text, "(f16[5], f16[5], f16[5])" text

static const char *const cases[] = {SHAPES(""),
                                    "(f32[3,7], f32[3,7]+, f32[7])",
                                    "(f32[3,7], f32[3,7], s64[3,7]<4)",
                                    SHAPES(" function=\"pow_exponent\""),
                                    "(f32[3,7], f32[3,7]+, f32[7]) function=\"pow_exponent\"",
                                    SHAPES(" function=\"maximum\""),
                                    "(f32[3,7], s64[3,7]<3, s64[3,7]<3) function=\"maximum\"",
                                    SHAPES(" function=\"minimum\""),
                                    SHAPES(" function=\"prelu\""),
                                    NULL};

/* ---- definition ---- */

const opdef_t op_def_binary_backward = {.name = "binary_backward",
                                        .preference = OP_FOLLOWS,
                                        .traits = TRAIT_ELEMENTWISE,
                                        .attrs = {sizeof(attrs_t), 1, fields},
                                        .n_operands = 3,
                                        .operands = operands,
                                        .n_outputs = 1,
                                        .infer = infer,
                                        .infers_symbols = true,
                                        .kernels = kernels,
                                        .spec = spec,
                                        .cases = cases};

value_t emit_binary_backward(emitter_t *emitter, binary_backward_t function, value_t grad,
                             value_t a, value_t b)
{
    const attrs_t attrs = {(int)function};
    const value_t in[] = {grad, a, b};
    return emit_op(emitter, &op_def_binary_backward, &attrs, 3, in);
}
