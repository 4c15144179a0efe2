/* Forms: copies of a storage's elements in other formats, kept with the storage.
 *
 * A form is made on first request and reused: an mkldnn tensor in the blocks that an operator
 * needed, a weight packed for a kernel, a packed weight from a file. Views share their storage and
 * so its forms.
 *
 * Each form, and the plain bytes, is clean or dirty. A write makes its target the master and all
 * others dirty. A dirty form keeps its memory and is refreshed in place on the next request, from
 * the plain bytes or directly from a clean form. A form whose tensor or bytes have another holder
 * (a tensor returned to a user, a plan's constant) is a snapshot: it stays unchanged, and the
 * storage makes a new form. Example: an optimizer step writes a weight as ABcd16b16a. The forward
 * pass uses that form, the backward pass gets BAcd16a16b by one reorder, and the plain bytes are
 * made when the weight is saved.
 *
 * A storage that may shed frees its plain bytes when a form has all elements. */
#ifndef TESSERA_TENSOR_FORM_IMPL_H
#define TESSERA_TENSOR_FORM_IMPL_H

#include "tensor/convert_impl.h"
#include "tensor/tensor_impl.h"

/* A form of the tensor `from`, which starts `offset` bytes into the storage. */
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
 * `cause`, and keeps it. Holds the storage's lock, so concurrent threads get the same form. pack:
 * for formats of an owner, may be NULL. *out_is_made (may be NULL): bytes were converted. Retained
 * for the caller. */
status_t form_get(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                  convert_pack_t pack, reorder_cause_t cause, bool *out_is_made,
                  tensor_t **out_form);

/* form_writable: the bytes of the form `want`, up to date, to be written in place. The form becomes
 * the master. Padded elements must stay zero. Call form_written after writing, before any other use
 * of the tensor. form_written updates the plain bytes at once if a form cannot restore them:
 * borrowed memory (its owner must see writes), part of a storage, an mkldnn tensor. UNSUPPORTED for
 * opaque formats. */
status_t form_writable(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                       reorder_cause_t cause, void **out_bytes);
status_t form_written(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* Does now what may fail in form_writable, which then cannot fail unless another form's bytes are
 * requested in between. Other forms stay clean, except where bytes are shared. */
status_t form_reserve(context_t *ctx, tensor_t *tensor, const tensor_info_t *want,
                      reorder_cause_t cause);

/* Reads the tensor's elements as `want` once. Returns the kept form, retained, if it is clean.
 * Otherwise converts into `room` without keeping a form, and sets *out_form to NULL. */
status_t form_read(context_t *ctx, const tensor_t *tensor, const tensor_info_t *want,
                   convert_pack_t pack, reorder_cause_t cause, void *room, tensor_t **out_form);

/* Keeps a tensor with the same elements as a form. */
status_t form_add(context_t *ctx, const tensor_t *tensor, tensor_t *form);

/* Lists the clean forms of a tensor, including those with other sizes, retained; at most
 * `capacity`. Returns their number. */
int form_list(const tensor_t *tensor, int capacity, tensor_t **out_forms);

/* Makes all forms dirty: the plain bytes were written. */
void form_mark_dirty(storage_t *storage);

/* form_drop: releases all forms of a storage, unless its plain bytes are not clean, because then
 * only the forms have the elements. form_clear: releases them in any case, when the storage
 * ends. */
void form_drop(storage_t *storage);
void form_clear(storage_t *storage);

/* Releases the forms that nobody else holds, if the plain bytes are clean. Forms with borrowed
 * bytes, such as those of a file, stay: they cost no memory. */
void form_drop_idle(storage_t *storage);

/* Writes the elements of a locked storage in row-major order, from a clean form that has all of
 * them. With a context by a counted reorder; with NULL by Tessera's own loop. */
status_t form_write_plain(context_t *ctx, const storage_t *storage, reorder_cause_t cause,
                          void *bytes);

#endif
