/* The loops of layer_gradient_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/norm/layer_gradient_impl.h"
#include "kernels/vector_impl.h"

#define LANES 32 /* lanes of one sum */

#define NUMBER float
#define NUMBER_NAME(name) name##_f32
#include "kernels/norm/layer_gradient_numbers_impl.h"
#undef NUMBER
#undef NUMBER_NAME

#define NUMBER double
#define NUMBER_NAME(name) name##_f64
#include "kernels/norm/layer_gradient_numbers_impl.h"

const layer_gradient_loops_t KERNEL_NAME(layer_gradient_f32) = {add_f32, write_f32};
const layer_gradient_loops_t KERNEL_NAME(layer_gradient_f64) = {add_f64, write_f64};
