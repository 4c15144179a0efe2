/* Checks an operator's outputs: recomputes random elements with the operator's specification. */
#include <float.h>
#include <math.h>
#include <stdalign.h>

#include "dispatch/select_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/threads/interrupt_impl.h"

typedef struct operands {
    tensor_t *dense[OP_MAX_INPUTS];
    const tensor_info_t *infos[OP_MAX_INPUTS];
    const void *data[OP_MAX_INPUTS];
} operands_t;

/* Converts the inputs to dense; for an operator with TRAIT_MEASURES, also to row-major. */
static status_t gather(context_t *ctx, const opdef_t *op, int n_in, const tensor_t *const *in,
                       operands_t *operands)
{
    const bool is_measured = (op->traits & TRAIT_MEASURES) != 0;
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    for (int i = 0; i < n_in; i++) {
        operands->infos[i] = &absent;
        if (in[i] == NULL) continue;
        tensor_info_t want = in[i]->info;
        if (want.layout == LAYOUT_MKLDNN || is_measured) {
            want = info_dense(want.dtype, want.rank, want.sizes);
            want.is_number = in[i]->info.is_number;
        }
        TRY(convert_to(ctx, in[i], &want, CAUSE_USER, &operands->dense[i]));
        operands->infos[i] = &operands->dense[i]->info;
        operands->data[i] = tensor_bytes(operands->dense[i]);
    }
    return STATUS_OK;
}

static void index_of(int rank, const int64_t *sizes, int64_t position, int64_t *out_index)
{
    for (int d = rank - 1; d >= 0; d--) {
        out_index[d] = position % sizes[d];
        position /= sizes[d];
    }
}

/* ---- error bound of an element ---- */

#define SHAKE 0x1p-12

/* Number of times the inputs are perturbed to measure how much an element changes: a few for a
 * first bound, many if an error exceeds that bound. */
#define FEW_SHAKES 4
#define MANY_SHAKES 64

/* Number of roundings other than those of sums: of the result, of products of several factors, and
 * of functions, whose approximations are wrong by up to 4 units in the last place, as if 8
 * roundings had happened. */
#define N_ROUNDINGS 8.0

/* Size of the largest terms that cancel in the operator and in its post-ops (see
 * opdef_t.cancels). */
static double terms_that_cancel(const opdef_t *op, const void *attrs)
{
    double terms = op->cancels;
    const post_ops_t *post = attrs_post(&op->attrs, attrs);
    post_op_t function;
    if (op->as_post_op != NULL && op->as_post_op(op, attrs, &function))
        terms = fmax(terms, eltwise_cancels(function.eltwise, function.alpha));
    for (int i = 0; post != NULL && i < post->n; i++)
        if (post->op[i].kind == POST_ELTWISE)
            terms = fmax(terms, eltwise_cancels(post->op[i].eltwise, post->op[i].alpha));
    return terms;
}

/* Kernels may flush denormals to zero, also those that x * sigmoid(x) multiplies by x: in f32 the
 * sigmoid is a denormal from x = -87 on, and zero from -104 on. */
static double flushed(dtype_t dtype)
{
    if (dtype == DTYPE_F64) return DBL_MIN;
    return dtype == DTYPE_F16 ? 0x1p-14 : 104.0 * (double)FLT_MIN;
}

/* Integers above 2^53 are rounded to doubles when a specification reads them, and when they are
 * compared. */
static double wide_bound(double expected)
{
    return fabs(expected) < 0x1p53 ? 0.0 : N_ROUNDINGS * DBL_EPSILON * fabs(expected);
}

/* The error of a sum of n terms is about sqrt(n) roundings of its partial sums, if the roundings
 * are independent. The partial sums are about as large as the root of the sum of squared terms,
 * which `change` measures. */
double dispatch_error_bound(const spec_call_t *call, int output, const int64_t *index,
                            double expected, bool is_sure)
{
    if (call == NULL || call->op == NULL || call->op->spec == NULL || call->out == NULL) return 0;
    if (index == NULL || output < 0 || output >= OP_MAX_OUTPUTS) return 0;
    const dtype_t dtype = call->out[output].dtype;
    const opdef_t *op = call->op;
    const int n_shakes = is_sure ? MANY_SHAKES : FEW_SHAKES;
    if (!dtype_is_floating(dtype)) return wide_bound(expected);
    if (!isfinite(expected)) return 0.0;
    double squares = 0.0;
    spec_probe_t probe = {.shake = SHAKE};
    spec_call_t shaken = *call;
    shaken.probe = &probe;
    for (int i = 0; i < n_shakes; i++) {
        probe.seed = (uint64_t)i + 1;
        double difference = (op->spec(&shaken, output, index) - expected) / SHAKE;
        if (isfinite(difference)) squares += difference * difference;
    }
    double change = sqrt(3.0 * squares / n_shakes); /* 3, because the mean of r^2 is 1/3 */
    double n_roundings = sqrt((double)probe.n_reads / n_shakes);
    if (op->amplifies != NULL) n_roundings *= op->amplifies(call->attrs);
    double size = fabs(expected) + change + terms_that_cancel(op, call->attrs);
    return (N_ROUNDINGS + n_roundings) * dtype_epsilon(dtype) * size + flushed(dtype);
}

