/* Floating-point numbers ("reals") in size calculations. Operations on constants are computed at
 * once; each operation rounds to its type. If H is small enough for the floating-point calculation
 * to be exact, rounding it to an integer becomes an integer expression: floor(f32(H)*2.0) is 2*H,
 * floor(f32(H)/3.0) is H/3. */
#include <math.h>
#include <string.h>

#include "tensor/sym/sym_impl.h"

double sym_real_calculated(sym_kind_t kind, sym_real_t type, double a, double b)
{
    double result = 0.0;
    const float fa = (float)a, fb = (float)b;
    const bool is_f32 = type == SYM_F32;
    switch (kind) {
    case SYM_ARITHMETIC_ADD: result = is_f32 ? (double)(fa + fb) : a + b; break;
    case SYM_ARITHMETIC_SUBTRACT: result = is_f32 ? (double)(fa - fb) : a - b; break;
    case SYM_ARITHMETIC_MULTIPLY: result = is_f32 ? (double)(fa * fb) : a * b; break;
    default: result = is_f32 ? (double)(fa / fb) : a / b; break;
    }
    return result;
}

bool sym_real_rounded(sym_rounding_t rounding, double real, int64_t *out_value)
{
    const double below = floor(real), over = real - below;
    double value = below;
    switch (rounding) {
    case SYM_FLOOR: break;
    case SYM_CEIL: value = ceil(real); break;
    case SYM_TRUNCATE: value = trunc(real); break;
    case SYM_HALF_EVEN:
        if (over > 0.5 || (over == 0.5 && fmod(below, 2.0) != 0.0)) value = below + 1.0;
        break;
    case SYM_HALF_UP:
        if (over >= 0.5) value = below + 1.0;
        break;
    default:
        if (over > 0.5) value = below + 1.0;
        break;
    }
    if (!(fabs(value) < 0x1p62)) return false;
    *out_value = (int64_t)value;
    return true;
}

int64_t sym_real_number(sym_space_t *space, sym_real_t type, double number)
{
    int64_t bits;
    if (type == SYM_F32) number = (double)(float)number;
    memcpy(&bits, &number, sizeof bits);
    const sym_node_t *node = sym_intern(space, SYM_REAL, (int)type, 1, &bits);
    return node != NULL ? node->handle : SYM_NONE;
}

int64_t sym_made_real(sym_space_t *space, sym_real_t type, int64_t a)
{
    if (a == SYM_NONE) return SYM_NONE;
    if (!sym_is(a))
        return sym_real_number(space, type, type == SYM_F32 ? (double)(float)a : (double)a);
    const sym_node_t *node = sym_find(space, a);
    if (node->kind == SYM_REAL) return sym_real_number(space, type, node->hint.real);
    if (node->kind > SYM_REAL && node->part == (uint8_t)type) return a;
    node = sym_intern(space, SYM_TO_REAL, (int)type, 1, &a);
    return node != NULL ? node->handle : SYM_NONE;
}

int64_t sym_arithmetic(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b)
{
    const int64_t operands[2] = {a, b};
    if (a == SYM_NONE || b == SYM_NONE) return SYM_NONE;
    const sym_node_t *left = sym_find(space, a), *right = sym_find(space, b);
    const bool is_scaling = kind == SYM_ARITHMETIC_MULTIPLY || kind == SYM_ARITHMETIC_DIVIDE;
    if (left->kind == SYM_REAL && right->kind == SYM_REAL)
        return sym_real_number(
            space, (sym_real_t)left->part,
            sym_real_calculated(kind, (sym_real_t)left->part, left->hint.real, right->hint.real));
    if (is_scaling && right->kind == SYM_REAL && right->hint.real == 1.0) return a;
    if (kind == SYM_ARITHMETIC_MULTIPLY && left->kind == SYM_REAL && left->hint.real == 1.0)
        return b;
    const sym_node_t *node = sym_intern(space, kind, left->part, 2, operands);
    return node != NULL ? node->handle : SYM_NONE;
}

