/* Packed weights: forms of their storage. */
#include "dispatch/pack_impl.h"

#include "tensor/convert_impl.h"
#include "tensor/form_impl.h"

status_t pack_moved_weight(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                           tensor_t **out_packed)
{
    if (!storage_is_packable(weight->storage))
        return convert_for_call(ctx, weight, want, CAUSE_WEIGHT, out_packed);
    bool is_made = false;
    TRY(form_get(ctx, weight, want, CAUSE_WEIGHT, &is_made, out_packed));
    context_counters(ctx)->weights_packed += is_made;
    return STATUS_OK;
}

status_t pack_weight(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                     tensor_t **out_packed)
{
    if (!convert_moves_bytes(&weight->info, want))
        return convert_for_call(ctx, weight, want, CAUSE_WEIGHT, out_packed);
    return pack_moved_weight(ctx, weight, want, out_packed);
}
