/* Attention of transformers. The rules for all operators are in ops.h. */
#ifndef TESSERA_OPS_ATTENTION_ATTENTION_H
#define TESSERA_OPS_ATTENTION_ATTENTION_H

#include "dispatch/dispatch.h"

TESSERA_BEGIN

typedef struct attention_attrs {
    bool is_causal;  /* query i sees keys 0 to i */
    bool enable_gqa; /* key and value may have fewer heads: each serves as many queries' heads */
    double scale;    /* of the products; 0: 1 / sqrt(E) */
} attention_attrs_t;

/* As torch.nn.functional.scaled_dot_product_attention without dropout.
 *
 *   weight[..][l][s] = softmax over s of scale * query[..][l] . key[..][s] + attn_mask[..][l][s]
 *   out[..][l] = sum over s of weight[..][l][s] * value[..][s]
 *
 * query      [..][L][E]    floating; in front of L batch dimensions, the last one heads
 * key        [..][S][E]    of the same dtype and batch dimensions
 * value      [..][S][V]    as key
 * attn_mask  or NULL; broadcasts to [..][L][S]. bool: true where a key is seen. Floating: is added
 * attrs      NULL means none of them
 * out        [..][L][V]    dimensions in memory in the order of query's; a query that sees no key
 *                          gives zeros, and values that it does not see may be NaN */
status_t op_scaled_dot_product_attention(context_t *ctx, const tensor_t *query, const tensor_t *key,
                                         const tensor_t *value, const tensor_t *attn_mask,
                                         const attention_attrs_t *attrs, tensor_t **out)
    TESSERA_API(op_scaled_dot_product_attention);

TESSERA_END

#endif
