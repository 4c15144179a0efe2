/* Parses expressions and guards:
 *
 *   guard      = sum ("==" | "!=" | ">=" | "<=" | ">" | "<") sum        H % 8 == 0
 *   comparison = sum [("==" | "<") sum]
 *   sum        = product {("+" | "-") product}
 *   product    = factor {("*" | "/" | "%") factor}                      / rounds down
 *   factor     = "-" factor | integer | name | "#" digit {digit} | "(" comparison ")"
 *              | function "(" comparison {"," comparison} ")"
 *   function   = "min" | "max" | "select" | "floor" | "ceil" | "trunc" | "round" | "half_up"
 *              | "half_down" | "f32" | "f64"
 *
 * A name is a letter or "_", then letters, digits, "_" and ".". Blanks are allowed between symbols.
 * f32(1.5) is a floating-point constant, f32(H) converts a size; arithmetic on two floating-point
 * numbers results in one. floor, ceil, trunc (towards zero), round (halves to even), half_up and
 * half_down convert to an integer. select(c,a,b) is a if c is not 0, else b. */
#include <string.h>

#include "tensor/sym/sym_impl.h"
#include "tensor/text/literal_impl.h"

#define MAX_NESTED 64
#define MAX_NAME 128

typedef struct reader {
    sym_space_t *space;
    const char *at;
    int depth;
} reader_t;

static int64_t fail(reader_t *reader, const char *expected)
{
    return sym_fail(reader->space, STATUS_INVALID_ARGUMENT, "\"%.*s\", %s is needed",
                    literal_length(reader->at, 40), reader->at, expected);
}

/* Reports an invalid expression. */
static int64_t refuse(reader_t *reader, const char *what)
{
    return sym_fail(reader->space, STATUS_INVALID_ARGUMENT, "%s", what);
}

static bool take(reader_t *reader, const char *symbol)
{
    const size_t n = strlen(symbol);
    literal_skip_blanks(&reader->at);
    if (strncmp(reader->at, symbol, n) != 0) return false;
    reader->at += n;
    return true;
}

static int64_t read_comparison(reader_t *reader);

static bool is_real(const reader_t *reader, int64_t a)
{
    return a != SYM_NONE && sym_is(a) && !sym_is_integer(reader->space, a);
}

/* Reads a word, or a text such as "#2". Returns false if there is none. */
static bool read_word(reader_t *reader, char *out_word)
{
    size_t n = 0;
    const char *begin = reader->at;
    if (*begin == '#')
        for (n = 1; begin[n] >= '0' && begin[n] <= '9'; n++) continue;
    else if (*begin == '_')
        while (literal_is_name(begin[n])) n++;
    else
        n = literal_name_length(begin);
    if (n == 0 || n >= MAX_NAME || (n == 1 && *begin == '#')) return false;
    memcpy(out_word, begin, n);
    out_word[n] = '\0';
    reader->at += n;
    return true;
}

/* Reads the rest of "f32(1.5)" or "f32(H)" after the opening bracket. */
static int64_t read_real(reader_t *reader, sym_real_t type)
{
    double number;
    const char *begin = reader->at;
    if (literal_float(&reader->at, &number) == LITERAL_OK && take(reader, ")"))
        return sym_real_number(reader->space, type, number);
    reader->at = begin;
    const int64_t a = read_comparison(reader);
    if (a == SYM_NONE) return SYM_NONE;
    if (!take(reader, ")")) return fail(reader, "a \")\"");
    return sym_made_real(reader->space, type, a);
}

/* Reads operands and the closing bracket. Returns the number of operands; -1 on failure. */
static int read_operands(reader_t *reader, int64_t *out_operands)
{
    int n = 0;
    do {
        if (n == SYM_MAX_TERMS) {
            fail(reader, "a shorter list");
            return -1;
        }
        out_operands[n] = read_comparison(reader);
        if (out_operands[n++] == SYM_NONE) return -1;
    } while (take(reader, ","));
    if (take(reader, ")")) return n;
    fail(reader, "a \")\"");
    return -1;
}

