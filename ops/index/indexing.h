/* Operators that read or write elements at the indices in a tensor; sorting; decision trees. The
 * rules for all operators are in ops.h.
 *
 * Indices are s32 or s64; -1 is the last element. An index out of range is INVALID_ARGUMENT. The
 * message contains the index, its position in the index tensor, and the size of the dimension.
 * PyTorch and ONNX use the word gather for different operators:
 *
 *   here               PyTorch               ONNX
 *   op_gather          index_select          Gather
 *   op_gather_elements gather                GatherElements
 *   op_gather_nd       x[i, j, ...]          GatherND
 *   op_scatter         scatter               ScatterElements
 *   op_scatter_nd      index_put             ScatterND */
#ifndef TESSERA_OPS_INDEX_INDEXING_H
#define TESSERA_OPS_INDEX_INDEXING_H

#include "dispatch/dispatch.h"

/* ---- reading elements ---- */

/* The slice of x at each index along dim, like numpy.take. The result has the sizes of x, with
 * those of the index tensor in place of size dim. */
status_t op_gather(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                   tensor_t **out) TESSERA_API(op_gather);

/* One element along dim for each index, like torch.gather:
 *
 *   out[i][j][k] = x[i][index[i][j][k]][k]     dim 1 of 3
 *
 * x       any dtype
 * index   has the rank of x; in dimensions other than dim, it is not longer than x
 * out     has the sizes of the index */
status_t op_gather_elements(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                            tensor_t **out) TESSERA_API(op_gather_elements);

/* Slices of x at tuples of indices:
 *
 *   out[b][m][r] = x[b][index[b][m][0]][index[b][m][1]]...[r]
 *
 * x           [B..][D1..Dk][R..]   any dtype
 * index       [B..][M..][k]        k is at least 1
 * batch_dims  the number of dimensions B.., equal in x and the index
 * out         [B..][M..][R..] */
status_t op_gather_nd(context_t *ctx, const tensor_t *x, const tensor_t *index, int64_t batch_dims,
                      tensor_t **out) TESSERA_API(op_gather_nd);

/* ---- writing elements: the result is a changed copy of x ----
 *
 * If several indices refer to one element, all are applied in the row-major order of the index
 * tensor; with SCATTER_NONE, the last one replaces the others. So results do not depend on the
 * number of threads. Integers wrap around. bf16 and f16 are reduced in f32 and rounded once.
 * Maximum and minimum return NaN if an operand is NaN. SCATTER_ADD to SCATTER_MIN of bool are
 * UNSUPPORTED. */
typedef enum scatter_reduction {
    SCATTER_NONE, /* replaces the element */
    SCATTER_ADD,
    SCATTER_MUL,
    SCATTER_MAX,
    SCATTER_MIN
} scatter_reduction_t;

/* Writes one element along dim for each index, like torch.scatter (torch.scatter_reduce with
 * include_self):
 *
 *   out = x; out[i][index[i][j][k]][k] = reduction(old element, src[i][j][k])     dim 1 of 3
 *
 * index   has the rank of x; in dimensions other than dim, it is not longer than x
 * src     has x's dtype and rank, and is not shorter than the index in any dimension.
 *         op_scatter_value writes one number at all indices */
status_t op_scatter(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                    const tensor_t *src, scatter_reduction_t reduction, tensor_t **out)
    TESSERA_API(op_scatter);
status_t op_scatter_value(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                          double value, scatter_reduction_t reduction, tensor_t **out)
    TESSERA_API(op_scatter_value);

/* Writes slices at tuples of indices:
 *
 *   out = x; out[index[m][0]][index[m][1]]...[r] = reduction(old element, src[m][r])
 *
 * x       [D1..Dk][R..]
 * index   [M..][k]       k is at least 1
 * src     [M..][R..]     in x's dtype */
status_t op_scatter_nd(context_t *ctx, const tensor_t *x, const tensor_t *index,
                       const tensor_t *src, scatter_reduction_t reduction, tensor_t **out)
    TESSERA_API(op_scatter_nd);

