/* Activations: functions of one tensor that can also be post-ops. They share inference,
 * specification and two kernels. */
#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/isa_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/activation_impl.h"
#include "ops/elementwise/elementwise_backward_impl.h"
#include "ops/walk_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

/* alpha and beta have the meaning that eltwise_t documents, under PyTorch's attribute names. */
typedef struct attrs {
    double alpha, beta;
    bool tanh_approximation;
} attrs_t;

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

typedef struct function {
    eltwise_t eltwise;
    double alpha, beta;
} function_t;

/* The function of an operator, whose variant is an eltwise_t. relu6 is a clamp with fixed
 * bounds. */
static function_t function_of(const opdef_t *op, const void *attrs)
{
    const attrs_t *given = attrs;
    function_t function = {.eltwise = (eltwise_t)op->variant};
    if (op->attrs.bytes > 0) {
        function.alpha = given->alpha;
        function.beta = given->beta;
        if (given->tanh_approximation) function.eltwise = ELTWISE_GELU_TANH;
    } else if (function.eltwise == ELTWISE_CLAMP) {
        function.beta = 6.0;
    }
    return function;
}

static bool activation_as_post_op(const opdef_t *op, const void *attrs, post_op_t *out_post)
{
    const function_t function = function_of(op, attrs);
    *out_post = (post_op_t){.kind = POST_ELTWISE,
                            .eltwise = function.eltwise,
                            .alpha = function.alpha,
                            .beta = function.beta};
    return function.eltwise != ELTWISE_CLAMP || !(isnan(function.alpha) || isnan(function.beta));
}

/* ---- inference ---- */

static bool is_whole(double bound)
{
    return !isfinite(bound) ? !isnan(bound) : bound == floor(bound);
}

/* True if the function returns integers for integers. Otherwise the result is f32. */
static bool keeps_integers(const opdef_t *op)
{
    switch ((eltwise_t)op->variant) {
    case ELTWISE_RELU:
    case ELTWISE_CLAMP:
    case ELTWISE_ABS:
    case ELTWISE_NEG: return true;
    default: return false;
    }
}

/* As in PyTorch, the result of clamp is f32 if a bound is not an integer. */
static bool keeps_dtype(const op_call_t *call)
{
    const function_t f = function_of(call->op, call->attrs);
    if (dtype_is_floating(call->in[X]->dtype)) return true;
    if (!keeps_integers(call->op)) return false;
    return f.eltwise != ELTWISE_CLAMP || (is_whole(f.alpha) && is_whole(f.beta));
}

