#define KERNEL_LANES 8
#define FUNCTIONS_LOOP functions_portable
#include "kernels/functions_loops_impl.h"
