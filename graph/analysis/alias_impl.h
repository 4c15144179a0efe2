/* Which values may share bytes or items, what lies in which container, and what is written: what
 * keeps passes off in-place operators.
 *
 * Values fall into classes of memory (Steensgaard): two that may share bytes, or be one container,
 * are in one class, and a class that is a container has one class for all that lies in it. Order is
 * not looked at, so an answer holds for the whole run. What the rules are:
 *
 *   views, in-place operators, if, loop   the outputs are what goes in or is yielded
 *   list, tuple, dict, append             the operands are contents of the container
 *   index, unpack                         the outputs are contents of the container
 *   getattr, setattr                      one class for one path below one module
 *   call                                  may write, keep and give back all it is given, and all
 *                                         attributes of the modules it is given
 *   parameters                            share nothing as long as none of their kind is written;
 *                                         else any of that kind may be the one written
 *   constants                             those of one storage share it
 *
 * What is put into an attribute may be written by other methods: that counts as written when it
 * outlives the run, as constants and what comes from attributes do. Attributes of different paths
 * are taken to be different; whoever has the module at hand knows better. */
#ifndef TESSERA_GRAPH_ANALYSIS_ALIAS_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_ALIAS_IMPL_H

#include "graph/ir/graph_impl.h"

/* Where memory of a class may come from; 0: all of it is made by operators of the graph. */
typedef enum alias_origin {
    ALIAS_INPUT = 1 << 0,
    ALIAS_CONSTANT = 1 << 1,
    ALIAS_ATTRIBUTE = 1 << 2, /* read from one */
    ALIAS_CALL = 1 << 3       /* a call was given it, or gave it */
} alias_origin_t;

typedef struct alias_class {
    int parent;                  /* union-find */
    int contents;                /* class of what lies in it, or -1 */
    const graph_node_t *writer;  /* first that may write its own bytes or items, or NULL */
    const graph_node_t *deep;    /* the same, or of anything inside; set at the end */
    const graph_node_t *keeper;  /* first setattr that it was given to, or NULL */
    unsigned origins;            /* alias_origin_t; what is inside has those of the container */
    bool is_returned;            /* the graph gives it, or a container that holds it */
    bool is_in_place, has_views; /* an operator of the graph writes it; a view shares it */
} alias_class_t;

/* A member below a module value: places form a tree by the names in paths. */
typedef struct alias_place {
    int parent, first_child, next; /* -1: none */
    value_t root;                  /* of places without parent: the module */
    const char *name;              /* in the graph's memory, not ended */
    int length;
    int class;
    const graph_node_t *setter; /* first setattr, or NULL */
    bool is_used;               /* read or set; not only on the way to others */
    bool is_outside;            /* of a module that a call is given */
} alias_place_t;

typedef struct alias {
    graph_analysis_t kept;
    const graph_t *graph;
    alias_class_t *classes; /* of each value, of what calls may reach, and of contents */
    int n_classes;
    alias_place_t *places;
    int n_places;
    int *place_of;    /* [n_values]: of modules and what getattr gives; -1: none yet */
    bool has_effects; /* something is written: in place, by append, setattr or a call */
    bool has_calls;

    /* While the analysis is made. */
    context_t *ctx;
    int class_capacity, place_capacity;
} alias_t;

/* The analysis of a graph: made when it is first asked for, and borrowed from the graph, which
 * keeps it to its end. */
status_t alias_of(context_t *ctx, const graph_t *graph, const alias_t **out_alias);

/* True if the value's bytes or items, or anything inside it, may be written somewhere in the graph.
 */
bool alias_is_mutated(const alias_t *alias, value_t value);

/* The first node that may write them, or NULL. */
const graph_node_t *alias_writer(const alias_t *alias, value_t value);

/* True if whoever runs the graph gets the value's bytes or items, and may write them. */
bool alias_is_returned(const alias_t *alias, value_t value);

/* True if an operator writes the value's bytes in place and views share them: in a run all of these
 * are dense, since a view of a blocked tensor is a copy. */
bool alias_is_viewed(const alias_t *alias, value_t value);

/* The class of a value as an index of classes, -1 for those that have no memory to share: scalars,
 * strings, none, modules. */
int alias_class(const alias_t *alias, value_t value);

/* The class at the end of the parents; what alias_class gives is one already. */
int alias_root(const alias_t *alias, int index);

/* True for a node that does more than to compute its outputs; what is inside blocks counts. */
bool alias_has_effect(const graph_node_t *node);

/* True for a node whose outputs may share bytes with its inputs. */
bool alias_shares(const graph_node_t *node);

#endif
