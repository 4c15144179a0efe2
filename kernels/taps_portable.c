#define KERNEL_LANES 8
#define TAPS_SUMS 12
#define TAPS_ROW taps_portable
#include "kernels/taps_loops_impl.h"
