#define _XOPEN_SOURCE 700

#include "tensor/file/file.h"

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

#include "tensor/base/references_impl.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/file/file_hash_impl.h"
#include "tensor/file/file_range_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

struct file_mapping {
    atomic_int n_references;
    allocator_t allocator;
    void *bytes;
    size_t n_bytes;
    bool is_block;               /* the bytes are allocated memory, not a mapping */
    int file;                    /* descriptor of an unmapped file, else -1 */
    bool is_own;                 /* only this library changes the file's metadata */
    struct file_mapping *parent; /* a view: the mapping that it is a part of, retained; else NULL */
    file_range_t whole;
    int64_t opened; /* ns since 1970; 0: the file may change without a trace in its metadata */
};

status_t file_fail(context_t *ctx, const char *op, const char *path, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0)
        snprintf(reason, sizeof reason, "error %d", error);
    FAIL(ctx, STATUS_IO, "%s: %s, %s", op, path, reason);
}

/* ---- mappings ---- */

/* Maps or measures an open file; the caller closes the descriptor. */
static status_t map_open(context_t *ctx, const char *path, int file, file_mapping_t *mapping)
{
    struct stat about;
    if (fstat(file, &about) != 0) return file_fail(ctx, "file", path, errno);
    if (!S_ISREG(about.st_mode)) FAIL(ctx, STATUS_IO, "file: %s, not a regular file", path);
    if (about.st_size == 0) FAIL(ctx, STATUS_CORRUPT, "file: %s, the file is empty", path);
    mapping->n_bytes = (size_t)about.st_size;
    if (mapping->file >= 0) return STATUS_OK;
    file_identify(file, &about, &mapping->whole, &mapping->opened);
    mapping->bytes = mmap(NULL, mapping->n_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapping->bytes == MAP_FAILED) return file_fail(ctx, "file", path, errno);
    return STATUS_OK;
}

static status_t take_open(context_t *ctx, const char *path, int file, bool is_mapped,
                          file_mapping_t **out_mapping)
{
    file_mapping_t *mapping = NULL;
    TRY(context_get_zeroed(ctx, sizeof *mapping, "a file mapping", &mapping));
    mapping->file = is_mapped ? -1 : file;
    TRY_OR(map_open(ctx, path, file, mapping), context_put(ctx, mapping));
    atomic_init(&mapping->n_references, 1);
    mapping->allocator = *context_allocator(ctx);
    *out_mapping = mapping;
    return STATUS_OK;
}

status_t file_map_open(context_t *ctx, const char *path, int file, file_mapping_t **out_mapping)
{
    TRY(take_open(ctx, path, file, true, out_mapping));
    (*out_mapping)->is_own = true;
    return STATUS_OK;
}

static status_t open_file(context_t *ctx, const char *path, bool is_mapped,
                          file_mapping_t **out_mapping)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return file_fail(ctx, "file", path, errno);
    status_t status = take_open(ctx, path, file, is_mapped, out_mapping);
    if (status != STATUS_OK || is_mapped) close(file);
    return status;
}

status_t file_map(context_t *ctx, const char *path, file_mapping_t **out_mapping)
{
    TRY(context_output(ctx, "file_map", out_mapping));
    if (path == NULL) return context_null(ctx, "file_map", "path");
    return open_file(ctx, path, true, out_mapping);
}

status_t file_view(context_t *ctx, file_mapping_t *mapping, size_t offset,
                   file_mapping_t **out_view)
{
    file_mapping_t *view = NULL;
    TRY(context_get_zeroed(ctx, sizeof *view, "a file mapping", &view));
    *view = (file_mapping_t){.allocator = *context_allocator(ctx),
                             .bytes = (char *)mapping->bytes + offset,
                             .n_bytes = mapping->n_bytes - offset,
                             .is_block = mapping->is_block,
                             .file = -1,
                             .parent = file_retain(mapping)};
    atomic_init(&view->n_references, 1);
    *out_view = view;
    return STATUS_OK;
}

/* ---- unmapped files ---- */

#define READ_BYTES ((size_t)4 << 20) /* number of bytes read between two checks for a cancel */

status_t file_open_unmapped(context_t *ctx, const char *path, file_mapping_t **out_file)
{
    return open_file(ctx, path, false, out_file);
}

