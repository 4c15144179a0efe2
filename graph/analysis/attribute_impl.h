/* Finds, reads and sets members of modules by dotted path, as getattr and setattr do. */
#ifndef TESSERA_GRAPH_ANALYSIS_ATTRIBUTE_IMPL_H
#define TESSERA_GRAPH_ANALYSIS_ATTRIBUTE_IMPL_H

#include "graph/ir/graph.h"

typedef struct attribute {
    module_t *owner;  /* the module that contains it; borrowed */
    const char *name; /* its own name; points into the given path */
    member_kind_t kind;
} attribute_t;

/* Finds a member; false if there is none. A member whose own name contains the dots of the path
 * precedes a member of a child. */
bool attribute_find(module_t *module, const char *path, attribute_t *out_attribute);

/* The member that setattr would set, or the attribute that it would add. False if the path leads to
 * no module. */
bool attribute_place(module_t *module, const char *path, attribute_t *out_attribute);

/* The value of a member: a datum that the caller releases (none for an absent parameter), or a
 * borrowed child module. The other result is NULL. INVALID_ARGUMENT if there is no such member. */
status_t attribute_get(context_t *ctx, module_t *module, const char *path, datum_t **out_datum,
                       module_t **out_child);

/* Sets a member; a new name becomes an attribute. */
status_t attribute_set(context_t *ctx, module_t *module, const char *path, datum_t *value);

/* Copies lists and dicts, so that appending to the copy does not change the value. Tensors are
 * shared. The caller releases the copy. */
status_t attribute_copy(context_t *ctx, datum_t *value, datum_t **out_copy);

/* For each value of the graph that is self or one of its modules, that module; NULL for other
 * values. Modules are borrowed; the caller frees the array with context_put. */
status_t attribute_objects(context_t *ctx, const graph_t *graph, module_t *self,
                           module_t ***out_objects);

/* The tensor of a parameter, buffer or tensor attribute, or NULL. */
tensor_t *attribute_tensor(const attribute_t *attribute);

#endif
