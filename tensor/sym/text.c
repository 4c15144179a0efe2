/* Prints expressions and guards in the grammar of parse.c. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/sym/sym_impl.h"
#include "tensor/text/text.h"

/* Writes to `grows` or, if that is NULL, to the buffer `text`, cut to `capacity`. */
typedef struct writer {
    const sym_space_t *space;
    text_t *grows;
    char *text;
    size_t capacity, length;
} writer_t;

/* Precedence: an expression is put in brackets if its precedence is lower than its context
 * requires. */
typedef enum level { LEVEL_SUM, LEVEL_PRODUCT, LEVEL_FACTOR } level_t;

static void write(writer_t *writer, const char *format, ...) TESSERA_PRINTF(2, 3);
static void write(writer_t *writer, const char *format, ...)
{
    char piece[192];
    va_list arguments;
    va_start(arguments, format);
    if (writer->grows != NULL) {
        vsnprintf(piece, sizeof piece, format, arguments);
        text_append(writer->grows, "%s", piece);
        writer->length += strlen(piece);
    }
    if (writer->length + 1 >= writer->capacity || writer->grows != NULL) {
        va_end(arguments);
        return;
    }
    const int n = vsnprintf(writer->text + writer->length, writer->capacity - writer->length,
                            format, arguments);
    va_end(arguments);
    writer->length += n > 0 ? (size_t)n : 0;
    if (writer->length >= writer->capacity) writer->length = writer->capacity - 1;
}

static void write_operand(writer_t *writer, int64_t a, level_t level);

/* ---- sums ---- */

/* A sum prepared for printing: poly + factor * (a % divisor). */
typedef struct view {
    sym_poly_t poly;
    sym_poly_t a;
    int64_t factor, divisor; /* factor 0: there is no remainder */
    int64_t joined; /* quotient that is printed with the constant in its numerator; 0: none */
} view_t;

static void load(const sym_space_t *space, int64_t a, sym_poly_t *out)
{
    /* sym_load does not modify the space */
    (void)sym_load((sym_space_t *)(uintptr_t)space, a, out);
}

/* Subtracts factor * a from poly, if each term of factor * a is a term of poly; otherwise returns
 * false. */
static bool take(sym_poly_t *poly, int64_t factor, const sym_poly_t *a)
{
    sym_poly_t rest = *poly;
    for (int i = 0; i < a->n; i++) {
        int at = 0;
        while (at < rest.n && rest.terms[at].product != a->terms[i].product) at++;
        if (at == rest.n ||
            (sym_wide_t)rest.terms[at].factor != (sym_wide_t)factor * a->terms[i].factor)
            return false;
        memmove(&rest.terms[at], &rest.terms[at + 1],
                (size_t)(rest.n - at - 1) * sizeof *rest.terms);
        rest.n--;
    }
    *poly = rest;
    return true;
}

/* Finds terms that can be printed with %: k*a - k*d*(a/d) is k*(a % d), and 2*k*((a+1)/2) - k*a is
 * k*(a % 2). k must be positive unless may_be_minus. */
static void find_remainder(const sym_space_t *space, bool may_be_minus, view_t *view)
{
    for (int i = 0; i < view->poly.n && view->poly.denominator == 1; i++) {
        const sym_term_t term = view->poly.terms[i];
        const sym_node_t *node = sym_find(space, term.product);
        sym_poly_t a, rest = view->poly;
        if (node->kind != SYM_QUOTIENT || sym_is(node->operands[1])) continue;
        const int64_t divisor = node->operands[1];
        const sym_poly_t alone = {1, 0, 1, {{1, term.product}}};
        load(space, node->operands[0], &a);
        if (term.factor % divisor != 0 || !take(&rest, term.factor, &alone)) continue;
        const bool is_half = divisor == 2 && a.constant == 1;
        const int64_t factor = -(term.factor / divisor);
        if (!take(&rest, factor, &a) || (!may_be_minus && (factor < 0) != is_half)) continue;
        if (!is_half) rest.constant -= factor * a.constant;
        if (is_half) a.constant = 0;
        view->factor = is_half ? -factor : factor;
        view->divisor = divisor;
        view->a = a;
        view->poly = rest;
        return;
    }
}

