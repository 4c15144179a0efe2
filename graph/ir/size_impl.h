/* Integers of attributes that follow the sizes of a graph's inputs.
 *
 *   graph f(%self : module, %x : f32[N=1,3,H=8]) {
 *     %y = reshape(%x) sizes=[1,24] where sizes[0]=N, sizes[1]=3*#2
 *
 * The attribute itself holds what it is at the sizes that the types say. A variable is a name, or a
 * dimension of operand 0: #2 is the size of its dimension 2. */
#ifndef TESSERA_GRAPH_IR_SIZE_IMPL_H
#define TESSERA_GRAPH_IR_SIZE_IMPL_H

#include "graph/ir/graph.h"

#define SIZE_MAX_VARIABLES 3
#define SIZE_NAME_MAX 64

typedef struct size_variable {
    const char *name; /* NULL: dimension `dim` of operand 0 */
    int dim;
} size_variable_t;

/* (factor * variable * ... + offset) / divisor, rounded down. */
typedef struct size_expr {
    int64_t factor, offset, divisor;
    int n;
    size_variable_t variables[SIZE_MAX_VARIABLES];
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

/* (factor * product + offset) / divisor; false when it overflows. */
bool size_calculate(const size_expr_t *expr, int64_t product, int64_t *out_value);

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

/* ---- seeking an expression ---- */

#define SIZE_MAX_SAMPLES 160

/* Sizes of several variables at several samples: sizes[v][s] is that of variable v at sample s. */
typedef struct size_samples {
    int n_samples, n_variables;
    const int64_t *const *sizes;
} size_samples_t;

/* Whether a product of n variables, product[s] at sample s, is the one that is sought. */
typedef bool (*size_fits_t)(void *user, int n, const int64_t *product);

/* Tries products of one variable, of two, then of three, until one fits: out_chosen are its
 * variables, as many as it gives; 0: none fits. */
int size_seek(const size_samples_t *samples, size_fits_t fits, void *user, int *out_chosen);

/* (factor * product + offset) / divisor that is values[s] at each sample, of a product of n
 * variables. Writes all but the variables; false when there is none. */
bool size_fit_product(int n_samples, int n, const int64_t *product, const int64_t *values,
                      size_expr_t *out_expr);

/* The same, with the product sought: out_chosen are the variables of the expression. A quotient has
 * to be the only one that gives all values. */
bool size_fit(const size_samples_t *samples, const int64_t *values, size_expr_t *out_expr,
              int *out_chosen);

/* Where several quotients of one size give all values: sizes, none of those tried, that tell them
 * apart, at most `capacity` and those next to sizes[0] first. 0: no two quotients do. */
int size_split(int n_samples, const int64_t *sizes, const int64_t *values, int n_tried,
               const int64_t *tried, int capacity, int64_t *out_sizes);

/* One of the quotients of one size that give all values, where sizes of `over` tell them apart that
 * lie between the samples, and at which there is nothing to give: x/4 of what is cut in pieces of
 * 4. False when these are too few. */
bool size_fit_between(int n_samples, const int64_t *sizes, const int64_t *values, int n_over,
                      const int64_t *over, size_expr_t *out_expr);

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