/* ---- ranges ---- */

static void range_of_arithmetic(const sym_space_t *space, sym_node_t *node)
{
    const sym_node_t *a = sym_find(space, node->operands[0]),
                     *b = sym_find(space, node->operands[1]);
    const double ends_a[2] = {a->real_min, a->real_max}, ends_b[2] = {b->real_min, b->real_max};
    const bool may_divide_by_0 = node->kind == SYM_ARITHMETIC_DIVIDE && b->real_min <= 0.0 &&
                                 b->real_max >= 0.0;
    double low = INFINITY, high = -INFINITY;
    bool is_nan = may_divide_by_0;
    for (int i = 0; i < 4; i++) {
        const double end = sym_real_calculated((sym_kind_t)node->kind, (sym_real_t)node->part,
                                               ends_a[i / 2], ends_b[i % 2]);
        is_nan = is_nan || isnan(end);
        low = end < low ? end : low;
        high = end > high ? end : high;
    }
    node->real_min = is_nan ? -INFINITY : low;
    node->real_max = is_nan ? INFINITY : high;
}

/* Computes the range of a real. Each operation, with its rounding, is monotonic in its operands, so
 * the ends of the result's range are among the results for the ends of the operands' ranges. */
void sym_real_range(sym_space_t *space, sym_node_t *node)
{
    if (node->known_stamp == space->stamp) return;
    node->known_stamp = space->stamp;
    if (node->kind == SYM_REAL) {
        node->real_min = node->real_max = node->hint.real;
        if (isnan(node->hint.real)) {
            node->real_min = -INFINITY;
            node->real_max = INFINITY;
        }
        return;
    }
    for (int i = 0; i < node->n; i++)
        if (!sym_is_integer(space, node->operands[i]))
            sym_real_range(space, sym_find(space, node->operands[i]));
    if (node->kind != SYM_TO_REAL) {
        range_of_arithmetic(space, node);
        return;
    }
    const int64_t a = node->operands[0];
    if (sym_is_integer(space, a)) {
        const sym_known_t known = sym_know(space, a);
        node->real_min = known.min <= SYM_LOWEST ? -INFINITY : (double)known.min;
        node->real_max = known.max >= SYM_HIGHEST ? INFINITY : (double)known.max;
    } else {
        node->real_min = sym_find(space, a)->real_min;
        node->real_max = sym_find(space, a)->real_max;
    }
    if (node->part == SYM_F32) {
        node->real_min = (double)(float)node->real_min;
        node->real_max = (double)(float)node->real_max;
    }
}

/* ---- rounding to integer expressions ---- */

/* A real that, before any rounding, is integer * factor / divisor. is_exact: no operation has
 * rounded it. */
typedef struct ratio {
    int64_t integer, factor, divisor, bound; /* valid for integers up to bound */
    bool is_exact;
} ratio_t;

/* The largest n such that the type can represent all integers up to n. */
static int64_t largest_exact(int type)
{
    return type == SYM_F32 ? 1 << 24 : INT64_C(1) << 53;
}

/* True if the number is a positive integer of at most 65536. */
static bool is_whole(double number, int64_t *out_whole)
{
    if (!(number >= 1.0 && number <= 65536.0 && floor(number) == number)) return false;
    *out_whole = (int64_t)number;
    return true;
}

/* Reads f32(H) multiplied or divided by constants. Products below 2^24 and divisions by powers of 2
 * are exact. A quotient by another number is rounded, but below 2^23 never to the next integer. */
