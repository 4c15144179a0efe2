/* Functions of two tensors, with broadcasting and PyTorch's type promotion: arithmetic,
 * comparisons, logic, bits. binary.def lists them. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/function_impl.h"
#include "ops/gradient_impl.h"
#include "ops/ops_impl.h"
#include "ops/walk_impl.h"

/* ---- the table ---- */

static const function_t functions[] = {
#define BINARY(name, result, takes, flags, rule) [BINARY_##name] = {result, takes, flags},
#include "ops/elementwise/binary.def"
#undef BINARY
};

static const operand_t operands[] = {{"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { A, B };

static bool binary_as_post_op(const opdef_t *op, const void *attrs, post_op_t *out_post)
{
    (void)attrs;
    *out_post = (post_op_t){.kind = POST_ELTWISE};
    switch (op->variant) {
    case BINARY_add: out_post->kind = POST_ADD; return true;
    case BINARY_sub: out_post->kind = POST_SUB; return true;
    case BINARY_mul: out_post->kind = POST_MUL; return true;
    case BINARY_div: out_post->kind = POST_DIV; return true;
    case BINARY_maximum: out_post->kind = POST_MAXIMUM; return true;
    case BINARY_minimum: out_post->kind = POST_MINIMUM; return true;
    default: return false;
    }
}

/* ---- inference and specification ---- */

static status_t binary_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    return function_infer(ctx, call, &functions[call->op->variant], out);
}

static double binary_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const int variant = call->op->variant;
    return function_spec(call, &functions[variant],
                         elementwise_binary((binary_function_t)variant, ISA_PORTABLE), index);
}

/* ---- oneDNN kernel: both operands have the same shape and format, and are read as one row ---- */

/* Finds oneDNN's algorithm for a function. Finds none for maximum and minimum, because oneDNN's
 * versions ignore NaN. */
static bool find_algorithm(const opdef_t *op, onednn_algorithm_t *out_algorithm)
{
    switch (op->variant) {
    case BINARY_add: *out_algorithm = ONEDNN_BINARY_ADD; return true;
    case BINARY_sub: *out_algorithm = ONEDNN_BINARY_SUB; return true;
    case BINARY_mul: *out_algorithm = ONEDNN_BINARY_MUL; return true;
    case BINARY_div: *out_algorithm = ONEDNN_BINARY_DIV; return true;
    default: return false;
    }
}

static status_t binary_prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    onednn_algorithm_t algorithm = ONEDNN_BINARY_ADD;
    onednn_primitive_t *primitive = NULL;
    if (!find_algorithm(call->op, &algorithm))
        return prepared_decline(prepared, "onednn: no good %s", call->op->name);
    if ((a->dtype != DTYPE_F32 && a->dtype != DTYPE_BF16) || a->dtype != b->dtype)
        return prepared_decline(prepared, "onednn: dtypes %s and %s", dtype_name(a->dtype),
                                dtype_name(b->dtype));
    format_t own = info_tag(a);
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
    prepared->overwrites = 1u << A; /* not B, which oneDNN does not allow */
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: %s is %s", call->op->name,
                                prepared->implementation);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, 0.0, 3.0 * (double)info_bytes(a));
    return STATUS_OK;
}

/* Sets padded lanes to 0 after a division, which leaves 0 / 0 = NaN in them. */
static status_t binary_run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    if (prepared->op->variant == BINARY_div) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = binary_prepare_onednn,
                                .run = binary_run_onednn,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel ---- */

static bool divides_integers(const function_state_t *state)
{
    return (state->function->flags & DIVIDES) != 0 && !dtype_is_floating(state->compute);
}

static status_t binary_prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const binary_function_t function = (binary_function_t)call->op->variant;
    const isa_t isa = isa_best();
    TRY(function_prepare(ctx, call, &functions[function], elementwise_binary(function, isa),
                         elementwise_binary_s32(function, isa), prepared));
    if (call->layout == LAYOUT_MKLDNN && divides_integers(prepared->state))
        return prepared_decline(prepared, "native: padded lanes would be divisors");
    return STATUS_OK;
}

