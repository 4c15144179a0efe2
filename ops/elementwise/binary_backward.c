/* Gradients of the functions of two tensors in binary_slope_t, each in one pass. Composed of other
 * operators, they would take several passes. */
#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/elementwise/broadcast_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/sym/sizes_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int function; /* binary_slope_t */
} attrs_t;

static const char *const names[] = {"pow_base", "pow_exponent", "maximum",
                                    "minimum",  "prelu",        NULL};
static const attr_field_t fields[] = {FIELD_NAME(attrs_t, function, 0, names)};

static const operand_t operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                     {"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { GRAD, A, B };

static binary_slope_t function_of(const void *attrs)
{
    return (binary_slope_t)((const attrs_t *)attrs)->function;
}

/* ---- inference and specification ---- */

static status_t binary_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                      tensor_info_t *out)
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

static double binary_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const int rank = call->out[output].rank;
    double in[3], result = 0.0;
    for (int i = GRAD; i <= B; i++) in[i] = spec_at_broadcast(call, i, rank, index);
    const elementwise_rows_t rows = {
        .rows = 1, .n = 1, .in = {&in[GRAD], &in[A], &in[B]}, .step = {1, 1, 1}, .out = &result};
    elementwise_binary_slope(function_of(call->attrs), ISA_PORTABLE)->f64(&rows);
    return result;
}

/* ---- our own kernel ---- */

static status_t binary_backward_prepare_native(context_t *ctx, const op_call_t *call,
                                               prepared_t *prepared)
{
    const elementwise_loops_t *loops = elementwise_binary_slope(function_of(call->attrs),
                                                                isa_best());
    const dtype_t compute = call->out[0].dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    broadcast_t *broadcast = NULL;
    TRY(context_get_zeroed(ctx, sizeof *broadcast, "binary_backward", &broadcast));
    prepared->state = broadcast;
    broadcast->loop = compute == DTYPE_F64 ? loops->f64 : loops->f32;
    for (int i = GRAD; i <= B; i++) broadcast->in_dtype[i] = compute;
    broadcast->out_dtype = compute;
    broadcast->keeps_zero = true;
    TRY(broadcast_prepare(call, prepared, broadcast));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(&call->out[0]));
    return STATUS_OK;
}

/* ---- definition ---- */

const opdef_t op_def_binary_backward = {
    .name = "binary_backward",
    FUNCTIONS_OF(binary_backward),
    .preference = OP_FOLLOWS,
    .traits = TRAIT_ELEMENTWISE,
    .attrs = {sizeof(attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(KERNEL("native", binary_backward_prepare_native, broadcast_run))};

value_t emit_binary_backward(emitter_t *emitter, binary_slope_t function, value_t grad, value_t a,
                             value_t b)
{
    const attrs_t attrs = {(int)function};
    const value_t in[] = {grad, a, b};
    return emit_op(emitter, &op_def_binary_backward, &attrs, 3, in);
}
