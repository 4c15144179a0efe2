#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define FUNCTIONS_LOOP functions_avx512
#include "kernels/functions_loops_impl.h"
#else
#include <stddef.h>

#include "kernels/functions_impl.h"
const functions_loop_t functions_avx512 = NULL;
#endif
