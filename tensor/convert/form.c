#include "tensor/convert/form_impl.h"

#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/info_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/store/store_impl.h"

static bool is_same(const tensor_info_t *a, const tensor_info_t *b)
{
    return info_identical(a, b) || info_equal(a, b);
}

static bool is_form_of(const form_t *form, const tensor_t *tensor)
{
    return form->offset == tensor->offset && is_same(&form->from, &tensor->info);
}

/* The storage must be locked. */
static form_t *find(const tensor_t *tensor, const tensor_info_t *want)
{
    form_t *form = storage_forms(tensor->storage);
    while (form != NULL && !(is_form_of(form, tensor) && is_same(&form->tensor->info, want)))
        form = form->next;
    return form;
}

/* The storage must be locked. */
static status_t keep(context_t *ctx, const tensor_t *tensor, tensor_t *as, form_t **out_form)
{
    form_t *form = NULL;
    TRY(context_get(ctx, sizeof *form, "a form", &form));
    *form = (form_t){.next = storage_forms(tensor->storage),
                     .allocator = *context_allocator(ctx),
                     .offset = tensor->offset,
                     .from = tensor->info,
                     .is_clean = true,
                     .tensor = tensor_hold(as)};
    storage_set_forms(tensor->storage, form);
    *out_form = form;
    return STATUS_OK;
}

/* True if the storage's plain bytes can be restored from the form: the tensor of which it is a form
 * (with `info` and `offset`) is the complete storage, in row-major order, and a tag describes the
 * form's format. */
static bool can_be_master(const storage_t *storage, const tensor_info_t *info, int64_t offset,
                          const tensor_t *form)
{
    tensor_info_t inner = convert_inner_info(&form->info);
    return info->layout == LAYOUT_DENSE && offset == 0 && info_is_contiguous(info) &&
           info_bytes(info) == storage_bytes(storage) && inner.format.kind == FORMAT_TAG &&
           info_numel(info) == info_numel(&inner);
}

/* ---- making and refreshing ---- */

/* Finds a clean form from which one reorder makes `want`. Returns NULL if there is none, or if the
 * plain bytes are clean, which are then used instead. */
static const form_t *find_clean(const tensor_t *tensor, const tensor_info_t *want)
{
    bool is_far = want->format.kind != FORMAT_TAG && want->format.kind != FORMAT_STRIDED;
    if (is_far || storage_is_plain(tensor->storage)) return NULL;
    const form_t *form = storage_forms(tensor->storage);
    for (; form != NULL; form = form->next) {
        tensor_info_t info = convert_inner_info(&form->tensor->info);
        if (form->is_clean && is_form_of(form, tensor) && info.format.kind == FORMAT_TAG &&
            shape_equal(info.rank, info.sizes, want->rank, want->sizes))
            return form;
    }
    return NULL;
}

/* Finds the elements from which to make a form: a clean form, or the plain bytes. The storage must
 * be locked. */
static status_t find_elements(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                              reorder_cause_t cause, const tensor_info_t **out_info,
                              const void **out_bytes)
{
    const form_t *form = find_clean(tensor, want);
    const void *bytes = NULL;
    if (form != NULL) {
        *out_info = &form->tensor->info;
        *out_bytes = tensor_bytes(form->tensor);
        return STATUS_OK;
    }
    TRY(storage_peek(ctx, tensor->storage, cause, &bytes));
    *out_info = &tensor->info;
    *out_bytes = (const char *)bytes + tensor->offset;
    return STATUS_OK;
}

/* Sheds the plain bytes if possible, because they are rarely read once a form exists. */
static void shed_plain(const tensor_t *tensor, const form_t *form)
{
    if (can_be_master(tensor->storage, &form->from, form->offset, form->tensor))
        storage_shed(tensor->storage);
    if (info_bytes(&form->from) == storage_bytes(tensor->storage)) storage_unload(tensor->storage);
}

/* Packs a constant, and adds the result to the store. If the bytes are those of a mapped file,
 * packs a copy: another program could change the file between the computation of the name and the
 * packing, and the store would have a wrong form under this name. */
static status_t pack_and_store(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                               const void *bytes, bool is_own, const tensor_info_t *want,
                               reorder_cause_t cause, store_key_t *key, tensor_t **out_tensor)
{
    void *copy = NULL;
    const size_t n_bytes = info_bytes(from);
    if (!is_own) {
        scope_attempt(ctx);
        (void)scope_attempt_end(ctx, context_get(ctx, n_bytes, "a copy of a weight", &copy), true);
        if (copy != NULL) bytes = memcpy(copy, bytes, n_bytes);
    }
    /* Without memory for a copy the form is made, but not stored. */
    const bool is_stored = is_own ||
                           (copy != NULL && store_name(ctx, from, bytes, NULL, want, key));
    const status_t status = convert_pack(ctx, pack, from, bytes, want, cause, out_tensor);
    context_put(ctx, copy);
    if (status == STATUS_OK && is_stored) store_put(ctx, key, *out_tensor);
    return status;
}

