/* Where a crop samples, for resize and for those who need to know which places lie outside. */
#ifndef TESSERA_OPS_VISION_RESIZE_IMPL_H
#define TESSERA_OPS_VISION_RESIZE_IMPL_H

#include <stdint.h>

/* Output element i of `out`, in elements of an input of size `in`: from `start`, of which 0 is the
 * first element and 1 the last, to `end`. In f32 as ONNX Runtime computes it. */
static inline float resize_crop_place(int64_t in, int64_t out, float start, float end, int64_t i)
{
    const float last = (float)(in - 1);
    if (out <= 1) return (float)(0.5 * (double)(start + end) * (double)last);
    const float begin = start * last;
    const float moved = (float)i * (end - start) * last / (float)(out - 1);
    return begin + moved;
}

#endif
