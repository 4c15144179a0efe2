#include <string.h>

#include "module/map_impl.h"
#include "module/module_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Maps from originals to clones. Each object is cloned once, so that shared objects stay shared. A
 * storage (the bytes of one or more tensors) is cloned completely, so that views of one storage
 * stay views of one storage. The cloned module owns the clones. */
typedef struct cloner {
    context_t *ctx;
    bool shares_bytes; /* a tensor and its clone share bytes until one is written */
    map_t modules;
    map_t tensors;
    map_t storages;
    map_t datums;
} cloner_t;

static status_t copy_storage(context_t *ctx, storage_t *storage, storage_t **out_copy)
{
    storage_t *copy = NULL;
    void *bytes = NULL;
    TRY(storage_restore(ctx, storage, CAUSE_USER));
    TRY(storage_create(ctx, storage_bytes(storage), &copy));
    TRY_OR(storage_writable(ctx, copy, &bytes), storage_release(copy));
    if (storage_bytes(storage) > 0) memcpy(bytes, storage_data(storage), storage_bytes(storage));
    *out_copy = copy;
    return STATUS_OK;
}

static status_t clone_storage(cloner_t *cloner, storage_t *storage, storage_t **out_storage)
{
    storage_t *copy = map_get(&cloner->storages, storage);
    if (copy != NULL) {
        *out_storage = storage_retain(copy);
        return STATUS_OK;
    }
    TRY(cloner->shares_bytes ? storage_snapshot(cloner->ctx, storage, &copy)
                             : copy_storage(cloner->ctx, storage, &copy));
    status_t status = map_put(&cloner->storages, storage, copy);
    GIVE(status, out_storage, copy, storage_release(copy));
}

/* Returns the clone of a tensor; the caller releases it. Clones of mkldnn tensors are dense, except
 * for those in grouped formats, which would take much more memory. */
static status_t clone_tensor(cloner_t *cloner, tensor_t *tensor, tensor_t **out_tensor)
{
    tensor_t *copy = map_get(&cloner->tensors, tensor);
    if (copy != NULL) {
        *out_tensor = tensor_hold(copy);
        return STATUS_OK;
    }
    if (tensor_layout(tensor) == LAYOUT_MKLDNN && tensor->info.format.kind != FORMAT_GROUPED) {
        TRY(to_dense(cloner->ctx, tensor, &copy));
        tensor_hold(copy);
    } else {
        storage_t *storage = NULL;
        TRY(clone_storage(cloner, tensor->storage, &storage));
        status_t status = tensor_over(cloner->ctx, &tensor->info, storage, tensor->offset, &copy);
        storage_release(storage);
        TRY(status);
    }
    status_t status = map_put(&cloner->tensors, tensor, copy);
    GIVE(status, out_tensor, copy, tensor_drop(copy));
}

static status_t clone_datum(cloner_t *cloner, datum_t *datum, datum_t **out_datum);

/* Clones a list, tuple or dict. */
static status_t clone_items(cloner_t *cloner, const datum_t *datum, datum_t **out_copy)
{
    context_t *ctx = cloner->ctx;
    int n = datum_length(datum), n_made = 0;
    datum_t **items = NULL;
    const char **keys = NULL;
    status_t status = context_get(ctx, (size_t)n * sizeof *items, "items of a value", &items);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)n * sizeof *keys, "keys of a value", &keys);
    while (n_made < n && status == STATUS_OK) {
        keys[n_made] = datum_key(datum, n_made);
        status = clone_datum(cloner, datum_item(datum, n_made), &items[n_made]);
        n_made += status == STATUS_OK;
    }
    datum_kind_t kind = datum_kind(datum);
    if (status == STATUS_OK)
        status = kind == DATUM_LIST    ? datum_list(ctx, n, items, out_copy)
                 : kind == DATUM_TUPLE ? datum_tuple(ctx, n, items, out_copy)
                                       : datum_dict(ctx, n, keys, items, out_copy);
    while (n_made > 0) datum_release(items[--n_made]);
    CONTEXT_PUT(ctx, keys, items);
    return status;
}

static bool has_parts(const datum_t *datum)
{
    datum_kind_t kind = datum_kind(datum);
    return kind == DATUM_LIST || kind == DATUM_TUPLE || kind == DATUM_DICT;
}

