/* The loops of rotary_impl.h, compiled once for each ISA (isa_impl.h). */
#include "kernels/attention/rotary_impl.h"
#include "kernels/vector_impl.h"

#if KERNEL_LANES == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#else
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#endif

/* For pairs of neighbours. Separates first and second elements into two vectors, turns these, and
 * joins them again. */
static void turn_neighbours(int64_t n, const float *x, const float *cos, const float *sin,
                            float *out)
{
    int64_t i = 0;
    for (; i + KERNEL_LANES <= n; i += KERNEL_LANES) {
        const vector_t v = vector_load(x + 2 * i), w = vector_load(x + 2 * i + KERNEL_LANES);
        const vector_t a = __builtin_shufflevector(v, w, EVEN);
        const vector_t b = __builtin_shufflevector(v, w, ODD);
        const vector_t c = vector_load(cos + i), s = vector_load(sin + i);
        const vector_t first = a * c - b * s, second = b * c + a * s;
        vector_store(__builtin_shufflevector(first, second, LOW), out + 2 * i);
        vector_store(__builtin_shufflevector(first, second, HIGH), out + 2 * i + KERNEL_LANES);
    }
    for (; i < n; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        out[2 * i] = a * cos[i] - b * sin[i];
        out[2 * i + 1] = b * cos[i] + a * sin[i];
    }
}

static void turn(bool is_interleaved, int64_t n, const float *restrict x, const float *restrict cos,
                 const float *restrict sin, float *restrict out)
{
    if (is_interleaved) {
        turn_neighbours(n, x, cos, sin, out);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float a = x[i], b = x[n + i];
        out[i] = a * cos[i] - b * sin[i];
        out[n + i] = b * cos[i] + a * sin[i];
    }
}

const rotary_loops_t KERNEL_NAME(rotary) = {.turn = turn};
