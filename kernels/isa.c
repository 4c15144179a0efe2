#include "kernels/isa_impl.h"

#include <stdatomic.h>

#include "tensor/onednn/onednn.h"

static const struct {
    const char *name;
    int lanes;
} sets[ISA_COUNT] = {[ISA_PORTABLE] = {"portable", 8},
                     [ISA_NEON] = {"neon", 8},
                     [ISA_AVX2] = {"avx2", 8},
                     [ISA_AVX512] = {"avx512", 16}};

bool isa_has(isa_t isa)
{
    if (isa == ISA_PORTABLE) return true;
#if defined(__aarch64__)
    return isa == ISA_NEON;
#elif defined(__x86_64__)
    const unsigned limit = onednn_isa();
    if (isa == ISA_AVX2)
        return onednn_isa_has(limit, ONEDNN_ISA_AVX2) && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma");
    if (isa == ISA_AVX512)
        return onednn_isa_has(limit, ONEDNN_ISA_AVX512) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("fma");
#endif
    return false;
}

bool isa_has_vnni(void)
{
#if defined(__x86_64__)
    return isa_has(ISA_AVX512) && onednn_isa_has(onednn_isa(), ONEDNN_ISA_VNNI) &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

/* Called often, even by operators on small tensors, so the result is cached. */
isa_t isa_best(void)
{
    static atomic_int known = -1;
    int best = atomic_load_explicit(&known, memory_order_relaxed);
    if (best >= 0) return (isa_t)best;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        if (isa_has((isa_t)isa)) best = isa;
    atomic_store_explicit(&known, best, memory_order_relaxed);
    return (isa_t)best;
}

const char *isa_name(isa_t isa)
{
    return sets[isa].name;
}

int isa_lanes(isa_t isa)
{
    return sets[isa].lanes;
}
