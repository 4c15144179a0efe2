/* What freezing, saving and loading share: what makes a module a frozen one. */
#ifndef TESSERA_FREEZE_FREEZE_IMPL_H
#define TESSERA_FREEZE_FREEZE_IMPL_H

#include "freeze/freeze.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Attribute that says that a module is frozen: a list of the paths that were to be preserved. */
#define FREEZE_MARK "frozen"

/* Attributes that a root has for those who use it, and keeps whoever reads them: the mark, the
 * names of inputs and outputs, and `training`, which every module has. */
bool freeze_is_border(const module_t *root, const module_t *owner, const char *name);

/* ---- what a frozen module keeps ---- */

/* A method that stays: as a plan if it is frozen, else as it is. The name is the module's own. */
typedef struct freeze_method {
    module_t *owner;
    const char *name;
    bool is_frozen;
} freeze_method_t;

typedef struct freeze_methods {
    freeze_method_t *items;
    int n, capacity;
} freeze_methods_t;

/* Adds a method of `owner` (of a child, if the name is dotted), once. */
status_t freeze_add_method(context_t *ctx, freeze_methods_t *methods, module_t *owner,
                           const char *name, bool is_frozen);

/* Adds all methods of the module and below it. */
status_t freeze_add_methods(context_t *ctx, freeze_methods_t *methods, module_t *module);

/* Adds what the index-th method may call. */
status_t freeze_add_callees(context_t *ctx, freeze_methods_t *methods, module_t *root, int index);

/* Removes all methods below the root that are not listed. */
status_t freeze_drop_methods(context_t *ctx, module_t *root, const freeze_methods_t *methods);

/* Removes attributes that no listed frozen method reads or sets and that need not stay for another
 * reason, and modules without anything left. */
status_t freeze_drop_members(context_t *ctx, module_t *root, const freeze_methods_t *methods,
                             const char *const *preserved);

/* ---- paths ---- */

/* The module below `root` where the last name of a dotted path belongs, made where it is missing.
 */
status_t freeze_owner(context_t *ctx, module_t *root, const char *path, const char **out_name,
                      module_t **out_owner);

#endif
