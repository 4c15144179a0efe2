#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define WINOGRAD_ROWS 14
#define WINOGRAD_PAIRS 0
#define WINOGRAD_LOOPS winograd_avx512
#include "kernels/winograd_loops_impl.h"
#else
#include "kernels/winograd_impl.h"
const winograd_loops_t winograd_avx512 = {1, NULL, NULL, NULL};
#endif
