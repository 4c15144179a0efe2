#if defined(__AVX2__)
#define KERNEL_LANES 8
#define ROWS_PRODUCT_REGISTERS 16
#define ROWS_PRODUCT_LOOPS rows_product_avx2
#include "kernels/rows_product_loops_impl.h"
#else
#include "kernels/rows_product_impl.h"
const rows_product_loops_t rows_product_avx2 = {NULL};
#endif
