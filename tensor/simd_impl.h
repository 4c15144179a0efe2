/* Loops compiled for each width of vectors, of which the loader picks one. */
#ifndef TESSERA_TENSOR_SIMD_IMPL_H
#define TESSERA_TENSOR_SIMD_IMPL_H

/* Before a function. Sanitizers run before the loader's choice, so debug builds have one body. */
#if defined(__x86_64__) && defined(NDEBUG)
#define FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_ISA
#endif

#endif
