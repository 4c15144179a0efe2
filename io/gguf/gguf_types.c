/* Types of elements, and what the bytes of a block of a quantised type mean. A block becomes codes,
 * and a scale, and for some types a minimum, for each group of codes. Scales of the K types are
 * products, computed as ggml and the Python package gguf compute them. */
#include <string.h>

#include "io/gguf/gguf_impl.h"

static float half(const unsigned char *bytes)
{
    return (float)dtype_load(DTYPE_F16, bytes);
}

/* Unpacks 32 4-bit codes from 16 bytes: the low halves, then the high halves. Subtracts `zero`. */
static void unpack_nibbles(const unsigned char *bytes, int zero, uint8_t *out_codes)
{
    for (int i = 0; i < 16; i++) {
        out_codes[i] = (uint8_t)((bytes[i] & 15) - zero);
        out_codes[16 + i] = (uint8_t)((bytes[i] >> 4) - zero);
    }
}

/* Unpacks 32 5-bit codes: the low 4 bits as in unpack_nibbles, the fifth bits from `bits`.
 * Subtracts `zero`. */
static void unpack_fives(const unsigned char *bits, const unsigned char *bytes, int zero,
                         uint8_t *out_codes)
{
    unpack_nibbles(bytes, 0, out_codes);
    for (int i = 0; i < 32; i++)
        out_codes[i] = (uint8_t)((out_codes[i] | (bits[i / 8] >> i % 8 & 1) << 4) - zero);
}

static void unpack_q8_0(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    (void)minima;
    memcpy(scales, block, 2);
    memcpy(codes, block + 2, 32);
}

static void unpack_q4_0(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    (void)minima;
    memcpy(scales, block, 2);
    unpack_nibbles(block + 2, 8, codes);
}

static void unpack_q4_1(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    memcpy(scales, block, 2);
    memcpy(minima, block + 2, 2);
    unpack_nibbles(block + 4, 0, codes);
}

static void unpack_q5_0(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    (void)minima;
    memcpy(scales, block, 2);
    unpack_fives(block + 2, block + 6, 16, codes);
}

static void unpack_q5_1(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    memcpy(scales, block, 2);
    memcpy(minima, block + 2, 2);
    unpack_fives(block + 4, block + 8, 0, codes);
}

/* Scale and minimum of group g of 8, each of 6 bits, from the 12 bytes of Q4_K and Q5_K. Groups 4
 * to 7 have their low 4 bits in the last 4 bytes, and their high 2 bits above those of group g -
 * 4. */
static void unpack_sixes(const unsigned char *bytes, int g, int *out_scale, int *out_minimum)
{
    if (g < 4) {
        *out_scale = bytes[g] & 63;
        *out_minimum = bytes[g + 4] & 63;
    } else {
        *out_scale = (bytes[g + 4] & 15) | (bytes[g - 4] >> 6) << 4;
        *out_minimum = bytes[g + 4] >> 4 | (bytes[g] >> 6) << 4;
    }
}

/* 8 groups of 32 codes: two groups share 32 bytes. high: the fifth bits, or NULL. */
static void unpack_k(const unsigned char *block, const unsigned char *high,
                     const unsigned char *bytes, uint8_t *codes, void *scales, void *minima)
{
    const float scale = half(block), minimum = half(block + 2);
    for (int g = 0; g < 8; g++) {
        int units = 0, steps = 0;
        unpack_sixes(block + 4, g, &units, &steps);
        ((float *)scales)[g] = scale * (float)units;
        ((float *)minima)[g] = -(minimum * (float)steps);
        for (int i = 0; i < 32; i++) {
            int code = bytes[g / 2 * 32 + i] >> g % 2 * 4 & 15;
            if (high != NULL) code |= (high[i] >> g & 1) << 4;
            codes[g * 32 + i] = (uint8_t)code;
        }
    }
}

static void unpack_q4_k(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    unpack_k(block, NULL, block + 16, codes, scales, minima);
}

static void unpack_q5_k(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    unpack_k(block, block + 16, block + 48, codes, scales, minima);
}

/* Two halves of 128 codes. Each has 64 bytes with the low 4 bits, and 32 bytes with the high 2
 * bits. */
