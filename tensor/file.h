/* Files: read-only mappings, atomic replacement, checksums. */
#ifndef TESSERA_TENSOR_FILE_H
#define TESSERA_TENSOR_FILE_H

#include "tensor/tensor.h"

TESSERA_BEGIN

typedef struct file_mapping file_mapping_t;

/* Maps a file for reading; an empty file is CORRUPT. IO with the system's reason. */
status_t file_map(context_t *ctx, const char *path, file_mapping_t **out_mapping)
    TESSERA_API(file_map);
const void *file_bytes(const file_mapping_t *mapping) TESSERA_API(file_bytes);
size_t file_size(const file_mapping_t *mapping) TESSERA_API(file_size);
file_mapping_t *file_retain(file_mapping_t *mapping) TESSERA_API(file_retain);
void file_release(file_mapping_t *mapping) TESSERA_API(file_release);

/* A tensor over mapped bytes, read-only: a write copies first. The tensor holds the mapping. The
 * caller has checked that info_bytes(info) fit behind offset. */
status_t file_tensor(context_t *ctx, file_mapping_t *mapping, size_t offset,
                     const tensor_info_t *info, tensor_t **out_tensor) TESSERA_API(file_tensor);

/* Writes a file whole or not at all: into a temporary beside it, synced, then renamed over it. A
 * path through symbolic links means the file behind them; a file that is replaced keeps its mode.
 * IO for what is no regular file, such as /dev/null, a FIFO or a directory. */
typedef struct file_writer file_writer_t;
status_t file_write_begin(context_t *ctx, const char *path, file_writer_t **out_writer)
    TESSERA_API(file_write_begin);
status_t file_write(file_writer_t *writer, const void *bytes, size_t n_bytes)
    TESSERA_API(file_write);
/* Bytes written so far. */
size_t file_write_offset(const file_writer_t *writer) TESSERA_API(file_write_offset);
/* Makes it appear, or on `commit` false leaves the old file alone; the writer is gone either way.
 */
status_t file_write_end(file_writer_t *writer, bool commit) TESSERA_API(file_write_end);

/* 64-bit checksum (XXH64) of bytes. */
uint64_t file_checksum(const void *bytes, size_t n_bytes, uint64_t seed) TESSERA_API(file_checksum);

TESSERA_END

#endif
