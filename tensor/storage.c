#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tensor/base/references_impl.h"
#include "tensor/convert/form_impl.h"

/* Up to this size, a tensor's bytes are in one memory block with its storage and its struct
 * (handle). Larger bytes have their own block, so that they can be freed before the handle. */
#define SHARED_BLOCK_MAX ((size_t)128 << 10)

struct buffer {
    atomic_int n_references;
    atomic_bool is_left; /* the storage in this buffer's memory block now uses another buffer, but
                            still holds a reference to this one */
    bool is_read_only;
    bool is_borrowed;
    allocator_t allocator;
    void *data;
    size_t bytes;
    buffer_deleter_t deleter;
    void *user;
    buffer_unload_t unload; /* NULL: the bytes cannot be reloaded */
};

struct storage {
    atomic_int n_references;
    atomic_bool is_packable;
    atomic_bool is_stored; /* forms that kernels read are saved in the store */
    atomic_bool may_shed;
    atomic_bool is_exposed; /* the user has a pointer to the bytes */
    int n_returns; /* number of writes that had to restore shed bytes, since the last write to a
                      form */
    atomic_uint_fast64_t version;
    allocator_t allocator;
    size_t bytes;
    _Atomic(buffer_t *) buffer; /* plain bytes; NULL: dirty or shed, so only forms have elements */
    _Atomic(buffer_t *) dirty;  /* memory of dirty plain bytes; NULL: clean or shed */
    buffer_t *home; /* the buffer in whose memory block this storage is, and to which it holds a
                       reference. NULL: the storage has its own block */
    pthread_mutex_t lock;
    _Atomic(form_t *) forms;
    atomic_int *looks; /* placeholders only, else NULL */
};

/* ---- buffers ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static void init_buffer(const allocator_t *allocator, buffer_t *buffer, void *data, size_t bytes)
{
    *buffer = (buffer_t){.allocator = *allocator, .data = data, .bytes = bytes};
    atomic_init(&buffer->n_references, 1);
    atomic_init(&buffer->is_left, false);
}

/* Initialises the buffer of a new tensor, and adds its bytes to the counter tensor_bytes. */
static void init_new_buffer(context_t *ctx, buffer_t *buffer, void *data, size_t bytes)
{
    init_buffer(context_allocator(ctx), buffer, data, bytes);
    context_counters(ctx)->tensor_bytes += bytes;
}

/* Allocates a header of `head` bytes and `bytes` aligned bytes in one block. */
static status_t get_block(context_t *ctx, size_t head, size_t bytes, char **out_block)
{
    size_t total;
    if (__builtin_add_overflow(bytes, head, &total))
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for a tensor, too many", bytes);
    return context_get(ctx, total, "a tensor", out_block);
}

static status_t make_buffer(context_t *ctx, size_t bytes, buffer_t **out_buffer)
{
    char *block = NULL;
    TRY(get_block(ctx, aligned(sizeof(buffer_t)), bytes, &block));
    *out_buffer = (buffer_t *)(void *)block;
    init_new_buffer(ctx, *out_buffer, block + aligned(sizeof(buffer_t)), bytes);
    return STATUS_OK;
}

static void release_buffer(buffer_t *buffer)
{
    if (buffer == NULL || !references_drop(&buffer->n_references)) return;
    if (buffer->deleter != NULL) buffer->deleter(buffer->user, buffer->data);
    allocator_t allocator = buffer->allocator;
    allocator_put(&allocator, buffer);
}

static bool is_shared(const buffer_t *buffer)
{
    return atomic_load(&buffer->n_references) > 1 + atomic_load(&buffer->is_left);
}

/* ---- storages ---- */

static void init_storage(context_t *ctx, storage_t *storage, buffer_t *buffer, buffer_t *home)
{
    atomic_init(&storage->n_references, 1);
    atomic_init(&storage->is_packable, false);
    atomic_init(&storage->is_stored, false);
    atomic_init(&storage->may_shed, false);
    atomic_init(&storage->is_exposed, false);
    storage->n_returns = 0;
    atomic_init(&storage->version, 0);
    storage->allocator = *context_allocator(ctx);
    storage->bytes = buffer->bytes;
    atomic_init(&storage->buffer, buffer);
    atomic_init(&storage->dirty, NULL);
    storage->home = home;
    storage->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    atomic_init(&storage->forms, NULL);
    storage->looks = NULL;
}

