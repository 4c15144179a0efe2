/* Quotients, rounded down, in normal form. The rules, with examples:
 *
 *   - multiples of the divisor are pulled out:             (9*x+y+8)/8 is x+(x+y)/8+1
 *   - a remainder that is known is dropped:                (2*x+1)/2 is x
 *   - an exact quotient times its divisor is cancelled:    H/8*8 is H if H % 8 == 0
 *   - a divisor of all coefficients is cancelled:          (4*x+3)/8 is x/2
 *   - nested quotients are joined:                         (x/2+1)/3 is (x+2)/6
 *   - if only one value is possible, it is the quotient:   (x%8)/8 is 0
 *   - factors of numerator and divisor are cancelled:      (H*W)/W is H, (H*W*2)/(W*4) is H/2
 *   - multiples of a symbolic divisor are pulled out:      (H*W+1)/W is H+1/W
 *
 * So if the divisor of a quotient in normal form is a number d, the coefficients and the constant
 * of the numerator are between 0 and d-1. */
#include "tensor/sym/sym_impl.h"

static int64_t rest_of(int64_t a, int64_t b)
{
    return a - b * sym_floor(a, b);
}

/* Returns quotient + atom; atom and the result are symbolic integers (handles or numbers). */
static int64_t finish(sym_space_t *space, sym_poly_t *quotient, int64_t atom)
{
    sym_poly_t one;
    if (!sym_load(space, atom, &one) || !sym_poly_add(space, quotient, 1, &one)) return SYM_NONE;
    return sym_store(space, quotient);
}

static int64_t make(sym_space_t *space, int64_t numerator, int64_t divisor)
{
    const int64_t operands[2] = {numerator, divisor};
    if (numerator == SYM_NONE || divisor == SYM_NONE) return SYM_NONE;
    return sym_atom(space, sym_intern(space, SYM_QUOTIENT, 0, 2, operands));
}

/* Moves multiples of the divisor from a to quotient. */
static void pull_out(sym_poly_t *a, int64_t divisor, sym_poly_t *quotient)
{
    int n = 0;
    *quotient = (sym_poly_t){.denominator = 1, .constant = sym_floor(a->constant, divisor)};
    a->constant = rest_of(a->constant, divisor);
    for (int i = 0; i < a->n; i++) {
        const sym_term_t term = a->terms[i];
        const int64_t pulled = sym_floor(term.factor, divisor),
                      rest = rest_of(term.factor, divisor);
        if (pulled != 0) quotient->terms[quotient->n++] = (sym_term_t){pulled, term.product};
        if (rest != 0) a->terms[n++] = (sym_term_t){rest, term.product};
    }
    a->n = n;
}

/* Cancels a common divisor of the coefficients and the divisor: (4*x+3)/8 becomes x/2. */
static void cancel(sym_poly_t *a, int64_t *divisor)
{
    int64_t common = *divisor;
    for (int i = 0; i < a->n && common > 1; i++) common = sym_gcd(a->terms[i].factor, common);
    if (common < 2) return;
    for (int i = 0; i < a->n; i++) a->terms[i].factor /= common;
    a->constant = sym_floor(a->constant, common);
    *divisor /= common;
}

/* Joins nested quotients: (m/k+r)/divisor becomes (m+k*r)/(k*divisor). Returns false if there is no
 * term m/k, or on overflow. */
static bool flatten(sym_space_t *space, sym_poly_t *a, int64_t *divisor)
{
    for (int i = 0; i < a->n; i++) {
        const sym_node_t *node = sym_find(space, a->terms[i].product);
        const bool is_flat = a->terms[i].factor == 1 && node->kind == SYM_QUOTIENT &&
                             !sym_is(node->operands[1]);
        sym_poly_t rest = *a, numerator;
        const int64_t inner = is_flat ? node->operands[1] : 0;
        const sym_poly_t term = {1, 0, 1, {{1, a->terms[i].product}}};
        if (!is_flat || *divisor > (INT64_C(1) << 40) / inner) continue;
        if (sym_load(space, node->operands[0], &numerator) &&
            sym_poly_add(space, &rest, -1, &term) &&
            sym_poly_add(space, &numerator, inner, &rest)) {
            *a = numerator;
            *divisor *= inner;
            return true;
        }
    }
    return false;
}

/* Divides a polynomial whose denominator is 1 by a positive number. */
static int64_t divide_by_number(sym_space_t *space, sym_poly_t *a, int64_t divisor)
{
    sym_poly_t whole = {.denominator = 1}, pulled;
    do {
        const sym_known_t known = sym_poly_know(space, a);
        if (known.modulus % divisor == 0) {
            a->constant -= rest_of(known.remainder, divisor);
            if (!sym_poly_scale(a, 1, divisor) || !sym_poly_add(space, &whole, 1, a))
                return SYM_NONE;
            return sym_store(space, &whole);
        }
        pull_out(a, divisor, &pulled);
        if (!sym_poly_add(space, &whole, 1, &pulled)) return SYM_NONE;
        if (a->n == 0) return sym_store(space, &whole);
        cancel(a, &divisor);
    } while (flatten(space, a, &divisor));
    if (divisor == 1)
        return sym_poly_add(space, &whole, 1, a) ? sym_store(space, &whole) : SYM_NONE;
    const sym_known_t known = sym_poly_know(space, a);
    if (known.min > SYM_LOWEST && known.max < SYM_HIGHEST &&
        sym_floor(known.min, divisor) == sym_floor(known.max, divisor))
        return finish(space, &whole, sym_floor(known.min, divisor));
    return finish(space, &whole, make(space, sym_store(space, a), divisor));
}

/* ---- symbolic divisors ---- */

