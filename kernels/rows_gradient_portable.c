#define KERNEL_LANES 8
#define ROWS_GRADIENT_VECTORS 2
#define ROWS_GRADIENT_LOOPS rows_gradient_portable
#include "kernels/rows_gradient_loops_impl.h"
