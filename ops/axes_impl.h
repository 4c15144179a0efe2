/* Offsets of elements of blocked tensors, for our own kernels. */
#ifndef TESSERA_OPS_AXES_IMPL_H
#define TESSERA_OPS_AXES_IMPL_H

#include "kernels/axis_impl.h"
#include "tensor/info.h"

/* The offset of element [i0][i1].. is the sum of axis_at(&out_axes[d], i_d). False, with undefined
 * out_axes: the format is not a tag, or has several blocks of a dimension. */
bool axes_find(const tensor_info_t *info, axis_t out_axes[TENSOR_MAX_RANK]);

#endif
