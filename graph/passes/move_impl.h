/* Moving of reorders in two halves: the search for one move, and the graph after it. */
#ifndef TESSERA_GRAPH_PASSES_MOVE_IMPL_H
#define TESSERA_GRAPH_PASSES_MOVE_IMPL_H

#include "graph/passes/layout_impl.h"

typedef enum move_kind {
    MOVE_NONE,
    MOVE_REPLACE, /* `source` is what the conversion gives */
    MOVE_CONVERT, /* `source` is converted instead of what was converted before */
    MOVE_HOIST,   /* done before the node `at`, for all that follow in its block */
    MOVE_SINK,    /* of a result of the if `at`: done in the branches */
    MOVE_CARRY,   /* of what the loop `at` carries: the loop carries it converted */
    MOVE_GUARD    /* the loop `at` stands in an if, so that there it runs at least once */
} move_kind_t;

typedef struct move {
    move_kind_t kind;
    const graph_node_t *conversion;
    value_t source;
    const graph_node_t *at;
    const graph_block_t *block; /* that `at` stands in */
    int index;                  /* of the result or carried value */
    bool replaces;              /* nobody reads the unconverted one */
    value_t available[2]; /* what has the form already, for each branch; VALUE_NONE: nothing */
} move_t;

/* A conversion that may be moved: of a tensor of known type that is no constant. */
bool move_is_conversion(const graph_t *graph, const graph_node_t *node);

/* Both give the same form of the same value. */
bool move_is_same(const graph_t *graph, const graph_node_t *a, const graph_node_t *b);

/* True when a loop's trip count (its condition) alone lets it run at least once. */
bool move_has_trip(const graph_t *graph, const graph_node_t *loop);
bool move_may_begin(const graph_t *graph, const graph_node_t *loop);

/* The graph after a move. */
status_t move_apply(context_t *ctx, const graph_t *graph, const move_t *move, graph_t **out_graph);

#endif
