/* The cache of prepared operators: a bounded table per context, least recently used goes first. */
#include <string.h>

#include "dispatch/select_impl.h"

typedef struct entry {
    struct entry *next_in_bucket;
    struct entry *newer, *older;
    uint64_t hash;
    const opdef_t *op;
    policy_t policy;
    int n_threads, n_in;
    prepared_t *prepared;
    tensor_info_t in[]; /* what was asked, not what is wanted */
} entry_t;

typedef struct cache {
    entry_t **buckets;
    uint64_t n_buckets; /* a power of two */
    int64_t n_entries, capacity;
    entry_t *newest, *oldest;
} cache_t;

static status_t cache_init(context_t *ctx, void *value)
{
    cache_t *cache = value;
    cache->capacity = context_cache_entries(ctx);
    cache->n_buckets = 64;
    while ((int64_t)cache->n_buckets < cache->capacity && cache->n_buckets < (1u << 20))
        cache->n_buckets *= 2;
    return context_get_zeroed(ctx, cache->n_buckets * sizeof *cache->buckets, "the cache",
                              &cache->buckets);
}

static size_t entry_bytes(const entry_t *entry)
{
    return sizeof *entry + (size_t)entry->n_in * 2 * sizeof(tensor_info_t) + sizeof(prepared_t);
}

static void unlink_entry(cache_t *cache, entry_t *entry)
{
    if (entry->newer != NULL)
        entry->newer->older = entry->older;
    else
        cache->newest = entry->older;
    if (entry->older != NULL)
        entry->older->newer = entry->newer;
    else
        cache->oldest = entry->newer;
}

static void push_newest(cache_t *cache, entry_t *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    if (cache->newest != NULL) cache->newest->newer = entry;
    cache->newest = entry;
    if (cache->oldest == NULL) cache->oldest = entry;
}

static void evict(context_t *ctx, cache_t *cache, entry_t *entry)
{
    entry_t **at = &cache->buckets[entry->hash & (cache->n_buckets - 1)];
    while (*at != entry) at = &(*at)->next_in_bucket;
    *at = entry->next_in_bucket;
    unlink_entry(cache, entry);
    cache->n_entries--;
    counters_t *counters = context_counters(ctx);
    counters->cache_entries = (uint64_t)cache->n_entries;
    counters->cache_bytes -= entry_bytes(entry);
    prepared_release(entry->prepared);
    context_put(ctx, entry);
}

static void cache_empty(context_t *ctx, cache_t *cache)
{
    while (cache->oldest != NULL) evict(ctx, cache, cache->oldest);
}

static void cache_fini(context_t *ctx, void *value)
{
    cache_t *cache = value;
    if (cache->buckets == NULL) return;
    cache_empty(ctx, cache);
    context_put(ctx, cache->buckets);
}

static const context_slot_t cache_slot = {sizeof(cache_t), cache_init, cache_fini};

/* Equal to the letter: cheaper than asking whether bytes are the same, and what is asked again is
 * mostly written the same. */
