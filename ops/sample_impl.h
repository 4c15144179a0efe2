/* Numbers that errors of layers are measured with. */
#ifndef TESSERA_OPS_SAMPLE_IMPL_H
#define TESSERA_OPS_SAMPLE_IMPL_H

#include <stdint.h>

/* Of [-1, 1), the same at each run. */
static inline float sample_draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

#endif
