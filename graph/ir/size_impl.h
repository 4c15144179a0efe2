/* Integers of attributes that follow the sizes of a graph's inputs.
 *
 *   graph f(%self : module, %x : f32[N=1,3,H=8]) {
 *     %y = reshape(%x) sizes=[1,24] where sizes[0]=N, sizes[1]=3*#2
 *
 * The attribute itself holds what it is at the sizes that the types say. Expressions are those of
 * tensor/sym.h, in the space of the graph; tensor/sym_parse.c has their grammar. Its names are
 * those of sizes of inputs, and #2 for dimension 2 of operand 0. Divisions round down:
 *
 *   2*N*((H+6)/8)    4*((#1+3)/4)-#1    (N*H*W+1)/3    max(H-2,1)    floor(f32(H)*f32(1.3)) */
#ifndef TESSERA_GRAPH_IR_SIZE_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_IMPL_H

#include "graph/ir/graph.h"
#include "tensor/sym.h"

/* Integer `index` of the attribute that is field `field` of its operator's table. */
struct sized_attr {
    int field, index;
    int64_t value; /* a handle of the space, or a number */
    sym_space_t *space;
};

/* What names stand for: the sizes of inputs. */
typedef struct size_names {
    const graph_t *graph;
    const tensor_info_t *const *in; /* as many as graph_check_inputs takes */
} size_names_t;

/* The place of one integer of a node's attributes, in a copy of them; NULL when there is none. */
int64_t *size_place(const opdef_t *op, void *attrs, int field, int index);

/* Sized integers that are left: room for those of a node, and the space that they are put in. */
typedef struct size_left {
    sym_space_t *space;
    sized_attr_t *sized;
    int n;
} size_left_t;

/* Puts into `attrs`, a copy of the node's, what its sized integers are when operand 0 is `first`.
 * INVALID_ARGUMENT when a size is not known or overflows. Those that follow dimensions of an
 * operand 0 that is not known (NULL) are left, with numbers for the names in them; without `left`
 * they are an error as well. */
status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, size_left_t *left);

/* True when all sized integers of both nodes, of one operator, are the same. */
bool size_equal(const graph_node_t *a, const graph_node_t *b);

/* True when one of the node's sized integers is said by a name. */
bool size_has_names(const graph_node_t *node);

/* A copy in the graph's arena. The graph takes the space of the first; expressions of other spaces
 * are made again in it. INVALID_ARGUMENT when an attribute has no such integer. */
status_t size_copy(context_t *ctx, graph_t *graph, const opdef_t *op, const void *attrs, int n,
                   const sized_attr_t *sized, const sized_attr_t **out_sized);

/* " where sizes[0]=N, end=#1-1"; nothing without sized integers. */
void size_print(const graph_node_t *node, text_t *text);

/* ---- open graphs ---- */

#define GRAPH_MAX_NAMES 64

/* True when an input has a name for one of its sizes. */
bool graph_has_names(const graph_t *graph);

/* The same, where all inputs are lists or tensors of known sizes, and every name has one size
 * beside it. */
bool graph_is_open(const graph_t *graph);

/* The sizes beside the names, in the order in which names first stand. */
void graph_sizes(const graph_t *graph, int64_t *out_sizes);

/* The graph at other sizes: parameters have these infos (that of a list is not read), all types
 * follow, sized integers are calculated anew. Names stay, or go and sized integers with them. */
status_t graph_resize(context_t *ctx, const graph_t *graph, const tensor_info_t *infos,
                      bool keeps_names, graph_t **out_graph);

/* The graph that holds for the sizes in its types alone. */
status_t graph_close(context_t *ctx, const graph_t *graph, graph_t **out_graph);

/* Writes the infos of an open graph's inputs with size sizes[k] for the k-th name (NULL: those in
 * the types); gives the number of names. infos NULL: only counts. */
int graph_substitute(const graph_t *graph, const int64_t *sizes, tensor_info_t *infos);

/* Sizes to put in for each name, as guards allow, of which no two are equal where those in the
 * types are small. `attempt` counts from 0; false when there are no more. */
bool graph_generic_sizes(context_t *ctx, const graph_t *graph, int attempt, int64_t *sizes);

#endif
