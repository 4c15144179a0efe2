/* Elementwise functions of one tensor: one table, one inference, one specification, two kernels. */
#include "ops/activation_impl.h"

#include <math.h>
#include <string.h>

#include "dispatch/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "ops/walk_impl.h"
#include "tensor/threads_impl.h"

/* ---- attributes ---- */

/* alpha and beta are those of eltwise_t, under PyTorch's names. */
typedef struct attrs {
    double alpha, beta;
    bool tanh_approximation;
} attrs_t;

static const attr_field_t fields_clamp[] = {
    {"min", ATTR_FLOAT, false, offsetof(attrs_t, alpha), 0, -INFINITY, NULL},
    {"max", ATTR_FLOAT, false, offsetof(attrs_t, beta), 0, INFINITY, NULL}};
static const attr_field_t fields_leaky_relu[] = {
    {"negative_slope", ATTR_FLOAT, false, offsetof(attrs_t, alpha), 0, 0.01, NULL}};
static const attr_field_t fields_elu[] = {
    {"alpha", ATTR_FLOAT, false, offsetof(attrs_t, alpha), 0, 1.0, NULL}};
static const attr_field_t fields_hardsigmoid[] = {
    {"alpha", ATTR_FLOAT, false, offsetof(attrs_t, alpha), 0, 1.0 / 6.0, NULL},
    {"beta", ATTR_FLOAT, false, offsetof(attrs_t, beta), 0, 0.5, NULL}};
static const attr_field_t fields_gelu[] = {
    {"tanh_approximation", ATTR_BOOL, false, offsetof(attrs_t, tanh_approximation), 0, 0, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* relu6 is a clamp whose bounds nobody gives. */
static const struct {
    const opdef_t *op;
    eltwise_t eltwise;
    bool keeps_integers; /* integers stay what they are; else they give f32 */
} table[] = {
    {&op_def_relu, ELTWISE_RELU, true},
    {&op_def_relu6, ELTWISE_CLAMP, true},
    {&op_def_clamp, ELTWISE_CLAMP, true},
    {&op_def_leaky_relu, ELTWISE_LEAKY_RELU, false},
    {&op_def_elu, ELTWISE_ELU, false},
    {&op_def_selu, ELTWISE_SELU, false},
    {&op_def_gelu, ELTWISE_GELU, false},
    {&op_def_erf, ELTWISE_ERF, false},
    {&op_def_sigmoid, ELTWISE_SIGMOID, false},
    {&op_def_tanh, ELTWISE_TANH, false},
    {&op_def_hardsigmoid, ELTWISE_HARDSIGMOID, false},
    {&op_def_hardswish, ELTWISE_HARDSWISH, false},
    {&op_def_silu, ELTWISE_SILU, false},
    {&op_def_softplus, ELTWISE_SOFTPLUS, false},
    {&op_def_sqrt, ELTWISE_SQRT, false},
    {&op_def_exp, ELTWISE_EXP, false},
    {&op_def_log, ELTWISE_LOG, false},
    {&op_def_abs, ELTWISE_ABS, true},
    {&op_def_neg, ELTWISE_NEG, true},
    {&op_def_reciprocal, ELTWISE_RECIPROCAL, false},
};

static int find(const opdef_t *op)
{
    for (int i = 0; i < (int)(sizeof table / sizeof *table); i++)
        if (table[i].op == op) return i;
    return -1;
}

/* What a call computes; the operator is one of the table. */
typedef struct function {
    eltwise_t eltwise;
    double alpha, beta;
} function_t;

static function_t function_of(const opdef_t *op, const void *attrs)
{
    const attrs_t *given = attrs;
    function_t function = {.eltwise = table[find(op)].eltwise};
    if (op == &op_def_relu6) function.beta = 6.0;
    if (op->attrs.bytes > 0) {
        function.alpha = given->alpha;
        function.beta = given->beta;
    }
    if (op == &op_def_gelu && given->tanh_approximation) function.eltwise = ELTWISE_GELU_TANH;
    return function;
}

bool activation_eltwise(const opdef_t *op, const void *attrs, eltwise_t *out_eltwise,
                        double *out_alpha, double *out_beta)
{
    if (find(op) < 0) return false;
    function_t function = function_of(op, attrs);
    *out_eltwise = function.eltwise;
    *out_alpha = function.alpha;
    *out_beta = function.beta;
    return true;
}

/* ---- inference ---- */

static bool is_whole(double bound)
{
    return !isfinite(bound) ? !isnan(bound) : bound == floor(bound);
}

/* Integers stay integers, but for a clamp to a bound that is none: as PyTorch's they give f32. */
static bool keeps_dtype(const op_call_t *call)
{
    const function_t f = function_of(call->op, call->attrs);
    if (dtype_is_floating(call->in[X]->dtype)) return true;
    if (!table[find(call->op)].keeps_integers) return false;
    return f.eltwise != ELTWISE_CLAMP || (is_whole(f.alpha) && is_whole(f.beta));
}

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X];
    bool keeps_integers = table[find(call->op)].keeps_integers;
    REQUIRE(ctx, x->dtype != DTYPE_BOOL || !keeps_integers, "%s: x is %s, numbers are needed",
            call->op->name, info_brief(x));
    out[0] = info_dense(keeps_dtype(call) ? x->dtype : DTYPE_F32, x->rank, x->sizes);
    return STATUS_OK;
}

