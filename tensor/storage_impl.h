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
#include "tensor/counters.h"
#include "tensor/info.h"

typedef struct buffer buffer_t;
typedef struct storage storage_t;
typedef void (*buffer_deleter_t)(void *user, void *data);
typedef void (*buffer_unload_t)(void *data, size_t bytes);

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

/* Borrowed bytes that come back by themselves when somebody reads them, as those of a file do, and
 * how to give up the memory that they are in until then. storage_unload does that: they are not
 * expected to be read soon, since a form has them. Nothing happens to other bytes. */
void storage_set_unload(storage_t *storage, buffer_unload_t unload);
void storage_unload(const storage_t *storage);

/* A storage of its own over the same buffer, copied at the first write through either; of borrowed
 * bytes that may be written a copy. */
status_t storage_snapshot(context_t *ctx, storage_t *storage, storage_t **out_storage);

storage_t *storage_retain(storage_t *storage);
void storage_release(storage_t *storage);

/* The bytes, which come back if they were shed, and then stay; NULL when there is no memory for
 * that: call storage_restore before, which says so. */
const void *storage_data(const storage_t *storage);
size_t storage_bytes(const storage_t *storage);

/* Plain bytes are clean, dirty or shed. Dirty ones keep their memory while a form is written in
 * their place; shed ones gave it up. Either come back from a form when somebody asks: the work is
 * counted under `cause`, as a reorder. storage_is_plain: they are clean. */
status_t storage_restore(context_t *ctx, storage_t *storage, reorder_cause_t cause);
bool storage_is_plain(const storage_t *storage);
bool storage_is_shed(const storage_t *storage);

/* A storage that may shed gives its plain bytes up once a form of all its elements is kept, so that
 * a packed weight is in memory once. They stay where they are borrowed, read-only, shared with a
 * snapshot, in one block with the storage, where somebody was given a pointer to them
 * (storage_expose), and where they came back for two writes: there will be more of those. */
void storage_let_shed(storage_t *storage, bool may_shed);
void storage_expose(storage_t *storage);

/* Where the plain bytes lie, clean or dirty, to compare with; NULL: shed. */
const void *storage_place(const storage_t *storage);

/* For form.c, the storage being locked. storage_peek: the plain bytes, without their having to
 * stay. storage_shed: gives them up where that may be. storage_give_way: a form is about to be
 * written, so they become dirty, and are shed where they may be and nobody asked for them since the
 * last such write; counts a new version. Pointers to them are invalid from here on. */
status_t storage_peek(context_t *ctx, storage_t *storage, reorder_cause_t cause,
                      const void **out_data);
bool storage_shed(storage_t *storage);
void storage_give_way(storage_t *storage);

/* The bytes are somebody's whom writes have to reach. */
bool storage_is_lent(const storage_t *storage);

/* One tensor alone has the storage, and nobody else its bytes, which it may write in place. */
bool storage_is_alone(const storage_t *storage);

/* Bytes to write: copies a buffer that is shared with a snapshot or read-only, counts a new
 * version, and makes all forms dirty. Views that share the storage see the copy too. */
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
