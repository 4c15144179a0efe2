#define KERNEL_LANES 8
#if defined(__aarch64__)
#define EXPAND_DEPTHWISE_AT_ONCE 6
#else
#define EXPAND_DEPTHWISE_AT_ONCE 3
#endif
#define EXPAND_DEPTHWISE_ROWS expand_depthwise_portable
#include "kernels/expand_depthwise_loops_impl.h"
