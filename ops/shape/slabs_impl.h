/* Sizes of contiguous byte ranges that belong to a range of one dimension. concat and split copy
 * these; blocks stay complete.
 *
 * The memory of a format without gaps is [rows][size of the dimension in blocks][rest]. Rows are
 * the dimensions that are slower in memory. */
#ifndef TESSERA_OPS_SHAPE_SLABS_IMPL_H
#define TESSERA_OPS_SHAPE_SLABS_IMPL_H

#include "dispatch/prepared_impl.h"

/* The block size of the dimension; 1 if it has no blocks. */
int64_t slabs_block(const format_t *format, int dim);

/* Bytes of one row: the dimension and all faster dimensions, including padding. */
size_t slabs_row_bytes(const tensor_info_t *info, int dim);

#endif
