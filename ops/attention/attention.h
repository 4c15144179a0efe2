/* Attention of transformers. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_ATTENTION_ATTENTION_H
#define TESSERA_OPS_ATTENTION_ATTENTION_H

#include "dispatch/dispatch.h"

typedef struct attention_attrs {
    bool is_causal;  /* query i attends only to keys 0 to i */
    bool enable_gqa; /* key and value may have fewer heads; a group of query heads shares each */
    double scale;    /* factor of query . key; 0 means 1 / sqrt(E) */
    int64_t window;  /* with is_causal: a query attends to its own key and window - 1 before it; 0:
                        no limit */
    double
        softcap; /* scores become softcap * tanh(score / softcap) before the mask; 0: unchanged */
} attention_attrs_t;

/* torch.nn.functional.scaled_dot_product_attention without dropout.
 *
 *   weight[..][l][s] = softmax over s of scale * query[..][l] . key[..][s] + attn_mask[..][l][s]
 *   out[..][l] = sum over s of weight[..][l][s] * value[..][s]
 *
 * query      [..][L][E]    floating; [..] are batch dimensions, of which the last counts heads
 * key        [..][S][E]    of the same dtype and batch dimensions
 * value      [..][S][V]    with the same rules as key
 * attn_mask  NULL, or broadcasts to [..][L][S]. bool: true where the query attends; floating: added
 * attrs      NULL means the defaults
 * out        [..][L][V]    dimensions in memory in the order of query's
 *
 * The result of a query that attends to no key is zeros. NaN in a value affects only queries that
 * attend to its key. With a window or a softcap there is no gradient. */
status_t op_scaled_dot_product_attention(context_t *ctx, const tensor_t *query, const tensor_t *key,
                                         const tensor_t *value, const tensor_t *attn_mask,
                                         const attention_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_scaled_dot_product_attention);

/* op_scaled_dot_product_attention on caches of fixed capacity S, of which only the first rows are
 * valid. The number of valid rows is read when the operator runs, so one plan serves every step of
 * a decoder. The queries belong to the last L valid rows: with is_causal, query l attends to keys 0
 * to length - L + l. Nothing depends on the other rows, which may contain anything.
 *
 * query       [..][L][E]   floating
 * key, value  as above; f32 queries also read bf16 caches
 * attn_mask   as above
 * lengths     s64, [] or, for queries of rank 3 or more, [N]: one for each index of dimension 0
 * slots       s64 [N], for queries of rank 4 or more: index n of dimension 0 of query uses index
 *             slots[n] of key and value, whose dimension 0 may have any size. NULL: 0, 1 ..
 *
 * INVALID_ARGUMENT  a length is negative or above S; the caches do not have a slot
 * It has no gradient. */
status_t op_cached_attention(context_t *ctx, const tensor_t *query, const tensor_t *key,
                             const tensor_t *value, const tensor_t *attn_mask,
                             const tensor_t *lengths, const tensor_t *slots,
                             const attention_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_cached_attention);

/* Rotary position embedding. Rotates n pairs of elements in each row of x; later elements stay.
 *
 *   (a, b) becomes (a cos[..][i] - b sin[..][i], b cos[..][i] + a sin[..][i])
 *
 * Pair i is (x[..][i], x[..][n + i]), or (x[..][2 i], x[..][2 i + 1]) if interleaved. The rows of
 * cos and sin for the positions are usually taken from tables with op_gather, so all ways to scale
 * angles are tables.
 *
 * x         [..][E]    floating
 * cos, sin  [..][n]    floating; broadcast to the rows of x; 2 n is at most E
 * out       [..][E]    dimensions in memory in the order of x's
 *
 * It has no gradient. */
status_t op_rotary_embedding(context_t *ctx, const tensor_t *x, const tensor_t *cos,
                             const tensor_t *sin, bool interleaved, tensor_t **out)
    TESSERA_API(op_rotary_embedding);

#endif
