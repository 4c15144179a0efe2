/* Post-ops by our own loops: for kernels that do not fuse them. They are the operator's attribute
 * `post`, and take the inputs behind its own. */
#ifndef TESSERA_DISPATCH_POST_IMPL_H
#define TESSERA_DISPATCH_POST_IMPL_H

#include "dispatch/prepared_impl.h"

/* Says in which form post_apply wants the operands: those of the result's shape in its format,
 * those that broadcast dense. Called after prepared->out[0] is settled. */
void post_settle_operands(prepared_t *prepared);

/* Applies the post-ops to output 0 in place; padded lanes are zero after. */
void post_apply(context_t *ctx, const prepared_t *prepared, void *const *in, void *out);

#endif
