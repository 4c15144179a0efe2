/* Runs of bytes of a tensor that belong to one range of a dimension: what joining and splitting in
 * any format copies, a format's blocks whole.
 *
 * A format without gaps lies as [rows][size of the dimension in blocks][rest]: rows are the
 * dimensions slower in memory. */
#ifndef TESSERA_OPS_SHAPE_SLABS_IMPL_H
#define TESSERA_OPS_SHAPE_SLABS_IMPL_H

#include "dispatch/prepared_impl.h"

/* Elements of the dimension that lie in one block; 1 where it has no blocks. */
int64_t slabs_block(const format_t *format, int dim);

/* Bytes of one row: the dimension and all that is faster in memory, padding included. */
size_t slabs_row_bytes(const tensor_info_t *info, int dim);

#endif
