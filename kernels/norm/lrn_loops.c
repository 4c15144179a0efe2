/* The loops of lrn_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/norm/lrn_impl.h"

#include <tgmath.h>

#include "kernels/vector_impl.h"

#define POSITIONS LRN_POSITIONS

#define NUMBER float
#define NUMBER_NAME(name) name##_f32
#include "kernels/norm/lrn_numbers_impl.h"
#undef NUMBER
#undef NUMBER_NAME

#define NUMBER double
#define NUMBER_NAME(name) name##_f64
#include "kernels/norm/lrn_numbers_impl.h"
