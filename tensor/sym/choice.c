/* Minima, maxima, comparisons and choices, in normal form. The rules, with examples:
 *
 *   - nested operations of the same kind are joined: min(H,min(W,3)) is min(3,H,W)
 *   - operands are sorted and unique; those that are never chosen are dropped:
 *                                                    min(H,H+1) is H; max(H,0) is H;
 *                                                    min(H,9223372036854775807) is H
 *   - comparisons have no common divisor, and negative terms move to the other side:
 *                                                    2*H-2*W == 6 is H == W+3
 *   - a proven comparison is 1 or 0, and a choice by it is the chosen operand */
#include <string.h>

#include "tensor/sym/sym_impl.h"

/* True if b can always replace a: in a minimum, if a >= b. */
static bool is_dominated(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b)
{
    sym_poly_t above, other;
    const bool is_minimum = kind == SYM_MINIMUM;
    if (sym_is_huge(a) || sym_is_huge(b)) return is_minimum == sym_is_huge(a);
    return sym_load(space, is_minimum ? a : b, &above) &&
           sym_load(space, is_minimum ? b : a, &other) && sym_poly_add(space, &above, -1, &other) &&
           sym_poly_know(space, &above).min >= 0;
}

/* Inserts an operand of a minimum or maximum in order, unless is_dominated is true for it and
 * another operand; removes operands that it dominates. */
static bool put(sym_space_t *space, sym_kind_t kind, int64_t value, int *n, int64_t *operands)
{
    int kept = 0, at = 0;
    for (int i = 0; i < *n; i++)
        if (operands[i] == value || is_dominated(space, kind, value, operands[i])) return true;
    for (int i = 0; i < *n; i++)
        if (!is_dominated(space, kind, operands[i], value)) operands[kept++] = operands[i];
    *n = kept;
    if (kept == SYM_MAX_TERMS)
        return sym_limit(space, "operands of a minimum", SYM_MAX_TERMS) != SYM_NONE;
    while (at < kept && sym_compare(space, operands[at], value) < 0) at++;
    memmove(operands + at + 1, operands + at, (size_t)(kept - at) * sizeof *operands);
    operands[at] = value;
    (*n)++;
    return true;
}

int64_t sym_extreme(sym_space_t *space, sym_kind_t kind, int n, const int64_t *operands)
{
    int64_t joined[SYM_MAX_TERMS];
    int n_joined = 0;
    for (int i = 0; i < n; i++) {
        const sym_node_t *node = sym_is(operands[i]) ? sym_find(space, operands[i]) : NULL;
        if (operands[i] == SYM_NONE) return SYM_NONE;
        const bool is_nested = node != NULL && node->kind == kind;
        const int64_t *inner = is_nested ? node->operands : &operands[i];
        for (int k = 0; k < (is_nested ? node->n : 1); k++)
            if (!put(space, kind, inner[k], &n_joined, joined)) return SYM_NONE;
    }
    if (n_joined == 1) return joined[0];
    return sym_atom(space, sym_intern(space, kind, 0, n_joined, joined));
}

/* ---- comparisons ---- */

static void divide_factors(sym_poly_t *a, bool is_equality)
{
    sym_poly_t form = *a;
    int64_t common = 0;
    for (int i = 0; i < a->n; i++) {
        int64_t x = a->terms[i].factor < 0 ? -a->terms[i].factor : a->terms[i].factor;
        while (x != 0) {
            const int64_t rest = common % x;
            common = x;
            x = rest;
        }
    }
    if (is_equality && a->terms[0].factor < 0) common = -common;
    for (int i = 0; i < a->n; i++) a->terms[i].factor = form.terms[i].factor / common;
    a->constant = sym_floor(a->constant, common);
}

/* Makes one side of a comparison from the terms of this sign, and the constant if it has this
 * sign. */
static int64_t side(sym_space_t *space, const sym_poly_t *a, int64_t sign)
{
    sym_poly_t part = {.denominator = 1};
    for (int i = 0; i < a->n; i++)
        if ((a->terms[i].factor < 0) == (sign < 0)) {
            part.terms[part.n] = a->terms[i];
            part.terms[part.n++].factor *= sign;
        }
    if ((a->constant < 0) == (sign < 0)) part.constant = a->constant * sign;
    return sym_store(space, &part);
}

int64_t sym_compared(sym_space_t *space, sym_kind_t kind, int64_t a, int64_t b)
{
    sym_poly_t difference, other;
    const bool is_equality = kind == SYM_EQUALS;
    if (a == SYM_NONE || b == SYM_NONE) return SYM_NONE;
    if (sym_is_huge(a) || sym_is_huge(b)) return !is_equality && sym_is_huge(b);
    if (!sym_load(space, b, &difference) || !sym_load(space, a, &other) ||
        !sym_poly_add(space, &difference, -1, &other))
        return SYM_NONE;
    /* a < b means b-a-1 >= 0 */
    difference.constant -= is_equality ? 0 : difference.denominator;
    sym_poly_t stored = difference;
    const int64_t whole = sym_store(space, &stored);
    if (whole == SYM_NONE) return SYM_NONE;
    if (!sym_is(whole)) return is_equality ? whole == 0 : whole >= 0;
    const int proof = sym_proves(space, is_equality ? SYM_ZERO : SYM_NOT_NEGATIVE, whole);
    if (proof >= 0) return proof;
    difference = stored;
    difference.denominator = 1;
    if (difference.n == 0) return SYM_NONE;
    divide_factors(&difference, is_equality);
    difference.constant += is_equality ? 0 : 1;
    const int64_t sides[2] = {side(space, &difference, is_equality ? 1 : -1),
                              side(space, &difference, is_equality ? -1 : 1)};
    if (sides[0] == SYM_NONE || sides[1] == SYM_NONE) return SYM_NONE;
    return sym_atom(space, sym_intern(space, kind, 0, 2, sides));
}

int64_t sym_choice(sym_space_t *space, int64_t condition, int64_t a, int64_t b)
{
    const int64_t operands[3] = {condition, a, b};
    if (condition == SYM_NONE) return SYM_NONE;
    if (a == b) return a;
    const int is_chosen = sym_is(condition) ? sym_proves(space, SYM_NOT_ZERO, condition)
                                            : condition != 0;
    if (is_chosen >= 0) return is_chosen ? a : b;
    if (a == SYM_NONE || b == SYM_NONE) return SYM_NONE;
    const sym_known_t known = sym_know(space, condition);
    if (a == 1 && b == 0 && known.min >= 0 && known.max <= 1) return condition;
    return sym_atom(space, sym_intern(space, SYM_CHOICE, 0, 3, operands));
}
