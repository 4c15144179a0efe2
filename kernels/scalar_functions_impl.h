/* exp, log and related functions of floats, without branches and calls of the C library, so that
 * compilers can vectorise them. Errors of exp and log are at most 2 units in the last place; NaN
 * stays NaN. Results below FLT_MIN are 0 if the processor flushes denormals. */
#ifndef TESSERA_KERNELS_SCALAR_FUNCTIONS_IMPL_H
#define TESSERA_KERNELS_SCALAR_FUNCTIONS_IMPL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t scalar_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float scalar_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x) = 2^n exp(r), where n is the integer nearest to x / ln 2. Adding 1.5 * 2^23 rounds to n
 * and leaves n in the low bits. 2^n is split into two factors, because n can be 128, and 2^128 is
 * too large for a float. */
static inline float scalar_exp(float x)
{
    const float shift = 12582912.0f;
    float bounded = x < -104.0f ? -104.0f : x;
    bounded = bounded > 89.0f ? 89.0f : bounded;
    float shifted = bounded * 1.44269504088896341f + shift, n = shifted - shift;
    float r = bounded - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t whole = scalar_bits(shifted) - scalar_bits(shift) + 256;
    uint32_t half = whole / 2, rest = whole - half;
    return p * scalar_float((half - 1) << 23) * scalar_float((rest - 1) << 23);
}

/* log(x) = e ln 2 + log(m), with m in [sqrt(1/2), sqrt(2)). A denormal equals its bits times
 * 2^-149. Its bits are converted as an integer, because the processor may flush the float itself to
 * 0. */
static inline float scalar_log(float x)
{
    uint32_t given = scalar_bits(x);
    float scaled = (float)(int32_t)(given & 0x7fffffff);
    uint32_t bits = given < 0x00800000 ? scalar_bits(scaled) : given;
    int32_t bias = given < 0x00800000 ? 127 + 149 : 127;
    uint32_t above = bits - 0x3f3504f3; /* bits of sqrt(1/2) */
    int32_t exponent = ((int32_t)above >> 23) + 126 - bias + 1;
    float f = scalar_float((above & 0x007fffff) + 0x3f3504f3) - 1.0f, square = f * f;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float e = (float)exponent;
    float y = f + (e * -2.12194440e-4f + (p * f * square - 0.5f * square)) + e * 0.693359375f;
    y = given > 0x80000000 ? NAN : y; /* negative, or NaN with the sign bit */
    y = given >= 0x7f800000 && given < 0x80000000 ? x : y;
    return (given & 0x7fffffff) == 0 ? -INFINITY : y;
}

/* log(1 + x) for x in [0, 1]; corrected for the rounding error of 1 + x. */
static inline float scalar_log1p(float x)
{
    float sum = 1.0f + x;
    return scalar_log(sum) + (x - (sum - 1.0f)) / sum;
}

/* max(x, 0) + log(1 + exp(-|x|)) */
static inline float scalar_softplus(float x)
{
    return (x < 0.0f ? 0.0f : x) + scalar_log1p(scalar_exp(x < 0.0f ? x : -x));
}

/* For |x| <= 1, erf(x) = x + x p(x^2), with p fitted to relative error. Otherwise |erf(x)| = 1 -
 * exp(-q(|x|)), with q fitted to absolute error. From |x| = 4 on, the result is 1 or -1. */
static inline float scalar_erf(float x)
{
    const float square = x * x, bounded = fabsf(x) > 4.0f ? 4.0f : fabsf(x);
    float p = 7.853851275e-5f;
    p = p * square - 8.010190795e-4f;
    p = p * square + 5.188327283e-3f;
    p = p * square - 2.685381100e-2f;
    p = p * square + 1.128358543e-1f;
    p = p * square - 3.761262596e-1f;
    p = p * square + 1.283791661e-1f;
    float q = -1.855764422e-4f;
    q = q * bounded + 2.939630533e-3f;
    q = q * bounded - 2.180540934e-2f;
    q = q * bounded + 1.030375510e-1f;
    q = q * bounded + 6.382254958e-1f;
    q = q * bounded + 1.127040148f;
    q = q * bounded + 3.536904114e-4f;
    const float near = x + x * p, far = copysignf(1.0f - scalar_exp(-q), x);
    return fabsf(x) > 1.0f ? far : near;
}

/* 1 / (1 + exp(-x)) */
static inline float scalar_sigmoid(float x)
{
    return 1.0f / (1.0f + scalar_exp(-x));
}

#endif
