/* Attention of transformers. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_ATTENTION_ATTENTION_H
#define TESSERA_OPS_ATTENTION_ATTENTION_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

typedef struct attention_attrs {
    bool is_causal;  /* query i attends to keys 0 to i only */
    bool enable_gqa; /* key and value may have fewer heads, each for a group of query heads */
    double scale;    /* factor of the products; 0: 1 / sqrt(E) */
} attention_attrs_t;

/* torch.nn.functional.scaled_dot_product_attention without dropout.
 *
 *   weight[..][l][s] = softmax over s of scale * query[..][l] . key[..][s] + attn_mask[..][l][s]
 *   out[..][l] = sum over s of weight[..][l][s] * value[..][s]
 *
 * query      [..][L][E]    floating; [..] are batch dimensions, the last of them heads
 * key        [..][S][E]    of the same dtype and batch dimensions
 * value      [..][S][V]    with the same rules as key
 * attn_mask  NULL, or broadcasts to [..][L][S]. bool: true for keys to attend to; floating: added
 * attrs      NULL means the defaults
 * out        [..][L][V]    in memory, dimensions have the order of query's
 *
 * A query that attends to no key gives zeros. Values that a query does not attend to may be NaN. */
status_t op_scaled_dot_product_attention(context_t *ctx, const tensor_t *query, const tensor_t *key,
                                         const tensor_t *value, const tensor_t *attn_mask,
                                         const attention_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_scaled_dot_product_attention);

TESSERA_END

#endif
