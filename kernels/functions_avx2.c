#if defined(__AVX2__)
#define KERNEL_LANES 8
#define FUNCTIONS_LOOP functions_avx2
#include "kernels/functions_loops_impl.h"
#else
#include <stddef.h>

#include "kernels/functions_impl.h"
const functions_loop_t functions_avx2 = NULL;
#endif
