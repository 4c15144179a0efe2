#if defined(__AVX512F__)
#define KERNEL_LANES 16
#define STREAM_REGISTERS 32
#define STREAM_LOOPS stream_avx512
#include "kernels/stream_loops_impl.h"
#else
#include "kernels/stream_impl.h"
const stream_loops_t stream_avx512 = {NULL, NULL};
#endif
