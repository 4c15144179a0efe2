/* The cache of prepared operators: a bounded table per context that evicts the least recently
 * used. */
#include <string.h>

#include "dispatch/recent_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/info_impl.h"

struct cache_entry {
    lru_t use;
    uint64_t hash;
    int n_users; /* running calls that use it */
    bool is_out; /* evicted; freed with its last user */
    weight_use_t weights;
    policy_t policy;
    int n_threads;
    bool has_format;
    format_t out_format; /* a tag, if has_format */
    prepared_t *prepared;
};

struct cache {
    hash_table_t entries;
    int64_t capacity;
    lru_t used;
    recent_t recent;
};

static status_t cache_init(context_t *ctx, void *value)
{
    cache_t *cache = value;
    cache->capacity = context_cache_entries(ctx);
    cache->used = (lru_t){&cache->used, &cache->used};
    return STATUS_OK;
}

static size_t entry_bytes(const cache_entry_t *entry)
{
    return sizeof *entry + prepared_bytes(entry->prepared);
}

static void end_entry(context_t *ctx, cache_entry_t *entry)
{
    prepared_release(entry->prepared);
    context_put(ctx, entry);
}

static void evict_oldest(context_t *ctx, cache_t *cache)
{
    cache_entry_t *entry = (cache_entry_t *)(void *)cache->used.newer;
    recent_forget(&cache->recent, entry);
    hash_remove(&cache->entries, entry->hash, entry);
    lru_remove(&entry->use);
    counters_t *counters = context_counters(ctx);
    counters->cache_entries = cache->entries.n;
    counters->cache_bytes -= entry_bytes(entry);
    entry->is_out = true;
    if (entry->n_users == 0) end_entry(ctx, entry);
}

static void cache_empty(context_t *ctx, cache_t *cache)
{
    while (cache->entries.n > 0) evict_oldest(ctx, cache);
}

static void cache_fini(context_t *ctx, void *value)
{
    cache_t *cache = value;
    cache_empty(ctx, cache);
    hash_clear(ctx, &cache->entries);
}

static const context_slot_t cache_slot = {sizeof(cache_t), cache_init, cache_fini};

static const tensor_info_t absent = {.dtype = DTYPE_NONE};

static bool is_entry_of(const void *item, const void *of)
{
    const cache_entry_t *entry = item;
    const cache_call_t *key = of;
    const format_t *format = key->out_format;
    if (entry->has_format != (format != NULL) ||
        (format != NULL && !format_identical(&entry->out_format, format)))
        return false;
    const prepared_t *prepared = entry->prepared;
    if (prepared->op != key->op || prepared->n_in != key->n_in || entry->policy != key->policy ||
        entry->n_threads != key->n_threads || entry->weights != key->weights)
        return false;
    if (memcmp(prepared->attrs, key->attrs, key->op->attrs.bytes) != 0) return false;
    for (int i = 0; i < key->n_in; i++)
        if (!info_identical(&prepared->asked[i], key->in[i] != NULL ? &key->in[i]->info : &absent))
            return false;
    return true;
}

static uint64_t hash_key(const cache_call_t *key)
{
    const format_t *format = key->out_format;
    uint64_t hash = hash_mix((uint64_t)(uintptr_t)key->op, ((uint64_t)key->weights << 40) ^
                                                               ((uint64_t)key->policy << 32) ^
                                                               (uint64_t)key->n_threads);
    if (key->op->attrs.bytes > 0) hash = hash_bytes(key->attrs, key->op->attrs.bytes, hash);
    for (int i = 0; i < key->n_in; i++)
        hash = hash_mix(hash, key->in[i] != NULL ? tensor_hash(key->in[i]) : 0);
    return format != NULL ? format_identity_hash(format, hash) : hash;
}

/* Adds an entry to the cache. Takes ownership of the prepared operator on success. */
static status_t insert(context_t *ctx, cache_t *cache, uint64_t hash, const cache_call_t *key,
                       prepared_t *prepared, cache_entry_t **out_entry)
{
    cache_entry_t *entry = NULL;
    TRY(context_get(ctx, sizeof *entry, "the cache", &entry));
    *entry = (cache_entry_t){.hash = hash,
                             .weights = key->weights,
                             .policy = key->policy,
                             .n_threads = key->n_threads,
                             .has_format = key->out_format != NULL,
                             .prepared = prepared};
    if (key->out_format != NULL) entry->out_format = *key->out_format;
    while ((int64_t)cache->entries.n >= cache->capacity && cache->entries.n > 0)
        evict_oldest(ctx, cache);
    TRY_OR(hash_put(ctx, &cache->entries, hash, entry), context_put(ctx, entry));
    lru_add(&cache->used, &entry->use);
    context_counters(ctx)->cache_entries = cache->entries.n;
    context_counters(ctx)->cache_bytes += entry_bytes(entry);
    *out_entry = entry;
    return STATUS_OK;
}

