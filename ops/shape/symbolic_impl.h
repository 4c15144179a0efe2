/* Runs operators on small tensors with symbolic elements, for graphs that compute sizes.
 *
 * A graph can read the sizes of its inputs as elements, compute with these (Gather, Concat, Cast,
 * Div, Floor, ..), and pass the result to Reshape, Slice or Resize. With symbolic elements
 * (tensor/sym/sym.h), the result is valid for all sizes, not only for the current ones. */
#ifndef TESSERA_OPS_SHAPE_SYMBOLIC_IMPL_H
#define TESSERA_OPS_SHAPE_SYMBOLIC_IMPL_H

#include "dispatch/dispatch.h"
#include "tensor/sym/sym.h"

/* The maximum number of elements. Larger tensors are data, not sizes. */
#define SYMBOLIC_MOST 4096

/* A small tensor: numeric sizes, and row-major elements that are numbers or expressions. Elements
 * of s64, s32 and bool are integers (bool: 1 or 0); those of f32 and f64 are handles of sym_real.
 * An absent operand has dtype DTYPE_NONE. */
typedef struct symbolic {
    dtype_t dtype;
    int rank;
    bool is_number; /* as in tensor_info_t */
    int64_t sizes[TENSOR_MAX_RANK];
    int64_t n;
    int64_t *elements;
} symbolic_t;

/* Allocates the elements, all 0. The caller frees them with symbolic_clear. */
status_t symbolic_create(context_t *ctx, dtype_t dtype, int rank, const int64_t *sizes,
                         symbolic_t *out);
void symbolic_clear(context_t *ctx, symbolic_t *symbolic);

/* Runs an operator on elements whose symbols belong to the symbol space of ctx. Without a space,
 * all elements are numbers. If an operator only moves elements, its kernel runs on their positions,
 * and sym_pin makes numbers of its index operands. `out` has OP_MAX_OUTPUTS entries; the caller
 * clears the first *out_n of them.
 *
 *   add sub mul div div_floor div_trunc remainder fmod minimum maximum eq ne lt le gt ge
 *   logical_and logical_or logical_xor logical_not where neg abs sign floor ceil round trunc cast
 *   sum prod amax amin any all cumsum cumprod range identity reshape flatten squeeze unsqueeze
 *   transpose permute expand slice split concat flip roll pad gather gather_elements gather_nd
 *   scatter scatter_nd copy
 *
 * INVALID_ARGUMENT  as for the operator
 * UNSUPPORTED       another operator or dtype; a comparison, minimum or maximum of floating
 *                   elements; an overflow or division by 0; symbolic attributes */
status_t symbolic_run(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const symbolic_t *in, int *out_n, symbolic_t *out);

#endif
