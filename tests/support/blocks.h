/* Elements of tensors with blocked channels, for tests of kernels. */
#ifndef TESSERA_TESTS_SUPPORT_BLOCKS_H
#define TESSERA_TESTS_SUPPORT_BLOCKS_H

#include <stdint.h>
#include <stdlib.h>

/* Returns the offset of element `at` of channel c of image n in [N][C / lanes][plane][lanes]. */
static inline int64_t blocks_at(int64_t n_channels, int64_t plane, int lanes, int64_t n, int64_t c,
                                int64_t at)
{
    const int64_t n_blocks = (n_channels + lanes - 1) / lanes;
    return ((n * n_blocks + c / lanes) * plane + at) * lanes + c % lanes;
}

/* Returns a random number in [-1, 1]. */
static inline float blocks_draw(void)
{
    return (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
}

#endif
