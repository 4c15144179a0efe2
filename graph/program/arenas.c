#include "graph/program/arenas_impl.h"

#include <pthread.h>

#include "tensor/base/references_impl.h"
#include "tensor/context_impl.h"

/* Header of a block, as wide as the alignment of its bytes. */
typedef union block {
    struct {
        union block *next;
        size_t bytes;
    } head;
    char room[64];
} block_t;

struct arenas {
    atomic_int n_references;
    allocator_t allocator;
    pthread_mutex_t lock;
    block_t *idle;
};

status_t arenas_create(context_t *ctx, arenas_t **out_arenas)
{
    arenas_t *arenas = NULL;
    TRY(context_get_zeroed(ctx, sizeof *arenas, "arenas", &arenas));
    atomic_init(&arenas->n_references, 1);
    arenas->allocator = *context_allocator(ctx);
    pthread_mutex_init(&arenas->lock, NULL);
    *out_arenas = arenas;
    return STATUS_OK;
}

arenas_t *arenas_retain(arenas_t *arenas)
{
    references_add(&arenas->n_references);
    return arenas;
}

/* Removes idle blocks larger than `most` from the list and returns them. The caller holds the
 * lock. */
static block_t *take_larger(arenas_t *arenas, size_t most)
{
    block_t *taken = NULL;
    for (block_t **at = &arenas->idle; *at != NULL;) {
        block_t *block = *at;
        if (block->head.bytes <= most) {
            at = &block->head.next;
            continue;
        }
        *at = block->head.next;
        block->head.next = taken;
        taken = block;
    }
    return taken;
}

static void free_blocks(const allocator_t *allocator, block_t *block)
{
    while (block != NULL) {
        block_t *next = block->head.next;
        allocator_put(allocator, block);
        block = next;
    }
}

void arenas_release(arenas_t *arenas)
{
    if (arenas == NULL || !references_drop(&arenas->n_references)) return;
    allocator_t allocator = arenas->allocator;
    free_blocks(&allocator, arenas->idle);
    pthread_mutex_destroy(&arenas->lock);
    allocator_put(&allocator, arenas);
}

/* If no idle block is large enough, frees one and allocates a quarter more than needed, so that
 * slowly growing sizes need few allocations. Pages that are never used take no memory. */
char *arenas_lease(arenas_t *arenas, size_t bytes)
{
    pthread_mutex_lock(&arenas->lock);
    block_t **at = &arenas->idle, *block = NULL;
    while (*at != NULL && (*at)->head.bytes < bytes) at = &(*at)->head.next;
    if (*at == NULL) at = &arenas->idle;
    block = *at;
    if (block != NULL) *at = block->head.next;
    pthread_mutex_unlock(&arenas->lock);
    if (block != NULL && block->head.bytes >= bytes) return (char *)(block + 1);
    if (block != NULL) bytes += bytes / 4;
    allocator_put(&arenas->allocator, block);
    block = allocator_get(&arenas->allocator, sizeof *block + bytes);
    if (block == NULL) return NULL;
    block->head.bytes = bytes;
    return (char *)(block + 1);
}

void arenas_return(arenas_t *arenas, char *bytes)
{
    block_t *block = (block_t *)(void *)bytes - 1;
    pthread_mutex_lock(&arenas->lock);
    block->head.next = arenas->idle;
    arenas->idle = block;
    pthread_mutex_unlock(&arenas->lock);
}

void arenas_trim(arenas_t *arenas, size_t most)
{
    pthread_mutex_lock(&arenas->lock);
    block_t *taken = take_larger(arenas, 2 * most);
    pthread_mutex_unlock(&arenas->lock);
    free_blocks(&arenas->allocator, taken);
}

size_t arenas_bytes(arenas_t *arenas)
{
    size_t bytes = 0;
    pthread_mutex_lock(&arenas->lock);
    for (const block_t *block = arenas->idle; block != NULL; block = block->head.next)
        bytes += sizeof *block + block->head.bytes;
    pthread_mutex_unlock(&arenas->lock);
    return bytes;
}
