#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define ROWS_GRADIENT_VECTORS 4
#define ROWS_GRADIENT_LOOPS rows_gradient_avx512
#include "kernels/rows_gradient_loops_impl.h"
#else
#include "kernels/rows_gradient_impl.h"
const rows_gradient_loops_t rows_gradient_avx512 = {NULL};
#endif
