#define _XOPEN_SOURCE 700

#include "tensor/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/file_block_impl.h"
#include "tensor/file_hash_impl.h"
#include "tensor/references_impl.h"
#include "tensor/tensor_impl.h"

#define WRITE_BUFFER 65536

struct file_mapping {
    atomic_int n_references;
    allocator_t allocator;
    void *bytes;
    size_t n_bytes;
    bool is_block; /* the bytes are the allocator's */
};

struct file_writer {
    context_t *ctx;
    char *path;
    char *temporary;
    int file;
    status_t status; /* the first failure; nothing is written after it */
    size_t offset;
    size_t n_buffered;
    char buffer[WRITE_BUFFER];
};

static status_t fail_system(context_t *ctx, const char *op, const char *path, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", error);
    FAIL(ctx, STATUS_IO, "%s: %s, %s", op, path, reason);
}

/* ---- mappings ---- */

/* Leaves the descriptor open, for the caller to close. */
static status_t map_open(context_t *ctx, const char *path, int file, file_mapping_t *mapping)
{
    struct stat about;
    if (fstat(file, &about) != 0) return fail_system(ctx, "file_map", path, errno);
    if (!S_ISREG(about.st_mode)) FAIL(ctx, STATUS_IO, "file_map: %s, not a regular file", path);
    if (about.st_size == 0) FAIL(ctx, STATUS_CORRUPT, "file_map: %s, the file is empty", path);
    mapping->n_bytes = (size_t)about.st_size;
    mapping->bytes = mmap(NULL, mapping->n_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping->bytes == MAP_FAILED) return fail_system(ctx, "file_map", path, errno);
    return STATUS_OK;
}

status_t file_map(context_t *ctx, const char *path, file_mapping_t **out_mapping)
{
    TRY(context_output(ctx, "file_map", out_mapping));
    if (path == NULL) return context_null(ctx, "file_map", "path");
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return fail_system(ctx, "file_map", path, errno);
    file_mapping_t *mapping = NULL;
    status_t status = context_get_zeroed(ctx, sizeof *mapping, "a file mapping", &mapping);
    if (status == STATUS_OK) status = map_open(ctx, path, file, mapping);
    close(file);
    if (status != STATUS_OK) {
        context_put(ctx, mapping);
        return status;
    }
    atomic_init(&mapping->n_references, 1);
    mapping->allocator = *context_allocator(ctx);
    *out_mapping = mapping;
    return STATUS_OK;
}

const void *file_bytes(const file_mapping_t *mapping)
{
    return mapping != NULL ? mapping->bytes : NULL;
}

size_t file_size(const file_mapping_t *mapping)
{
    return mapping != NULL ? mapping->n_bytes : 0;
}

file_mapping_t *file_retain(file_mapping_t *mapping)
{
    if (mapping != NULL) references_add(&mapping->n_references);
    return mapping;
}

void file_release(file_mapping_t *mapping)
{
    if (mapping == NULL || !references_drop(&mapping->n_references)) return;
    allocator_t allocator = mapping->allocator;
    if (mapping->is_block)
        allocator_put(&allocator, mapping->bytes);
    else
        munmap(mapping->bytes, mapping->n_bytes);
    allocator_put(&allocator, mapping);
}

static void let_go(void *user, void *data)
{
    (void)data;
    file_release(user);
}

/* The system reads pages of the file again when they are asked for. Those at the ends are shared
 * with what lies beside the tensor. */
static void unload(void *data, size_t bytes)
{
#if defined(MADV_DONTNEED)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
#else
    (void)data, (void)bytes;
#endif
}

