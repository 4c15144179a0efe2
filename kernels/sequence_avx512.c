#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define SEQUENCE_ROWS 6
#define STRASSEN_ROWS 14
#define SEQUENCE_LOOPS sequence_avx512
#include "kernels/sequence_loops_impl.h"
#else
#include "kernels/sequence_impl.h"
const sequence_loops_t sequence_avx512 = {0, NULL, NULL};
#endif
