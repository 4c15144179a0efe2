/* Estimates run times from the numbers of operations and bytes, the implementation's name and the
 * instruction set. */
#include "tensor/onednn/cost.h"

#include <string.h>

#include "tensor/onednn/onednn.h"

#define CALL_NS 1000.0    /* overhead of a call of oneDNN and of most native kernels */
#define OWN_CALL_NS 300.0 /* overhead of the native kernels listed in call_ns */
#define APART 0.3         /* fraction of the reading time that does not overlap with computing */

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Fraction of peak speed that an implementation reaches, measured on layers of the zoo's networks.
 * Kernels for an older instruction set than the machine's are slower, because they can use fewer
 * registers. */
static double efficiency(const char *implementation)
{
    const unsigned isa = onednn_isa();
    double share = 0.9;
    if (onednn_is_reference(implementation)) return 0.001;
    if (has(implementation, "wino")) share = 1.7; /* compared with direct convolution */
    if (has(implementation, "brgemm"))
        share = 0.75; /* for linear layers of 197 rows; "brgconv" does not match */
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
    if (has(implementation, "bf16")) compute /= 2.0; /* multiplies pairs of numbers */
    double moved = bytes / limits.cached;
    if (flops == 0.0) moved /= share;
    return call_ns(implementation) + (compute > moved ? compute : moved);
}

/* Fraction of memory bandwidth with which oneDNN's matrix products of few rows read their weights.
 * perf/linear measured that they have 0.55 to 1 of the speed of native kernels. */
#define GEMM_READS 0.9

/* Computing and reading overlap, except for the fraction APART. If reading takes longer than
 * computing, as in a linear layer of one row, all implementations take the same time, so a
 * conversion for a faster implementation gains nothing. */
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

double cost_windows(const context_t *ctx, const char *implementation,
                    const onednn_problem_t *problem)
{
    const tensor_info_t *weight = problem->weight;
    const bool is_convolution = problem->kind == ONEDNN_CONVOLUTION ||
                                problem->kind == ONEDNN_DECONVOLUTION;
    if (!is_convolution || !has(implementation, ":gemm")) return 0.0;
    const bool is_forward = problem->kind == ONEDNN_CONVOLUTION;
    const tensor_info_t *image = is_forward ? problem->src : problem->dst;
    const tensor_info_t *positions = is_forward ? problem->dst : problem->src;
    double elements = (double)image->sizes[0] * (double)image->sizes[1], window = 1.0;
    for (int i = 2; i < image->rank; i++) {
        elements *= (double)positions->sizes[i];
        window *= (double)problem->kernel[i - 2];
    }
    const double groups = weight->rank > image->rank ? (double)weight->sizes[0] : 1.0;
    const double calls = groups * (double)image->sizes[0] * CALL_NS;
    const double bytes = window > 1.0 ? 2.0 * sizeof(float) * elements * window : 0.0;
    return (calls + bytes / cost_limits().cached) / context_threads(ctx);
}

double cost_reorder(const tensor_info_t *from, const tensor_info_t *to)
{
    if (format_same(&from->format, &to->format, from->sizes)) return 0.0;
    return 2.0 * CALL_NS + (double)(info_bytes(from) + info_bytes(to)) / cost_limits().reorder;
}
