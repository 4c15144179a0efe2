/* Guards, the facts that follow from them, and the simplification of expressions with these facts:
 *
 *   - a guard on one form narrows its range:           W >= 100; N != 1 gives N >= 2 if N >= 1
 *   - E % d == 0 is stored as divisibility of E:       H % 8 == 0 makes H/8*8 equal to H
 *   - other equations replace a name:                  H == 2*W makes H and 2*W one handle
 *   - proven relations add no guard:                   H % 4 == 0 after H % 8 == 0 */
#include <string.h>

#include "tensor/sym/sym_impl.h"

int64_t sym_sum(sym_space_t *space, int64_t a, int64_t factor, int64_t b)
{
    sym_poly_t sum, other;
    if (!sym_load(space, a, &sum) || !sym_load(space, b, &other) ||
        !sym_poly_add(space, &sum, factor, &other))
        return SYM_NONE;
    return sym_store(space, &sum);
}

int64_t sym_product(sym_space_t *space, int64_t a, int64_t b)
{
    sym_poly_t left, right, product;
    if (!sym_load(space, a, &left) || !sym_load(space, b, &right) ||
        !sym_poly_multiply(space, &left, &right, &product))
        return SYM_NONE;
    return sym_store(space, &product);
}

/* ---- rebuilding expressions ---- */

static int64_t rebuild_sum(sym_space_t *space, const sym_node_t *node, sym_map_t map, void *user)
{
    sym_poly_t sum = {.constant = node->operands[0], .denominator = 1}, other;
    for (int i = 2; i < node->n; i += 2)
        if (!sym_load(space, map(user, node->operands[i + 1]), &other) ||
            !sym_poly_add(space, &sum, node->operands[i], &other))
            return SYM_NONE;
    return sym_poly_scale(&sum, 1, node->operands[1]) ? sym_store(space, &sum) : SYM_NONE;
}

static int64_t rebuild_product(sym_space_t *space, const sym_node_t *node, sym_map_t map,
                               void *user)
{
    int64_t product = 1;
    for (int i = 0; i < node->n && product != SYM_NONE; i++)
        product = sym_product(space, product, map(user, node->operands[i]));
    return product;
}

int64_t sym_rebuild(sym_space_t *space, const sym_node_t *node, sym_map_t map, void *user)
{
    int64_t operands[SYM_MAX_TERMS];
    const sym_kind_t kind = (sym_kind_t)node->kind;
    if (kind == SYM_SUM) return rebuild_sum(space, node, map, user);
    if (kind == SYM_PRODUCT) return rebuild_product(space, node, map, user);
    if (kind == SYM_REAL) return sym_real_number(space, (sym_real_t)node->part, node->hint.real);
    for (int i = 0; i < node->n; i++) {
        operands[i] = map(user, node->operands[i]);
        if (operands[i] == SYM_NONE) return SYM_NONE;
    }
    switch (kind) {
    case SYM_QUOTIENT:
        return operands[1] != 0 ? sym_quotient(space, operands[0], operands[1]) : SYM_NONE;
    case SYM_MINIMUM:
    case SYM_MAXIMUM: return sym_extreme(space, kind, node->n, operands);
    case SYM_EQUALS:
    case SYM_LESS: return sym_compared(space, kind, operands[0], operands[1]);
    case SYM_CHOICE: return sym_choice(space, operands[0], operands[1], operands[2]);
    case SYM_ROUNDED: return sym_rounded(space, (sym_rounding_t)node->part, operands[0], false);
    case SYM_TO_REAL: return sym_made_real(space, (sym_real_t)node->part, operands[0]);
    default: return sym_arithmetic(space, kind, operands[0], operands[1]);
    }
}

/* ---- expressions under the guards ---- */

static int64_t map_simplest(void *user, int64_t operand)
{
    return sym_simplest(user, operand);
}

int64_t sym_atom(sym_space_t *space, const sym_node_t *node)
{
    if (node == NULL) return SYM_NONE;
    if (node->replacement != 0) return sym_simplest(space, node->replacement);
    const sym_known_t known = sym_know(space, node->handle);
    return known.min == known.max ? known.min : node->handle;
}

