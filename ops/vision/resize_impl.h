/* The positions of RESIZE_CROP, shared with code that must know which of them are outside of x. */
#ifndef TESSERA_OPS_VISION_RESIZE_IMPL_H
#define TESSERA_OPS_VISION_RESIZE_IMPL_H

#include <stdint.h>

/* Position, among `in` input elements, of element i of `out` output elements. Positions are spread
 * from `start` to `end`, where 0 is the first input element and 1 the last. Computed in f32, like
 * ONNX Runtime. */
static inline float resize_crop_place(int64_t in, int64_t out, float start, float end, int64_t i)
{
    const float last = (float)(in - 1);
    if (out <= 1) return (float)(0.5 * (double)(start + end) * (double)last);
    const float begin = start * last;
    const float moved = (float)i * (end - start) * last / (float)(out - 1);
    return begin + moved;
}

#endif
