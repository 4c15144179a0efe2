#if defined(__AVX2__)
#define KERNEL_LANES 8
#define EXPAND_DEPTHWISE_AT_ONCE 6
#define EXPAND_DEPTHWISE_ROWS expand_depthwise_avx2
#include "kernels/expand_depthwise_loops_impl.h"
#else
#include "kernels/expand_depthwise_impl.h"
expand_depthwise_rows_t *const expand_depthwise_avx2 = NULL;
#endif
