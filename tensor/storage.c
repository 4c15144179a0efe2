#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tensor/form_impl.h"

#define DATA_OFFSET 128 /* of owned bytes behind their buffer; keeps them aligned to 64 */

struct buffer {
    atomic_int n_references;
    bool is_read_only;
    bool is_borrowed;
    allocator_t allocator;
    void *data;
    size_t bytes;
    buffer_deleter_t deleter;
    void *user;
};
_Static_assert(sizeof(struct buffer) <= DATA_OFFSET, "owned bytes would begin inside the buffer");

struct storage {
    atomic_int n_references;
    atomic_bool is_packable;
    atomic_uint_fast64_t version;
    allocator_t allocator;
    buffer_t *buffer;
    pthread_mutex_t lock;
    form_t *forms;
    atomic_int *looks; /* NULL unless hollow */
};

/* ---- buffers ---- */

static status_t make_buffer(context_t *ctx, size_t bytes, buffer_t **out_buffer)
{
    size_t total;
    if (__builtin_add_overflow(bytes, (size_t)DATA_OFFSET, &total))
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for a tensor, too many", bytes);
    buffer_t *buffer = NULL;
    TRY(context_get(ctx, total, "a tensor", &buffer));
    *buffer = (buffer_t){.allocator = *context_allocator(ctx), .bytes = bytes};
    atomic_init(&buffer->n_references, 1);
    buffer->data = (char *)buffer + DATA_OFFSET;
    context_counters(ctx)->tensor_bytes += bytes;
    *out_buffer = buffer;
    return STATUS_OK;
}

static void release_buffer(buffer_t *buffer)
{
    if (buffer == NULL || atomic_fetch_sub(&buffer->n_references, 1) != 1) return;
    if (buffer->deleter != NULL) buffer->deleter(buffer->user, buffer->data);
    allocator_t allocator = buffer->allocator;
    allocator_put(&allocator, buffer);
}

/* ---- storages ---- */

/* Takes over one reference of the buffer, on success only. */
static status_t wrap_take(context_t *ctx, buffer_t *buffer, storage_t **out_storage)
{
    storage_t *storage = NULL;
    TRY(context_get_zeroed(ctx, sizeof *storage, "a storage", &storage));
    if (pthread_mutex_init(&storage->lock, NULL) != 0) {
        context_put(ctx, storage);
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: the system has no mutex left");
    }
    atomic_init(&storage->n_references, 1);
    atomic_init(&storage->is_packable, false);
    atomic_init(&storage->version, 0);
    storage->allocator = *context_allocator(ctx);
    storage->buffer = buffer;
    *out_storage = storage;
    return STATUS_OK;
}

status_t storage_create(context_t *ctx, size_t bytes, storage_t **out_storage)
{
    buffer_t *buffer = NULL;
    TRY(make_buffer(ctx, bytes, &buffer));
    status_t status = wrap_take(ctx, buffer, out_storage);
    if (status != STATUS_OK) release_buffer(buffer);
    return status;
}

status_t storage_borrow(context_t *ctx, void *data, size_t bytes, bool is_read_only,
                        buffer_deleter_t deleter, void *user, storage_t **out_storage)
{
    buffer_t *buffer = NULL;
    TRY(context_get(ctx, sizeof *buffer, "a borrowed buffer", &buffer));
    *buffer = (buffer_t){.allocator = *context_allocator(ctx),
                         .is_read_only = is_read_only,
                         .is_borrowed = true,
                         .data = data,
                         .bytes = bytes};
    atomic_init(&buffer->n_references, 1);
    status_t status = wrap_take(ctx, buffer, out_storage);
    if (status != STATUS_OK) {
        release_buffer(buffer);
        return status;
    }
    buffer->deleter = deleter;
    buffer->user = user;
    return STATUS_OK;
}

void storage_set_deleter(storage_t *storage, buffer_deleter_t deleter, void *user)
{
    storage->buffer->deleter = deleter;
    storage->buffer->user = user;
}

void storage_set_hollow(storage_t *storage, atomic_int *looks)
{
    storage->looks = looks;
}

atomic_int *storage_looks(const storage_t *storage)
{
    return storage->looks;
}

static status_t copy_storage(context_t *ctx, const storage_t *storage, storage_t **out_storage)
{
    storage_t *copy = NULL;
    TRY(storage_create(ctx, storage_bytes(storage), &copy));
    if (storage_bytes(storage) > 0)
        memcpy(copy->buffer->data, storage_data(storage), storage_bytes(storage));
    *out_storage = copy;
    return STATUS_OK;
}

status_t storage_snapshot(context_t *ctx, storage_t *storage, storage_t **out_storage)
{
    if (storage->buffer->is_borrowed && !storage->buffer->is_read_only)
        return copy_storage(ctx, storage, out_storage);
    atomic_fetch_add(&storage->buffer->n_references, 1);
    status_t status = wrap_take(ctx, storage->buffer, out_storage);
    if (status != STATUS_OK) release_buffer(storage->buffer);
    if (status == STATUS_OK) (*out_storage)->looks = storage->looks;
    return status;
}

storage_t *storage_retain(storage_t *storage)
{
    if (storage != NULL) atomic_fetch_add_explicit(&storage->n_references, 1, memory_order_relaxed);
    return storage;
}

void storage_release(storage_t *storage)
{
    if (storage == NULL || atomic_fetch_sub(&storage->n_references, 1) != 1) return;
    form_drop(storage);
    release_buffer(storage->buffer);
    pthread_mutex_destroy(&storage->lock);
    allocator_t allocator = storage->allocator;
    allocator_put(&allocator, storage);
}

const void *storage_data(const storage_t *storage)
{
    return storage->buffer->data;
}

size_t storage_bytes(const storage_t *storage)
{
    return storage->buffer->bytes;
}

status_t storage_writable(context_t *ctx, storage_t *storage, void **out_data)
{
    buffer_t *old = storage->buffer;
    if (old->is_read_only || atomic_load(&old->n_references) > 1) {
        buffer_t *own = NULL;
        TRY(make_buffer(ctx, old->bytes, &own));
        if (old->bytes > 0) memcpy(own->data, old->data, old->bytes);
        storage->buffer = own;
        release_buffer(old);
    }
    atomic_fetch_add(&storage->version, 1);
    form_drop(storage);
    *out_data = storage->buffer->data;
    return STATUS_OK;
}

uint64_t storage_version(const storage_t *storage)
{
    return atomic_load(&storage->version);
}

bool storage_is_read_only(const storage_t *storage)
{
    return storage->buffer->is_read_only;
}

bool storage_is_packable(const storage_t *storage)
{
    return atomic_load(&storage->is_packable);
}

void storage_set_packable(storage_t *storage, bool is_packable)
{
    atomic_store(&storage->is_packable, is_packable);
}

void storage_lock(storage_t *storage)
{
    pthread_mutex_lock(&storage->lock);
}

void storage_unlock(storage_t *storage)
{
    pthread_mutex_unlock(&storage->lock);
}

form_t **storage_forms(storage_t *storage)
{
    return &storage->forms;
}
