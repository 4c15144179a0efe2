/* Graphs as pictures for Graphviz. */
#include <inttypes.h>

#include "graph/graph_impl.h"
#include "tensor/context_impl.h"

/* Constants and results get ids of their own, as a value may be drawn in several places. */
typedef struct drawing {
    const graph_t *graph;
    text_t *text;
    int n_ids;
} drawing_t;

#define COLOUR_MKLDNN "#4a7fc1"
#define COLOUR_DENSE "#8a8a8a"
#define COLOUR_OTHER "#c9c9c9"
#define COLOUR_REORDER "#c0392b"

static const char *colour_of(const graph_type_t *type)
{
    if (type->kind != TYPE_TENSOR || !type->has_info) return COLOUR_OTHER;
    return type->info.layout == LAYOUT_MKLDNN ? COLOUR_MKLDNN : COLOUR_DENSE;
}

/* Writes a label, and frees it. Graphviz reads a backslash before n and l, so each is escaped. */
static void draw_label(drawing_t *drawing, text_t *label)
{
    if (drawing->text->status == STATUS_OK) drawing->text->status = text_status(label);
    text_append(drawing->text, "\"");
    for (const char *at = text_string(label); *at != '\0'; at++)
        if (*at == '"' || *at == '\\')
            text_append(drawing->text, "\\%c", *at);
        else if (*at == '\n')
            text_append(drawing->text, "\\n");
        else
            text_append(drawing->text, "%c", *at);
    text_append(drawing->text, "\"");
    text_clear(label);
}

/* An operator that moves a tensor from one layout or format to another: its only input and its
 * output have the same sizes and differ in how they lie, or it is made for nothing else. */
static bool is_reorder(const graph_t *graph, const graph_node_t *node)
{
    if (node->kind != NODE_OP || node->n_inputs != 1 || node->n_outputs != 1) return false;
    for (int f = 0; f < node->op->attrs.n_fields; f++)
        if (node->op->attrs.fields[f].kind == ATTR_FORMAT) return true;
    const graph_type_t *from = graph_value_type(graph, node->inputs[0]);
    const graph_type_t *to = graph_value_type(graph, node->outputs[0]);
    bool formats_only = false;
    return !type_fits(from, to, &formats_only) && formats_only;
}

static void draw_edge(drawing_t *drawing, value_t value, const char *kind, int id)
{
    if (value < 0) return;
    const graph_type_t *type = graph_value_type(drawing->graph, value);
    text_t label = text_begin(drawing->text->ctx);
    if (type->kind != TYPE_UNKNOWN) type_print(type, &label);
    text_append(drawing->text, "  v%" PRId32 " -> %s%d [color=\"%s\", label=", value, kind, id,
                colour_of(type));
    draw_label(drawing, &label);
    text_append(drawing->text, "];\n");
}

/* Several outputs are drawn as one node with a point for each of the others. */
static void draw_outputs(drawing_t *drawing, const graph_node_t *node)
{
    for (int i = 1; i < node->n_outputs; i++) {
        text_append(drawing->text,
                    "  v%" PRId32 " [shape=point];\n  v%" PRId32 " -> v%" PRId32
                    " [arrowhead=none, color=\"%s\"];\n",
                    node->outputs[i], node->outputs[0], node->outputs[i],
                    colour_of(graph_value_type(drawing->graph, node->outputs[i])));
    }
}

/* Nodes that give nothing are n<id>, the others are their first output. */
static void draw_node(drawing_t *drawing, const graph_node_t *node)
{
    text_t *text = drawing->text;
    text_t label = text_begin(text->ctx);
    bool has_output = node->n_outputs > 0;
    const graph_type_t *type = has_output ? graph_value_type(drawing->graph, node->outputs[0])
                                          : type_plain(TYPE_UNKNOWN);
    const char *colour = is_reorder(drawing->graph, node) ? COLOUR_REORDER : colour_of(type);
    int id = has_output ? node->outputs[0] : drawing->n_ids++;
    const char *kind = has_output ? "v" : "n";
    text_append(&label, "%s", graph_node_word(node));
    if (node->kind == NODE_OP) {
        if (node->is_in_place) text_append(&label, "_");
        attrs_print(&node->op->attrs, node->attrs, &label);
    } else if (node->kind != NODE_BUILTIN && node->name != NULL) {
        text_append(&label, " %s", node->name);
    }
    if (node->path != NULL) text_append(&label, "\n%s", node->path);
    if (node->kind == NODE_CONSTANT && type->kind != TYPE_UNKNOWN) {
        text_append(&label, "\n");
        type_print(type, &label);
    }
    text_append(text, "  %s%d [shape=%s, color=\"%s\", label=", kind, id,
                node->kind == NODE_CONSTANT ? "note" : "box", colour);
    draw_label(drawing, &label);
    text_append(text, "];\n");
    for (int i = 0; i < node->n_inputs; i++) draw_edge(drawing, node->inputs[i], kind, id);
    draw_outputs(drawing, node);
}

static void draw_ellipse(drawing_t *drawing, const char *kind, int id, const char *name)
{
    text_append(drawing->text, "  %s%d [shape=ellipse, label=\"%s\"];\n", kind, id, name);
}

static void draw_block(drawing_t *drawing, const graph_block_t *block, const char *end)
{
    for (int i = 0; i < block->n_params; i++)
        draw_ellipse(drawing, "v", block->params[i],
                     graph_value_name(drawing->graph, block->params[i]));
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        draw_node(drawing, node);
        for (int b = 0; b < node->n_blocks; b++) {
            const char *name = node->kind == NODE_LOOP ? "do" : b == 0 ? "then" : "else";
            text_append(drawing->text, "  subgraph cluster_%d {\n  label=\"%s\";\n",
                        drawing->n_ids++, name);
            draw_block(drawing, node->blocks[b], "yield");
            text_append(drawing->text, "  }\n");
        }
    }
    int id = drawing->n_ids++;
    draw_ellipse(drawing, "n", id, end);
    for (int i = 0; i < block->n_results; i++) draw_edge(drawing, block->results[i], "n", id);
}

status_t graph_dot(context_t *ctx, const graph_t *graph, text_t *text)
{
    if (graph == NULL) return context_null(ctx, "graph_dot", "graph");
    if (text == NULL) return context_null(ctx, "graph_dot", "text");
    drawing_t drawing = {.graph = graph, .text = text};
    text_append(text, "digraph \"%s\" {\n  node [fontname=\"sans-serif\"];\n", graph_name(graph));
    draw_block(&drawing, graph_body(graph), "return");
    text_append(text, "}\n");
    return text_status(text);
}
