/* Operators that take elements of a tensor by an index tensor, or put elements there. The rules for
 * all operators are in ops.h.
 *
 * Indices are s32 or s64; -1 is the last one. One out of range is INVALID_ARGUMENT with its value,
 * its place in the index and the size it does not fit. PyTorch and ONNX use the word gather for
 * different things:
 *
 *   here               PyTorch               ONNX
 *   op_gather          index_select          Gather           (shapes.h)
 *   op_gather_elements gather                GatherElements
 *   op_gather_nd       x[i, j, ...]          GatherND
 *   op_scatter         scatter               ScatterElements
 *   op_scatter_nd      index_put             ScatterND */
#ifndef TESSERA_OPS_INDEX_INDEXING_H
#define TESSERA_OPS_INDEX_INDEXING_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

/* ---- taking ---- */

/* Elements picked one by one along dim, as torch.gather and ONNX GatherElements:
 *
 *   out[i][j][k] = x[i][index[i][j][k]][k]     dim 1 of 3
 *
 * x       any dtype
 * index   of x's rank, and no longer than x but along dim
 * out     of the index's sizes */
status_t op_gather_elements(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                            tensor_t **out) TESSERA_API(op_gather_elements);

/* Slices picked by tuples of indices, as ONNX GatherND:
 *
 *   out[b][m][r] = x[b][index[b][m][0]][index[b][m][1]]...[r]
 *
 * x           [B..][D1..Dk][R..]   any dtype
 * index       [B..][M..][k]        k is at least 1
 * batch_dims  how many dimensions B.. has: x and index have them alike
 * out         [B..][M..][R..] */
status_t op_gather_nd(context_t *ctx, const tensor_t *x, const tensor_t *index, int64_t batch_dims,
                      tensor_t **out) TESSERA_API(op_gather_nd);

/* ---- putting: x is not changed, the result is a copy of it with other elements ----
 *
 * Where indices name one place several times, the reduction takes all of them, one after the other
 * in the index's row-major order: SCATTER_NONE keeps the last. So results do not depend on threads.
 * Integers wrap around; bf16 and f16 are reduced in f32 and rounded once; the maximum and the
 * minimum with NaN are NaN. SCATTER_ADD to SCATTER_MIN of bool are UNSUPPORTED. */
typedef enum scatter_reduction {
    SCATTER_NONE, /* the element itself */
    SCATTER_ADD,
    SCATTER_MUL,
    SCATTER_MAX,
    SCATTER_MIN
} scatter_reduction_t;

/* Elements put one by one along dim, as torch.scatter (torch.scatter_reduce with include_self) and
 * ONNX ScatterElements:
 *
 *   out = x; out[i][index[i][j][k]][k] = reduction(that, src[i][j][k])     dim 1 of 3
 *
 * index   of x's rank, and no longer than x but along dim
 * src     of x's dtype and rank, nowhere shorter than the index; the second form has one number */
status_t op_scatter(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                    const tensor_t *src, scatter_reduction_t reduction, tensor_t **out)
    TESSERA_API(op_scatter);
status_t op_scatter_value(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                          double value, scatter_reduction_t reduction, tensor_t **out)
    TESSERA_API(op_scatter_value);

/* Slices put at tuples of indices, as ONNX ScatterND:
 *
 *   out = x; out[index[m][0]][index[m][1]]...[r] = reduction(that, src[m][r])
 *
 * x       [D1..Dk][R..]
 * index   [M..][k]       k is at least 1
 * src     [M..][R..]     of x's dtype */
status_t op_scatter_nd(context_t *ctx, const tensor_t *x, const tensor_t *index,
                       const tensor_t *src, scatter_reduction_t reduction, tensor_t **out)
    TESSERA_API(op_scatter_nd);

/* ---- whole slices, by an index [n], or of rank 0; made of scatter, which a trace records ----
 *
 *   index_add    out = x; out[i][index[j]][k] += alpha src[i][j][k]     dim 1 of 3
 *   index_copy   out = x; out[i][index[j]][k] = src[i][j][k]
 *   index_fill   out = x; out[i][index[j]][k] = value
 *
 * src  of x's dtype and sizes, but n along dim */
status_t op_index_add(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                      const tensor_t *src, double alpha, tensor_t **out) TESSERA_API(op_index_add);
status_t op_index_copy(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                       const tensor_t *src, tensor_t **out) TESSERA_API(op_index_copy);
status_t op_index_fill(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                       double value, tensor_t **out) TESSERA_API(op_index_fill);

/* ---- decision trees ---- */

/* A comparison of x with a node's value. Adding TREE_NAN_IS_TRUE makes it true for NaN. */
typedef enum tree_mode {
    TREE_LEQ,
    TREE_LT,
    TREE_GTE,
    TREE_GT,
    TREE_EQ,
    TREE_NEQ,
    TREE_NAN_IS_TRUE
} tree_mode_t;

typedef enum tree_aggregate { TREE_SUM, TREE_MIN, TREE_MAX } tree_aggregate_t;

/* Trees of M nodes and L leaves in all. Side 0 is taken where the comparison is true, else side 1.
 * A link to a later node leads there; another link ends the walk at the leaf that `exits` says.
 *
 * features  s32 [M]        which column of x is compared
 * modes     s32 [M]        tree_mode_t
 * values    [M]            f32 or f64
 * links     s32 [M][2]
 * exits     s32 [M][2]     of leaves
 * roots     s32 [T]        the first node of each tree
 * leaves    [L][K]         f32 or f64 */
typedef struct tree_ensemble {
    const tensor_t *features, *modes, *values, *links, *exits, *roots, *leaves;
} tree_ensemble_t;

/* The sum, least or largest of the leaves that a row comes to, as ai.onnx.ml TreeEnsemble; 0 where
 * there is no tree.
 *
 * x    [N][F]    f32 or f64
 * out  [N][K]    of the leaves' dtype
 *
 * INVALID_ARGUMENT where a walk leads to a node, leaf or feature that is not there. */
status_t op_tree_ensemble(context_t *ctx, const tensor_t *x, const tree_ensemble_t *trees,
                          tree_aggregate_t aggregate, tensor_t **out) TESSERA_API(op_tree_ensemble);

TESSERA_END

#endif
