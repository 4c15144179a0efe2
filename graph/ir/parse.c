/* Parses graphs: statements, blocks and the graph around them. The grammar:
 *
 *   graph     = "graph" name params ["fixed" string] {"guard" guard} block
 *   params    = "(" [%name [":" type] {"," %name [":" type]}] ")"
 *   block     = "{" {statement} ("return" | "yield") [argument {"," argument}] "}"
 *   statement = [%name {"," %name} "="] node [":" type {"," type}] ["by" string] ["at" string]
 *   node      = word "(" arguments [";" arguments] ")" {attribute "=" literal} ["where" sizes]
 *             | "if" "(" argument ")" block "else" block
 *             | "loop" "(" arguments ")" "do" params block */
#include <stdalign.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/parse_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/literal_impl.h"

/* The statement being parsed. Offsets are positions in the parser's `bytes`; -1: absent. */
typedef struct statement {
    const char *begin; /* start of its operator */
    value_t first;     /* first value that it adds */
    int n_names;
    int names;  /* offset of the first name; the others follow it */
    int path;   /* offset */
    int string; /* offset of name="..." or method="..." */
    graph_node_t node;
    graph_node_t *added;
    const attr_table_t *attrs;
    uint64_t seen; /* set of bits: attributes parsed so far */
} statement_t;

static status_t parse_block(parser_t *parser, bool has_params);

/* ---- values ---- */

/* Parses "%343.weight". Returns start and length of the name without the percent sign. */
static status_t parse_name(parser_t *parser, const char **out_name, size_t *out_length)
{
    if (*parser->at != '%') return parse_expected(parser, parser->at, "a value");
    const char *name = ++parser->at;
    while (literal_is_name(*parser->at)) parser->at++;
    if (parser->at == name) return parse_expected(parser, name, "the name of a value");
    *out_name = name;
    *out_length = (size_t)(parser->at - name);
    return STATUS_OK;
}

/* Parses an unused name and appends it to `bytes`. */
static status_t parse_new_name(parser_t *parser, int *out_offset)
{
    const char *name = NULL, *begin = parser->at;
    size_t length = 0;
    TRY(parse_name(parser, &name, &length));
    if (graph_builder_find(parser->builder, name, length) != VALUE_NONE)
        return parse_fail(parser, begin, "%%%.*s is defined already",
                          length < 80 ? (int)length : 80, name);
    *out_offset = parser->n_bytes;
    TRY(parse_put_bytes(parser, name, length));
    return parse_put_bytes(parser, "", 1);
}

/* Marks the values from `first` on as visible or invisible. */
static status_t show_values(parser_t *parser, int first, bool is_visible)
{
    int n = graph_builder_n_values(parser->builder);
    TRY(context_grow(parser->ctx, &parser->is_visible, &parser->visible_capacity, n,
                     sizeof *parser->is_visible));
    for (int i = first; i < n; i++) parser->is_visible[i] = is_visible;
    return STATUS_OK;
}

static status_t push_value(parser_t *parser, value_t value)
{
    TRY(context_grow(parser->ctx, &parser->values, &parser->values_capacity, parser->n_values + 1,
                     sizeof *parser->values));
    parser->values[parser->n_values++] = value;
    return STATUS_OK;
}

/* If the builder has failed, reports the failure at this position. */
static status_t check_builder(parser_t *parser, const char *at)
{
    return parse_place(parser, at, graph_builder_status(parser->builder));
}

static status_t parse_literal_argument(parser_t *parser)
{
    const char *begin = parser->at;
    TRY(parse_literal(parser));
    datum_t *datum = parser->items[parser->n_items - 1];
    value_t value = VALUE_NONE;
    if (datum_kind(datum) != DATUM_NONE) value = graph_add_literal(parser->builder, datum);
    parse_drop_items(parser, parser->n_items - 1);
    TRY(check_builder(parser, begin));
    if (value != VALUE_NONE) TRY(show_values(parser, value, false));
    return push_value(parser, value);
}

