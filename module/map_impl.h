/* A map from address to address: what a walk has seen, and what a clone made of it. */
#ifndef TESSERA_MODULE_MAP_IMPL_H
#define TESSERA_MODULE_MAP_IMPL_H

#include "tensor/hash_impl.h"

/* Begin with ctx set and the rest zero. Keys and values are borrowed, and not NULL. */
typedef struct map {
    context_t *ctx;
    hash_table_t table; /* of values, by the hash of the key's address, which no other key has */
} map_t;

/* The value of a key, or NULL. */
void *map_get(const map_t *map, const void *key);
status_t map_put(map_t *map, const void *key, void *value);
void map_clear(map_t *map);

#endif
