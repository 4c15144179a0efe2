/* The module struct, and the list of all modules of a tree. */
#ifndef TESSERA_MODULE_MODULE_IMPL_H
#define TESSERA_MODULE_MODULE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "module/module.h"
#include "tensor/context_impl.h"

typedef struct member {
    member_kind_t kind;
    char *name;
    uint64_t change; /* unique number: module_changes() when the member was set */
    union {
        tensor_t *tensor; /* parameter (NULL when absent) or buffer */
        datum_t *datum;   /* attribute */
        module_t *child;
        struct {
            const method_class_t *class_;
            void *state;
        } method;
    } is;
} member_t;

/* Members are in the order in which they were set. All memory comes from the allocator of the
 * context that created the module. */
struct module {
    atomic_int n_references;
    allocator_t allocator;
    char *type;
    member_t *members;
    int n_members;
    int capacity;
    atomic_bool runs_dense; /* module_mkldnn skips it: its methods run under policy per_op */
    pthread_mutex_t lock;   /* recursive; held by calls that change members or their tensors */
};

/* Creates a module without any member, not even `training`. */
status_t module_make(context_t *ctx, const char *type_name, module_t **out_module);

/* A counter that increases whenever a member of any module is set or removed. As long as it is
 * unchanged, members that were found by path are still valid. */
uint64_t module_changes(void);

/* Guard a method call that changes the state of the module or of modules below it. Only one thread
 * at a time runs such a call; calls nested in the same thread do not wait. */
void module_lock(module_t *module);
void module_unlock(module_t *module);

/* Makes a copy of the module. A tensor and its copy share bytes until one of the two is written. */
status_t module_snapshot(context_t *ctx, const module_t *module, module_t **out_module);

/* True if a tensor shares memory with a tensor of the module or of a module below it. */
bool module_overlaps(const module_t *module, const tensor_t *tensor);

/* Finds the member of this kind at a path. NULL if there is none. */
const member_t *module_find(const module_t *module, const char *path, member_kind_t kind);
/* Like module_find; *module becomes the module that has the member. */
const member_t *module_find_owned(module_t **module, const char *path, member_kind_t kind);

/* Sets a member. Takes ownership of its value, also on failure; copies its name. */
status_t module_put_take(context_t *ctx, module_t *module, const member_t *member);

/* Fails, because there is no member of this kind at the path. The message names the missing part
 * and lists the members that exist. */
status_t module_no_member(context_t *ctx, const module_t *module, const char *path,
                          member_kind_t kind);

/* Fails if the tensor that the caller passed for result `index` has another dtype or other sizes
 * than the result. */
status_t module_check_result(context_t *ctx, int index, const tensor_info_t *made,
                             const tensor_info_t *wanted);

/* ---- C methods ---- */

/* Returns the function of a C method; NULL for methods of other classes. */
forward_t module_c_forward(const member_t *method);

/* Runs the function of a C method in its own scope. The caller owns the results (at most
 * METHOD_MAX_OUTPUTS). */
status_t module_run_forward(context_t *ctx, module_t *module, const char *method, forward_t forward,
                            int n_in, const tensor_t *const *in, int *n_out, tensor_t **out);

extern const method_class_t module_c_methods;

/* ---- the tree as a list ---- */

typedef struct tree_item {
    module_t *module; /* retained */
    char *path;       /* the first path that leads to it; "" for the top module */
} tree_item_t;

typedef struct tree {
    tree_item_t *items;
    int n;
    int capacity;
} tree_t;

/* Lists all modules, each once, parents first, children in order. */
status_t tree_collect(context_t *ctx, const module_t *module, tree_t *out_tree);
void tree_clear(context_t *ctx, tree_t *tree);

/* Makes "layer1.conv1" of "layer1" and "conv1". With an empty path, returns a copy of the name. */
status_t tree_join(context_t *ctx, const char *path, const char *name, char **out_path);

#endif
