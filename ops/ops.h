/* The operators, called on tensors of any layout.
 *
 * Semantics and names are PyTorch's unless a note says otherwise. Inputs are borrowed; the caller
 * releases what it is given, or its scope does. attrs NULL means all defaults. A zero where zero is
 * no legal value means the first number of its array, or the default where that is zero too: stride
 * {2} is {2, 2} in two dimensions, padding {1} is {1, 0}. A pool's kernel has no default. The
 * layout of a result is the chosen kernel's: operators that prefer mkldnn (conv, linear) give
 * mkldnn, followers keep what their activations are, the others are dense. INVALID_ARGUMENT when
 * shapes or attributes disagree, UNSUPPORTED when there is no kernel for a dtype, OUT_OF_MEMORY.
 *
 * Dimensions: N batch, C input channels, K output channels, H W input, P Q output, R S kernel,
 * G groups, T time. */
#ifndef TESSERA_OPS_OPS_H
#define TESSERA_OPS_OPS_H

#include "dispatch/dispatch.h"
#include "ops/attention/attention.h"
#include "ops/combined.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/in_place.h"
#include "ops/index/indexing.h"
#include "ops/index/measured.h"
#include "ops/index/picking.h"
#include "ops/linear/linear.h"
#include "ops/making.h"
#include "ops/norm/norm.h"
#include "ops/pool/pool.h"
#include "ops/quantized/quantized.h"
#include "ops/random/random.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/moving.h"
#include "ops/shape/shapes.h"
#include "ops/transition.h"
#include "ops/vision/vision.h"

TESSERA_BEGIN

/* ---- the table ---- */

/* An operator by its name, or NULL; and all of them, in the order of ops.def. */
const opdef_t *ops_find(const char *name) TESSERA_API(ops_find);
int ops_count(void) TESSERA_API(ops_count);
const opdef_t *ops_at(int index) TESSERA_API(ops_at);

/* ---- an operator of yours: opdef.h ---- */

/* The `prepare` of a kernel on dense tensors: all operands and results are row-major, without gaps.
 * It declines layout mkldnn. Call it from a `prepare` of yours that declines more, or put it in
 * kernel_t as it is. */
status_t ops_prepare_dense(context_t *ctx, const op_call_t *call, prepared_t *prepared)
    TESSERA_API(ops_prepare_dense);

TESSERA_END

#endif
