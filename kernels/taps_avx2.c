#if defined(__AVX2__)
#define KERNEL_LANES 8
#define TAPS_SUMS 12
#define TAPS_ROW taps_avx2
#include "kernels/taps_loops_impl.h"
#else
#include "kernels/taps_impl.h"
taps_row_loop_t *const taps_avx2 = NULL;
#endif
