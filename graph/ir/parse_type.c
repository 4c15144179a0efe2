/* Parses types. */
#include <stdio.h>
#include <string.h>

#include "graph/ir/parse_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/literal_impl.h"

static status_t push_level(parser_t *parser, int depth);

static status_t push(parser_t *parser, const graph_type_t *type)
{
    TRY(context_grow(parser->ctx, &parser->types, &parser->types_capacity, parser->n_types + 1,
                     sizeof *parser->types));
    parser->types[parser->n_types++] = *type;
    return STATUS_OK;
}

/* ---- tensors ---- */

static status_t read_size(parser_t *parser, int64_t *out_size)
{
    const char *begin = parser->at;
    literal_t found = literal_integer(&parser->at, out_size);
    if (found == LITERAL_RANGE) return parse_fail(parser, begin, "this size is too large");
    if (found != LITERAL_OK || *out_size < 0)
        return parse_expected(parser, begin, "a size, a name or \"?\"");
    return STATUS_OK;
}

/* Parses "3", "N", "N=3" or "?". */
static status_t read_dim(parser_t *parser, graph_type_t *type, const char **names)
{
    graph_t *graph = graph_builder_graph(parser->builder);
    const char *begin = parser->at;
    int d = type->info.rank;
    if (d == TENSOR_MAX_RANK)
        return parse_fail(parser, begin, "a tensor has at most %d dimensions", TENSOR_MAX_RANK);
    names[d] = NULL;
    type->info.sizes[d] = -1;
    size_t n = literal_name_length(begin);
    if (n > 0) {
        char *name = NULL;
        TRY(graph_get(parser->ctx, graph, n + 1, &name));
        memcpy(name, begin, n);
        name[n] = '\0';
        names[d] = name;
        parser->at += n;
        if (parse_is_next(parser, '='))
            return read_size(parser, &type->info.sizes[type->info.rank++]);
    } else if (!parse_is_next(parser, '?')) {
        TRY(read_size(parser, &type->info.sizes[d]));
    }
    type->info.rank++;
    return STATUS_OK;
}

static status_t read_dims(parser_t *parser, graph_type_t *type)
{
    const char *names[TENSOR_MAX_RANK];
    const char **copy = NULL;
    TRY(parse_character(parser, '['));
    parse_blanks(parser);
    while (type->info.rank > 0 || *parser->at != ']') {
        TRY(read_dim(parser, type, names));
        parse_blanks(parser);
        if (!parse_is_next(parser, ',')) break;
        parse_blanks(parser);
    }
    TRY(parse_close(parser, parser->at, ']'));
    size_t bytes = (size_t)type->info.rank * sizeof *names;
    TRY(graph_get(parser->ctx, graph_builder_graph(parser->builder), bytes, &copy));
    memcpy(copy, names, bytes);
    type->dims = copy;
    return STATUS_OK;
}

/* Copies a format's text without spaces. The cursor is at its first character. */
static status_t cut_format(parser_t *parser, char *out_text)
{
    const char *begin = parser->at;
    int n = 0;
    bool is_braced = *begin == '{';
    if (*begin == '?') {
        parser->at++;
        memcpy(out_text, "?", 2);
        return STATUS_OK;
    }
    /* A tag is a word, such as aBcd16b. A word that begins with a rank, such as 4:, is followed by
     * sizes in parentheses. */
    char closing = is_braced ? '}' : '\0';
    bool is_regrouped = false;
    for (;; parser->at++) {
        char c = *parser->at;
        bool is_number = c == ',' || c == ' ' || (c >= '0' && c <= '9');
        bool is_tag = closing == '\0' && literal_is_word(c) && c != '_';
        if (c == '(' && is_regrouped && closing == '\0')
            closing = ')';
        else if (c == ':' && n > 0 && n <= 2 && out_text[0] >= '0' && out_text[0] <= '9')
            is_regrouped = true;
        else if (!(is_tag || (closing != '\0' && is_number) || (is_braced && c == '{')))
            break;
        if (c == ' ') continue;
        if (n + 2 >= FORMAT_TEXT_MAX) return parse_fail(parser, begin, "this format is too long");
        out_text[n++] = c;
    }
    if (closing != '\0') {
        if (!parse_is_next(parser, closing))
            return parse_expected(parser, parser->at,
                                  is_braced ? "a stride, \",\" or \"}\""
                                            : "a size, \",\" or \")\"");
        out_text[n++] = closing;
    }
    out_text[n] = '\0';
    return n > 0 ? STATUS_OK : parse_expected(parser, begin, "a format");
}

static status_t read_format(parser_t *parser, tensor_info_t *info)
{
    char text[FORMAT_TEXT_MAX];
    const char *begin = parser->at;
    if (*begin != '@' && *begin != '{') return STATUS_OK;
    if (parse_is_next(parser, '@')) info->layout = LAYOUT_MKLDNN;
    TRY(cut_format(parser, text));
    TRY(parse_place(parser, begin, format_parse(parser->ctx, text, &info->format)));
    if (info->format.kind != FORMAT_ANY && info->format.rank != info->rank)
        return parse_fail(parser, begin, "format %s has rank %d, the tensor has rank %d", text,
                          info->format.rank, info->rank);
    return STATUS_OK;
}

