#define KERNEL_LANES 8
#define POOL_LOOP pool_portable
#include "kernels/pool_loops_impl.h"
