/* Prints the alias analysis, one row per memory class. */
#include "graph/analysis/alias_impl.h"

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"

/* Rows are ordered by the first values of their classes; contents follow their containers. */
typedef struct table {
    const alias_t *alias;
    text_t *text;
    int n_rows;
    int *rows;      /* class of each row */
    int *numbers;   /* row of each class, or -1 */
    value_t *first; /* first value of each class, or -1 */
    value_t *next;  /* next value of the same class, or -1 */
    bool has_facts; /* a fact of the current row has been printed */
} table_t;

/* ---- rows ---- */

static void number_class(table_t *table, int class)
{
    while (class >= 0) {
        class = alias_root(table->alias, class);
        if (table->numbers[class] >= 0) return;
        table->numbers[class] = table->n_rows;
        table->rows[table->n_rows++] = class;
        class = table->alias->classes[class].contents;
    }
}

static bool is_literal(const graph_t *graph, value_t value)
{
    const graph_node_t *producer = graph_producer(graph, value);
    return producer != NULL && producer->is_inline;
}

/* Chooses the rows. Literals have none, because they have no name and are not shared. Scalar
 * attributes have a row if a node sets them. */
static void find_rows(table_t *table)
{
    const alias_t *alias = table->alias;
    int n_values = graph_n_values(alias->graph);
    for (int i = 0; i < alias->n_classes; i++) table->numbers[i] = table->first[i] = -1;
    for (value_t v = n_values - 1; v >= 0; v--) {
        int class = alias_class(alias, v);
        if (class < 0 || is_literal(alias->graph, v)) continue;
        table->next[v] = table->first[class];
        table->first[class] = v;
    }
    for (value_t v = 0; v < n_values; v++) {
        int class = alias_class(alias, v);
        if (class >= 0 && table->first[class] == v) number_class(table, class);
    }
    for (int i = 0; i < alias->n_places; i++)
        if (alias->places[i].setter != NULL) number_class(table, alias->places[i].class);
}

/* ---- facts of a row ---- */

static text_t *begin_fact(table_t *table)
{
    text_append(table->text, table->has_facts ? "; " : ": ");
    table->has_facts = true;
    return table->text;
}

static void print_by(table_t *table, const char *words, const graph_node_t *node)
{
    text_append(begin_fact(table), "%s ", words);
    graph_print_node(table->alias->graph, node, table->text);
}

static void print_path(const table_t *table, int place)
{
    const alias_place_t *places = table->alias->places;
    int depth = 0, root = place;
    for (; places[root].parent >= 0; root = places[root].parent) depth++;
    const graph_t *graph = table->alias->graph;
    if (places[root].root != graph_body(graph)->params[0])
        text_append(table->text, "%%%s.", graph_value_name(graph, places[root].root));
    for (int above = depth - 1; above >= 0; above--) {
        int at = place;
        for (int i = 0; i < above; i++) at = places[at].parent;
        text_append(table->text, "%.*s%s", places[at].length, places[at].name,
                    above > 0 ? "." : "");
    }
}

static void print_places(table_t *table, int class)
{
    const alias_t *alias = table->alias;
    for (int i = 0; i < alias->n_places; i++) {
        const alias_place_t *place = &alias->places[i];
        if (!place->is_used || alias_root(alias, place->class) != class) continue;
        text_append(begin_fact(table), "attribute ");
        print_path(table, i);
        if (place->setter != NULL) print_by(table, "set by", place->setter);
    }
}

static bool has_result(const table_t *table, int class)
{
    const graph_block_t *body = graph_body(table->alias->graph);
    for (int i = 0; i < body->n_results; i++)
        if (alias_class(table->alias, body->results[i]) == class) return true;
    return false;
}

/* Writes which node certainly or possibly writes the class. */
static void print_writer(table_t *table, int class)
{
    const alias_class_t *at = &table->alias->classes[class];
    const graph_node_t *writer = at->writer;
    if (writer == NULL) {
        if (at->deep != NULL) text_append(begin_fact(table), "its contents are written");
    } else if (writer->kind == NODE_SETATTR) {
        print_by(table, "may be written by other methods; stored by", writer);
    } else if (writer->kind == NODE_CALL) {
        print_by(table, "may be written and kept by", writer);
    } else if (alias_class(table->alias, writer->inputs[0]) == class) {
        print_by(table, "written by", writer);
    } else {
        print_by(table, "may be the input written by", writer);
    }
}

static void print_row(table_t *table, int row)
{
    int class = table->rows[row];
    const alias_class_t *at = &table->alias->classes[class];
    const graph_t *graph = table->alias->graph;
    text_append(table->text, "[%d]", row);
    for (value_t v = table->first[class]; v >= 0; v = table->next[v])
        text_append(table->text, " %%%s", graph_value_name(graph, v));
    table->has_facts = false;
    if (at->contents >= 0)
        text_append(begin_fact(table), "holds [%d]",
                    table->numbers[alias_root(table->alias, at->contents)]);
    if (at->origins & ALIAS_INPUT) text_append(begin_fact(table), "input");
    if (at->origins & ALIAS_CONSTANT) text_append(begin_fact(table), "constant");
    print_places(table, class);
    if (has_result(table, class)) text_append(begin_fact(table), "result");
    print_writer(table, class);
    text_append(table->text, "\n");
}

/* ---- printing ---- */

static status_t print_table(context_t *ctx, table_t *table)
{
    size_t n = (size_t)table->alias->n_classes;
    size_t n_values = (size_t)graph_n_values(table->alias->graph);
    TRY(context_get(ctx, n * sizeof *table->rows, "a table of classes", &table->rows));
    TRY(context_get(ctx, n * sizeof *table->numbers, "a table of classes", &table->numbers));
    TRY(context_get(ctx, n * sizeof *table->first, "a table of classes", &table->first));
    TRY(context_get(ctx, n_values * sizeof *table->next, "a table of classes", &table->next));
    find_rows(table);
    for (int row = 0; row < table->n_rows; row++) print_row(table, row);
    return text_status(table->text);
}

status_t graph_alias(context_t *ctx, const graph_t *graph, text_t *text)
{
    if (graph == NULL) return context_null(ctx, "graph_alias", "graph");
    if (text == NULL) return context_null(ctx, "graph_alias", "text");
    table_t table = {.text = text};
    TRY(alias_of(ctx, graph, &table.alias));
    FINISH(print_table(ctx, &table),
           CONTEXT_PUT(ctx, table.next, table.first, table.numbers, table.rows));
}
