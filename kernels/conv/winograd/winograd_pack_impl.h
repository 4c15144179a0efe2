/* Transforms weights, in double, for vectors of KERNEL_LANES floats. */
#if WINOGRAD_PAIRS
#include "kernels/conv/winograd/winograd_pairs_impl.h"
#else
#include "kernels/conv/winograd/winograd_factors_impl.h"
#endif

#define WIDTH (WINOGRAD_VECTORS * KERNEL_LANES) /* outputs in a block */

/* Half a vector, in double and in float. */
typedef double wide_t __attribute__((vector_size(KERNEL_LANES * 4)));
typedef float narrow_t __attribute__((vector_size(KERNEL_LANES * 2)));
#define HALF (KERNEL_LANES / 2)

/* sum(k) numbers[k] from[k * step]. */
KERNEL_INLINE wide_t add_up(const double *numbers, int n, const wide_t *from, int step)
{
    wide_t sum = numbers[0] * from[0];
    KERNEL_UNROLL
    for (int k = 1; k < n; k++) sum += numbers[k] * from[k * step];
    return sum;
}

/* Transforms half a vector of outputs of one channel to [side^2], `stride` apart. */
KERNEL_INLINE void pack_half(const winograd_packing_t *p, int kernel, const float (*from)[WIDTH],
                             float *to, int64_t stride)
{
    const int side = p->weight->tile + kernel - 1;
    wide_t taps[WINOGRAD_MAX_KERNEL * WINOGRAD_MAX_KERNEL];
    KERNEL_UNROLL
    for (int i = 0; i < kernel * kernel; i++) {
        narrow_t values;
        memcpy(&values, from[i], sizeof values);
        taps[i] = __builtin_convertvector(values, wide_t);
    }
    for (int y = 0; y < side; y++) {
        wide_t row[WINOGRAD_MAX_KERNEL];
        KERNEL_UNROLL
        for (int s = 0; s < kernel; s++) row[s] = add_up(p->matrix[y], kernel, taps + s, kernel);
        for (int x = 0; x < side; x++, to += stride) {
            const wide_t sum = add_up(p->matrix[x], kernel, row, 1);
            const narrow_t values = __builtin_convertvector(sum, narrow_t);
            memcpy(to, &values, sizeof values);
        }
    }
}

/* Finds the offsets of the outputs of a block; -1 after the last output. */
static void find_outputs(const winograd_weight_t *w, int64_t first, int64_t *out_places)
{
    for (int k = 0; k < WIDTH; k++)
        out_places[k] = first + k < w->outputs.n ? axis_at(&w->outputs, first + k) : -1;
}

/* Loads the kernels for one channel and the outputs, as [element][output]. */
KERNEL_INLINE void load_kernels(const winograd_weight_t *w, int kernel, int64_t channel,
                                const int64_t *outputs, float (*out)[WIDTH])
{
    const bool has_channel = channel < w->inputs.n;
    const float *from = w->from + (has_channel ? axis_at(&w->inputs, channel) : 0);
    for (int k = 0; k < WIDTH; k++) {
        const bool has = has_channel && outputs[k] >= 0;
        for (int i = 0; i < kernel * kernel; i++)
            out[i][k] = has ? from[outputs[k] + i * w->element] : 0.0f;
    }
}

/* Number of channels that are transformed to a buffer before they are stored. In the packed weight,
 * elements of one channel are far apart, often in the same set of the first-level cache. */
#define PACK_CHANNELS 4

KERNEL_INLINE void pack_channels(const winograd_packing_t *p, int kernel, int width,
                                 int64_t channel, const int64_t *outputs, factor_t *to,
                                 int64_t stride)
{
    const int n = (p->weight->tile + kernel - 1) * (p->weight->tile + kernel - 1);
    float packed[WINOGRAD_MAX_SIDE * WINOGRAD_MAX_SIDE * PACK_CHANNELS * WIDTH];
    for (int c = 0; c < PACK_CHANNELS; c++) {
        float from[WINOGRAD_MAX_KERNEL * WINOGRAD_MAX_KERNEL][WIDTH];
        load_kernels(p->weight, kernel, channel + c, outputs, from);
        for (int k = 0; k < width; k += HALF)
            pack_half(p, kernel, (const float(*)[WIDTH])(from[0] + k), packed + c * width + k,
                      PACK_CHANNELS * width);
    }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < PACK_CHANNELS; c += FACTOR_CHANNELS)
            put_weights(packed + (i * PACK_CHANNELS + c) * width, width,
                        to + i * stride + c * width);
}

static void pack(const winograd_packing_t *p, int64_t first, int64_t last)
{
    const winograd_weight_t *w = p->weight;
    const int side = w->tile + w->kernel - 1;
    const int64_t n_channels = (w->inputs.n + KERNEL_LANES - 1) / KERNEL_LANES * KERNEL_LANES;
    for (int64_t block = first; block < last; block++) {
        const int64_t rest = w->outputs.n - block * WIDTH;
        const int64_t width = rest > KERNEL_LANES ? WIDTH : KERNEL_LANES;
        int64_t outputs[WIDTH];
        factor_t *to = (factor_t *)p->to + block * side * side * n_channels * WIDTH;
        find_outputs(w, block * WIDTH, outputs);
        for (int64_t c = 0; c < n_channels; c += PACK_CHANNELS, to += PACK_CHANNELS * width) {
#define PACK(kernel_size, width_size)                                                              \
    if (w->kernel == (kernel_size) && width == (width_size))                                       \
        pack_channels(p, kernel_size, width_size, c, outputs, to, n_channels *width);
            PACK(3, WIDTH)
            PACK(3, KERNEL_LANES)
            PACK(4, WIDTH)
            PACK(4, KERNEL_LANES)
            PACK(5, WIDTH)
            PACK(5, KERNEL_LANES)
        }
    }
}
