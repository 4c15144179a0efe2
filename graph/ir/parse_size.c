/* "where sizes[0]=N, end=(#1+1)/2" in graph text. */
#include <string.h>

#include "graph/ir/parse_impl.h"
#include "tensor/context_impl.h"
#include "tensor/literal_impl.h"

static status_t read_integer(parser_t *parser, int64_t *out_value)
{
    const char *begin = parser->at;
    if (literal_integer(&parser->at, out_value) == LITERAL_OK) return STATUS_OK;
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

/* "2*N*#1+3" or "2*N-1". */
static status_t read_sum(parser_t *parser, size_expr_t *expr)
{
    const char *begin = parser->at;
    bool has_factor = *begin == '-' || (*begin >= '0' && *begin <= '9');
    if (has_factor) TRY(read_integer(parser, &expr->factor));
    if (!has_factor || parse_is_next(parser, '*')) {
        do {
            if (expr->n == SIZE_MAX_VARIABLES)
                return parse_fail(parser, begin, "a product of more than %d sizes",
                                  SIZE_MAX_VARIABLES);
            TRY(read_variable(parser, &expr->variables[expr->n++]));
        } while (parse_is_next(parser, '*'));
    }
    if (parse_is_next(parser, '+')) return read_integer(parser, &expr->offset);
    return *parser->at == '-' ? read_integer(parser, &expr->offset) : STATUS_OK;
}

static status_t read_expr(parser_t *parser, size_expr_t *out_expr)
{
    *out_expr = (size_expr_t){.factor = 1, .divisor = 1};
    if (!parse_is_next(parser, '(')) return read_sum(parser, out_expr);
    TRY(read_sum(parser, out_expr));
    TRY(parse_character(parser, ')'));
    TRY(parse_character(parser, '/'));
    const char *begin = parser->at;
    TRY(read_integer(parser, &out_expr->divisor));
    if (out_expr->divisor < 1) return parse_expected(parser, begin, "an integer above 0");
    return STATUS_OK;
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