status_t file_tensor(context_t *ctx, file_mapping_t *mapping, size_t offset,
                     const tensor_info_t *info, tensor_t **out_tensor)
{
    TRY(context_output(ctx, "file_tensor", out_tensor));
    if (mapping == NULL) return context_null(ctx, "file_tensor", "mapping");
    TRY(tensor_check(ctx, "file_tensor", info->dtype, info->rank, info->sizes));
    size_t n_bytes = info_numel(info) > 0 ? info_bytes(info) : 0;
    REQUIRE(ctx, offset <= mapping->n_bytes && n_bytes <= mapping->n_bytes - offset,
            "file_tensor: %s at offset %zu reaches behind the end of the file, %zu bytes",
            info_brief(info), offset, mapping->n_bytes);
    REQUIRE(ctx, offset % dtype_size(info->dtype) == 0,
            "file_tensor: %s at offset %zu, its elements need a multiple of %zu", info_brief(info),
            offset, dtype_size(info->dtype));
    storage_t *storage = NULL;
    status_t status = storage_borrow(ctx, (char *)mapping->bytes + offset, n_bytes, true, let_go,
                                     file_retain(mapping), &storage);
    if (status != STATUS_OK) {
        file_release(mapping);
        return status;
    }
    if (!mapping->is_block) storage_set_unload(storage, unload);
    tensor_t *tensor = NULL;
    status = tensor_over(ctx, info, storage, 0, &tensor);
    storage_release(storage);
    if (status != STATUS_OK) return status;
    return tensor_give(ctx, tensor, out_tensor);
}

/* ---- blocks ---- */

status_t file_block_create(context_t *ctx, size_t n_bytes, file_mapping_t **out_block)
{
    file_mapping_t *block = NULL;
    TRY(context_get_zeroed(ctx, sizeof *block, "a block of constants", &block));
    status_t status = context_get(ctx, n_bytes, "constants of a file", &block->bytes);
    if (status != STATUS_OK) {
        context_put(ctx, block);
        return status;
    }
    atomic_init(&block->n_references, 1);
    block->allocator = *context_allocator(ctx);
    block->n_bytes = n_bytes;
    block->is_block = true;
    *out_block = block;
    return STATUS_OK;
}

/* What was copied last is in the cache for the checksum; pages go in larger pieces. */
#define COPY_BYTES ((size_t)128 << 10)
#define UNLOAD_BYTES ((size_t)4 << 20)

uint64_t file_block_copy(file_mapping_t *block, size_t at, const file_mapping_t *from,
                         size_t offset, size_t n_bytes, bool is_checked)
{
    char *to = (char *)block->bytes + at, *source = (char *)from->bytes + offset;
    file_hash_t hash;
    size_t unloaded = 0;
    if (is_checked) file_hash_begin(&hash);
    for (size_t done = 0; done < n_bytes;) {
        const size_t left = n_bytes - done, piece = left < COPY_BYTES ? left : COPY_BYTES;
        memcpy(to + done, source + done, piece);
        if (is_checked) file_hash_add(&hash, to + done, piece);
        done += piece;
        if (done - unloaded < UNLOAD_BYTES && done < n_bytes) continue;
        unload(source + unloaded, done - unloaded);
        unloaded = done;
    }
    return is_checked ? file_hash_end(&hash) : 0;
}

/* ---- writing: a temporary beside the file, synced, then renamed over it ---- */

#define MODE_BITS 07777
#define NEW_FILE_MODE 0666

static void drop_writer(file_writer_t *writer)
{
    context_t *ctx = writer->ctx;
    if (writer->file >= 0) {
        close(writer->file);
        unlink(writer->temporary);
    }
    context_put(ctx, writer->path);
    context_put(ctx, writer->temporary);
    context_put(ctx, writer);
}

static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a symbolic link to nothing";
}

/* The file that a path means, behind symbolic links, and the mode of an existing one, or 0. A
 * rename puts a regular file in place of whatever has the name, so nothing else may have it. */
static status_t find_target(context_t *ctx, const char *path, char *out_target, mode_t *out_mode)
{
    struct stat about;
    *out_mode = 0;
    if (realpath(path, out_target) == NULL) {
        if (errno != ENOENT) return fail_system(ctx, "file_write_begin", path, errno);
        size_t bytes = strlen(path) + 1;
        REQUIRE(ctx, bytes <= PATH_MAX, "file_write_begin: a path of %zu bytes, at most %d", bytes,
                PATH_MAX);
        memcpy(out_target, path, bytes);
        if (lstat(path, &about) != 0) return STATUS_OK;
    } else if (stat(out_target, &about) != 0) {
        return fail_system(ctx, "file_write_begin", path, errno);
    }
    if (!S_ISREG(about.st_mode))
        FAIL(ctx, STATUS_IO, "file_write_begin: %s is %s, only regular files are replaced", path,
             kind_of_file(about.st_mode));
    *out_mode = about.st_mode & MODE_BITS;
    return STATUS_OK;
}

