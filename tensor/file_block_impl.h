/* Blocks: bytes of the process that stand in for a mapping, as file_tensor takes it. */
#ifndef TESSERA_TENSOR_FILE_BLOCK_IMPL_H
#define TESSERA_TENSOR_FILE_BLOCK_IMPL_H

#include "tensor/file.h"

/* Uninitialised bytes; file_release ends it like a mapping. */
status_t file_block_create(context_t *ctx, size_t n_bytes, file_mapping_t **out_block);

/* Copies bytes of a mapping, whose pages are given back on the way, so that they are in memory
 * once. Gives the checksum of what has arrived, 0 where it is not wanted. Threads may copy into
 * different parts at once. */
uint64_t file_block_copy(file_mapping_t *block, size_t at, const file_mapping_t *from,
                         size_t offset, size_t n_bytes, bool is_checked);

#endif
