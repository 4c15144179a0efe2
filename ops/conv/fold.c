/* Folds a norm or scale (an affine function of each channel) that follows a conv, transposed conv
 * or linear into its weight and bias. Graph passes apply these operators to constants, once for a
 * graph, so a simple kernel in double is enough. */
#include <math.h>

#include "kernels/conv/fold_impl.h"
#include "ops/accept_impl.h"
#include "ops/ops_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const attr_field_t fields[] = {FIELD_FLOAT(fold_attrs_t, epsilon, 1e-5),
                                      FIELD_OR(fold_attrs_t, ATTR_INT, groups, 0, 1),
                                      FIELD_BOOL(fold_attrs_t, transposed, 0)};

static const operand_t weight_operands[] = {{"weight", ROLE_ACTIVATION, false, false},
                                            {"scale", ROLE_STATE, true, false},
                                            {"variance", ROLE_STATE, true, false}};

static const operand_t bias_operands[] = {
    {"weight", ROLE_ACTIVATION, false, false}, {"bias", ROLE_STATE, true, false},
    {"scale", ROLE_STATE, true, false},        {"shift", ROLE_STATE, true, false},
    {"mean", ROLE_STATE, true, false},         {"variance", ROLE_STATE, true, false}};

enum { WEIGHT, BIAS, SCALE, SHIFT, MEAN, VARIANCE }; /* operands of fold_bias */
enum { ONLY_SCALE = BIAS, ONLY_VARIANCE = SCALE };   /* operands of fold_weight */

/* ---- inference ---- */

static int64_t n_channels(const tensor_info_t *weight, const fold_attrs_t *attrs)
{
    return attrs->transposed ? weight->sizes[1] * attrs->groups : weight->sizes[0];
}

static status_t check_weight(context_t *ctx, const op_call_t *call)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    const fold_attrs_t *attrs = call->attrs;
    const char *op = call->op->name;
    REQUIRE(ctx, weight->rank >= 2 && weight->rank <= 5 && dtype_is_floating(weight->dtype),
            "%s: weight is %s, a floating type of rank 2 to 5 is needed", op, info_brief(weight));
    int64_t n = 0;
    REQUIRE(ctx,
            attrs->groups >= 1 &&
                (!attrs->transposed || (weight->sizes[0] % attrs->groups == 0 &&
                                        shape_multiply(weight->sizes[1], attrs->groups, &n))),
            "%s: groups=%lld, weight %s is not made of so many", op, (long long)attrs->groups,
            info_brief(weight));
    return STATUS_OK;
}

/* True if the tensor has one element, or n elements along the only dimension that is not 1. */
static bool fits_channels(const tensor_info_t *info, int64_t n)
{
    int64_t numel = info_numel(info), largest = 1;
    for (int d = 0; d < info->rank; d++)
        if (info->sizes[d] != 1) largest = info->sizes[d];
    return numel == 1 || (numel == n && largest == n);
}

static status_t check_channels(context_t *ctx, const op_call_t *call)
{
    int64_t n = n_channels(call->in[WEIGHT], call->attrs);
    for (int i = 1; i < call->n_in; i++) {
        if (!call_has(call, i)) continue;
        REQUIRE(ctx, fits_channels(call->in[i], n),
                "%s: %s is %s, weight %s needs one element or %lld along one dimension",
                call->op->name, call->op->operands[i].name, info_brief(call->in[i]),
                info_brief(call->in[WEIGHT]), (long long)n);
    }
    return STATUS_OK;
}

static status_t fold_infer_weight(context_t *ctx, const op_call_t *call, int *out_n,
                                  tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *weight = call->in[WEIGHT];
    TRY(check_weight(ctx, call));
    TRY(check_channels(ctx, call));
    out[0] = info_dense(weight->dtype, weight->rank, weight->sizes);
    return STATUS_OK;
}

static status_t fold_infer_bias(context_t *ctx, const op_call_t *call, int *out_n,
                                tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *weight = call->in[WEIGHT],
                        *bias = call_has(call, BIAS) ? call->in[BIAS] : weight;
    TRY(check_weight(ctx, call));
    REQUIRE(ctx, dtype_is_floating(bias->dtype), "%s: bias is %s, a floating type is needed",
            call->op->name, info_brief(bias));
    TRY(check_channels(ctx, call));
    int64_t n = n_channels(weight, call->attrs);
    out[0] = info_dense(bias->dtype, 1, &n);
    return STATUS_OK;
}

/* ---- specification ---- */

/* The operand's element for channel k, or `absent` if there is no such operand. */
static double spec_channel(const spec_call_t *call, int operand, int64_t k, double absent)
{
    int64_t index[TENSOR_MAX_RANK] = {0};
    if (!spec_has(call, operand)) return absent;
    for (int d = 0; d < call->in[operand]->rank; d++)
        if (call->in[operand]->sizes[d] != 1) index[d] = k;
    return spec_at(call, operand, index);
}

static double spec_factor(const spec_call_t *call, int scale, int variance, int64_t k)
{
    double value = spec_channel(call, scale, k, 1.0);
    if (!spec_has(call, variance)) return value;
    double epsilon = ((const fold_attrs_t *)call->attrs)->epsilon;
    return value / sqrt(spec_channel(call, variance, k, 0.0) + epsilon);
}

