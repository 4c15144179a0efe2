/* The `where` clause: "where sizes[0]=N, end=(#1+1)/2, after=4*((#2+3)/4)-#2". */
#include <stdlib.h>
#include <string.h>

#include "graph/ir/parse_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/literal_impl.h"

static status_t read_integer(parser_t *parser, int64_t *out_value)
{
    const char *begin = parser->at;
    if (literal_integer(&parser->at, out_value) == LITERAL_OK) return STATUS_OK;
    return parse_expected(parser, begin, "an integer");
}

static bool name_is_no_dimension(void *user, int number, const char *name)
{
    (void)user, (void)number;
    return name[0] == '#' && (strlen(name) > 3 || strtol(name + 1, NULL, 10) >= TENSOR_MAX_RANK);
}

/* Parses an expression in the graph's symbol space. */
static status_t read_expr(parser_t *parser, sized_attr_t *sized)
{
    context_t *ctx = parser->ctx;
    parse_blanks(parser);
    const char *begin = parser->at;
    TRY(graph_space(ctx, graph_builder_graph(parser->builder), &sized->space));
    sym_space_t *before = sym_space_enter(ctx, sized->space);
    sized->value = sym_parse(ctx, &parser->at);
    status_t status = sym_status(ctx);
    sym_space_enter(ctx, before);
    if (status != STATUS_OK) return parse_place(parser, begin, status);
    if (sized->value == SYM_NONE)
        return parse_fail(parser, begin, "this size is too large or divides by 0");
    if (sym_any_name(sized->space, sized->value, name_is_no_dimension, NULL))
        return parse_fail(parser, begin, "a tensor has at most %d dimensions", TENSOR_MAX_RANK);
    return STATUS_OK;
}

/* Parses the attribute integer to which a `where` clause refers: "sizes[0]" or "end". */
static status_t read_place(parser_t *parser, const opdef_t *op, sized_attr_t *out_sized)
{
    const char *begin = parser->at;
    size_t n = literal_name_length(begin);
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
    if (index < 0 || index > INT16_MAX)
        return parse_fail(parser, begin, "this index is out of range");
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
        TRY(read_expr(parser, &sized));
        TRY(context_grow(parser->ctx, &parser->sized, &parser->sized_capacity, parser->n_sized + 1,
                         sizeof *parser->sized));
        parser->sized[parser->n_sized++] = sized;
        parse_blanks(parser);
    } while (parse_is_next(parser, ','));
    return STATUS_OK;
}
