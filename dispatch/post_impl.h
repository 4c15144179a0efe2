/* Post-ops by our own loops: for kernels that do not fuse them. They are the operator's attribute
 * `post`, and take the inputs behind its own. */
#ifndef TESSERA_DISPATCH_POST_IMPL_H
#define TESSERA_DISPATCH_POST_IMPL_H

#include "dispatch/prepared_impl.h"

/* Leaves the post-ops from number `first` on to post_apply. */
void post_leave(prepared_t *prepared, int first);

/* Says in which form post_apply wants the operands of those that are left: of the result's shape in
 * its format, those that broadcast dense. Called after prepared->out[0] is settled. */
void post_settle_operands(prepared_t *prepared);

/* Applies the post-ops that are left to output 0 in place; padded lanes are zero after. */
void post_apply(context_t *ctx, const prepared_t *prepared, void *const *in, void *out);

/* Functions of f32 from post-op `first` on, which kernels that keep their results in registers or
 * in a cache apply there: to n elements, in place. `rest` is a post_rest_t. */
typedef struct post_rest {
    const post_ops_t *post;
    int first;
} post_rest_t;
void post_finish(const void *rest, float *values, int64_t n);

/* Whether all of them keep zero, so that padded lanes stay zero. */
bool post_keep_zero(const post_rest_t *rest);

/* Whether it is relu or a clamp to bounds that are numbers, and what these are. */
bool post_is_clamp(const post_op_t *op, float *lower, float *upper);

#endif
