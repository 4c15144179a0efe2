#include "tensor/dtype.h"

#include <string.h>

#include "tensor/status_impl.h"

/* ---- names and classes ---- */

typedef enum category { CATEGORY_NONE, CATEGORY_BOOL, SIGNED, UNSIGNED, FLOATING } category_t;

/* standing: type promotion of two dtypes results in the one with the higher standing. If two
 * different dtypes have equal standing, the result is a larger dtype: f32 for bf16 and f16, s16 for
 * s8 and u8. A dtype of standing 0 promotes only with floating-point dtypes. */
static const struct {
    const char *name;
    uint8_t size, standing;
    category_t category;
    double epsilon;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_NONE] = {"none", 0, 0, CATEGORY_NONE, 0.0},
    [DTYPE_BOOL] = {"bool", 1, 1, CATEGORY_BOOL, 0.0},
    [DTYPE_S8] = {"s8", 1, 2, SIGNED, 0.0},
    [DTYPE_U8] = {"u8", 1, 2, UNSIGNED, 0.0},
    [DTYPE_S16] = {"s16", 2, 3, SIGNED, 0.0},
    [DTYPE_U16] = {"u16", 2, 0, UNSIGNED, 0.0},
    [DTYPE_S32] = {"s32", 4, 4, SIGNED, 0.0},
    [DTYPE_U32] = {"u32", 4, 0, UNSIGNED, 0.0},
    [DTYPE_S64] = {"s64", 8, 5, SIGNED, 0.0},
    [DTYPE_U64] = {"u64", 8, 0, UNSIGNED, 0.0},
    [DTYPE_BF16] = {"bf16", 2, 6, FLOATING, 0x1p-8},
    [DTYPE_F16] = {"f16", 2, 6, FLOATING, 0x1p-11},
    [DTYPE_F32] = {"f32", 4, 7, FLOATING, 0x1p-24},
    [DTYPE_F64] = {"f64", 8, 8, FLOATING, 0x1p-53},
};

/* Maps invalid values to DTYPE_NONE. */
static inline dtype_t known(dtype_t dtype)
{
    return (unsigned)dtype < DTYPE_COUNT ? dtype : DTYPE_NONE;
}

size_t dtype_size(dtype_t dtype)
{
    return dtypes[known(dtype)].size;
}

const char *dtype_name(dtype_t dtype)
{
    return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

dtype_t dtype_parse(const char *name)
{
    for (int dtype = DTYPE_NONE + 1; name != NULL && dtype < DTYPE_COUNT; dtype++)
        if (strcmp(name, dtypes[dtype].name) == 0) return (dtype_t)dtype;
    return DTYPE_NONE;
}

bool dtype_is_floating(dtype_t dtype)
{
    return dtypes[known(dtype)].category == FLOATING;
}

bool dtype_is_integral(dtype_t dtype)
{
    const category_t category = dtypes[known(dtype)].category;
    return category == SIGNED || category == UNSIGNED;
}

bool dtype_is_unsigned(dtype_t dtype)
{
    return dtypes[known(dtype)].category == UNSIGNED;
}

dtype_t dtype_promote(dtype_t a, dtype_t b)
{
    const uint8_t standing_a = dtypes[known(a)].standing, standing_b = dtypes[known(b)].standing;
    if (known(a) != a || known(b) != b) return DTYPE_NONE;
    if (a == b) return a;
    bool is_floating = dtype_is_floating(a) || dtype_is_floating(b);
    if (!is_floating && (standing_a == 0 || standing_b == 0)) return DTYPE_NONE;
    if (standing_a == standing_b) return is_floating ? DTYPE_F32 : DTYPE_S16;
    return standing_a > standing_b ? a : b;
}

double dtype_epsilon(dtype_t dtype)
{
    return dtypes[known(dtype)].epsilon;
}

/* ---- one value, converted through f32 ---- */

typedef float f32_t;
typedef double f64_t;
typedef uint16_t bf16_t, f16_t;
typedef int8_t s8_t;
typedef uint8_t u8_t, b8_t; /* b8 stands for bool, which is a macro */
typedef int16_t s16_t;
typedef uint16_t u16_t;
typedef int32_t s32_t;
typedef uint32_t u32_t;
typedef int64_t s64_t;
typedef uint64_t u64_t;

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns condition ? yes : no. It has no branch, so the compiler can vectorise loops with it. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no)
{
    return no ^ ((yes ^ no) & (0u - condition));
}

