/* A map from address to address: what a walk has seen, and what a clone made of it. */
#ifndef TESSERA_MODULE_MAP_IMPL_H
#define TESSERA_MODULE_MAP_IMPL_H

#include "tensor/context_impl.h"

typedef struct map_entry {
    const void *key;
    void *value;
} map_entry_t;

/* Begin with ctx set and the rest zero. Keys and values are borrowed. */
typedef struct map {
    context_t *ctx;
    map_entry_t *entries; /* open addressing; a free place has key NULL */
    size_t capacity;      /* a power of two */
    size_t n;
} map_t;

/* The value of a key, or NULL. */
void *map_get(const map_t *map, const void *key);
status_t map_put(map_t *map, const void *key, void *value);
void map_clear(map_t *map);

#endif
