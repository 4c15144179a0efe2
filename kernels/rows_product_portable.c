#define KERNEL_LANES 8
#define ROWS_PRODUCT_REGISTERS 16
#define ROWS_PRODUCT_LOOPS rows_product_portable
#include "kernels/rows_product_loops_impl.h"
