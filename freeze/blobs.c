/* Checks the bytes of constants in the mapped file, or copies and checks them in one pass. */
#include <stdatomic.h>

#include "freeze/file_impl.h"
#include "tensor/context_impl.h"
#include "tensor/file/file_block_impl.h"
#include "tensor/store/store_impl.h"
#include "tensor/threads/threads_impl.h"

/* Computes the checksum of a blob, and may copy its bytes in the same pass. */
typedef uint64_t sum_t(const loading_t *l, int blob);

static uint64_t sum_mapped(const loading_t *l, int blob)
{
    const file_section_t *at = &l->blobs[blob].at;
    return file_checksum((const char *)file_bytes(l->mapping) + at->offset, at->bytes, 0);
}

static uint64_t sum_copied(const loading_t *l, int blob)
{
    const file_section_t *at = &l->blobs[blob].at;
    return file_block_copy(l->block, l->places[blob], l->mapping, at->offset, at->bytes, true);
}

typedef struct check {
    const loading_t *l;
    sum_t *sum;
    atomic_int next, damaged;
} check_t;

/* Takes blobs one by one, because their sizes differ much. */
static void check_blobs(void *user, int64_t first, int64_t last)
{
    check_t *check = user;
    const loading_t *l = check->l;
    (void)first, (void)last;
    for (int i; (i = atomic_fetch_add(&check->next, 1)) < l->n_blobs;) {
        if (!file_is_wanted(l, i) || check->sum(l, i) == l->blobs[i].at.checksum) continue;
        int before = atomic_load(&check->damaged);
        while (before < i && !atomic_compare_exchange_weak(&check->damaged, &before, i)) continue;
    }
}

/* Finds the last blob with a wrong checksum, or -1. Threads check different blobs. */
static void find_damaged(const loading_t *l, sum_t *sum, int *out_damaged)
{
    const int n_threads = context_threads(l->ctx);
    check_t check = {.l = l, .sum = sum, .damaged = -1};
    threads_share(n_threads, n_threads, check_blobs, &check);
    *out_damaged = atomic_load(&check.damaged);
}

/* Assigns offsets in the block of copies, in the order of the file, which is the order of use.
 * Blobs do not overlap in the file, so the block is no larger than the file. */
static status_t make_places(loading_t *l)
{
    uint64_t at = 0;
    TRY(context_get(l->ctx, (size_t)l->n_blobs * sizeof *l->places, "places of constants",
                    &l->places));
    for (int i = 0; i < l->n_blobs; i++) {
        l->places[i] = at;
        if (!file_is_wanted(l, i)) continue;
        at += (l->blobs[i].at.bytes + FILE_ALIGNMENT - 1) / FILE_ALIGNMENT * FILE_ALIGNMENT;
    }
    return file_block_create(l->ctx, at, &l->block);
}

#define PIECE_BYTES ((int64_t)4 << 20)

typedef struct copying {
    const loading_t *l;
    int blob;
} copying_t;

static void copy_pieces(void *user, int64_t first, int64_t last)
{
    const copying_t *copying = user;
    const loading_t *l = copying->l;
    const file_section_t *at = &l->blobs[copying->blob].at;
    const int64_t begin = first * PIECE_BYTES, end = last * PIECE_BYTES, bytes = (int64_t)at->bytes;
    (void)file_block_copy(l->block, l->places[copying->blob] + (size_t)begin, l->mapping,
                          at->offset + (size_t)begin, (size_t)((end < bytes ? end : bytes) - begin),
                          false);
}

static void copy_unchecked(const loading_t *l)
{
    for (int i = 0; i < l->n_blobs; i++) {
        const int64_t n = ((int64_t)l->blobs[i].at.bytes + PIECE_BYTES - 1) / PIECE_BYTES;
        if (file_is_wanted(l, i))
            threads_share(context_threads(l->ctx), n, copy_pieces, &(copying_t){l, i});
    }
}

/* If all blobs were right before, and the file has not changed since, they are not read. */
static void check_mapped(const loading_t *l, int *out_damaged)
{
    const uint64_t checks = file_checksum(l->blobs, (size_t)l->n_blobs * sizeof *l->blobs,
                                          (uint64_t)l->machine);
    if (store_is_checked(l->ctx, l->mapping, checks)) return;
    find_damaged(l, sum_mapped, out_damaged);
    if (*out_damaged < 0) store_set_checked(l->ctx, l->mapping, checks);
}

status_t file_take_blobs(loading_t *l)
{
    int damaged = -1;
    if (l->options.is_copied) TRY(make_places(l));
    if (l->options.is_copied && l->options.is_unchecked)
        copy_unchecked(l);
    else if (l->options.is_copied)
        find_damaged(l, sum_copied, &damaged);
    else if (!l->options.is_unchecked)
        check_mapped(l, &damaged);
    if (damaged >= 0) FILE_CORRUPT(l, "%s: blob %d is damaged", l->path, damaged);
    return STATUS_OK;
}

status_t file_blob_tensor(loading_t *l, int index, const tensor_info_t *info, tensor_t **out_tensor)
{
    if (l->block != NULL) return file_tensor(l->ctx, l->block, l->places[index], info, out_tensor);
    return file_tensor(l->ctx, l->mapping, l->blobs[index].at.offset, info, out_tensor);
}
