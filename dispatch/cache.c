/* The cache of prepared operators: a bounded table per context, least recently used goes first. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "tensor/hash_impl.h"

typedef struct entry {
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
    hash_table_t entries;
    int64_t capacity;
    entry_t *newest, *oldest;
} cache_t;

static status_t cache_init(context_t *ctx, void *value)
{
    cache_t *cache = value;
    cache->capacity = context_cache_entries(ctx);
    return STATUS_OK;
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
    hash_remove(&cache->entries, entry->hash, entry);
    unlink_entry(cache, entry);
    counters_t *counters = context_counters(ctx);
    counters->cache_entries = cache->entries.n;
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
    cache_empty(ctx, cache);
    hash_clear(ctx, &cache->entries);
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

static uint64_t hash_format(const format_t *format, int rank, const int64_t *sizes, uint64_t hash)
{
    if (format->kind == FORMAT_STRIDED) {
        for (int d = 0; d < rank; d++) hash = hash_mix(hash, (uint64_t)format->strides[d]);
    } else if (format->kind != FORMAT_TAG) {
        hash = format_hash(format, sizes, hash);
    } else {
        for (int d = 0; d < rank; d++) hash = hash_mix(hash, format->order[d]);
        for (int b = 0; b < format->n_blocks; b++)
            hash = hash_mix(hash, format->block_sizes[b] * 16u + format->block_dims[b]);
    }
    return hash;
}

static uint64_t hash_info(const tensor_info_t *info, uint64_t hash)
{
    hash = hash_mix(hash, ((uint64_t)info->dtype << 16) ^ ((uint64_t)info->layout << 8) ^
                              (uint64_t)info->rank);
    for (int d = 0; d < info->rank; d++) hash = hash_mix(hash, (uint64_t)info->sizes[d]);
    return hash_format(&info->format, info->rank, info->sizes, hash);
}

/* A call as it is looked up. */
typedef struct call_key {
    const opdef_t *op;
    const void *attrs;
    int n_in;
    const tensor_info_t *const *in;
    policy_t policy;
    const format_t *out_format;
    int n_threads;
} call_key_t;

static bool is_entry_of(const void *item, const void *of)
{
    const entry_t *entry = item;
    const call_key_t *key = of;
    const format_t *format = key->out_format;
    if (entry->has_format != (format != NULL) ||
        (format != NULL && !same_format(&entry->out_format, format, format->rank, NULL)))
        return false;
    if (entry->op != key->op || entry->n_in != key->n_in || entry->policy != key->policy ||
        entry->n_threads != key->n_threads)
        return false;
    if (!attrs_equal(&key->op->attrs, entry->prepared->attrs, key->attrs)) return false;
    for (int i = 0; i < key->n_in; i++)
        if (!same_info(&entry->in[i], key->in[i])) return false;
    return true;
}

static uint64_t hash_key(const call_key_t *key)
{
    const format_t *format = key->out_format;
    uint64_t hash = hash_mix((uint64_t)(uintptr_t)key->op,
                             ((uint64_t)key->policy << 32) ^ (uint64_t)key->n_threads);
    hash = attrs_hash(&key->op->attrs, key->attrs, hash);
    for (int i = 0; i < key->n_in; i++) hash = hash_info(key->in[i], hash);
    return format != NULL ? hash_format(format, format->rank, NULL, hash) : hash;
}

/* Takes over the prepared operator on success. */
static status_t insert(context_t *ctx, cache_t *cache, uint64_t hash, const call_key_t *key,
                       prepared_t *prepared)
{
    entry_t *entry = NULL;
    TRY(context_get(ctx, sizeof *entry + (size_t)key->n_in * sizeof(tensor_info_t), "the cache",
                    &entry));
    *entry = (entry_t){.hash = hash,
                       .op = key->op,
                       .policy = key->policy,
                       .n_threads = key->n_threads,
                       .n_in = key->n_in,
                       .has_format = key->out_format != NULL,
                       .prepared = prepared};
    if (key->out_format != NULL) entry->out_format = *key->out_format;
    for (int i = 0; i < key->n_in; i++) entry->in[i] = *key->in[i];
    while ((int64_t)cache->entries.n >= cache->capacity && cache->oldest != NULL)
        evict(ctx, cache, cache->oldest);
    status_t status = hash_put(ctx, &cache->entries, hash, entry);
    if (status != STATUS_OK) {
        context_put(ctx, entry);
        return status;
    }
    push_newest(cache, entry);
    context_counters(ctx)->cache_entries = cache->entries.n;
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
    call_key_t key = {op, attrs, n_in, in, policy, out_format, context_threads(ctx)};
    uint64_t hash = hash_key(&key);
    entry_t *entry = hash_find(&cache->entries, hash, is_entry_of, &key);
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
    status_t status = insert(ctx, cache, hash, &key, prepared);
    if (status != STATUS_OK) {
        prepared_release(prepared);
        return status;
    }
    *out_prepared = prepared;
    return STATUS_OK;
}

void dispatch_clear_cache(context_t *ctx)
{
    if (ctx == NULL) return;
    void *value = NULL;
    if (context_slot(ctx, &cache_slot, &value) == STATUS_OK) cache_empty(ctx, value);
}
