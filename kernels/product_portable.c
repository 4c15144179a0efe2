#define KERNEL_LANES 8
#define PRODUCT_ROWS 6
#define PRODUCT_VECTORS 2
#define PRODUCT_LOOPS product_portable
#include "kernels/product_loops_impl.h"
