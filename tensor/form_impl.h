/* Forms are copies of a storage's elements in other formats, which the storage keeps. The storage's
 * own bytes are called plain.
 *
 * A form is made on first request and then reused. Examples: an mkldnn tensor in the blocks that an
 * operator needed, a weight packed for a kernel, a packed weight from a file. Views share a
 * storage, and so its forms.
 *
 * Each form, and the plain bytes, is clean (up to date) or dirty. A write to one of them makes all
 * others dirty. A dirty form keeps its memory and is refreshed in place on the next request, from
 * clean plain bytes or a clean form. If somebody else holds a form's tensor or bytes (a user, a
 * plan's constant), a write must not change them: they become a snapshot, and the storage makes a
 * new form. Example: an optimizer step writes a weight as ABcd16b16a. The forward pass uses this
 * form, the backward pass gets BAcd16a16b by one reorder, and saving makes the plain bytes.
 *
 * A storage that may shed (storage_let_shed) frees its plain bytes once a form has all elements. */
#ifndef TESSERA_TENSOR_FORM_IMPL_H
#define TESSERA_TENSOR_FORM_IMPL_H

#include "tensor/convert_impl.h"
#include "tensor/tensor_impl.h"

/* A form of a tensor with the info `from` that starts `offset` bytes into the storage. */
struct form {
    form_t *next;
    allocator_t allocator;
    int64_t offset;
    tensor_info_t from;
    bool is_clean; /* its elements are up to date */
    tensor_t *tensor;
};

/* Returns the tensor's elements as `want`, which may have other sizes with the same row-major
 * order. Uses the kept form if it is clean; otherwise refreshes or makes one, counted under
 * `cause`, and keeps it. Locks the storage, so concurrent threads get the same form. pack: the
 * kernel's function if `want` is a kernel's own format; else NULL. *out_is_made (may be NULL) is
 * true if bytes were converted. Retained for the caller. */
status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                  tensor_t **out_form);

/* form_writable returns the bytes of the form `want`, up to date, to be written in place, and makes
 * the plain bytes and all other forms dirty. Padded elements must stay zero. After writing, call
 * form_written before any other use of the tensor. It updates the plain bytes at once if they
 * cannot be restored from the form later: if they are borrowed (their owner must see writes), if
 * the tensor is a part of its storage or is mkldnn. UNSUPPORTED for opaque formats. */
status_t form_writable(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                       reorder_cause_t cause, void **out_bytes);
status_t form_written(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* Does in advance what may fail in form_writable, so that form_writable cannot fail afterwards,
 * unless another form's bytes are requested in between. Other forms stay clean unless bytes are
 * shared. */
status_t form_reserve(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* Reads the tensor's elements as `want` once. Returns the kept form, retained, if it is clean.
 * Otherwise converts into `room` without keeping a form, and sets *out_form to NULL. */
status_t form_read(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                   convert_pack_t pack, reorder_cause_t cause, void *room, tensor_t **out_form);

/* Adds `form`, a tensor with the same elements, to the forms of `tensor`. */
status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form);

/* Lists the clean forms of a tensor, including those with other sizes, retained; at most
 * `capacity`. Returns their number. */
int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms);

/* Makes all forms dirty, after a write to the plain bytes. */
void form_mark_dirty(storage_t *storage);

/* form_drop releases all forms of a storage if its plain bytes are clean; otherwise only the forms
 * have the elements. form_clear releases them in any case, when the storage ends. */
void form_drop(storage_t *storage);
void form_clear(storage_t *storage);

/* Releases the forms that nobody else holds, if the plain bytes are clean. Forms with borrowed
 * bytes, such as those of a file, stay: they cost no memory. */
void form_drop_idle(storage_t *storage);

/* Writes the elements of a locked storage to `bytes` in row-major order, from a clean form that has
 * all of them. A counted reorder, or with ctx NULL an uncounted loop. */
status_t form_write_plain(context_t *ctx, const storage_t *storage, reorder_cause_t cause,
                          void *bytes);

#endif
