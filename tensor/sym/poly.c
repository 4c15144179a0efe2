/* Sums of products of atoms, in normal form. The rules, with examples:
 *
 *   - the atoms of a product and the products of a sum are sorted: W*H is H*W
 *   - equal products are one term; terms of factor 0 are dropped:  H+H is 2*H, H-H is 0
 *   - a sum of one term of factor 1 is that product:               H+0 is H
 *   - a denominator divides the sum at all sizes that the guards allow, and has no divisor in
 *     common with all factors:                                     (4*H+8)/4 is H+2
 *   - x/2 and (x+1)/2, whose sum is x, are not in one sum, and are not subtracted:
 *                                                                  H-H/2 is (H+1)/2
 *   - if the guards allow only one value, the sum is that number */
#include <string.h>

#include "tensor/sym/sym_impl.h"

bool sym_is_integer(const sym_space_t *space, int64_t a)
{
    const sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    return sym_is(a) ? node != NULL && node->kind < SYM_REAL : true;
}

int sym_atoms(const sym_space_t *space, const int64_t *product, const int64_t **out_atoms)
{
    const sym_node_t *node = sym_find(space, *product);
    *out_atoms = node->kind == SYM_PRODUCT ? node->operands : product;
    return node->kind == SYM_PRODUCT ? node->n : 1;
}

/* Compares two products for sorting. Products with more atoms come first. */
static int compare_products(const sym_space_t *space, int64_t a, int64_t b)
{
    const int64_t *atoms_a, *atoms_b;
    if (a == b) return 0;
    const int n_a = sym_atoms(space, &a, &atoms_a), n_b = sym_atoms(space, &b, &atoms_b);
    if (n_a != n_b) return n_a > n_b ? -1 : 1;
    for (int i = 0; i < n_a; i++) {
        const int order = sym_compare(space, atoms_a[i], atoms_b[i]);
        if (order != 0) return order;
    }
    return 0;
}

static int64_t make_product(sym_space_t *space, int n, const int64_t *atoms)
{
    if (n == 0) return 1;
    if (n == 1) return atoms[0];
    const sym_node_t *node = sym_intern(space, SYM_PRODUCT, 0, n, atoms);
    return node != NULL ? node->handle : SYM_NONE;
}

int64_t sym_product_multiply(sym_space_t *space, int64_t a, int64_t b)
{
    const int64_t *atoms_a, *atoms_b;
    int64_t atoms[2 * SYM_MAX_FACTORS];
    const int n_a = sym_atoms(space, &a, &atoms_a), n_b = sym_atoms(space, &b, &atoms_b);
    int n = 0, i = 0, j = 0;
    if (n_a + n_b > SYM_MAX_FACTORS) return sym_limit(space, "factors", SYM_MAX_FACTORS);
    while (i < n_a || j < n_b) {
        const bool takes_a = j == n_b ||
                             (i < n_a && sym_compare(space, atoms_a[i], atoms_b[j]) <= 0);
        atoms[n++] = takes_a ? atoms_a[i++] : atoms_b[j++];
    }
    return make_product(space, n, atoms);
}

int64_t sym_product_divide(sym_space_t *space, int64_t a, int64_t b)
{
    const int64_t *atoms_a, *atoms_b;
    int64_t atoms[SYM_MAX_FACTORS];
    const int n_a = sym_atoms(space, &a, &atoms_a), n_b = sym_atoms(space, &b, &atoms_b);
    int n = 0, j = 0;
    for (int i = 0; i < n_a; i++)
        if (j < n_b && atoms_a[i] == atoms_b[j])
            j++;
        else
            atoms[n++] = atoms_a[i];
    return j == n_b ? make_product(space, n, atoms) : 0;
}

/* ---- sums ---- */

bool sym_load(sym_space_t *space, int64_t a, sym_poly_t *out)
{
    *out = (sym_poly_t){.denominator = 1};
    if (a == SYM_NONE) return false;
    if (!sym_is(a)) {
        out->constant = a;
        return true;
    }
    const sym_node_t *node = sym_find(space, a);
    if (node->kind != SYM_SUM) {
        out->terms[out->n++] = (sym_term_t){1, a};
        return true;
    }
    out->constant = node->operands[0];
    out->denominator = node->operands[1];
    out->n = (node->n - 2) / 2;
    for (int i = 0; i < out->n; i++)
        out->terms[i] = (sym_term_t){node->operands[2 + 2 * i], node->operands[3 + 2 * i]};
    return true;
}

