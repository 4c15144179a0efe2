/* Integers of attributes that follow the sizes of a graph's inputs.
 *
 *   graph f(%self : module, %x : f32[N=1,3,H=8]) {
 *     %y = reshape(%x) sizes=[1,24] where sizes[0]=N, sizes[1]=3*#2
 *
 * The attribute itself holds what it is at the sizes that the types say. A variable is a name, or a
 * dimension of operand 0: #2 is the size of its dimension 2. Quotients are rounded down:
 *
 *   size     = sum | "(" sum ")" "/" integer            (N*H*W+1)/3
 *   sum      = ["-"] term {("+"|"-") term}              4*((#1+3)/4)-#1, what #1 lacks to be whole
 *   term     = integer | [integer "*"] part {"*" part}   2*N*((H+6)/8)
 *   part     = variable | quotient | "(" quotient ")"
 *   quotient = "(" variable [("+"|"-") integer] ")" "/" integer
 *   variable = name | "#" integer
 *
 * What is left of a division is written by its quotient: N modulo 4 is N-4*((N)/4). */
#ifndef TESSERA_GRAPH_IR_SIZE_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_IMPL_H

#include "graph/ir/graph.h"

#define SIZE_MAX_VARIABLES 3 /* of one term */
#define SIZE_MAX_TERMS 6
#define SIZE_NAME_MAX 64

typedef struct size_variable {
    const char *name; /* NULL: dimension `dim` of operand 0 */
    int dim;
} size_variable_t;

/* (variable + offset) / divisor, rounded down. */
typedef struct size_part {
    size_variable_t variable;
    int64_t offset, divisor;
} size_part_t;

/* factor * part * ... */
typedef struct size_term {
    int64_t factor;
    int n;
    size_part_t parts[SIZE_MAX_VARIABLES];
} size_term_t;

/* (term + ... + offset) / divisor, rounded down. */
typedef struct size_expr {
    int n_terms;
    size_term_t terms[SIZE_MAX_TERMS];
    int64_t offset, divisor;
} size_expr_t;

/* Integer `index` of the attribute that is field `field` of its operator's table. */
struct sized_attr {
    int field, index;
    size_expr_t value;
};

/* What names stand for: the sizes of inputs. */
typedef struct size_names {
    const graph_t *graph;
    const tensor_info_t *const *in; /* as many as graph_check_inputs takes */
} size_names_t;

/* The place of one integer of a node's attributes, in a copy of them; NULL when there is none. */
int64_t *size_place(const opdef_t *op, void *attrs, int field, int index);

/* The size of a variable; false: it is not known. */
typedef bool (*size_of_t)(void *user, const size_variable_t *variable, int64_t *out_size);

/* What the expression is at these sizes; false when one is not known or it overflows. */
bool size_calculate(const size_expr_t *expr, size_of_t size_of, void *user, int64_t *out_value);

/* a += factor * b, and a *= b; without divisors. False when it overflows or has too many terms; `a`
 * is left as it is then. */
bool size_add(size_expr_t *a, int64_t factor, const size_expr_t *b);
bool size_multiply(size_expr_t *a, const size_expr_t *b);

/* Puts into `attrs`, a copy of the node's, what its sized integers are when operand 0 is `first`.
 * INVALID_ARGUMENT when a size is not known or overflows. Those that follow dimensions of an
 * operand 0 that is not known (NULL) go to out_sized, without the names in them, and out_n of them
 * are left; where these are NULL, they are an error as well. */
status_t size_fill(context_t *ctx, const size_names_t *names, const graph_node_t *node,
                   const tensor_info_t *first, void *attrs, int *out_n, sized_attr_t *out_sized);

/* True when all sized integers of both nodes, of one operator, are the same. */
bool size_equal(const graph_node_t *a, const graph_node_t *b);

/* True when one of the node's sized integers is said by a name. */
bool size_has_names(const graph_node_t *node);

/* A copy in the graph's arena. INVALID_ARGUMENT when an attribute has no such integer. */
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

/* Sizes to put in for each name, of which no two are equal where those in the types are small.
 * `attempt` counts from 0; false when there are no more. sizes: those in the types, on return
 * others. */
bool graph_generic_sizes(int attempt, int n, int64_t *sizes);

#endif
