#define XXH_INLINE_ALL /* inline, so that programs do not need libxxhash at run time */
#include "tensor/hash_impl.h"

#include <xxhash.h>

#define FIRST_SLOTS 64

uint64_t hash_bytes(const void *bytes, size_t n_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n_bytes, seed);
}

static size_t next_slot(const hash_table_t *table, size_t at)
{
    return (at + 1) & (table->n_slots - 1);
}

static size_t home_of(const hash_table_t *table, uint64_t hash)
{
    return (size_t)hash & (table->n_slots - 1);
}

void *hash_find(const hash_table_t *table, uint64_t hash, hash_equal_t is_equal, const void *key)
{
    if (table->n == 0) return NULL;
    for (size_t at = home_of(table, hash); table->slots[at].item != NULL;
         at = next_slot(table, at)) {
        const hash_slot_t *slot = &table->slots[at];
        if (slot->hash == hash && (is_equal == NULL || is_equal(slot->item, key)))
            return slot->item;
    }
    return NULL;
}

static void insert(hash_table_t *table, hash_slot_t slot)
{
    size_t at = home_of(table, slot.hash);
    while (table->slots[at].item != NULL) at = next_slot(table, at);
    table->slots[at] = slot;
}

static status_t grow(context_t *ctx, hash_table_t *table)
{
    hash_table_t grown = {.n = table->n,
                          .n_slots = table->n_slots > 0 ? table->n_slots * 2 : FIRST_SLOTS};
    TRY(context_get_zeroed(ctx, grown.n_slots * sizeof *grown.slots, "a hash table", &grown.slots));
    for (size_t i = 0; i < table->n_slots; i++)
        if (table->slots[i].item != NULL) insert(&grown, table->slots[i]);
    context_put(ctx, table->slots);
    *table = grown;
    return STATUS_OK;
}

/* Adds an item. At most half of the slots are used, so every search ends at a free slot. */
status_t hash_put(context_t *ctx, hash_table_t *table, uint64_t hash, void *item)
{
    INVARIANT(item != NULL);
    if ((table->n + 1) * 2 > table->n_slots) TRY(grow(ctx, table));
    insert(table, (hash_slot_t){hash, item});
    table->n++;
    return STATUS_OK;
}

/* After a removal, moves later items into the free slot, so that searches still find them (backward
 * shift deletion). An item stays if its home slot (where its search begins) is after the free
 * slot. */
static void close_gap(hash_table_t *table, size_t gap)
{
    for (size_t at = next_slot(table, gap); table->slots[at].item != NULL;
         at = next_slot(table, at)) {
        size_t home = home_of(table, table->slots[at].hash);
        size_t from_home = (at - home) & (table->n_slots - 1);
        size_t from_gap = (at - gap) & (table->n_slots - 1);
        if (from_home < from_gap) continue;
        table->slots[gap] = table->slots[at];
        gap = at;
    }
    table->slots[gap] = (hash_slot_t){0};
}

void hash_remove(hash_table_t *table, uint64_t hash, const void *item)
{
    if (table->n == 0) return;
    size_t at = home_of(table, hash);
    while (table->slots[at].item != NULL && table->slots[at].item != item)
        at = next_slot(table, at);
    if (table->slots[at].item == NULL) return;
    close_gap(table, at);
    table->n--;
}

void hash_clear(context_t *ctx, hash_table_t *table)
{
    context_put(ctx, table->slots);
    *table = (hash_table_t){0};
}
