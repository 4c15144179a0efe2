#if defined(__AVX2__)
#define KERNEL_LANES 8
#define STREAM_REGISTERS 16
#define STREAM_LOOPS stream_avx2
#include "kernels/stream_loops_impl.h"
#else
#include "kernels/stream_impl.h"
const stream_loops_t stream_avx2 = {NULL, NULL};
#endif
