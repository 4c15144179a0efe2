/* Instruction sets that kernels of our own are compiled for.
 *
 * A kernel's loops are written once, in a header whose vectors have KERNEL_LANES floats, and
 * compiled once for each instruction set by a file of its own: stream_avx2.c includes
 * stream_loops_impl.h with 8 lanes, under the flags that kernels/CMakeLists.txt gives it. */
#ifndef TESSERA_KERNELS_ISA_IMPL_H
#define TESSERA_KERNELS_ISA_IMPL_H

#include <stdbool.h>

typedef enum isa {
    ISA_PORTABLE, /* 8 lanes of whatever the compiler makes of them */
    ISA_AVX2,     /* with FMA: 8 lanes */
    ISA_AVX512,   /* AVX-512F, with FMA: 16 lanes */
    ISA_COUNT
} isa_t;

/* Whether this processor, as far as ONEDNN_MAX_CPU_ISA lets it, and this build have it. */
bool isa_has(isa_t isa);

/* The widest that is there. */
isa_t isa_best(void);

/* "portable", "avx2", "avx512". */
const char *isa_name(isa_t isa);

/* Floats in a vector. */
int isa_lanes(isa_t isa);

#endif
