#if defined(__AVX2__)
#define KERNEL_LANES 8
#define WINOGRAD_ROWS 6
#define WINOGRAD_PAIRS 0
#define WINOGRAD_LOOPS winograd_avx2
#include "kernels/winograd_loops_impl.h"
#else
#include "kernels/winograd_impl.h"
const winograd_loops_t winograd_avx2 = {1, NULL, NULL, NULL};
#endif
