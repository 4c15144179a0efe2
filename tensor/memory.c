/* Memory allocation through a context's allocator. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "tensor/context_impl.h"

#define BLOCK_ALIGNMENT 64

/* Blocks of this size or more (packed weights, plans' memory, large results) are allocated with
 * huge pages. The first access to all pages of a block then takes a fifth of the time (64 MB: 11 ms
 * instead of 52), and reads are faster. */
#define LARGE_BLOCK ((size_t)2 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

/* Requests huge pages. This is only a hint; the system may ignore it. */
static void ask_for_huge_pages(void *start, size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    (void)madvise(start, bytes, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

/* Allocates a large block, aligned to a huge page, because bytes before the first page boundary
 * would be in small pages. */
static void *get_large(size_t bytes)
{
    void *start = NULL;
    if (posix_memalign(&start, HUGE_PAGE, bytes) != 0) return NULL;
    ask_for_huge_pages(start, bytes);
    return start;
}

/* The default allocator. Aligns the block, and stores the address to free before it. Calls malloc
 * for all but large blocks, not glibc's aligned_alloc, which bypasses the thread's cache of free
 * blocks and is five times slower. */
static void *get_default(void *user, size_t bytes)
{
    (void)user;
    if (bytes > SIZE_MAX - BLOCK_ALIGNMENT) return NULL;
    const size_t all = bytes + BLOCK_ALIGNMENT;
    char *start = bytes >= LARGE_BLOCK ? get_large(all) : malloc(all);
    if (start == NULL) return NULL;
    char *block = start + BLOCK_ALIGNMENT - (uintptr_t)start % BLOCK_ALIGNMENT;
    ((void **)(void *)block)[-1] = start;
    return block;
}

static void put_default(void *user, void *block)
{
    (void)user;
    free(((void **)block)[-1]);
}

void allocator_trim(const allocator_t *allocator)
{
#if defined(__GLIBC__)
    if (allocator->get == get_default) (void)malloc_trim(0);
#else
    (void)allocator;
#endif
}

const allocator_t *allocator_default(void)
{
    static const allocator_t allocator = {NULL, get_default, put_default};
    return &allocator;
}

void *allocator_get(const allocator_t *allocator, size_t bytes)
{
    return allocator->get(allocator->user, bytes > 0 ? bytes : 1);
}

void allocator_put(const allocator_t *allocator, void *block)
{
    if (block != NULL) allocator->put(allocator->user, block);
}

/* ---- a limit ---- */

/* An allocator with a limit. n_bytes: bytes of this struct and of all blocks, including their
 * headers. n_holders: number of users of this struct, which are the context and all blocks (a block
 * may outlive the context). */
typedef struct limiter {
    allocator_t from;
    size_t limit;
    atomic_size_t n_bytes;
    atomic_size_t n_holders;
    atomic_bool has_refused; /* set when an allocation fails, cleared when a message reports it */
} limiter_t;

static void drop_limiter(limiter_t *limiter)
{
    if (atomic_fetch_sub(&limiter->n_holders, 1) > 1) return;
    const allocator_t from = limiter->from;
    allocator_put(&from, limiter);
}

static bool reserve(limiter_t *limiter, size_t bytes)
{
    size_t used = atomic_load(&limiter->n_bytes);
    do {
        if (bytes > limiter->limit || used > limiter->limit - bytes) return false;
    } while (!atomic_compare_exchange_weak(&limiter->n_bytes, &used, used + bytes));
    return true;
}

/* Allocates a block if the limit allows it. The block's size is stored before it, in a header of
 * BLOCK_ALIGNMENT bytes. */
static void *get_limited(void *user, size_t bytes)
{
    limiter_t *limiter = user;
    if (bytes > SIZE_MAX - BLOCK_ALIGNMENT || !reserve(limiter, bytes + BLOCK_ALIGNMENT)) {
        atomic_store(&limiter->has_refused, true);
        return NULL;
    }
    const size_t all = bytes + BLOCK_ALIGNMENT;
    char *start = allocator_get(&limiter->from, all);
    if (start == NULL) {
        atomic_fetch_sub(&limiter->n_bytes, all);
        return NULL;
    }
    memcpy(start, &all, sizeof all);
    atomic_fetch_add(&limiter->n_holders, 1);
    return start + BLOCK_ALIGNMENT;
}

static void put_limited(void *user, void *block)
{
    limiter_t *limiter = user;
    char *start = (char *)block - BLOCK_ALIGNMENT;
    size_t all = 0;
    memcpy(&all, start, sizeof all);
    allocator_put(&limiter->from, start);
    atomic_fetch_sub(&limiter->n_bytes, all);
    drop_limiter(limiter);
}

bool allocator_limit(const allocator_t *from, size_t bytes, allocator_t *out_allocator)
{
    limiter_t *limiter = allocator_get(from, sizeof *limiter);
    if (limiter == NULL) return false;
    limiter->from = *from;
    limiter->limit = bytes;
    atomic_init(&limiter->n_bytes, sizeof *limiter);
    atomic_init(&limiter->n_holders, 1);
    atomic_init(&limiter->has_refused, false);
    *out_allocator = (allocator_t){limiter, get_limited, put_limited};
    return true;
}

void allocator_end_limit(const allocator_t *limited)
{
    if (limited->get == get_limited) drop_limiter(limited->user);
}

void allocator_refusal(const allocator_t *allocator, char *message, size_t capacity)
{
    if (allocator->get != get_limited) return;
    limiter_t *limiter = allocator->user;
    const size_t length = strlen(message);
    if (atomic_exchange(&limiter->has_refused, false))
        snprintf(message + length, capacity - length,
                 "; the context's limit is %zu bytes, of which %zu are in use", limiter->limit,
                 atomic_load(&limiter->n_bytes));
}

/* out_block: address of a pointer of any type. */
status_t context_get(context_t *ctx, size_t bytes, const char *purpose, void *out_block)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    void *block = allocator_get(context_allocator(ctx), bytes);
    if (block == NULL)
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %zu bytes for %s, the allocator refused",
             bytes, purpose);
    memcpy(out_block, &block, sizeof block);
    return STATUS_OK;
}