int64_t sym_simplest(sym_space_t *space, int64_t a)
{
    sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    if (node == NULL || node->is_busy) return a;
    if (node->simplest_stamp == space->stamp) return node->simplest;
    node->is_busy = true;
    int64_t result = node->handle;
    if (node->replacement != 0)
        result = sym_simplest(space, node->replacement);
    else if (node->kind != SYM_NAME)
        result = sym_rebuild(space, node, map_simplest, space);
    if (sym_is(result) && sym_is_integer(space, result)) {
        const sym_known_t known = sym_know(space, result);
        if (known.min == known.max) result = known.min;
    }
    if (sym_is(result) && result != a) result = sym_simplest(space, result);
    node->is_busy = false;
    if (result == SYM_NONE) return SYM_NONE;
    node->simplest = result;
    node->simplest_stamp = space->stamp;
    return result;
}

/* ---- proofs ---- */

static int proves_not_zero(sym_space_t *space, int64_t a, sym_known_t known)
{
    sym_poly_t poly;
    int64_t factor;
    if (known.min > 0 || known.max < 0 || known.remainder != 0) return 1;
    if (known.min == 0 && known.max == 0) return 0;
    if (!sym_load(space, a, &poly) || poly.n == 0) return -1;
    const int64_t form = sym_form(space, &poly, false, &factor);
    for (int i = 0; i < space->n_exclusions; i++)
        if (space->exclusions[i].form == form &&
            (sym_wide_t)factor * space->exclusions[i].value + poly.constant == 0)
            return 1;
    return -1;
}

int sym_proves(sym_space_t *space, sym_relation_t relation, int64_t a)
{
    const sym_known_t known = sym_know(space, a);
    const int is_not_zero = relation != SYM_NOT_NEGATIVE ? proves_not_zero(space, a, known) : -1;
    if (relation == SYM_NOT_NEGATIVE) return known.min >= 0 ? 1 : known.max < 0 ? 0 : -1;
    return is_not_zero < 0 || relation == SYM_NOT_ZERO ? is_not_zero : !is_not_zero;
}

/* ---- facts from guards ---- */

static bool has_fact(const sym_node_t *node)
{
    return node->fact.min > SYM_LOWEST || node->fact.max < SYM_HIGHEST || node->fact.modulus != 1;
}

/* Returns the node that stores facts about the polynomial's form (sym_form). */
static sym_node_t *fact_node(sym_space_t *space, const sym_poly_t *poly, int64_t *out_factor)
{
    const int64_t form = sym_form(space, poly, true, out_factor);
    sym_node_t *node = form != SYM_NONE ? sym_find(space, form) : NULL;
    if (node != NULL && node->kind == SYM_SUM && !has_fact(node)) space->n_sum_facts++;
    return node;
}

/* Records the fact poly >= 0, and what follows from it for each term: the term is at least
 * -(constant + maximum of the sum of the other terms). */
static void learn_range(sym_space_t *space, const sym_poly_t *poly, int depth)
{
    int64_t factor;
    if (poly->n == 0 || depth > 4) return;
    sym_node_t *node = fact_node(space, poly, &factor);
    if (node == NULL) return;
    if (factor > 0) {
        const int64_t least = -sym_floor(poly->constant, factor);
        if (least <= node->fact.min) return;
        node->fact.min = least;
    } else if (factor < 0) {
        const int64_t most = sym_floor(poly->constant, -factor);
        if (most >= node->fact.max) return;
        node->fact.max = most;
    }
    space->stamp++;
    for (int i = 0; poly->n > 1 && i < poly->n; i++) {
        sym_poly_t rest = *poly, alone = {1, 0, 1, {poly->terms[i]}};
        if (!sym_poly_add(space, &rest, -1, &alone)) return;
        alone.constant = sym_poly_know(space, &rest).max;
        if (alone.constant < SYM_HIGHEST) learn_range(space, &alone, depth + 1);
    }
    /* m/d >= v means m >= v*d; m/d <= v means m <= v*d+d-1 */
    sym_poly_t inner;
    if (node->kind != SYM_QUOTIENT || sym_is(node->operands[1]) ||
        !sym_load(space, node->operands[0], &inner))
        return;
    const int64_t divisor = node->operands[1];
    const sym_wide_t end = factor > 0 ? -(sym_wide_t)node->fact.min * divisor
                                      : (sym_wide_t)node->fact.max * divisor + divisor - 1;
    if (!sym_poly_scale(&inner, factor > 0 ? 1 : -1, 1)) return;
    if (!sym_is_number(end + inner.constant)) return;
    inner.constant += (int64_t)end;
    learn_range(space, &inner, depth + 1);
}

