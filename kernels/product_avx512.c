#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define PRODUCT_ROWS 14
#define PRODUCT_VECTORS 2
#define PRODUCT_LOOPS product_avx512
#include "kernels/product_loops_impl.h"
#else
#include "kernels/product_impl.h"
const product_loops_t product_avx512 = {0, NULL, NULL, NULL};
#endif
