/* Post-ops by our own loops: for kernels whose primitive cannot fuse them. They are the operator's
 * attribute `post`, and take the inputs behind its own. */
#ifndef TESSERA_DISPATCH_POST_IMPL_H
#define TESSERA_DISPATCH_POST_IMPL_H

#include "dispatch/prepared_impl.h"

/* Says in which form post_apply wants the operands: those of the result's shape in its format,
 * those that broadcast dense. Called after prepared->out[0] is settled. */
void post_settle_operands(prepared_t *prepared);

/* Applies the post-ops to output 0 in place; padded lanes are zero after. */
void post_apply(context_t *ctx, const prepared_t *prepared, void *const *in, void *out);

/* Describes an operator's primitive, with its post-ops fused or without. */
typedef status_t (*post_describe_t)(context_t *ctx, const op_call_t *call, bool fuses,
                                    prepared_t *prepared);

/* For kernels that run a primitive without the post-ops, and these behind it: prepares both, and
 * declines where there are none. */
status_t post_prepare_behind(context_t *ctx, const op_call_t *call, post_describe_t describe,
                             prepared_t *prepared);
status_t post_run_behind(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch);

#endif
