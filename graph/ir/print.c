/* Prints graphs as text. Parsing the text and printing again gives the same text. */
#include <inttypes.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "module/map_impl.h"

/* State of printing. A tensor that is already in the pool keeps its number. */
typedef struct printer {
    context_t *ctx;
    const graph_t *graph;
    datum_t *pool; /* NULL: tensors print as "$?" */
    map_t numbers; /* tensor -> number + 1 */
    text_t *text;
    status_t status;
} printer_t;

/* ---- literals ---- */

static status_t number_of(printer_t *printer, datum_t *datum, uintptr_t *out_number)
{
    tensor_t *tensor = datum_as_tensor(datum);
    uintptr_t place = (uintptr_t)map_get(&printer->numbers, tensor);
    if (place == 0) {
        TRY(datum_append(printer->ctx, printer->pool, datum));
        place = (uintptr_t)datum_length(printer->pool);
        TRY(map_put(&printer->numbers, tensor, (void *)place));
    }
    *out_number = place - 1;
    return STATUS_OK;
}

static void print_tensor(printer_t *printer, datum_t *datum)
{
    if (printer->pool == NULL) {
        text_append(printer->text, "$?");
        return;
    }
    uintptr_t number = 0;
    if (printer->status == STATUS_OK) printer->status = number_of(printer, datum, &number);
    text_append(printer->text, "$%" PRIuPTR, number);
}

static void print_literal(printer_t *printer, datum_t *datum)
{
    static const char brackets[] = "[](){}";
    text_t *text = printer->text;
    datum_kind_t kind = datum_kind(datum);
    if (kind == DATUM_TENSOR) {
        print_tensor(printer, datum);
        return;
    }
    if (kind != DATUM_LIST && kind != DATUM_TUPLE && kind != DATUM_DICT) {
        datum_print(datum, text);
        return;
    }
    const char *pair = brackets + (kind == DATUM_LIST ? 0 : kind == DATUM_TUPLE ? 2 : 4);
    text_append(text, "%c", pair[0]);
    for (int i = 0; i < datum_length(datum); i++) {
        if (i > 0) text_append(text, ",");
        if (kind == DATUM_DICT) {
            text_append_quoted(text, datum_key(datum, i));
            text_append(text, ": ");
        }
        print_literal(printer, datum_item(datum, i));
    }
    text_append(text, "%c", pair[1]);
}

/* ---- nodes ---- */

static void print_value(printer_t *printer, value_t value)
{
    const graph_node_t *producer = graph_producer(printer->graph, value);
    if (value < 0)
        text_append(printer->text, "none");
    else if (producer != NULL && producer->is_inline)
        print_literal(printer, producer->datum);
    else
        text_append(printer->text, "%%%s", graph_value_name(printer->graph, value));
}

/* Prints operands. post_at: index of the first operand to print after a semicolon. */
static void print_values(printer_t *printer, int n, int post_at, const value_t *values)
{
    for (int i = 0; i < n; i++) {
        if (i == post_at)
            text_append(printer->text, "; ");
        else if (i > 0)
            text_append(printer->text, ", ");
        print_value(printer, values[i]);
    }
}

/* Prints the names of values before "=". */
static void print_names(printer_t *printer, int n, const value_t *values)
{
    for (int i = 0; i < n; i++)
        text_append(printer->text, "%s%%%s", i > 0 ? ", " : "",
                    graph_value_name(printer->graph, values[i]));
}

/* Prints the parameters of a loop's block. A type is printed only if it differs from the default
 * for the carried value. */
static void print_loop_params(printer_t *printer, const graph_node_t *loop)
{
    const graph_block_t *block = loop->blocks[0];
    for (int i = 0; i < block->n_params; i++) {
        const graph_type_t *type = graph_value_type(printer->graph, block->params[i]);
        const graph_type_t *carried = graph_value_type(printer->graph, loop->inputs[i + 1]);
        print_names(printer, 1, &block->params[i]);
        if (type->kind != TYPE_UNKNOWN && !type_equal(type, type_carried(i, carried))) {
            text_append(printer->text, " : ");
            type_print(type, printer->text);
        }
        if (i + 1 < block->n_params) text_append(printer->text, ", ");
    }
}

static void print_attributes(printer_t *printer, const graph_node_t *node)
{
    text_t *text = printer->text;
    switch (node->kind) {
    case NODE_OP:
        attrs_print(&node->op->attrs, node->attrs, text);
        size_print(node, text);
        return;
    case NODE_CONSTANT:
        text_append(text, " value=");
        print_literal(printer, node->datum);
        return;
    case NODE_GETATTR:
    case NODE_SETATTR:
    case NODE_CALL:
        text_append(text, node->kind == NODE_CALL ? " method=" : " name=");
        text_append_quoted(text, node->name);
        return;
    default: return;
    }
}

