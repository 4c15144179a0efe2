/* Attribute integers that are computed from the sizes of a graph's inputs.
 *
 *   graph f(%self : module, %x : f32[N=1,3,H=8]) {
 *     %y = reshape(%x) sizes=[1,24] where sizes[0]=N, sizes[1]=3*#2
 *
 * The attribute has the value for the sizes in the types. Expressions are those of tensor/sym.h, in
 * the graph's space; tensor/sym_parse.c has the grammar. Names are input sizes; #2 is dimension 2
 * of operand 0. Divisions round down:
 *
 *   2*N*((H+6)/8)    4*((#1+3)/4)-#1    (N*H*W+1)/3    max(H-2,1)    floor(f32(H)*f32(1.3)) */
#ifndef TESSERA_GRAPH_IR_SIZE_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_IMPL_H

#include "graph/ir/graph.h"
#include "tensor/sym.h"

/* Integer `index` of the attribute that is field `field` in the operator's table. */
struct sized_attr {
    int field, index;
    int64_t value; /* a handle of the space, or a constant */
    sym_space_t *space;
};

/* The inputs whose sizes the names refer to. */
typedef struct size_names {
    const graph_t *graph;
    const tensor_info_t *const *in; /* with the length that graph_check_inputs takes */
} size_names_t;

/* Address of one integer in a copy of a node's attributes; NULL if there is none. */
int64_t *size_place(const opdef_t *op, void *attrs, int field, int index);

/* Receives the sized integers that depend on unknown dimensions, and the space for them. */
typedef struct size_left {
    sym_space_t *space;
    sized_attr_t *sized;
    int n;
} size_left_t;

/* Sets the sized integers in `attrs`, a copy of the node's attributes, when operand 0 is `first`.
 * INVALID_ARGUMENT if a size is unknown or overflows. If `first` is NULL, integers that depend on
 * its dimensions go to `left`, with names replaced by numbers; if left is NULL too, they are an
 * error. */
status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, size_left_t *left);

/* True if two nodes of one operator have the same sized integers. */
bool size_equal(const graph_node_t *a, const graph_node_t *b);

/* True if one of the node's sized integers uses a name. */
bool size_has_names(const graph_node_t *node);

/* Copies sized integers into the graph's arena. The graph adopts the space of the first one, and
 * expressions of other spaces are rebuilt in it. INVALID_ARGUMENT if an attribute lacks such an
 * integer. */
status_t size_copy(context_t *ctx, graph_t *graph, const opdef_t *op, const void *attrs, int n,
                   const sized_attr_t *sized, const sized_attr_t **out_sized);

/* Prints " where sizes[0]=N, end=#1-1"; nothing if there are no sized integers. */
void size_print(const graph_node_t *node, text_t *text);

/* ---- open graphs ---- */

#define GRAPH_MAX_NAMES 64

/* True if an input has a named size. */
bool graph_has_names(const graph_t *graph);

/* True if there are named sizes, all with a known size, and all inputs are lists or tensors of
 * known sizes. */
bool graph_is_open(const graph_t *graph);

/* The known sizes of the names, in the order in which names first occur. */
void graph_sizes(const graph_t *graph, int64_t *out_sizes);

/* The graph at other sizes. Parameters get these infos (ignored for lists), all types follow, and
 * sized integers are recomputed. keeps_names false removes names and sized integers. */
status_t graph_resize(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      bool keeps_names, graph_t **out_graph);

/* The graph without names, valid only for the sizes in its types. */
status_t graph_close(context_t *ctx, const graph_t *graph, graph_t **out_graph);

/* Writes the infos of an open graph's inputs, with sizes[k] for the k-th name (NULL: those in the
 * types). Returns the number of names. infos NULL: only counts. */
int graph_substitute(const graph_t *graph, const int64_t *sizes, tensor_info_t *infos);

/* Chooses other sizes for the names: different ones for equal small sizes, and adjusted to the
 * guards. `attempt` counts from 0; false if there are no more choices. */
bool graph_generic_sizes(context_t *ctx, const graph_t *graph, int attempt, int64_t *sizes);

#endif