static status_t parse_argument(parser_t *parser)
{
    const char *name = NULL, *begin = parser->at;
    size_t length = 0;
    if (*begin != '%' && !literal_is_word(*begin) && (*begin == '\0' || !strchr("-\"[({$", *begin)))
        return parse_expected(parser, begin, "a value or a literal");
    if (*begin != '%') return parse_literal_argument(parser);
    TRY(parse_name(parser, &name, &length));
    value_t value = graph_builder_find(parser->builder, name, length);
    if (value == VALUE_NONE || !parser->is_visible[value])
        return parse_fail(parser, begin, "%%%.*s is not defined here",
                          length < 80 ? (int)length : 80, name);
    return push_value(parser, value);
}

/* Parses "(%x, 3; %r)". *out_n_post is -1 if there is no semicolon. */
static status_t parse_arguments(parser_t *parser, int *out_n_post)
{
    int post_at = -1;
    const char *end = NULL;
    bool goes_on = false;
    parser->n_values = 0;
    *out_n_post = -1;
    TRY(parse_character(parser, '('));
    parse_space(parser);
    if (parse_is_next(parser, ')')) return STATUS_OK;
    do {
        if (!goes_on && parse_is_next(parser, ';')) {
            post_at = parser->n_values;
            parse_space(parser);
        }
        TRY(parse_argument(parser));
        parse_blanks(parser);
        end = parser->at;
        parse_space(parser);
        goes_on = parse_is_next(parser, ',');
        if (goes_on) parse_space(parser);
    } while (goes_on || (*parser->at == ';' && post_at < 0));
    if (post_at >= 0) *out_n_post = parser->n_values - post_at;
    return parse_close(parser, end, ')');
}

/* ---- clauses after the arguments ---- */

static bool is_clause(const char *at, const char *word)
{
    return parse_word_is(at, word) && at[2 + strspn(at + 2, " \t")] == '"';
}

/* True before `by "winograd_4"` or `at "layer1.conv"`. */
static bool is_last_clause(const char *at)
{
    return is_clause(at, "at") || is_clause(at, "by");
}

/* Parses `by "name"`, which selects a kernel of the operator. */
static status_t parse_kernel(parser_t *parser, statement_t *statement)
{
    const char *begin = parser->at;
    const opdef_t *op = statement->node.op;
    int name = 0;
    parser->at += 2;
    parse_blanks(parser);
    TRY(parse_string(parser, &name));
    parse_blanks(parser);
    if (statement->node.kind != NODE_OP)
        return parse_fail(parser, begin, "`by` names a kernel, but this is not an operator");
    for (int k = 0; op->kernels[k] != NULL; k++)
        if (strcmp(op->kernels[k]->name, parser->bytes + name) == 0)
            statement->node.kernel = op->kernels[k];
    if (statement->node.kernel == NULL)
        return parse_fail(parser, begin, "%s has no kernel \"%s\"", op->name, parser->bytes + name);
    return STATUS_OK;
}

static status_t note_field(parser_t *parser, statement_t *statement)
{
    const attr_table_t *table = statement->attrs;
    size_t n = literal_name_length(parser->at);
    for (int f = 0; f < table->n_fields && f < 64; f++) {
        const char *name = table->fields[f].name;
        if (strlen(name) != n || memcmp(name, parser->at, n) != 0) continue;
        if (statement->seen >> f & 1)
            return parse_fail(parser, parser->at, "attribute \"%s\" is given twice", name);
        statement->seen |= UINT64_C(1) << f;
    }
    return STATUS_OK;
}

static status_t parse_op_attributes(parser_t *parser, statement_t *statement, void *attrs)
{
    parse_blanks(parser);
    while (literal_is_letter(*parser->at) && !is_last_clause(parser->at) &&
           !parse_word_is(parser->at, "where")) {
        const char *begin = parser->at;
        TRY(note_field(parser, statement));
        TRY(parse_place(parser, begin,
                        attrs_parse(parser->ctx, statement->node.op->name, statement->attrs,
                                    &parser->at, attrs)));
        parse_blanks(parser);
    }
    return STATUS_OK;
}

