#define WINOGRAD_LOOPS KERNEL_NAME(winograd)
#define WINOGRAD_PAIRS 0
#include "kernels/conv/winograd/winograd_loops_impl.h"
