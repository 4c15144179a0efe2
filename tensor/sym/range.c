/* Known facts about expressions: ranges (interval arithmetic with infinite ends), and divisibility.
 *
 * For each node, a set {min, max, modulus, remainder} of possible values is derived from the sets
 * of its operands, and intersected with facts that guards state about the node itself. After each
 * guard that adds information, the set is derived again. */
#include "tensor/sym/sym_impl.h"

#define MAX_MODULUS (INT64_C(1) << 40)

int64_t sym_saturate(sym_wide_t value)
{
    return value <= SYM_LOWEST ? SYM_LOWEST : value >= SYM_HIGHEST ? SYM_HIGHEST : (int64_t)value;
}

static bool is_infinite(int64_t end)
{
    return end <= SYM_LOWEST || end >= SYM_HIGHEST;
}

static sym_known_t number(int64_t value)
{
    return (sym_known_t){value, value, 0, value};
}

/* ---- divisibility ---- */

/* Sets modulus and remainder in normal form (0 <= remainder < modulus). A modulus that is too large
 * is replaced by 1. */
static void set_modulus(sym_known_t *known, sym_wide_t modulus, sym_wide_t remainder)
{
    if (modulus < 0) modulus = -modulus;
    if (modulus > MAX_MODULUS || (modulus == 0 && !sym_is_number(remainder))) {
        modulus = 1;
        remainder = 0;
    }
    if (modulus > 0) remainder = (remainder % modulus + modulus) % modulus;
    known->modulus = (int64_t)modulus;
    known->remainder = (int64_t)remainder;
}

/* Sets modulus and remainder for the union of two sets. */
static void join_modulus(sym_known_t *known, const sym_known_t *other)
{
    const int64_t both = sym_gcd(sym_gcd(known->modulus, other->modulus),
                                 sym_saturate((sym_wide_t)known->remainder - other->remainder));
    set_modulus(known, both, known->remainder);
}

/* Sets modulus and remainder for the intersection of two sets (Chinese remainder theorem). Tries
 * members of the set with the larger modulus, until one is in the other set. */
static void meet_modulus(sym_known_t *known, const sym_known_t *other)
{
    const sym_known_t *large = known, *small = other;
    if (other->modulus == 0 || (known->modulus != 0 && other->modulus > known->modulus)) {
        large = other;
        small = known;
    }
    const sym_known_t chosen = *large, rest = *small;
    if (chosen.modulus == 0 || rest.modulus < 2) {
        set_modulus(known, chosen.modulus, chosen.remainder);
        return;
    }
    const int64_t common = sym_gcd(chosen.modulus, rest.modulus), n = rest.modulus / common;
    set_modulus(known, chosen.modulus, chosen.remainder);
    for (int64_t i = 0; i < n && n <= 4096; i++) {
        const sym_wide_t member = chosen.remainder + (sym_wide_t)chosen.modulus * i;
        if (member % rest.modulus != rest.remainder) continue;
        set_modulus(known, (sym_wide_t)chosen.modulus * n, member);
        return;
    }
}

/* Narrows the range to the smallest and the largest member of the set. */
static void align(sym_known_t *known)
{
    if (known->modulus < 2) return;
    if (!is_infinite(known->min)) {
        const sym_wide_t over = ((sym_wide_t)known->remainder - known->min) % known->modulus;
        known->min = sym_saturate(known->min + (over < 0 ? over + known->modulus : over));
    }
    if (!is_infinite(known->max)) {
        const sym_wide_t under = ((sym_wide_t)known->max - known->remainder) % known->modulus;
        known->max = sym_saturate(known->max - (under < 0 ? under + known->modulus : under));
    }
}

void sym_known_meet(sym_known_t *known, const sym_known_t *other)
{
    if (other->min > known->min) known->min = other->min;
    if (other->max < known->max) known->max = other->max;
    meet_modulus(known, other);
    align(known);
}

/* ---- sums and products ---- */

/* Multiplies an end of a range by a factor; 0 times infinity is 0. */
static int64_t times(int64_t end, int64_t factor)
{
    if (end == 0 || factor == 0) return 0;
    if (is_infinite(end) || is_infinite(factor))
        return (end < 0) == (factor < 0) ? SYM_HIGHEST : SYM_LOWEST;
    return sym_saturate((sym_wide_t)end * factor);
}

static int64_t plus(int64_t a, int64_t b)
{
    if (is_infinite(a)) return a;
    if (is_infinite(b)) return b;
    return sym_saturate((sym_wide_t)a + b);
}

