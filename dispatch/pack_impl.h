/* Packed weights: kept with the storage of the weight, one for each format that was asked for. */
#ifndef TESSERA_DISPATCH_PACK_IMPL_H
#define TESSERA_DISPATCH_PACK_IMPL_H

#include "dispatch/prepared_impl.h"

/* The weight in the form `want` (which may have other sizes over the same elements), to be read:
 * of a marked storage the form that is kept, else reordered for this call; the weight itself where
 * its bytes are right. Retained for the caller. */
status_t pack_weight(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                     tensor_t **out_packed);

/* The same where it is known that the bytes are not right. */
status_t pack_moved_weight(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                           tensor_t **out_packed);

#endif
