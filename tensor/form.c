#include "tensor/form_impl.h"

#include "tensor/convert_impl.h"
#include "tensor/info_impl.h"

static bool is_same(const tensor_info_t *a, const tensor_info_t *b)
{
    return info_identical(a, b) || info_equal(a, b);
}

static bool is_form_of(const form_t *form, const tensor_t *tensor)
{
    return form->offset == tensor->offset && is_same(&form->from, &tensor->info);
}

/* The storage is locked. */
static form_t *find(const tensor_t *tensor, const tensor_info_t *want)
{
    form_t *form = storage_forms(tensor->storage);
    while (form != NULL && !(is_form_of(form, tensor) && is_same(&form->tensor->info, want)))
        form = form->next;
    return form;
}

/* The storage is locked. */
static status_t keep(context_t *ctx, const tensor_t *tensor, tensor_t *as)
{
    form_t *form = NULL;
    TRY(context_get(ctx, sizeof *form, "a form", &form));
    *form = (form_t){.next = storage_forms(tensor->storage),
                     .allocator = *context_allocator(ctx),
                     .offset = tensor->offset,
                     .from = tensor->info,
                     .tensor = tensor_hold(as)};
    storage_set_forms(tensor->storage, form);
    return STATUS_OK;
}

/* The storage is locked. */
static status_t make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                     reorder_cause_t cause, tensor_t **out_form)
{
    tensor_t *made = NULL;
    TRY(convert_make(ctx, tensor, want, cause, &made));
    status_t status = keep(ctx, tensor, made);
    if (status == STATUS_OK)
        *out_form = made;
    else
        tensor_drop(made);
    return status;
}

status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  reorder_cause_t cause, bool *out_is_made, tensor_t **out_form)
{
    status_t status = STATUS_OK;
    storage_lock(tensor->storage);
    const form_t *found = find(tensor, want);
    if (found != NULL)
        *out_form = tensor_hold(found->tensor);
    else
        status = make(ctx, tensor, want, cause, out_form);
    storage_unlock(tensor->storage);
    if (status == STATUS_OK && out_is_made != NULL) *out_is_made = found == NULL;
    return status;
}

status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form)
{
    storage_lock(tensor->storage);
    status_t status = keep(ctx, tensor, form);
    storage_unlock(tensor->storage);
    return status;
}

int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms)
{
    int n = 0;
    storage_lock(tensor->storage);
    for (form_t *form = storage_forms(tensor->storage); form != NULL && n < capacity;
         form = form->next)
        if (is_form_of(form, tensor)) out_forms[n++] = tensor_hold(form->tensor);
    storage_unlock(tensor->storage);
    return n;
}

/* Detached under the lock, released outside it: a form may have forms of its own. */
void form_drop(storage_t *storage)
{
    if (storage_forms(storage) == NULL) return;
    storage_lock(storage);
    form_t *form = storage_forms(storage);
    storage_set_forms(storage, NULL);
    storage_unlock(storage);
    while (form != NULL) {
        form_t *next = form->next;
        allocator_t allocator = form->allocator;
        tensor_drop(form->tensor);
        allocator_put(&allocator, form);
        form = next;
    }
}