/* Selects a kernel. If none produces out_format from these inputs, selects one without this
 * requirement. */
static status_t select_for(context_t *ctx, const cache_call_t *key, const tensor_info_t *const *in,
                           prepared_t **out_prepared)
{
    if (key->out_format != NULL) {
        status_t status = select_fixed(ctx, key->op, key->attrs, key->n_in, in, key->weights,
                                       LAYOUT_MKLDNN, key->out_format, NULL, out_prepared);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return select_prepared(ctx, key->op, key->attrs, key->n_in, in, key->weights, key->policy,
                           out_prepared);
}

static status_t make_entry(context_t *ctx, cache_t *cache, uint64_t hash, const cache_call_t *key,
                           cache_entry_t **out_entry)
{
    prepared_t *prepared = NULL;
    const tensor_info_t *infos[OP_MAX_INPUTS];
    for (int i = 0; i < key->n_in; i++) infos[i] = key->in[i] != NULL ? &key->in[i]->info : &absent;
    TRY(select_for(ctx, key, infos, &prepared));
    status_t status = insert(ctx, cache, hash, key, prepared, out_entry);
    if (status != STATUS_OK) prepared_release(prepared);
    return status;
}

status_t cache_of(context_t *ctx, cache_t **out_cache)
{
    void *value = NULL;
    TRY(context_slot(ctx, &cache_slot, &value));
    *out_cache = value;
    return STATUS_OK;
}

static void use(context_t *ctx, cache_t *cache, cache_entry_t *entry)
{
    context_counters(ctx)->cache_hits++;
    if (cache->used.older != &entry->use) {
        lru_remove(&entry->use);
        lru_add(&cache->used, &entry->use);
    }
}

static bool key_of(const cache_call_t *call, recent_key_t *out_key)
{
    return call->out_format == NULL && recent_key(call, out_key);
}

cache_entry_t *cache_recall(context_t *ctx, cache_t *cache, const cache_call_t *call)
{
    recent_key_t key;
    cache_entry_t *entry = key_of(call, &key) ? recent_find(&cache->recent, &key) : NULL;
    if (entry == NULL) return NULL;
    use(ctx, cache, entry);
    entry->n_users++;
    return entry;
}

/* Stores a call among the recent ones. Its inputs have the infos of the entry, so inputs without a
 * stamp get the entry's stamps. */
static void remember(cache_t *cache, const cache_call_t *call, cache_entry_t *entry)
{
    recent_key_t key;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] != NULL && tensor_stamp(call->in[i]) == 0)
            tensor_set_stamp(call->in[i], entry->prepared->asked_stamp[i]);
    if (key_of(call, &key)) recent_keep(&cache->recent, &key, entry);
}

status_t cache_enter(context_t *ctx, cache_t *cache, const cache_call_t *call,
                     cache_entry_t **out_entry)
{
    uint64_t hash = hash_key(call);
    cache_entry_t *entry = hash_find(&cache->entries, hash, is_entry_of, call);
    if (entry == NULL) {
        context_counters(ctx)->cache_misses++;
        TRY(make_entry(ctx, cache, hash, call, &entry));
    } else {
        use(ctx, cache, entry);
    }
    remember(cache, call, entry);
    entry->n_users++;
    *out_entry = entry;
    return STATUS_OK;
}

prepared_t *cache_prepared(const cache_entry_t *entry)
{
    return entry->prepared;
}

void cache_leave(context_t *ctx, cache_entry_t *entry)
{
    if (--entry->n_users == 0 && entry->is_out) end_entry(ctx, entry);
}

void dispatch_clear_cache(context_t *ctx)
{
    if (ctx == NULL) return;
    void *value = NULL;
    if (context_slot(ctx, &cache_slot, &value) == STATUS_OK) cache_empty(ctx, value);
}