static double fold_spec_weight(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const fold_attrs_t *attrs = call->attrs;
    const int64_t *sizes = call->in[WEIGHT]->sizes;
    int64_t k = attrs->transposed ? index[0] / (sizes[0] / attrs->groups) * sizes[1] + index[1]
                                  : index[0];
    return spec_at(call, WEIGHT, index) * spec_factor(call, ONLY_SCALE, ONLY_VARIANCE, k);
}

static double fold_spec_bias(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    double value = spec_channel(call, BIAS, *index, 0.0) - spec_channel(call, MEAN, *index, 0.0);
    return value * spec_factor(call, SCALE, VARIANCE, *index) +
           spec_channel(call, SHIFT, *index, 0.0);
}

/* ---- kernels ---- */

/* The operand's element for channel k, or `absent` if there is no such operand. */
static double element(const prepared_t *prepared, void *const *in, int operand, int64_t k,
                      double absent)
{
    if (in[operand] == NULL) return absent;
    const tensor_info_t *info = &prepared->in[operand];
    int64_t at = info_numel(info) == 1 ? 0 : k;
    return dtype_load(info->dtype,
                      (const char *)in[operand] + at * (int64_t)dtype_size(info->dtype));
}

static double factor(const prepared_t *prepared, void *const *in, int scale, int variance,
                     int64_t k)
{
    const fold_attrs_t *attrs = prepared->attrs;
    double value = element(prepared, in, scale, k, 1.0);
    if (in[variance] == NULL) return value;
    return value / sqrt(element(prepared, in, variance, k, 0.0) + attrs->epsilon);
}

static status_t fold_prepare_weight(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    TRY(accept_plain(call, prepared, 0));
    accept_contiguous(call, prepared, 1, call->n_in - 1);
    prepared->scratch_bytes = (size_t)n_channels(call->in[WEIGHT], call->attrs) * sizeof(double);
    return accept_out_plain(call, prepared, 0);
}

static status_t fold_run_weight(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    const tensor_info_t *weight = &prepared->in[WEIGHT];
    const fold_attrs_t *attrs = prepared->attrs;
    const int64_t rows = weight->sizes[0], numel = info_numel(weight);
    double *factors = scratch;
    if (numel == 0) return STATUS_OK;
    for (int64_t k = 0; k < n_channels(weight, attrs); k++)
        factors[k] = factor(prepared, in, ONLY_SCALE, ONLY_VARIANCE, k);
    const int64_t n = numel / rows, step = attrs->transposed ? n / weight->sizes[1] : n;
    const fold_t fold = {.dtype = weight->dtype,
                         .n_rows = rows,
                         .n = n,
                         .step = step,
                         .rows_of_group = attrs->transposed ? rows / attrs->groups : 1,
                         .factors_of_group = attrs->transposed ? weight->sizes[1] : 1,
                         .factors = factors,
                         .weight = in[WEIGHT],
                         .out = out[0]};
    fold_run(&fold, threads_for(ctx, numel));
    return STATUS_OK;
}

static status_t fold_prepare_bias(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    accept_contiguous(call, prepared, 1, call->n_in - 1);
    return accept_out_plain(call, prepared, 0);
}

static status_t fold_run_bias(context_t *ctx, const prepared_t *prepared, void *const *in,
                              void *const *out, void *scratch)
{
    (void)ctx, (void)scratch;
    const dtype_t dtype = prepared->out[0].dtype;
    for (int64_t k = 0; k < prepared->out[0].sizes[0]; k++) {
        double value = element(prepared, in, BIAS, k, 0.0) - element(prepared, in, MEAN, k, 0.0);
        value = value * factor(prepared, in, SCALE, VARIANCE, k) +
                element(prepared, in, SHIFT, k, 0.0);
        dtype_store(dtype, (char *)out[0] + k * (int64_t)dtype_size(dtype), value);
    }
    return STATUS_OK;
}

/* ---- definitions ---- */

const opdef_t op_def_fold_weight = {
    .name = "fold_weight",
    .preference = OP_DENSE,
    .attrs = {sizeof(fold_attrs_t), 3, fields},
    OPERANDS(weight_operands),
    .n_outputs = 1,
    .infer = fold_infer_weight,
    .kernels = KERNELS(KERNEL("native", fold_prepare_weight, fold_run_weight)),
    .spec = fold_spec_weight};

const opdef_t op_def_fold_bias = {
    .name = "fold_bias",
    .preference = OP_DENSE,
    .attrs = {sizeof(fold_attrs_t), 3, fields},
    OPERANDS(bias_operands),
    .n_outputs = 1,
    .infer = fold_infer_bias,
    .kernels = KERNELS(KERNEL("native", fold_prepare_bias, fold_run_bias)),
    .spec = fold_spec_bias};

/* ---- public functions ---- */

status_t op_fold_weight(context_t *ctx, const tensor_t *weight, const tensor_t *scale,
                        const tensor_t *variance, const fold_attrs_t *attrs, tensor_t **out)
{
    const tensor_t *in[] = {weight, scale, variance};
    return dispatch_run(ctx, &op_def_fold_weight, attrs, 3, in, NULL, out);
}

status_t op_fold_bias(context_t *ctx, const tensor_t *weight, const tensor_t *bias,
                      const tensor_t *scale, const tensor_t *shift, const tensor_t *mean,
                      const tensor_t *variance, const fold_attrs_t *attrs, tensor_t **out)
{
    const tensor_t *in[] = {weight, bias, scale, shift, mean, variance};
    return dispatch_run(ctx, &op_def_fold_bias, attrs, 6, in, NULL, out);
}
