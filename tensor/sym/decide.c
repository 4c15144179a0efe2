/* Decides whether a relation between symbolic integers holds. If it can be neither proven nor
 * disproven, the decision is made for the hints of the names (sym.h), and becomes a guard.
 *
 * The guard is simplified and made as weak as possible:
 *
 *   - a minimum or maximum is replaced by one of its operands:  T == min(32,T) becomes T <= 32
 *   - a factor of all terms is divided out, after deciding that it is not 0:
 *                                                        64*N == 8*H*N becomes H == 8
 *   - common numeric factors are divided out:            24*N == 24 becomes N == 1 */
#include "tensor/sym/sym_impl.h"

#define MAX_ROUNDS 16

static bool has_hint(const sym_space_t *space, int64_t a, int64_t *out_hint)
{
    const sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    *out_hint = node != NULL ? node->hint.integer : a;
    return node != NULL ? node->has_hint : a != SYM_NONE;
}

/* ---- minima and maxima ---- */

static const sym_node_t *find_extreme(sym_space_t *space, const sym_poly_t *poly)
{
    for (int i = 0; i < poly->n; i++) {
        const int64_t *atoms = NULL;
        const int n = sym_atoms(space, &poly->terms[i].product, &atoms);
        for (int k = 0; k < n; k++) {
            const sym_node_t *node = sym_find(space, atoms[k]);
            if (node->kind == SYM_MINIMUM || node->kind == SYM_MAXIMUM) return node;
        }
    }
    return NULL;
}

/* Number of terms of the sum that remain if the operand replaces the minimum or maximum. */
static int count_left(sym_space_t *space, const sym_poly_t *poly, const sym_node_t *extreme,
                      int64_t operand)
{
    sym_poly_t sum = *poly, other;
    for (int i = 0; i < poly->n; i++) {
        if (poly->terms[i].product != extreme->handle) continue;
        const sym_poly_t alone = {1, 0, 1, {poly->terms[i]}};
        if (!sym_poly_add(space, &sum, -1, &alone) || !sym_load(space, operand, &other) ||
            !sym_poly_add(space, &sum, poly->terms[i].factor, &other))
            return SYM_MAX_TERMS;
    }
    return sum.n + (sum.constant != 0);
}

/* Decides which operand the minimum or maximum equals. If several operands are equal for the hints,
 * chooses the one with which the fewest terms remain: T == min(32,T) with hint 32 for T becomes T
 * <= 32. */
static void choose_operand(sym_space_t *space, const sym_poly_t *poly, const sym_node_t *extreme)
{
    const bool is_least = extreme->kind == SYM_MINIMUM;
    int64_t best = 0, hint = 0;
    int chosen = 0, n_left = 0;
    for (int i = 0; i < extreme->n; i++) {
        (void)has_hint(space, extreme->operands[i], &hint);
        const int n = count_left(space, poly, extreme, extreme->operands[i]);
        const bool is_better = hint == best ? n < n_left : (hint < best) == is_least;
        if (i > 0 && !is_better) continue;
        best = hint;
        chosen = i;
        n_left = n;
    }
    for (int i = 0; i < extreme->n; i++) {
        const int64_t a = extreme->operands[is_least ? i : chosen];
        const int64_t b = extreme->operands[is_least ? chosen : i];
        if (i != chosen) (void)sym_decide(space, SYM_NOT_NEGATIVE, sym_sum(space, a, -1, b));
    }
}

static int64_t resolve_extremes(sym_space_t *space, int64_t a)
{
    sym_poly_t poly;
    for (int round = 0; round < MAX_ROUNDS && sym_is(a) && a != SYM_NONE; round++) {
        const sym_node_t *extreme = sym_load(space, a, &poly) ? find_extreme(space, &poly) : NULL;
        if (extreme == NULL) break;
        choose_operand(space, &poly, extreme);
        const int64_t simpler = sym_simplest(space, a);
        if (simpler == a) break;
        a = simpler;
    }
    return a;
}

