/* Softmax and its logarithm over one dimension. */
#include <math.h>

#include "dispatch/choose/choose_impl.h"
#include "kernels/reduce/softmax_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/walk_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct attrs {
    int64_t dim;
} attrs_t;

static const attr_field_t fields[] = {FIELD_INT(attrs_t, dim, -1)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
static const operand_t backward_operands[] = {{"y", ROLE_ACTIVATION, false, false},
                                              {"grad", ROLE_ACTIVATION, false, false}};
enum { X };
enum { Y, GRAD };

enum { VARIANT_softmax, VARIANT_log_softmax };

static bool is_log(const opdef_t *op)
{
    return op->variant == VARIANT_log_softmax;
}

/* The attribute `dim`, from 0 to rank - 1. `infer` has checked it. */
static int dim_of(const void *attrs, int rank)
{
    return ops_dim(rank, ((const attrs_t *)attrs)->dim);
}

/* ---- inference ---- */

static status_t softmax_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int dim = 0;
    REQUIRE(ctx, shape_dim(x->rank, attrs->dim, &dim),
            "%s: dim=%lld, input %s has no such dimension", call->op->name, (long long)attrs->dim,
            info_brief(x));
    REQUIRE(ctx, dtype_is_floating(x->dtype), "%s: %s is %s, a floating type is needed",
            call->op->name, call->op->operands[X].name, info_brief(x));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

static status_t softmax_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                       tensor_info_t *out)
{
    const tensor_info_t *y = call->in[Y], *grad = call->in[GRAD];
    TRY(softmax_infer(ctx, call, out_n, out));
    REQUIRE(ctx, sizes_are_like(ctx, grad, y), "%s: grad is %s, y is %s, equal ones are needed",
            call->op->name, info_brief(grad), info_brief(y));
    return STATUS_OK;
}

/* ---- specification ---- */

static double softmax_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X];
    int64_t at[TENSOR_MAX_RANK] = {0};
    int dim = dim_of(call->attrs, x->rank);
    int64_t n = x->rank > 0 ? x->sizes[dim] : 1;
    double largest = -INFINITY, sum = 0.0;
    for (int d = 0; d < x->rank; d++) at[d] = index[d];
    for (at[dim] = 0; at[dim] < n; at[dim]++) {
        double value = spec_at(call, X, at);
        if (value > largest || isnan(value)) largest = value;
    }
    for (at[dim] = 0; at[dim] < n; at[dim]++) sum += exp(spec_at(call, X, at) - largest);
    double difference = spec_at(call, X, index) - largest;
    return is_log(call->op) ? difference - log(sum) : exp(difference) / sum;
}

static double softmax_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *y = call->in[Y];
    const int dim = dim_of(call->attrs, y->rank);
    const int64_t n = y->rank > 0 ? y->sizes[dim] : 1;
    int64_t at[TENSOR_MAX_RANK] = {0};
    double sum = 0.0;
    for (int d = 0; d < y->rank; d++) at[d] = index[d];
    for (at[dim] = 0; at[dim] < n; at[dim]++)
        sum += spec_at(call, GRAD, at) * (is_log(call->op) ? 1.0 : spec_at(call, Y, at));
    const double grad = spec_at(call, GRAD, index), element = spec_at(call, Y, index);
    return is_log(call->op) ? grad - exp(element) * sum : element * (grad - sum);
}

/* ---- oneDNN kernel ----
 *
 * Softmax of contiguous rows. oneDNN's log_softmax is not used: its logarithms of sums near 1
 * are wrong, so results can be positive. */

static bool has_blocks(const format_t *format, int dim)
{
    for (int i = 0; i < format->n_blocks; i++)
        if (format->block_dims[i] == dim) return true;
    return false;
}

/* Describes x for kernels/reduce. Dimension `dim` must not be blocked. */
static softmax_t describe(const opdef_t *op, const tensor_info_t *x, int dim)
{
    int64_t strides[TENSOR_MAX_RANK] = {1};
    format_t format = info_tag(x);
    format_strides(&format, x->sizes, strides);
    softmax_t softmax = {.is_logarithm = is_log(op),
                         .dtype = x->dtype,
                         .n = x->rank > 0 ? x->sizes[dim] : 1,
                         .inner = strides[dim]};
    softmax.outer = walk_elements(x) / (softmax.n * softmax.inner);
    return softmax;
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    const int dim = dim_of(call->attrs, x->rank);
    if (x->rank == 0 || (x->dtype != DTYPE_F32 && x->dtype != DTYPE_BF16))
        return prepared_decline(prepared, "onednn: %s", info_brief(x));
    format_t format = info_tag(x);
    if (has_blocks(&format, dim) || describe(call->op, x, dim).inner != 1)
        return prepared_decline(prepared, "onednn: dimension %d is not the innermost", dim);
    tensor_info_t src = *x, dst = call->out[0];
    onednn_problem_t problem = {.kind = ONEDNN_SOFTMAX,
                                .algorithm = ONEDNN_SOFTMAX_ACCURATE,
                                .n_src = 1,
                                .src = &src,
                                .dst = &dst,
                                .axis = dim};
    op_call_t own = *call;
    own.keep_formats = true;
    TRY(choose_formats(ctx, &own, prepared, &problem, 0.0));
    if (describe(call->op, &prepared->out[0], dim).inner != 1)
        return prepared_decline(prepared, "onednn: its result has another innermost dimension");
    return STATUS_OK;
}

