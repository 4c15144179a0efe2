#define INTEGER_ROWS integer_portable
#include "kernels/integer_loops_impl.h"
