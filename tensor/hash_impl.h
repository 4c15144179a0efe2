/* The one hash table, and how words are mixed into hashes.
 *
 * A table holds borrowed items, each under a hash that the caller computes. What makes two items
 * equal is the caller's as well: a look-up names the hash, a key, and a function that compares an
 * item with the key.
 *
 *   entry_t *entry = hash_find(&table, hash_of(key), is_entry_of, key);
 *   if (entry == NULL) TRY(hash_put(ctx, &table, hash_of(key), new_entry));
 *
 * A table that is all zero is empty. It has no lock. */
#ifndef TESSERA_TENSOR_HASH_IMPL_H
#define TESSERA_TENSOR_HASH_IMPL_H

#include "tensor/context_impl.h"

typedef struct hash_slot {
    uint64_t hash;
    void *item; /* NULL: the slot is free */
} hash_slot_t;

typedef struct hash_table {
    hash_slot_t *slots; /* open addressing: a taken slot is tried at the next */
    size_t n_slots;     /* a power of two, or 0 */
    size_t n;
} hash_table_t;

/* One more word of what is hashed. A one-to-one function of the word for a given hash, so that
 * hash_mix(0, address) differs for different addresses. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

/* Of any bytes. */
uint64_t hash_bytes(const void *bytes, size_t n_bytes, uint64_t seed);

/* True if the item is the one that the key asks for. */
typedef bool (*hash_equal_t)(const void *item, const void *key);

/* The item of this hash that equals the key, or NULL. is_equal NULL: the first item of this hash,
 * for hashes that are one-to-one functions of the key. */
void *hash_find(const hash_table_t *table, uint64_t hash, hash_equal_t is_equal, const void *key);

/* Adds an item, which is not NULL. Whether an equal one is there is not looked at. */
status_t hash_put(context_t *ctx, hash_table_t *table, uint64_t hash, void *item);

/* Takes out this item, put in under this hash; nothing happens when it is not there. */
void hash_remove(hash_table_t *table, uint64_t hash, const void *item);

/* Empties the table and gives its memory back. */
void hash_clear(context_t *ctx, hash_table_t *table);

#endif