/* Prints a node up to its blocks or types: "%y = conv2d(%x, %w, %b; %r) post=[...]". */
static void print_head(printer_t *printer, const graph_node_t *node)
{
    text_t *text = printer->text;
    print_names(printer, node->n_outputs, node->outputs);
    if (node->n_outputs > 0) text_append(text, " = ");
    text_append(text, "%s%s", graph_node_word(node), node->is_in_place ? "_" : "");
    text_append(text, "(");
    print_values(printer, node->n_inputs,
                 node->n_post_inputs > 0 ? node->n_inputs - node->n_post_inputs : -1, node->inputs);
    text_append(text, ")");
    print_attributes(printer, node);
}

static void print_tail(printer_t *printer, const graph_node_t *node)
{
    text_t *text = printer->text;
    bool is_typed = false;
    for (int i = 0; i < node->n_outputs; i++)
        is_typed |= graph_value_type(printer->graph, node->outputs[i])->kind != TYPE_UNKNOWN;
    for (int i = 0; i < node->n_outputs && is_typed; i++) {
        text_append(text, i == 0 ? " : " : ", ");
        type_print(graph_value_type(printer->graph, node->outputs[i]), text);
    }
    if (node->kernel != NULL) {
        text_append(text, " by ");
        text_append_quoted(text, node->kernel->name);
    }
    if (node->path == NULL) return;
    text_append(text, " at ");
    text_append_quoted(text, node->path);
}

/* ---- blocks ---- */

static void indent(printer_t *printer, int level)
{
    text_append(printer->text, "%*s", 2 * level, "");
}

static void print_block(printer_t *printer, const graph_block_t *block, int level)
{
    text_t *text = printer->text;
    text_append(text, "{\n");
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        if (node->is_inline) continue;
        indent(printer, level + 1);
        print_head(printer, node);
        for (int b = 0; b < node->n_blocks; b++) {
            text_append(text, b > 0 ? " else " : " ");
            if (node->kind == NODE_LOOP) {
                text_append(text, "do (");
                print_loop_params(printer, node);
                text_append(text, ") ");
            }
            print_block(printer, node->blocks[b], level + 1);
        }
        print_tail(printer, node);
        text_append(text, "\n");
    }
    indent(printer, level + 1);
    text_append(text, level == 0 ? "return" : "yield");
    if (block->n_results > 0) text_append(text, " ");
    print_values(printer, block->n_results, -1, block->results);
    text_append(text, "\n");
    indent(printer, level);
    text_append(text, "}");
}

static void print_params(printer_t *printer, const graph_block_t *body)
{
    text_t *text = printer->text;
    text_append(text, "(");
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(printer->graph, body->params[i]);
        text_append(text, "%s%%%s", i > 0 ? ", " : "",
                    graph_value_name(printer->graph, body->params[i]));
        if (type->kind == TYPE_UNKNOWN) continue;
        text_append(text, " : ");
        type_print(type, text);
    }
    text_append(text, ")");
}

/* Prints one guard per line, followed by the node that added it. */
static void print_guards(const graph_t *graph, text_t *text)
{
    const int n = sym_n_guards(graph->space);
    for (int k = 0; k < n; k++) {
        const char *origin = sym_guard_origin(graph->space, k);
        text_append(text, "\n  guard ");
        sym_append_guard(text, graph->space, k);
        text_append(text, "%s%s", *origin != '\0' ? " from " : "", origin);
    }
    text_append(text, n > 0 ? "\n" : " ");
}

status_t graph_print(context_t *ctx, const graph_t *graph, datum_t *pool, text_t *text)
{
    if (graph == NULL) return context_null(ctx, "graph_print", "graph");
    if (text == NULL) return context_null(ctx, "graph_print", "text");
    REQUIRE(ctx, pool == NULL || datum_kind(pool) == DATUM_LIST,
            "graph_print: the pool is a %s, must be a list", datum_kind_name(datum_kind(pool)));
    printer_t printer = {.ctx = ctx, .graph = graph, .pool = pool, .text = text};
    printer.numbers.ctx = ctx;
    for (int i = 0; i < datum_length(pool) && printer.status == STATUS_OK; i++) {
        const tensor_t *tensor = datum_as_tensor(datum_item(pool, i));
        if (tensor != NULL && map_get(&printer.numbers, tensor) == NULL)
            printer.status = map_put(&printer.numbers, tensor, (void *)((uintptr_t)i + 1));
    }
    text_append(text, "graph %s", graph_name(graph));
    print_params(&printer, graph_body(graph));
    if (graph->fixed != NULL) {
        text_append(text, " fixed ");
        text_append_quoted(text, graph->fixed);
    }
    print_guards(graph, text);
    print_block(&printer, graph_body(graph), 0);
    text_append(text, "\n");
    map_clear(&printer.numbers);
    return printer.status != STATUS_OK ? printer.status : text_status(text);
}

void graph_print_node(const graph_t *graph, const graph_node_t *node, text_t *text)
{
    printer_t printer = {.ctx = text->ctx, .graph = graph, .text = text};
    print_head(&printer, node);
    print_tail(&printer, node);
}
