#include "module/map_impl.h"

static uint64_t hash_of(const void *key)
{
    return hash_mix(0, (uint64_t)(uintptr_t)key);
}

void *map_get(const map_t *map, const void *key)
{
    return hash_find(&map->table, hash_of(key), NULL, NULL);
}

status_t map_put(map_t *map, const void *key, void *value)
{
    hash_remove(&map->table, hash_of(key), map_get(map, key));
    return hash_put(map->ctx, &map->table, hash_of(key), value);
}

void map_clear(map_t *map)
{
    hash_clear(map->ctx, &map->table);
}
