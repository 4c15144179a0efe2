#if defined(__AVX2__)
#define KERNEL_LANES 8
#define PRODUCT_ROWS 6
#define PRODUCT_VECTORS 2
#define PRODUCT_LOOPS product_avx2
#include "kernels/product_loops_impl.h"
#else
#include "kernels/product_impl.h"
const product_loops_t product_avx2 = {0, NULL, NULL, NULL};
#endif