/* Parses the attribute that constant, getattr, setattr and call require. */
static status_t parse_own_attribute(parser_t *parser, statement_t *statement)
{
    graph_node_t *node = &statement->node;
    static const struct {
        const char *name, *expected;
    } own[] = {[NODE_CONSTANT] = {"value", "\"value=\""},
               [NODE_GETATTR] = {"name", "\"name=\""},
               [NODE_SETATTR] = {"name", "\"name=\""},
               [NODE_CALL] = {"method", "\"method=\""}};
    const char *name = own[node->kind].name;
    parse_blanks(parser);
    if (!parse_word_is(parser->at, name))
        return parse_expected(parser, parser->at, own[node->kind].expected);
    parser->at += strlen(name);
    parse_blanks(parser);
    TRY(parse_character(parser, '='));
    parse_blanks(parser);
    if (node->kind != NODE_CONSTANT) return parse_string(parser, &statement->string);
    TRY(parse_literal(parser));
    node->datum = parser->items[parser->n_items - 1];
    return STATUS_OK;
}

/* Parses [":" type {"," type}] ["by" string] ["at" string]. Leaves the types on the stack. */
static status_t parse_tail(parser_t *parser, statement_t *statement)
{
    parse_blanks(parser);
    parser->n_types = 0;
    if (parse_is_next(parser, ':')) {
        const char *begin = parser->at;
        do {
            parse_blanks(parser);
            TRY(parse_type(parser));
            parse_blanks(parser);
        } while (parse_is_next(parser, ','));
        int n = statement->n_names > 0 ? statement->n_names : statement->node.n_outputs;
        if (parser->n_types != n)
            return parse_fail(parser, begin, "%d types are given, the statement has %d values",
                              parser->n_types, n);
    }
    if (is_clause(parser->at, "by")) TRY(parse_kernel(parser, statement));
    if (is_clause(parser->at, "at")) {
        parser->at += 2;
        parse_blanks(parser);
        TRY(parse_string(parser, &statement->path));
        parse_blanks(parser);
    }
    if (*parser->at == '\n' || *parser->at == '\0') return STATUS_OK;
    return parse_expected(parser, parser->at, "the end of the statement");
}

/* ---- nodes ---- */

static const char *string_at(const parser_t *parser, int offset)
{
    return offset >= 0 ? parser->bytes + offset : NULL;
}

/* Adds outputs; those without a name are numbered. types: one per output; NULL: none are given. */
static status_t add_outputs(parser_t *parser, statement_t *statement, const char **names,
                            const graph_type_t **types, value_t *outputs)
{
    graph_node_t *node = &statement->node;
    const char *name = string_at(parser, statement->names);
    for (int i = 0; i < node->n_outputs; i++) {
        names[i] = statement->n_names > 0 ? name : NULL;
        if (statement->n_names > 0) name += strlen(name) + 1;
        types[i] = parser->n_types > 0 ? &parser->types[i] : NULL;
    }
    graph_add_node(parser->builder, node, parser->values, types, names, outputs);
    TRY(check_builder(parser, statement->begin));
    for (int i = 0; i < node->n_outputs && statement->n_names > 0; i++)
        if (graph_builder_find(parser->builder, names[i], strlen(names[i])) != outputs[i])
            return parse_fail(parser, statement->begin, "%%%s is defined twice", names[i]);
    return STATUS_OK;
}

static status_t add_node(parser_t *parser, statement_t *statement)
{
    graph_node_t *node = &statement->node;
    size_t n = (size_t)node->n_outputs;
    const char **names = NULL;
    const graph_type_t **types = NULL;
    value_t *outputs = NULL;
    node->n_inputs = parser->n_values;
    node->path = string_at(parser, statement->path);
    if (statement->string >= 0) node->name = string_at(parser, statement->string);
    status_t status = context_get(parser->ctx, n * sizeof *names, "names of a statement", &names);
    if (status == STATUS_OK)
        status = context_get(parser->ctx, n * sizeof *types, "types of a statement", &types);
    if (status == STATUS_OK)
        status = context_get(parser->ctx, n * sizeof *outputs, "values of a statement", &outputs);
    if (status == STATUS_OK) status = add_outputs(parser, statement, names, types, outputs);
    CONTEXT_PUT(parser->ctx, names, types, outputs);
    TRY(status);
    statement->added = graph_builder_last(parser->builder);
    return show_values(parser, statement->first, false);
}