static status_t clone_datum(cloner_t *cloner, datum_t *datum, datum_t **out_datum)
{
    datum_t *copy = map_get(&cloner->datums, datum);
    if (copy != NULL) {
        *out_datum = datum_retain(copy);
        return STATUS_OK;
    }
    if (datum_kind(datum) == DATUM_TENSOR) {
        tensor_t *tensor = NULL;
        TRY(clone_tensor(cloner, datum_as_tensor(datum), &tensor));
        status_t status = datum_tensor(cloner->ctx, tensor, &copy);
        tensor_drop(tensor);
        TRY(status);
    } else {
        TRY(has_parts(datum) ? clone_items(cloner, datum, &copy)
                             : datum_clone(cloner->ctx, datum, &copy));
    }
    status_t status = map_put(&cloner->datums, datum, copy);
    GIVE(status, out_datum, copy, datum_release(copy));
}

static status_t clone_method(cloner_t *cloner, const module_t *module, const member_t *method,
                             void **out_state)
{
    const method_class_t *class_ = method->is.method.class_;
    void *state = method->is.method.state;
    if (class_->clone != NULL) return class_->clone(cloner->ctx, state, out_state);
    if (state != NULL)
        FAIL(cloner->ctx, STATUS_UNSUPPORTED,
             "module: method \"%s\" of %s is of class %s, which cannot be cloned", method->name,
             module->type, class_->name);
    *out_state = NULL;
    return STATUS_OK;
}

static status_t clone_module(cloner_t *cloner, const module_t *module, module_t **out_module);

static status_t clone_member(cloner_t *cloner, const module_t *module, const member_t *member,
                             module_t *copy)
{
    member_t made = *member;
    switch (member->kind) {
    case MEMBER_PARAMETER:
    case MEMBER_BUFFER:
        if (member->is.tensor != NULL)
            TRY(clone_tensor(cloner, member->is.tensor, &made.is.tensor));
        break;
    case MEMBER_ATTRIBUTE: TRY(clone_datum(cloner, member->is.datum, &made.is.datum)); break;
    case MEMBER_CHILD: TRY(clone_module(cloner, member->is.child, &made.is.child)); break;
    case MEMBER_METHOD: TRY(clone_method(cloner, module, member, &made.is.method.state)); break;
    }
    return module_put_take(cloner->ctx, copy, &made);
}

static status_t clone_module(cloner_t *cloner, const module_t *module, module_t **out_module)
{
    module_t *copy = map_get(&cloner->modules, module);
    if (copy != NULL) {
        *out_module = module_retain(copy);
        return STATUS_OK;
    }
    TRY(module_make(cloner->ctx, module->type, &copy));
    status_t status = map_put(&cloner->modules, module, copy);
    for (int i = 0; i < module->n_members && status == STATUS_OK; i++)
        status = clone_member(cloner, module, &module->members[i], copy);
    GIVE(status, out_module, copy, module_release(copy));
}

/* Clones a module in a scope, which releases the temporary tensors that to_dense creates. */
static status_t clone_tree(context_t *ctx, const module_t *module, bool shares_bytes,
                           module_t **out_module)
{
    cloner_t cloner = {ctx, shares_bytes, {.ctx = ctx}, {.ctx = ctx}, {.ctx = ctx}, {.ctx = ctx}};
    module_t *copy = NULL;
    TRY(scope_begin(ctx));
    status_t status = clone_module(&cloner, module, &copy);
    status_t ended = scope_end(ctx);
    map_clear(&cloner.modules);
    map_clear(&cloner.tensors);
    map_clear(&cloner.storages);
    map_clear(&cloner.datums);
    if (status == STATUS_OK) status = ended;
    GIVE(status, out_module, copy, module_release(copy));
}

status_t module_clone(context_t *ctx, const module_t *module, module_t **out_module)
{
    TRY(context_output(ctx, "module_clone", out_module));
    if (module == NULL) return context_null(ctx, "module_clone", "module");
    return clone_tree(ctx, module, false, out_module);
}

status_t module_snapshot(context_t *ctx, const module_t *module, module_t **out_module)
{
    if (module == NULL) return context_null(ctx, "module_snapshot", "module");
    return clone_tree(ctx, module, true, out_module);
}
