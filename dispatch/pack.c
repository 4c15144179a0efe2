/* Packed weights. A weight's storage keeps them as forms (tensor/convert/form_impl.h). */
#include "dispatch/pack_impl.h"

#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"

convert_pack_t pack_of(const kernel_t *kernel, const tensor_info_t *want)
{
    return kernel != NULL && format_numbers(&want->format) != NULL ? kernel->pack : NULL;
}

status_t pack_for_call(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                       const tensor_info_t *want, reorder_cause_t cause, tensor_t **out_packed)
{
    const convert_pack_t pack = pack_of(kernel, want);
    if (pack == NULL) return convert_for_call(ctx, weight, want, cause, out_packed);
    TRY(storage_restore(ctx, weight->storage, cause));
    return convert_pack(ctx, pack, &weight->info, tensor_bytes(weight), want, cause, out_packed);
}

status_t pack_moved_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                           const tensor_info_t *want, tensor_t **out_packed)
{
    if (!storage_is_packable(weight->storage))
        return pack_for_call(ctx, kernel, weight, want, CAUSE_WEIGHT, out_packed);
    bool is_made = false;
    TRY(form_get(ctx, weight, want, pack_of(kernel, want), CAUSE_WEIGHT, &is_made, out_packed));
    context_counters(ctx)->weights_packed += is_made;
    return STATUS_OK;
}

status_t pack_weight(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                     const tensor_info_t *want, tensor_t **out_packed)
{
    if (!convert_moves_bytes(&weight->info, want))
        return convert_for_call(ctx, weight, want, CAUSE_WEIGHT, out_packed);
    return pack_moved_weight(ctx, kernel, weight, want, out_packed);
}

status_t pack_weight_once(context_t *ctx, const kernel_t *kernel, const tensor_t *weight,
                          const tensor_info_t *want, void *room, tensor_t **out_packed)
{
    TRY(form_read(ctx, weight, want, pack_of(kernel, want), CAUSE_WEIGHT, room, out_packed));
    context_counters(ctx)->weights_packed += *out_packed == NULL;
    return STATUS_OK;
}
