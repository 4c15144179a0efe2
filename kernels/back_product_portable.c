#define KERNEL_LANES 8
#define BACK_PRODUCT_REGISTERS 16
#define BACK_PRODUCT_LOOPS back_product_portable
#include "kernels/back_product_loops_impl.h"