static void write_poly(writer_t *writer, const sym_poly_t *poly, level_t level);

/* Moves a constant into the only quotient: "(H+1)/2-1" prints as "(H-1)/2". */
static void join_constant(const sym_space_t *space, view_t *view)
{
    const sym_poly_t *poly = &view->poly;
    for (int i = 0; i < poly->n; i++) {
        const sym_node_t *node = sym_find(space, poly->terms[i].product);
        sym_poly_t numerator;
        if (node->kind != SYM_QUOTIENT) continue;
        load(space, node->operands[0], &numerator);
        const bool joins = view->joined == 0 && poly->terms[i].factor == 1 &&
                           !sym_is(node->operands[1]) && numerator.constant != 0 && numerator.n > 0;
        view->joined = joins ? node->handle : 0;
        if (!joins) return;
    }
}

static void write_joined(writer_t *writer, const view_t *view)
{
    const sym_node_t *node = sym_find(writer->space, view->joined);
    sym_poly_t numerator;
    load(writer->space, node->operands[0], &numerator);
    numerator.constant += node->operands[1] * view->poly.constant;
    write_poly(writer, &numerator, LEVEL_PRODUCT);
    write(writer, "/%" PRId64, node->operands[1]);
}

static void write_product(writer_t *writer, int64_t factor, int64_t product)
{
    const int64_t *atoms;
    const int n = sym_atoms(writer->space, &product, &atoms);
    if (factor != 1) write(writer, "%" PRId64, factor);
    for (int i = 0; i < n; i++) {
        if (i > 0 || factor != 1) write(writer, "*");
        write_operand(writer, atoms[i], i > 0 || factor != 1 ? LEVEL_FACTOR : LEVEL_PRODUCT);
    }
}

/* Writes a remainder such as "H%8" or "3*((H+1)%4)". */
static void write_remainder(writer_t *writer, const view_t *view, int64_t factor)
{
    if (factor != 1) write(writer, "%" PRId64 "*(", factor);
    write_poly(writer, &view->a, LEVEL_PRODUCT);
    write(writer, "%%%" PRId64 "%s", view->divisor, factor != 1 ? ")" : "");
}

static int64_t magnitude(int64_t a)
{
    return a < 0 ? -a : a;
}

/* Writes the terms of a sum, positive ones first: "H-W+1", "3-H". */
static void write_terms(writer_t *writer, const view_t *view)
{
    const size_t begin = writer->length;
    const sym_poly_t *poly = &view->poly;
    const bool has_added = view->factor > 0 || (poly->n > 0 && poly->terms[0].factor > 0) ||
                           poly->constant <= 0;
    bool is_constant_first = !has_added;
    for (int i = 0; i < poly->n; i++) is_constant_first &= poly->terms[i].factor < 0;
    if (is_constant_first) write(writer, "%" PRId64, poly->constant);
    for (int pass = 0; pass < 2; pass++) {
        if (view->factor != 0 && (view->factor < 0) == (pass == 1)) {
            if (writer->length > begin || pass == 1) write(writer, pass == 0 ? "+" : "-");
            write_remainder(writer, view, magnitude(view->factor));
        }
        for (int i = 0; i < poly->n; i++) {
            if ((poly->terms[i].factor < 0) != (pass == 1)) continue;
            if (writer->length > begin || pass == 1) write(writer, pass == 0 ? "+" : "-");
            if (poly->terms[i].product == view->joined)
                write_joined(writer, view);
            else
                write_product(writer, magnitude(poly->terms[i].factor), poly->terms[i].product);
        }
    }
    if (poly->constant != 0 && !is_constant_first && view->joined == 0)
        write(writer, "%s%" PRId64, poly->constant > 0 && writer->length > begin ? "+" : "",
              poly->constant);
    if (writer->length == begin) write(writer, "0");
}