static void learn_not_negative(sym_space_t *space, const sym_poly_t *poly)
{
    learn_range(space, poly, 0);
}

static void learn_not_zero(sym_space_t *space, const sym_poly_t *poly)
{
    int64_t factor;
    sym_node_t *node = fact_node(space, poly, &factor);
    if (node == NULL || poly->constant % factor != 0) return;
    if (!sym_grow(space, &space->exclusions, &space->exclusion_capacity, space->n_exclusions + 1,
                  sizeof *space->exclusions))
        return;
    space->exclusions[space->n_exclusions++] = (sym_exclusion_t){node->handle,
                                                                 -(poly->constant / factor)};
    node->has_exclusions = true;
    space->stamp++;
}

/* Returns the inverse of a modulo `modulus`, found with the extended Euclidean algorithm; 0 if
 * there is none. */
static int64_t inverse(int64_t a, int64_t modulus)
{
    int64_t r = modulus, next_r = (a % modulus + modulus) % modulus, t = 0, next_t = 1;
    while (next_r != 0) {
        const int64_t quotient = r / next_r, old_r = r, old_t = t;
        r = next_r;
        next_r = old_r - quotient * next_r;
        t = next_t;
        next_t = old_t - quotient * next_t;
    }
    return r == 1 ? (t + modulus) % modulus : 0;
}

/* Records what a % modulus == remainder means for the form of a. */
static bool learn_modulus(sym_space_t *space, const sym_poly_t *a, int64_t modulus,
                          int64_t remainder)
{
    int64_t factor;
    sym_node_t *node = a->n > 0 && modulus < (1 << 30) ? fact_node(space, a, &factor) : NULL;
    const int64_t back = node != NULL ? inverse(factor, modulus) : 0;
    if (back == 0) return false;
    const int64_t wanted = ((remainder - a->constant % modulus) % modulus + modulus) % modulus;
    const sym_known_t fact = {SYM_LOWEST, SYM_HIGHEST, modulus,
                              (int64_t)((sym_wide_t)wanted * back % modulus)};
    sym_known_t both = node->fact;
    sym_known_meet(&both, &fact);
    node->fact = both;
    space->stamp++;
    return true;
}

/* Uses an equation k*(m/d) + rest == 0: if d*rest + k*m is a number k*r, records m % d == r. */
static bool learn_remainder(sym_space_t *space, const sym_poly_t *poly)
{
    for (int i = 0; i < poly->n; i++) {
        const sym_term_t term = poly->terms[i];
        const sym_node_t *node = sym_find(space, term.product);
        if (node->kind != SYM_QUOTIENT || sym_is(node->operands[1])) continue;
        const int64_t divisor = node->operands[1];
        sym_poly_t rest = *poly, numerator;
        const sym_poly_t alone = {1, 0, 1, {term}};
        if (!sym_poly_add(space, &rest, -1, &alone) || !sym_poly_scale(&rest, divisor, 1) ||
            !sym_load(space, node->operands[0], &numerator) ||
            !sym_poly_add(space, &rest, term.factor, &numerator))
            return false;
        if (rest.n > 0 || rest.constant % term.factor != 0) continue;
        return learn_modulus(space, &numerator, divisor, rest.constant / term.factor);
    }
    return false;
}

/* Rates a term of an equation as the one that the rest of the equation replaces; 0: impossible. A
 * name with coefficient 1 or -1 is best, then a name that is alone on its side (H == N+2*W), then
 * the last name. */
