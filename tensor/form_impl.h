/* Forms: the elements of a storage once more, in another format, kept with the storage.
 *
 * A form is made when it is first asked for, and serves whoever asks later: an mkldnn tensor that
 * a consumer wanted in other blocks, a weight packed for a kernel, a packed weight from a file.
 * Views share their storage and so its forms. A write through any of them drops all forms. Of a
 * storage that may shed its bytes the form becomes the master: the plain bytes go, and come back
 * from the form. */
#ifndef TESSERA_TENSOR_FORM_IMPL_H
#define TESSERA_TENSOR_FORM_IMPL_H

#include "tensor/counters.h"
#include "tensor/tensor_impl.h"

/* A form of the tensor `from`, `offset` bytes into the storage. */
struct form {
    form_t *next;
    allocator_t allocator;
    int64_t offset;
    tensor_info_t from;
    tensor_t *tensor;
};

/* The tensor's elements as `want`, which may have other sizes over the same row-major order: the
 * kept form, else one that is made, counted under `cause` and kept. The storage is locked while a
 * form is made, so threads that ask at once get the same one. Retained for the caller; out_is_made
 * may be NULL. */
status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  reorder_cause_t cause, bool *out_is_made, tensor_t **out_form);

/* Keeps a tensor of the same elements as a form. */
status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form);

/* The forms of a tensor, also those under other sizes, retained; at most `capacity`. Gives their
 * number. */
int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms);

/* Releases all forms of a storage; nothing happens where its bytes are shed, since the forms are
 * all that is left of them. form_clear does it there, too, for a storage that ends. */
void form_drop(storage_t *storage);
void form_clear(storage_t *storage);

/* Writes the elements of a locked storage in row-major order, as a form that has all of them says.
 * False: there is none, or no memory. */
bool form_write_plain(storage_t *storage, void *bytes);

#endif
