#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define STRASSEN_ROWS 14
#define STRASSEN_LOOPS strassen_avx512
#include "kernels/strassen_loops_impl.h"
#else
#include "kernels/strassen_impl.h"
const strassen_loops_t strassen_avx512 = {0, NULL};
#endif