static int worth(sym_space_t *space, const sym_poly_t *poly, int at)
{
    const sym_term_t term = poly->terms[at];
    const sym_node_t *node = sym_find(space, term.product);
    int n_beside = 0;
    if (node->kind == SYM_PRODUCT) return 0;
    for (int i = 0; i < poly->n; i++) {
        if (i != at && sym_contains(space, poly->terms[i].product, term.product)) return 0;
        n_beside += i != at && (poly->terms[i].factor < 0) == (term.factor < 0);
    }
    const bool is_whole = term.factor == 1 || term.factor == -1;
    if (node->kind != SYM_NAME) return is_whole ? 1 : 0;
    return 2 + node->name + (is_whole ? 1 << 20 : 0) + (n_beside == 0 ? 1 << 19 : 0);
}

/* Uses poly == 0 to replace one atom by the rest of the polynomial from now on. */
static void learn_replacement(sym_space_t *space, const sym_poly_t *poly)
{
    int best = 0;
    for (int i = 1; i < poly->n; i++)
        if (worth(space, poly, i) > worth(space, poly, best)) best = i;
    if (worth(space, poly, best) == 0) return;
    const sym_term_t term = poly->terms[best];
    sym_node_t *node = sym_find(space, term.product);
    const sym_poly_t alone = {1, 0, 1, {term}};
    sym_poly_t rest = *poly;
    const int64_t sign = term.factor < 0 ? 1 : -1;
    if (!sym_poly_add(space, &rest, -1, &alone) ||
        !sym_poly_scale(&rest, sign, sign * -term.factor))
        return;
    const sym_known_t known = sym_know(space, term.product);
    sym_poly_t least = rest, most = rest;
    const int64_t replacement = sym_store(space, &rest);
    if (replacement == SYM_NONE) return;
    /* known bounds of the atom are also bounds of the expression that replaces it */
    if (least.denominator == 1 && known.min > INT64_MIN / 2) {
        least.constant -= known.min;
        learn_not_negative(space, &least);
    }
    if (most.denominator == 1 && known.max < INT64_MAX / 2 && sym_poly_scale(&most, -1, 1)) {
        most.constant += known.max;
        learn_not_negative(space, &most);
    }
    node->replacement = replacement;
    space->stamp++;
}

/* Records the fact poly == 0. */
static void learn_zero(sym_space_t *space, const sym_poly_t *poly)
{
    sym_poly_t contrary = *poly;
    if (!sym_poly_scale(&contrary, -1, 1)) return;
    if (learn_remainder(space, poly)) return;
    learn_not_negative(space, poly);
    learn_not_negative(space, &contrary);
    if (poly->n > 1) learn_replacement(space, poly);
}

void sym_learn(sym_space_t *space, int64_t a)
{
    sym_poly_t poly;
    if (!sym_is(a) || !sym_load(space, a, &poly) || poly.n == 0) return;
    poly.denominator = 1;
    learn_not_negative(space, &poly);
}

/* ---- guards ---- */

bool sym_assume(sym_space_t *space, sym_relation_t relation, int64_t a)
{
    sym_poly_t poly;
    const size_t bytes = strlen(space->origin) + 1;
    if (!sym_load(space, a, &poly) || poly.n == 0) return false;
    char *origin = sym_get(space, bytes);
    if (origin == NULL || !sym_grow(space, &space->guards, &space->guard_capacity,
                                    space->n_guards + 1, sizeof *space->guards))
        return false;
    memcpy(origin, space->origin, bytes);
    space->guards[space->n_guards] = (sym_guard_t){relation, a, origin};
    atomic_store_explicit(&space->n_guards, space->n_guards + 1, memory_order_release);
    poly.denominator = 1;
    switch (relation) {
    case SYM_ZERO: learn_zero(space, &poly); break;
    case SYM_NOT_ZERO: learn_not_zero(space, &poly); break;
    default: learn_not_negative(space, &poly); break;
    }
    return space->status == STATUS_OK;
}

bool sym_holds(sym_relation_t relation, int64_t value)
{
    switch (relation) {
    case SYM_ZERO: return value == 0;
    case SYM_NOT_ZERO: return value != 0;
    default: return value >= 0;
    }
}
