/* The loops of batch_norm_impl.h, compiled once for each ISA (isa_impl.h). Sums of a lane over one
 * chunk have the type of the elements; sums over chunks are in double. Squares are of deviations
 * from a mean computed first; the sum of these deviations corrects it, so that a large mean costs
 * no precision. */
#include "kernels/norm/batch_norm_impl.h"
#include "kernels/vector_impl.h"

#define NUMBER float
#define NUMBER_NAME(name) name##_f32
#include "kernels/norm/batch_norm_numbers_impl.h"
#undef NUMBER
#undef NUMBER_NAME

#define NUMBER double
#define NUMBER_NAME(name) name##_f64
#include "kernels/norm/batch_norm_numbers_impl.h"

const batch_loops_t KERNEL_NAME(batch_norm_f32) = {moments_f32, dots_f32, scale_f32, combine_f32};
const batch_loops_t KERNEL_NAME(batch_norm_f64) = {moments_f64, dots_f64, scale_f64, combine_f64};