static status_t parse_op(parser_t *parser, statement_t *statement)
{
    alignas(16) char attrs[ATTRS_MAX];
    graph_node_t *node = &statement->node;
    int n_post = -1;
    INVARIANT(node->op->attrs.bytes <= sizeof attrs);
    statement->attrs = &node->op->attrs;
    attrs_init(statement->attrs, attrs);
    TRY(parse_arguments(parser, &n_post));
    TRY(parse_op_attributes(parser, statement, attrs));
    TRY(parse_sized(parser, node->op));
    int needed = graph_n_post(node->op, attrs);
    if ((n_post >= 0 || needed > 0) && n_post != needed)
        return parse_fail(parser, statement->begin,
                          "%s: %d operands after the semicolon, its post-ops need %d",
                          node->op->name, n_post < 0 ? 0 : n_post, needed);
    if (statement->n_names == 0) node->n_outputs = node->op->n_outputs;
    TRY(parse_tail(parser, statement));
    node->attrs = attrs;
    node->n_sized = parser->n_sized;
    node->sized = parser->sized;
    status_t status = add_node(parser, statement);
    node->attrs = NULL;
    return status;
}

static status_t parse_other(parser_t *parser, statement_t *statement)
{
    graph_node_t *node = &statement->node;
    int n_post = -1;
    TRY(parse_arguments(parser, &n_post));
    if (n_post >= 0)
        return parse_fail(parser, statement->begin,
                          "a semicolon is allowed only for operators with post-ops");
    if (node->kind != NODE_BUILTIN) TRY(parse_own_attribute(parser, statement));
    parse_blanks(parser);
    if (literal_is_letter(*parser->at) && !is_last_clause(parser->at))
        return parse_expected(parser, parser->at, "a type or the end of the statement");
    if (statement->n_names == 0 && node->kind == NODE_BUILTIN) {
        int n = graph_builtin(node->name)->n_outputs;
        node->n_outputs = n > 0 ? n : 0;
    } else if (statement->n_names == 0) {
        node->n_outputs = node->kind == NODE_CONSTANT || node->kind == NODE_GETATTR ? 1 : 0;
    }
    TRY(parse_tail(parser, statement));
    return add_node(parser, statement);
}

/* ---- if and loop ---- */

/* Adds types and path to a node that was added before its blocks. In the text they follow the
 * blocks. */
static status_t end_blocks(parser_t *parser, statement_t *statement)
{
    graph_node_t *node = statement->added;
    TRY(parse_tail(parser, statement));
    for (int i = 0; i < parser->n_types; i++)
        if (parser->types[i].kind != TYPE_UNKNOWN)
            graph_set_type(parser->builder, node->outputs[i], &parser->types[i]);
    TRY(check_builder(parser, statement->begin));
    return graph_builder_set_path(parser->builder, node, string_at(parser, statement->path));
}

static status_t parse_branch(parser_t *parser, const statement_t *statement, bool has_params)
{
    parse_space(parser);
    graph_block_begin(parser->builder);
    TRY(check_builder(parser, statement->begin));
    TRY(parse_block(parser, has_params));
    graph_block_end(parser->builder, parser->n_values, parser->values);
    return check_builder(parser, statement->begin);
}

static status_t parse_keyword(parser_t *parser, const char *word, const char *expected)
{
    parse_space(parser);
    if (!parse_word_is(parser->at, word)) return parse_expected(parser, parser->at, expected);
    parser->at += strlen(word);
    return STATUS_OK;
}

