#define KERNEL_LANES 8
#if defined(__aarch64__)
#define POINTWISE_ROWS 6
#else
#define POINTWISE_ROWS 3
#endif
#define POINTWISE_LOOPS pointwise_portable
#include "kernels/pointwise_loops_impl.h"
