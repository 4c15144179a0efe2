#if defined(__AVX2__)
#define KERNEL_LANES 8
#define ROWS_GRADIENT_VECTORS 2
#define ROWS_GRADIENT_LOOPS rows_gradient_avx2
#include "kernels/rows_gradient_loops_impl.h"
#else
#include "kernels/rows_gradient_impl.h"
const rows_gradient_loops_t rows_gradient_avx2 = {NULL};
#endif