static sym_known_t multiply(sym_known_t a, sym_known_t b)
{
    const int64_t ends[4] = {times(a.min, b.min), times(a.min, b.max), times(a.max, b.min),
                             times(a.max, b.max)};
    sym_known_t known = {ends[0], ends[0], 1, 0};
    for (int i = 1; i < 4; i++) {
        if (ends[i] < known.min) known.min = ends[i];
        if (ends[i] > known.max) known.max = ends[i];
    }
    const sym_wide_t ab = (sym_wide_t)a.modulus * b.remainder,
                     ba = (sym_wide_t)b.modulus * a.remainder;
    const bool fits = a.modulus <= MAX_MODULUS && b.modulus <= MAX_MODULUS && sym_is_number(ab) &&
                      sym_is_number(ba) && sym_is_number((sym_wide_t)a.modulus * b.modulus);
    if (fits)
        set_modulus(&known, sym_gcd(sym_gcd((int64_t)ab, (int64_t)ba), a.modulus * b.modulus),
                    (sym_wide_t)a.remainder * b.remainder);
    return known;
}

static sym_known_t add(sym_known_t a, sym_known_t b)
{
    sym_known_t known = {plus(a.min, b.min), plus(a.max, b.max), 1, 0};
    set_modulus(&known, sym_gcd(a.modulus, b.modulus), (sym_wide_t)a.remainder + b.remainder);
    return known;
}

/* Returns the set of x / divisor for all x in a that are multiples of the divisor. */
static sym_known_t divide_exactly(sym_known_t a, int64_t divisor)
{
    sym_known_t known = {a.min, a.max, 1, 0};
    if (!is_infinite(a.min)) known.min = -sym_floor(-a.min, divisor);
    if (!is_infinite(a.max)) known.max = sym_floor(a.max, divisor);
    if (a.modulus % divisor == 0 && a.remainder % divisor == 0)
        set_modulus(&known, a.modulus / divisor, a.remainder / divisor);
    return known;
}

static sym_known_t of_terms(sym_space_t *space, const sym_poly_t *poly)
{
    sym_known_t known = number(poly->constant);
    for (int i = 0; i < poly->n; i++)
        known = add(known, multiply(number(poly->terms[i].factor),
                                    sym_know(space, poly->terms[i].product)));
    return known;
}

/* Replaces each quotient k*(m/d), which is rounded down, by the equal expression k*m/d - k*rest/d
 * with 0 <= rest < d, because m may cancel other terms: H - 8*(H/8) is between 0 and 7. out_rests:
 * the range of the sum of all k*rest, over poly's denominator. Returns false if there are no
 * quotients. */
static bool open_quotients(sym_space_t *space, sym_poly_t *poly, sym_known_t *out_rests)
{
    bool has_opened = false;
    *out_rests = number(0);
    for (int i = 0; i < poly->n; i++) {
        const sym_term_t term = poly->terms[i];
        const sym_node_t *node = sym_find(space, term.product);
        if (node->kind != SYM_QUOTIENT || sym_is(node->operands[1])) continue;
        const int64_t divisor = node->operands[1], before = poly->denominator;
        sym_poly_t changed = *poly, one = {1, 0, 1, {{1, term.product}}}, numerator;
        /* poly - k*q/before + k*m/(before*divisor) */
        one.denominator = before;
        if (!sym_load(space, node->operands[0], &numerator) ||
            !sym_poly_add(space, &changed, -term.factor, &one) ||
            !sym_poly_scale(&numerator, 1, before * divisor) ||
            !sym_poly_add(space, &changed, term.factor, &numerator))
            return has_opened;
        const int64_t scale = changed.denominator / before;
        const sym_known_t rest = {0, divisor - 1, 1, 0};
        *out_rests = add(multiply(*out_rests, number(scale)),
                         multiply(rest, number(-term.factor * (scale / divisor))));
        *poly = changed;
        has_opened = true;
        i = -1;
    }
    return has_opened;
}

/* Intersects with facts about sums: bounds of x*H - y*W also are bounds of x*H - y*W + c. */
static void meet_form(sym_space_t *space, const sym_poly_t *poly, sym_known_t *known)
{
    int64_t factor;
    const int64_t form = poly->n > 1 ? sym_form(space, poly, false, &factor) : SYM_NONE;
    if (form == SYM_NONE) return;
    const sym_node_t *node = sym_find(space, form);
    const sym_known_t fact = add(multiply(node->fact, number(factor)), number(poly->constant));
    sym_known_meet(known, &fact);
}

sym_known_t sym_poly_know(sym_space_t *space, const sym_poly_t *poly)
{
    sym_poly_t open = *poly;
    sym_known_t rests, known = of_terms(space, poly);
    open.denominator = 1;
    if (poly->n > 1 && open_quotients(space, &open, &rests)) {
        const sym_known_t ends = divide_exactly(add(of_terms(space, &open), rests),
                                                open.denominator);
        if (ends.min > known.min) known.min = ends.min;
        if (ends.max < known.max) known.max = ends.max;
        align(&known);
    }
    if (space->n_sum_facts > 0) meet_form(space, poly, &known);
    return poly->denominator != 1 ? divide_exactly(known, poly->denominator) : known;
}

