/* Holes: the numbers that differ between traces of one method at several sizes. */
#ifndef TESSERA_GRAPH_METHOD_HOLES_IMPL_H
#define TESSERA_GRAPH_METHOD_HOLES_IMPL_H

#include "graph/ir/size_fit_impl.h"

#define TRACE_MAX_GRAPHS SIZE_MAX_SAMPLES

/* The maximum number of sizes in an expression. */
#define HOLE_MAX_SIZES (SIZE_MAX_TERMS * SIZE_MAX_VARIABLES)

/* An integer attribute or a constant number that differs between sizes. */
typedef struct hole {
    int node;         /* index in the body */
    int field, index; /* field -1: the constant itself */
    bool is_found;
    /* The expression that was found; variable #k is dimension dims[k] of values[k]. */
    bool is_float, is_inverse;
    double number; /* value is number * product of sizes, or number / product if is_inverse */
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

/* True if both graphs have the same nodes, except for numbers and integer attributes. *out_node is
 * the first node that differs. */
bool holes_match(context_t *ctx, const graph_t *a, const graph_t *b, const graph_node_t **out_node);

/* Finds the integers and numbers that differ between graphs that match the first one, and an
 * expression of sizes for each. If is_at_many is false, takes the first expression that fits.
 * Otherwise, takes an expression only if no other one fits, and also considers sizes of
 * intermediate values. */
status_t holes_find(holes_t *holes, int n, const graph_t *const *graphs, bool is_at_many);

/* The first hole without an expression, or NULL. */
const hole_t *holes_open(const holes_t *holes);

/* True if a graph that matches `base` has the value predicted for each hole, and equals `base`
 * elsewhere. *out_node is the first node that differs. */
bool holes_agree(const holes_t *holes, const graph_t *base, const graph_t *graph,
                 const graph_node_t **out_node);

/* Makes the graph with expressions in place of the holes. types: types of the parameters, with
 * named sizes. */
status_t holes_fill(holes_t *holes, const graph_t *base, const graph_type_t *types,
                    graph_t **out_graph);

#endif
