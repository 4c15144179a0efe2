#define KERNEL_LANES 8
#define SEQUENCE_ROWS 3
#define STRASSEN_ROWS 3
#define SEQUENCE_LOOPS sequence_portable
#include "kernels/sequence_loops_impl.h"