status_t context_get_zeroed(context_t *ctx, size_t bytes, const char *purpose, void *out_block)
{
    void *block = NULL;
    TRY(context_get(ctx, bytes, purpose, &block));
    memset(block, 0, bytes);
    memcpy(out_block, &block, sizeof block);
    return STATUS_OK;
}

void context_put(context_t *ctx, void *block)
{
    if (ctx != NULL) allocator_put(context_allocator(ctx), block);
}

void context_put_all(context_t *ctx, size_t n, void *const *blocks)
{
    for (size_t i = 0; i < n; i++) context_put(ctx, blocks[i]);
}

status_t context_string(context_t *ctx, const char *text, char **out_text)
{
    char *copy = NULL;
    if (text != NULL) {
        size_t bytes = strlen(text) + 1;
        TRY(context_get(ctx, bytes, "a string", &copy));
        memcpy(copy, text, bytes);
    }
    *out_text = copy;
    return STATUS_OK;
}

status_t context_grow(context_t *ctx, void *items, int *capacity, int needed, size_t item_bytes)
{
    if (needed <= *capacity) return STATUS_OK;
    int wanted = *capacity > INT32_MAX / 2 ? INT32_MAX : *capacity * 2;
    if (wanted < 8) wanted = 8;
    if (wanted < needed) wanted = needed;

    size_t bytes;
    if (__builtin_mul_overflow((size_t)wanted, item_bytes, &bytes))
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %d items of %zu bytes, the size overflows",
             wanted, item_bytes);
    void *grown = NULL;
    TRY(context_get(ctx, bytes, "a growing array", &grown));

    void *old = NULL;
    memcpy(&old, items, sizeof old);
    if (old != NULL) memcpy(grown, old, (size_t)*capacity * item_bytes);
    context_put(ctx, old);
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return STATUS_OK;
}
