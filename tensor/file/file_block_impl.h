/* Files that are read instead of mapped. A block is allocated memory that is used like a file
 * mapping: file_tensor makes tensors on it.
 *
 * The folder tensor/file contains access to files: mapping, reading, atomic writing, checksums,
 * detecting the kind. */
#ifndef TESSERA_TENSOR_FILE_FILE_BLOCK_IMPL_H
#define TESSERA_TENSOR_FILE_FILE_BLOCK_IMPL_H

#include "tensor/file/file.h"

/* Opens a file without mapping it; read it with file_read. If another program truncates the file,
 * file_read fails, whereas reading a mapping would raise a signal. file_bytes returns NULL for it;
 * file_release closes it. */
status_t file_open_unmapped(context_t *ctx, const char *path, file_mapping_t **out_file);
/* Reads from a file that file_open_unmapped opened. Fails with CORRUPT if it has become too
 * short. */
status_t file_read(context_t *ctx, const char *path, const file_mapping_t *file, size_t offset,
                   size_t n_bytes, void *out_bytes);
/* Reads the complete file into a block. */
status_t file_read_whole(context_t *ctx, const char *path, file_mapping_t **out_block);

/* Maps a file of the store that is open for reading; `path` is for messages. The caller closes the
 * descriptor. */
status_t file_map_open(context_t *ctx, const char *path, int file, file_mapping_t **out_mapping);

/* Makes a mapping of the bytes of another one from `offset` on, which must be less than its size.
 * Retains the other mapping. */
status_t file_view(context_t *ctx, file_mapping_t *mapping, size_t offset,
                   file_mapping_t **out_view);

/* Fails with "<op>: <path>, <the system's reason>". */
status_t file_fail(context_t *ctx, const char *op, const char *path, int error);

/* Allocates uninitialised bytes; free them with file_release. */
status_t file_block_create(context_t *ctx, size_t n_bytes, file_mapping_t **out_block);

/* Releases the memory pages of a mapping that are inside the range; the system reads the file again
 * when they are needed. */
void file_unload(void *data, size_t bytes);

/* Copies bytes of a mapping into the block, and releases the mapping's memory pages as it proceeds,
 * so that memory holds the bytes only once. Returns the checksum of the copied bytes if is_checked,
 * else 0. Several threads may copy to different parts at the same time. */
uint64_t file_block_copy(file_mapping_t *block, size_t at, const file_mapping_t *from,
                         size_t offset, size_t n_bytes, bool is_checked);

#endif
