/* Where the dimensions of a tensor in blocks lie, for kernels of our own. */
#ifndef TESSERA_OPS_AXES_IMPL_H
#define TESSERA_OPS_AXES_IMPL_H

#include "kernels/axis_impl.h"
#include "tensor/info.h"

/* Element [i0][i1].. lies at the sum of axis_at(&out_axes[d], i_d). False, and out_axes is not to
 * be used: the format is no tag, or one with more than one block of a dimension. */
bool axes_find(const tensor_info_t *info, axis_t out_axes[TENSOR_MAX_RANK]);

#endif
