#define KERNEL_LANES 8
#define DEPTHWISE_ROWS depthwise_portable
#include "kernels/depthwise_loops_impl.h"