/* Finds the largest product of atoms that divides all terms of a and b; 1 if there is none. */
static int64_t common_product(sym_space_t *space, const sym_poly_t *a, const sym_poly_t *b)
{
    const int64_t *atoms;
    int64_t common = 1;
    const int64_t first = b->terms[0].product;
    if (a->constant != 0 || b->constant != 0) return 1;
    const int n = sym_atoms(space, &first, &atoms);
    for (int i = 0; i < n; i++) {
        const int64_t wanted = common == 1 ? atoms[i]
                                           : sym_product_multiply(space, common, atoms[i]);
        bool divides = wanted != SYM_NONE;
        for (int k = 0; k < a->n && divides; k++)
            divides = sym_product_divide(space, a->terms[k].product, wanted) != 0;
        for (int k = 0; k < b->n && divides; k++)
            divides = sym_product_divide(space, b->terms[k].product, wanted) != 0;
        if (divides) common = wanted;
    }
    return common;
}

static bool divide_terms(sym_space_t *space, sym_poly_t *a, int64_t product)
{
    sym_poly_t result = {.constant = a->constant, .denominator = a->denominator};
    for (int i = 0; i < a->n; i++) {
        const int64_t quotient = sym_product_divide(space, a->terms[i].product, product);
        sym_poly_t one = {1, 0, a->denominator, {{a->terms[i].factor, quotient}}};
        if (quotient == 1) one = (sym_poly_t){0, a->terms[i].factor, a->denominator, {{0, 0}}};
        if (quotient == SYM_NONE || !sym_poly_add(space, &result, 1, &one)) return false;
    }
    *a = result;
    return true;
}

static void divide_content(sym_poly_t *a, sym_poly_t *b)
{
    int64_t common = sym_gcd(a->constant, b->constant < 0 ? -b->constant : b->constant);
    for (int i = 0; i < a->n; i++) common = sym_gcd(a->terms[i].factor, common);
    for (int i = 0; i < b->n; i++) common = sym_gcd(b->terms[i].factor, common);
    if (b->terms[0].factor < 0) common = -common;
    for (int i = 0; i < a->n; i++) a->terms[i].factor /= common;
    for (int i = 0; i < b->n; i++) b->terms[i].factor /= common;
    a->constant /= common;
    b->constant /= common;
}

/* Polynomial division: subtracts multiples of b from a as long as a term of a is divisible by the
 * first term of b. The remainder is left in a. The caller uses a remainder that is not 0 only if b
 * has a single term. */
static bool divide_by_sum(sym_space_t *space, sym_poly_t *a, const sym_poly_t *b,
                          sym_poly_t *quotient)
{
    *quotient = (sym_poly_t){.denominator = 1};
    for (int i = 0, n_steps = 0; i < a->n && n_steps < 2 * SYM_MAX_TERMS; n_steps++) {
        const sym_term_t term = a->terms[i], lead = b->terms[0];
        int64_t product = sym_product_divide(space, term.product, lead.product);
        const int64_t factor = sym_floor(term.factor, lead.factor);
        sym_poly_t one = {1, 0, 1, {{factor, product}}}, times;
        if (product == 1) one = (sym_poly_t){0, factor, 1, {{0, 0}}};
        if (product == 0 || factor == 0) {
            i++;
            continue;
        }
        if (product == SYM_NONE || !sym_poly_multiply(space, &one, b, &times) ||
            !sym_poly_add(space, a, -1, &times) || !sym_poly_add(space, quotient, 1, &one))
            return false;
    }
    return true;
}

static int64_t divide_by_expression(sym_space_t *space, sym_poly_t *a, sym_poly_t *b)
{
    sym_poly_t rest, quotient;
    const int64_t common = a->n > 0 && b->n > 0 ? common_product(space, a, b) : 1;
    if (common == SYM_NONE) return SYM_NONE;
    if (common != 1 && (!divide_terms(space, a, common) || !divide_terms(space, b, common)))
        return SYM_NONE;
    if (b->n > 0) divide_content(a, b);
    if (b->n == 0) {
        if (b->constant < 0 && (!sym_poly_scale(a, -1, 1) || !sym_poly_scale(b, -1, 1)))
            return SYM_NONE;
        return divide_by_number(space, a, b->constant);
    }
    rest = *a;
    if (!divide_by_sum(space, &rest, b, &quotient)) return SYM_NONE;
    const bool is_exact = rest.n == 0 && rest.constant == 0;
    if (is_exact) return sym_store(space, &quotient);
    if (b->n > 1 || b->constant != 0) {
        rest = *a;
        quotient = (sym_poly_t){.denominator = 1};
    }
    /* if 0 <= rest < b, `quotient` is a / b rounded down */
    sym_poly_t above = *b;
    above.constant--;
    if (!sym_poly_add(space, &above, -1, &rest)) return SYM_NONE;
    if (sym_poly_know(space, &rest).min >= 0 && sym_poly_know(space, &above).min >= 0)
        return sym_store(space, &quotient);
    const int64_t numerator = sym_store(space, &rest);
    return finish(space, &quotient, make(space, numerator, sym_store(space, b)));
}

int64_t sym_quotient(sym_space_t *space, int64_t a, int64_t b)
{
    sym_poly_t numerator, divisor;
    if (b == 0 || !sym_load(space, a, &numerator) || !sym_load(space, b, &divisor)) return SYM_NONE;
    const int64_t over = numerator.denominator;
    numerator.denominator = 1;
    if (!sym_poly_scale(&numerator, divisor.denominator, 1)) return SYM_NONE;
    divisor.denominator = 1;
    if (!sym_poly_scale(&divisor, over, 1)) return SYM_NONE;
    return divide_by_expression(space, &numerator, &divisor);
}
