/* Gradients of functions of one tensor: the gradient of the result times the function's derivative,
 * in one pass. kernels/elementwise/unary_slopes.def lists the functions. */
#include "ops/elementwise/elementwise_backward_impl.h"

#include <math.h>
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- attributes ---- */

static const char *const names[] = {
#define SLOPE(name, reads, gradient) #name,
#include "kernels/elementwise/unary_slopes.def"
#undef SLOPE
    NULL};

typedef struct attrs {
    int function; /* unary_slope_t */
    double alpha, beta;
} attrs_t;

static const attr_field_t fields[] = {FIELD_NAME(attrs_t, function, 0, names),
                                      FIELD_FLOAT(attrs_t, alpha, 0),
                                      FIELD_FLOAT(attrs_t, beta, 0)};

/* value: the function's input or its result; unary_slopes.def defines which. */
static const operand_t operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                     {"value", ROLE_ACTIVATION, false, false}};
enum { GRAD, VALUE };

/* ---- inference and specification ---- */

static status_t elementwise_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                           tensor_info_t *out)
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
    const elementwise_rows_t rows = {.rows = 1,
                                     .n = 1,
                                     .in = {&grad, &value},
                                     .step = {1, 1},
                                     .out = &result,
                                     .alpha = attrs->alpha,
                                     .beta = attrs->beta};
    elementwise_unary_slope((unary_slope_t)attrs->function, ISA_PORTABLE)->f64(&rows);
    return result;
}

static double elementwise_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return slope_value(call->attrs, spec_at(call, GRAD, index), spec_at(call, VALUE, index));
}

/* ---- oneDNN kernel, for gelu only: our loop calls the slow erfc for each element ---- */

static status_t elementwise_backward_prepare_onednn(context_t *ctx, const op_call_t *call,
                                                    prepared_t *prepared)
{
    const tensor_info_t *grad = call->in[GRAD], *value = call->in[VALUE];
    const attrs_t *attrs = call->attrs;
    onednn_primitive_t *primitive = NULL;
    if (attrs->function != UNARY_SLOPE_gelu)
        return prepared_decline(prepared, "onednn: our loop of %s is as fast",
                                names[attrs->function]);
    if (grad->dtype != DTYPE_F32)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(grad->dtype));
    format_t own = info_tag(grad);
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

/* oneDNN's first argument is the function's input. */
static status_t elementwise_backward_run_onednn(context_t *ctx, const prepared_t *prepared,
                                                void *const *in, void *const *out, void *scratch)
{
    void *arguments[] = {in[VALUE], in[GRAD], out[0]};
    return onednn_run(ctx, prepared->primitive, arguments, scratch);
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = elementwise_backward_prepare_onednn,
                                .run = elementwise_backward_run_onednn,
                                .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel ---- */

static status_t elementwise_backward_prepare_native(context_t *ctx, const op_call_t *call,
                                                    prepared_t *prepared)
{
    const attrs_t *attrs = call->attrs;
    const dtype_t compute = call->out[0].dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    const elementwise_loops_t *loops = elementwise_unary_slope((unary_slope_t)attrs->function,
                                                               isa_best());
    broadcast_t *broadcast = NULL;
    TRY(context_get_zeroed(ctx, sizeof *broadcast, "elementwise_backward", &broadcast));
    prepared->state = broadcast;
    broadcast->loop = compute == DTYPE_F64 ? loops->f64 : loops->f32;
    broadcast->in_dtype[GRAD] = broadcast->in_dtype[VALUE] = broadcast->out_dtype = compute;
    broadcast->alpha = attrs->alpha;
    broadcast->beta = attrs->beta;
    const double of_zeros = slope_value(attrs, 0.0, 0.0);
    broadcast->keeps_zero = of_zeros == 0.0 && !signbit(of_zeros);
    TRY(broadcast_prepare(call, prepared, broadcast));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 3.0 * (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = elementwise_backward_prepare_native, .run = broadcast_run};
static const kernel_t *const kernels[] = {&onednn, &native, NULL};

/* ---- definition ---- */

const opdef_t op_def_elementwise_backward = {.name = "elementwise_backward",
                                             FUNCTIONS_OF(elementwise_backward),
                                             .preference = OP_FOLLOWS,
                                             .traits = TRAIT_ELEMENTWISE,
                                             .attrs = {sizeof(attrs_t), 3, fields},
                                             OPERANDS(operands),
                                             .kernels = kernels,
                                             .cancels = 8.0};

/* ---- gradient rules of the functions ---- */

#define IN false
#define OUT true
#define NEITHER false
static const bool reads_out[] = {
#define SLOPE(name, reads, gradient) reads,
#include "kernels/elementwise/unary_slopes.def"
#undef SLOPE
};

void elementwise_backward_pass(const gradient_call_t *call, const char *function, double alpha,
                               double beta)
{
    int i = 0;
    while (i + 1 < UNARY_SLOPE_COUNT && strcmp(names[i], function) != 0) i++;
    INVARIANT(strcmp(names[i], function) == 0);
    const attrs_t attrs = {.function = i, .alpha = alpha, .beta = beta};
    const value_t in[] = {call->out_grad[0], reads_out[i] ? call->out[0] : call->in[0]};
    call->in_grad[0] = emit_op(call->emitter, &op_def_elementwise_backward, &attrs, 2, in);
}

static void pass_by_name(const gradient_call_t *call)
{
    elementwise_backward_pass(call, call->op->name, 0.0, 0.0);
}

const gradient_t elementwise_backward_in = {.pass = pass_by_name, .reads_in = 1};
const gradient_t elementwise_backward_out = {.pass = pass_by_name, .reads_out = 1};
