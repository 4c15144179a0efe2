/* XXH64, after the published description of the algorithm (Yann Collet, XXH64 section): four lanes
 * eat stripes of 32 bytes, are merged, and the tail of less than 32 bytes is mixed in. */
#include "tensor/file.h"

#define PRIME_1 UINT64_C(0x9e3779b185ebca87)
#define PRIME_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define PRIME_3 UINT64_C(0x165667b19e3779f9)
#define PRIME_4 UINT64_C(0x85ebca77c2b2ae63)
#define PRIME_5 UINT64_C(0x27d4eb2f165667c5)

/* Little-endian whatever the machine; compilers make one load of it. */
static inline uint64_t read_32(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
}

static inline uint64_t read_64(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 |
           (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 |
           (uint64_t)at[7] << 56;
}

static inline uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static inline uint64_t advance(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * PRIME_2, 31) * PRIME_1;
}

static uint64_t merge_lanes(const uint64_t *lanes)
{
    uint64_t hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) +
                    rotate(lanes[3], 18);
    for (int i = 0; i < 4; i++) hash = (hash ^ advance(0, lanes[i])) * PRIME_1 + PRIME_4;
    return hash;
}

static uint64_t mix_tail(uint64_t hash, const uint8_t *at, size_t left)
{
    for (; left >= 8; at += 8, left -= 8)
        hash = rotate(hash ^ advance(0, read_64(at)), 27) * PRIME_1 + PRIME_4;
    for (; left >= 4; at += 4, left -= 4)
        hash = rotate(hash ^ (read_32(at) * PRIME_1), 23) * PRIME_2 + PRIME_3;
    for (; left > 0; at++, left--) hash = rotate(hash ^ (*at * PRIME_5), 11) * PRIME_1;
    return hash;
}

uint64_t file_checksum(const void *bytes, size_t n_bytes, uint64_t seed)
{
    const uint8_t *at = bytes;
    size_t left = n_bytes;
    uint64_t hash = seed + PRIME_5;
    if (n_bytes >= 32) {
        uint64_t lanes[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
        for (; left >= 32; at += 32, left -= 32)
            for (int i = 0; i < 4; i++) lanes[i] = advance(lanes[i], read_64(at + 8 * i));
        hash = merge_lanes(lanes);
    }
    hash = mix_tail(hash + n_bytes, at, left);
    hash = (hash ^ (hash >> 33)) * PRIME_2;
    hash = (hash ^ (hash >> 29)) * PRIME_3;
    return hash ^ (hash >> 32);
}
