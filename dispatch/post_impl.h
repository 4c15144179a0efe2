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

/* For kernels whose primitive was described without the post-ops: settles them behind it, and runs
 * both. */
void post_settle_behind(prepared_t *prepared);
status_t post_run_behind(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch);

#endif
