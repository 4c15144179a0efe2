#include "kernels/isa_impl.h"

#include "tensor/onednn/onednn.h"

static const struct {
    const char *name;
    int lanes;
} sets[ISA_COUNT] = {
    [ISA_PORTABLE] = {"portable", 8}, [ISA_AVX2] = {"avx2", 8}, [ISA_AVX512] = {"avx512", 16}};

bool isa_has(isa_t isa)
{
    if (isa == ISA_PORTABLE) return true;
#if defined(__x86_64__)
    const unsigned limit = onednn_isa();
    if (isa == ISA_AVX2)
        return onednn_isa_has(limit, ONEDNN_ISA_AVX2) && __builtin_cpu_supports("avx2") &&
               __builtin_cpu_supports("fma");
    if (isa == ISA_AVX512)
        return onednn_isa_has(limit, ONEDNN_ISA_AVX512) && __builtin_cpu_supports("avx512f");
#endif
    return false;
}

isa_t isa_best(void)
{
    isa_t best = ISA_PORTABLE;
    for (int isa = ISA_PORTABLE; isa < ISA_COUNT; isa++)
        if (isa_has((isa_t)isa)) best = (isa_t)isa;
    return best;
}

const char *isa_name(isa_t isa)
{
    return sets[isa].name;
}

int isa_lanes(isa_t isa)
{
    return sets[isa].lanes;
}
