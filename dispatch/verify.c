/* Verification: random elements of an operator's outputs, recomputed by its specification. */
#include <math.h>
#include <stdalign.h>

#include "dispatch/select_impl.h"
#include "tensor/convert_impl.h"

typedef struct operands {
    tensor_t *dense[OP_MAX_INPUTS];
    const tensor_info_t *infos[OP_MAX_INPUTS];
    const void *data[OP_MAX_INPUTS];
} operands_t;

static status_t gather(context_t *ctx, int n_in, const tensor_t *const *in, operands_t *operands)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    for (int i = 0; i < n_in; i++) {
        operands->infos[i] = &absent;
        if (in[i] == NULL) continue;
        tensor_info_t want = in[i]->info;
        if (want.layout == LAYOUT_MKLDNN) want = info_dense(want.dtype, want.rank, want.sizes);
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

/* Largest error and magnitude seen so far; a NaN or infinity that only one side has is an error. */
static void compare(double expected, double actual, double *error, double *magnitude)
{
    if (isnan(expected) && isnan(actual)) return;
    if (expected == actual) {
        if (isfinite(expected) && fabs(expected) > *magnitude) *magnitude = fabs(expected);
        return;
    }
    double difference = fabs(expected - actual);
    if (!isfinite(difference)) difference = INFINITY;
    if (difference > *error) *error = difference;
    if (isfinite(expected) && fabs(expected) > *magnitude) *magnitude = fabs(expected);
}

static status_t verify_output(context_t *ctx, const spec_call_t *call, int output,
                              const tensor_t *tensor, int64_t n, double *error, double *magnitude)
{
    int64_t numel = info_numel(&tensor->info), index[TENSOR_MAX_RANK];
    bool all = n <= 0 || n >= numel;
    const char *bytes = tensor_bytes(tensor);
    for (int64_t i = 0; i < (all ? numel : n); i++) {
        int64_t position = all ? i : (int64_t)(context_random(ctx) % (uint64_t)numel);
        index_of(tensor->info.rank, tensor->info.sizes, position, index);
        int64_t at = format_offset(&tensor->info.format, tensor->info.sizes, index);
        double actual = dtype_load(tensor->info.dtype,
                                   bytes + at * (int64_t)dtype_size(tensor->info.dtype));
        compare(call->op->spec(call, output, index), actual, error, magnitude);
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
    if ((n_in > 0 && in == NULL) || (n_out > 0 && out == NULL))
        return context_null(ctx, op->name, "in or out");
    alignas(16) char normalised[ATTRS_MAX];
    tensor_info_t infos[OP_MAX_OUTPUTS];
    operands_t operands = {{NULL}, {NULL}, {NULL}};
    int n_inferred = 0;
    attrs_normalize(&op->attrs, attrs, normalised);
    REQUIRE(ctx, op->spec != NULL, "verify: %s has no specification", op->name);
    status_t status = gather(ctx, n_in, in, &operands);
    if (status == STATUS_OK)
        status = dispatch_infer(ctx, op, normalised, n_in, operands.infos, &n_inferred, infos);
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
    for (int i = 0; status == STATUS_OK && i < n_out; i++) {
        double error = 0.0, magnitude = 0.0;
        status = verify_output(ctx, &call, i, out[i], n, &error, &magnitude);
        double relative = error == 0.0 ? 0.0 : magnitude > 0.0 ? error / magnitude : error;
        if (relative > worst) worst = relative;
    }
    for (int i = 0; i < n_in; i++) tensor_drop(operands.dense[i]);
    if (status == STATUS_OK) *out_error = worst;
    return status;
}