static bool read_ratio(const sym_space_t *space, const sym_node_t *node, ratio_t *out)
{
    int64_t whole = 1;
    if (node->kind == SYM_TO_REAL && sym_is_integer(space, node->operands[0])) {
        *out = (ratio_t){node->operands[0], 1, 1, largest_exact(node->part), true};
        return true;
    }
    if (node->kind != SYM_ARITHMETIC_MULTIPLY && node->kind != SYM_ARITHMETIC_DIVIDE) return false;
    const sym_node_t *a = sym_find(space, node->operands[0]),
                     *b = sym_find(space, node->operands[1]);
    bool divides = node->kind == SYM_ARITHMETIC_DIVIDE;
    if (!divides && a->kind == SYM_REAL) {
        const sym_node_t *swap = a;
        a = b;
        b = swap;
    }
    if (b->kind != SYM_REAL || !read_ratio(space, a, out) || !out->is_exact) return false;
    if (!is_whole(b->hint.real, &whole)) {
        if (!is_whole(1.0 / b->hint.real, &whole) || (whole & (whole - 1)) != 0) return false;
        divides = !divides;
    }
    if (divides) {
        out->is_exact = (whole & (whole - 1)) == 0;
        out->divisor *= whole;
        if (!out->is_exact) out->bound /= 2;
    } else {
        out->factor *= whole;
        out->bound /= whole;
    }
    return out->divisor <= 65536 && out->factor <= 65536 && out->bound > 0;
}

/* Makes the integer expression of a rounded ratio: ceil(x) is -floor(-x), rounding to nearest is
 * floor(x + 1/2). */
static int64_t round_ratio(sym_space_t *space, sym_rounding_t rounding, const ratio_t *ratio)
{
    sym_poly_t poly;
    int64_t divisor = ratio->divisor;
    const int64_t sign = rounding == SYM_CEIL || rounding == SYM_HALF_DOWN ? -1 : 1;
    const bool is_half = rounding == SYM_HALF_UP || rounding == SYM_HALF_DOWN;
    if (!sym_load(space, ratio->integer, &poly) ||
        !sym_poly_scale(&poly, sign * ratio->factor * (is_half ? 2 : 1), 1))
        return SYM_NONE;
    if (is_half) {
        poly.constant += divisor * poly.denominator;
        divisor *= 2;
    }
    const int64_t numerator = sym_store(space, &poly);
    const int64_t quotient = numerator != SYM_NONE ? sym_quotient(space, numerator, divisor)
                                                   : SYM_NONE;
    return sign < 0 ? sym_sum(space, 0, -1, quotient) : quotient;
}

/* True if ratio->integer <= ratio->bound is proven; or if `guards` is set and it is true for the
 * hints, in which case it becomes a guard. */
static bool is_bounded(sym_space_t *space, const ratio_t *ratio, bool guards)
{
    const sym_known_t known = sym_know(space, ratio->integer);
    if (known.min < 0) return false;
    if (known.max <= ratio->bound) return true;
    const sym_node_t *node = sym_is(ratio->integer) ? sym_find(space, ratio->integer) : NULL;
    if (!guards || node == NULL || !node->has_hint || node->hint.integer > ratio->bound)
        return false;
    return sym_decide(space, SYM_NOT_NEGATIVE, sym_sum(space, ratio->bound, -1, ratio->integer));
}

int64_t sym_rounded(sym_space_t *space, sym_rounding_t rounding, int64_t real, bool guards)
{
    ratio_t ratio;
    if (real == SYM_NONE) return SYM_NONE;
    const sym_node_t *node = sym_find(space, real);
    if (node->kind == SYM_REAL) {
        int64_t value;
        return sym_real_rounded(rounding, node->hint.real, &value) ? value : SYM_NONE;
    }
    const bool is_ratio = read_ratio(space, node, &ratio);
    const bool is_whole_ratio = is_ratio && ratio.divisor == 1;
    const bool is_possible = is_ratio && (is_whole_ratio || rounding == SYM_FLOOR ||
                                          rounding == SYM_TRUNCATE || rounding == SYM_CEIL ||
                                          (ratio.is_exact && rounding != SYM_HALF_EVEN));
    if (is_possible && is_bounded(space, &ratio, guards))
        return round_ratio(space, is_whole_ratio ? SYM_FLOOR : rounding, &ratio);
    return sym_atom(space, sym_intern(space, SYM_ROUNDED, (int)rounding, 1, &real));
}