static void write_poly(writer_t *writer, const sym_poly_t *poly, level_t level)
{
    view_t view = {.poly = *poly};
    view.poly.denominator = 1;
    find_remainder(writer->space, false, &view);
    if (view.poly.constant != 0 && poly->denominator == 1) join_constant(writer->space, &view);
    const int n = view.poly.n + (view.factor != 0) + (view.poly.constant != 0);
    const bool is_minus = view.factor < 0 || (view.poly.n > 0 && view.poly.terms[0].factor < 0) ||
                          view.poly.constant < 0;
    const bool is_one = n <= 1 && !is_minus;
    const bool has_divisor = poly->denominator != 1;
    const bool has_outer = (has_divisor || (is_one && (view.factor != 0 || view.poly.n == 1)))
                               ? level == LEVEL_FACTOR
                               : level != LEVEL_SUM && !(is_one && view.poly.constant != 0);
    const bool has_inner = has_divisor && !is_one;
    if (has_outer) write(writer, "(");
    if (has_inner) write(writer, "(");
    write_terms(writer, &view);
    if (has_inner) write(writer, ")");
    if (has_divisor) write(writer, "/%" PRId64, poly->denominator);
    if (has_outer) write(writer, ")");
}

/* ---- other expressions ---- */

static void write_list(writer_t *writer, const char *function, const sym_node_t *node)
{
    write(writer, "%s(", function);
    for (int i = 0; i < node->n; i++) {
        if (i > 0) write(writer, ",");
        write_operand(writer, node->operands[i], LEVEL_SUM);
    }
    write(writer, ")");
}

static void write_pair(writer_t *writer, const sym_node_t *node, const char *operation,
                       bool has_brackets)
{
    const char first = operation[0];
    const bool is_product = first == '*' || first == '/', is_sum = first == '+' || first == '-';
    if (has_brackets) write(writer, "(");
    write_operand(writer, node->operands[0], is_product ? LEVEL_PRODUCT : LEVEL_SUM);
    write(writer, "%s", operation);
    write_operand(writer, node->operands[1],
                  is_product ? LEVEL_FACTOR
                  : is_sum   ? LEVEL_PRODUCT
                             : LEVEL_SUM);
    if (has_brackets) write(writer, ")");
}

/* Writes the fewest digits from which the same number can be read. */
static void write_number(writer_t *writer, bool is_f32, double number)
{
    char digits[40] = "";
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, number);
        const double back = strtod(digits, NULL);
        if ((is_f32 ? (double)(float)back : back) == number || isnan(number)) break;
    }
    write(writer, "%s(%s)", is_f32 ? "f32" : "f64", digits);
}

static void write_node(writer_t *writer, const sym_node_t *node, level_t level)
{
    static const char *const roundings[] = {"floor", "ceil",    "trunc",
                                            "round", "half_up", "half_down"};
    const char *type = node->part == SYM_F32 ? "f32" : "f64";
    switch ((sym_kind_t)node->kind) {
    case SYM_NAME: write(writer, "%s", node->text); break;
    case SYM_QUOTIENT: write_pair(writer, node, "/", level == LEVEL_FACTOR); break;
    case SYM_MINIMUM: write_list(writer, "min", node); break;
    case SYM_MAXIMUM: write_list(writer, "max", node); break;
    case SYM_CHOICE: write_list(writer, "select", node); break;
    case SYM_EQUALS: write_pair(writer, node, "==", true); break;
    case SYM_LESS: write_pair(writer, node, "<", true); break;
    case SYM_ROUNDED: write_list(writer, roundings[node->part], node); break;
    case SYM_REAL: write_number(writer, node->part == SYM_F32, node->hint.real); break;
    case SYM_TO_REAL: write_list(writer, type, node); break;
    case SYM_ARITHMETIC_ADD: write_pair(writer, node, "+", level != LEVEL_SUM); break;
    case SYM_ARITHMETIC_SUBTRACT: write_pair(writer, node, "-", level != LEVEL_SUM); break;
    case SYM_ARITHMETIC_MULTIPLY: write_pair(writer, node, "*", level == LEVEL_FACTOR); break;
    default: write_pair(writer, node, "/", level == LEVEL_FACTOR); break;
    }
}

