/* A form is a copy of a tensor's elements in another format. The tensor's storage (storage_impl.h)
 * keeps it. The storage's own bytes are called plain.
 *
 * A form is made on first request and then reused. Examples: an mkldnn tensor in a blocked format
 * that an operator needed, a weight packed for a kernel, a packed weight from a file. A tensor and
 * its views share a storage, and so its forms.
 *
 * Each form, and the plain bytes, is clean (up to date) or dirty. A write to one of them makes all
 * others dirty. A dirty form keeps its memory and is updated in place on the next request, from
 * clean plain bytes or a clean form. If somebody else holds a form's tensor or bytes (a user, a
 * plan's constant), a write must not change them: the storage then makes a new form and releases
 * the old one. Example: an optimizer step writes a weight in format ABcd16b16a. The forward pass
 * reads this form, the backward pass needs BAcd16a16b and makes it with one reorder, and saving a
 * file makes the plain bytes.
 *
 * If storage_let_shed allows it, a storage frees its plain bytes once a form has all elements. */
#ifndef TESSERA_TENSOR_CONVERT_FORM_IMPL_H
#define TESSERA_TENSOR_CONVERT_FORM_IMPL_H

#include "tensor/convert/convert_impl.h"
#include "tensor/tensor_impl.h"

/* A form of the tensor that has the info `from` and starts `offset` bytes into the storage. */
struct form {
    form_t *next;
    allocator_t allocator;
    int64_t offset;
    tensor_info_t from;
    bool is_clean; /* its elements are up to date */
    tensor_t *tensor;
};

/* Returns the form with info `want`, whose sizes may be a reshape of the tensor's. If there is no
 * clean form, updates or makes one, which is counted under `cause`, and keeps it. Locks the
 * storage, so concurrent threads get the same form. pack: the kernel's function if `want` is a
 * kernel's own format; else NULL. *out_is_made (may be NULL) is set to true if bytes were
 * converted. The caller releases the form. */
status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                  tensor_t **out_form);

/* form_writable returns the bytes of the form `want`, up to date, to be written in place, and makes
 * the plain bytes and all other forms dirty. The padding must stay zero. After writing, call
 * form_written before any other use of the tensor. form_written updates the plain bytes at once if
 * they cannot be restored from the form later: if they are borrowed (their owner must see writes),
 * if the tensor is only a part of its storage, or if it is mkldnn. Opaque formats are
 * UNSUPPORTED. */
status_t form_writable(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                       reorder_cause_t cause, void **out_bytes);
status_t form_written(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* Does what may fail in form_writable in advance, so that form_writable cannot fail afterwards,
 * unless another form of the tensor is made writable in between. */
status_t form_reserve(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* For reading the tensor's elements once with info `want`. If there is a clean form, returns it,
 * retained. Otherwise converts the elements into `room`, makes no form, and sets *out_form to
 * NULL. */
status_t form_read(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                   convert_pack_t pack, reorder_cause_t cause, void *room, tensor_t **out_form);

/* Adds `form`, a tensor with the same elements as `tensor`, to the forms of its storage. */
status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form);

/* Lists the clean forms of a tensor, including those with other sizes, retained; at most
 * `capacity`. Returns their number. */
int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms);

/* Marks all forms as dirty, after a write to the plain bytes. */
void form_mark_dirty(storage_t *storage);

/* form_drop releases all forms of a storage if its plain bytes are clean (if they are not, only the
 * forms have the elements). form_clear releases the forms in any case, when the storage ends. */
void form_drop(storage_t *storage);
void form_clear(storage_t *storage);

/* Releases the forms that nobody else holds, if the plain bytes are clean. Forms with borrowed
 * bytes, such as those of a file, stay: they cost no memory. */
void form_drop_idle(storage_t *storage);

/* Writes the elements of a locked storage to `bytes` in row-major order, from a clean form that has
 * all of them. With ctx this is a counted reorder; if ctx is NULL, an uncounted loop. */
status_t form_write_plain(context_t *ctx, const storage_t *storage, reorder_cause_t cause,
                          void *bytes);

#endif
