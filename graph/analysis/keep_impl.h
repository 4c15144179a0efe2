/* Which attributes below a module have to stay, and why: what freezing goes by and explains. */
#ifndef TESSERA_GRAPH_ANALYSIS_KEEP_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_KEEP_IMPL_H

#include "graph/analysis/attribute_impl.h"
#include "graph/ir/graph.h"

/* In order: the first that applies is said. */
typedef enum keep_reason {
    KEEP_WISHED,  /* asked for by name, or part of a module that was */
    KEEP_PART,    /* of a module that a node takes as a whole, or a method returns */
    KEEP_SET,     /* a node sets it */
    KEEP_WRITTEN, /* a node writes its value in place, or may do so */
    KEEP_SHARED   /* its bytes or its lists are those of another one that stays */
} keep_reason_t;

typedef struct kept {
    keep_reason_t reason;
    const module_t *owner;    /* NULL: of every module */
    const char *name;         /* NULL: all that the owner has */
    const char *wish;         /* KEEP_WISHED: the path that was asked for */
    const graph_t *graph;     /* of the node; NULL: none */
    const graph_node_t *node; /* NULL: the graph returns it */
    int because;              /* KEEP_SHARED: index of what it shares with */
} kept_t;

/* What may be written: bytes, or a list or dict. */
typedef struct keep_thing {
    const void *thing;
    int because; /* index of the attribute that has it */
} keep_thing_t;

typedef struct keeping {
    context_t *ctx;
    module_t *root;
    kept_t *kept;
    int n_kept, kept_capacity;
    keep_thing_t *things;
    int n_things, things_capacity;
} keeping_t;

/* Looks at every graph method below the root, and at one more graph (may be NULL) whose self is
 * `self`. wishes: NULL-terminated paths below the root, or NULL. All is borrowed. */
status_t keep_find(context_t *ctx, module_t *root, const char *const *wishes, const graph_t *graph,
                   module_t *self, keeping_t *out_keeping);
void keep_clear(keeping_t *keeping);

/* Whether the attribute has to stay, and the first reason; out_why may be NULL. */
bool keep_holds(const keeping_t *keeping, const attribute_t *attribute, kept_t *out_why);

/* Whether all of the module has to stay. */
bool keep_holds_all(const keeping_t *keeping, const module_t *module);

#endif
