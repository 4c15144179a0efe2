/* A block is process memory in the role of a file mapping: file_tensor makes tensors over it. */
#ifndef TESSERA_TENSOR_FILE_BLOCK_IMPL_H
#define TESSERA_TENSOR_FILE_BLOCK_IMPL_H

#include "tensor/file.h"

/* Opens a file without mapping it: file_read reads from it. If another program truncates the file,
 * that is an error and not a signal. Its file_bytes are NULL; file_release closes it. */
status_t file_open_unmapped(context_t *ctx, const char *path, file_mapping_t **out_file);
/* Reads from such a file; CORRUPT if it has become too short. */
status_t file_read(context_t *ctx, const char *path, const file_mapping_t *file, size_t offset,
                   size_t n_bytes, void *out_bytes);
/* Reads the complete file into a block. */
status_t file_read_whole(context_t *ctx, const char *path, file_mapping_t **out_block);

/* Fails with "<op>: <path>, <the system's reason>". */
status_t file_fail(context_t *ctx, const char *op, const char *path, int error);

/* Allocates uninitialised bytes; free them with file_release. */
status_t file_block_create(context_t *ctx, size_t n_bytes, file_mapping_t **out_block);

/* Copies bytes of a mapping into the block and drops the mapping's pages as it proceeds, so that
 * memory holds the bytes only once. Returns the checksum of the copied bytes, or 0 unless
 * is_checked. Several threads may copy to different parts at the same time. */
uint64_t file_block_copy(file_mapping_t *block, size_t at, const file_mapping_t *from,
                         size_t offset, size_t n_bytes, bool is_checked);

#endif