static int64_t call(reader_t *reader, const char *function)
{
    static const char *const roundings[] = {"floor", "ceil",    "trunc",
                                            "round", "half_up", "half_down"};
    int64_t operands[SYM_MAX_TERMS];
    sym_space_t *space = reader->space;
    if (strcmp(function, "f32") == 0) return read_real(reader, SYM_F32);
    if (strcmp(function, "f64") == 0) return read_real(reader, SYM_F64);
    const int n = read_operands(reader, operands);
    bool has_reals = false;
    for (int i = 0; i < n; i++) has_reals = has_reals || is_real(reader, operands[i]);
    if (n < 0) return SYM_NONE;
    for (int i = 0; n == 1 && has_reals && i <= SYM_HALF_DOWN; i++)
        if (strcmp(function, roundings[i]) == 0)
            return sym_rounded(space, (sym_rounding_t)i, operands[0], false);
    if (has_reals) return refuse(reader, "not a function of floating numbers");
    if (strcmp(function, "min") == 0) return sym_extreme(space, SYM_MINIMUM, n, operands);
    if (strcmp(function, "max") == 0) return sym_extreme(space, SYM_MAXIMUM, n, operands);
    if (strcmp(function, "select") == 0 && n == 3)
        return sym_choice(space, operands[0], operands[1], operands[2]);
    return refuse(reader, "not a function of these operands");
}

static int64_t read_name(reader_t *reader)
{
    char word[MAX_NAME];
    if (!read_word(reader, word)) return fail(reader, "a size: a name, \"#\" or an integer");
    if (take(reader, "(")) return call(reader, word);
    sym_node_t *node = sym_find_name(reader->space, word);
    if (node == NULL) node = sym_new_name(reader->space, word, SYM_NO_HINT, 0, SYM_HIGHEST);
    return node != NULL ? sym_simplest(reader->space, node->handle) : SYM_NONE;
}

/* Reads an integer, which an operator may follow without a blank. */
static int64_t read_number(reader_t *reader)
{
    int64_t number = 0;
    for (; *reader->at >= '0' && *reader->at <= '9'; reader->at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *reader->at - '0', &number))
            return fail(reader, "an integer of 64 bits");
    return literal_is_word(*reader->at) ? fail(reader, "an operation") : number;
}

static int64_t read_factor(reader_t *reader)
{
    int64_t a;
    if (reader->depth >= MAX_NESTED) return fail(reader, "an expression with fewer brackets");
    reader->depth++;
    if (take(reader, "-")) {
        a = read_factor(reader);
        if (is_real(reader, a)) a = refuse(reader, "a minus before a floating number");
        if (a != SYM_NONE) a = sym_sum(reader->space, 0, -1, a);
    } else if (take(reader, "(")) {
        a = read_comparison(reader);
        if (a != SYM_NONE && !take(reader, ")")) a = fail(reader, "a \")\"");
    } else {
        a = *reader->at >= '0' && *reader->at <= '9' ? read_number(reader) : read_name(reader);
    }
    reader->depth--;
    return a;
}

static int64_t combine(reader_t *reader, char operation, int64_t a, int64_t b)
{
    static const char reals[] = "+-*/";
    sym_space_t *space = reader->space;
    const char *at = strchr(reals, operation);
    if (a == SYM_NONE || b == SYM_NONE) return SYM_NONE;
    if (is_real(reader, a) || is_real(reader, b)) {
        if (!is_real(reader, a) || !is_real(reader, b) || at == NULL ||
            sym_find(space, a)->part != sym_find(space, b)->part)
            return refuse(reader, "floating numbers mixed with other types in one operation");
        return sym_arithmetic(space, (sym_kind_t)(SYM_ARITHMETIC_ADD + (at - reals)), a, b);
    }
    switch (operation) {
    case '+': return sym_sum(space, a, 1, b);
    case '-': return sym_sum(space, a, -1, b);
    case '*': return sym_product(space, a, b);
    default: break;
    }
    if (b == 0) return refuse(reader, "a division by 0");
    const int64_t quotient = sym_quotient(space, a, b);
    if (operation == '/' || quotient == SYM_NONE) return quotient;
    const int64_t product = sym_product(space, b, quotient);
    return product != SYM_NONE ? sym_sum(space, a, -1, product) : SYM_NONE;
}

