/* The loops of batch_norm_impl.h, compiled once for each ISA (isa_impl.h). In a chunk, each lane is
 * summed in the type of its elements; the sums of chunks are combined in double. `moments` is the
 * corrected two-pass algorithm: it computes a mean first, then sums deviations from it and their
 * squares. The sum of deviations corrects mean and squares, so that a large mean costs no
 * precision. */
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
