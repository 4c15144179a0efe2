/* Operators on small tensors whose elements are symbolic: what graphs calculate sizes with.
 *
 * A graph reads the sizes of its inputs as elements, calculates with them (Gather, Concat, Cast,
 * Div, Floor, ..) and gives the result to Reshape, Slice or Resize. With elements that are symbolic
 * (tensor/sym.h) that result holds for all sizes, not only for those at hand. */
#ifndef TESSERA_OPS_SHAPE_SYMBOLIC_IMPL_H
#define TESSERA_OPS_SHAPE_SYMBOLIC_IMPL_H

#include "dispatch/dispatch.h"
#include "tensor/sym.h"

/* More elements are data, not sizes. */
#define SYMBOLIC_MOST 4096

/* Row-major elements, of numbers as of expressions: integers of s64, s32 and bool (1 or 0), handles
 * of sym_real for f32 and f64. Sizes are numbers. dtype NONE: an operand that is absent. */
typedef struct symbolic {
    dtype_t dtype;
    int rank;
    bool is_number; /* as of tensor_info_t */
    int64_t sizes[TENSOR_MAX_RANK];
    int64_t n;
    int64_t *elements;
} symbolic_t;

/* Room for the elements, which the caller fills in and ends with symbolic_clear. */
status_t symbolic_create(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                         symbolic_t *out);
void symbolic_clear(context_t *ctx, symbolic_t *symbolic);

/* Runs an operator in the context's space; without one elements are numbers. What only moves
 * elements is done by the operator's own kernel, on their places; indices that say where to are
 * pinned. The caller clears the *out_n outputs, of which there is room for OP_MAX_OUTPUTS.
 *
 * add sub mul div div_floor div_trunc remainder fmod minimum maximum eq ne lt le gt ge
 * logical_and logical_or logical_xor logical_not where neg abs sign floor ceil round trunc cast
 * sum prod amax amin any all cumsum cumprod range identity reshape flatten squeeze unsqueeze
 * transpose permute expand slice split concat flip roll pad gather gather_elements gather_nd
 * scatter scatter_nd copy
 *
 * INVALID_ARGUMENT  as of the operator
 * UNSUPPORTED       another operator or dtype; a comparison of floating elements, a minimum of
 *                   them; elements that overflow, or are divided by 0; symbolic attributes */
status_t symbolic_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const symbolic_t *in, int *out_n, symbolic_t *out);

#endif
