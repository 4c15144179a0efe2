/* Members of modules by dotted path, of whatever kind: what getattr and setattr mean. */
#ifndef TESSERA_GRAPH_ANALYSIS_ATTRIBUTE_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_ATTRIBUTE_IMPL_H

#include "graph/ir/graph.h"

typedef struct attribute {
    module_t *owner;  /* the module that has it; borrowed */
    const char *name; /* its own name; borrowed from the path that was asked for */
    member_kind_t kind;
} attribute_t;

/* False when there is no such member. A name that itself has dots is found before a path is split.
 */
bool attribute_find(module_t *module, const char *path, attribute_t *out_attribute);

/* Where setattr puts it: the member, or the attribute that is to be. False when there is no module
 * that could hold it. */
bool attribute_place(module_t *module, const char *path, attribute_t *out_attribute);

/* What the member holds: a datum that the caller releases (none for an absent parameter), or a
 * child, borrowed; the other is NULL. INVALID_ARGUMENT when there is no such member. */
status_t attribute_get(context_t *ctx, module_t *module, const char *path, datum_t **out_datum,
                       module_t **out_child);

/* Replaces it; a name that is not taken becomes an attribute. */
status_t attribute_set(context_t *ctx, module_t *module, const char *path, datum_t *value);

/* The value with lists and dicts of its own, so that appending to it is not seen elsewhere; tensors
 * are shared. The caller releases. */
status_t attribute_copy(context_t *ctx, datum_t *value, datum_t **out_copy);

/* For each value of the graph the module that it is, or NULL: self, and children of what is known.
 * Modules are borrowed; the caller gives the array back by context_put. */
status_t attribute_objects(context_t *ctx, const graph_t *graph, module_t *self,
                           module_t ***out_objects);

/* The tensor of a parameter, a buffer or a tensor attribute, or NULL. */
tensor_t *attribute_tensor(const attribute_t *attribute);

#endif
