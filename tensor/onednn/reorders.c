/* A context's cache of primitives that reorder, with as many entries as the cache of prepared
 * operators. Evicts the least recently used one. */
#include "tensor/hash_impl.h"
#include "tensor/info_impl.h"
#include "tensor/onednn/onednn.h"

typedef struct reorder {
    lru_t use;
    tensor_info_t src, dst;
    int n_threads; /* the primitive depends on it */
    uint64_t hash;
    onednn_primitive_t *primitive;
} reorder_t;

typedef struct reorders {
    hash_table_t table;
    lru_t used;
} reorders_t;

static void forget_oldest(context_t *ctx, reorders_t *reorders)
{
    reorder_t *reorder = (reorder_t *)(void *)reorders->used.newer;
    lru_remove(&reorder->use);
    hash_remove(&reorders->table, reorder->hash, reorder);
    onednn_release(reorder->primitive);
    context_put(ctx, reorder);
}

static status_t reorders_init(context_t *ctx, void *value)
{
    reorders_t *reorders = value;
    (void)ctx;
    reorders->used = (lru_t){&reorders->used, &reorders->used};
    return STATUS_OK;
}

static void reorders_fini(context_t *ctx, void *value)
{
    reorders_t *reorders = value;
    while (reorders->table.n > 0) forget_oldest(ctx, reorders);
    hash_clear(ctx, &reorders->table);
}

static const context_slot_t reorders_slot = {sizeof(reorders_t), reorders_init, reorders_fini};

static bool is_reorder(const void *item, const void *key)
{
    const reorder_t *a = item, *b = key;
    return a->n_threads == b->n_threads && info_identical(&a->src, &b->src) &&
           info_identical(&a->dst, &b->dst);
}

static status_t describe(context_t *ctx, const reorder_t *wanted, reorder_t **out_reorder)
{
    onednn_problem_t problem = {
        .kind = ONEDNN_REORDER, .n_src = 1, .src = &wanted->src, .dst = &wanted->dst};
    onednn_primitive_t *primitive = NULL;
    TRY(onednn_describe(ctx, &problem, &primitive));
    TRY_OR(context_get(ctx, sizeof **out_reorder, "a reorder", out_reorder),
           onednn_release(primitive));
    **out_reorder = *wanted;
    (*out_reorder)->primitive = primitive;
    return STATUS_OK;
}

static status_t add(context_t *ctx, reorders_t *reorders, const reorder_t *wanted,
                    reorder_t **out_reorder)
{
    reorder_t *reorder = NULL;
    TRY(describe(ctx, wanted, &reorder));
    status_t status = hash_put(ctx, &reorders->table, reorder->hash, reorder);
    if (status != STATUS_OK) {
        onednn_release(reorder->primitive);
        context_put(ctx, reorder);
        return status;
    }
    lru_add(&reorders->used, &reorder->use);
    *out_reorder = reorder;
    return STATUS_OK;
}

status_t onednn_reorder(context_t *ctx, const tensor_info_t *src, const tensor_info_t *dst,
                        onednn_primitive_t **out_primitive)
{
    void *value = NULL;
    TRY(context_slot(ctx, &reorders_slot, &value));
    reorders_t *reorders = value;
    const reorder_t key = {.src = *src,
                           .dst = *dst,
                           .n_threads = context_threads(ctx),
                           .hash = hash_mix(info_identity_hash(src), info_identity_hash(dst))};
    reorder_t *reorder = hash_find(&reorders->table, key.hash, is_reorder, &key);
    if (reorder == NULL) {
        const size_t most = (size_t)context_cache_entries(ctx);
        while (reorders->table.n > 0 && reorders->table.n >= most) forget_oldest(ctx, reorders);
        TRY(add(ctx, reorders, &key, &reorder));
    } else {
        lru_remove(&reorder->use);
        lru_add(&reorders->used, &reorder->use);
    }
    *out_primitive = reorder->primitive;
    return STATUS_OK;
}
