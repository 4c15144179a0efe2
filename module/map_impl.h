/* A map from address to address, for example from an original to its clone. */
#ifndef TESSERA_MODULE_MAP_IMPL_H
#define TESSERA_MODULE_MAP_IMPL_H

#include "tensor/hash_impl.h"

/* Start with ctx set and the rest zero. Keys and values are borrowed and not NULL. */
typedef struct map {
    context_t *ctx;
    hash_table_t table; /* values by the hash of the key's address, which is unique */
} map_t;

/* The value of a key, or NULL if the key is absent. */
void *map_get(const map_t *map, const void *key);
status_t map_put(map_t *map, const void *key, void *value);
void map_clear(map_t *map);

#endif
