/* Finds the attributes of a module that must stay attributes when it is frozen, and the reasons. */
#ifndef TESSERA_GRAPH_ANALYSIS_KEEP_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_KEEP_IMPL_H

#include "graph/analysis/attribute_impl.h"
#include "graph/ir/graph.h"

/* Reasons in order of priority; the first that applies is reported. */
typedef enum keep_reason {
    KEEP_WISHED,  /* requested by name, or part of a requested module */
    KEEP_PART,    /* part of a module that a node uses as a value, that a method returns, or that
                     a C method may change */
    KEEP_SET,     /* a node sets it */
    KEEP_WRITTEN, /* a node may write its value in place */
    KEEP_SHARED   /* shares bytes or containers with another attribute that stays */
} keep_reason_t;

typedef struct kept {
    keep_reason_t reason;
    const module_t *owner;    /* NULL: any module */
    const char *name;         /* NULL: all members of owner */
    const char *wish;         /* KEEP_WISHED: the requested path */
    const graph_t *graph;     /* the graph that contains node; NULL: none */
    const graph_node_t *node; /* NULL: the graph returns the attribute */
    int because;              /* KEEP_SHARED: index of the attribute with which it shares */
} kept_t;

/* Storage of a tensor, or a list or dict, that may be written. */
typedef struct keep_thing {
    const void *thing;
    int because; /* index of the attribute that contains it */
} keep_thing_t;

typedef struct keeping {
    context_t *ctx;
    module_t *root;
    kept_t *kept;
    int n_kept, kept_capacity;
    keep_thing_t *things;
    int n_things, things_capacity;
} keeping_t;

/* Analyses all graph methods of the root and its descendants, and one more graph (may be NULL) with
 * this self. wishes: NULL-terminated paths relative to the root, or NULL. All is borrowed. */
status_t keep_find(context_t *ctx, module_t *root, const char *const *wishes, const graph_t *graph,
                   module_t *self, keeping_t *out_keeping);
void keep_clear(keeping_t *keeping);

/* True if the attribute must stay. out_why, which may be NULL, receives the first reason. */
bool keep_holds(const keeping_t *keeping, const attribute_t *attribute, kept_t *out_why);

/* True if the entire module must stay. */
bool keep_holds_all(const keeping_t *keeping, const module_t *module);

#endif
