/* Computes the contiguous byte ranges ("slabs") that hold a range of one dimension. concat and
 * split copy slabs, which consist of complete blocks.
 *
 * In memory, a format without gaps is [rows][blocks of the dimension][rest]. Rows are all
 * dimensions outside of this one; the rest is those inside. */
#ifndef TESSERA_OPS_SHAPE_SLABS_IMPL_H
#define TESSERA_OPS_SHAPE_SLABS_IMPL_H

#include "dispatch/prepared_impl.h"

/* The block size of the dimension; 1 if it has no blocks. */
int64_t slabs_block(const format_t *format, int dim);

/* Bytes of one row: the dimension and all dimensions inside of it, with padding. */
size_t slabs_row_bytes(const tensor_info_t *info, int dim);

#endif
