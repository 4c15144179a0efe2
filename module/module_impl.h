/* The inside of a module, and the list of all modules of a tree. */
#ifndef TESSERA_MODULE_MODULE_IMPL_H
#define TESSERA_MODULE_MODULE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "module/module.h"
#include "tensor/context_impl.h"

typedef struct member {
    member_kind_t kind;
    char *name;
    uint64_t change; /* module_changes when it was set last, which no other member has */
    union {
        tensor_t *tensor; /* parameter, NULL when absent; buffer */
        datum_t *datum;   /* attribute */
        module_t *child;
        struct {
            const method_class_t *class_;
            void *state;
        } method;
    } is;
} member_t;

/* Members in order of setting; all of them from the allocator the module was made with. */
struct module {
    atomic_int n_references;
    allocator_t allocator;
    char *type;
    member_t *members;
    int n_members;
    int capacity;
    atomic_bool runs_dense; /* module_mkldnn skipped it: its methods run under policy per_op */
    pthread_mutex_t lock;   /* held by a run that changes members or their tensors; recursive */
};

/* A module without any member, not even `training`. */
status_t module_make(context_t *ctx, const char *type_name, module_t **out_module);

/* Goes up when any member of any module is set or removed: as long as it is the same, what was
 * found by a path is there. */
uint64_t module_changes(void);

/* Round a run that changes state below the module: such runs of one module wait for each other, but
 * for those that one of them makes itself. */
void module_lock(module_t *module);
void module_unlock(module_t *module);

/* A clone whose tensors share the bytes of the original's until either is written through the API.
 */
status_t module_snapshot(context_t *ctx, const module_t *module, module_t **out_module);

/* True when a tensor has an address in common with one that the module, or one below it, holds. */
bool module_overlaps(const module_t *module, const tensor_t *tensor);

/* The member of a kind at a path, or NULL. */
const member_t *module_find(const module_t *module, const char *path, member_kind_t kind);
/* The same; *module becomes the one that has it. */
const member_t *module_find_owned(module_t **module, const char *path, member_kind_t kind);

/* Puts a member in, which takes over what `member` holds but copies its name, also on failure. */
status_t module_put_take(context_t *ctx, module_t *module, const member_t *member);

/* The failure for a path at which there is no member of this kind: names the part that is not
 * there, and what there is. */
status_t module_no_member(context_t *ctx, const module_t *module, const char *path,
                          member_kind_t kind);

/* Refuses a tensor for result `index` that is not of its dtype and sizes. */
status_t module_check_result(context_t *ctx, int index, const tensor_info_t *made,
                             const tensor_info_t *wanted);

/* ---- C methods ---- */

/* The function of a C method, or NULL for methods of other classes. */
forward_t module_c_forward(const member_t *method);

/* Runs a function in a scope of its own; the results belong to the caller. out has room for
 * METHOD_MAX_OUTPUTS. */
status_t module_run_forward(context_t *ctx, module_t *module, const char *method, forward_t forward,
                            int n_in, const tensor_t *const *in, int *n_out, tensor_t **out);

extern const method_class_t module_c_methods;

/* ---- the tree as a list ---- */

typedef struct tree_item {
    module_t *module; /* retained */
    char *path;       /* of the first way to it; "" for the root */
} tree_item_t;

typedef struct tree {
    tree_item_t *items;
    int n;
    int capacity;
} tree_t;

/* All modules once each, parents first, children in order. */
status_t tree_collect(context_t *ctx, const module_t *module, tree_t *out_tree);
void tree_clear(context_t *ctx, tree_t *tree);

/* "layer1" and "conv1" give "layer1.conv1"; an empty path gives the name. */
status_t tree_join(context_t *ctx, const char *path, const char *name, char **out_path);

#endif
