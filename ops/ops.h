/* The operators. Each takes tensors of any layout.
 *
 * Unless a note says otherwise, semantics and names are PyTorch's. Inputs are borrowed. Results
 * belong to the caller, who releases them, or to the caller's scope. If attrs is NULL, all
 * attributes have their defaults.
 *
 * Some attributes, such as stride, are arrays with one number for each dimension. Where 0 is not
 * valid, a 0 means the first number, or the default if the first number is 0, too: in two
 * dimensions, stride {2} means {2, 2}. A padding of 0 is valid, so padding {1} means {1, 0}. The
 * kernel of a pool has no default.
 *
 * The layout of a result depends on the operator. Some operators (conv, linear) prefer mkldnn,
 * others return the layout of their activations, the rest return dense.
 *
 * INVALID_ARGUMENT  shapes or attributes disagree
 * UNSUPPORTED       no kernel for a dtype
 * OUT_OF_MEMORY     an allocation failed
 *
 * Dimensions: N batch, C input channels, K output channels, H W input, P Q output, R S kernel, G
 * groups, T time. */
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

/* ---- the table ---- */

/* ops_find: the operator with this name, or NULL if there is none. ops_at: operator `index`, from 0
 * to ops_count() - 1, in the order of ops.def. */
const opdef_t *ops_find(const char *name) TESSERA_API(ops_find);
int ops_count(void) TESSERA_API(ops_count);
const opdef_t *ops_at(int index) TESSERA_API(ops_at);

/* ---- your own operators: see opdef.h ---- */

/* The `prepare` of a kernel for dense tensors whose operands and results are row-major without
 * gaps. It declines layout mkldnn. Use it in kernel_t; or call it from your own `prepare` if your
 * kernel must decline other calls, too. */
status_t ops_prepare_dense(context_t *ctx, const op_call_t *call, prepared_t *prepared)
    TESSERA_API(ops_prepare_dense);

#endif
