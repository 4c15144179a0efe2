#define KERNEL_LANES 8
#define STREAM_REGISTERS 16
#define STREAM_LOOPS stream_portable
#include "kernels/stream_loops_impl.h"
