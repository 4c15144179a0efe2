#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define ROWS_PRODUCT_REGISTERS 32
#define ROWS_PRODUCT_LOOPS rows_product_avx512
#include "kernels/rows_product_loops_impl.h"
#else
#include "kernels/rows_product_impl.h"
const rows_product_loops_t rows_product_avx512 = {NULL};
#endif