/* ---- factors ---- */

/* Finds an atom that is a factor of all terms of a sum (two or more, no constant); 0 if there is
 * none. */
static int64_t common_atom(sym_space_t *space, const sym_poly_t *poly)
{
    const int64_t *atoms = NULL;
    if (poly->n < 2 || poly->constant != 0) return 0;
    const int n = sym_atoms(space, &poly->terms[0].product, &atoms);
    for (int k = 0; k < n; k++) {
        bool is_common = true;
        for (int i = 1; i < poly->n && is_common; i++)
            is_common = sym_product_divide(space, poly->terms[i].product, atoms[k]) != 0;
        if (is_common) return atoms[k];
    }
    return 0;
}

static int64_t divide_by_atom(sym_space_t *space, const sym_poly_t *poly, int64_t atom)
{
    sym_poly_t quotient = {.denominator = poly->denominator}, term;
    for (int i = 0; i < poly->n; i++) {
        const int64_t product = sym_product_divide(space, poly->terms[i].product, atom);
        if (!sym_load(space, product, &term) ||
            !sym_poly_add(space, &quotient, poly->terms[i].factor, &term))
            return SYM_NONE;
    }
    return sym_store(space, &quotient);
}

/* Used to decide whether a is 0: divides a by atoms that are factors of all terms, after deciding
 * that these atoms are not 0. */
static int64_t drop_atoms(sym_space_t *space, int64_t a)
{
    sym_poly_t poly;
    for (int round = 0; round < MAX_ROUNDS && sym_is(a) && a != SYM_NONE; round++) {
        int64_t hint = 0;
        const int64_t atom = sym_load(space, a, &poly) ? common_atom(space, &poly) : 0;
        if (atom == 0 || !has_hint(space, atom, &hint) || hint == 0) break;
        (void)sym_decide(space, SYM_ZERO, atom);
        const int64_t quotient = divide_by_atom(space, &poly, atom);
        if (quotient == SYM_NONE) break;
        a = sym_simplest(space, quotient);
    }
    return a;
}

/* Divides by the common divisor of all coefficients. Rounds the constant if that does not change
 * the relation. */
static int64_t drop_factor(sym_space_t *space, sym_relation_t relation, int64_t a)
{
    sym_poly_t poly, form;
    int64_t factor = 0;
    if (!sym_is(a) || a == SYM_NONE || !sym_load(space, a, &poly) || poly.n == 0 ||
        poly.denominator != 1)
        return a;
    const int64_t constant = poly.constant, handle = sym_form(space, &poly, true, &factor);
    if (handle == SYM_NONE || factor == 1 || factor == -1) return a;
    const int64_t magnitude = factor < 0 ? -factor : factor;
    if (relation != SYM_NOT_NEGATIVE && constant % magnitude != 0) return a;
    if (!sym_load(space, handle, &form) || !sym_poly_scale(&form, factor < 0 ? -1 : 1, 1)) return a;
    form.constant += sym_floor(constant, magnitude);
    const int64_t simpler = sym_store(space, &form);
    return simpler == SYM_NONE ? a : simpler;
}

/* ---- the decision ---- */

static bool decide_by_hint(sym_space_t *space, sym_relation_t relation, int64_t a, int64_t hint)
{
    const bool is_true = sym_holds(relation, hint);
    sym_relation_t guard = relation;
    if (!is_true && relation == SYM_NOT_NEGATIVE)
        a = sym_simplest(space, sym_sum(space, -1, -1, a));
    if (!is_true && relation != SYM_NOT_NEGATIVE)
        guard = relation == SYM_ZERO ? SYM_NOT_ZERO : SYM_ZERO;
    return sym_assume(space, guard, drop_factor(space, guard, a)) && is_true;
}

/* ---- proofs ---- */

/* Makes a lower bound of d times the sum, without the sum's first quotient n/d by a number d. For
 * this, d*(n/d), which is between n-d+1 and n, is replaced by n-d+1, or by n in a negative term.
 * Returns false if no term is such a quotient. */
