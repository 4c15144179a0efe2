/* Packed weights: kept in the weight's storage, one for each requested format. */
#ifndef TESSERA_DISPATCH_PACK_IMPL_H
#define TESSERA_DISPATCH_PACK_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/convert_impl.h"

/* The function that packs `want`: the kernel's own `pack` if the format belongs to the kernel, else
 * NULL. kernel may be NULL. */
convert_pack_t pack_of(const kernel_t *kernel, const tensor_info_t *want);

/* The weight in the form `want`, which may have other sizes for the same elements. Returns the kept
 * form of a marked storage, else converts for this call; returns the weight itself if its bytes
 * already match. Retained for the caller. */
status_t pack_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                     const tensor_info_t *want, tensor_t **out_packed);

/* The same for one call and a marked storage whose bytes do not match. Uses `room`, a buffer for
 * one `want`: see form_read. */
status_t pack_weight_once(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                          const tensor_info_t *want, void *room, tensor_t **out_packed);

/* pack_weight for a weight whose bytes are known not to match. */
status_t pack_moved_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                           const tensor_info_t *want, tensor_t **out_packed);

/* convert_for_call, but a format that belongs to the kernel is packed by the kernel, without
 * looking for a kept form. */
status_t pack_for_call(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                       const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_packed);

#endif
