/* Post-ops by our own loops: for kernels whose primitive cannot fuse them. */
#ifndef TESSERA_DISPATCH_POST_IMPL_H
#define TESSERA_DISPATCH_POST_IMPL_H

#include "dispatch/prepared_impl.h"

/* Says in which form post_apply wants the operands, which begin at input `first`: those of the
 * result's shape in its format, those that broadcast dense. Called after prepared->out[0] is
 * settled. */
void post_settle_operands(prepared_t *prepared, const post_ops_t *post, int first);

/* Applies the post-ops to output 0 in place; padded lanes are zero after. */
void post_apply(context_t *ctx, const prepared_t *prepared, const post_ops_t *post, int first,
                void *const *in, void *out);

#endif
