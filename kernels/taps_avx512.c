#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define TAPS_SUMS 24
#define TAPS_ROW taps_avx512
#include "kernels/taps_loops_impl.h"
#else
#include "kernels/taps_impl.h"
taps_row_loop_t *const taps_avx512 = NULL;
#endif
