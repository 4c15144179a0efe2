#if defined(__AVX2__)
#define KERNEL_LANES 8
#define POINTWISE_ROWS 6
#define POINTWISE_LOOPS pointwise_avx2
#include "kernels/pointwise_loops_impl.h"
#else
#include "kernels/pointwise_impl.h"
const pointwise_loops_t pointwise_avx2 = {1, NULL};
#endif
