/* "where sizes[0]=N, end=(#1+1)/2, after=4*((#2+3)/4)-#2" in graph text. */
#include <string.h>

#include "graph/ir/parse_impl.h"
#include "tensor/context_impl.h"
#include "tensor/literal_impl.h"

/* A sign may follow it, as in "(N)/2-1". */
static status_t read_integer(parser_t *parser, int64_t *out_value)
{
    const char *begin = parser->at;
    const size_t n_digits = strspn(begin + (*begin == '-'), "0123456789"),
                 n = n_digits + (*begin == '-');
    char digits[24] = "";
    const char *at = digits;
    if (begin[n] != '+' && begin[n] != '-') {
        if (literal_integer(&parser->at, out_value) == LITERAL_OK) return STATUS_OK;
    } else if (n < sizeof digits) {
        memcpy(digits, begin, n);
        parser->at += n;
        if (literal_integer(&at, out_value) == LITERAL_OK) return STATUS_OK;
    }
    return parse_expected(parser, begin, "an integer");
}

/* A name, or "#2". */
static status_t read_variable(parser_t *parser, size_variable_t *out_variable)
{
    int64_t dim = 0;
    const char *begin = parser->at;
    *out_variable = (size_variable_t){.name = NULL};
    if (parse_is_next(parser, '#')) {
        TRY(read_integer(parser, &dim));
        if (dim < 0 || dim >= TENSOR_MAX_RANK)
            return parse_fail(parser, begin, "a tensor has at most %d dimensions", TENSOR_MAX_RANK);
        out_variable->dim = (int)dim;
        return STATUS_OK;
    }
    size_t n = parse_word_length(begin);
    if (n == 0) return parse_expected(parser, begin, "a size: a name, \"#\" or an integer");
    char *name = NULL;
    TRY(graph_get(parser->ctx, graph_builder_graph(parser->builder), n + 1, &name));
    memcpy(name, begin, n);
    name[n] = '\0';
    out_variable->name = name;
    parser->at += n;
    return STATUS_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static status_t read_divisor(parser_t *parser, int64_t *out_divisor)
{
    TRY(parse_character(parser, ')'));
    TRY(parse_character(parser, '/'));
    const char *begin = parser->at;
    TRY(read_integer(parser, out_divisor));
    return *out_divisor < 1 ? parse_expected(parser, begin, "an integer above 0") : STATUS_OK;
}

/* "N", "(N+3)/4" or "((N+3)/4)". */
static status_t read_part(parser_t *parser, size_part_t *out_part)
{
    *out_part = (size_part_t){.divisor = 1};
    if (!parse_is_next(parser, '(')) return read_variable(parser, &out_part->variable);
    const bool is_in_brackets = parse_is_next(parser, '(');
    TRY(read_variable(parser, &out_part->variable));
    if (parse_is_next(parser, '+') || *parser->at == '-')
        TRY(read_integer(parser, &out_part->offset));
    TRY(read_divisor(parser, &out_part->divisor));
    return is_in_brackets ? parse_character(parser, ')') : STATUS_OK;
}

/* "2*N*#1", "N" or "3"; its sign is read. */
static status_t read_term(parser_t *parser, int64_t sign, size_expr_t *expr)
{
    size_expr_t one = {.divisor = 1};
    size_term_t term = {.factor = 1};
    const char *begin = parser->at;
    const bool has_factor = is_digit(*begin) || *begin == '-';
    if (has_factor) TRY(read_integer(parser, &term.factor));
    if (!has_factor || parse_is_next(parser, '*')) {
        do {
            if (term.n == SIZE_MAX_VARIABLES)
                return parse_fail(parser, begin, "a product of more than %d sizes",
                                  SIZE_MAX_VARIABLES);
            TRY(read_part(parser, &term.parts[term.n++]));
        } while (parse_is_next(parser, '*'));
        one.terms[one.n_terms++] = term;
    } else {
        one.offset = term.factor;
    }
    if (!size_add(expr, sign, &one))
        return parse_fail(parser, begin, "a sum of more than %d products, or too large",
                          SIZE_MAX_TERMS);
    return STATUS_OK;
}

/* The sign before a term that is no integer's own, as that of "-N" is. */
static bool read_minus(parser_t *parser)
{
    parse_blanks(parser);
    return !is_digit(parser->at[0] == '-' ? parser->at[1] : '\0') && parse_is_next(parser, '-');
}

/* "2*N*#1-#2+3" */
static status_t read_sum(parser_t *parser, size_expr_t *expr)
{
    bool is_negative = read_minus(parser), has_more = true;
    while (has_more) {
        TRY(read_term(parser, is_negative ? -1 : 1, expr));
        is_negative = read_minus(parser);
        has_more = is_negative || *parser->at == '-' || parse_is_next(parser, '+');
    }
    return STATUS_OK;
}

/* Whether brackets round a sum begin here, and a divisor follows them: "(2*N+1)/3", unlike
 * "(N+1)/3", which is a quotient of a term. */
static bool is_divided(const char *at)
{
    int depth = 0;
    bool is_sum = false;
    if (*at != '(') return false;
    const char *end = at;
    do {
        const bool is_sign = *end == '+' || *end == '-';
        depth += (*end == '(') - (*end == ')');
        is_sum = is_sum || *end == '*' || (*end == '(' && depth > 1) ||
                 (is_sign && end > at + 1 && !is_digit(end[1]));
        end++;
    } while (depth > 0 && *end != '\0' && *end != '\n');
    return depth == 0 && *end == '/' && (is_sum || is_digit(at[1]) || at[1] == '-');
}

static status_t read_expr(parser_t *parser, size_expr_t *out_expr)
{
    *out_expr = (size_expr_t){.divisor = 1};
    parse_blanks(parser);
    if (!is_divided(parser->at)) return read_sum(parser, out_expr);
    parser->at++;
    TRY(read_sum(parser, out_expr));
    return read_divisor(parser, &out_expr->divisor);
}

/* "sizes[0]" or "end". */
static status_t read_place(parser_t *parser, const opdef_t *op, sized_attr_t *out_sized)
{
    const char *begin = parser->at;
    size_t n = parse_word_length(begin);
    int64_t index = 0;
    *out_sized = (sized_attr_t){.field = -1};
    for (int f = 0; f < op->attrs.n_fields; f++)
        if (strlen(op->attrs.fields[f].name) == n &&
            memcmp(op->attrs.fields[f].name, begin, n) == 0)
            out_sized->field = f;
    if (out_sized->field < 0) return parse_expected(parser, begin, "the name of an attribute");
    parser->at += n;
    if (parse_is_next(parser, '[')) {
        TRY(read_integer(parser, &index));
        TRY(parse_character(parser, ']'));
    }
    if (index < 0 || index > INT16_MAX) return parse_fail(parser, begin, "no such integer");
    out_sized->index = (int)index;
    return STATUS_OK;
}

status_t parse_sized(parser_t *parser, const opdef_t *op)
{
    parser->n_sized = 0;
    if (!parse_word_is(parser->at, "where")) return STATUS_OK;
    parser->at += strlen("where");
    do {
        sized_attr_t sized;
        parse_blanks(parser);
        TRY(read_place(parser, op, &sized));
        TRY(parse_character(parser, '='));
        TRY(read_expr(parser, &sized.value));
        TRY(context_grow(parser->ctx, &parser->sized, &parser->sized_capacity, parser->n_sized + 1,
                         sizeof *parser->sized));
        parser->sized[parser->n_sized++] = sized;
        parse_blanks(parser);
    } while (parse_is_next(parser, ','));
    return STATUS_OK;
}
