#include "module/mkldnn.h"

#include <string.h>

#include "module/map_impl.h"
#include "module/module_impl.h"
#include "module/placement_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/convert/form_impl.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/text_impl.h"

/* ---- changes of one call, for undoing ---- */

/* Storages (bytes of weights) that this call has marked as packable, and modules whose runs_dense
 * it has changed. */
typedef struct changes {
    storage_t **storages; /* retained */
    int n_storages, storage_capacity;
    module_t **modules; /* retained */
    int n_modules, module_capacity;
} changes_t;

static void clear(context_t *ctx, changes_t *changes)
{
    for (int i = 0; i < changes->n_storages; i++) storage_release(changes->storages[i]);
    for (int i = 0; i < changes->n_modules; i++) module_release(changes->modules[i]);
    CONTEXT_PUT(ctx, changes->storages, changes->modules);
}

/* Undoes the changes. If there is not enough memory for a weight's row-major bytes, the weight
 * stays packed. */
static void undo(context_t *ctx, changes_t *changes)
{
    for (int i = 0; i < changes->n_storages; i++) {
        (void)storage_restore(ctx, changes->storages[i], CAUSE_USER);
        storage_set_packable(changes->storages[i], false);
        storage_let_shed(changes->storages[i], false);
        form_drop(changes->storages[i]);
    }
    for (int i = 0; i < changes->n_modules; i++) {
        module_t *module = changes->modules[i];
        atomic_store(&module->runs_dense, !atomic_load(&module->runs_dense));
    }
}

/* True for parameters, and for buffers of s8 or u8: quantized layers store their weights in
 * buffers, because these weights are not trained. */
static bool may_be_weight(const member_t *member)
{
    if (member->kind == MEMBER_PARAMETER) return member->is.tensor != NULL;
    if (member->kind != MEMBER_BUFFER || member->is.tensor == NULL) return false;
    const dtype_t dtype = tensor_dtype(member->is.tensor);
    return dtype == DTYPE_S8 || dtype == DTYPE_U8;
}

static status_t mark(context_t *ctx, const module_t *module, changes_t *changes)
{
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (!may_be_weight(member)) continue;
        storage_t *storage = member->is.tensor->storage;
        if (storage_is_packable(storage)) continue;
        TRY(context_grow(ctx, &changes->storages, &changes->storage_capacity,
                         changes->n_storages + 1, sizeof(storage_t *)));
        changes->storages[changes->n_storages++] = storage_retain(storage);
        storage_set_packable(storage, true);
        storage_let_shed(storage, true);
    }
    return STATUS_OK;
}

static status_t set_dense(context_t *ctx, module_t *module, bool runs_dense, changes_t *changes)
{
    if (atomic_load(&module->runs_dense) == runs_dense) return STATUS_OK;
    TRY(context_grow(ctx, &changes->modules, &changes->module_capacity, changes->n_modules + 1,
                     sizeof(module_t *)));
    changes->modules[changes->n_modules++] = module_retain(module);
    atomic_store(&module->runs_dense, runs_dense);
    return STATUS_OK;
}

/* ---- skipped modules ---- */

/* Adds a module and all modules below it to the skipped modules. */
static status_t skip_tree(context_t *ctx, module_t *module, map_t *skipped)
{
    tree_t tree = {0};
    TRY(tree_collect(ctx, module, &tree));
    status_t status = STATUS_OK;
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        status = map_put(skipped, tree.items[i].module, tree.items[i].module);
    tree_clear(ctx, &tree);
    return status;
}

/* Skips those children of a module whose path matches the pattern. Adds their number to *n. */
static status_t skip_children(context_t *ctx, const tree_item_t *item, const char *pattern,
                              map_t *skipped, int *n)
{
    for (int i = 0; i < item->module->n_members; i++) {
        const member_t *member = &item->module->members[i];
        char *path = NULL;
        if (member->kind != MEMBER_CHILD) continue;
        TRY(tree_join(ctx, item->path, member->name, &path));
        bool is_meant = text_matches(pattern, path);
        context_put(ctx, path);
        if (!is_meant) continue;
        TRY(skip_tree(ctx, member->is.child, skipped));
        (*n)++;
    }
    return STATUS_OK;
}

static status_t skip_pattern(context_t *ctx, const module_t *root, const char *pattern,
                             map_t *skipped)
{
    tree_t tree = {0};
    int n = 0;
    TRY(tree_collect(ctx, root, &tree));
    status_t status = STATUS_OK;
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        status = skip_children(ctx, &tree.items[i], pattern, skipped, &n);
    tree_clear(ctx, &tree);
    if (status == STATUS_OK && n == 0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "module_mkldnn: skip \"%s\" matches no module of %s",
             pattern, root->type);
    return status;
}

static status_t skip(context_t *ctx, module_t *root, const char *path, map_t *skipped)
{
    if (strchr(path, '*') != NULL) return skip_pattern(ctx, root, path, skipped);
    module_t *module = path[0] != '\0' ? module_child(root, path) : root;
    if (module == NULL) return module_no_member(ctx, root, path, MEMBER_CHILD);
    return skip_tree(ctx, module, skipped);
}