static void unpack_q6_k(const unsigned char *block, uint8_t *codes, void *scales, void *minima)
{
    const unsigned char *low = block, *high = block + 128;
    const float scale = half(block + 208);
    (void)minima;
    for (int i = 0; i < 256; i++) {
        const int n = i / 128, quarter = i % 128 / 32, j = i % 32;
        const int code = (low[n * 64 + quarter % 2 * 32 + j] >> quarter / 2 * 4 & 15) |
                         (high[n * 32 + j] >> quarter * 2 & 3) << 4;
        codes[i] = (uint8_t)(code - 32);
    }
    for (int g = 0; g < 16; g++) ((float *)scales)[g] = scale * (float)(signed char)block[192 + g];
}

/* Bits, signed, group, dtype of scales, offsets. */
static const grouping_t s4 = {4, true, 32, DTYPE_F16, GROUPING_NONE};
static const grouping_t s8 = {8, true, 32, DTYPE_F16, GROUPING_NONE};
static const grouping_t u4m = {4, false, 32, DTYPE_F16, GROUPING_MINIMA};
static const grouping_t u8m = {8, false, 32, DTYPE_F16, GROUPING_MINIMA};
static const grouping_t u4k = {4, false, 32, DTYPE_F32, GROUPING_MINIMA};
static const grouping_t u8k = {8, false, 32, DTYPE_F32, GROUPING_MINIMA};
static const grouping_t s8k = {8, true, 16, DTYPE_F32, GROUPING_NONE};

static const gguf_type_t types[] = {
    {0, "F32", 1, 4, DTYPE_F32, NULL, NULL},
    {1, "F16", 1, 2, DTYPE_F16, NULL, NULL},
    {2, "Q4_0", 32, 18, DTYPE_F32, unpack_q4_0, &s4},
    {3, "Q4_1", 32, 20, DTYPE_F32, unpack_q4_1, &u4m},
    {6, "Q5_0", 32, 22, DTYPE_F32, unpack_q5_0, &s8},
    {7, "Q5_1", 32, 24, DTYPE_F32, unpack_q5_1, &u8m},
    {8, "Q8_0", 32, 34, DTYPE_F32, unpack_q8_0, &s8},
    {9, "Q8_1", 32, 40, DTYPE_NONE, NULL, NULL},
    {10, "Q2_K", 256, 84, DTYPE_NONE, NULL, NULL},
    {11, "Q3_K", 256, 110, DTYPE_NONE, NULL, NULL},
    {12, "Q4_K", 256, 144, DTYPE_F32, unpack_q4_k, &u4k},
    {13, "Q5_K", 256, 176, DTYPE_F32, unpack_q5_k, &u8k},
    {14, "Q6_K", 256, 210, DTYPE_F32, unpack_q6_k, &s8k},
    {15, "Q8_K", 256, 292, DTYPE_NONE, NULL, NULL},
    {16, "IQ2_XXS", 256, 66, DTYPE_NONE, NULL, NULL},
    {17, "IQ2_XS", 256, 74, DTYPE_NONE, NULL, NULL},
    {18, "IQ3_XXS", 256, 98, DTYPE_NONE, NULL, NULL},
    {19, "IQ1_S", 256, 50, DTYPE_NONE, NULL, NULL},
    {20, "IQ4_NL", 32, 18, DTYPE_NONE, NULL, NULL},
    {21, "IQ3_S", 256, 110, DTYPE_NONE, NULL, NULL},
    {22, "IQ2_S", 256, 82, DTYPE_NONE, NULL, NULL},
    {23, "IQ4_XS", 256, 136, DTYPE_NONE, NULL, NULL},
    {24, "I8", 1, 1, DTYPE_S8, NULL, NULL},
    {25, "I16", 1, 2, DTYPE_S16, NULL, NULL},
    {26, "I32", 1, 4, DTYPE_S32, NULL, NULL},
    {27, "I64", 1, 8, DTYPE_S64, NULL, NULL},
    {28, "F64", 1, 8, DTYPE_F64, NULL, NULL},
    {29, "IQ1_M", 256, 56, DTYPE_NONE, NULL, NULL},
    {30, "BF16", 1, 2, DTYPE_BF16, NULL, NULL},
    {34, "TQ1_0", 256, 54, DTYPE_NONE, NULL, NULL},
    {35, "TQ2_0", 256, 66, DTYPE_NONE, NULL, NULL},
    {39, "MXFP4", 32, 17, DTYPE_NONE, NULL, NULL},
};

const gguf_type_t *gguf_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}
