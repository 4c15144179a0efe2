/* The loops of rotary_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/attention/rotary_impl.h"
#include "kernels/vector_impl.h"

static void turn(bool is_interleaved, int64_t n, const float *restrict x, const float *restrict cos,
                 const float *restrict sin, float *restrict out)
{
    if (is_interleaved) {
        for (int64_t i = 0; i < n; i++) {
            const float a = x[2 * i], b = x[2 * i + 1];
            out[2 * i] = a * cos[i] - b * sin[i];
            out[2 * i + 1] = b * cos[i] + a * sin[i];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float a = x[i], b = x[n + i];
            out[i] = a * cos[i] - b * sin[i];
            out[n + i] = b * cos[i] + a * sin[i];
        }
    }
}

const rotary_loops_t KERNEL_NAME(rotary) = {.turn = turn};
