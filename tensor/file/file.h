/* Files: read-only mappings, atomic replacement, checksums. */
#ifndef TESSERA_TENSOR_FILE_FILE_H
#define TESSERA_TENSOR_FILE_FILE_H

#include "tensor/tensor.h"

typedef struct file_mapping file_mapping_t;

/* Maps a file for reading. Fails with CORRUPT if the file is empty, and with IO and the system's
 * reason if it cannot be read. */
status_t file_map(context_t *ctx, const char *path, file_mapping_t **out_mapping)
    TESSERA_API(file_map);
const void *file_bytes(const file_mapping_t *mapping) TESSERA_API(file_bytes);
size_t file_size(const file_mapping_t *mapping) TESSERA_API(file_size);
file_mapping_t *file_retain(file_mapping_t *mapping) TESSERA_API(file_retain);
void file_release(file_mapping_t *mapping) TESSERA_API(file_release);

/* Makes a tensor whose elements are bytes of the mapping. The first write to the tensor copies
 * these bytes, so the file does not change. The tensor retains the mapping. INVALID_ARGUMENT if the
 * mapping ends before the tensor does, or if `offset` is not a multiple of the element's size. */
status_t file_tensor(context_t *ctx, file_mapping_t *mapping, size_t offset,
                     const tensor_info_t *info, tensor_t **out_tensor) TESSERA_API(file_tensor);

/* Replaces a file atomically: writes a temporary file in the same directory, syncs it, then renames
 * it. Symbolic links are followed; the mode of an existing file is kept. Fails with IO if the path
 * exists but is not a regular file (for example /dev/null, a FIFO or a directory). */
typedef struct file_writer file_writer_t;
status_t file_write_begin(context_t *ctx, const char *path, file_writer_t **out_writer)
    TESSERA_API(file_write_begin);
status_t file_write(file_writer_t *writer, const void *bytes, size_t n_bytes)
    TESSERA_API(file_write);
/* Number of bytes written so far. */
size_t file_write_offset(const file_writer_t *writer) TESSERA_API(file_write_offset);
/* If commit is true, renames the temporary file to `path`; otherwise removes it and leaves the old
 * file unchanged. Frees the writer in both cases. */
status_t file_write_end(file_writer_t *writer, bool commit) TESSERA_API(file_write_end);

/* 64-bit checksum (XXH64). */
uint64_t file_checksum(const void *bytes, size_t n_bytes, uint64_t seed) TESSERA_API(file_checksum);

#endif
