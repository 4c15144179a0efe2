/* Characters, messages and literals of graph text. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/parse_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/literal_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* Maximum length of the text that a message quotes. */
#define SHOWN_MAX 40

/* ---- messages ---- */

/* Columns count characters, not bytes. */
static void find_place(const parser_t *parser, const char *at, int *out_line, int *out_column)
{
    int line = 1, column = 1;
    for (const char *c = parser->text; c < at; c++) {
        if (*c == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*c & 0xC0) != 0x80) {
            column++;
        }
    }
    *out_line = line;
    *out_column = column;
}

status_t parse_fail(parser_t *parser, const char *at, const char *format, ...)
{
    char message[CONTEXT_ERROR_MAX - 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    int line, column;
    find_place(parser, at, &line, &column);
    return context_fail(parser->ctx, STATUS_INVALID_ARGUMENT, "line %d, column %d: %s", line,
                        column, message);
}

status_t parse_place(parser_t *parser, const char *at, status_t status)
{
    if (status == STATUS_OK || interrupt_is_final(status)) return status;
    int line, column;
    find_place(parser, at, &line, &column);
    return context_fail(parser->ctx, status, "line %d, column %d: %s", line, column,
                        context_error(parser->ctx));
}

/* Length to quote in a message: a word with its prefix, or one character. */
static int shown_length(const char *at)
{
    int n = *at == '%' || *at == '$' || *at == '-' || *at == '@' ? 1 : 0;
    while (n < SHOWN_MAX && literal_is_name(at[n])) n++;
    if (n > 0) return n;
    do n++;
    while (n < 4 && ((unsigned char)at[n] & 0xC0) == 0x80);
    return n;
}

status_t parse_expected(parser_t *parser, const char *at, const char *what)
{
    if (*at == '\0') return parse_fail(parser, at, "expected %s, found the end of the text", what);
    if (*at == '\n') return parse_fail(parser, at, "expected %s, found the end of the line", what);
    return parse_fail(parser, at, "expected %s, found \"%.*s\"", what, shown_length(at), at);
}

/* ---- characters ---- */

void parse_blanks(parser_t *parser)
{
    parser->at += strspn(parser->at, " \t\r");
    if (parser->at[0] == '/' && parser->at[1] == '/') parser->at += strcspn(parser->at, "\n");
}

void parse_space(parser_t *parser)
{
    for (parse_blanks(parser); *parser->at == '\n'; parse_blanks(parser)) parser->at++;
}

bool parse_is_next(parser_t *parser, char c)
{
    if (*parser->at != c) return false;
    parser->at++;
    return true;
}

status_t parse_character(parser_t *parser, char c)
{
    const char what[] = {'"', c, '"', '\0'};
    return parse_is_next(parser, c) ? STATUS_OK : parse_expected(parser, parser->at, what);
}

status_t parse_close(parser_t *parser, const char *end, char close)
{
    const char what[] = {'"', ',', '"', ' ', 'o', 'r', ' ', '"', close, '"', '\0'};
    if (parse_is_next(parser, close)) return STATUS_OK;
    return parse_expected(parser, *end == '\n' ? end : parser->at, what);
}

bool parse_word_is(const char *at, const char *word)
{
    size_t n = strlen(word);
    return literal_name_length(at) == n && memcmp(at, word, n) == 0;
}

status_t parse_put_bytes(parser_t *parser, const char *bytes, size_t n)
{
    if (n > INT32_MAX / 4 || parser->n_bytes > INT32_MAX / 2)
        FAIL(parser->ctx, STATUS_OUT_OF_MEMORY, "graph_parse: a string of %zu bytes", n);
    TRY(context_grow(parser->ctx, &parser->bytes, &parser->bytes_capacity, parser->n_bytes + (int)n,
                     1));
    memcpy(parser->bytes + parser->n_bytes, bytes, n);
    parser->n_bytes += (int)n;
    return STATUS_OK;
}

status_t parse_string(parser_t *parser, int *out_offset)
{
    const char *begin = parser->at;
    int offset = parser->n_bytes;
    TRY(parse_character(parser, '"'));
    while (*parser->at != '"') {
        size_t n = 0;
        while ((unsigned char)parser->at[n] >= ' ' && parser->at[n] != '"' && parser->at[n] != '\\')
            n++;
        TRY(parse_put_bytes(parser, parser->at, n));
        parser->at += n;
        if (*parser->at == '"') break;
        if (*parser->at != '\\') return parse_fail(parser, begin, "this string is not closed");
        const char *escape = parser->at++;
        char bytes[4];
        int n_bytes = literal_escape(&parser->at, bytes);
        if (n_bytes == 0) return parse_fail(parser, escape, "unknown escape in a string");
        TRY(parse_put_bytes(parser, bytes, (size_t)n_bytes));
    }
    parser->at++;
    TRY(parse_put_bytes(parser, "", 1));
    *out_offset = offset;
    return STATUS_OK;
}

/* ---- literals ---- */

void parse_drop_items(parser_t *parser, int n_left)
{
    while (parser->n_items > n_left) datum_release(parser->items[--parser->n_items]);
}

static status_t push_take(parser_t *parser, datum_t *datum)
{
    TRY_OR(context_grow(parser->ctx, &parser->items, &parser->items_capacity, parser->n_items + 1,
                        sizeof(datum_t *)),
           datum_release(datum));
    parser->items[parser->n_items++] = datum;
    return STATUS_OK;
}

static status_t push_number(parser_t *parser)
{
    datum_t *datum = NULL;
    int64_t integer;
    double number;
    const char *begin = parser->at;
    literal_t found = literal_integer(&parser->at, &integer);
    if (found == LITERAL_OK) {
        TRY(datum_int(parser->ctx, integer, &datum));
        return push_take(parser, datum);
    }
    if (found == LITERAL_OTHER) found = literal_float(&parser->at, &number);
    if (found == LITERAL_RANGE)
        return parse_fail(parser, begin, "this number does not fit 64 bits");
    if (found == LITERAL_OTHER) return parse_expected(parser, begin, "a literal");
    TRY(datum_float(parser->ctx, number, &datum));
    return push_take(parser, datum);
}

static status_t push_word(parser_t *parser)
{
    const char *begin = parser->at;
    char word[16] = "";
    datum_t *datum = NULL;
    size_t n = literal_name_length(begin);
    if (n == 0) return parse_expected(parser, begin, "a literal");
    if (n < sizeof word) memcpy(word, begin, n);
    if (strcmp(word, "inf") == 0 || strcmp(word, "nan") == 0) return push_number(parser);
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
        TRY(datum_bool(parser->ctx, *word == 't', &datum));
    else if (strcmp(word, "none") == 0)
        TRY(datum_none(parser->ctx, &datum));
    else if (dtype_parse(word) != DTYPE_NONE)
        TRY(datum_string(parser->ctx, word, &datum));
    else
        return parse_expected(parser, begin, "a literal");
    parser->at += n;
    return push_take(parser, datum);
}

static status_t push_string(parser_t *parser)
{
    datum_t *datum = NULL;
    int offset = 0;
    TRY(parse_string(parser, &offset));
    TRY(datum_string(parser->ctx, parser->bytes + offset, &datum));
    parser->n_bytes = offset;
    return push_take(parser, datum);
}

static status_t push_blob(parser_t *parser)
{
    const char *begin = parser->at++;
    int64_t number;
    if (*parser->at == '?')
        return parse_fail(parser, begin,
                          "$? stands for a tensor of a graph printed without a pool, it cannot be "
                          "read back");
    if (literal_integer(&parser->at, &number) != LITERAL_OK || number < 0)
        return parse_expected(parser, begin + 1, "the number of a blob");
    if (parser->pool == NULL)
        return parse_fail(parser, begin, "blob $%" PRId64 ", but no pool was given", number);
    int n = datum_length(parser->pool);
    if (number >= n)
        return parse_fail(parser, begin, "blob $%" PRId64 ", but the pool has %d", number, n);
    datum_t *datum = datum_item(parser->pool, (int)number);
    if (datum_kind(datum) != DATUM_TENSOR)
        return parse_fail(parser, begin, "blob $%" PRId64 " is a %s, must be a tensor", number,
                          datum_kind_name(datum_kind(datum)));
    return push_take(parser, datum_retain(datum));
}

static status_t push_level(parser_t *parser, int depth);

/* Replaces the items on the stack from `base` on by one container that holds them. */
static status_t push_container(parser_t *parser, const char *begin, int base)
{
    datum_t *datum = NULL;
    int n = parser->n_items - base;
    datum_t **items = n > 0 ? parser->items + base : NULL;
    if (*begin == '[') {
        TRY(datum_list(parser->ctx, n, items, &datum));
    } else if (*begin == '(') {
        TRY(datum_tuple(parser->ctx, n, items, &datum));
    } else {
        n /= 2;
        const char **keys = NULL;
        TRY(context_get(parser->ctx, (size_t)n * 2 * sizeof *keys, "a dict literal", &keys));
        datum_t **entries = (datum_t **)(void *)(keys + n);
        for (int i = 0; i < n; i++) {
            keys[i] = datum_as_string(items[2 * i]);
            entries[i] = items[2 * i + 1];
        }
        status_t status = datum_dict(parser->ctx, n, keys, entries, &datum);
        context_put(parser->ctx, keys);
        TRY(status);
        if (datum_length(datum) < n) {
            datum_release(datum);
            return parse_fail(parser, begin, "this dict has a key twice");
        }
    }
    parse_drop_items(parser, base);
    return push_take(parser, datum);
}

static status_t push_items(parser_t *parser, int depth)
{
    const char *begin = parser->at, *end = begin;
    bool is_dict = *begin == '{';
    char close = is_dict ? '}' : *begin == '[' ? ']' : ')';
    int base = parser->n_items, n = 0;
    if (depth >= GRAPH_MAX_NESTING)
        return parse_fail(parser, begin, "literals are nested more than %d deep",
                          GRAPH_MAX_NESTING);
    parser->at++;
    parse_space(parser);
    while (n > 0 || *parser->at != close) {
        if (is_dict) {
            if (n == GRAPH_MAX_DICT)
                return parse_fail(parser, begin, "this dict has more than %d keys", GRAPH_MAX_DICT);
            if (*parser->at != '"') return parse_expected(parser, parser->at, "a key");
            TRY(push_string(parser));
            parse_space(parser);
            TRY(parse_character(parser, ':'));
            parse_space(parser);
        }
        TRY(push_level(parser, depth + 1));
        n++;
        parse_blanks(parser);
        end = parser->at;
        parse_space(parser);
        if (!parse_is_next(parser, ',')) break;
        parse_space(parser);
    }
    TRY(parse_close(parser, end, close));
    return push_container(parser, begin, base);
}

static status_t push_level(parser_t *parser, int depth)
{
    char c = *parser->at;
    if (c == '[' || c == '(' || c == '{') return push_items(parser, depth);
    if (c == '"') return push_string(parser);
    if (c == '$') return push_blob(parser);
    if (c == '-' || (c >= '0' && c <= '9')) return push_number(parser);
    return push_word(parser);
}

status_t parse_literal(parser_t *parser)
{
    return push_level(parser, 0);
}
