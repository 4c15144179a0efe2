#define WINOGRAD_LOOPS KERNEL_NAME(winograd_pairs)
#define WINOGRAD_PAIRS 1
#include "kernels/conv/winograd/winograd_loops_impl.h"