/* Writes src over a slice of x along dim, like torch.slice_scatter, whose start is a tensor:
 *
 *   out[..][start + i][..] = src[..][i][..], all other elements are those of x
 *
 * With slots, out[slots[n]] gets the slice of src[n], at start[n].
 *
 * The start is read when the operator runs, so a graph for adding rows to a cache serves every
 * position. op_slice_scatter_ writes only the slice.
 *
 * x      any dtype, rank 1 or more
 * src    x's sizes, but dim may be shorter; x's dtype, or cast to it if both are floating
 * start  s32 or s64, [] or, if dim is not 0, [N]: one for each index of dimension 0 of src
 * slots  s64 [N], all different, if dim is not 0; x may then have another dimension 0. NULL: 0, 1
 * ..
 *
 * INVALID_ARGUMENT  a start is negative, or the slice ends after x; x does not have a slot, or it
 *                   is given twice. Then nothing is written.
 * It has no gradient. */
status_t op_slice_scatter(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *src,
                          const tensor_t *start, const tensor_t *slots, tensor_t **out)
    TESSERA_API(op_slice_scatter);

/* ---- writing slices; index is [n] or []. These call scatter, which a trace records ----
 *
 *   index_add    out = x; out[i][index[j]][k] += alpha src[i][j][k]     dim 1 of 3
 *   index_copy   out = x; out[i][index[j]][k] = src[i][j][k]
 *   index_fill   out = x; out[i][index[j]][k] = value
 *
 * src  has x's dtype and sizes, but size n along dim */
status_t op_index_add(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                      const tensor_t *src, double alpha, tensor_t **out) TESSERA_API(op_index_add);
status_t op_index_copy(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                       const tensor_t *src, tensor_t **out) TESSERA_API(op_index_copy);
status_t op_index_fill(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                       double value, tensor_t **out) TESSERA_API(op_index_fill);

/* ---- sorting ---- */

/* Sorts along dim. Results are the elements and their s64 indices. NaN is larger than all numbers.
 * Equal elements keep their order. */
status_t op_sort(context_t *ctx, const tensor_t *x, int64_t dim, bool descending,
                 tensor_t **out_values, tensor_t **out_indices) TESSERA_API(op_sort);
/* The k largest or smallest elements along dim, in order, and their s64 indices. x must not be
 * bool. */
status_t op_topk(context_t *ctx, const tensor_t *x, int64_t k, int64_t dim, bool largest,
                 tensor_t **out_values, tensor_t **out_indices) TESSERA_API(op_topk);

/* ---- decision trees ---- */

/* How a node compares a feature of x with its value. With TREE_NAN_IS_TRUE added to a mode, the
 * comparison is also true if the feature is NaN. */
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

/* Trees with M nodes and L leaves in total. At each node, a walk chooses side 0 if the comparison
 * is true, otherwise side 1. If the link of this side is the number of a later node, the walk
 * continues there. Any other link ends the walk at the leaf that `exits` has for this side.
 *
 * features  s32 [M]        the feature (column of x) to compare
 * modes     s32 [M]        tree_mode_t
 * values    [M]            f32 or f64
 * links     s32 [M][2]
 * exits     s32 [M][2]     leaf numbers
 * roots     s32 [T]        the first node of each tree
 * leaves    [L][K]         f32 or f64 */
typedef struct tree_ensemble {
    const tensor_t *features, *modes, *values, *links, *exits, *roots, *leaves;
} tree_ensemble_t;

/* For each row of x, the sum, minimum or maximum of the leaves where its walks end, like ai.onnx.ml
 * TreeEnsemble; 0 if there are no trees.
 *
 * x    [N][F]    f32 or f64
 * out  [N][K]    in the leaves' dtype
 *
 * INVALID_ARGUMENT  a walk reaches a node, leaf or feature that does not exist */
status_t op_tree_ensemble(context_t *ctx, const tensor_t *x, const tree_ensemble_t *trees,
                          tree_aggregate_t aggregate, tensor_t **out) TESSERA_API(op_tree_ensemble);

#endif
