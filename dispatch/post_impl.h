/* Applies post-ops (the operator's attribute `post`) to the results of kernels that do not compute
 * them. The operands of post-ops come after the operator's own. */
#ifndef TESSERA_DISPATCH_POST_IMPL_H
#define TESSERA_DISPATCH_POST_IMPL_H

#include "dispatch/prepared_impl.h"

/* Notes that the kernel does not compute post-op `first` and all later ones; dispatch then calls
 * post_apply for them. */
void post_leave(prepared_t *prepared, int first);

/* Sets the formats of the remaining post-ops' operands: operands of the result's shape use its
 * format, those that broadcast are dense. Call it when prepared->out[0] is set. */
void post_settle_operands(prepared_t *prepared);

/* Applies the remaining post-ops to output 0 in place; the padding is zero afterwards. */
void post_apply(context_t *ctx, const prepared_t *prepared, void *const *in, void *out);

/* Applies the post-ops from `first` on, which must be functions of one element, to n f32 elements
 * in place. Kernels call it while their results are still in registers or cache. `rest` is a
 * post_rest_t. */
typedef struct post_rest {
    const post_ops_t *post;
    int first;
} post_rest_t;
void post_finish(const void *rest, float *values, int64_t n);

/* True if all post-ops from rest->first on map zero to zero, so that padding stays zero. */
bool post_keep_zero(const post_rest_t *rest);

/* True for relu, and for a clamp whose bounds are numbers; returns the bounds. */
bool post_is_clamp(const post_op_t *op, float *lower, float *upper);

#endif
