/* A hash table, a function that mixes 64-bit words into hashes, and a list ordered by use.
 *
 * The table holds borrowed items, each with a hash that the caller computes. To find an item, the
 * caller passes the hash, a key, and a function that compares an item with the key.
 *
 *   entry_t *entry = hash_find(&table, hash_of(key), is_entry_of, key);
 *   if (entry == NULL) TRY(hash_put(ctx, &table, hash_of(key), new_entry));
 *
 * A zeroed table is empty. The table has no lock. */
#ifndef TESSERA_TENSOR_HASH_IMPL_H
#define TESSERA_TENSOR_HASH_IMPL_H

#include "tensor/context_impl.h"

typedef struct hash_slot {
    uint64_t hash;
    void *item; /* NULL: the slot is free */
} hash_slot_t;

typedef struct hash_table {
    hash_slot_t *slots; /* open addressing with linear probing */
    size_t n_slots;     /* a power of two, or 0 */
    size_t n;
} hash_table_t;

/* Mixes a word into a hash. For a fixed hash this is a one-to-one function of the word, so
 * hash_mix(0, address) differs for different addresses. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

/* Hashes bytes. */
uint64_t hash_bytes(const void *bytes, size_t n_bytes, uint64_t seed);

/* True if the item matches the key. */
typedef bool (*hash_equal_t)(const void *item, const void *key);

/* Returns the item with this hash for which is_equal returns true, or NULL. If is_equal is NULL,
 * returns the first item with this hash; use this if different keys never have the same hash. */
void *hash_find(const hash_table_t *table, uint64_t hash, hash_equal_t is_equal, const void *key);

/* Adds an item, which must not be NULL. Does not check whether the table has an equal one. */
status_t hash_put(context_t *ctx, hash_table_t *table, uint64_t hash, void *item);

/* Removes an item that was added with this hash; does nothing if it is absent. */
void hash_remove(hash_table_t *table, uint64_t hash, const void *item);

/* Empties the table and frees its memory. */
void hash_clear(context_t *ctx, hash_table_t *table);

/* A ring of items, ordered by use, for caches that evict the least recently used item. `head` is in
 * the ring between the newest item and the oldest, head->newer. Items begin with their lru_t. */
typedef struct lru {
    struct lru *newer, *older;
} lru_t;

static inline void lru_remove(lru_t *item)
{
    item->newer->older = item->older;
    item->older->newer = item->newer;
}

static inline void lru_add(lru_t *head, lru_t *item)
{
    *item = (lru_t){.newer = head, .older = head->older};
    item->older->newer = head->older = item;
}

#endif