/* Converts f16 denormals with integer arithmetic, so that the result is correct even if the CPU
 * flushes denormals. */
static inline float f32_of_f16(f16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, magnitude = x & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t special = (magnitude << 13) | 0x7f800000u;
    uint32_t denormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t finite = choose(magnitude < 0x0400, denormal, normal);
    return of_bits(sign | choose(magnitude < 0x7c00, finite, special));
}

/* Rounds to nearest even: adds 0x7fff, or 0x8000 if the last remaining bit is odd, then
 * truncates. */
static inline bf16_t bf16_of_f32(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40;
    return (bf16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* For numbers below 2^-14 (f16 denormals), adds 1/2: the last place of this sum is the smallest
 * f16, so the hardware rounds to a multiple of it. */
static inline f16_t f16_of_f32(float x)
{
    uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    uint32_t denormal = bits_of(of_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    uint32_t finite = choose(magnitude < 0x38800000, denormal, normal);
    uint32_t special = choose(magnitude > 0x7f800000, nan, 0x7c00);
    return (f16_t)((bits >> 16 & 0x8000) | choose(magnitude < 0x477ff000, finite, special));
}

/* As on x86 and in PyTorch, NaN and values out of range become INT64_MIN. */
static inline s64_t s64_of_f64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (s64_t)x : INT64_MIN;
}

/* Values below 2^63, or not below 2^64, are converted to s64; the result has the same bits. */
static inline u64_t u64_of_f64(double x)
{
    if (x >= 0x1p63 && x < 0x1p64) return (u64_t)x;
    return (u64_t)s64_of_f64(x);
}

/* Converts to f32 by rounding to odd: truncates, and sets the last bit if bits were lost. If the
 * result is then rounded to a narrower type, it is the same as if x had been rounded only once. */
static inline float f32_before_rounding(double x)
{
    const float nearest = (float)x;
    const double difference = (double)nearest - x;
    if (!(difference < 0.0) && !(difference > 0.0)) return nearest; /* exact, or NaN */
    const bool is_larger = x > 0.0 ? difference > 0.0 : difference < 0.0;
    return of_bits((bits_of(nearest) - (is_larger ? 1u : 0u)) | 1u);
}

/* Converts an integer to f64 by rounding to odd. Below 2^64, the last place of an f64 is at most
 * 2^11. */
static inline double f64_before_rounding(uint64_t magnitude)
{
    const uint64_t rest = magnitude & 0x7ff;
    if (magnitude >> 53 == 0) return (double)magnitude;
    return (double)((magnitude - rest) | (rest != 0 ? 0x800u : 0u));
}

static inline float f32_before_rounding_s64(s64_t x)
{
    const double magnitude = f64_before_rounding(x < 0 ? 0 - (uint64_t)x : (uint64_t)x);
    return f32_before_rounding(x < 0 ? -magnitude : magnitude);
}

static inline float f32_before_rounding_u64(u64_t x)
{
    return f32_before_rounding(f64_before_rounding(x));
}

static inline s32_t s32_of_f64(double x)
{
    return (s32_t)(x > -0x1p31 - 1.0 && x < 0x1p31 ? x : -0x1p31);
}

static inline s32_t s32_of_f32(float x)
{
    return (s32_t)(x >= -0x1p31f && x < 0x1p31f ? x : -0x1p31f);
}

/* clang-format off */
static inline float f32_of_f32(f32_t x) { return x; }
static inline float f32_of_f64(f64_t x) { return (float)x; }
static inline float f32_of_bf16(bf16_t x) { return of_bits((uint32_t)x << 16); }
static inline float f32_of_s8(s8_t x) { return (float)x; }
static inline float f32_of_u8(u8_t x) { return (float)x; }
static inline float f32_of_s16(s16_t x) { return (float)x; }
static inline float f32_of_u16(u16_t x) { return (float)x; }
static inline float f32_of_s32(s32_t x) { return (float)x; }
static inline float f32_of_u32(u32_t x) { return (float)x; }
static inline float f32_of_s64(s64_t x) { return (float)x; }
static inline float f32_of_u64(u64_t x) { return (float)x; }
static inline float f32_of_b8(b8_t x) { return x != 0 ? 1.0f : 0.0f; }

static inline f64_t f64_of_f32(float x) { return x; }
static inline s8_t s8_of_f32(float x) { return (s8_t)s32_of_f32(x); }
static inline u8_t u8_of_f32(float x) { return (u8_t)s32_of_f32(x); }
static inline s16_t s16_of_f32(float x) { return (s16_t)s32_of_f32(x); }
static inline u16_t u16_of_f32(float x) { return (u16_t)s32_of_f32(x); }
static inline u32_t u32_of_f32(float x) { return (u32_t)s64_of_f64(x); }
static inline u64_t u64_of_f32(float x) { return u64_of_f64(x); }
static inline s64_t s64_of_f32(float x) { return s64_of_f64(x); }
static inline b8_t b8_of_f32(float x) { return (bits_of(x) & 0x7fffffff) != 0; }
/* clang-format on */

typedef union scalar {
    f32_t f32;
    f64_t f64;
    bf16_t bf16;
    f16_t f16;
    s8_t s8;
    u8_t u8;
    s16_t s16;
    u16_t u16;
    s32_t s32;
    u32_t u32;
    s64_t s64;
    u64_t u64;
    b8_t b8;
} scalar_t;

/* These use memcpy, because an element may be unaligned, or have another type in the caller's
 * code. */
#define LOAD(type) (memcpy(&scalar.type, element, sizeof scalar.type), scalar.type)
#define STORE(type, expr) (scalar.type = (expr), (void)memcpy(element, &scalar, sizeof scalar.type))

double dtype_load(dtype_t dtype, const void *element)
{
    scalar_t scalar;
    if (element == NULL) return 0;
    switch (dtype) {
    case DTYPE_F64: return LOAD(f64);
    case DTYPE_F32: return LOAD(f32);
    case DTYPE_BF16: return f32_of_bf16(LOAD(bf16));
    case DTYPE_F16: return f32_of_f16(LOAD(f16));
    case DTYPE_U64: return (double)LOAD(u64);
    default: return (double)dtype_load_integer(dtype, element);
    }
}

int64_t dtype_load_integer(dtype_t dtype, const void *element)
{
    scalar_t scalar;
    if (element == NULL) return 0;
    switch (dtype) {
    case DTYPE_S8: return LOAD(s8);
    case DTYPE_U8: return LOAD(u8);
    case DTYPE_S16: return LOAD(s16);
    case DTYPE_U16: return LOAD(u16);
    case DTYPE_S32: return LOAD(s32);
    case DTYPE_U32: return LOAD(u32);
    case DTYPE_S64: return LOAD(s64);
    case DTYPE_U64: return (int64_t)LOAD(u64);
    case DTYPE_BOOL: return LOAD(b8) != 0;
    case DTYPE_NONE:
    case DTYPE_COUNT: return 0;
    case DTYPE_F32:
    case DTYPE_F64:
    case DTYPE_BF16:
    case DTYPE_F16: return s64_of_f64(dtype_load(dtype, element));
    }
    return 0;
}

void dtype_store(dtype_t dtype, void *element, double value)
{
    scalar_t scalar;
    if (element == NULL) return;
    switch (dtype) {
    case DTYPE_F64: STORE(f64, value); return;
    case DTYPE_F32: STORE(f32, f32_of_f64(value)); return;
    case DTYPE_BF16: STORE(bf16, bf16_of_f32(f32_before_rounding(value))); return;
    case DTYPE_F16: STORE(f16, f16_of_f32(f32_before_rounding(value))); return;
    case DTYPE_S8: STORE(s8, (s8_t)s32_of_f64(value)); return;
    case DTYPE_U8: STORE(u8, (u8_t)s32_of_f64(value)); return;
    case DTYPE_S16: STORE(s16, (s16_t)s32_of_f64(value)); return;
    case DTYPE_U16: STORE(u16, (u16_t)s32_of_f64(value)); return;
    case DTYPE_S32: STORE(s32, s32_of_f64(value)); return;
    case DTYPE_U32: STORE(u32, (u32_t)s64_of_f64(value)); return;
    case DTYPE_U64: STORE(u64, u64_of_f64(value)); return;
    case DTYPE_BOOL: STORE(b8, value != 0.0); return;
    default: dtype_store_integer(dtype, element, s64_of_f64(value)); return;
    }
}

void dtype_store_integer(dtype_t dtype, void *element, int64_t value)
{
    scalar_t scalar;
    if (element == NULL) return;
    switch (dtype) {
    case DTYPE_S8: STORE(s8, (s8_t)value); return;
    case DTYPE_U8: STORE(u8, (u8_t)value); return;
    case DTYPE_S16: STORE(s16, (s16_t)value); return;
    case DTYPE_U16: STORE(u16, (u16_t)value); return;
    case DTYPE_S32: STORE(s32, (s32_t)value); return;
    case DTYPE_U32: STORE(u32, (u32_t)value); return;
    case DTYPE_S64: STORE(s64, value); return;
    case DTYPE_U64: STORE(u64, (u64_t)value); return;
    case DTYPE_BOOL: STORE(b8, value != 0); return;
    case DTYPE_F64: STORE(f64, (f64_t)value); return;
    case DTYPE_F32: STORE(f32, f32_of_s64(value)); return;
    case DTYPE_BF16: STORE(bf16, bf16_of_f32(f32_before_rounding_s64(value))); return;
    case DTYPE_F16: STORE(f16, f16_of_f32(f32_before_rounding_s64(value))); return;
    case DTYPE_NONE:
    case DTYPE_COUNT: return;
    }
}

/* ---- many values ---- */

/* Casts from or to f32, and casts between two floating-point types of which one is bf16 or f16,
 * convert by way of f32, which does not round twice. Each such cast has a loop that the compiler
 * vectorises if source and destination are contiguous. Other casts convert element by element. */
typedef void (*cast_t)(int64_t n, const void *src, int64_t ss, void *dst, int64_t ds);

/* clang-format off */
#define CAST_LOOP(from, to, widen, ss, ds)                                                         \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((to##_t *)dst)[i * (ds)] = to##_of_f32(widen(((const from##_t *)src)[i * (ss)]))

#define CAST_BY(from, to, widen)                                                                   \
    static void cast_##from##_##to(int64_t n, const void *restrict src, int64_t ss,                \
                                   void *restrict dst, int64_t ds)                                 \
    {                                                                                              \
        if (ss == 1 && ds == 1) CAST_LOOP(from, to, widen, 1, 1);                                  \
        else CAST_LOOP(from, to, widen, ss, ds);                                                   \
    }
#define CAST(from, to) CAST_BY(from, to, f32_of_##from)

/* Casts between integers, without f32. */
#define WHOLE_LOOP(from, to, ss, ds)                                                               \
    for (int64_t i = 0; i < n; i++) ((to##_t *)dst)[i * (ds)] = (to##_t)((const from##_t *)src)[i * (ss)]

#define CAST_WHOLE(from, to)                                                                       \
    static void cast_##from##_##to(int64_t n, const void *restrict src, int64_t ss,                \
                                   void *restrict dst, int64_t ds)                                 \
    { if (ss == 1 && ds == 1) WHOLE_LOOP(from, to, 1, 1); else WHOLE_LOOP(from, to, ss, ds); }

CAST_WHOLE(s8, s64)
CAST_WHOLE(u8, s64)
CAST_WHOLE(s32, s64)
CAST_WHOLE(s64, s32)
CAST(f32, f64)
CAST(f32, bf16)
CAST(f32, f16)
CAST(f32, s8)
CAST(f32, u8)
CAST(f32, s16)
CAST(f32, u16)
CAST(f32, s32)
CAST(f32, u32)
CAST(f32, s64)
CAST(f32, u64)
CAST(f32, b8)
CAST(f64, f32)
CAST_BY(f64, bf16, f32_before_rounding)
CAST_BY(f64, f16, f32_before_rounding)
CAST(bf16, f32)
CAST(bf16, f64)
CAST(bf16, f16)
CAST(f16, f32)
CAST(f16, f64)
CAST(f16, bf16)
CAST(s8, f32)
CAST(u8, f32)
CAST(s16, f32)
CAST(u16, f32)
CAST(s32, f32)
CAST(u32, f32)
CAST(s64, f32)
CAST(u64, f32)
CAST_BY(u64, bf16, f32_before_rounding_u64)
CAST_BY(u64, f16, f32_before_rounding_u64)
CAST(b8, f32)
/* clang-format on */

static const cast_t casts[DTYPE_COUNT][DTYPE_COUNT] = {
    [DTYPE_F32] = {[DTYPE_F64] = cast_f32_f64,
                   [DTYPE_BF16] = cast_f32_bf16,
                   [DTYPE_F16] = cast_f32_f16,
                   [DTYPE_S8] = cast_f32_s8,
                   [DTYPE_U8] = cast_f32_u8,
                   [DTYPE_S16] = cast_f32_s16,
                   [DTYPE_U16] = cast_f32_u16,
                   [DTYPE_S32] = cast_f32_s32,
                   [DTYPE_U32] = cast_f32_u32,
                   [DTYPE_S64] = cast_f32_s64,
                   [DTYPE_U64] = cast_f32_u64,
                   [DTYPE_BOOL] = cast_f32_b8},
    [DTYPE_F64] =
        {[DTYPE_F32] = cast_f64_f32, [DTYPE_BF16] = cast_f64_bf16, [DTYPE_F16] = cast_f64_f16},
    [DTYPE_BF16] =
        {[DTYPE_F32] = cast_bf16_f32, [DTYPE_F64] = cast_bf16_f64, [DTYPE_F16] = cast_bf16_f16},
    [DTYPE_F16] =
        {[DTYPE_F32] = cast_f16_f32, [DTYPE_F64] = cast_f16_f64, [DTYPE_BF16] = cast_f16_bf16},
    [DTYPE_S8] = {[DTYPE_F32] = cast_s8_f32, [DTYPE_S64] = cast_s8_s64},
    [DTYPE_U8] = {[DTYPE_F32] = cast_u8_f32, [DTYPE_S64] = cast_u8_s64},
    [DTYPE_S16] = {[DTYPE_F32] = cast_s16_f32},
    [DTYPE_U16] = {[DTYPE_F32] = cast_u16_f32},
    [DTYPE_S32] = {[DTYPE_F32] = cast_s32_f32, [DTYPE_S64] = cast_s32_s64},
    [DTYPE_U32] = {[DTYPE_F32] = cast_u32_f32},
    [DTYPE_S64] = {[DTYPE_F32] = cast_s64_f32, [DTYPE_S32] = cast_s64_s32},
    [DTYPE_U64] =
        {[DTYPE_F32] = cast_u64_f32, [DTYPE_BF16] = cast_u64_bf16, [DTYPE_F16] = cast_u64_f16},
    [DTYPE_BOOL] = {[DTYPE_F32] = cast_b8_f32},
};

#define COPY_LOOP(size)                                                                            \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * ds * (size), from + i * ss * (size), (size))

/* Copies elements unchanged. With a constant element size, memcpy compiles to moves. */
static void copy(int64_t n, size_t size, const char *restrict from, int64_t ss, char *restrict to,
                 int64_t ds)
{
    if (ss == 1 && ds == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY_LOOP(1); return;
    case 2: COPY_LOOP(2); return;
    case 4: COPY_LOOP(4); return;
    default: COPY_LOOP(8); return;
    }
}

void dtype_cast(int64_t n, dtype_t src_dtype, const void *src, int64_t src_stride,
                dtype_t dst_dtype, void *dst, int64_t dst_stride)
{
    if (n <= 0 || src == NULL || dst == NULL) return;
    if (known(src_dtype) != src_dtype || known(dst_dtype) != dst_dtype) return;
    if (src_dtype == dst_dtype) {
        copy(n, dtype_size(src_dtype), src, src_stride, dst, dst_stride);
        return;
    }
    if (casts[src_dtype][dst_dtype] != NULL) {
        casts[src_dtype][dst_dtype](n, src, src_stride, dst, dst_stride);
        return;
    }
    const char *from = src;
    char *to = dst;
    int64_t src_step = src_stride * (int64_t)dtype_size(src_dtype);
    int64_t dst_step = dst_stride * (int64_t)dtype_size(dst_dtype);
    bool is_u64 = src_dtype == DTYPE_U64; /* as int64_t it may be negative */
    if (dtype_is_floating(src_dtype) || (is_u64 && dtype_is_floating(dst_dtype))) {
        for (int64_t i = 0; i < n; i++, from += src_step, to += dst_step)
            dtype_store(dst_dtype, to, dtype_load(src_dtype, from));
    } else {
        for (int64_t i = 0; i < n; i++, from += src_step, to += dst_step)
            dtype_store_integer(dst_dtype, to, dtype_load_integer(src_dtype, from));
    }
}
