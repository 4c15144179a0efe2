#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define TILING_ROWS 14
#define TILING_LINE tiling_avx512
#include "kernels/tiling_loops_impl.h"
#else
#include "kernels/tiling_impl.h"
tiling_line_t *const tiling_avx512 = NULL;
#endif
