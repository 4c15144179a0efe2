/* Packed weights: kept with the storage of the weight, one for each format that was asked for. */
#ifndef TESSERA_DISPATCH_PACK_IMPL_H
#define TESSERA_DISPATCH_PACK_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/convert_impl.h"

/* Who makes `want` for the kernel: its own `pack` where the format is the kernel's, else NULL, as
 * for a kernel that is NULL. */
convert_pack_t pack_of(const kernel_t *kernel, const tensor_info_t *want);

/* The weight in the form `want` (which may have other sizes over the same elements), to be read:
 * of a marked storage the form that is kept, else made for this call; the weight itself where its
 * bytes are right. Retained for the caller. */
status_t pack_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                     const tensor_info_t *want, tensor_t **out_packed);

/* The same of a marked storage whose bytes are not right, for one call, in `room`, which holds one
 * of `want`: see form_read. */
status_t pack_weight_once(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                          const tensor_info_t *want, void *room, tensor_t **out_packed);

/* The same where it is known that the bytes are not right. */
status_t pack_moved_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                           const tensor_info_t *want, tensor_t **out_packed);

/* convert_for_call, in a format of the kernel's by the kernel. Looks for no kept form of these. */
status_t pack_for_call(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                       const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_packed);

#endif
