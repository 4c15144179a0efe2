/* The parser of graph text: a cursor, stacks for what is read, and messages with line and column.
 *
 * Recursive descent over characters that are not trusted; recursion is limited by GRAPH_MAX_DEPTH
 * and GRAPH_MAX_NESTING. Each function moves the cursor behind what it read. */
#ifndef TESSERA_GRAPH_IR_PARSE_IMPL_H
#define TESSERA_GRAPH_IR_PARSE_IMPL_H

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"

typedef struct parser {
    context_t *ctx;
    const char *text; /* where lines are counted from */
    const char *at;
    const datum_t *pool;
    graph_builder_t *builder;

    bool *is_visible; /* [value]: its statement has ended and its block has not */
    int visible_capacity;
    char *bytes; /* strings of the statement, each ended by a zero byte */
    int n_bytes, bytes_capacity;
    value_t *values; /* operands of the statement */
    int n_values, values_capacity;
    datum_t **items; /* stack of literals, held */
    int n_items, items_capacity;
    graph_type_t *types; /* stack of types */
    int n_types, types_capacity;
    sized_attr_t *sized; /* of the statement */
    int n_sized, sized_capacity;
} parser_t;

/* ---- characters ---- */

/* Spaces, tabs and comments; the second form newlines as well. */
void parse_blanks(parser_t *parser);
void parse_space(parser_t *parser);

/* The character, if it is next (after blanks, after space); and the same as a demand. */
bool parse_is_next(parser_t *parser, char c);
status_t parse_character(parser_t *parser, char c);

/* The bracket that ends a list whose last item ended at `end`: what is missing is told of there
 * when the line ended, too. */
status_t parse_close(parser_t *parser, const char *end, char close);

/* Whether the name that begins here is this word. */
bool parse_word_is(const char *at, const char *word);

/* A string in quotes, of any length, put into `bytes` at *out_offset. */
status_t parse_string(parser_t *parser, int *out_offset);
status_t parse_put_bytes(parser_t *parser, const char *bytes, size_t n);

/* ---- messages ---- */

/* "line L, column C: ..." about what stands at `at`. */
status_t parse_fail(parser_t *parser, const char *at, const char *format, ...) TESSERA_PRINTF(3, 4);
/* "expected <what>, found ...". */
status_t parse_expected(parser_t *parser, const char *at, const char *what);
/* Puts the place in front of a failure of someone else. */
status_t parse_place(parser_t *parser, const char *at, status_t status);

/* ---- literals and types ---- */

/* Pushes the literal on `items`. */
status_t parse_literal(parser_t *parser);
void parse_drop_items(parser_t *parser, int n_left);

/* Pushes the type on `types`. */
status_t parse_type(parser_t *parser);

/* Reads what stands behind `where`, if it is next, into `sized`. */
status_t parse_sized(parser_t *parser, const opdef_t *op);

#endif
