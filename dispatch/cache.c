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
    bool has_format;
    format_t out_format; /* a tag, when it was asked for */
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
static bool same_format(const format_t *a, const format_t *b, int rank, const int64_t *sizes)
{
    size_t bytes = (size_t)rank * sizeof *a->strides;
    if (a->kind != b->kind) return false;
    if (a->kind == FORMAT_STRIDED) return memcmp(a->strides, b->strides, bytes) == 0;
    if (a->kind != FORMAT_TAG) return format_same(a, b, sizes);
    return a->n_blocks == b->n_blocks && memcmp(a->order, b->order, (size_t)rank) == 0 &&
           memcmp(a->block_dims, b->block_dims, a->n_blocks) == 0 &&
           memcmp(a->block_sizes, b->block_sizes, a->n_blocks * sizeof *a->block_sizes) == 0;
}

static bool same_info(const tensor_info_t *a, const tensor_info_t *b)
{
    if (a->dtype != b->dtype || a->layout != b->layout || a->rank != b->rank ||
        a->is_number != b->is_number)
        return false;
    if (memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) != 0) return false;
    return same_format(&a->format, &b->format, a->rank, a->sizes);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static uint64_t hash_format(const format_t *format, int rank, const int64_t *sizes, uint64_t hash)
{
    if (format->kind == FORMAT_STRIDED) {
        for (int d = 0; d < rank; d++) hash = mix(hash, (uint64_t)format->strides[d]);
    } else if (format->kind != FORMAT_TAG) {
        hash = format_hash(format, sizes, hash);
    } else {
        for (int d = 0; d < rank; d++) hash = mix(hash, format->order[d]);
        for (int b = 0; b < format->n_blocks; b++)
            hash = mix(hash, format->block_sizes[b] * 16u + format->block_dims[b]);
    }
    return hash;
}

static uint64_t hash_info(const tensor_info_t *info, uint64_t hash)
{
    hash = mix(hash, ((uint64_t)info->dtype << 16) ^ ((uint64_t)info->layout << 8) ^
                         (uint64_t)info->rank);
    for (int d = 0; d < info->rank; d++) hash = mix(hash, (uint64_t)info->sizes[d]);
    return hash_format(&info->format, info->rank, info->sizes, hash);
}

static bool matches(const entry_t *entry, const opdef_t *op, const void *attrs, int n_in,
                    const tensor_info_t *const *in, policy_t policy, const format_t *out_format,
                    int n_threads)
{
    if (entry->has_format != (out_format != NULL) ||
        (out_format != NULL &&
         !same_format(&entry->out_format, out_format, out_format->rank, NULL)))
        return false;
    if (entry->op != op || entry->n_in != n_in || entry->policy != policy ||
        entry->n_threads != n_threads)
        return false;
    if (!attrs_equal(&op->attrs, entry->prepared->attrs, attrs)) return false;
    for (int i = 0; i < n_in; i++)
        if (!same_info(&entry->in[i], in[i])) return false;
    return true;
}

static status_t insert(context_t *ctx, cache_t *cache, uint64_t hash, const opdef_t *op, int n_in,
                       const tensor_info_t *const *in, policy_t policy, const format_t *out_format,
                       prepared_t *prepared)
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
                       .has_format = out_format != NULL,
                       .prepared = prepared};
    if (out_format != NULL) entry->out_format = *out_format;
    for (int i = 0; i < n_in; i++) entry->in[i] = *in[i];
    *bucket = entry;
    push_newest(cache, entry);
    cache->n_entries++;
    context_counters(ctx)->cache_entries = (uint64_t)cache->n_entries;
    context_counters(ctx)->cache_bytes += entry_bytes(entry);
    return STATUS_OK;
}

/* A format that no kernel gives from these inputs is no reason to fail. */
static status_t select_for(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                           const tensor_info_t *const *in, policy_t policy,
                           const format_t *out_format, prepared_t **out_prepared)
{
    if (out_format != NULL) {
        status_t status = dispatch_select_fixed(ctx, op, attrs, n_in, in, LAYOUT_MKLDNN, out_format,
                                                out_prepared);
        if (status != STATUS_UNSUPPORTED) return status;
    }
    return select_prepared(ctx, op, attrs, n_in, in, policy, out_prepared);
}

status_t cache_select(context_t *ctx, const opdef_t *op, const void *attrs, int n_in,
                      const tensor_info_t *const *in, policy_t policy, const format_t *out_format,
                      prepared_t **out_prepared)
{
    void *value = NULL;
    TRY(context_slot(ctx, &cache_slot, &value));
    cache_t *cache = value;
    const int n_threads = context_threads(ctx);
    uint64_t hash = mix((uint64_t)(uintptr_t)op, ((uint64_t)policy << 32) ^ (uint64_t)n_threads);
    hash = attrs_hash(&op->attrs, attrs, hash);
    for (int i = 0; i < n_in; i++) hash = hash_info(in[i], hash);
    if (out_format != NULL) hash = hash_format(out_format, out_format->rank, NULL, hash);

    entry_t *entry = cache->buckets[hash & (cache->n_buckets - 1)];
    while (entry != NULL && (entry->hash != hash ||
                             !matches(entry, op, attrs, n_in, in, policy, out_format, n_threads)))
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
    TRY(select_for(ctx, op, attrs, n_in, in, policy, out_format, &prepared));
    status_t status = insert(ctx, cache, hash, op, n_in, in, policy, out_format, prepared);
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