int64_t sym_gcd(int64_t a, int64_t b)
{
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Multiplies *value by factor. Returns false if the result is so large that its negation, or the
 * sum of two such values, could overflow. */
static bool scale(int64_t *value, int64_t factor)
{
    const sym_wide_t wide = (sym_wide_t)*value * factor;
    *value = (int64_t)wide;
    return wide > INT64_MIN / 2 && wide < INT64_MAX / 2;
}

bool sym_poly_scale(sym_poly_t *a, int64_t factor, int64_t divisor)
{
    bool fits = scale(&a->constant, factor) && scale(&a->denominator, divisor);
    for (int i = 0; fits && i < a->n; i++) fits = scale(&a->terms[i].factor, factor);
    if (factor == 0) a->n = 0;
    return fits;
}

/* Adds b to a; both have the same denominator. */
static bool merge(sym_space_t *space, sym_poly_t *a, const sym_poly_t *b)
{
    sym_term_t terms[2 * SYM_MAX_TERMS];
    int n = 0, i = 0, j = 0;
    while (i < a->n || j < b->n) {
        int order = i == a->n ? 1 : -1;
        if (i < a->n && j < b->n)
            order = compare_products(space, a->terms[i].product, b->terms[j].product);
        terms[n] = order <= 0 ? a->terms[i++] : b->terms[j++];
        if (order == 0) terms[n].factor += b->terms[j++].factor;
        if (terms[n].factor != 0) n++;
    }
    if (n > SYM_MAX_TERMS) return sym_limit(space, "terms", SYM_MAX_TERMS) != SYM_NONE;
    for (int k = 0; k < n; k++) a->terms[k] = terms[k];
    a->n = n;
    a->constant += b->constant;
    return true;
}

bool sym_poly_add(sym_space_t *space, sym_poly_t *a, int64_t factor, const sym_poly_t *b)
{
    sym_poly_t other = *b;
    const int64_t common = sym_gcd(a->denominator, b->denominator);
    const int64_t for_a = b->denominator / common, for_b = a->denominator / common;
    if (!scale(&factor, for_b) || !sym_poly_scale(a, for_a, for_a) ||
        !sym_poly_scale(&other, factor, for_b))
        return false;
    return merge(space, a, &other);
}

bool sym_poly_multiply(sym_space_t *space, const sym_poly_t *a, const sym_poly_t *b,
                       sym_poly_t *out)
{
    *out = (sym_poly_t){.denominator = 1};
    for (int i = -1; i < a->n; i++) {
        sym_poly_t row = *b;
        const int64_t factor = i < 0 ? a->constant : a->terms[i].factor;
        if (factor == 0) continue;
        row.denominator = 1;
        row.n = 0;
        if (i >= 0) row.constant = 0;
        for (int j = -1; j < b->n; j++) {
            const int64_t other = j < 0 ? b->constant : b->terms[j].factor;
            if (other == 0 || (i < 0 && j < 0)) continue;
            int64_t product = i < 0   ? b->terms[j].product
                              : j < 0 ? a->terms[i].product
                                      : sym_product_multiply(space, a->terms[i].product,
                                                             b->terms[j].product);
            sym_poly_t one = {1, 0, 1, {{other, product}}};
            if (product == SYM_NONE || !merge(space, &row, &one)) return false;
        }
        if (!sym_poly_add(space, out, factor, &row)) return false;
    }
    out->denominator = a->denominator;
    return scale(&out->denominator, b->denominator);
}

static void reduce(sym_poly_t *poly)
{
    int64_t common = sym_gcd(poly->constant, poly->denominator);
    for (int i = 0; i < poly->n && common != 1; i++)
        common = sym_gcd(common, poly->terms[i].factor);
    if (common < 2) return;
    for (int i = 0; i < poly->n; i++) poly->terms[i].factor /= common;
    poly->constant /= common;
    poly->denominator /= common;
}

/* If the product is a quotient by 2, loads its numerator; otherwise returns false. */
static bool load_half(sym_space_t *space, int64_t product, sym_poly_t *out_numerator)
{
    const sym_node_t *node = sym_find(space, product);
    return node->kind == SYM_QUOTIENT && node->operands[1] == 2 &&
           sym_load(space, node->operands[0], out_numerator);
}

/* For a term x/2, returns the index of a term (x+1)/2, and the reverse; -1 if there is none. */
static int find_half(sym_space_t *space, const sym_poly_t *poly, int at,
                     const sym_poly_t *numerator)
{
    sym_poly_t other;
    for (int i = 0; i < poly->n; i++) {
        if (i == at || !load_half(space, poly->terms[i].product, &other)) continue;
        if (other.n == numerator->n && other.constant == 1 - numerator->constant &&
            memcmp(other.terms, numerator->terms, (size_t)other.n * sizeof *other.terms) == 0)
            return i;
    }
    return -1;
}

/* Adds count * (x - x/2 - (x+1)/2), which is always 0. */
static bool add_halves(sym_space_t *space, sym_poly_t *poly, int64_t count, sym_poly_t *x,
                       int64_t half, int64_t other)
{
    const sym_poly_t first = {1, 0, 1, {{-1, half}}}, second = {1, 0, 1, {{-1, other}}};
    x->constant = 0;
    return merge(space, x, &first) && merge(space, x, &second) && sym_poly_scale(x, count, 1) &&
           merge(space, poly, x);
}

/* Adds multiples of x - x/2 - (x+1)/2, so that x/2 or (x+1)/2 disappears. */
static bool join_halves(sym_space_t *space, sym_poly_t *poly)
{
    for (int i = 0; i < poly->n; i++) {
        sym_poly_t x;
        const sym_term_t term = poly->terms[i];
        if (!load_half(space, term.product, &x)) continue;
        const int at = find_half(space, poly, i, &x);
        const int64_t factor = at < 0 ? 0 : poly->terms[at].factor;
        const int64_t less = term.factor < factor ? term.factor : factor;
        if (less == 0) continue;
        sym_poly_t numerator = x, check;
        numerator.constant = 1 - x.constant;
        const int64_t other = at >= 0 ? poly->terms[at].product
                                      : sym_quotient(space, sym_store(space, &numerator), 2);
        if (!sym_is(other) || other == SYM_NONE || !load_half(space, other, &check)) continue;
        if (!add_halves(space, poly, less, &x, term.product, other)) return false;
        i = -1;
    }
    return true;
}

int64_t sym_store(sym_space_t *space, sym_poly_t *poly)
{
    if (!join_halves(space, poly)) return SYM_NONE;
    reduce(poly);
    if (poly->n == 0) {
        const int64_t value = sym_floor(poly->constant, poly->denominator);
        return sym_is_number(value) ? value : SYM_NONE;
    }
    if (poly->n == 1 && poly->constant == 0 && poly->denominator == 1 && poly->terms[0].factor == 1)
        return poly->terms[0].product;
    int64_t operands[2 + 2 * SYM_MAX_TERMS] = {poly->constant, poly->denominator};
    for (int i = 0; i < poly->n; i++) {
        operands[2 + 2 * i] = poly->terms[i].factor;
        operands[3 + 2 * i] = poly->terms[i].product;
    }
    if (space->n_sum_facts > 0) {
        const sym_known_t known = sym_poly_know(space, poly);
        if (known.min == known.max) return known.min;
    }
    const sym_node_t *node = sym_intern(space, SYM_SUM, 0, 2 + 2 * poly->n, operands);
    return node != NULL ? node->handle : SYM_NONE;
}

int64_t sym_form(sym_space_t *space, const sym_poly_t *poly, bool makes, int64_t *out_factor)
{
    int64_t common = 0, operands[2 + 2 * SYM_MAX_TERMS] = {0, 1};
    for (int i = 0; i < poly->n; i++) common = sym_gcd(common, poly->terms[i].factor);
    if (poly->terms[0].factor < 0) common = -common;
    *out_factor = common;
    if (poly->n == 1) return poly->terms[0].product;
    for (int i = 0; i < poly->n; i++) {
        operands[2 + 2 * i] = poly->terms[i].factor / common;
        operands[3 + 2 * i] = poly->terms[i].product;
    }
    const int n = 2 + 2 * poly->n;
    const sym_node_t *node = makes ? sym_intern(space, SYM_SUM, 0, n, operands)
                                   : sym_look_up(space, SYM_SUM, 0, n, operands);
    return node != NULL ? node->handle : SYM_NONE;
}
