/* The reorders that a context has described, so that each is described once. */
#include "tensor/hash_impl.h"
#include "tensor/info_impl.h"
#include "tensor/onednn/onednn.h"

/* A context keeps at most this many. The next one empties the table. */
#define MAX_REORDERS 1024

typedef struct reorder {
    tensor_info_t src, dst;
    int n_threads; /* oneDNN divides the work when it describes */
    onednn_primitive_t *primitive;
} reorder_t;

static void forget_all(context_t *ctx, hash_table_t *reorders)
{
    for (size_t i = 0; i < reorders->n_slots; i++) {
        reorder_t *reorder = reorders->slots[i].item;
        if (reorder == NULL) continue;
        onednn_release(reorder->primitive);
        context_put(ctx, reorder);
    }
    hash_clear(ctx, reorders);
}

static void reorders_fini(context_t *ctx, void *value)
{
    forget_all(ctx, value);
}

static const context_slot_t reorders_slot = {sizeof(hash_table_t), NULL, reorders_fini};

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
    status_t status = context_get(ctx, sizeof **out_reorder, "a reorder", out_reorder);
    if (status != STATUS_OK) {
        onednn_release(primitive);
        return status;
    }
    **out_reorder = *wanted;
    (*out_reorder)->primitive = primitive;
    return STATUS_OK;
}

status_t onednn_reorder(context_t *ctx, const tensor_info_t *src, const tensor_info_t *dst,
                        onednn_primitive_t **out_primitive)
{
    void *value = NULL;
    TRY(context_slot(ctx, &reorders_slot, &value));
    hash_table_t *reorders = value;
    const reorder_t key = {.src = *src, .dst = *dst, .n_threads = context_threads(ctx)};
    uint64_t hash = hash_mix(info_identity_hash(src), info_identity_hash(dst));
    reorder_t *reorder = hash_find(reorders, hash, is_reorder, &key);
    if (reorder == NULL) {
        if (reorders->n >= MAX_REORDERS) forget_all(ctx, reorders);
        TRY(describe(ctx, &key, &reorder));
        status_t status = hash_put(ctx, reorders, hash, reorder);
        if (status != STATUS_OK) {
            onednn_release(reorder->primitive);
            context_put(ctx, reorder);
            return status;
        }
    }
    *out_primitive = reorder->primitive;
    return STATUS_OK;
}
