/* Offsets of elements in blocked tensors, for our own kernels. */
#ifndef TESSERA_OPS_AXES_IMPL_H
#define TESSERA_OPS_AXES_IMPL_H

#include "kernels/axis_impl.h"
#include "tensor/info.h"

/* Element [i0][i1].. is at the sum of axis_at(&out_axes[d], i_d) over the dimensions d. Returns
 * false, with out_axes undefined, if the format is not a tag or has several blocks of one
 * dimension. */
bool axes_find(const tensor_info_t *info, axis_t out_axes[TENSOR_MAX_RANK]);

#endif