/* If a row contains a NaN, all its results must be NaN, but oneDNN makes only that element NaN. */
static status_t run_onednn(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    TRY(prepared_run_primitive(ctx, prepared, in, out, scratch));
    const tensor_info_t *info = &prepared->out[0];
    const softmax_t rows = describe(prepared->op, info, dim_of(prepared->attrs, info->rank));
    softmax_spread_nan(&rows, isa_best(), threads_for(ctx, rows.outer * rows.n), out[0]);
    walk_zero_padding(info, out[0]);
    return STATUS_OK;
}

static const kernel_t onednn = {
    .name = "onednn", .prepare = prepare_onednn, .run = run_onednn, .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- native kernel ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    format_t format = info_tag(x);
    int dim = dim_of(call->attrs, x->rank);
    if (has_blocks(&format, dim)) format = format_plain(x->rank);
    TRY(accept_format(call, prepared, X, &format));
    TRY(accept_out(call, prepared, 0, &format));
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(x));
    return STATUS_OK;
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X];
    const softmax_t softmax = describe(prepared->op, x, dim_of(prepared->attrs, x->rank));
    softmax_forward(&softmax, isa_best(), threads_for(ctx, walk_elements(x)), in[X], out[0]);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = prepare_native, .run = run_native};
static const kernel_t *const either[] = {&onednn, &native, NULL};
static const kernel_t *const ours[] = {&native, NULL};

/* ---- gradients ---- */

static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *y = call->in[Y];
    format_t format = info_tag(y);
    if (has_blocks(&format, dim_of(call->attrs, y->rank))) format = format_plain(y->rank);
    TRY(accept_format(call, prepared, Y, &format));
    TRY(accept_format(call, prepared, GRAD, &format));
    TRY(accept_out(call, prepared, 0, &format));
    prepared->overwrites = 1u << Y | 1u << GRAD;
    prepared->cost_ns = cost_run(ctx, "native", 0.0, 4.0 * (double)info_bytes(y));
    return STATUS_OK;
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *y = &prepared->in[Y];
    const softmax_t softmax = describe(prepared->op, y, dim_of(prepared->attrs, y->rank));
    softmax_backward(&softmax, isa_best(), threads_for(ctx, walk_elements(y)), in[Y], in[GRAD],
                     out[0]);
    walk_zero_padding(&prepared->out[0], out[0]);
    return STATUS_OK;
}

static void softmax_pass(const gradient_call_t *call)
{
    const opdef_t *op = is_log(call->op) ? &op_def_log_softmax_backward : &op_def_softmax_backward;
    const value_t in[] = {call->out[0], call->out_grad[0]};
    call->in_grad[X] = emit_op(call->emitter, op, call->attrs, 2, in);
}

/* ---- definitions ---- */

#define DEFINE(op_name, op_kernels, terms)                                                         \
    const opdef_t op_def_##op_name = {.name = #op_name,                                            \
                                      .variant = VARIANT_##op_name,                                \
                                      .preference = OP_FOLLOWS,                                    \
                                      .attrs = {sizeof(attrs_t), 1, fields},                       \
                                      OPERANDS(operands),                                          \
                                      .n_outputs = 1,                                              \
                                      .infer = softmax_infer,                                      \
                                      .infers_symbols = true,                                      \
                                      .kernels = op_kernels,                                       \
                                      .spec = softmax_spec,                                        \
                                      .cancels = terms,                                            \
                                      .gradient = GRADIENT(.pass = softmax_pass, .reads_out = 1)}

DEFINE(softmax, either, 0.0);
/* The sum of exponentials is at least 1, so its logarithm can be near 0. */
DEFINE(log_softmax, ours, 0.25);

#define DEFINE_BACKWARD(of)                                                                        \
    const opdef_t op_def_##of##_backward = {                                                       \
        .name = #of "_backward",                                                                   \
        .variant = VARIANT_##of,                                                                   \
        .preference = OP_FOLLOWS,                                                                  \
        .attrs = {sizeof(attrs_t), 1, fields},                                                     \
        OPERANDS(backward_operands),                                                               \
        .n_outputs = 1,                                                                            \
        .infer = softmax_backward_infer,                                                           \
        .infers_symbols = true,                                                                    \
        .kernels = KERNELS(KERNEL("native", prepare_backward, run_backward)),                      \
        .spec = softmax_backward_spec}

DEFINE_BACKWARD(softmax);
DEFINE_BACKWARD(log_softmax);

/* ---- public ---- */

status_t op_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    attrs_t attrs = {dim};
    return dispatch_run(ctx, &op_def_softmax, &attrs, 1, &x, NULL, out);
}

status_t op_log_softmax(context_t *ctx, const tensor_t *x, int64_t dim, tensor_t **out)
{
    attrs_t attrs = {dim};
    return dispatch_run(ctx, &op_def_log_softmax, &attrs, 1, &x, NULL, out);
}
