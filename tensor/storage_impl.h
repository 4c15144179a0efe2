/* Storage: the bytes behind tensors.
 *
 * Two levels, both counted: a buffer is a block of bytes (owned, borrowed with a deleter, or a
 * read-only mapping); a storage is what tensors and their views share and write through. A snapshot
 * shares the buffer but has a storage of its own, so the first write through either of them copies
 * the buffer and neither sees the other's change. Borrowed bytes that may be written are never
 * shared so: their owner may write them without a word to us, and our writes have to reach him, so
 * a snapshot of them is a copy. */
#ifndef TESSERA_TENSOR_STORAGE_IMPL_H
#define TESSERA_TENSOR_STORAGE_IMPL_H

#include <stdatomic.h>

#include "tensor/context_impl.h"
#include "tensor/info.h"

typedef struct buffer buffer_t;
typedef struct storage storage_t;
typedef void (*buffer_deleter_t)(void *user, void *data);

/* What a storage keeps of its elements in other formats; see form_impl.h. */
typedef struct form form_t;

/* Owned, uninitialised bytes, aligned to 64. */
status_t storage_create(context_t *ctx, size_t bytes, storage_t **out_storage);

/* The same with room in the storage's block of memory for the handle of a tensor, which ends with
 * the storage's last reference. Small tensors have all in one block: handle, storage, buffer and
 * bytes. */
status_t storage_create_for(context_t *ctx, size_t handle_bytes, size_t bytes, void **out_handle,
                            storage_t **out_storage);

/* Bytes of somebody else; deleter (may be NULL) runs when the last user lets go. */
status_t storage_borrow(context_t *ctx, void *data, size_t bytes, bool is_read_only,
                        buffer_deleter_t deleter, void *user, storage_t **out_storage);

/* What runs when the last user of a borrowed buffer lets go; for whoever must not fail after. */
void storage_set_deleter(storage_t *storage, buffer_deleter_t deleter, void *user);

/* A storage of its own over the same buffer, copied at the first write through either; of borrowed
 * bytes that may be written a copy. */
status_t storage_snapshot(context_t *ctx, storage_t *storage, storage_t **out_storage);

storage_t *storage_retain(storage_t *storage);
void storage_release(storage_t *storage);

/* The bytes, which come back if they were shed, and then stay; NULL when there is no memory for
 * that: call storage_restore before, which says so. */
const void *storage_data(const storage_t *storage);
size_t storage_bytes(const storage_t *storage);

/* Bytes that are shed. A storage that may shed gives its plain bytes up once a form of all its
 * elements is kept, so that a packed weight is in memory once; they are made again from the form
 * when somebody asks. They stay where they are borrowed, read-only, shared with a snapshot, in one
 * block with the storage, or where somebody was given a pointer to them (storage_expose). */
void storage_let_shed(storage_t *storage, bool may_shed);
bool storage_is_shed(const storage_t *storage);
status_t storage_restore(context_t *ctx, storage_t *storage);
void storage_expose(storage_t *storage);

/* For form.c, the storage being locked: gives the bytes up where that may be; and the bytes,
 * without their having to stay, NULL when there is no memory. */
bool storage_shed(storage_t *storage);
const void *storage_peek(storage_t *storage);

/* Bytes to write: copies a buffer that is shared with a snapshot or read-only, and counts a new
 * version, before which all forms are dropped. Views that share the storage see the copy too. */
status_t storage_writable(context_t *ctx, storage_t *storage, void **out_data);

/* Of a hollow tensor: one element stands for all, so nobody may read them; looks at its sizes are
 * counted in *looks, which has to live as long. storage_looks: NULL for other storages. */
void storage_set_hollow(storage_t *storage, atomic_int *looks);
atomic_int *storage_looks(const storage_t *storage);

/* Grows by one at every write. */
uint64_t storage_version(const storage_t *storage);

bool storage_is_read_only(const storage_t *storage);

/* Marks what module_mkldnn converted: dispatch keeps the forms that it packs. */
bool storage_is_packable(const storage_t *storage);
void storage_set_packable(storage_t *storage, bool is_packable);

/* The first of its forms. The list is read and changed under the storage's lock; whether there are
 * any may be asked without. */
void storage_lock(storage_t *storage);
void storage_unlock(storage_t *storage);
form_t *storage_forms(const storage_t *storage);
void storage_set_forms(storage_t *storage, form_t *first);

#endif