/* Packs a constant by a kernel's function, or finds the result in the store. */
static status_t find_or_pack(context_t *ctx, convert_pack_t pack, const tensor_info_t *from,
                             const void *bytes, const storage_t *storage, const tensor_info_t *want,
                             reorder_cause_t cause, bool *out_is_made, tensor_t **out_tensor)
{
    store_key_t key;
    const bool is_own = !storage_is_read_only(storage);
    const bool is_stored = store_name(ctx, from, bytes, file_of(storage), want, &key);
    if (is_stored) *out_tensor = store_find(ctx, &key, want);
    *out_is_made = !is_stored || *out_tensor == NULL;
    if (!*out_is_made) {
        convert_count_transition(ctx, want->layout);
        context_counters(ctx)->weights_mapped++;
        return STATUS_OK;
    }
    if (!is_stored) return convert_pack(ctx, pack, from, bytes, want, cause, out_tensor);
    return pack_and_store(ctx, pack, from, bytes, is_own, want, cause, &key, out_tensor);
}

/* The storage must be locked. */
static status_t make(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                     convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                     form_t **out_form)
{
    const tensor_info_t *info = NULL;
    const void *bytes = NULL;
    tensor_t *made = NULL;
    TRY(find_elements(ctx, tensor, want, cause, &info, &bytes));
    if (pack != NULL && storage_is_stored(tensor->storage))
        TRY(find_or_pack(ctx, pack, info, bytes, tensor->storage, want, cause, out_is_made, &made));
    else
        TRY(convert_pack(ctx, pack, info, bytes, want, cause, &made));
    status_t status = keep(ctx, tensor, made, out_form);
    tensor_drop(made);
    if (status == STATUS_OK) shed_plain(tensor, *out_form);
    return status;
}

/* True if nobody else uses the form's tensor (a call or plan) or its bytes (a snapshot). */
static bool is_alone(const tensor_t *form)
{
    return atomic_load(&form->n_references) == 1 && storage_is_alone(form->storage);
}

/* Replaces the form's tensor. The caller must release the old tensor after it has unlocked the
 * storage. */
static void replace_take(form_t *form, tensor_t *tensor, tensor_t **out_old)
{
    *out_old = form->tensor;
    form->tensor = tensor;
}

/* Updates a dirty form in place, or in a new tensor if somebody else uses the old one. Plain bytes
 * that had to be restored for this are not shed again, because the next update will need them. */
static status_t refresh(context_t *ctx, const tensor_t *tensor, form_t *form, convert_pack_t pack,
                        reorder_cause_t cause, tensor_t **out_old)
{
    const bool was_plain = storage_is_plain(tensor->storage);
    const tensor_info_t *info = NULL, *want = &form->tensor->info;
    const void *from = NULL;
    tensor_t *made = NULL;
    void *bytes = NULL;
    TRY(find_elements(ctx, tensor, want, cause, &info, &from));
    if (is_alone(form->tensor)) {
        TRY(tensor_writable(ctx, form->tensor, &bytes));
        TRY(convert_pack_bytes(ctx, pack, info, from, want, bytes, cause));
        if (info->layout != want->layout) convert_count_transition(ctx, want->layout);
    } else {
        TRY(convert_pack(ctx, pack, info, from, want, cause, &made));
        replace_take(form, made, out_old);
    }
    form->is_clean = true;
    if (was_plain) shed_plain(tensor, form);
    return STATUS_OK;
}

/* The storage must be locked. */
static status_t get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                    convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                    form_t **out_form, tensor_t **out_old)
{
    form_t *form = find(tensor, want);
    *out_is_made = form == NULL || !form->is_clean;
    if (form == NULL) return make(ctx, tensor, want, pack, cause, out_is_made, out_form);
    *out_form = form;
    return form->is_clean ? STATUS_OK : refresh(ctx, tensor, form, pack, cause, out_old);
}

status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                  tensor_t **out_form)
{
    form_t *form = NULL;
    tensor_t *old = NULL;
    bool is_made = false;
    storage_lock(tensor->storage);
    status_t status = get(ctx, tensor, want, pack, cause, &is_made, &form, &old);
    if (status == STATUS_OK) *out_form = tensor_hold(form->tensor);
    storage_unlock(tensor->storage);
    tensor_drop(old);
    if (status == STATUS_OK && out_is_made != NULL) *out_is_made = is_made;
    return status;
}

