#if defined(__AVX2__)
#define INTEGER_ROWS integer_avx2
#include "kernels/integer_loops_impl.h"
#else
#include "kernels/integer_impl.h"
integer_rows_t *const integer_avx2 = NULL;
#endif
