/* Convolutions of stride 2 as ones of stride 1: rows and columns of the source are even or odd, and
 * so are those of the kernel. Elements of one parity of both dimensions are a channel by
 * themselves, four for each channel, which a kernel of half the size goes over:
 *
 *   x[c][2*y + i - top][2*x + j - left]  is  split[4*c + 2*i + j][y][x],       i, j < 2
 *   weight[k][c][2*r + i][2*s + j]       is  split[k][4*c + 2*i + j][r][s]
 *
 * and zero where there is none. */
#ifndef TESSERA_KERNELS_CONV_PARITIES_IMPL_H
#define TESSERA_KERNELS_CONV_PARITIES_IMPL_H

#include <stdint.h>

/* One image: [n_channels][height][width] to [4 * n_channels / lanes][split_height][split_width]
 * [lanes], of which the last block is padded by zeros. */
typedef struct parities {
    int64_t n_channels, height, width, top, left;
    int64_t split_height, split_width;
    int lanes; /* a multiple of 4 */
    const float *x;
    float *split;
} parities_t;

/* Rows [first, last) of the result. */
void parities_split(const parities_t *parities, int64_t first, int64_t last);

/* [n_outputs][n_inputs][size][size] to [n_outputs][4 * n_inputs][half][half], half of size rounded
 * up. */
void parities_split_weight(int64_t n_outputs, int64_t n_inputs, int64_t size, const float *from,
                           float *to);

#endif