static status_t parse_if(parser_t *parser, statement_t *statement)
{
    int n_post = -1;
    TRY(parse_arguments(parser, &n_post));
    if (n_post >= 0 || parser->n_values != 1)
        return parse_fail(parser, statement->begin, "if: one condition is needed");
    TRY(add_node(parser, statement));
    TRY(parse_branch(parser, statement, false));
    TRY(parse_keyword(parser, "else", "\"else\""));
    TRY(parse_branch(parser, statement, false));
    return end_blocks(parser, statement);
}

static status_t parse_loop(parser_t *parser, statement_t *statement)
{
    int n_post = -1;
    TRY(parse_arguments(parser, &n_post));
    if (n_post >= 0 || parser->n_values < 2)
        return parse_fail(parser, statement->begin,
                          "loop: a trip count and a condition are needed");
    if (parser->n_values - 2 != statement->n_names)
        return parse_fail(parser, statement->begin, "loop: %d carried values, but %d outputs",
                          parser->n_values - 2, statement->n_names);
    TRY(add_node(parser, statement));
    TRY(parse_keyword(parser, "do", "\"do\""));
    TRY(parse_branch(parser, statement, true));
    return end_blocks(parser, statement);
}

/* ---- statements ---- */

/* Parses "%a, %b =". */
static status_t parse_results(parser_t *parser, statement_t *statement)
{
    int offset = 0;
    if (*parser->at != '%') return STATUS_OK;
    do {
        parse_blanks(parser);
        TRY(parse_new_name(parser, &offset));
        if (statement->n_names++ == 0) statement->names = offset;
        parse_blanks(parser);
    } while (parse_is_next(parser, ','));
    if (!parse_is_next(parser, '=')) return parse_expected(parser, parser->at, "\",\" or \"=\"");
    parse_blanks(parser);
    statement->node.n_outputs = statement->n_names;
    return STATUS_OK;
}

/* Finds the operator for a word; a final _ means that it works in place. */
static bool find_op(const char *name, size_t n, graph_node_t *node)
{
    char word[64];
    if (n == 0 || n >= sizeof word) return false;
    memcpy(word, name, n);
    word[n] = '\0';
    node->op = ops_find(word);
    if (node->op != NULL) return true;
    if (word[n - 1] != '_') return false;
    word[n - 1] = '\0';
    node->op = ops_find(word);
    node->is_in_place = node->op != NULL;
    return node->op != NULL;
}

static bool find_builtin(const char *name, size_t n, graph_node_t *node)
{
    char word[64];
    if (n >= sizeof word) return false;
    memcpy(word, name, n);
    word[n] = '\0';
    const builtin_t *builtin = graph_builtin(word);
    if (builtin == NULL) return false;
    node->kind = NODE_BUILTIN;
    node->name = builtin->name;
    return true;
}

static status_t find_kind(parser_t *parser, statement_t *statement)
{
    static const struct {
        const char *word;
        node_kind_t kind;
    } words[] = {{"constant", NODE_CONSTANT}, {"getattr", NODE_GETATTR}, {"setattr", NODE_SETATTR},
                 {"call", NODE_CALL},         {"if", NODE_IF},           {"loop", NODE_LOOP}};
    const char *begin = statement->begin = parser->at;
    size_t n = literal_name_length(begin);
    if (n == 0)
        return parse_expected(parser, begin,
                              statement->n_names > 0 ? "an operator"
                                                     : "a statement, \"return\" or \"yield\"");
    parser->at += n;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!parse_word_is(begin, words[i].word)) continue;
        statement->node.kind = words[i].kind;
        return STATUS_OK;
    }
    statement->node.kind = NODE_OP;
    if (find_builtin(begin, n, &statement->node) || find_op(begin, n, &statement->node))
        return STATUS_OK;
    return parse_fail(parser, begin, "operator \"%.*s\" is unknown", n < 80 ? (int)n : 80, begin);
}

