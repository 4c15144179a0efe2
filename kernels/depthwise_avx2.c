#if defined(__AVX2__)
#define KERNEL_LANES 8
#define DEPTHWISE_ROWS depthwise_avx2
#include "kernels/depthwise_loops_impl.h"
#else
#include "kernels/depthwise_impl.h"
depthwise_rows_t *const depthwise_avx2 = NULL;
#endif
