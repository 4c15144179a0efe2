/* Writes graphs in Graphviz format, with HTML labels, so that operator names can be bold. */
#include <inttypes.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"

/* In the picture, each use of a constant and each result is a separate node with its own id. */
typedef struct drawing {
    const graph_t *graph;
    text_t *text;
    int n_ids;
} drawing_t;

/* The layout of a value, which selects the colours of its node and edges. */
typedef enum paint {
    PAINT_OTHER,
    PAINT_DENSE,
    PAINT_PLAIN,
    PAINT_LAST,
    PAINT_BLOCKED,
    PAINT_OPEN,
    PAINT_REORDER,
    PAINT_COUNT
} paint_t;

static const struct {
    const char *name, *rim, *fill;
} paints[PAINT_COUNT] = {
    [PAINT_OTHER] = {NULL, "#9a9a9a", "#ffffff"},
    [PAINT_DENSE] = {"dense", "#7a7a7a", "#f0f0f0"},
    [PAINT_PLAIN] = {"mkldnn, plain", "#2a9d9d", "#dcf3f3"},
    [PAINT_LAST] = {"mkldnn, other order", "#3c8d4a", "#e0f3e2"},
    [PAINT_BLOCKED] = {"mkldnn, blocked", "#3a6fc1", "#dbe8fb"},
    [PAINT_OPEN] = {"mkldnn, format not chosen", "#8e5bb8", "#efe3f8"},
    [PAINT_REORDER] = {"reorder", "#c0392b", "#f6b9b0"},
};

static paint_t paint_of(const graph_type_t *type)
{
    if (type->kind != TYPE_TENSOR || !type->has_info) return PAINT_OTHER;
    const tensor_info_t *info = &type->info;
    if (info->layout == LAYOUT_DENSE) return PAINT_DENSE;
    if (info->format.kind == FORMAT_ANY) return PAINT_OPEN;
    bool is_opaque = info->format.kind == FORMAT_OPAQUE;
    if (is_opaque || format_is_blocked(&info->format)) return PAINT_BLOCKED;
    format_t plain = format_plain(info->rank);
    return format_same(&info->format, &plain, info->sizes) ? PAINT_PLAIN : PAINT_LAST;
}

/* ---- labels ---- */

/* Appends a string to a label. Escapes control characters and invalid UTF-8, which SVG does not
 * allow. */
static void draw_escaped(text_t *text, const char *string)
{
    char *shown = NULL;
    const size_t room = text_escape(string, NULL, 0) + 1;
    if (text->status == STATUS_OK) text->status = context_get(text->ctx, room, "a label", &shown);
    if (text->status != STATUS_OK) return;
    text_escape(string, shown, room);
    for (const char *at = shown; *at != '\0'; at++) switch (*at) {
        case '&': text_append(text, "&amp;"); break;
        case '<': text_append(text, "&lt;"); break;
        case '>': text_append(text, "&gt;"); break;
        case '"': text_append(text, "&quot;"); break;
        case '\n': text_append(text, "<br/>"); break;
        default: text_append(text, "%c", *at);
        }
    context_put(text->ctx, shown);
}

/* Adds `words` to the label as a line in a smaller font, unless it is empty. Clears `words`. */
static void draw_line(drawing_t *drawing, const char *colour, text_t *words)
{
    if (drawing->text->status == STATUS_OK) drawing->text->status = text_status(words);
    const char *string = text_string(words);
    string += *string == ' ';
    if (*string != '\0') {
        text_append(drawing->text, "<br/><font point-size=\"9\" color=\"%s\">", colour);
        draw_escaped(drawing->text, string);
        text_append(drawing->text, "</font>");
    }
    text_clear(words);
}

