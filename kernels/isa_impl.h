/* Instruction sets (ISAs) for which the kernels are compiled.
 *
 * A kernel's loops are written once, in kernels/<folder>/<name>_loops.c. The build compiles each of
 * these files once for each ISA (kernels/CMakeLists.txt) and defines
 *
 *   KERNEL_ISA        the suffix of the names that the file defines: portable, avx2, avx512, neon
 *   KERNEL_LANES      floats in a vector
 *   KERNEL_REGISTERS  number of vectors that fit in the registers
 *   KERNEL_ROWS       number of rows of sums, two vectors each, that fit in the registers
 *
 * The kernel's header declares these copies with ISA_EXTERN(type, name). Its <name>.c lists them in
 * a table made with ISA_TABLE(name), which is indexed by isa_t. */
#ifndef TESSERA_KERNELS_ISA_IMPL_H
#define TESSERA_KERNELS_ISA_IMPL_H

#include <stdbool.h>

/* The ISAs, in ascending order of preference. */
typedef enum isa {
    ISA_PORTABLE, /* 8 lanes, using the vectors that the compiler's target has */
    ISA_NEON,     /* 64-bit Arm: 8 lanes, in two registers */
    ISA_AVX2,     /* with FMA: 8 lanes */
    ISA_AVX512,   /* AVX-512F, with FMA: 16 lanes */
    ISA_COUNT
} isa_t;

/* ISA_EXTERN declares the copies of a function or table, one for each ISA. ISA_TABLE lists them,
 * with NULL for ISAs of other machines. */
#if defined(__x86_64__)
#define ISA_EXTERN(type, name) extern type name##_portable, name##_avx2, name##_avx512
#define ISA_TABLE(name)                                                                            \
    {                                                                                              \
        [ISA_PORTABLE] = &name##_portable, [ISA_AVX2] = &name##_avx2,                              \
        [ISA_AVX512] = &name##_avx512                                                              \
    }
#elif defined(__aarch64__)
#define ISA_EXTERN(type, name) extern type name##_portable, name##_neon
#define ISA_TABLE(name)                                                                            \
    {                                                                                              \
        [ISA_PORTABLE] = &name##_portable, [ISA_NEON] = &name##_neon                               \
    }
#else
#define ISA_EXTERN(type, name) extern type name##_portable
#define ISA_TABLE(name)                                                                            \
    {                                                                                              \
        [ISA_PORTABLE] = &name##_portable                                                          \
    }
#endif

/* True if this build has the ISA, the processor has it, and ONEDNN_MAX_CPU_ISA allows it. */
bool isa_has(isa_t isa);

/* True if isa_has(ISA_AVX512), and the processor and ONEDNN_MAX_CPU_ISA have VNNI, which multiplies
 * bytes and adds the products in one instruction. */
bool isa_has_vnni(void);

/* The most preferred ISA for which isa_has is true. */
isa_t isa_best(void);

/* Returns "portable", "neon", "avx2" or "avx512". */
const char *isa_name(isa_t isa);

/* Floats in a vector. */
int isa_lanes(isa_t isa);

#endif