static status_t activation_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                 tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    REQUIRE(ctx, x->dtype != DTYPE_BOOL || !keeps_integers(call->op),
            "%s: x is %s, numbers are needed", call->op->name, info_brief(x));
    const function_t f = function_of(call->op, call->attrs);
    REQUIRE(ctx, f.eltwise != ELTWISE_CELU || f.alpha != 0.0, "celu: alpha is 0, it divides by it");
    out[0] = info_dense(keeps_dtype(call) ? x->dtype : DTYPE_F32, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- functions of integers: bounds are limited to the range of s64; results wrap around ---- */

static int64_t integer_bound(dtype_t dtype, double bound)
{
    if (dtype == DTYPE_U64 && bound >= 0x1p63)
        return bound >= 0x1p64 ? -1 : (int64_t)(uint64_t)bound;
    if (dtype == DTYPE_U64 && bound < 0) return 0;
    if (bound >= 0x1p63) return INT64_MAX;
    return bound > -0x1p63 ? (int64_t)bound : INT64_MIN;
}

/* Compares two numbers of the dtype; u64 values are passed as s64 with the same bits. */
static bool is_less(dtype_t dtype, int64_t a, int64_t b)
{
    return dtype == DTYPE_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t integer_value(eltwise_t eltwise, dtype_t dtype, int64_t x, int64_t low, int64_t high)
{
    const bool is_negative = is_less(dtype, x, 0);
    switch (eltwise) {
    case ELTWISE_RELU: return is_negative ? 0 : x;
    case ELTWISE_CLAMP:
        x = is_less(dtype, x, low) ? low : x;
        return is_less(dtype, high, x) ? high : x;
    case ELTWISE_ABS: return is_negative ? (int64_t)(0 - (uint64_t)x) : x;
    default: return (int64_t)(0 - (uint64_t)x);
    }
}

/* ---- specification ---- */

static double activation_spec(const spec_call_t *call, int output, const int64_t *index)
{
    function_t f = function_of(call->op, call->attrs);
    double x = spec_at(call, X, index);
    dtype_t dtype = call->out[output].dtype;
    if (dtype_is_floating(dtype)) return eltwise_value(f.eltwise, x, f.alpha, f.beta);
    int64_t element = 0;
    dtype_store_integer(dtype, &element,
                        integer_value(f.eltwise, dtype, (int64_t)x, integer_bound(dtype, f.alpha),
                                      integer_bound(dtype, f.beta)));
    return dtype_load(dtype, &element);
}

/* ---- state of both kernels ---- */

/* State from prepare. Padded lanes must be +0 after a run, as before it. dirties_padding is set if
 * the function of 0 is not +0, as for exp (1) and neg (-0), but not for relu. */
typedef struct state {
    function_t function;
    int64_t n; /* including padded lanes */
    bool dirties_padding;
} state_t;

static status_t activation_state(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    state_t *state = NULL;
    TRY(walk_follow(call, prepared, false));
    TRY(context_get_zeroed(ctx, sizeof *state, "an activation", &state));
    prepared->state = state;
    state->function = function_of(call->op, call->attrs);
    state->n = walk_elements(&prepared->in[X]);
    const function_t *f = &state->function;
    const tensor_info_t *out = &prepared->out[0];
    double of_zero = eltwise_value(f->eltwise, 0.0, f->alpha, f->beta);
    state->dirties_padding = (of_zero != 0.0 || signbit(of_zero)) &&
                             format_is_padded(&out->format, out->sizes);
    prepared->overwrites = 1u << X;
    return STATUS_OK;
}

/* ---- oneDNN kernel ----
 *
 * Reads the tensor, in any format, as one row. Declines functions that choose_eltwise or
 * choose_is_exact exclude; our loops are as fast for these. */

/* True if our loop in kernels/elementwise/functions has fewer steps than oneDNN's, and only one
 * division. */
static bool is_faster_here(eltwise_t eltwise)
{
    return isa_best() != ISA_PORTABLE && (eltwise == ELTWISE_SILU || eltwise == ELTWISE_SIGMOID);
}

static status_t activation_prepare_onednn(context_t *ctx, const op_call_t *call,
                                          prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const function_t f = function_of(call->op, call->attrs);
    onednn_post_op_t eltwise;
    onednn_primitive_t *primitive = NULL;
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    if (x->dtype == DTYPE_F32 && is_faster_here(f.eltwise))
        return prepared_decline(prepared, "onednn: its %s of f32 is slower than ours",
                                call->op->name);
    const post_op_t function = {POST_ELTWISE, f.eltwise, f.alpha, f.beta};
    if (!choose_is_exact(&function))
        return prepared_decline(prepared, "onednn: its %s of NaN or infinity differs",
                                call->op->name);
    if (!choose_eltwise(f.eltwise, f.alpha, f.beta, &eltwise))
        return prepared_decline(prepared, "onednn: no %s", call->op->name);
    TRY(activation_state(ctx, call, prepared));

    tensor_info_t flat = info_dense(x->dtype, 1, &((const state_t *)prepared->state)->n);
    onednn_problem_t problem = {.kind = ONEDNN_ELTWISE,
                                .algorithm = eltwise.algorithm,
                                .n_src = 1,
                                .src = &flat,
                                .dst = &flat,
                                .alpha = eltwise.alpha,
                                .beta = eltwise.beta};
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: %s for %s", onednn_refusal(ctx), info_brief(x));
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: %s is %s", call->op->name,
                                prepared->implementation);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, 0.0,
                                 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

static status_t activation_run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                                      void *const *out, void *scratch)
{
    const state_t *state = prepared->state;
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    if (state->dirties_padding) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = activation_prepare_onednn,
                                .run = activation_run_onednn,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel ---- */

static status_t activation_prepare_native(context_t *ctx, const op_call_t *call,
                                          prepared_t *prepared)
{
    TRY(activation_state(ctx, call, prepared));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

#define CHUNK 1024

/* Computes at most CHUNK elements, using a buffer. */
static void apply_chunk(const function_t *f, int64_t n, dtype_t src_dtype, const void *src,
                        dtype_t dst_dtype, void *dst)
{
    union {
        float f32[CHUNK];
        double f64[CHUNK];
        int64_t s64[CHUNK];
    } value;
    if (dtype_is_integral(dst_dtype)) {
        int64_t low = integer_bound(dst_dtype, f->alpha), high = integer_bound(dst_dtype, f->beta);
        dtype_cast(n, src_dtype, src, 1, DTYPE_S64, value.s64, 1);
        for (int64_t i = 0; i < n; i++)
            value.s64[i] = integer_value(f->eltwise, dst_dtype, value.s64[i], low, high);
        dtype_cast(n, DTYPE_S64, value.s64, 1, dst_dtype, dst, 1);
    } else if (src_dtype == DTYPE_BF16 || src_dtype == DTYPE_F16) {
        dtype_cast(n, src_dtype, src, 1, DTYPE_F32, value.f32, 1);
        eltwise_apply(f->eltwise, f->alpha, f->beta, n, value.f32, value.f32);
        dtype_cast(n, DTYPE_F32, value.f32, 1, dst_dtype, dst, 1);
    } else {
        dtype_cast(n, src_dtype, src, 1, DTYPE_F64, value.f64, 1);
        for (int64_t i = 0; i < n; i++)
            value.f64[i] = eltwise_value(f->eltwise, value.f64[i], f->alpha, f->beta);
        dtype_cast(n, DTYPE_F64, value.f64, 1, dst_dtype, dst, 1);
    }
}

typedef struct run {
    const function_t *function;
    dtype_t src_dtype, dst_dtype;
    const char *src;
    char *dst;
    int64_t n;
} run_t;

static void run_f32(void *user, int64_t first_chunk, int64_t last_chunk)
{
    const run_t *run = user;
    const function_t *f = run->function;
    const int64_t first = first_chunk * CHUNK, last = last_chunk * CHUNK;
    if (first == last) return;
    eltwise_apply(f->eltwise, f->alpha, f->beta, (last < run->n ? last : run->n) - first,
                  (const float *)(const void *)run->src + first, (float *)(void *)run->dst + first);
}

static void run_chunks(void *user, int64_t first_chunk, int64_t last_chunk)
{
    const run_t *run = user;
    const int64_t src_size = (int64_t)dtype_size(run->src_dtype);
    const int64_t dst_size = (int64_t)dtype_size(run->dst_dtype);
    for (int64_t chunk = first_chunk; chunk < last_chunk; chunk++) {
        int64_t first = chunk * CHUNK, n = run->n - first < CHUNK ? run->n - first : CHUNK;
        apply_chunk(run->function, n, run->src_dtype, run->src + first * src_size, run->dst_dtype,
                    run->dst + first * dst_size);
    }
}

static status_t activation_run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                                      void *const *out, void *scratch)
{
    (void)scratch;
    const state_t *state = prepared->state;
    run_t run = {.function = &state->function,
                 .src_dtype = prepared->in[X].dtype,
                 .dst_dtype = prepared->out[0].dtype,
                 .src = in[X],
                 .dst = out[0],
                 .n = state->n};
    threads_share(threads_for(ctx, run.n), (run.n + CHUNK - 1) / CHUNK,
                  run.src_dtype == DTYPE_F32 ? run_f32 : run_chunks, &run);
    if (state->dirties_padding) walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = activation_prepare_native, .run = activation_run_native};
static const kernel_t *const EITHER[] = {&onednn, &native, NULL};
static const kernel_t *const OURS[] = {&native, NULL};

/* ---- gradients: lines of unary_slopes.def, which read the input or the result ---- */

static void activation_pass(const gradient_call_t *call)
{
    const function_t f = function_of(call->op, call->attrs);
    const char *name = f.eltwise == ELTWISE_GELU_TANH ? "gelu_tanh" : call->op->name;
    elementwise_backward_pass(call, name, f.alpha, f.beta);
}

static void pass_neg(const gradient_call_t *call)
{
    call->in_grad[X] = emit_unary(call->emitter, &op_def_neg, call->out_grad[0]);
}

static const gradient_t by_IN = {.pass = activation_pass, .reads_in = 1u << X};
static const gradient_t by_OUT = {.pass = activation_pass, .reads_out = 1};
static const gradient_t by_NEITHER = {.pass = pass_neg};

/* ---- definitions: the rows of eltwise.def, and relu6 ---- */

#define FIELD(name, kind, member, initial)                                                         \
    {                                                                                              \
#name, kind, false, offsetof(attrs_t, member), 0, initial, NULL                            \
    }
#define FIELDS(n, ...)                                                                             \
    {                                                                                              \
        sizeof(attrs_t), n, (const attr_field_t[])                                                 \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define NONE                                                                                       \
    {                                                                                              \
        0, 0, NULL                                                                                 \
    }
#define FLAG(name) FIELDS(1, FIELD(name, ATTR_BOOL, tanh_approximation, 0))
#define ONE(name, initial) FIELDS(1, FIELD(name, ATTR_FLOAT, alpha, initial))
#define TWO(name, initial, name2, initial2)                                                        \
    FIELDS(2, FIELD(name, ATTR_FLOAT, alpha, initial), FIELD(name2, ATTR_FLOAT, beta, initial2))

#define ACTIVATION(op_name, NAME, layer, parameters, value, loop, terms, reads, slope, choice,     \
                   onnx)                                                                           \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = ELTWISE_##NAME,                                   \
                                      .preference = OP_FOLLOWS,                                    \
                                      .traits = TRAIT_ELEMENTWISE,                                 \
                                      .attrs = parameters,                                         \
                                      OPERANDS(operands),                                          \
                                      .n_outputs = 1,                                              \
                                      .infer = activation_infer,                                   \
                                      .infers_symbols = true,                                      \
                                      .kernels = choice,                                           \
                                      .spec = activation_spec,                                     \
                                      .as_post_op = activation_as_post_op,                         \
                                      .gradient = &by_##reads};
#define POST_ONLY(...)
ACTIVATION(relu6, CLAMP, NULL, NONE, x, COUNT, 0, OUT, g, OURS, NO_ONNX)
#include "kernels/elementwise/eltwise.def"
#undef NONE
#undef FLAG
#undef ONE
#undef TWO

/* ---- public ---- */

const opdef_t *activation_operator(eltwise_t eltwise)
{
    static const opdef_t *const ops[ELTWISE_COUNT] = {
        [ELTWISE_GELU_TANH] = &op_def_gelu,
#define ACTIVATION(name, NAME, ...) [ELTWISE_##NAME] = &op_def_##name,
#define POST_ONLY(...)
#include "kernels/elementwise/eltwise.def"
    };
    return (unsigned)eltwise < ELTWISE_COUNT ? ops[eltwise] : NULL;
}

status_t activation_call(context_t *ctx, eltwise_t eltwise, double alpha, double beta,
                         const tensor_t *x, tensor_t **out)
{
    const bool is_relu6 = eltwise == ELTWISE_CLAMP && alpha == 0 && beta == 6;
    const attrs_t attrs = {alpha, beta, eltwise == ELTWISE_GELU_TANH};
    return dispatch_run(ctx, is_relu6 ? &op_def_relu6 : activation_operator(eltwise), &attrs, 1, &x,
                        NULL, out);
}

#define DECLARED_NONE
#define DECLARED_FLAG(name) , bool name
#define DECLARED_ONE(name, initial) , double name
#define DECLARED_TWO(name, initial, name2, initial2) , double name, double name2
#define PASSED_NONE .alpha = 0
#define PASSED_FLAG(name) .name = name
#define PASSED_ONE(name, initial) .alpha = name
#define PASSED_TWO(name, initial, name2, initial2) .alpha = name, .beta = name2

#define ACTIVATION(op_name, NAME, layer, parameters, ...)                                          \
    status_t op_##op_name(context_t *ctx, const tensor_t *x DECLARED_##parameters, tensor_t **out) \
    {                                                                                              \
        const attrs_t attrs = {PASSED_##parameters};                                               \
        return dispatch_run(ctx, &op_def_##op_name, &attrs, 1, &x, NULL, out);                     \
    }                                                                                              \
    status_t op_##op_name##_(context_t *ctx, tensor_t *x DECLARED_##parameters)                    \
    {                                                                                              \
        const attrs_t attrs = {PASSED_##parameters};                                               \
        return dispatch_run_in_place(ctx, &op_def_##op_name, &attrs, x, 0, NULL);                  \
    }
#define POST_ONLY(...)
ACTIVATION(relu6, CLAMP, NULL, NONE, )
#include "kernels/elementwise/eltwise.def"
