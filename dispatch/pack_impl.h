/* Packed weights: copies of a weight in the format that a kernel needs. If module_mkldnn or a plan
 * has marked the weight's storage as packable, the storage keeps one copy for each format, called a
 * form (tensor/convert/form_impl.h). Other weights are packed again in each call. */
#ifndef TESSERA_DISPATCH_PACK_IMPL_H
#define TESSERA_DISPATCH_PACK_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/convert/convert_impl.h"

/* The function that packs a weight into the format of `want`: the kernel's own `pack` if the format
 * belongs to the kernel, else NULL. kernel may be NULL. */
convert_pack_t pack_of(const kernel_t *kernel, const tensor_info_t *want);

/* Returns the weight with the info `want`, whose sizes may be a reshape of the weight's. This is
 * the weight itself if its bytes match; else a form, if the storage is marked; else a tensor that
 * was converted for this call. The caller releases it. */
status_t pack_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                     const tensor_info_t *want, tensor_t **out_packed);

/* Like pack_weight, for a weight in a marked storage whose bytes do not match. Makes no new form:
 * if there is none, it converts into `room`, a buffer with as many bytes as `want` needs (see
 * form_read). */
status_t pack_weight_once(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                          const tensor_info_t *want, void *room, tensor_t **out_packed);

/* Like pack_weight, for a weight whose bytes are known not to match. */
status_t pack_moved_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                           const tensor_info_t *want, tensor_t **out_packed);

/* Like convert_for_call, but the kernel packs its own formats. Does not look for a form. */
status_t pack_for_call(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                       const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_packed);

#endif
