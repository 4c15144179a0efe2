/* Alias analysis: which values may share bytes or items, what containers hold, and what nodes
 * write. Passes use it to avoid changing operators that work in place, and values that these write.
 *
 * Values are partitioned into memory classes (Steensgaard). Two values that may share bytes, or be
 * one container, are in one class. All contents of a container class are in one class. The analysis
 * ignores execution order, so its answers hold for the entire run. Rules:
 *
 *   views, in-place operators, if, loop   outputs alias inputs and yielded values
 *   list, tuple, dict, append             operands become contents of the container
 *   index, unpack                         outputs are contents of the container
 *   getattr, setattr                      one class per path and module
 *   call                                  may write, store and return its arguments and all
 *                                         attributes of modules among them
 *   parameters                            do not share while no parameter of their kind is
 *                                         written; else all of that kind may be one value
 *   constants                             alias if they use the same storage
 *
 * Another method may write a value that is stored in an attribute. If the value outlives the run,
 * as constants and attribute values do, this counts as a write. Different attribute paths are
 * assumed not to alias; a caller that has the module can check that.
 *
 * The folder graph/analysis contains what passes and programs must know about a graph and do not
 * change: aliases, lifetimes, attributes, weights, what is kept. */
#ifndef TESSERA_GRAPH_ANALYSIS_ALIAS_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_ALIAS_IMPL_H

#include "graph/ir/graph_impl.h"

/* Possible origins of a class's memory; 0: operators of the graph allocate all of it. */
typedef enum alias_origin {
    ALIAS_INPUT = 1 << 0,
    ALIAS_CONSTANT = 1 << 1,
    ALIAS_ATTRIBUTE = 1 << 2, /* read from an attribute */
    ALIAS_CALL = 1 << 3       /* passed to or returned from a call */
} alias_origin_t;

typedef struct alias_class {
    int parent;                  /* union-find */
    int contents;                /* class of its contents, or -1 */
    const graph_node_t *writer;  /* first node that may write its own bytes or items, or NULL */
    const graph_node_t *deep;    /* first node that may write it or its contents; set at the end */
    const graph_node_t *keeper;  /* first setattr that stores it, or NULL */
    unsigned origins;            /* alias_origin_t; contents have the origins of their container */
    bool is_returned;            /* returned by the graph, alone or in a container */
    bool is_in_place, has_views; /* an operator writes it in place; it contains a view */
} alias_class_t;

/* A member of a module. The names in paths form a tree of members. */
typedef struct alias_place {
    int parent, first_child, next; /* -1: none */
    value_t root;                  /* if there is no parent: the module */
    const char *name;              /* in the graph's memory, not NUL-terminated */
    int length;
    int class;
    const graph_node_t *setter; /* first setattr, or NULL */
    bool is_used;               /* read or set itself, not only a prefix of other paths */
    bool is_outside;            /* belongs to a module that is passed to a call */
} alias_place_t;

typedef struct alias {
    graph_analysis_t kept;
    const graph_t *graph;
    alias_class_t *classes; /* first one per value, then one for calls, then contents */
    int n_classes;
    alias_place_t *places;
    int n_places;
    int *place_of;    /* [n_values]: for modules and results of getattr; -1: none yet */
    bool has_effects; /* something is written, by an in-place operator, append, setattr or call */
    bool has_calls;

    /* Used only during the analysis. */
    context_t *ctx;
    int class_capacity, place_capacity;
} alias_t;

/* The analysis of a graph. The first call computes it; the graph owns it. */
status_t alias_of(context_t *ctx, const graph_t *graph, const alias_t **out_alias);

/* True if any node may write the value's bytes or items, or anything inside it. */
bool alias_is_mutated(const alias_t *alias, value_t value);

/* The first node that may write the value's bytes or items, or anything inside it; NULL if none. */
const graph_node_t *alias_writer(const alias_t *alias, value_t value);

/* True if the caller of the graph receives the value's bytes or items, and may write them. */
bool alias_is_returned(const alias_t *alias, value_t value);

/* True if an operator writes the value's bytes in place and views share these bytes. In a run such
 * values are dense, since a view of a blocked tensor would be a copy. */
bool alias_is_viewed(const alias_t *alias, value_t value);

/* The class of a value, as an index of classes; -1 for values without shareable memory: scalars,
 * strings, none, modules. */
int alias_class(const alias_t *alias, value_t value);

/* The representative of a class. alias_class already returns representatives. */
int alias_root(const alias_t *alias, int index);

/* True if the node, or a node in its blocks, has effects besides computing outputs. */
bool alias_has_effect(const graph_node_t *node);

/* True if outputs of the node may share bytes with its inputs. */
bool alias_shares(const graph_node_t *node);

#endif
