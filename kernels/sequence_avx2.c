#if defined(__AVX2__)
#define KERNEL_LANES 8
#define SEQUENCE_ROWS 3
#define STRASSEN_ROWS 6
#define SEQUENCE_LOOPS sequence_avx2
#include "kernels/sequence_loops_impl.h"
#else
#include "kernels/sequence_impl.h"
const sequence_loops_t sequence_avx2 = {0, NULL, NULL};
#endif
