#if defined(__AVX2__)
#define KERNEL_LANES 8
#define TILING_ROWS 6
#define TILING_LINE tiling_avx2
#include "kernels/tiling_loops_impl.h"
#else
#include "kernels/tiling_impl.h"
tiling_line_t *const tiling_avx2 = NULL;
#endif
