#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define DEPTHWISE_ROWS depthwise_avx512
#include "kernels/depthwise_loops_impl.h"
#else
#include "kernels/depthwise_impl.h"
depthwise_rows_t *const depthwise_avx512 = NULL;
#endif