/* The error divided by its bound. If only one of the two values is NaN or infinite, the result is
 * infinite; but infinity is correct if the specification's value is too large for the dtype. */
static double compare(const spec_call_t *call, int output, const int64_t *index, double actual)
{
    const dtype_t dtype = call->out[output].dtype;
    const double expected = call->op->spec(call, output, index);
    int64_t element = 0;
    dtype_store(dtype, &element, expected);
    double rounded = dtype_load(dtype, &element);
    if (rounded == actual || expected == actual || (isnan(expected) && isnan(actual))) return 0.0;
    double error = fabs(expected - actual);
    double bound = dispatch_error_bound(call, output, index, expected, false);
    if (error > bound) bound = dispatch_error_bound(call, output, index, expected, true);
    return isfinite(error) && bound > 0.0 ? error / bound : INFINITY;
}

static status_t verify_output(context_t *ctx, const spec_call_t *call, int output,
                              const tensor_t *tensor, int64_t n, double *worst)
{
    int64_t numel = info_numel(&tensor->info), index[TENSOR_MAX_RANK];
    bool all = n <= 0 || n >= numel;
    const char *bytes = tensor_bytes(tensor);
    for (int64_t i = 0; i < (all ? numel : n); i++) {
        TRY(interrupt_check(ctx, call->op->name));
        int64_t position = all ? i : (int64_t)(context_random(ctx) % (uint64_t)numel);
        index_of(tensor->info.rank, tensor->info.sizes, position, index);
        int64_t at = format_offset(&tensor->info.format, tensor->info.sizes, index);
        double actual = dtype_load(tensor->info.dtype,
                                   bytes + at * (int64_t)dtype_size(tensor->info.dtype));
        *worst = fmax(*worst, compare(call, output, index, actual));
    }
    return STATUS_OK;
}

status_t dispatch_verify(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                         const tensor_t *const *in, int n_out, const tensor_t *const *out,
                         int64_t n, double *out_error)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (op == NULL) return context_null(ctx, "dispatch_verify", "op");
    if (out_error == NULL) return context_null(ctx, "dispatch_verify", "the output");
    TRY(context_array(ctx, op->name, "in", n_in, in));
    TRY(context_array(ctx, op->name, "out", n_out, out));
    REQUIRE(ctx, n_in <= OP_MAX_INPUTS, "%s: %d inputs, at most %d are possible", op->name, n_in,
            OP_MAX_INPUTS);
    alignas(16) char normalised[ATTRS_MAX];
    tensor_info_t infos[OP_MAX_OUTPUTS];
    operands_t operands = {{NULL}, {NULL}, {NULL}};
    int n_inferred = 0;
    TRY(select_attrs(ctx, op, attrs, normalised));
    REQUIRE(ctx, op->spec != NULL, "verify: %s has no specification", op->name);
    op_call_t inferred = {.op = op, .attrs = normalised, .n_in = n_in, .in = operands.infos};
    status_t status = gather(ctx, op, n_in, in, &operands);
    if ((op->traits & TRAIT_MEASURES) != 0) inferred.data = operands.data;
    if (status == STATUS_OK) status = select_infer(ctx, &inferred, &n_inferred, infos);
    if (status == STATUS_OK && n_inferred != n_out)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT, "verify: %s has %d outputs, %d given",
                              op->name, n_inferred, n_out);
    spec_call_t call = {.op = op,
                        .attrs = normalised,
                        .n_in = n_in,
                        .in = operands.infos,
                        .data = operands.data,
                        .out = infos};
    double worst = 0.0;
    interrupt_begin(ctx, "dispatch_verify");
    for (int i = 0; status == STATUS_OK && i < n_out; i++)
        status = verify_output(ctx, &call, i, out[i], n, &worst);
    status = interrupt_end(ctx, status);
    for (int i = 0; i < n_in; i++) tensor_drop(operands.dense[i]);
    if (status == STATUS_OK) *out_error = worst;
    return status;
}
