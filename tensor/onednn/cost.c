/* Estimates by the implementation's name and by the instruction set. */
#include "tensor/onednn/cost.h"

#include <string.h>

#include "tensor/onednn/onednn.h"

#define CALL_NS 1000.0 /* before the first element: of oneDNN, and of loops that are not listed */
#define OWN_CALL_NS 300.0 /* of our own kernels that stand in its place */
#define APART 0.3         /* of what is read while something is computed is not hidden by it */

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
    if (has(implementation, "brgemm"))
        share = 0.75; /* linears of 197 rows; brgconv is no brgemm */
    else if (has(implementation, "gemm"))
        share = 0.5;
    if (has(implementation, "avx2") && onednn_isa_has(isa, ONEDNN_ISA_AVX512)) share *= 0.7;
    if (has(implementation, "sse41") && onednn_isa_has(isa, ONEDNN_ISA_AVX)) share *= 0.4;
    return share;
}

static double call_ns(const char *implementation)
{
    static const char *const own[] = {"stream",   "product",   "tiles", "depthwise",
                                      "groups",   "pointwise", "rows",  "expand_depthwise",
                                      "strassen", "taps"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(implementation, own[i]) == 0) return OWN_CALL_NS;
    return CALL_NS;
}

cost_limits_t cost_limits(void)
{
    const unsigned isa = onednn_isa();
    cost_limits_t limits = {.flops = 20.0, .cached = 40.0, .memory = 30.0, .reorder = 12.0};
    if (onednn_isa_has(isa, ONEDNN_ISA_AVX2)) limits.flops = 80.0;
    if (onednn_isa_is_wide(isa)) limits.flops = 110.0;
    return limits;
}

double cost_run(const context_t *ctx, const char *implementation, double flops, double bytes)
{
    const cost_limits_t limits = cost_limits();
    const double share = efficiency(implementation);
    double compute = flops / (limits.flops * context_threads(ctx) * share);
    if (has(implementation, "bf16")) compute /= 2.0; /* pairs are multiplied at once */
    double moved = bytes / limits.cached;
    if (flops == 0.0) moved /= share;
    return call_ns(implementation) + (compute > moved ? compute : moved);
}

/* Of the memory's speed, what oneDNN's matrix products of few rows read their weights at, by
 * perf/linear: 0.55 to 1 of that at which our own do. */
#define GEMM_READS 0.9

/* The processor computes while it reads, but for a part. Where reading takes longer, as for a
 * linear layer of one row, all implementations compute alike: a conversion that only brings a
 * better one gains nothing. */
double cost_layer(const context_t *ctx, const char *implementation, double flops, double bytes,
                  double weight_bytes)
{
    const cost_limits_t limits = cost_limits();
    const double run = cost_run(ctx, implementation, flops, bytes);
    const double speed = limits.memory * (has(implementation, "gemm") ? GEMM_READS : 1.0);
    const double read = weight_bytes / speed;
    if (run > read) return run + APART * read;
    return read + APART * (call_ns(implementation) + flops / (limits.flops * context_threads(ctx)));
}

double cost_reorder(const tensor_info_t *from, const tensor_info_t *to)
{
    if (format_same(&from->format, &to->format, from->sizes)) return 0.0;
    return 2.0 * CALL_NS + (double)(info_bytes(from) + info_bytes(to)) / cost_limits().reorder;
}