/* ---- the functions on integers: bounds are cut to the range of s64, results to the low bits ----
 */

static int64_t integer_bound(double bound)
{
    if (bound >= 0x1p63) return INT64_MAX;
    return bound > -0x1p63 ? (int64_t)bound : INT64_MIN;
}

static int64_t integer_value(eltwise_t eltwise, int64_t x, int64_t low, int64_t high)
{
    switch (eltwise) {
    case ELTWISE_RELU: return x < 0 ? 0 : x;
    case ELTWISE_CLAMP: x = x < low ? low : x; return x > high ? high : x;
    case ELTWISE_ABS: return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    default: return (int64_t)(0 - (uint64_t)x);
    }
}

/* ---- specification ---- */

static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    function_t f = function_of(call->op, call->attrs);
    double x = spec_at(call, X, index);
    dtype_t dtype = call->out[output].dtype;
    if (dtype_is_floating(dtype)) return eltwise_value(f.eltwise, x, f.alpha, f.beta);
    int64_t element = 0;
    dtype_store_integer(
        dtype, &element,
        integer_value(f.eltwise, (int64_t)x, integer_bound(f.alpha), integer_bound(f.beta)));
    return dtype_load(dtype, &element);
}

/* ---- kernel on oneDNN: over the bytes as they lie. Not of all functions: its relu and clamp lose
 * NaN, and choose_eltwise says what it has not or wrong; loops of our own are as fast ---- */

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const function_t f = function_of(call->op, call->attrs);
    onednn_post_op_t eltwise;
    onednn_primitive_t *primitive = NULL;
    if (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(x->dtype));
    if (f.eltwise == ELTWISE_LEAKY_RELU && f.alpha == 0.0)
        return prepared_decline(prepared, "onednn: leaky_relu with slope 0 loses NaN");
    if (!choose_eltwise(f.eltwise, f.alpha, f.beta, &eltwise))
        return prepared_decline(prepared, "onednn: no %s", call->op->name);
    TRY(walk_follow(call, prepared, false));

    int64_t n = walk_elements(&prepared->in[X]);
    tensor_info_t flat = info_dense(x->dtype, 1, &n);
    onednn_problem_t problem = {.kind = ONEDNN_ELTWISE,
                                .algorithm = eltwise.algorithm,
                                .n_src = 1,
                                .src = &flat,
                                .dst = &flat,
                                .alpha = eltwise.alpha,
                                .beta = eltwise.beta};
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: no %s for %s", call->op->name, info_brief(x));
    TRY(status);
    prepared_take_primitive(prepared, primitive);
    prepared->overwrites = 1u << X;
    if (onednn_is_reference(prepared->implementation))
        return prepared_decline(prepared, "onednn: %s is %s", call->op->name,
                                prepared->implementation);
    prepared->cost_ns = cost_run(ctx, prepared->implementation, 0.0,
                                 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

/* Padded lanes hold +0: every bit of theirs is zero. */
static void zero_padding(const prepared_t *prepared, void *out)
{
    const function_t f = function_of(prepared->op, prepared->attrs);
    double of_zero = eltwise_value(f.eltwise, 0.0, f.alpha, f.beta);
    if (of_zero != 0.0 || signbit(of_zero)) walk_zero_padding(&prepared->out[0], out);
}

static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    zero_padding(prepared, out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {"onednn", prepare_onednn, run_onednn};

/* ---- kernel of our own ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(walk_follow(call, prepared, false));
    prepared->overwrites = 1u << X;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 2.0 * (double)info_bytes(&prepared->in[X]));
    return STATUS_OK;
}

#define CHUNK 1024

/* A few elements, by way of the type they are computed in. */
static void apply_chunk(const function_t *f, int64_t n, dtype_t src_dtype, const void *src,
                        dtype_t dst_dtype, void *dst)
{
    union {
        float f32[CHUNK];
        double f64[CHUNK];
        int64_t s64[CHUNK];
    } value;
    if (dtype_is_integral(dst_dtype)) {
        int64_t low = integer_bound(f->alpha), high = integer_bound(f->beta);
        dtype_cast(n, src_dtype, src, 1, DTYPE_S64, value.s64, 1);
        for (int64_t i = 0; i < n; i++)
            value.s64[i] = integer_value(f->eltwise, value.s64[i], low, high);
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

/* A run of the native kernel. */
typedef struct run {
    function_t function;
    dtype_t src_dtype, dst_dtype;
    const char *src;
    char *dst;
    int64_t n;
} run_t;

static void run_chunks(void *user, int64_t first_chunk, int64_t last_chunk)
{
    const run_t *run = user;
    const function_t *f = &run->function;
    const int64_t src_size = (int64_t)dtype_size(run->src_dtype);
    const int64_t dst_size = (int64_t)dtype_size(run->dst_dtype);
    for (int64_t chunk = first_chunk; chunk < last_chunk; chunk++) {
        int64_t first = chunk * CHUNK, n = run->n - first < CHUNK ? run->n - first : CHUNK;
        const void *src = run->src + first * src_size;
        void *dst = run->dst + first * dst_size;
        if (run->src_dtype == DTYPE_F32)
            eltwise_apply(f->eltwise, f->alpha, f->beta, n, src, dst);
        else
            apply_chunk(f, n, run->src_dtype, src, run->dst_dtype, dst);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    run_t run = {.function = function_of(prepared->op, prepared->attrs),
                 .src_dtype = prepared->in[X].dtype,
                 .dst_dtype = prepared->out[0].dtype,
                 .src = in[X],
                 .dst = out[0],
                 .n = walk_elements(&prepared->in[X])};
    threads_share(threads_for(ctx, run.n), (run.n + CHUNK - 1) / CHUNK, run_chunks, &run);
    zero_padding(prepared, out[0]);
    return STATUS_OK;
}

static const kernel_t native = {"native", prepare_native, run_native};
static const kernel_t *const either[] = {&onednn, &native, NULL};
static const kernel_t *const ours[] = {&native, NULL};

/* ---- cases ---- */

#define FLOATING(attributes)                                                                       \
    "(f32[2,3,7,5])" attributes, "(f32[1,17,9,9])" attributes, "(f32[1,1,4,3])" attributes,        \
        "(f32[2,7,11])" attributes, "(f32[1,31,3,4,5])" attributes, "(f32[2,32,6,6])" attributes,  \
        "(f32[5,13])" attributes, "(f32[0,3,4,4])" attributes, "(f32[1,24,40,40])" attributes,     \
        "(bf16[2,17,5,5])" attributes, "(f16[2,3,5])" attributes, "(f64[2,7,3,3])" attributes

static const char *const cases_floating[] = {FLOATING(""), "(s32[2,7,3]<9)", NULL};
static const char *const cases_numbers[] = {
    FLOATING(""),     "(f32[])", "(s32[2,7,3]<9)", "(s64[3,5]<9)", "(s8[1,3,5,5])",
    "(u8[1,17,3,3])", NULL};
static const char *const cases_clamp[] = {
    FLOATING(" min=-0.5 max=0.75"),    "(f32[2,17,5,5]) min=0.25 max=2.0",
    "(f32[2,3,5,5]) min=-0.5",         "(f32[2,3,5,5]) max=0.5",
    "(f32[2,3,5,5]) min=1.0 max=-1.0", "(s64[3,5]<9) min=2.5 max=6.0",
    "(s8[1,3,5,5]) min=-3.0 max=4.0",  NULL};
static const char *const cases_leaky_relu[] = {FLOATING(""), "(f32[2,17,5,5]) negative_slope=0.3",
                                               "(f32[2,17,5,5]) negative_slope=-1.5", NULL};
static const char *const cases_elu[] = {FLOATING(""), "(f32[2,17,5,5]) alpha=0.3", NULL};
static const char *const cases_hardsigmoid[] = {FLOATING(""), "(f32[2,17,5,5]) alpha=0.2 beta=0.4",
                                                NULL};
static const char *const cases_gelu[] = {FLOATING(""), FLOATING(" tanh_approximation=true"), NULL};

/* ---- definitions ---- */

/* `terms` as eltwise_cancels. */
#define DEFINE(op_name, attr_table, op_cases, op_kernels, terms)                                   \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .preference = OP_FOLLOWS,                                    \
                                      .traits = TRAIT_ELEMENTWISE,                                 \
                                      .attrs = attr_table,                                         \
                                      .n_operands = 1,                                             \
                                      .operands = operands,                                        \
                                      .n_outputs = 1,                                              \
                                      .infer = infer,                                              \
                                      .kernels = op_kernels,                                       \
                                      .spec = spec,                                                \
                                      .cancels = terms,                                            \
                                      .cases = op_cases}
#define NO_ATTRS                                                                                   \
    {                                                                                              \
        0, 0, NULL                                                                                 \
    }
#define ATTRS(fields)                                                                              \
    {                                                                                              \
        sizeof(attrs_t), sizeof fields / sizeof *fields, fields                                    \
    }

DEFINE(relu, NO_ATTRS, cases_numbers, ours, 0.0);
DEFINE(relu6, NO_ATTRS, cases_numbers, ours, 0.0);
DEFINE(clamp, ATTRS(fields_clamp), cases_clamp, ours, 0.0);
DEFINE(leaky_relu, ATTRS(fields_leaky_relu), cases_leaky_relu, either, 0.0);
DEFINE(elu, ATTRS(fields_elu), cases_elu, either, 1.0);
DEFINE(selu, NO_ATTRS, cases_floating, ours, 1.76);
DEFINE(gelu, ATTRS(fields_gelu), cases_gelu, either, 8.0);
DEFINE(erf, NO_ATTRS, cases_floating, ours, 0.0);
DEFINE(sigmoid, NO_ATTRS, cases_floating, either, 0.0);
DEFINE(tanh, NO_ATTRS, cases_floating, either, 0.0);
DEFINE(hardsigmoid, ATTRS(fields_hardsigmoid), cases_hardsigmoid, either, 0.0);
DEFINE(hardswish, NO_ATTRS, cases_floating, either, 0.0);
DEFINE(silu, NO_ATTRS, cases_floating, either, 0.0);
DEFINE(softplus, NO_ATTRS, cases_floating, ours, 0.0);
DEFINE(sqrt, NO_ATTRS, cases_floating, either, 0.0);
DEFINE(exp, NO_ATTRS, cases_floating, ours, 0.0);
DEFINE(log, NO_ATTRS, cases_floating, ours, 0.0);
DEFINE(abs, NO_ATTRS, cases_numbers, either, 0.0);
DEFINE(neg, NO_ATTRS, cases_numbers, ours, 0.0);
DEFINE(reciprocal, NO_ATTRS, cases_floating, ours, 0.0);

/* ---- public ---- */

static status_t call(context_t *ctx, const opdef_t *op, const tensor_t *x, double alpha,
                     double beta, bool tanh_approximation, tensor_t **out)
{
    attrs_t attrs = {.alpha = alpha, .beta = beta, .tanh_approximation = tanh_approximation};
    return dispatch_run(ctx, op, &attrs, 1, &x, NULL, out);
}

#define PUBLIC(op_name)                                                                            \
    status_t op_##op_name(context_t *ctx, const tensor_t *x, tensor_t **out)                       \
    {                                                                                              \
        return call(ctx, &op_def_##op_name, x, 0.0, 0.0, false, out);                              \
    }

PUBLIC(relu)
PUBLIC(relu6)
PUBLIC(selu)
PUBLIC(erf)
PUBLIC(sigmoid)
PUBLIC(tanh)
PUBLIC(hardswish)
PUBLIC(silu)
PUBLIC(softplus)
PUBLIC(sqrt)
PUBLIC(exp)
PUBLIC(log)
PUBLIC(abs)
PUBLIC(neg)
PUBLIC(reciprocal)

status_t op_clamp(context_t *ctx, const tensor_t *x, double min, double max, tensor_t **out)
{
    return call(ctx, &op_def_clamp, x, min, max, false, out);
}

status_t op_leaky_relu(context_t *ctx, const tensor_t *x, double negative_slope, tensor_t **out)
{
    return call(ctx, &op_def_leaky_relu, x, negative_slope, 0.0, false, out);
}

status_t op_elu(context_t *ctx, const tensor_t *x, double alpha, tensor_t **out)
{
    return call(ctx, &op_def_elu, x, alpha, 0.0, false, out);
}

status_t op_gelu(context_t *ctx, const tensor_t *x, bool tanh_approximation, tensor_t **out)
{
    return call(ctx, &op_def_gelu, x, 0.0, 0.0, tanh_approximation, out);
}

status_t op_hardsigmoid(context_t *ctx, const tensor_t *x, double alpha, double beta,
                        tensor_t **out)
{
    return call(ctx, &op_def_hardsigmoid, x, alpha, beta, false, out);
}