/* The storage must be locked. */
static status_t read_once(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                          convert_pack_t pack, reorder_cause_t cause, void *room)
{
    const tensor_info_t *info = NULL;
    const void *bytes = NULL;
    TRY(find_elements(ctx, tensor, want, cause, &info, &bytes));
    TRY(convert_pack_bytes(ctx, pack, info, bytes, want, room, cause));
    if (info->layout != want->layout) convert_count_transition(ctx, want->layout);
    return STATUS_OK;
}

status_t form_read(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                   convert_pack_t pack, reorder_cause_t cause, void *room, tensor_t **out_form)
{
    status_t status = STATUS_OK;
    *out_form = NULL;
    storage_lock(tensor->storage);
    const form_t *form = find(tensor, want);
    if (form != NULL && form->is_clean)
        *out_form = tensor_hold(form->tensor);
    else
        status = read_once(ctx, tensor, want, pack, cause, room);
    storage_unlock(tensor->storage);
    return status;
}

status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form)
{
    form_t *kept = NULL;
    storage_lock(tensor->storage);
    FINISH(keep(ctx, tensor, form, &kept), storage_unlock(tensor->storage));
}

int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms)
{
    int n = 0;
    storage_lock(tensor->storage);
    for (form_t *form = storage_forms(tensor->storage); form != NULL && n < capacity;
         form = form->next)
        if (form->is_clean && is_form_of(form, tensor)) out_forms[n++] = tensor_hold(form->tensor);
    storage_unlock(tensor->storage);
    return n;
}

static void release_forms(form_t *form)
{
    while (form != NULL) {
        form_t *next = form->next;
        allocator_t allocator = form->allocator;
        tensor_drop(form->tensor);
        allocator_put(&allocator, form);
        form = next;
    }
}

/* Removes the forms from the storage while it is locked, and releases them after unlocking, because
 * a form may have forms itself. Without is_end, keeps them if the plain bytes are not clean: then
 * only a form has the elements. This is tested under the lock, because another thread may write to
 * a form. */
static void detach(storage_t *storage, bool is_end)
{
    form_t *form = NULL;
    if (storage_forms(storage) == NULL) return;
    storage_lock(storage);
    if (is_end || storage_is_plain(storage)) {
        form = storage_forms(storage);
        storage_set_forms(storage, NULL);
    }
    storage_unlock(storage);
    release_forms(form);
}

void form_drop_idle(storage_t *storage)
{
    form_t *kept = NULL, *gone = NULL, **end = &kept;
    if (storage_forms(storage) == NULL) return;
    storage_lock(storage);
    for (form_t *form = storage_forms(storage), *next; form != NULL; form = next) {
        next = form->next;
        if (storage_is_plain(storage) && is_alone(form->tensor)) {
            form->next = gone;
            gone = form;
        } else {
            *end = form;
            end = &form->next;
        }
    }
    *end = NULL;
    storage_set_forms(storage, kept);
    storage_unlock(storage);
    release_forms(gone);
}

void form_clear(storage_t *storage)
{
    detach(storage, true);
}

void form_drop(storage_t *storage)
{
    detach(storage, false);
}

/* ---- writing ---- */

/* The storage must be locked. */
static void mark_dirty(const storage_t *storage)
{
    for (form_t *form = storage_forms(storage); form != NULL; form = form->next)
        form->is_clean = false;
}

void form_mark_dirty(storage_t *storage)
{
    if (storage_forms(storage) == NULL) return;
    storage_lock(storage);
    mark_dirty(storage);
    storage_unlock(storage);
}

/* Copies the form's bytes if somebody else uses them too. */
static status_t separate(context_t *ctx, form_t *form, tensor_t **out_old)
{
    if (is_alone(form->tensor)) return STATUS_OK;
    const tensor_info_t *info = &form->tensor->info;
    const size_t n_bytes = info_bytes(info);
    tensor_t *copy = NULL;
    void *bytes = NULL;
    TRY(tensor_make_of(ctx, info, n_bytes, 0, &copy, &bytes));
    memcpy(bytes, tensor_bytes(form->tensor), n_bytes);
    replace_take(form, copy, out_old);
    return STATUS_OK;
}

/* Prepares a write to a form. If the plain bytes can be restored from the form, it becomes the
 * "master": the only clean form. Otherwise all forms become dirty until form_written has updated
 * the plain bytes. The storage must be locked. */
static status_t begin_write(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                            reorder_cause_t cause, void **out_bytes, bool *out_is_master,
                            tensor_t **old)
{
    storage_t *storage = tensor->storage;
    form_t *form = NULL;
    bool is_made = false;
    TRY(get(ctx, tensor, want, NULL, cause, &is_made, &form, &old[0]));
    TRY(separate(ctx, form, &old[1]));
    TRY(tensor_writable(ctx, form->tensor, out_bytes));
    *out_is_master = !storage_is_lent(storage) &&
                     can_be_master(storage, &form->from, form->offset, form->tensor);
    if (!*out_is_master) return STATUS_OK;
    mark_dirty(storage);
    form->is_clean = true;
    storage_give_way(storage);
    return STATUS_OK;
}

