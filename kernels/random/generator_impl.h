/* Random numbers: each is a function of a seed and the number's index, so that threads and layouts
 * have no effect on them.
 *
 * This folder contains the generator and the loops that generate many numbers (dropout_impl.h). */
#ifndef TESSERA_KERNELS_RANDOM_GENERATOR_IMPL_H
#define TESSERA_KERNELS_RANDOM_GENERATOR_IMPL_H

#include <stdint.h>

/* The finaliser of splitmix64: each bit of the result depends on all bits of the argument. */
static inline uint64_t generator_mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

#define GENERATOR_STEP UINT64_C(0x9e3779b97f4a7c15)

/* 53 random bits. */
static inline uint64_t generator_bits(int64_t seed, int64_t index)
{
    const uint64_t base = generator_mix((uint64_t)seed + GENERATOR_STEP);
    return generator_mix(base + ((uint64_t)index + 1) * GENERATOR_STEP) >> 11;
}

/* A random number, at least 0 and less than 1. */
static inline double generator_uniform(int64_t seed, int64_t index)
{
    return (double)generator_bits(seed, index) * 0x1p-53;
}

#endif