static status_t open_temporary(context_t *ctx, const char *path, file_writer_t *writer)
{
    static atomic_uint serial;
    char target[PATH_MAX];
    mode_t mode;
    TRY(find_target(ctx, path, target, &mode));
    size_t capacity = strlen(target) + 48;
    TRY(context_string(ctx, target, &writer->path));
    TRY(context_get(ctx, capacity, "the name of a temporary file", &writer->temporary));
    do {
        snprintf(writer->temporary, capacity, "%s.%ld-%u.tmp", target, (long)getpid(),
                 atomic_fetch_add(&serial, 1));
        writer->file = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                            mode != 0 ? mode & NEW_FILE_MODE : NEW_FILE_MODE);
    } while (writer->file < 0 && errno == EEXIST);
    if (writer->file < 0) return fail_system(ctx, "file_write_begin", writer->temporary, errno);
    if (mode != 0 && fchmod(writer->file, mode) != 0)
        return fail_system(ctx, "file_write_begin", writer->temporary, errno);
    return STATUS_OK;
}

status_t file_write_begin(context_t *ctx, const char *path, file_writer_t **out_writer)
{
    TRY(context_output(ctx, "file_write_begin", out_writer));
    if (path == NULL) return context_null(ctx, "file_write_begin", "path");
    file_writer_t *writer = NULL;
    TRY(context_get_zeroed(ctx, sizeof *writer, "a file writer", &writer));
    writer->ctx = ctx;
    writer->file = -1;
    status_t status = open_temporary(ctx, path, writer);
    if (status != STATUS_OK) {
        drop_writer(writer);
        return status;
    }
    *out_writer = writer;
    return STATUS_OK;
}

static status_t write_out(file_writer_t *writer, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        ssize_t written = write(writer->file, bytes, n_bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            writer->status = fail_system(writer->ctx, "file_write", writer->path, errno);
            return writer->status;
        }
        bytes += written;
        n_bytes -= (size_t)written;
    }
    return STATUS_OK;
}

static status_t flush(file_writer_t *writer)
{
    size_t n_bytes = writer->n_buffered;
    writer->n_buffered = 0;
    return write_out(writer, writer->buffer, n_bytes);
}

status_t file_write(file_writer_t *writer, const void *bytes, size_t n_bytes)
{
    if (writer == NULL) return STATUS_INVALID_ARGUMENT;
    if (writer->status != STATUS_OK || n_bytes == 0) return writer->status;
    if (n_bytes > WRITE_BUFFER - writer->n_buffered) TRY(flush(writer));
    if (n_bytes >= WRITE_BUFFER) {
        TRY(write_out(writer, bytes, n_bytes));
    } else {
        memcpy(writer->buffer + writer->n_buffered, bytes, n_bytes);
        writer->n_buffered += n_bytes;
    }
    writer->offset += n_bytes;
    return STATUS_OK;
}

size_t file_write_offset(const file_writer_t *writer)
{
    return writer != NULL ? writer->offset : 0;
}

/* So that the new name survives a crash; file systems that cannot sync a directory say EINVAL. */
static status_t sync_directory(file_writer_t *writer)
{
    char *slash = strrchr(writer->path, '/');
    const char *directory = ".";
    if (slash == writer->path) {
        directory = "/";
    } else if (slash != NULL) {
        *slash = '\0';
        directory = writer->path;
    }
    int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 || fsync(file) != 0 ? errno : 0;
    if (file >= 0) close(file);
    if (error != 0 && error != EINVAL)
        return fail_system(writer->ctx, "file_write_end", directory, error);
    return STATUS_OK;
}

static status_t commit_file(file_writer_t *writer)
{
    if (writer->status != STATUS_OK) return writer->status;
    TRY(flush(writer));
    if (fsync(writer->file) != 0 || rename(writer->temporary, writer->path) != 0)
        return fail_system(writer->ctx, "file_write_end", writer->path, errno);
    close(writer->file);
    writer->file = -1;
    return sync_directory(writer);
}

status_t file_write_end(file_writer_t *writer, bool commit)
{
    if (writer == NULL) return STATUS_INVALID_ARGUMENT;
    status_t status = commit ? commit_file(writer) : STATUS_OK;
    drop_writer(writer);
    return status;
}