/* The type of a value; for constants also the size in bytes. */
static void draw_type(drawing_t *drawing, const graph_type_t *type, bool with_bytes)
{
    text_t words = text_begin(drawing->text->ctx);
    if (type->kind != TYPE_UNKNOWN) type_print(type, &words);
    if (with_bytes && type_is_static(type)) {
        double bytes = (double)info_bytes(&type->info);
        if (bytes < 1e3)
            text_append(&words, ", %.0f B", bytes);
        else
            text_append(&words, ", %.1f %s", bytes < 1e6 ? bytes / 1e3 : bytes / 1e6,
                        bytes < 1e6 ? "kB" : "MB");
    }
    draw_line(drawing, "#404040", &words);
}

/* ---- nodes ---- */

/* True for an operator that only converts layout or format: it has a format attribute, or its only
 * input and output have equal sizes but different layouts. */
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

/* Begins the node "v3" or "n3", and writes it up to the end of the operator's name. */
static void begin_node(drawing_t *drawing, const char *kind, int id, const char *shape,
                       paint_t paint, const char *word)
{
    text_append(drawing->text, "  %s%d [shape=%s, color=\"%s\", fillcolor=\"%s\", label=<<b>", kind,
                id, shape, paints[paint].rim, paints[paint].fill);
    draw_escaped(drawing->text, word);
    text_append(drawing->text, "</b>");
}

static void end_node(drawing_t *drawing, const char *more)
{
    text_append(drawing->text, ">%s];\n", more);
}

/* Draws the edge from a value to a node. Edges of activations have a large weight, so that Graphviz
 * draws activations in a line and constants next to it. */
static void draw_edge(drawing_t *drawing, value_t value, const char *kind, int id)
{
    if (value < 0) return;
    const graph_node_t *maker = graph_producer(drawing->graph, value);
    bool is_constant = maker != NULL && maker->kind == NODE_CONSTANT;
    paint_t paint = paint_of(graph_value_type(drawing->graph, value));
    text_append(drawing->text, "  v%" PRId32 " -> %s%d [color=\"%s\"%s];\n", value, kind, id,
                paints[paint].rim, is_constant ? ", penwidth=0.6" : ", weight=9");
}

/* Draws output 1 and further outputs as nodes with types, connected to the operator's node. */
static void draw_outputs(drawing_t *drawing, const graph_node_t *node)
{
    for (int i = 1; i < node->n_outputs; i++) {
        const graph_type_t *type = graph_value_type(drawing->graph, node->outputs[i]);
        begin_node(drawing, "v", node->outputs[i], "box", paint_of(type),
                   graph_value_name(drawing->graph, node->outputs[i]));
        draw_type(drawing, type, false);
        end_node(drawing, "");
        text_append(drawing->text,
                    "  v%" PRId32 " -> v%" PRId32 " [arrowhead=none, color=\"%s\"];\n",
                    node->outputs[0], node->outputs[i], paints[paint_of(type)].rim);
    }
}

static void draw_constant(drawing_t *drawing, const graph_node_t *node)
{
    const graph_type_t *type = graph_value_type(drawing->graph, node->outputs[0]);
    const datum_t *datum = node->datum;
    text_t words = text_begin(drawing->text->ctx);
    begin_node(drawing, "v", node->outputs[0], "note", paint_of(type),
               datum_kind(datum) == DATUM_TENSOR
                   ? graph_value_name(drawing->graph, node->outputs[0])
                   : "constant");
    if (datum_kind(datum) == DATUM_TENSOR) {
        draw_type(drawing, type, true);
    } else {
        datum_print(datum, &words);
        draw_line(drawing, "#404040", &words);
    }
    end_node(drawing, ", fontsize=10");
}

