#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define BACK_PRODUCT_REGISTERS 32
#define BACK_PRODUCT_LOOPS back_product_avx512
#include "kernels/back_product_loops_impl.h"
#else
#include "kernels/back_product_impl.h"
const back_product_loops_t back_product_avx512 = {NULL};
#endif
