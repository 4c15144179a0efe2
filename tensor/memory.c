/* Memory by a context's allocator. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tensor/context_impl.h"

#define BLOCK_ALIGNMENT 64

/* Blocks of this size and more are asked to lie in huge pages, which are touched first in a fifth
 * of the time (64 MB: 11 ms for 52) and read faster: packed weights, arenas, large results. */
#define LARGE_BLOCK ((size_t)2 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

/* The system may decline. */
static void ask_for_huge_pages(void *start, size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    (void)madvise(start, bytes, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

/* From the start of a huge page on: what lies before the first one would be in small pages. */
static void *get_large(size_t bytes)
{
    void *start = NULL;
    if (posix_memalign(&start, HUGE_PAGE, bytes) != 0) return NULL;
    ask_for_huge_pages(start, bytes);
    return start;
}

/* malloc, with the block aligned by hand and malloc's own address in front of it: glibc's
 * aligned_alloc never takes from a thread's cache of free blocks, and is five times slower. */
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

/* out_block is the address of a pointer of any type. */
status_t context_get(context_t *ctx, size_t bytes, const char *purpose, void *out_block)
{
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
    allocator_put(context_allocator(ctx), block);
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
        FAIL(ctx, STATUS_OUT_OF_MEMORY, "out of memory: %d items of %zu bytes, the sum overflows",
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