/* Makes a storage that, on success, takes over the caller's reference to the buffer. */
static status_t wrap_take(context_t *ctx, buffer_t *buffer, storage_t **out_storage)
{
    TRY(context_get(ctx, sizeof **out_storage, "a storage", out_storage));
    init_storage(ctx, *out_storage, buffer, NULL);
    return STATUS_OK;
}

status_t storage_create(context_t *ctx, size_t bytes, storage_t **out_storage)
{
    return storage_create_for(ctx, 0, bytes, NULL, out_storage);
}

status_t storage_create_for(context_t *ctx, size_t handle_bytes, size_t bytes, void **out_handle,
                            storage_t **out_storage)
{
    bool is_small = bytes <= SHARED_BLOCK_MAX;
    size_t at_storage = is_small ? aligned(sizeof(buffer_t)) : 0;
    size_t at_handle = at_storage + aligned(sizeof(storage_t));
    size_t at_data = at_handle + aligned(handle_bytes);
    char *block = NULL;
    buffer_t *buffer = NULL;
    if (!is_small) TRY(make_buffer(ctx, bytes, &buffer));
    TRY_OR(get_block(ctx, at_data, is_small ? bytes : 0, &block), release_buffer(buffer));
    if (is_small) {
        buffer = (buffer_t *)(void *)block;
        init_new_buffer(ctx, buffer, block + at_data, bytes);
    }
    *out_storage = (storage_t *)(void *)(block + at_storage);
    init_storage(ctx, *out_storage, buffer, is_small ? buffer : NULL);
    if (out_handle != NULL) *out_handle = block + at_handle;
    return STATUS_OK;
}

status_t storage_borrow(context_t *ctx, void *data, size_t bytes, bool is_read_only,
                        buffer_deleter_t deleter, void *user, storage_t **out_storage)
{
    buffer_t *buffer = NULL;
    TRY(context_get(ctx, sizeof *buffer, "a borrowed buffer", &buffer));
    init_buffer(context_allocator(ctx), buffer, data, bytes);
    buffer->is_read_only = is_read_only;
    buffer->is_borrowed = true;
    TRY_OR(wrap_take(ctx, buffer, out_storage), release_buffer(buffer));
    buffer->deleter = deleter;
    buffer->user = user;
    return STATUS_OK;
}

void storage_set_deleter(storage_t *storage, buffer_deleter_t deleter, void *user)
{
    buffer_t *buffer = atomic_load(&storage->buffer);
    buffer->deleter = deleter;
    buffer->user = user;
}

void *storage_owner(const storage_t *storage, buffer_deleter_t deleter)
{
    const buffer_t *buffer = atomic_load(&storage->buffer);
    return buffer != NULL && buffer->deleter == deleter ? buffer->user : NULL;
}

void storage_set_unload(storage_t *storage, buffer_unload_t unload)
{
    atomic_load(&storage->buffer)->unload = unload;
}

void storage_unload(const storage_t *storage)
{
    const buffer_t *buffer = atomic_load(&storage->buffer);
    if (buffer != NULL && buffer->unload != NULL) buffer->unload(buffer->data, buffer->bytes);
}

void storage_set_hollow(storage_t *storage, atomic_int *looks)
{
    storage->looks = looks;
}

atomic_int *storage_looks(const storage_t *storage)
{
    return storage->looks;
}

static status_t copy_storage(context_t *ctx, storage_t *storage, storage_t **out_storage)
{
    storage_t *copy = NULL;
    TRY(storage_create(ctx, storage->bytes, &copy));
    const void *bytes = storage_data(storage);
    if (bytes == NULL) {
        storage_release(copy);
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for a tensor", storage->bytes);
    }
    if (storage->bytes > 0) memcpy(copy->buffer->data, bytes, storage->bytes);
    *out_storage = copy;
    return STATUS_OK;
}

status_t storage_snapshot(context_t *ctx, storage_t *storage, storage_t **out_storage)
{
    TRY(storage_restore(ctx, storage, CAUSE_USER));
    storage_lock(storage); /* once a reference is added, the bytes cannot be shed */
    buffer_t *buffer = atomic_load(&storage->buffer);
    bool is_copied = buffer == NULL || storage_is_lent(storage);
    if (!is_copied) references_add(&buffer->n_references);
    storage_unlock(storage);
    if (is_copied) return copy_storage(ctx, storage, out_storage);
    status_t status = wrap_take(ctx, buffer, out_storage);
    if (status != STATUS_OK) release_buffer(buffer);
    if (status == STATUS_OK) (*out_storage)->looks = storage->looks;
    return status;
}

storage_t *storage_retain(storage_t *storage)
{
    if (storage != NULL) references_add(&storage->n_references);
    return storage;
}

