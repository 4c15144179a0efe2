/* A map from addresses to addresses, for example from modules to their clones. */
#ifndef TESSERA_MODULE_MAP_IMPL_H
#define TESSERA_MODULE_MAP_IMPL_H

#include "tensor/hash_impl.h"

/* Initialise it with {.ctx = ctx}. Keys and values are borrowed and not NULL. */
typedef struct map {
    context_t *ctx;
    hash_table_t table; /* values by a unique hash of the key's address */
} map_t;

/* The value of a key, or NULL if the key is absent. */
void *map_get(const map_t *map, const void *key);
status_t map_put(map_t *map, const void *key, void *value);
void map_clear(map_t *map);

#endif
