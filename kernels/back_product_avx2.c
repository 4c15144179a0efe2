#if defined(__AVX2__)
#define KERNEL_LANES 8
#define BACK_PRODUCT_REGISTERS 16
#define BACK_PRODUCT_LOOPS back_product_avx2
#include "kernels/back_product_loops_impl.h"
#else
#include "kernels/back_product_impl.h"
const back_product_loops_t back_product_avx2 = {NULL};
#endif
