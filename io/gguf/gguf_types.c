/* Types of elements, and what the bytes of a block of a quantised type mean. The arithmetic is that
 * of ggml and of the Python package gguf, operation by operation, so that the numbers are equal. */
#include <string.h>

#include "io/gguf/gguf_impl.h"

static float half(const unsigned char *bytes)
{
    return (float)dtype_load(DTYPE_F16, bytes);
}

/* 32 codes of 4 bits in 16 bytes: the low halves, then the high halves. */
static void unpack_nibbles(const unsigned char *bytes, int *out_codes)
{
    for (int i = 0; i < 16; i++) {
        out_codes[i] = bytes[i] & 15;
        out_codes[16 + i] = bytes[i] >> 4;
    }
}

/* Adds a fifth bit to each of 32 codes. */
static void add_fifth_bits(const unsigned char *bits, int *codes)
{
    for (int i = 0; i < 32; i++) codes[i] |= (bits[i / 8] >> i % 8 & 1) << 4;
}

static void widen_q8_0(const unsigned char *block, float *out)
{
    const float scale = half(block);
    for (int i = 0; i < 32; i++) out[i] = scale * (float)(signed char)block[2 + i];
}

static void widen_q4_0(const unsigned char *block, float *out)
{
    int codes[32];
    const float scale = half(block);
    unpack_nibbles(block + 2, codes);
    for (int i = 0; i < 32; i++) out[i] = scale * (float)(codes[i] - 8);
}

static void widen_q4_1(const unsigned char *block, float *out)
{
    int codes[32];
    const float scale = half(block), minimum = half(block + 2);
    unpack_nibbles(block + 4, codes);
    for (int i = 0; i < 32; i++) out[i] = scale * (float)codes[i] + minimum;
}

static void widen_q5_0(const unsigned char *block, float *out)
{
    int codes[32];
    const float scale = half(block);
    unpack_nibbles(block + 6, codes);
    add_fifth_bits(block + 2, codes);
    for (int i = 0; i < 32; i++) out[i] = scale * (float)(codes[i] - 16);
}

static void widen_q5_1(const unsigned char *block, float *out)
{
    int codes[32];
    const float scale = half(block), minimum = half(block + 2);
    unpack_nibbles(block + 8, codes);
    add_fifth_bits(block + 4, codes);
    for (int i = 0; i < 32; i++) out[i] = scale * (float)codes[i] + minimum;
}

/* Scale and minimum of group g of 8, each of 6 bits, from the 12 bytes of Q4_K and Q5_K. Groups 4
 * to 7 have their low 4 bits in the last 4 bytes, and their high 2 bits above those of group g -
 * 4. */
static void unpack_scales(const unsigned char *bytes, int g, int *out_scale, int *out_minimum)
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
static void widen_k(const unsigned char *block, const unsigned char *high,
                    const unsigned char *codes, float *out)
{
    const float scale = half(block), minimum = half(block + 2);
    for (int g = 0; g < 8; g++) {
        int units = 0, steps = 0;
        unpack_scales(block + 4, g, &units, &steps);
        const float of_group = scale * (float)units, least = minimum * (float)steps;
        for (int i = 0; i < 32; i++) {
            int code = codes[g / 2 * 32 + i] >> g % 2 * 4 & 15;
            if (high != NULL) code |= (high[i] >> g & 1) << 4;
            out[g * 32 + i] = of_group * (float)code - least;
        }
    }
}

static void widen_q4_k(const unsigned char *block, float *out)
{
    widen_k(block, NULL, block + 16, out);
}

static void widen_q5_k(const unsigned char *block, float *out)
{
    widen_k(block, block + 16, block + 48, out);
}

/* Two halves of 128 codes. Each has 64 bytes with the low 4 bits, and 32 bytes with the high 2
 * bits. */
static void widen_q6_k(const unsigned char *block, float *out)
{
    const unsigned char *low = block, *high = block + 128, *scales = block + 192;
    const float scale = half(block + 208);
    for (int i = 0; i < 256; i++) {
        const int n = i / 128, quarter = i % 128 / 32, j = i % 32;
        const int code = (low[n * 64 + quarter % 2 * 32 + j] >> quarter / 2 * 4 & 15) |
                         (high[n * 32 + j] >> quarter * 2 & 3) << 4;
        out[i] = scale * (float)(signed char)scales[i / 16] * (float)(code - 32);
    }
}

static const gguf_type_t types[] = {
    {0, "F32", 1, 4, DTYPE_F32, NULL},
    {1, "F16", 1, 2, DTYPE_F16, NULL},
    {2, "Q4_0", 32, 18, DTYPE_F32, widen_q4_0},
    {3, "Q4_1", 32, 20, DTYPE_F32, widen_q4_1},
    {6, "Q5_0", 32, 22, DTYPE_F32, widen_q5_0},
    {7, "Q5_1", 32, 24, DTYPE_F32, widen_q5_1},
    {8, "Q8_0", 32, 34, DTYPE_F32, widen_q8_0},
    {9, "Q8_1", 32, 40, DTYPE_NONE, NULL},
    {10, "Q2_K", 256, 84, DTYPE_NONE, NULL},
    {11, "Q3_K", 256, 110, DTYPE_NONE, NULL},
    {12, "Q4_K", 256, 144, DTYPE_F32, widen_q4_k},
    {13, "Q5_K", 256, 176, DTYPE_F32, widen_q5_k},
    {14, "Q6_K", 256, 210, DTYPE_F32, widen_q6_k},
    {15, "Q8_K", 256, 292, DTYPE_NONE, NULL},
    {16, "IQ2_XXS", 256, 66, DTYPE_NONE, NULL},
    {17, "IQ2_XS", 256, 74, DTYPE_NONE, NULL},
    {18, "IQ3_XXS", 256, 98, DTYPE_NONE, NULL},
    {19, "IQ1_S", 256, 50, DTYPE_NONE, NULL},
    {20, "IQ4_NL", 32, 18, DTYPE_NONE, NULL},
    {21, "IQ3_S", 256, 110, DTYPE_NONE, NULL},
    {22, "IQ2_S", 256, 82, DTYPE_NONE, NULL},
    {23, "IQ4_XS", 256, 136, DTYPE_NONE, NULL},
    {24, "I8", 1, 1, DTYPE_S8, NULL},
    {25, "I16", 1, 2, DTYPE_S16, NULL},
    {26, "I32", 1, 4, DTYPE_S32, NULL},
    {27, "I64", 1, 8, DTYPE_S64, NULL},
    {28, "F64", 1, 8, DTYPE_F64, NULL},
    {29, "IQ1_M", 256, 56, DTYPE_NONE, NULL},
    {30, "BF16", 1, 2, DTYPE_BF16, NULL},
    {34, "TQ1_0", 256, 54, DTYPE_NONE, NULL},
    {35, "TQ2_0", 256, 66, DTYPE_NONE, NULL},
    {39, "MXFP4", 32, 17, DTYPE_NONE, NULL},
};

const gguf_type_t *gguf_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) return &types[i];
    return NULL;
}
