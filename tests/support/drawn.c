#include "tests/support/drawn.h"

static uint32_t seed_of(const char *key)
{
    uint32_t seed = UINT32_C(2166136261);
    for (; *key != '\0'; key++) seed = (seed ^ (uint8_t)*key) * UINT32_C(16777619);
    return seed;
}

static double draw(uint32_t seed, int64_t i)
{
    uint32_t bits = (uint32_t)i * UINT32_C(0x9E3779B9) + seed;
    bits ^= bits >> 16;
    bits *= UINT32_C(0x7FEB352D);
    bits ^= bits >> 15;
    bits *= UINT32_C(0x846CA68B);
    bits ^= bits >> 16;
    return ((double)(bits >> 8) - 8388608.0) / 8388608.0;
}

void drawn_fill(const char *key, double shift, double scale, int64_t n, float *out_elements)
{
    const uint32_t seed = seed_of(key);
    for (int64_t i = 0; i < n; i++) out_elements[i] = (float)(shift + scale * draw(seed, i));
}
