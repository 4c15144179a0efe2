/* Parser of graph text: a cursor, stacks of parsed items, and messages with line and column.
 *
 * This is a recursive descent parser for untrusted input: GRAPH_MAX_DEPTH and GRAPH_MAX_NESTING
 * limit the recursion. Each function moves the cursor past the text that it parsed. */
#ifndef TESSERA_GRAPH_IR_PARSE_IMPL_H
#define TESSERA_GRAPH_IR_PARSE_IMPL_H

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"

typedef struct parser {
    context_t *ctx;
    const char *text; /* start of the text, for line numbers */
    const char *at;
    const datum_t *pool;
    graph_builder_t *builder;

    bool *is_visible; /* [value]: its statement is complete and its block is open */
    int visible_capacity;
    char *bytes; /* strings of the statement, NUL-terminated */
    int n_bytes, bytes_capacity;
    value_t *values; /* operands of the statement */
    int n_values, values_capacity;
    datum_t **items; /* stack of literals, retained */
    int n_items, items_capacity;
    graph_type_t *types; /* stack of types */
    int n_types, types_capacity;
    sized_attr_t *sized; /* sized integers of the statement */
    int n_sized, sized_capacity;
} parser_t;

/* ---- characters ---- */

/* Skips spaces, tabs and comments; parse_space also skips newlines. */
void parse_blanks(parser_t *parser);
void parse_space(parser_t *parser);

/* Consumes c if it is next. parse_character fails if it is not. */
bool parse_is_next(parser_t *parser, char c);
status_t parse_character(parser_t *parser, char c);

/* Consumes the bracket that closes a list. If it is missing and the line ends after the last item,
 * the message points to `end`, the end of that item. */
status_t parse_close(parser_t *parser, const char *end, char close);

/* True if the name that starts at `at` is this word. */
bool parse_word_is(const char *at, const char *word);

/* Parses a quoted string of any length, and appends it to `bytes` at *out_offset. */
status_t parse_string(parser_t *parser, int *out_offset);
status_t parse_put_bytes(parser_t *parser, const char *bytes, size_t n);

/* ---- messages ---- */

/* Fails with the message "line L, column C: ..." for the position `at`. */
status_t parse_fail(parser_t *parser, const char *at, const char *format, ...) TESSERA_PRINTF(3, 4);
/* Fails with "expected <what>, found ...". */
status_t parse_expected(parser_t *parser, const char *at, const char *what);
/* Call it after another function has failed with `status`. Puts the position before the message. */
status_t parse_place(parser_t *parser, const char *at, status_t status);

/* ---- literals and types ---- */

/* Parses a literal and pushes it on `items`. */
status_t parse_literal(parser_t *parser);
void parse_drop_items(parser_t *parser, int n_left);

/* Parses a type and pushes it on `types`. */
status_t parse_type(parser_t *parser);

/* Parses an optional `where` clause into `sized`. */
status_t parse_sized(parser_t *parser, const opdef_t *op);

#endif
