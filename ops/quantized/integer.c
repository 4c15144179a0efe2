#include "ops/quantized/integer_impl.h"

#include <string.h>

#include "kernels/quantized/integer_impl.h"
#include "tensor/simd_impl.h"

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

#define EACH(n) _Pragma("omp simd") for (int64_t i = 0; i < (n); i++)

FOR_EACH_ISA static void center_unsigned(int64_t n, const uint8_t *x, int32_t zero, int16_t *out)
{
    EACH(n) out[i] = (int16_t)(x[i] - zero);
}

FOR_EACH_ISA static void center_signed(int64_t n, const int8_t *x, int32_t zero, int16_t *out)
{
    EACH(n) out[i] = (int16_t)(x[i] - zero);
}

void integer_center(dtype_t dtype, int64_t n, const void *x, int64_t step, int32_t zero,
                    int16_t *out)
{
    if (step != 1)
        for (int64_t i = 0; i < n; i++) out[i] = (int16_t)(integer_load(dtype, x, i * step) - zero);
    else if (dtype == DTYPE_S8)
        center_signed(n, x, zero, out);
    else
        center_unsigned(n, x, zero, out);
}

FOR_EACH_ISA static void sum_runs(int64_t n, int64_t step, int64_t length, const int16_t *x,
                                  uint32_t *out)
{
    for (int64_t r = 0; r < n; r++, x += step) {
        uint32_t sum = 0;
        for (int64_t i = 0; i < length; i++) {
            const int32_t term = x[i];
            sum += (uint32_t)term;
        }
        out[r] = sum;
    }
}

void integer_sums(int64_t n, int64_t step, int64_t length, const int16_t *x, int32_t *out)
{
    sum_runs(n, step, length, x, (uint32_t *)out);
}

FOR_EACH_ISA static void add(int64_t n, int64_t step, const uint32_t *numbers, uint32_t *sums)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++) sums[i] += numbers[i];
    else
        for (int64_t i = 0; i < n; i++) sums[i] += numbers[i * step];
}

void integer_add(int64_t n, int64_t step, const int32_t *numbers, int32_t *sums)
{
    add(n, step, (const uint32_t *)numbers, (uint32_t *)sums);
}

int64_t integer_packed(int64_t n_outputs, int64_t n_pairs)
{
    return (n_outputs + INTEGER_BLOCK - 1) / INTEGER_BLOCK * INTEGER_BLOCK * n_pairs * 2;
}

void integer_pack(dtype_t dtype, int64_t n_outputs, int64_t n_pairs, int64_t step,
                  integer_place_t place, const void *user, const void *from, int8_t *to)
{
    const uint8_t flipped = dtype == DTYPE_U8 ? 0x80 : 0;
    const uint8_t *bytes = from;
    for (int64_t block = 0; block < n_outputs; block += INTEGER_BLOCK)
        for (int64_t i = 0; i < 2 * n_pairs; i++) {
            const int64_t at = place(user, i);
            int8_t *out = to + block * n_pairs * 2 + i / 2 * 2 * INTEGER_BLOCK + i % 2;
            for (int64_t o = 0; o < INTEGER_BLOCK; o++, out += 2)
                *out = at < 0 || block + o >= n_outputs
                           ? 0
                           : (int8_t)(bytes[(block + o) * step + at] ^ flipped);
        }
}

size_t integer_zero_bytes(int64_t n_outputs)
{
    return integer_align((size_t)(n_outputs + INTEGER_BLOCK) * sizeof(int32_t));
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

FOR_EACH_ISA static void flip(int64_t n, const uint8_t *x, uint8_t *out)
{
    EACH(n) out[i] = x[i] ^ 0x80;
}

void integer_unsign(dtype_t dtype, int64_t n, const void *x, uint8_t *out)
{
    if (dtype == DTYPE_S8)
        flip(n, x, out);
    else if (n > 0)
        memcpy(out, x, (size_t)n);
}

/* Returns true if the sums are exact. The brgemm kernels store s32 sums directly; others convert
 * them to f32 in between. */
static bool is_exact(const char *implementation, double n_terms)
{
    bool has_dot_products = strstr(implementation, "vnni") != NULL ||
                            strstr(implementation, "amx") != NULL;
    return has_dot_products &&
           (strncmp(implementation, "brg", 3) == 0 || n_terms * 255 * 128 <= 0x1p24);
}

/* oneDNN 3.2 lacks reorders of s8 to some formats of its primitives, for small groups. */
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
