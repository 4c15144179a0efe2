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

/* Whether the plain bytes of a storage can be made from a form of a tensor in it: the tensor is all
 * of the storage, in row-major order, and a tag says where the form has its elements. */
static bool can_be_master(const storage_t *storage, const tensor_info_t *info, int64_t offset,
                          const tensor_t *form)
{
    tensor_info_t inner = convert_inner_info(&form->info);
    return info->layout == LAYOUT_DENSE && offset == 0 && info_is_contiguous(info) &&
           info_bytes(info) == storage_bytes(storage) && inner.format.kind == FORMAT_TAG &&
           info_numel(info) == info_numel(&inner);
}

/* The storage is locked. */
static status_t make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                     reorder_cause_t cause, tensor_t **out_form)
{
    tensor_t *made = NULL;
    const char *bytes = storage_peek(tensor->storage);
    if (bytes == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for the plain form of a tensor",
             storage_bytes(tensor->storage));
    TRY(convert_make_from(ctx, &tensor->info, bytes + tensor->offset, want, cause, &made));
    status_t status = keep(ctx, tensor, made);
    if (status != STATUS_OK) {
        tensor_drop(made);
        return status;
    }
    if (can_be_master(tensor->storage, &tensor->info, tensor->offset, made))
        storage_shed(tensor->storage);
    *out_form = made;
    return STATUS_OK;
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
void form_clear(storage_t *storage)
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

void form_drop(storage_t *storage)
{
    if (!storage_is_shed(storage)) form_clear(storage);
}

/* ---- back to plain ---- */

/* Where element i of dimension d lies is tables[d][i], added over the dimensions. */
typedef struct places {
    int rank;
    const int64_t *sizes;
    const int64_t *tables[TENSOR_MAX_RANK];
} places_t;

static void fill_tables(const tensor_info_t *info, int64_t *memory, places_t *out_places)
{
    int64_t index[TENSOR_MAX_RANK] = {0};
    *out_places = (places_t){.rank = info->rank, .sizes = info->sizes};
    for (int d = 0; d < info->rank; d++) {
        out_places->tables[d] = memory;
        for (int64_t i = 0; i < info->sizes[d]; i++) {
            index[d] = i;
            *memory++ = format_offset(&info->format, info->sizes, index);
        }
        index[d] = 0;
    }
}

#define COPY_ROW(type)                                                                             \
    for (int64_t i = 0; i < n; i++)                                                                \
    ((type *)(void *)to)[i] = ((const type *)(const void *)from)[base + row[i]]

static void copy_row(size_t size, int64_t n, const int64_t *row, const char *from, int64_t base,
                     char *to)
{
    switch (size) {
    case 1: COPY_ROW(uint8_t); return;
    case 2: COPY_ROW(uint16_t); return;
    case 4: COPY_ROW(uint32_t); return;
    default: COPY_ROW(uint64_t); return;
    }
}

static void copy_rows(const places_t *places, size_t size, const char *from, char *to)
{
    const int last = places->rank - 1;
    int64_t index[TENSOR_MAX_RANK] = {0};
    do {
        int64_t base = 0;
        for (int d = 0; d < last; d++) base += places->tables[d][index[d]];
        copy_row(size, places->sizes[last], places->tables[last], from, base, to);
        to += (size_t)places->sizes[last] * size;
    } while (last > 0 && shape_next(last, places->sizes, index));
}

bool form_write_plain(storage_t *storage, void *bytes)
{
    const form_t *form = storage_forms(storage);
    while (form != NULL && !can_be_master(storage, &form->from, form->offset, form->tensor))
        form = form->next;
    if (form == NULL) return false;
    tensor_info_t info = convert_inner_info(&form->tensor->info);
    int64_t n_places = 0;
    for (int d = 0; d < info.rank; d++) n_places += info.sizes[d];
    int64_t *memory = allocator_get(&form->allocator, (size_t)n_places * sizeof *memory);
    if (memory == NULL) return false;
    places_t places;
    fill_tables(&info, memory, &places);
    copy_rows(&places, dtype_size(info.dtype), tensor_bytes(form->tensor), bytes);
    allocator_put(&form->allocator, memory);
    return true;
}
