#define KERNEL_LANES 8
#define WINOGRAD_ROWS 3
#define WINOGRAD_PAIRS 1
#define WINOGRAD_LOOPS winograd_pairs_portable
#include "kernels/winograd_loops_impl.h"
