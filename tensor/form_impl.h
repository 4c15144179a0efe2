/* Forms: the elements of a storage once more, in another format, kept with the storage.
 *
 * A form is made when it is first asked for, and serves whoever asks later: an mkldnn tensor that
 * a consumer wanted in other blocks, a weight packed for a kernel, a packed weight from a file.
 * Views share their storage and so its forms.
 *
 * Each form, and the plain bytes, is clean or dirty. A write makes what is written the master and
 * all else dirty, which keeps its memory and is refreshed in place when it is asked for: from the
 * plain bytes, or straight from a clean form. A form whose tensor or bytes somebody else has (a
 * handle given to a user, a plan's constant) is a snapshot: it stays as it is, and the storage goes
 * on with another one. Example: a step of an optimizer writes a weight as ABcd16b16a; the forward
 * pass finds it, the backward pass gets its BAcd16a16b by one reorder, and the plain bytes are made
 * when the weight is saved.
 *
 * A storage that may shed gives its plain bytes up for a form that has all elements. */
#ifndef TESSERA_TENSOR_FORM_IMPL_H
#define TESSERA_TENSOR_FORM_IMPL_H

#include "tensor/convert_impl.h"
#include "tensor/tensor_impl.h"

/* A form of the tensor `from`, `offset` bytes into the storage. */
struct form {
    form_t *next;
    allocator_t allocator;
    int64_t offset;
    tensor_info_t from;
    bool is_clean; /* it has the storage's elements */
    tensor_t *tensor;
};

/* The tensor's elements as `want`, which may have other sizes over the same row-major order: the
 * kept form if it is clean, else one that is refreshed or made, counted under `cause`, and kept.
 * The storage is locked meanwhile, so threads that ask at once get the same one. `pack` makes a
 * format of an owner's; it may be NULL, as out_is_made may: bytes were converted. Retained for the
 * caller. */
status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                  tensor_t **out_form);

/* The bytes of the tensor's form `want`, with its elements, to be written in place, and what is to
 * be called once they are written, before anything else is asked of the tensor. The form becomes
 * the master. Where plain bytes cannot be made from a form, form_written writes them at once: those
 * of memory that somebody lent (writes have to reach him), of a part of the storage, of an mkldnn
 * tensor. Padded lanes are to be left zero. UNSUPPORTED for opaque formats. */
status_t form_writable(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                       reorder_cause_t cause, void **out_bytes);
status_t form_written(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* What form_writable may fail at, now: as long as nobody asks for other forms' bytes, it does not
 * fail then. Other forms stay clean, but where bytes are shared. */
status_t form_reserve(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* The tensor's elements as `want`, to be read once: the kept form if it is clean, retained; else
 * they are converted into `room`, no form is kept, and *out_form is NULL. */
status_t form_read(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                   convert_pack_t pack, reorder_cause_t cause, void *room, tensor_t **out_form);

/* Keeps a tensor of the same elements as a form. */
status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form);

/* The clean forms of a tensor, also those under other sizes, retained; at most `capacity`. Gives
 * their number. */
int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms);

/* The plain bytes are written: all forms become dirty. */
void form_mark_dirty(storage_t *storage);

/* Releases all forms of a storage; nothing happens where its plain bytes are not clean, since the
 * forms are all that is left of them. form_clear does it there, too, for a storage that ends. */
void form_drop(storage_t *storage);
void form_clear(storage_t *storage);

/* Releases the forms of a storage that nobody else holds, where the plain bytes are clean. Forms of
 * borrowed bytes, as those of a file, stay: they cost no memory. */
void form_drop_idle(storage_t *storage);

/* Writes the elements of a locked storage in row-major order, from a clean form that has all of
 * them: by a reorder that is counted, without a context (NULL) by a loop of our own. */
status_t form_write_plain(context_t *ctx, const storage_t *storage, reorder_cause_t cause,
                          void *bytes);

#endif
