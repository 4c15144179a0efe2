/* Packed weights. The storage of a weight keeps them as forms (tensor/form_impl.h), one for each
 * requested format, if module_mkldnn or a plan marked the storage. */
#ifndef TESSERA_DISPATCH_PACK_IMPL_H
#define TESSERA_DISPATCH_PACK_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/convert_impl.h"

/* The function that packs `want`: the kernel's own `pack` if the format belongs to the kernel, else
 * NULL. kernel may be NULL. */
convert_pack_t pack_of(const kernel_t *kernel, const tensor_info_t *want);

/* Returns the weight in the form `want`, which may have other sizes for the same elements: the
 * weight itself if its bytes match, else the kept form of a marked storage, else a tensor converted
 * for this call. Retained for the caller. */
status_t pack_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                     const tensor_info_t *want, tensor_t **out_packed);

/* pack_weight for a weight in a marked storage whose bytes do not match. Makes no new form: if none
 * is kept, it converts into `room`, a buffer with the bytes of `want` (see form_read). */
status_t pack_weight_once(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                          const tensor_info_t *want, void *room, tensor_t **out_packed);

/* pack_weight for a weight whose bytes are known not to match. */
status_t pack_moved_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                           const tensor_info_t *want, tensor_t **out_packed);

/* convert_for_call, but the kernel packs its own formats. Does not look for a kept form. */
status_t pack_for_call(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                       const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_packed);

#endif
