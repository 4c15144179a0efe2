#if defined(__AVX2__)
#define KERNEL_LANES 8
#define POOL_LOOP pool_avx2
#include "kernels/pool_loops_impl.h"
#else
#include <stddef.h>

#include "kernels/pool_impl.h"
const pool_loop_t pool_avx2 = NULL;
#endif