static bool relax(sym_space_t *space, sym_poly_t *poly)
{
    for (int i = 0; i < poly->n; i++) {
        const sym_term_t term = poly->terms[i];
        const sym_node_t *node = sym_find(space, term.product);
        sym_poly_t numerator;
        if (node->kind != SYM_QUOTIENT || sym_is(node->operands[1])) continue;
        const int64_t divisor = node->operands[1];
        const sym_poly_t alone = {1, 0, 1, {term}};
        if (divisor < 1 || !sym_poly_add(space, poly, -1, &alone) ||
            !sym_poly_scale(poly, divisor, 1) || !sym_load(space, node->operands[0], &numerator) ||
            numerator.denominator != 1)
            return false;
        if (term.factor > 0) numerator.constant -= divisor - 1;
        return sym_poly_add(space, poly, term.factor, &numerator);
    }
    return false;
}

/* True if a >= 0 can be proven: from the range of a, from bounds of quotients in it, or after
 * dividing it by an atom that is not negative. */
static bool is_not_negative(sym_space_t *space, int64_t a, int depth)
{
    sym_poly_t poly;
    if (!sym_is(a)) return a >= 0;
    if (depth > 3 || !sym_load(space, a, &poly) || poly.denominator != 1) return false;
    if (sym_know(space, a).min >= 0) return true;
    const int64_t atom = common_atom(space, &poly);
    if (atom != 0 && sym_know(space, atom).min >= 0 &&
        is_not_negative(space, divide_by_atom(space, &poly, atom), depth + 1))
        return true;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        if (!relax(space, &poly)) return false;
        if (sym_poly_know(space, &poly).min >= 0) return true;
    }
    return false;
}

int64_t sym_multiplied(sym_space_t *space, int64_t a, int64_t b)
{
    const int64_t product = sym_product(space, a, b);
    if (!sym_is(product) || product == SYM_NONE || sym_know(space, product).min >= 0)
        return product;
    if (is_not_negative(space, a, 0) && is_not_negative(space, b, 0)) sym_learn(space, product);
    return product;
}

/* True if a is a number, or if the relation can be proven or disproven; then *out_holds is set to
 * whether it holds. */
static bool is_settled(sym_space_t *space, sym_relation_t relation, int64_t a, bool *out_holds)
{
    if (!sym_is(a)) {
        *out_holds = sym_holds(relation, a);
        return true;
    }
    int proof = sym_proves(space, relation, a);
    if (proof < 0 && relation == SYM_NOT_NEGATIVE && is_not_negative(space, a, 0)) {
        sym_learn(space, a);
        proof = 1;
    } else if (proof < 0 && relation == SYM_NOT_NEGATIVE) {
        const int64_t contrary = sym_sum(space, -1, -1, a);
        if (is_not_negative(space, contrary, 0)) proof = 0;
    }
    *out_holds = proof > 0;
    return proof >= 0;
}

bool sym_decide(sym_space_t *space, sym_relation_t relation, int64_t a)
{
    char text[128];
    int64_t hint = 0;
    bool holds = false;
    a = sym_simplest(space, a);
    if (a == SYM_NONE) {
        sym_fail(space, STATUS_UNSUPPORTED, "a size overflows or is invalid");
        return false;
    }
    if (is_settled(space, relation, a, &holds)) return holds;
    if (!has_hint(space, a, &hint)) {
        sym_fail(space, STATUS_UNSUPPORTED, "a size depends on elements: %s must be known",
                 sym_print(space, a, sizeof text, text));
        return false;
    }
    a = resolve_extremes(space, a);
    if (relation != SYM_NOT_NEGATIVE) a = drop_atoms(space, a);
    if (a == SYM_NONE || space->status != STATUS_OK) return false;
    if (is_settled(space, relation, a, &holds)) return holds;
    return has_hint(space, a, &hint) && decide_by_hint(space, relation, a, hint);
}
