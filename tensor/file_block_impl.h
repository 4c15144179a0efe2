/* Blocks: bytes of the process that stand in for a mapping, as file_tensor takes it. */
#ifndef TESSERA_TENSOR_FILE_BLOCK_IMPL_H
#define TESSERA_TENSOR_FILE_BLOCK_IMPL_H

#include "tensor/file.h"

/* A file that is read where it is asked for and not mapped, so that cutting it short is an error
 * and no signal. Its bytes are NULL; file_release closes it. Files that other programs write are
 * read so. */
status_t file_open_unmapped(context_t *ctx, const char *path, file_mapping_t **out_file);
/* CORRUPT where the file is shorter by now. */
status_t file_read(context_t *ctx, const char *path, const file_mapping_t *file, size_t offset,
                   size_t n_bytes, void *out_bytes);
/* All of it, in a block. */
status_t file_read_whole(context_t *ctx, const char *path, file_mapping_t **out_block);

/* "<op>: <path>, <the system's reason>". */
status_t file_fail(context_t *ctx, const char *op, const char *path, int error);

/* Uninitialised bytes; file_release ends it like a mapping. */
status_t file_block_create(context_t *ctx, size_t n_bytes, file_mapping_t **out_block);

/* Copies bytes of a mapping, whose pages are given back on the way, so that they are in memory
 * once. Gives the checksum of what has arrived, 0 where it is not wanted. Threads may copy into
 * different parts at once. */
uint64_t file_block_copy(file_mapping_t *block, size_t at, const file_mapping_t *from,
                         size_t offset, size_t n_bytes, bool is_checked);

#endif