static bool same_info(const tensor_info_t *a, const tensor_info_t *b)
{
    if (a->dtype != b->dtype || a->layout != b->layout || a->rank != b->rank ||
        a->is_number != b->is_number || a->format.kind != b->format.kind)
        return false;
    size_t bytes = (size_t)a->rank * sizeof *a->sizes;
    if (memcmp(a->sizes, b->sizes, bytes) != 0) return false;
    if (a->format.kind == FORMAT_STRIDED)
        return memcmp(a->format.strides, b->format.strides, bytes) == 0;
    if (a->format.kind != FORMAT_TAG) return format_same(&a->format, &b->format, a->sizes);
    return a->format.n_blocks == b->format.n_blocks &&
           memcmp(a->format.order, b->format.order, (size_t)a->rank) == 0 &&
           memcmp(a->format.block_dims, b->format.block_dims, a->format.n_blocks) == 0 &&
           memcmp(a->format.block_sizes, b->format.block_sizes,
                  a->format.n_blocks * sizeof *a->format.block_sizes) == 0;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_info(const tensor_info_t *info, uint64_t hash)
{
    hash = mix(hash, ((uint64_t)info->dtype << 16) ^ ((uint64_t)info->layout << 8) ^
                         (uint64_t)info->rank);
    for (int d = 0; d < info->rank; d++) hash = mix(hash, (uint64_t)info->sizes[d]);
    if (info->format.kind == FORMAT_STRIDED) {
        for (int d = 0; d < info->rank; d++) hash = mix(hash, (uint64_t)info->format.strides[d]);
    } else if (info->format.kind != FORMAT_TAG) {
        hash = format_hash(&info->format, info->sizes, hash);
    } else {
        for (int d = 0; d < info->rank; d++) hash = mix(hash, info->format.order[d]);
        for (int b = 0; b < info->format.n_blocks; b++)
            hash = mix(hash, info->format.block_sizes[b] * 16u + info->format.block_dims[b]);
    }
    return hash;
}

static bool matches(const entry_t *entry, const opdef_t *op, const void *attrs, int n_in,
                    const tensor_info_t *const *in, policy_t policy, int n_threads)
{
    if (entry->op != op || entry->n_in != n_in || entry->policy != policy ||
        entry->n_threads != n_threads)
        return false;
    if (!attrs_equal(&op->attrs, entry->prepared->attrs, attrs)) return false;
    for (int i = 0; i < n_in; i++)
        if (!same_info(&entry->in[i], in[i])) return false;
    return true;
}

static status_t insert(context_t *ctx, cache_t *cache, uint64_t hash, const opdef_t *op, int n_in,
                       const tensor_info_t *const *in, policy_t policy, prepared_t *prepared)
{
    entry_t *entry = NULL;
    TRY(context_get(ctx, sizeof *entry + (size_t)n_in * sizeof(tensor_info_t), "the cache",
                    &entry));
    while (cache->n_entries >= cache->capacity && cache->oldest != NULL)
        evict(ctx, cache, cache->oldest);
    entry_t **bucket = &cache->buckets[hash & (cache->n_buckets - 1)];
    *entry = (entry_t){.next_in_bucket = *bucket,
                       .hash = hash,
                       .op = op,
                       .policy = policy,
                       .n_threads = context_threads(ctx),
                       .n_in = n_in,
                       .prepared = prepared};
    for (int i = 0; i < n_in; i++) entry->in[i] = *in[i];
    *bucket = entry;
    push_newest(cache, entry);
    cache->n_entries++;
    context_counters(ctx)->cache_entries = (uint64_t)cache->n_entries;
    context_counters(ctx)->cache_bytes += entry_bytes(entry);
    return STATUS_OK;
}

status_t cache_select(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, policy_t policy, prepared_t **out_prepared)
{
    void *value = NULL;
    TRY(context_slot(ctx, &cache_slot, &value));
    cache_t *cache = value;
    const int n_threads = context_threads(ctx);
    uint64_t hash = mix((uint64_t)(uintptr_t)op, ((uint64_t)policy << 32) ^ (uint64_t)n_threads);
    hash = attrs_hash(&op->attrs, attrs, hash);
    for (int i = 0; i < n_in; i++) hash = hash_info(in[i], hash);

    entry_t *entry = cache->buckets[hash & (cache->n_buckets - 1)];
    while (entry != NULL &&
           (entry->hash != hash || !matches(entry, op, attrs, n_in, in, policy, n_threads)))
        entry = entry->next_in_bucket;
    if (entry != NULL) {
        context_counters(ctx)->cache_hits++;
        if (cache->newest != entry) {
            unlink_entry(cache, entry);
            push_newest(cache, entry);
        }
        *out_prepared = entry->prepared;
        return STATUS_OK;
    }
    context_counters(ctx)->cache_misses++;
    prepared_t *prepared = NULL;
    TRY(select_prepared(ctx, op, attrs, n_in, in, policy, &prepared));
    status_t status = insert(ctx, cache, hash, op, n_in, in, policy, prepared);
    if (status != STATUS_OK) {
        prepared_release(prepared);
        return status;
    }
    *out_prepared = prepared;
    return STATUS_OK;
}

void dispatch_clear_cache(context_t *ctx)
{
    void *value = NULL;
    if (context_slot(ctx, &cache_slot, &value) == STATUS_OK) cache_empty(ctx, value);
}
