#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define EXPAND_DEPTHWISE_AT_ONCE 14
#define EXPAND_DEPTHWISE_ROWS expand_depthwise_avx512
#include "kernels/expand_depthwise_loops_impl.h"
#else
#include "kernels/expand_depthwise_impl.h"
expand_depthwise_rows_t *const expand_depthwise_avx512 = NULL;
#endif
