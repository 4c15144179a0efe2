/* Compiles a loop for several vector widths; the loader picks one. */
#ifndef TESSERA_TENSOR_SIMD_IMPL_H
#define TESSERA_TENSOR_SIMD_IMPL_H

/* Prefix of a function definition. Debug builds compile only one version, because the code that
 * selects a version runs before sanitizers are ready. */
#if defined(__x86_64__) && defined(NDEBUG)
#define FOR_EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_ISA
#endif

#endif
