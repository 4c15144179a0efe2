#define KERNEL_LANES 8
#if defined(__aarch64__)
#define STRASSEN_ROWS 6
#else
#define STRASSEN_ROWS 3
#endif
#define STRASSEN_LOOPS strassen_portable
#include "kernels/strassen_loops_impl.h"