/* ---- module_mkldnn ---- */

static status_t mark_tree(context_t *ctx, module_t *module, const mkldnn_options_t *options,
                          changes_t *changes)
{
    map_t skipped = {.ctx = ctx};
    tree_t tree = {0};
    status_t status = STATUS_OK;
    for (const char *const *path = options->skip; path != NULL && *path != NULL; path++) {
        status = skip(ctx, module, *path, &skipped);
        if (status != STATUS_OK) break;
    }
    if (status == STATUS_OK) status = tree_collect(ctx, module, &tree);
    for (int i = 0; i < tree.n && status == STATUS_OK; i++) {
        bool is_skipped = map_get(&skipped, tree.items[i].module) != NULL;
        status = set_dense(ctx, tree.items[i].module, is_skipped, changes);
        if (status == STATUS_OK && !is_skipped) status = mark(ctx, tree.items[i].module, changes);
    }
    tree_clear(ctx, &tree);
    map_clear(&skipped);
    return status;
}

static status_t run_example(context_t *ctx, module_t *module, const tensor_t *const *example)
{
    tensor_t *out[METHOD_MAX_OUTPUTS];
    int n_in = 0, n_out = 0;
    while (example[n_in] != NULL) n_in++;
    TRY(scope_begin(ctx));
    status_t status = module_call_tensors(ctx, module, "forward", n_in, example, &n_out, out);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}

static status_t place_transitions(context_t *ctx, module_t *module, const tensor_t *const *example)
{
    placement_t *placement = NULL;
    TRY(placement_begin(ctx, &placement));
    status_t status = placement_watch(ctx, placement);
    if (status == STATUS_OK) {
        status = run_example(ctx, module, example);
        placement_unwatch(ctx, placement);
    }
    if (status == STATUS_OK) status = placement_apply(ctx, placement, module);
    placement_end(ctx, placement);
    return status;
}

status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
{
    if (module == NULL) return context_null(ctx, "module_mkldnn", "module");
    static const mkldnn_options_t defaults = {0};
    if (options == NULL) options = &defaults;
    REQUIRE(ctx, !options->transitions || options->example != NULL,
            "module_mkldnn: transitions without an example, which is needed to find each layer's "
            "layout");
    if (options->transitions) TRY(placement_check(ctx, module));
    changes_t changes = {0};
    status_t status = mark_tree(ctx, module, options, &changes);
    if (status == STATUS_OK && options->transitions)
        status = place_transitions(ctx, module, options->example);
    else if (status == STATUS_OK && options->example != NULL)
        status = run_example(ctx, module, options->example);
    if (status != STATUS_OK) undo(ctx, &changes);
    clear(ctx, &changes);
    return status;
}

/* ---- module_dense ---- */

/* Restores the row-major bytes of packed weights. For parameters and buffers in mkldnn layout,
 * makes dense tensors (one if several members share the tensor). The scope holds these until
 * put_plain makes them members. */
static status_t make_plain(context_t *ctx, const module_t *module, map_t *plain)
{
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (member->kind != MEMBER_PARAMETER && member->kind != MEMBER_BUFFER) continue;
        tensor_t *tensor = member->is.tensor;
        if (tensor == NULL) continue;
        TRY(storage_restore(ctx, tensor->storage, CAUSE_USER));
        if (tensor_layout(tensor) == LAYOUT_DENSE) continue;
        if (map_get(plain, tensor) != NULL) continue;
        tensor_t *dense = NULL;
        TRY(to_dense(ctx, tensor, &dense));
        TRY(map_put(plain, tensor, dense));
    }
    return STATUS_OK;
}

static void put_plain(module_t *module, const map_t *plain)
{
    for (int i = 0; i < module->n_members; i++) {
        member_t *member = &module->members[i];
        if (member->kind != MEMBER_PARAMETER && member->kind != MEMBER_BUFFER) continue;
        if (member->is.tensor == NULL) continue;
        tensor_t *dense = map_get(plain, member->is.tensor);
        if (dense != NULL) {
            tensor_drop(member->is.tensor);
            member->is.tensor = tensor_hold(dense);
        }
        if (!may_be_weight(member)) continue;
        storage_set_packable(member->is.tensor->storage, false);
        storage_let_shed(member->is.tensor->storage, false);
        form_drop(member->is.tensor->storage);
    }
}

status_t module_dense(context_t *ctx, module_t *module)
{
    if (module == NULL) return context_null(ctx, "module_dense", "module");
    tree_t tree = {0};
    map_t plain = {.ctx = ctx};
    TRY(scope_begin(ctx));
    status_t status = tree_collect(ctx, module, &tree);
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        status = make_plain(ctx, tree.items[i].module, &plain);
    for (int i = 0; i < tree.n && status == STATUS_OK; i++) {
        put_plain(tree.items[i].module, &plain);
        atomic_store(&tree.items[i].module->runs_dense, false);
    }
    if (status == STATUS_OK) placement_remove(ctx, module);
    tree_clear(ctx, &tree);
    map_clear(&plain);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}
