/* Moves reorders: move_reorders.c finds one move, and move_apply.c makes the graph after the move;
 * move.c has what both need. A form of a value is the value in one layout and format. */
#ifndef TESSERA_GRAPH_PASSES_LAYOUT_MOVE_IMPL_H
#define TESSERA_GRAPH_PASSES_LAYOUT_MOVE_IMPL_H

#include "graph/passes/layout/layout_impl.h"

typedef enum move_kind {
    MOVE_NONE,
    MOVE_REPLACE, /* replaces the conversion by `source`, which has the same form */
    MOVE_CONVERT, /* converts `source` directly instead of its converted form */
    MOVE_HOIST,   /* converts before the node `at`, for all later uses in the block of `at` */
    MOVE_SINK,    /* converts a result of the if `at` inside its branches */
    MOVE_CARRY,   /* makes the loop `at` carry the converted value */
    MOVE_GUARD    /* puts the loop `at` into an if, in which it runs at least once */
} move_kind_t;

typedef struct move {
    move_kind_t kind;
    const graph_node_t *conversion;
    value_t source;
    const graph_node_t *at;
    const graph_block_t *block; /* block that contains `at` */
    int index;                  /* index of the result or carried value */
    bool replaces;              /* the unconverted value has no other reader */
    value_t available[2];       /* a converted value in each branch, if it exists already */
} move_t;

/* True for conversions that may be moved: of a tensor of known type, not of a constant. */
bool move_is_conversion(const graph_t *graph, const graph_node_t *node);

/* True if both conversions make the same form of the same value. */
bool move_is_same(const graph_t *graph, const graph_node_t *a, const graph_node_t *b);

/* True if the loop runs at least once: according to the trip count alone; move_may_begin: according
 * to the initial condition alone. */
bool move_has_trip(const graph_t *graph, const graph_node_t *loop);
bool move_may_begin(const graph_t *graph, const graph_node_t *loop);

/* The graph after a move. */
status_t move_apply(context_t *ctx, const graph_t *graph, const move_t *move, graph_t **out_graph);

#endif