status_t file_read(context_t *ctx, const char *path, const file_mapping_t *file, size_t offset,
                   size_t n_bytes, void *out_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        const size_t left = n_bytes - done, piece = left < READ_BYTES ? left : READ_BYTES;
        TRY(interrupt_check(ctx, "the rest of a file"));
        const ssize_t n = pread(file->file, (char *)out_bytes + done, piece,
                                (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return file_fail(ctx, "file", path, errno);
        if (n == 0)
            FAIL(ctx, STATUS_CORRUPT,
                 "file: %s ends at byte %zu, it had %zu bytes when it was opened", path,
                 offset + done, file->n_bytes);
        done += (size_t)n;
    }
    return STATUS_OK;
}

status_t file_read_whole(context_t *ctx, const char *path, file_mapping_t **out_block)
{
    file_mapping_t *file = NULL, *block = NULL;
    TRY(file_open_unmapped(ctx, path, &file));
    status_t status = file_block_create(ctx, file->n_bytes, &block);
    if (status == STATUS_OK) status = file_read(ctx, path, file, 0, file->n_bytes, block->bytes);
    file_release(file);
    GIVE(status, out_block, block, file_release(block));
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
    if (mapping->parent != NULL)
        file_release(mapping->parent);
    else if (mapping->file >= 0)
        close(mapping->file);
    else if (mapping->is_block)
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

/* Pages that are only partly inside the range stay, because they may contain other data. */
void file_unload(void *data, size_t bytes)
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
    if (info == NULL) return context_null(ctx, "file_tensor", "info");
    TRY(tensor_check(ctx, "file_tensor", info->dtype, info->rank, info->sizes));
    size_t n_bytes = info_numel(info) > 0 ? info_bytes(info) : 0;
    REQUIRE(ctx, offset <= mapping->n_bytes && n_bytes <= mapping->n_bytes - offset,
            "file_tensor: %s at offset %zu exceeds the file of %zu bytes", info_brief(info), offset,
            mapping->n_bytes);
    REQUIRE(ctx, offset % dtype_size(info->dtype) == 0,
            "file_tensor: %s at offset %zu, the offset must be a multiple of %zu", info_brief(info),
            offset, dtype_size(info->dtype));
    storage_t *storage = NULL;
    status_t status = storage_borrow(ctx, (char *)mapping->bytes + offset, n_bytes, true, let_go,
                                     file_retain(mapping), &storage);
    TRY_OR(status, file_release(mapping));
    if (!mapping->is_block) storage_set_unload(storage, file_unload);
    tensor_t *tensor = NULL;
    status = tensor_over(ctx, info, storage, 0, &tensor);
    storage_release(storage);
    if (status != STATUS_OK) return status;
    return tensor_give(ctx, tensor, out_tensor);
}

const file_mapping_t *file_of(const storage_t *storage)
{
    return storage_owner(storage, let_go);
}

bool file_is_mapped(const storage_t *storage)
{
    const file_mapping_t *mapping = file_of(storage);
    return mapping != NULL && !mapping->is_block;
}

bool file_range(const file_mapping_t *mapping, const void *bytes, size_t n_bytes,
                file_range_t *out_range)
{
    while (mapping != NULL && mapping->parent != NULL) mapping = mapping->parent;
    if (mapping == NULL) return false;
    const file_range_t *whole = &mapping->whole;
    const uintptr_t begin = (uintptr_t)mapping->bytes, at = (uintptr_t)bytes;
    if (at < begin || at - begin > mapping->n_bytes || n_bytes > mapping->n_bytes - (at - begin))
        return false;
    if (!file_is_settled(whole, mapping->opened, mapping->is_own)) return false;
    *out_range = *whole;
    if (mapping->is_own) out_range->changed = 0;
    out_range->offset = at - begin;
    out_range->n_bytes = n_bytes;
    return true;
}

/* ---- blocks ---- */

status_t file_block_create(context_t *ctx, size_t n_bytes, file_mapping_t **out_block)
{
    file_mapping_t *block = NULL;
    TRY(context_get_zeroed(ctx, sizeof *block, "a block of constants", &block));
    TRY_OR(context_get(ctx, n_bytes, "constants of a file", &block->bytes),
           context_put(ctx, block));
    atomic_init(&block->n_references, 1);
    block->allocator = *context_allocator(ctx);
    block->n_bytes = n_bytes;
    block->is_block = true;
    block->file = -1;
    *out_block = block;
    return STATUS_OK;
}

/* Bytes are copied in small pieces, so that the checksum reads them from the cache. Pages are
 * released in larger pieces. */
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
        file_unload(source + unloaded, done - unloaded);
        unloaded = done;
    }
    return is_checked ? file_hash_end(&hash) : 0;
}
