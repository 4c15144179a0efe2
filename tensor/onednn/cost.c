/* Estimates by the implementation's name and by the instruction set. */
#include "tensor/onednn/cost.h"

#include <string.h>

#include "tensor/onednn/onednn.h"

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Share of peak that an implementation reaches, by measurement of the zoo's layers: kernels for an
 * older instruction set than the machine's have fewer registers to block in. */
static double efficiency(const char *implementation)
{
    const unsigned isa = onednn_isa();
    double share = 0.9;
    if (onednn_is_reference(implementation)) return 0.001;
    if (has(implementation, "wino")) share = 1.7; /* of what direct convolution would do */
    if (!has(implementation, "brgemm") && has(implementation, "gemm")) share = 0.5;
    if (has(implementation, "avx2") && onednn_isa_has(isa, ONEDNN_ISA_AVX512)) share *= 0.7;
    if (has(implementation, "sse41") && onednn_isa_has(isa, ONEDNN_ISA_AVX)) share *= 0.4;
    return share;
}

static double peak_flops_per_ns(const context_t *ctx)
{
    const unsigned isa = onednn_isa();
    double per_core = onednn_isa_is_wide(isa)                ? 110.0
                      : onednn_isa_has(isa, ONEDNN_ISA_AVX2) ? 80.0
                                                             : 20.0;
    return per_core * context_threads(ctx);
}

double cost_run(const context_t *ctx, const char *implementation, double flops, double bytes)
{
    double compute = flops / (peak_flops_per_ns(ctx) * efficiency(implementation));
    double memory = bytes / 40.0;
    if (flops == 0.0) memory /= efficiency(implementation);
    return 1000.0 + (compute > memory ? compute : memory);
}

double cost_reorder(const tensor_info_t *from, const tensor_info_t *to)
{
    if (format_same(&from->format, &to->format, from->sizes)) return 0.0;
    return 2000.0 + (double)(info_bytes(from) + info_bytes(to)) / 12.0;
}
