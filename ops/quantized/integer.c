#include "ops/quantized/integer_impl.h"

#include <string.h>

double integer_zero_at(const spec_call_t *call, int operand, int64_t i)
{
    if (!spec_has(call, operand)) return 0.0;
    int64_t at[] = {info_numel(call->in[operand]) == 1 ? 0 : i};
    return spec_at(call, operand, at);
}

int32_t integer_zero(const prepared_t *prepared, void *const *in, int operand, int64_t i)
{
    if (operand >= prepared->n_in || prepared->in[operand].dtype == DTYPE_NONE) return 0;
    const tensor_info_t *info = &prepared->in[operand];
    return integer_load(info->dtype, in[operand], info_numel(info) == 1 ? 0 : i);
}

bool integer_zeros(const prepared_t *prepared, void *const *in, int operand, int zero_operand,
                   int64_t n, int32_t *out)
{
    const int32_t shift = prepared->in[operand].dtype == DTYPE_U8 ? 128 : 0;
    bool has_any = false;
    for (int64_t i = 0; i < n; i++) {
        out[i] = integer_zero(prepared, in, zero_operand, i) - shift;
        has_any |= out[i] != 0;
    }
    return has_any;
}

/* Returns true if the implementation computes exact s32 sums. brgemm kernels do. Other kernels with
 * 8-bit dot products convert sums to f32 in between, which is exact below 2^24. */
static bool is_exact(const char *implementation, double n_terms)
{
    bool has_dot_products = strstr(implementation, "vnni") != NULL ||
                            strstr(implementation, "amx") != NULL;
    return has_dot_products &&
           (strncmp(implementation, "brg", 3) == 0 || n_terms * 255 * 128 <= 0x1p24);
}

/* Returns false if oneDNN cannot reorder a plain weight to this format. oneDNN 3.2 lacks such
 * reorders of s8 for small groups. */
static bool can_pack(context_t *ctx, const tensor_info_t *packed)
{
    const tensor_info_t plain = info_dense(packed->dtype, packed->rank, packed->sizes);
    onednn_primitive_t *reorder = NULL;
    return onednn_reorder(ctx, &plain, packed, &reorder) == STATUS_OK;
}

status_t integer_describe(context_t *ctx, prepared_t *prepared, const onednn_problem_t *problem,
                          double n_terms, onednn_primitive_t **out_primitive,
                          tensor_info_t *out_weight)
{
    onednn_primitive_t *primitive = NULL;
    status_t status = onednn_describe(ctx, problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: %s for %s", onednn_refusal(ctx),
                                dtype_name(problem->src[0].dtype));
    TRY(status);
    const char *implementation = onednn_implementation(primitive);
    if (!is_exact(implementation, n_terms))
        status = prepared_decline(prepared, "onednn: %s does not give exact sums", implementation);
    else if (onednn_query(ctx, primitive, ONEDNN_ARGUMENT_WEIGHT, out_weight) != STATUS_OK)
        status = prepared_decline(prepared, "onednn: %s has weights that no tag describes",
                                  implementation);
    else if (!can_pack(ctx, out_weight))
        status = prepared_decline(prepared, "onednn: no reorder into the weights of %s",
                                  implementation);
    if (status != STATUS_OK)
        onednn_release(primitive);
    else
        *out_primitive = primitive;
    return status;
}
