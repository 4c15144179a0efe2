#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define POINTWISE_ROWS 14
#define POINTWISE_LOOPS pointwise_avx512
#include "kernels/pointwise_loops_impl.h"
#else
#include "kernels/pointwise_impl.h"
const pointwise_loops_t pointwise_avx512 = {1, NULL};
#endif
