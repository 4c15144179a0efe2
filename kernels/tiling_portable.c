#define KERNEL_LANES 8
#define TILING_ROWS 3
#define TILING_LINE tiling_portable
#include "kernels/tiling_loops_impl.h"