status_t form_writable(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                       reorder_cause_t cause, void **out_bytes)
{
    if (!convert_moves_bytes(&tensor->info, want)) return tensor_writable(ctx, tensor, out_bytes);
    if (want->format.kind == FORMAT_OPAQUE)
        FAIL(ctx, STATUS_UNSUPPORTED, "form: cannot write %s as %s, which cannot be read back",
             tensor_text(tensor), info_brief(want));
    tensor_t *old[2] = {NULL};
    void *bytes = NULL, *plain = NULL;
    bool is_master = false;
    storage_lock(tensor->storage);
    status_t status = begin_write(ctx, tensor, want, cause, &bytes, &is_master, old);
    storage_unlock(tensor->storage);
    tensor_drop(old[0]);
    tensor_drop(old[1]);
    if (status == STATUS_OK && !is_master) status = storage_writable(ctx, tensor->storage, &plain);
    if (status == STATUS_OK) *out_bytes = bytes;
    return status;
}

status_t form_reserve(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause)
{
    form_t *form = NULL;
    tensor_t *old = NULL;
    bool is_made = false, is_ready = false;
    void *bytes = NULL;
    if (!convert_moves_bytes(&tensor->info, want)) {
        if (storage_is_alone(tensor->storage)) return STATUS_OK;
        return tensor_writable(ctx, tensor, &bytes);
    }
    if (want->format.kind != FORMAT_OPAQUE) {
        storage_lock(tensor->storage);
        status_t status = get(ctx, tensor, want, NULL, cause, &is_made, &form, &old);
        is_ready = status == STATUS_OK && is_alone(form->tensor);
        storage_unlock(tensor->storage);
        tensor_drop(old);
        TRY(status);
    }
    return is_ready ? STATUS_OK : form_writable(ctx, tensor, want, cause, &bytes);
}

/* Copies a form's elements to the plain bytes. If the form has other sizes, but the plain bytes are
 * row-major, they can be described with the form's sizes, so no intermediate copy is needed. */
static status_t write_back(context_t *ctx, tensor_t *tensor, const tensor_t *form,
                           reorder_cause_t cause)
{
    tensor_info_t info = convert_inner_info(&form->info), plain = tensor->info;
    void *bytes = NULL;
    if (info_is_contiguous(&plain)) plain = info_dense(info.dtype, info.rank, info.sizes);
    TRY(tensor_writable(ctx, tensor, &bytes));
    return convert_into(ctx, &info, tensor_bytes(form), &plain, bytes, cause);
}

status_t form_written(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause)
{
    if (!convert_moves_bytes(&tensor->info, want)) return STATUS_OK;
    storage_lock(tensor->storage);
    form_t *form = find(tensor, want);
    INVARIANT(form != NULL);
    storage_unlock(tensor->storage);
    INVARIANT(convert_padding_is_zero(&form->tensor->info, tensor_bytes(form->tensor)));
    if (form->is_clean) return STATUS_OK;
    TRY(write_back(ctx, tensor, form->tensor, cause));
    storage_lock(tensor->storage);
    form->is_clean = true;
    storage_unlock(tensor->storage);
    return STATUS_OK;
}

/* ---- restoring plain bytes ---- */

/* The offset of an element is the sum of tables[d][index[d]] over the dimensions. */
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

/* Restores plain bytes without a context, in a simple loop on the calling thread. */
static status_t write_rows(const form_t *form, const tensor_info_t *info, void *bytes)
{
    int64_t n_places = 0;
    for (int d = 0; d < info->rank; d++) n_places += info->sizes[d];
    int64_t *memory = allocator_get(&form->allocator, (size_t)n_places * sizeof *memory);
    if (memory == NULL) return STATUS_OUT_OF_MEMORY;
    places_t places;
    fill_tables(info, memory, &places);
    copy_rows(&places, dtype_size(info->dtype), tensor_bytes(form->tensor), bytes);
    allocator_put(&form->allocator, memory);
    return STATUS_OK;
}

status_t form_write_plain(context_t *ctx, const storage_t *storage, reorder_cause_t cause,
                          void *bytes)
{
    const form_t *form = storage_forms(storage);
    while (form != NULL &&
           !(form->is_clean && can_be_master(storage, &form->from, form->offset, form->tensor)))
        form = form->next;
    INVARIANT(form != NULL);
    tensor_info_t info = convert_inner_info(&form->tensor->info);
    if (ctx == NULL) return write_rows(form, &info, bytes);
    tensor_info_t plain = info_dense(info.dtype, info.rank, info.sizes);
    return convert_bytes(ctx, &info, tensor_bytes(form->tensor), &plain, bytes, cause);
}