static int64_t read_product(reader_t *reader)
{
    int64_t a = read_factor(reader);
    literal_skip_blanks(&reader->at);
    while (a != SYM_NONE && (*reader->at == '*' || *reader->at == '/' || *reader->at == '%')) {
        const char operation = *reader->at++;
        a = combine(reader, operation, a, read_factor(reader));
        literal_skip_blanks(&reader->at);
    }
    return a;
}

static int64_t read_sum(reader_t *reader)
{
    int64_t a = read_product(reader);
    literal_skip_blanks(&reader->at);
    while (a != SYM_NONE && (*reader->at == '+' || *reader->at == '-')) {
        const char operation = *reader->at++;
        a = combine(reader, operation, a, read_product(reader));
        literal_skip_blanks(&reader->at);
    }
    return a;
}

static int64_t read_comparison(reader_t *reader)
{
    int64_t a = read_sum(reader);
    const bool is_equality = a != SYM_NONE && take(reader, "==");
    if (a == SYM_NONE || (!is_equality && !take(reader, "<"))) return a;
    const int64_t b = read_sum(reader);
    if (b == SYM_NONE) return SYM_NONE;
    if (is_real(reader, a) || is_real(reader, b))
        return refuse(reader, "a comparison of floating numbers");
    return sym_compared(reader->space, is_equality ? SYM_EQUALS : SYM_LESS, a, b);
}

int64_t sym_read(sym_space_t *space, const char **cursor)
{
    reader_t reader = {space, *cursor, 0};
    const int64_t a = read_sum(&reader);
    if (is_real(&reader, a)) return refuse(&reader, "a floating number instead of a size");
    *cursor = reader.at;
    return a;
}

bool sym_read_guard(sym_space_t *space, const char **cursor, const char *origin)
{
    static const struct {
        const char *sign;
        sym_relation_t relation;
        int factor, constant; /* value = factor * (a - b) + constant */
    } signs[] = {{"==", SYM_ZERO, 1, 0},         {"!=", SYM_NOT_ZERO, 1, 0},
                 {">=", SYM_NOT_NEGATIVE, 1, 0}, {"<=", SYM_NOT_NEGATIVE, -1, 0},
                 {">", SYM_NOT_NEGATIVE, 1, -1}, {"<", SYM_NOT_NEGATIVE, -1, -1}};
    reader_t reader = {space, *cursor, 0};
    size_t k = 0;
    const int64_t a = sym_read(space, &reader.at);
    if (a == SYM_NONE) return false;
    while (k < sizeof signs / sizeof *signs && !take(&reader, signs[k].sign)) k++;
    if (k == sizeof signs / sizeof *signs) return fail(&reader, "a comparison") != SYM_NONE;
    const int64_t b = sym_read(space, &reader.at);
    if (b == SYM_NONE) return false;
    const int64_t difference = signs[k].factor > 0 ? sym_sum(space, a, -1, b)
                                                   : sym_sum(space, b, -1, a);
    const int64_t value = sym_sum(space, difference, 1, signs[k].constant);
    const int proof = value != SYM_NONE ? sym_proves(space, signs[k].relation, value) : 0;
    if (proof == 0) return refuse(&reader, "a guard that never holds") != SYM_NONE;
    *cursor = reader.at;
    sym_set_origin(space, origin);
    return proof == 1 || sym_assume(space, signs[k].relation, value);
}
