#define KERNEL_LANES 8
#if defined(__aarch64__)
#define WINOGRAD_ROWS 6
#else
#define WINOGRAD_ROWS 3
#endif
#define WINOGRAD_PAIRS 0
#define WINOGRAD_LOOPS winograd_portable
#include "kernels/winograd_loops_impl.h"
