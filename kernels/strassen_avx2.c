#if defined(__AVX2__)
#define KERNEL_LANES 8
#define STRASSEN_ROWS 6
#define STRASSEN_LOOPS strassen_avx2
#include "kernels/strassen_loops_impl.h"
#else
#include "kernels/strassen_impl.h"
const strassen_loops_t strassen_avx2 = {0, NULL};
#endif
