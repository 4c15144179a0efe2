/* Mathematical functions of vectors. NaN stays NaN. */
#ifndef TESSERA_KERNELS_VECTOR_FUNCTIONS_IMPL_H
#define TESSERA_KERNELS_VECTOR_FUNCTIONS_IMPL_H

#include "kernels/vector_impl.h"

/* exp(x) = 2^n exp(r), where n is the integer nearest to x / ln 2. Adding 1.5 * 2^23 + 127 rounds
 * to n and leaves the exponent bits of 2^n in the low bits. Below -87 the result is 1e-38, from
 * 88.4 on infinity. */
KERNEL_INLINE vector_t vector_exp(vector_t x)
{
    const vector_t zero = {0};
    const vector_t t = vector_min(zero + 89.0f, vector_max(zero - 87.0f, x));
    const vector_t shifted = t * 1.44269504088896341f + 12583039.0f, n = shifted - 12583039.0f;
    const vector_t r = t - n * 0.693359375f - n * -2.12194440e-4f;
    vector_t p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const vector_u32_t power = (vector_u32_t)shifted << 23;
    return p * (vector_t)power;
}

/* 1 / (1 + exp(-x)). Error: at most 4 units in the last place; below -88.4 the result is 0. */
KERNEL_INLINE vector_t vector_sigmoid(vector_t x)
{
    return 1.0f / (1.0f + vector_exp(-x));
}

/* gelu(x) = x / 2 (1 + erf(x / sqrt(2))). erf(x / sqrt(2)) is approximated as x (a + p(x^2) /
 * q(x^2)), with x clamped to 5.9. At 5.9 the approximation exceeds 1; clamping it to 1 makes gelu
 * of large negative x exactly 0. For large x, the constant a is near the total factor, so p is
 * small and adds little rounding error. It also makes a fourth power in p unnecessary. Even and odd
 * powers are summed separately, which rounds less. */
KERNEL_INLINE vector_t vector_gelu(vector_t x)
{
    const vector_t zero = {0}, one = zero + 1.0f, limit = zero + 5.9f;
    const vector_t t = vector_min(limit, vector_max(-limit, x)), s = t * t, w = s * s;
    vector_t p = w * -1.57730554e-7f + 1.44780661e-5f;
    vector_t q = w * 1.1796543e-6f + 1.88551552e-3f;
    p = p * w + 2.46866979e-2f;
    q = q * w + 2.51714766e-1f;
    const vector_t p_even = w * 4.43616835e-3f + 6.26372576e-1f;
    const vector_t q_even = (w * 7.33455381e-5f + 2.86777653e-2f) * w + 1.0f;
    p = p * s + p_even;
    q = q * s + q_even;
    const vector_t erf = t * (p / q + 1.71512008e-1f);
    return 0.5f * x * (1.0f + vector_min(one, vector_max(-one, erf)));
}

/* tanh(x) = p / q. Returns p = x P(x^2) and sets *under to q = Q(x^2). |x| is clamped to 7.9, where
 * tanh rounds to 1. Error: at most 4 units in the last place. */
KERNEL_INLINE vector_t vector_tanh_parts(vector_t x, vector_t *under)
{
    const vector_t zero = {0}, limit = zero + 7.90531110763549805f;
    const vector_t t = vector_min(limit, vector_max(-limit, x)), s = t * t;
    vector_t p = s * -2.76076847742355e-16f + 2.00018790482477e-13f;
    p = p * s - 8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    vector_t q = s * 1.19825839466702e-06f + 1.18534705686654e-04f;
    q = q * s + 2.26843463243900e-03f;
    *under = q * s + 4.89352518554385e-03f;
    return t * p;
}

KERNEL_INLINE vector_t vector_tanh(vector_t x)
{
    vector_t under;
    const vector_t over = vector_tanh_parts(x, &under);
    return over / under;
}

/* x sigmoid(y), and tanh(x) sigmoid(y), with one division each, because divisions are slow. */
KERNEL_INLINE vector_t vector_by_sigmoid(vector_t x, vector_t y)
{
    return x / (1.0f + vector_exp(-y));
}

KERNEL_INLINE vector_t vector_tanh_by_sigmoid(vector_t x, vector_t y)
{
    vector_t under;
    const vector_t over = vector_tanh_parts(x, &under);
    return over / (under * (1.0f + vector_exp(-y)));
}

#endif
