#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define POOL_LOOP pool_avx512
#include "kernels/pool_loops_impl.h"
#else
#include <stddef.h>

#include "kernels/pool_impl.h"
const pool_loop_t pool_avx512 = NULL;
#endif
