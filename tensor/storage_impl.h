/* Storages are the memory of tensors.
 *
 * There are two levels, both reference counted. A buffer is a block of bytes: owned, borrowed with
 * a deleter, or a read-only mapping. A storage refers to a buffer; a tensor and its views share a
 * storage, so a write through one is visible through the others. A snapshot of a tensor has its own
 * storage, which refers to the same buffer. The first write to one of the two storages copies the
 * buffer, so the other does not change. A snapshot of writable borrowed bytes is copied at once: a
 * later copy would be too late for writes by their owner, and would hide our writes from the
 * owner. */
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

/* A copy of a storage's elements in another format; see form_impl.h. The storage's own bytes are
 * called plain bytes. They can be shed, which means freed, while a form has the elements. */
typedef struct form form_t;

/* Allocates uninitialised bytes, aligned to 64. */
status_t storage_create(context_t *ctx, size_t bytes, storage_t **out_storage);

/* Like storage_create, and allocates the struct of the tensor (handle) in the same memory block;
 * the block is freed with the last reference. For a small tensor, its bytes are in this block
 * too. */
status_t storage_create_for(context_t *ctx, size_t handle_bytes, size_t bytes, void **out_handle,
                            storage_t **out_storage);

/* Makes a storage on memory that belongs to somebody else. deleter (may be NULL) is called when the
 * last reference is released. */
status_t storage_borrow(context_t *ctx, void *data, size_t bytes, bool is_read_only,
                        buffer_deleter_t deleter, void *user, storage_t **out_storage);

/* Sets the deleter of a borrowed buffer later, for callers that must not fail after that point. */
void storage_set_deleter(storage_t *storage, buffer_deleter_t deleter, void *user);

/* For borrowed bytes that the system reloads when they are read, such as those of a mapped file.
 * storage_set_unload sets a function that frees their memory. storage_unload calls this function;
 * use it when a form has the elements, so that the bytes are probably not read soon. It does
 * nothing for other bytes. */
void storage_set_unload(storage_t *storage, buffer_unload_t unload);
void storage_unload(const storage_t *storage);

/* Returns the deleter's `user` if the storage has borrowed bytes with this deleter, else NULL. */
void *storage_owner(const storage_t *storage, buffer_deleter_t deleter);

/* Makes a new storage on the same buffer. The first write to one of the two storages copies the
 * buffer. Writable borrowed bytes are copied at once. */
status_t storage_snapshot(context_t *ctx, storage_t *storage, storage_t **out_storage);

storage_t *storage_retain(storage_t *storage);
void storage_release(storage_t *storage);

/* Returns the plain bytes. Restores shed bytes first, and does not shed them again. Returns NULL if
 * there is no memory for this; to get an error message, call storage_restore before. */
const void *storage_data(const storage_t *storage);
size_t storage_bytes(const storage_t *storage);

/* Plain bytes are clean, dirty or shed. Dirty bytes are out of date because a form was written, but
 * keep their memory; shed bytes have none. storage_restore makes them clean again from a form,
 * which is counted as a reorder under `cause`. storage_is_plain returns true if they are clean. */
status_t storage_restore(context_t *ctx, storage_t *storage, reorder_cause_t cause);
bool storage_is_plain(const storage_t *storage);
bool storage_is_shed(const storage_t *storage);

/* Allows a storage to free its plain bytes once a form has all its elements, so that a packed
 * weight is in memory only once. The plain bytes are kept if they are borrowed, read-only, shared
 * with a snapshot, in the memory block of the storage, or if the user has a pointer to them
 * (storage_expose). They are also kept once they were restored for two writes, because more writes
 * are likely. */
void storage_let_shed(storage_t *storage, bool may_shed);
void storage_expose(storage_t *storage);

/* Address of the plain bytes (clean or dirty), for comparison only; NULL if they are shed. */
const void *storage_place(const storage_t *storage);

/* For form.c, with the storage locked. storage_peek returns the plain bytes, which may be shed
 * again later. storage_shed frees them if that is allowed. storage_give_way is called before a
 * write to a form: it makes the plain bytes dirty and increments the version. If it may, and nobody
 * has used the plain bytes since the last write to a form, it sheds them; pointers to them become
 * invalid. */
status_t storage_peek(context_t *ctx, storage_t *storage, reorder_cause_t cause,
                      const void **out_data);
bool storage_shed(storage_t *storage);
void storage_give_way(storage_t *storage);

/* True if the bytes are borrowed and their owner must see writes. */
bool storage_is_lent(const storage_t *storage);

/* True if only one tensor uses the storage and its bytes, so that it may be written in place. */
bool storage_is_alone(const storage_t *storage);

/* Returns the bytes for writing. First copies a buffer that is read-only or shared with a snapshot
 * (all views of the storage then use the copy), increments the version, and makes all forms
 * dirty. */
status_t storage_writable(context_t *ctx, storage_t *storage, void **out_data);

/* Marks the storage of a placeholder tensor, which has sizes but no elements (tensor_hollow).
 * *looks, which must outlive the storage, counts how often the program asks for the tensor's sizes.
 * storage_looks returns it, or NULL for other storages. */
void storage_set_hollow(storage_t *storage, atomic_int *looks);
atomic_int *storage_looks(const storage_t *storage);

/* A number that every write increments. */
uint64_t storage_version(const storage_t *storage);

bool storage_is_read_only(const storage_t *storage);

/* Marks a weight that module_mkldnn has converted: if an operator needs it packed, dispatch keeps
 * the packed form for later calls. */
bool storage_is_packable(const storage_t *storage);
void storage_set_packable(storage_t *storage, bool is_packable);

/* Marks a weight as packable that is a constant of a graph. is_stored: its forms for this kernel go
 * to the store (tensor/store/store.h). */
void storage_set_constant(storage_t *storage, bool is_stored);
bool storage_is_stored(const storage_t *storage);

/* The list of forms. Lock the storage to read or change the list, but not to test it for NULL. */
void storage_lock(storage_t *storage);
void storage_unlock(storage_t *storage);
form_t *storage_forms(const storage_t *storage);
void storage_set_forms(storage_t *storage, form_t *first);

#endif
