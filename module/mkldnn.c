#include "module/mkldnn.h"

#include "module/map_impl.h"
#include "module/module_impl.h"
#include "tensor/convert.h"
#include "tensor/form_impl.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* ---- storages ---- */

/* The storages of parameters that a walk is about. */
typedef struct storages {
    storage_t **items; /* retained */
    int n;
    int capacity;
} storages_t;

static void clear(context_t *ctx, storages_t *storages)
{
    for (int i = 0; i < storages->n; i++) storage_release(storages->items[i]);
    context_put(ctx, storages->items);
}

static void unmark(storages_t *storages)
{
    for (int i = 0; i < storages->n; i++) {
        storage_set_packable(storages->items[i], false);
        storage_let_shed(storages->items[i], false);
        form_drop(storages->items[i]);
    }
}

static status_t mark(context_t *ctx, const module_t *module, storages_t *marked)
{
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        if (member->kind != MEMBER_PARAMETER || member->is.tensor == NULL) continue;
        storage_t *storage = member->is.tensor->storage;
        if (storage_is_packable(storage)) continue;
        TRY(context_grow(ctx, &marked->items, &marked->capacity, marked->n + 1,
                         sizeof(storage_t *)));
        marked->items[marked->n++] = storage_retain(storage);
        storage_set_packable(storage, true);
        storage_let_shed(storage, true);
    }
    return STATUS_OK;
}

/* ---- module_mkldnn ---- */

/* Enters the modules of a subtree that is left alone. */
static status_t skip_tree(context_t *ctx, module_t *root, const char *path, map_t *skipped)
{
    module_t *module = path[0] != '\0' ? module_child(root, path) : root;
    if (module == NULL) return module_no_member(ctx, root, path, MEMBER_CHILD);
    tree_t tree = {0};
    TRY(tree_collect(ctx, module, &tree));
    status_t status = STATUS_OK;
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        status = map_put(skipped, tree.items[i].module, tree.items[i].module);
    tree_clear(ctx, &tree);
    return status;
}

static status_t mark_tree(context_t *ctx, module_t *module, const mkldnn_options_t *options,
                          storages_t *marked)
{
    map_t skipped = {.ctx = ctx};
    tree_t tree = {0};
    status_t status = STATUS_OK;
    for (const char *const *path = options->skip; path != NULL && *path != NULL; path++) {
        status = skip_tree(ctx, module, *path, &skipped);
        if (status != STATUS_OK) break;
    }
    if (status == STATUS_OK) status = tree_collect(ctx, module, &tree);
    for (int i = 0; i < tree.n && status == STATUS_OK; i++)
        if (map_get(&skipped, tree.items[i].module) == NULL)
            status = mark(ctx, tree.items[i].module, marked);
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

status_t module_mkldnn(context_t *ctx, module_t *module, const mkldnn_options_t *options)
{
    if (module == NULL) return context_null(ctx, "module_mkldnn", "module");
    static const mkldnn_options_t defaults = {0};
    if (options == NULL) options = &defaults;
    storages_t marked = {0};
    status_t status = mark_tree(ctx, module, options, &marked);
    if (status == STATUS_OK && options->example != NULL)
        status = run_example(ctx, module, options->example);
    if (status != STATUS_OK) unmark(&marked);
    clear(ctx, &marked);
    return status;
}

/* ---- module_dense ---- */

/* Bytes that were shed come back. Parameters and buffers that are mkldnn tensors themselves get a
 * plain form, the same one wherever the same tensor stands; the scope holds it until it has been
 * put in. */
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
        if (member->kind != MEMBER_PARAMETER) continue;
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
    for (int i = 0; i < tree.n && status == STATUS_OK; i++) put_plain(tree.items[i].module, &plain);
    tree_clear(ctx, &tree);
    map_clear(&plain);
    status_t ended = scope_end(ctx);
    return status != STATUS_OK ? status : ended;
}