static status_t parse_statement(parser_t *parser)
{
    statement_t statement = {.names = -1, .path = -1, .string = -1};
    statement.first = graph_builder_n_values(parser->builder);
    parser->n_bytes = parser->n_types = 0;
    TRY(parse_results(parser, &statement));
    TRY(find_kind(parser, &statement));
    parse_blanks(parser);
    switch (statement.node.kind) {
    case NODE_OP: TRY(parse_op(parser, &statement)); break;
    case NODE_IF: TRY(parse_if(parser, &statement)); break;
    case NODE_LOOP: TRY(parse_loop(parser, &statement)); break;
    default: TRY(parse_other(parser, &statement)); break;
    }
    parse_drop_items(parser, 0);
    const graph_node_t *node = statement.added;
    for (int i = 0; i < node->n_outputs; i++) parser->is_visible[node->outputs[i]] = true;
    return STATUS_OK;
}

/* ---- blocks ---- */

/* Parses the parameters "(%x : f32[3], %y)" of a graph or loop. */
static status_t parse_params(parser_t *parser)
{
    TRY(parse_character(parser, '('));
    parse_space(parser);
    if (parse_is_next(parser, ')')) return STATUS_OK;
    do {
        const char *begin;
        const graph_type_t *type = NULL;
        int name = 0;
        parser->n_bytes = parser->n_types = 0;
        parse_space(parser);
        begin = parser->at;
        TRY(parse_new_name(parser, &name));
        parse_space(parser);
        if (parse_is_next(parser, ':')) {
            parse_space(parser);
            TRY(parse_type(parser));
            type = &parser->types[0];
            parse_space(parser);
        }
        value_t value = graph_add_param(parser->builder, parser->bytes + name, type);
        TRY(check_builder(parser, begin));
        TRY(show_values(parser, value, true));
    } while (parse_is_next(parser, ','));
    return parse_close(parser, parser->at, ')');
}

/* Parses the operands of `return` or `yield`, and leaves them in `values`. */
static status_t parse_results_of_block(parser_t *parser)
{
    parser->n_values = 0;
    parse_blanks(parser);
    if (*parser->at != '\n' && *parser->at != '}') {
        do {
            parse_space(parser);
            TRY(parse_argument(parser));
            parse_blanks(parser);
        } while (parse_is_next(parser, ','));
    }
    parse_space(parser);
    return parse_character(parser, '}');
}

static status_t parse_block(parser_t *parser, bool has_params)
{
    value_t first = graph_builder_n_values(parser->builder);
    if (has_params) {
        TRY(parse_params(parser));
        parse_space(parser);
    }
    TRY(parse_character(parser, '{'));
    parse_space(parser);
    while (!parse_word_is(parser->at, "return") && !parse_word_is(parser->at, "yield")) {
        TRY(parse_statement(parser));
        parse_space(parser);
    }
    parser->at += literal_name_length(parser->at);
    TRY(parse_results_of_block(parser));
    return show_values(parser, first, false);
}

/* ---- graphs ---- */

/* Parses ["fixed" string]. */
static status_t parse_fixed(parser_t *parser)
{
    int reason = 0;
    if (!parse_word_is(parser->at, "fixed")) return STATUS_OK;
    parser->at += strlen("fixed");
    parse_blanks(parser);
    TRY(parse_string(parser, &reason));
    TRY(graph_builder_set_fixed(parser->builder, parser->bytes + reason));
    parse_space(parser);
    return STATUS_OK;
}

/* Parses "guard H % 8 == 0 from reshape "r"", up to the end of the line. */
static status_t parse_guard(parser_t *parser)
{
    char origin[256];
    context_t *ctx = parser->ctx;
    sym_space_t *space = NULL;
    const char *begin = parser->at += strlen("guard"), *from = NULL;
    size_t n = 0;
    TRY(graph_space(ctx, graph_builder_graph(parser->builder), &space));
    for (const char *at = begin; *at != '\0' && *at != '\n' && from == NULL; at++)
        if (*at == ' ' && parse_word_is(at + 1, "from")) from = at + 1 + strlen("from");
    if (from != NULL) from += strspn(from, " \t");
    if (from != NULL) n = strcspn(from, "\n");
    if (n >= sizeof origin) return parse_fail(parser, from, "the origin of this guard is too long");
    if (n > 0) memcpy(origin, from, n);
    origin[n] = '\0';
    sym_space_t *before = sym_space_enter(ctx, space);
    sym_origin(ctx, "");
    (void)sym_parse_guard(ctx, &parser->at, origin);
    const status_t status = sym_status(ctx);
    sym_space_enter(ctx, before);
    if (status != STATUS_OK) return parse_place(parser, begin, status);
    parse_blanks(parser);
    if (from != NULL && parse_word_is(parser->at, "from")) parser->at = from + n;
    parse_space(parser);
    return STATUS_OK;
}

