/* Between the trace of a method and its proof at other sizes. */
#ifndef TESSERA_GRAPH_METHOD_TRACE_IMPL_H
#define TESSERA_GRAPH_METHOD_TRACE_IMPL_H

#include "graph/ir/size_fit_impl.h"

/* Runs the method and gives the operators that it ran. */
status_t trace_once(context_t *ctx, module_t *module, const char *method, int n_in,
                    const tensor_t *const *in, graph_t **out_graph);

/* Runs the method again, on hollow tensors of other sizes, each time on a snapshot of `initial`,
 * the module as it was before the first trace. Gives the graph with names for the sizes that it was
 * proven to hold for; at sizes that it could not be, with the reason. */
status_t trace_other_sizes(context_t *ctx, module_t *initial, const char *method, int n_in,
                           const tensor_info_t *const *in, const graph_t *graph,
                           graph_t **out_graph);

/* Runs the method of `initial` once on hollow tensors of these infos, so without computing, and
 * gives the operators that it would run. */
status_t trace_infos(context_t *ctx, module_t *initial, const char *method, int n_in,
                     const tensor_info_t *const *in, graph_t **out_graph);

/* ---- the same graph at several sizes ---- */

#define TRACE_MAX_GRAPHS SIZE_MAX_SAMPLES

/* Sizes that an expression is of. */
#define HOLE_MAX_SIZES (SIZE_MAX_TERMS * SIZE_MAX_VARIABLES)

/* An integer of an attribute, or a number that is an operand, that is another at other sizes. */
typedef struct hole {
    int node;         /* in the body */
    int field, index; /* field -1: the constant itself */
    bool is_found;
    /* What was found: variable #k of the expression is dimension dims[k] of values[k]. */
    bool is_float, is_inverse;
    double number; /* number * product of all sizes, or number / product */
    size_expr_t expr;
    int n_sizes;
    value_t values[HOLE_MAX_SIZES];
    int dims[HOLE_MAX_SIZES];
} hole_t;

typedef struct holes {
    context_t *ctx;
    hole_t *items;
    int n, capacity;
} holes_t;

/* True when both graphs are of the same nodes; numbers and integers of attributes may differ.
 * *out_node: where they do not. */
bool holes_match(context_t *ctx, const graph_t *a, const graph_t *b, const graph_node_t **out_node);

/* Finds what differs among graphs that match the first, and how it follows sizes: at few sizes, by
 * the first expression that fits; at many, else by the only one, in sizes inside as well. */
status_t holes_find(holes_t *holes, int n, const graph_t *const *graphs, bool is_at_many);

/* The first hole that follows nothing that is known, or NULL. */
const hole_t *holes_open(const holes_t *holes);

/* Whether a graph that matches `base` has in each hole what was found, and otherwise what `base`
 * has. *out_node: where it has not. */
bool holes_agree(const holes_t *holes, const graph_t *base, const graph_t *graph,
                 const graph_node_t **out_node);

/* The graph with what was found in its holes; types: of its parameters, with names. */
status_t holes_fill(holes_t *holes, const graph_t *base, const graph_type_t *types,
                    graph_t **out_graph);

#endif
