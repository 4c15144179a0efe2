/* Turns convolutions with stride 2 into convolutions with stride 1. Each channel of x becomes four:
 * its even or odd rows, with its even or odd columns. The kernel is split in the same way, which
 * halves its size:
 *
 *   x[c][2*y + i - top][2*x + j - left]  is  split[4*c + 2*i + j][y][x],       i, j < 2
 *   weight[k][c][2*r + i][2*s + j]       is  split[k][4*c + 2*i + j][r][s]
 *
 * Elements outside of x or of the kernel are zero. */
#ifndef TESSERA_KERNELS_CONV_PARITIES_IMPL_H
#define TESSERA_KERNELS_CONV_PARITIES_IMPL_H

#include <stdint.h>

/* Splits one image, from [n_channels][height][width] to [4 * n_channels /
 * lanes][split_height][split_width][lanes]; zeros pad the last block. */
typedef struct parities {
    int64_t n_channels, height, width, top, left;
    int64_t split_height, split_width;
    int lanes; /* a multiple of 4 */
    const float *x;
    float *split;
} parities_t;

/* Computes rows [first, last) of the result. */
void parities_split(const parities_t *parities, int64_t first, int64_t last);

/* Splits [n_outputs][n_inputs][size][size] to [n_outputs][4 * n_inputs][half][half]; half is size /
 * 2, rounded up. */
void parities_split_weight(int64_t n_outputs, int64_t n_inputs, int64_t size, const float *from,
                           float *to);

#endif
