/* Offsets of indices in one dimension of a blocked tensor. */
#ifndef TESSERA_KERNELS_AXIS_IMPL_H
#define TESSERA_KERNELS_AXIS_IMPL_H

#include <stdint.h>

/* Index i is at offset i / block * outer + i % block * inner. The last block is padded. Example:
 * the input channels of a weight in ABcd16b16a, that is [K/16][C/16][3][3][16 inputs][16 outputs],
 * have block 16, inner 16 and outer 9 * 256. */
typedef struct axis {
    int64_t n, block, inner, outer;
} axis_t;

static inline int64_t axis_at(const axis_t *axis, int64_t index)
{
    return index / axis->block * axis->outer + index % axis->block * axis->inner;
}

static inline int64_t axis_blocks(const axis_t *axis)
{
    return (axis->n + axis->block - 1) / axis->block;
}

#endif