/* Refuses tensors that are too large; unknown sizes count as 1. */
static status_t check_bytes(parser_t *parser, const char *begin, const tensor_info_t *info)
{
    int64_t sizes[TENSOR_MAX_RANK], elements = 0, bytes;
    for (int d = 0; d < info->rank; d++) sizes[d] = info->sizes[d] < 0 ? 1 : info->sizes[d];
    TRY(parse_place(parser, begin,
                    shape_check(parser->ctx, "type", info->dtype, info->rank, sizes)));
    bool has_format = info->layout == LAYOUT_MKLDNN ? info->format.kind != FORMAT_ANY
                                                    : info->format.kind == FORMAT_STRIDED;
    if (has_format && (!format_elements(&info->format, sizes, &elements) ||
                       !shape_multiply(elements, (int64_t)dtype_size(info->dtype), &bytes)))
        return parse_fail(parser, begin, "this tensor is too large");
    return STATUS_OK;
}

static status_t push_tensor(parser_t *parser, dtype_t dtype)
{
    const char *begin = parser->at;
    graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true};
    type.info.dtype = dtype;
    parser->at += literal_name_length(begin);
    parse_blanks(parser);
    TRY(read_dims(parser, &type));
    TRY(read_format(parser, &type.info));
    TRY(check_bytes(parser, begin, &type.info));
    return push(parser, &type);
}

/* ---- containers ---- */

static status_t push_container(parser_t *parser, type_kind_t kind, int depth)
{
    graph_t *graph = graph_builder_graph(parser->builder);
    const char *begin = parser->at;
    int base = parser->n_types;
    if (depth >= GRAPH_MAX_NESTING - 1)
        return parse_fail(parser, begin, "types are nested more than %d deep", GRAPH_MAX_NESTING);
    parser->at += literal_name_length(begin);
    parse_blanks(parser);
    TRY(parse_character(parser, '<'));
    parse_blanks(parser);
    while (parser->n_types > base || *parser->at != '>') {
        TRY(push_level(parser, depth + 1));
        parse_blanks(parser);
        if (!parse_is_next(parser, ',')) break;
        parse_blanks(parser);
    }
    TRY(parse_close(parser, parser->at, '>'));
    int n = parser->n_types - base;
    if (kind == TYPE_LIST && n != 1)
        return parse_fail(parser, begin, "a list has 1 item type, %d are given", n);
    if (kind == TYPE_DICT && n != 2)
        return parse_fail(parser, begin, "a dict has a key type and a value type, %d are given", n);
    graph_type_t *items = NULL;
    TRY(graph_get(parser->ctx, graph, (size_t)n * sizeof *items, &items));
    if (n > 0) memcpy(items, parser->types + base, (size_t)n * sizeof *items);
    parser->n_types = base;
    graph_type_t type = {.kind = kind, .n_items = n, .items = items};
    return push(parser, &type);
}

static status_t push_word(parser_t *parser, int depth)
{
    static const struct {
        const char *word;
        type_kind_t kind;
    } words[] = {{"tensor", TYPE_TENSOR}, {"int", TYPE_INT},       {"float", TYPE_FLOAT},
                 {"bool", TYPE_BOOL},     {"string", TYPE_STRING}, {"none", TYPE_NONE},
                 {"module", TYPE_MODULE}, {"list", TYPE_LIST},     {"tuple", TYPE_TUPLE},
                 {"dict", TYPE_DICT}};
    char name[8] = "";
    size_t n = literal_name_length(parser->at);
    if (n < sizeof name) memcpy(name, parser->at, n);
    dtype_t dtype = dtype_parse(name);
    /* "bool" is a scalar type and a dtype; only a dtype is followed by dimensions. */
    if (dtype != DTYPE_NONE && parser->at[n] == '[') return push_tensor(parser, dtype);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(name, words[i].word) != 0) continue;
        if (words[i].kind >= TYPE_LIST) return push_container(parser, words[i].kind, depth);
        parser->at += n;
        return push(parser, type_plain(words[i].kind));
    }
    if (dtype != DTYPE_NONE) return push_tensor(parser, dtype);
    return parse_expected(parser, parser->at, "a type");
}

static status_t push_level(parser_t *parser, int depth)
{
    if (parse_is_next(parser, '?')) return push(parser, type_plain(TYPE_UNKNOWN));
    TRY(push_word(parser, depth));
    if (parse_is_next(parser, '?')) parser->types[parser->n_types - 1].is_optional = true;
    return STATUS_OK;
}

status_t parse_type(parser_t *parser)
{
    return push_level(parser, 0);
}
