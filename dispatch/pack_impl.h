/* Packed weights: kept with the storage of the weight, one for each format that was asked for. */
#ifndef TESSERA_DISPATCH_PACK_IMPL_H
#define TESSERA_DISPATCH_PACK_IMPL_H

#include "dispatch/prepared_impl.h"

/* The weight in the form `want` (which may have other sizes over the same elements): from the
 * storage's packed forms when it is marked and unchanged since, else reordered, and kept if the
 * storage is marked. Retained for the caller. */
status_t pack_weight(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                     tensor_t **out_packed);

/* The same conversion without keeping. */
status_t pack_convert(context_t *ctx, const tensor_t *weight, const tensor_info_t *want,
                      reorder_cause_t cause, tensor_t **out_packed);

/* ---- for files ---- */

/* The packed forms of a tensor, also those under other sizes, retained; at most `capacity`. Gives
 * their number. */
int pack_forms(const tensor_t *tensor, int capacity, tensor_t **out_forms);

/* Makes `packed` a packed form of the tensor, and marks the tensor. */
status_t pack_attach(context_t *ctx, tensor_t *tensor, tensor_t *packed);

#endif