static void write_operand(writer_t *writer, int64_t a, level_t level)
{
    sym_poly_t poly;
    const sym_node_t *node = sym_is(a) && writer->space != NULL ? sym_find(writer->space, a) : NULL;
    if (sym_is(a) && node == NULL) {
        write(writer, "?");
    } else if (node != NULL && node->kind != SYM_SUM && node->kind != SYM_PRODUCT) {
        write_node(writer, node, level);
    } else {
        load(writer->space, a, &poly);
        write_poly(writer, &poly, level);
    }
}

const char *sym_print(const sym_space_t *space, int64_t a, size_t capacity, char *out_text)
{
    writer_t writer = {space, NULL, out_text, capacity, 0};
    if (capacity > 0) out_text[0] = '\0';
    write_operand(&writer, a, LEVEL_SUM);
    return out_text;
}

void sym_append(text_t *text, const sym_space_t *space, int64_t a)
{
    writer_t writer = {.space = space, .grows = text};
    write_operand(&writer, a, LEVEL_SUM);
}

/* ---- guards ---- */

/* Writes "H % 8 == 0": the dividend's constant moves to the right-hand side. */
static void write_remainder_guard(writer_t *writer, view_t *view, sym_relation_t relation)
{
    const int64_t d = view->divisor;
    int64_t rest = -view->poly.constant / view->factor - view->a.constant;
    rest = (rest % d + d) % d;
    view->a.constant = 0;
    write_poly(writer, &view->a, LEVEL_PRODUCT);
    write(writer, " %% %" PRId64 " %s %" PRId64, d, relation == SYM_ZERO ? "==" : "!=", rest);
}

/* Moves negative terms to the right-hand side. */
static void split(const sym_poly_t *poly, int64_t sign, sym_poly_t *out_left, sym_poly_t *out_right)
{
    *out_left = *out_right = (sym_poly_t){.denominator = 1};
    out_right->constant = -sign * poly->constant;
    for (int i = 0; i < poly->n; i++) {
        const int64_t factor = sign * poly->terms[i].factor;
        sym_poly_t *side = factor > 0 ? out_left : out_right;
        side->terms[side->n++] = (sym_term_t){magnitude(factor), poly->terms[i].product};
    }
}

static bool is_single(const sym_poly_t *poly)
{
    return poly->n == 1 && poly->terms[0].factor == 1;
}

static void write_guard(writer_t *writer, sym_relation_t relation, int64_t a)
{
    view_t view = {.factor = 0};
    sym_poly_t left, right;
    load(writer->space, a, &view.poly);
    view.poly.denominator = 1;
    const sym_poly_t poly = view.poly;
    find_remainder(writer->space, true, &view);
    if (view.factor != 0 && view.poly.n == 0 && relation != SYM_NOT_NEGATIVE &&
        view.poly.constant % view.factor == 0) {
        write_remainder_guard(writer, &view, relation);
        return;
    }
    bool is_turned = false;
    split(&poly, 1, &left, &right);
    const bool is_wide = !is_single(&left) || right.constant < 0;
    if (left.n == 0 || (relation != SYM_NOT_NEGATIVE && is_wide && is_single(&right))) {
        is_turned = true;
        split(&poly, -1, &left, &right);
    }
    const char *sign = relation == SYM_ZERO ? "==" : "!=";
    if (relation == SYM_NOT_NEGATIVE) {
        const bool is_strict = right.n > 0 && right.constant == (is_turned ? -1 : 1);
        sign = is_turned ? (is_strict ? "<" : "<=") : is_strict ? ">" : ">=";
        if (is_strict) right.constant = 0;
    }
    write_poly(writer, &left, LEVEL_SUM);
    write(writer, " %s ", sign);
    write_poly(writer, &right, LEVEL_SUM);
}

const char *sym_guard_text(const sym_space_t *space, int k, size_t capacity, char *out_text)
{
    writer_t writer = {space, NULL, out_text, capacity, 0};
    if (capacity > 0) out_text[0] = '\0';
    write_guard(&writer, space->guards[k].relation, space->guards[k].value);
    return out_text;
}

void sym_append_guard(text_t *text, const sym_space_t *space, int k)
{
    writer_t writer = {.space = space, .grows = text};
    write_guard(&writer, space->guards[k].relation, space->guards[k].value);
}