/* ---- nodes ---- */

static sym_known_t of_quotient(sym_space_t *space, const sym_node_t *node)
{
    const sym_known_t a = sym_know(space, node->operands[0]);
    const sym_known_t b = sym_know(space, node->operands[1]);
    sym_known_t known = {SYM_LOWEST, SYM_HIGHEST, 1, 0};
    if (b.min < 1) return known;
    /* the extremes are a.min or a.max over b.min or b.max; over an infinite b they are 0 or -1 */
    const int64_t low = a.min >= 0 ? b.max : b.min, high = a.max >= 0 ? b.min : b.max;
    if (!is_infinite(a.min)) known.min = is_infinite(low) ? 0 : sym_floor(a.min, low);
    if (!is_infinite(a.max)) known.max = is_infinite(high) ? -1 : sym_floor(a.max, high);
    return known;
}

static sym_known_t of_extreme(sym_space_t *space, const sym_node_t *node)
{
    sym_known_t known = sym_know(space, node->operands[0]);
    const bool is_minimum = node->kind == SYM_MINIMUM;
    for (int i = 1; i < node->n; i++) {
        const sym_known_t other = sym_know(space, node->operands[i]);
        if (is_minimum ? other.min < known.min : other.min > known.min) known.min = other.min;
        if (is_minimum ? other.max < known.max : other.max > known.max) known.max = other.max;
        join_modulus(&known, &other);
    }
    return known;
}

static sym_known_t of_choice(sym_space_t *space, const sym_node_t *node)
{
    sym_known_t known = sym_know(space, node->operands[1]);
    const sym_known_t other = sym_know(space, node->operands[2]);
    if (other.min < known.min) known.min = other.min;
    if (other.max > known.max) known.max = other.max;
    join_modulus(&known, &other);
    return known;
}

static sym_known_t of_rounded(sym_space_t *space, const sym_node_t *node)
{
    const sym_node_t *real = sym_find(space, node->operands[0]);
    sym_known_t known = {SYM_LOWEST, SYM_HIGHEST, 1, 0};
    sym_real_range(space, sym_find(space, node->operands[0]));
    (void)sym_real_rounded((sym_rounding_t)node->part, real->real_min, &known.min),
        (void)sym_real_rounded((sym_rounding_t)node->part, real->real_max, &known.max);
    return known;
}

static sym_known_t of_product(sym_space_t *space, const sym_node_t *node)
{
    sym_known_t known = number(1);
    for (int i = 0; i < node->n; i++) known = multiply(known, sym_know(space, node->operands[i]));
    return known;
}

static sym_known_t derive(sym_space_t *space, const sym_node_t *node)
{
    sym_poly_t poly;
    switch ((sym_kind_t)node->kind) {
    case SYM_QUOTIENT: return of_quotient(space, node);
    case SYM_MINIMUM:
    case SYM_MAXIMUM: return of_extreme(space, node);
    case SYM_EQUALS:
    case SYM_LESS: return (sym_known_t){0, 1, 1, 0};
    case SYM_CHOICE: return of_choice(space, node);
    case SYM_ROUNDED: return of_rounded(space, node);
    case SYM_PRODUCT: return of_product(space, node);
    case SYM_SUM: sym_load(space, node->handle, &poly); return sym_poly_know(space, &poly);
    default: return (sym_known_t){SYM_LOWEST, SYM_HIGHEST, 1, 0};
    }
}

/* If a guard excludes the value at an end of the range, makes the range smaller. */
static void exclude(const sym_space_t *space, int64_t form, sym_known_t *known)
{
    const int64_t step = known->modulus > 1 ? known->modulus : 1;
    for (int i = 0; i < space->n_exclusions; i++) {
        const sym_exclusion_t *excluded = &space->exclusions[i];
        if (excluded->form != form || known->min >= known->max) continue;
        const bool moves_min = excluded->value == known->min && !is_infinite(known->min);
        const bool moves_max = excluded->value == known->max && !is_infinite(known->max);
        if (moves_min) known->min += step;
        if (moves_max) known->max -= step;
        if (moves_min || moves_max) i = -1;
    }
}

sym_known_t sym_know(sym_space_t *space, int64_t a)
{
    sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    if (node == NULL) return number(a);
    if (node->known_stamp == space->stamp) return node->known;
    sym_known_t known = derive(space, node);
    sym_known_meet(&known, &node->fact);
    if (node->has_exclusions) exclude(space, a, &known);
    node->known = known;
    node->known_stamp = space->stamp;
    return known;
}