void storage_release(storage_t *storage)
{
    if (storage == NULL || !references_drop(&storage->n_references)) return;
    form_clear(storage);
    pthread_mutex_destroy(&storage->lock);
    buffer_t *home = storage->home, *buffer = atomic_load(&storage->buffer);
    buffer_t *dirty = atomic_load(&storage->dirty);
    if (buffer != home) release_buffer(buffer);
    if (dirty != home) release_buffer(dirty);
    allocator_t allocator = storage->allocator;
    if (home == NULL) {
        allocator_put(&allocator, storage);
    } else {
        atomic_store_explicit(&home->is_left, false, memory_order_relaxed);
        release_buffer(home); /* this frees the block, which contains the storage */
    }
}

/* ---- shedding and restoring plain bytes ---- */

/* Called when a storage no longer uses a buffer. Releases the storage's reference, unless the
 * storage is in the buffer's memory block. */
static void leave_buffer(const storage_t *storage, buffer_t *buffer)
{
    if (buffer == storage->home)
        atomic_store(&buffer->is_left, true);
    else
        release_buffer(buffer);
}

/* True if the bytes are writable and nobody else uses them. */
static bool is_own(const buffer_t *buffer)
{
    return !buffer->is_borrowed && !buffer->is_read_only && !is_shared(buffer);
}

bool storage_shed(storage_t *storage)
{
    buffer_t *buffer = atomic_load(&storage->buffer);
    if (!atomic_load(&storage->may_shed) || atomic_load(&storage->is_exposed) || buffer == NULL ||
        buffer == storage->home || storage->n_returns > 1 || !is_own(buffer))
        return false;
    atomic_store(&storage->buffer, NULL);
    release_buffer(buffer);
    return true;
}

void storage_give_way(storage_t *storage)
{
    buffer_t *buffer = atomic_load(&storage->buffer), *dirty = atomic_load(&storage->dirty);
    if (buffer != NULL) {
        if (is_own(buffer)) /* before `buffer` is cleared, so that storage_place always finds one */
            atomic_store(&storage->dirty, buffer);
        else
            leave_buffer(storage, buffer);
        atomic_store(&storage->buffer, NULL);
    } else if (dirty != NULL && dirty != storage->home && atomic_load(&storage->may_shed)) {
        atomic_store(&storage->dirty, NULL);
        release_buffer(dirty);
    }
    atomic_store(&storage->is_exposed, false);
    storage->n_returns = 0;
    atomic_fetch_add(&storage->version, 1);
}

/* Makes the plain bytes clean. The storage must be locked. If ctx is NULL, nothing is reported or
 * counted. */
static status_t restore(context_t *ctx, storage_t *storage, reorder_cause_t cause)
{
    if (atomic_load(&storage->buffer) != NULL) return STATUS_OK;
    buffer_t *buffer = atomic_load(&storage->dirty);
    const bool is_shed = buffer == NULL;
    if (is_shed) {
        const size_t head = aligned(sizeof(buffer_t));
        char *block = allocator_get(&storage->allocator, head + storage->bytes);
        if (block == NULL && ctx == NULL) return STATUS_OUT_OF_MEMORY;
        if (block == NULL)
            FAIL(ctx, STATUS_OUT_OF_MEMORY,
                 "out of memory: %zu bytes for the plain form of a tensor", storage->bytes);
        buffer = (buffer_t *)(void *)block;
        init_buffer(&storage->allocator, buffer, block + head, storage->bytes);
    }
    status_t status = form_write_plain(ctx, storage, cause, buffer->data);
    if (status != STATUS_OK) {
        if (is_shed) release_buffer(buffer);
        return status;
    }
    atomic_store(&storage->buffer, buffer);
    atomic_store(&storage->dirty, NULL);
    return STATUS_OK;
}

status_t storage_peek(context_t *ctx, storage_t *storage, reorder_cause_t cause,
                      const void **out_data)
{
    TRY(restore(ctx, storage, cause));
    *out_data = atomic_load(&storage->buffer)->data;
    return STATUS_OK;
}

status_t storage_restore(context_t *ctx, storage_t *storage, reorder_cause_t cause)
{
    if (atomic_load(&storage->buffer) != NULL) return STATUS_OK;
    storage_lock(storage);
    FINISH(restore(ctx, storage, cause), storage_unlock(storage));
}

/* Locks the storage, because another thread may be shedding the bytes. */
void storage_expose(storage_t *storage)
{
    if (atomic_load(&storage->is_exposed)) return;
    storage_lock(storage);
    atomic_store(&storage->is_exposed, true);
    storage_unlock(storage);
}

