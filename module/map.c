#include "module/map_impl.h"

#define FIRST_CAPACITY 64

/* Blocks are aligned to 64 bytes, so the low bits say nothing; Fibonacci hashing takes high ones.
 */
static size_t place(const map_t *map, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (map->capacity - 1);
    while (map->entries[at].key != NULL && map->entries[at].key != key)
        at = (at + 1) & (map->capacity - 1);
    return at;
}

void *map_get(const map_t *map, const void *key)
{
    return map->n > 0 ? map->entries[place(map, key)].value : NULL;
}

static status_t grow(map_t *map)
{
    map_t grown = {.ctx = map->ctx, .n = map->n};
    grown.capacity = map->capacity > 0 ? map->capacity * 2 : FIRST_CAPACITY;
    TRY(context_get_zeroed(map->ctx, grown.capacity * sizeof *grown.entries, "a map",
                           &grown.entries));
    for (size_t i = 0; i < map->capacity; i++) {
        const void *key = map->entries[i].key;
        if (key != NULL) grown.entries[place(&grown, key)] = map->entries[i];
    }
    context_put(map->ctx, map->entries);
    *map = grown;
    return STATUS_OK;
}

status_t map_put(map_t *map, const void *key, void *value)
{
    if ((map->n + 1) * 2 > map->capacity) TRY(grow(map));
    map_entry_t *entry = &map->entries[place(map, key)];
    if (entry->key == NULL) map->n++;
    *entry = (map_entry_t){key, value};
    return STATUS_OK;
}

void map_clear(map_t *map)
{
    context_put(map->ctx, map->entries);
    *map = (map_t){.ctx = map->ctx};
}