/* Nodes without outputs are called n<id>, others v<first output>. */
static void draw_node(drawing_t *drawing, const graph_node_t *node)
{
    bool has_output = node->n_outputs > 0, moves = is_reorder(drawing->graph, node);
    const graph_type_t *type = has_output ? graph_value_type(drawing->graph, node->outputs[0])
                                          : type_plain(TYPE_UNKNOWN);
    int id = has_output ? node->outputs[0] : drawing->n_ids++;
    const char *kind = has_output ? "v" : "n";
    text_t words = text_begin(drawing->text->ctx), path = text_begin(drawing->text->ctx);
    if (node->kind == NODE_CONSTANT) {
        draw_constant(drawing, node);
        return;
    }
    begin_node(drawing, kind, id, "box", moves ? PAINT_REORDER : paint_of(type),
               graph_node_word(node));
    if (node->kind == NODE_OP) {
        if (node->is_in_place) text_append(drawing->text, "_");
        attrs_print(&node->op->attrs, node->attrs, &words);
    } else if (node->kind != NODE_BUILTIN && node->name != NULL) {
        text_append(&words, "%s", node->name);
    }
    if (node->path != NULL) text_append(&path, "%s", node->path);
    draw_line(drawing, "#404040", &words);
    draw_line(drawing, "#8a5a00", &path);
    draw_type(drawing, type, false);
    end_node(drawing, moves ? ", style=\"filled\", penwidth=2.5" : "");
    for (int i = 0; i < node->n_inputs; i++) draw_edge(drawing, node->inputs[i], kind, id);
    draw_outputs(drawing, node);
}

/* ---- blocks ---- */

static void draw_block(drawing_t *drawing, const graph_block_t *block, const char *end)
{
    for (int i = 0; i < block->n_params; i++) {
        const graph_type_t *type = graph_value_type(drawing->graph, block->params[i]);
        begin_node(drawing, "v", block->params[i], "ellipse", paint_of(type),
                   graph_value_name(drawing->graph, block->params[i]));
        draw_type(drawing, type, false);
        end_node(drawing, "");
    }
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        draw_node(drawing, node);
        for (int b = 0; b < node->n_blocks; b++) {
            const char *name = node->kind == NODE_LOOP ? "do" : b == 0 ? "then" : "else";
            text_append(drawing->text,
                        "  subgraph cluster_%d {\n  label=\"%s %s\";\n  style=\"rounded,dashed\";\n"
                        "  color=\"#555555\";\n",
                        drawing->n_ids++, graph_node_word(node), name);
            draw_block(drawing, node->blocks[b], "yield");
            text_append(drawing->text, "  }\n");
        }
    }
    int id = drawing->n_ids++;
    begin_node(drawing, "n", id, "ellipse", PAINT_OTHER, end);
    end_node(drawing, "");
    for (int i = 0; i < block->n_results; i++) draw_edge(drawing, block->results[i], "n", id);
}

static void draw_legend(text_t *text)
{
    text_append(text, "  legend [shape=plaintext, fillcolor=\"#ffffff\", label=<<table "
                      "border=\"0\" cellborder=\"1\" cellspacing=\"3\"><tr>");
    for (int i = PAINT_DENSE; i < PAINT_COUNT; i++)
        text_append(text, "<td color=\"%s\" bgcolor=\"%s\">%s</td>", paints[i].rim, paints[i].fill,
                    paints[i].name);
    text_append(text, "</tr></table>>];\n");
}

status_t graph_dot(context_t *ctx, const graph_t *graph, text_t *text)
{
    if (graph == NULL) return context_null(ctx, "graph_dot", "graph");
    if (text == NULL) return context_null(ctx, "graph_dot", "text");
    drawing_t drawing = {.graph = graph, .text = text};
    text_append(text,
                "digraph \"%s\" {\n"
                "  graph [fontname=\"Helvetica\", nodesep=0.2, ranksep=0.3];\n"
                "  node [fontname=\"Helvetica\", fontsize=12, style=\"rounded,filled\", "
                "margin=\"0.1,0.05\"];\n"
                "  edge [arrowsize=0.6, penwidth=1.4];\n",
                graph_name(graph));
    draw_legend(text);
    draw_block(&drawing, graph_body(graph), "return");
    text_append(text, "}\n");
    return text_status(text);
}