const void *storage_data(const storage_t *storage)
{
    const buffer_t *buffer = atomic_load_explicit(&storage->buffer, memory_order_acquire);
    bool may_go = atomic_load_explicit(&storage->may_shed, memory_order_relaxed) &&
                  !atomic_load_explicit(&storage->is_exposed, memory_order_relaxed);
    if (buffer != NULL && !may_go) return buffer->data;
    storage_t *changed = (storage_t *)(uintptr_t)storage;
    storage_lock(changed);
    const void *bytes = NULL;
    (void)storage_peek(NULL, changed, CAUSE_USER, &bytes);
    atomic_store(&changed->is_exposed, true);
    storage_unlock(changed);
    return bytes;
}

bool storage_is_plain(const storage_t *storage)
{
    return atomic_load(&storage->buffer) != NULL;
}

bool storage_is_shed(const storage_t *storage)
{
    return atomic_load(&storage->buffer) == NULL && atomic_load(&storage->dirty) == NULL;
}

bool storage_is_lent(const storage_t *storage)
{
    const buffer_t *buffer = atomic_load(&storage->buffer);
    return buffer != NULL && buffer->is_borrowed && !buffer->is_read_only;
}

const void *storage_place(const storage_t *storage)
{
    const buffer_t *buffer = atomic_load(&storage->buffer);
    if (buffer == NULL) buffer = atomic_load(&storage->dirty);
    return buffer != NULL ? buffer->data : NULL;
}

bool storage_is_alone(const storage_t *storage)
{
    const buffer_t *buffer = atomic_load(&storage->buffer);
    return atomic_load(&storage->n_references) == 1 && buffer != NULL && is_own(buffer);
}

void storage_let_shed(storage_t *storage, bool may_shed)
{
    storage_lock(storage);
    storage->n_returns = 0;
    atomic_store(&storage->may_shed, may_shed);
    storage_unlock(storage);
}

size_t storage_bytes(const storage_t *storage)
{
    return storage->bytes;
}

/* Restores the plain bytes before a write. Counts how often it restores shed bytes, because
 * storage_shed then no longer sheds them. */
static status_t restore_to_write(context_t *ctx, storage_t *storage)
{
    if (atomic_load(&storage->buffer) != NULL) return STATUS_OK;
    storage_lock(storage);
    bool is_shed = storage_is_shed(storage);
    status_t status = restore(ctx, storage, CAUSE_USER);
    if (status == STATUS_OK && is_shed && storage->n_returns < 2) storage->n_returns++;
    storage_unlock(storage);
    return status;
}

status_t storage_writable(context_t *ctx, storage_t *storage, void **out_data)
{
    TRY(restore_to_write(ctx, storage));
    buffer_t *old = atomic_load(&storage->buffer);
    if (old->is_read_only || is_shared(old)) {
        buffer_t *own = NULL;
        TRY(make_buffer(ctx, old->bytes, &own));
        if (old->bytes > 0) memcpy(own->data, old->data, old->bytes);
        atomic_store(&storage->buffer, own);
        leave_buffer(storage, old);
    }
    atomic_fetch_add(&storage->version, 1);
    form_mark_dirty(storage);
    *out_data = atomic_load(&storage->buffer)->data;
    return STATUS_OK;
}

uint64_t storage_version(const storage_t *storage)
{
    return atomic_load(&storage->version);
}

bool storage_is_read_only(const storage_t *storage)
{
    const buffer_t *buffer = atomic_load(&storage->buffer);
    return buffer != NULL && buffer->is_read_only;
}

bool storage_is_packable(const storage_t *storage)
{
    return atomic_load(&storage->is_packable);
}

void storage_set_packable(storage_t *storage, bool is_packable)
{
    atomic_store(&storage->is_packable, is_packable);
}

bool storage_is_stored(const storage_t *storage)
{
    return atomic_load(&storage->is_stored);
}

void storage_set_constant(storage_t *storage, bool is_stored)
{
    atomic_store(&storage->is_packable, true);
    atomic_store(&storage->is_stored, is_stored);
}

void storage_lock(storage_t *storage)
{
    pthread_mutex_lock(&storage->lock);
}

void storage_unlock(storage_t *storage)
{
    pthread_mutex_unlock(&storage->lock);
}

form_t *storage_forms(const storage_t *storage)
{
    return atomic_load_explicit(&storage->forms, memory_order_acquire);
}

void storage_set_forms(storage_t *storage, form_t *first)
{
    atomic_store_explicit(&storage->forms, first, memory_order_release);
}
