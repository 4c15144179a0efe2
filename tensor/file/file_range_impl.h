/* Identifies bytes of a file by the file's metadata, so that what was computed from them once, such
 * as a hash, need not be computed again while the file does not change. */
#ifndef TESSERA_TENSOR_FILE_FILE_RANGE_IMPL_H
#define TESSERA_TENSOR_FILE_FILE_RANGE_IMPL_H

#include "tensor/file/file.h"
#include "tensor/storage_impl.h"

/* All members have 64 bits, so that the struct has no padding and can be hashed. */
typedef struct file_range {
    uint64_t device, inode, file_bytes;
    int64_t modified, changed; /* ns since 1970: last change of the bytes, and of the metadata */
    uint64_t offset, n_bytes;
} file_range_t;

/* Returns false if the metadata do not identify the bytes: the bytes are not in a mapped file;
 * other machines can change the file; or it had changed in the two seconds before it was opened, so
 * that a later change could leave the same times. The time of the last change of the metadata does
 * not count for files of the store (file_map_open), because the store itself changes them. */
bool file_range(const file_mapping_t *mapping, const void *bytes, size_t n_bytes,
                file_range_t *out_range);

/* The mapping or block that contains the bytes of a storage; NULL if there is none. */
const file_mapping_t *file_of(const storage_t *storage);

/* True if the bytes of a storage are those of a mapped file, so that processes share them. */
bool file_is_mapped(const storage_t *storage);

/* Sets the members that describe the complete file, and *out_opened to the current time, or to 0 if
 * the file is on a remote file system. */
struct stat;
void file_identify(int file, const struct stat *about, file_range_t *out_whole,
                   int64_t *out_opened);

/* False if a later change could leave the metadata as they are; see file_range. is_own: a file of
 * the store. */
bool file_is_settled(const file_range_t *whole, int64_t opened, bool is_own);

/* True if the file may be on another machine: NFS, SMB, FUSE and the like. */
bool file_is_remote(int file);

#endif
