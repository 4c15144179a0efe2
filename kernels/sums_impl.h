/* Accurate sums of many floats: groups of SUMS_RUN floats are summed in float, and the sums of
 * groups in double. */
#ifndef TESSERA_KERNELS_SUMS_IMPL_H
#define TESSERA_KERNELS_SUMS_IMPL_H

#include <stdint.h>

#define SUMS_RUN 64
#define SUMS_LANES 64 /* maximum columns summed at a time */

/* Adds n_rows rows of n floats to n sums; n is at most SUMS_LANES. Rows begin `step` floats apart.
 * Adjacent rows (step == n) are added several at a time. */
static inline void sums_add_rows(const float *from, int64_t n_rows, int64_t step, int64_t n,
                                 double *sums)
{
    float lanes[SUMS_LANES];
    int64_t together = step == n ? SUMS_LANES / n : 1, row = 0;
    while (row < n_rows) {
        int64_t run = (n_rows - row) / together;
        if (run == 0) {
            together = n_rows - row;
            continue;
        }
        if (run > SUMS_RUN) run = SUMS_RUN;
        const int64_t width = together * n;
        for (int64_t j = 0; j < width; j++) lanes[j] = 0.0f;
        for (int64_t k = 0; k < run; k++) {
            const float *at = from + (row + k * together) * step;
            for (int64_t j = 0; j < width; j++) lanes[j] += at[j];
        }
        for (int64_t t = 0; t < together; t++)
            for (int64_t j = 0; j < n; j++) sums[j] += (double)lanes[t * n + j];
        row += run * together;
    }
}

#endif
