/* Where the indices of one dimension of a blocked tensor lie. */
#ifndef TESSERA_KERNELS_AXIS_IMPL_H
#define TESSERA_KERNELS_AXIS_IMPL_H

#include <stdint.h>

/* Elements between two neighbours of a block, and between two blocks. Of the inputs of a weight in
 * ABcd16b16a, [K/16][C/16][3][3][16 inputs][16 outputs]: blocks of 16, inner 16, outer 9 * 256. */
typedef struct axis {
    int64_t block, inner, outer;
} axis_t;

static inline int64_t axis_at(const axis_t *axis, int64_t index)
{
    return index / axis->block * axis->outer + index % axis->block * axis->inner;
}

#endif