static status_t parse_graph(parser_t *parser, graph_t **out_graph)
{
    TRY(parse_keyword(parser, "graph", "\"graph\""));
    parse_blanks(parser);
    const char *begin = parser->at;
    size_t length = literal_name_length(begin);
    if (length == 0) return parse_expected(parser, begin, "the name of the graph");
    TRY(parse_put_bytes(parser, begin, length));
    TRY(parse_put_bytes(parser, "", 1));
    TRY(graph_builder_create(parser->ctx, parser->bytes, &parser->builder));
    parser->at += length;
    parse_space(parser);
    TRY(parse_params(parser));
    parse_space(parser);
    TRY(parse_fixed(parser));
    while (parse_word_is(parser->at, "guard")) TRY(parse_guard(parser));
    TRY(parse_block(parser, false));
    return parse_place(parser, begin,
                       graph_finish(parser->builder, parser->n_values, parser->values, out_graph));
}

/* Parses one graph at *at. Line numbers count from the start of `text`. */
static status_t parse_one(context_t *ctx, const char *text, const char **at, const datum_t *pool,
                          graph_t **out_graph)
{
    parser_t parser = {.ctx = ctx, .text = text, .at = *at, .pool = pool};
    status_t status = parse_graph(&parser, out_graph);
    parse_drop_items(&parser, 0);
    graph_builder_destroy(parser.builder);
    CONTEXT_PUT(ctx, parser.is_visible, parser.bytes, parser.values, parser.items, parser.types,
                parser.sized);
    if (status == STATUS_OK) *at = parser.at;
    return status;
}

static status_t check_pool(context_t *ctx, const char *who, const datum_t *pool)
{
    REQUIRE(ctx, pool == NULL || datum_kind(pool) == DATUM_LIST,
            "%s: the pool is a %s, must be a list", who, datum_kind_name(datum_kind(pool)));
    return STATUS_OK;
}

status_t graph_parse_next(context_t *ctx, const char **cursor, const datum_t *pool,
                          graph_t **out_graph)
{
    TRY(context_output(ctx, "graph_parse_next", out_graph));
    if (cursor == NULL || *cursor == NULL) return context_null(ctx, "graph_parse_next", "cursor");
    TRY(check_pool(ctx, "graph_parse_next", pool));
    parser_t parser = {.ctx = ctx, .text = *cursor, .at = *cursor};
    parse_space(&parser);
    if (*parser.at != '\0') return parse_one(ctx, *cursor, cursor, pool, out_graph);
    *cursor = parser.at;
    *out_graph = NULL;
    return STATUS_OK;
}

status_t graph_parse(context_t *ctx, const char *text, const datum_t *pool, graph_t **out_graph)
{
    TRY(context_output(ctx, "graph_parse", out_graph));
    if (text == NULL) return context_null(ctx, "graph_parse", "text");
    TRY(check_pool(ctx, "graph_parse", pool));
    graph_t *graph = NULL;
    const char *at = text;
    TRY(parse_one(ctx, text, &at, pool, &graph));
    parser_t parser = {.ctx = ctx, .text = text, .at = at};
    parse_space(&parser);
    if (*parser.at != '\0') {
        graph_release(graph);
        return parse_expected(&parser, parser.at, "the end of the text");
    }
    *out_graph = graph;
    return STATUS_OK;
}