/* True if an element of a dense tensor is 0. */
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

/* Chooses the loop of a run. pow has faster loops for a single exponent of 2 or 0.5. */
static elementwise_loop_t *choose_loop(const prepared_t *prepared, const void *b)
{
    const function_state_t *state = prepared->state;
    const tensor_info_t *info = &prepared->in[B];
    if (prepared->op->variant != BINARY_pow || !dtype_is_floating(state->compute) ||
        info_numel(info) != 1)
        return state->broadcast.loop;
    const double exponent = dtype_load(info->dtype, b);
    if (exponent != 2.0 && exponent != 0.5) return state->broadcast.loop;
    const elementwise_loops_t *loops = elementwise_binary(
        exponent == 2.0 ? BINARY_square : BINARY_root, isa_best());
    return state->compute == DTYPE_F32 ? loops->f32 : loops->f64;
}

static status_t binary_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                  void *const *out, void *scratch)
{
    const function_state_t *state = prepared->state;
    if (divides_integers(state) && info_numel(&prepared->out[0]) > 0 &&
        has_zero(&prepared->in[B], in[B]))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s: b is %s with a 0, an integer has no quotient by it",
             prepared->op->name, info_brief(&prepared->in[B]));
    broadcast_run_by(ctx, prepared, choose_loop(prepared, in[B]), in, out, scratch);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = binary_prepare_native, .run = binary_run_native};
static const kernel_t *const either[] = {&onednn, &native, NULL};
static const kernel_t *const ours[] = {&native, NULL};

/* ---- gradients ---- */

/* Sets the gradient of one operand to the gradient of the result times `factor`. */
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

/* fmod and remainder are a - b q. q, an integer, is constant for the gradient: da - q db. */
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

static void pass_backward(const gradient_call_t *call, int operand, binary_slope_t function,
                          value_t a, value_t b)
{
    emitter_t *e = call->emitter;
    if (!call->is_wanted[operand]) return;
    value_t grad = emit_binary_backward(e, function, call->out_grad[0], a, b);
    call->in_grad[operand] = emit_unbroadcast(e, grad, call->in[operand]);
}

static void pass_pow(const gradient_call_t *call)
{
    pass_backward(call, A, BINARY_SLOPE_POW_BASE, call->in[A], call->in[B]);
    pass_backward(call, B, BINARY_SLOPE_POW_EXPONENT, call->in[A], call->in[B]);
}

static void pass_maximum(const gradient_call_t *call)
{
    pass_backward(call, A, BINARY_SLOPE_MAXIMUM, call->in[A], call->in[B]);
    pass_backward(call, B, BINARY_SLOPE_MAXIMUM, call->in[B], call->in[A]);
}

static void pass_minimum(const gradient_call_t *call)
{
    pass_backward(call, A, BINARY_SLOPE_MINIMUM, call->in[A], call->in[B]);
    pass_backward(call, B, BINARY_SLOPE_MINIMUM, call->in[B], call->in[A]);
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

/* ---- definitions ---- */

#define BINARY(op_name, result, takes, flags, rule)                                                \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = BINARY_##op_name,                                 \
                                      .preference = FUNCTION_PREFERENCE(result),                   \
                                      .traits = TRAIT_ELEMENTWISE |                                \
                                                (((flags)&COMMUTES) != 0 ? TRAIT_COMMUTATIVE : 0), \
                                      OPERANDS(operands),                                          \
                                      .n_outputs = 1,                                              \
                                      .infer = binary_infer,                                       \
                                      .infers_symbols = true,                                      \
                                      .kernels = ((flags)&ONEDNN) != 0 ? either : ours,            \
                                      .spec = binary_spec,                                         \
                                      .as_post_op = binary_as_post_op,                             \
                                      .gradient = rule};
#include "ops/elementwise/binary.def"
#undef BINARY

/* ---- public ---- */

#define BINARY(op_name, result, takes, flags, rule)                                                \
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
