/* Sized integers: integers in attributes that are computed from the sizes of a graph's inputs.
 *
 *   graph f(%self : module, %x : f32[N=1,3,H=8]) {
 *     %y = reshape(%x) sizes=[1,24] where sizes[0]=N, sizes[1]=3*#2
 *
 * The attribute itself has the value for the sizes in the types. Expressions are those of
 * tensor/sym/sym.h, in the graph's symbol space; tensor/sym/parse.c has the grammar. Names are
 * sizes of inputs; #2 is the size of operand 0 in dimension 2. Divisions round down:
 *
 *   2*N*((H+6)/8)    4*((#1+3)/4)-#1    (N*H*W+1)/3    max(H-2,1)    floor(f32(H)*f32(1.3)) */
#ifndef TESSERA_GRAPH_IR_SIZE_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_IMPL_H

#include "graph/ir/graph.h"
#include "tensor/sym/sym.h"

/* A sized integer: number `index` in field `field` of the operator's attribute table. */
struct sized_attr {
    int field, index;
    int64_t value; /* a handle of the symbol space, or a constant */
    sym_space_t *space;
};

/* The inputs that define the named sizes. */
typedef struct size_names {
    const graph_t *graph;
    const tensor_info_t *const *in; /* an array as for graph_check_inputs */
} size_names_t;

/* Pointer to one integer in a copy of a node's attributes; NULL if it does not exist. */
int64_t *size_place(const opdef_t *op, void *attrs, int field, int index);

/* Receives the sized integers that depend on dimensions not known yet, and their symbol space. */
typedef struct size_left {
    sym_space_t *space;
    sized_attr_t *sized;
    int n;
} size_left_t;

/* Computes the sized integers in `attrs`, a copy of the node's attributes. `first` describes
 * operand 0. INVALID_ARGUMENT if a size is unknown or overflows. If `first` is NULL, integers that
 * depend on its dimensions are added to `left`, with numbers in place of names; if left is NULL
 * too, they are an error. */
status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, size_left_t *left);

/* True if two nodes of one operator have the same sized integers. */
bool size_equal(const graph_node_t *a, const graph_node_t *b);

/* True if one of the node's sized integers depends on a named size. */
bool size_has_names(const graph_node_t *node);

/* Copies sized integers into the graph's arena. The graph uses the symbol space of the first one;
 * expressions of other spaces are built again in that space. INVALID_ARGUMENT if the attribute has
 * no such integer. */
status_t size_copy(context_t *ctx, graph_t *graph, const opdef_t *op, const void *attrs, int n,
                   const sized_attr_t *sized, const sized_attr_t **out_sized);

/* Prints " where sizes[0]=N, end=#1-1"; nothing if there are no sized integers. */
void size_print(const graph_node_t *node, text_t *text);

/* ---- open graphs ---- */

#define GRAPH_MAX_NAMES 64

/* True if an input has a named size. */
bool graph_has_names(const graph_t *graph);

/* True if the graph has named sizes, all with a known size, and all inputs are lists or tensors of
 * known sizes. */
bool graph_is_open(const graph_t *graph);

/* The known size of each name, in the order in which the names first occur. */
void graph_sizes(const graph_t *graph, int64_t *out_sizes);

/* Returns the graph for other sizes. Parameters get these infos (ignored for lists). Types are
 * inferred, and sized integers computed, again. keeps_names false removes names and sized
 * integers. */
status_t graph_resize(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      bool keeps_names, graph_t **out_graph);

/* The graph without names, valid only for the sizes in its types. */
status_t graph_close(context_t *ctx, const graph_t *graph, graph_t **out_graph);

/* Writes the infos of an open graph's inputs, with sizes[k] for the k-th name (sizes NULL: those in
 * the types). Returns the number of names. If infos is NULL, only counts. */
int graph_substitute(const graph_t *graph, const int64_t *sizes, tensor_info_t *infos);

/* Chooses other sizes for the names. The new sizes satisfy the guards if possible, and names that
 * had equal small sizes get different ones. `attempt` counts from 0; false if there are no more
 * choices. */
bool graph_generic_sizes(context_t *ctx, const graph_t *graph, int attempt, int64_t *sizes);

#endif
