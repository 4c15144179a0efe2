/* Layers of transformers: norms, embedding, attention, encoder. Names as in torch.nn; see
 * layers.h. */
#ifndef TESSERA_MODULE_LAYERS_TRANSFORMER_H
#define TESSERA_MODULE_LAYERS_TRANSFORMER_H

#include "module/layers/layers.h"

/* Norms over the last n_dims dimensions. Optional parameters weight and bias [normalized_shape]. */
status_t layer_layer_norm(context_t *ctx, int n_dims, const int64_t *normalized_shape,
                          double epsilon, bool has_weight, bool has_bias, module_t **out_module)
    TESSERA_API(layer_layer_norm);
status_t layer_rms_norm(context_t *ctx, int n_dims, const int64_t *normalized_shape, double epsilon,
                        bool has_weight, module_t **out_module) TESSERA_API(layer_rms_norm);

/* Norms over groups of channels, and over each channel. If is_affine, parameters weight and bias
 * [channels]. */
status_t layer_group_norm(context_t *ctx, int64_t num_groups, int64_t channels, double epsilon,
                          bool is_affine, module_t **out_module) TESSERA_API(layer_group_norm);
status_t layer_instance_norm(context_t *ctx, int64_t channels, double epsilon, bool is_affine,
                             module_t **out_module) TESSERA_API(layer_instance_norm);

/* Parameter weight [n][dim]. forward takes s64 or s32 indices [..] and returns [..][dim]. */
status_t layer_embedding(context_t *ctx, int64_t n, int64_t dim, module_t **out_module)
    TESSERA_API(layer_embedding);

/* Parameters in_proj_weight [3 E][E], in_proj_bias [3 E], out_proj.weight [E][E], out_proj.bias
 * [E], as in torch.nn.MultiheadAttention with batch_first.
 *
 * forward takes x [N][T][E]; or x and a mask that broadcasts to [N][heads][T][T]; or query, key,
 * value and optionally a mask. Masks are as in attention.h: in a bool mask, true means "attend".
 * (In the attn_mask of torch.nn.MultiheadAttention, true means the opposite.) */
status_t layer_multi_head_attention(context_t *ctx, int64_t embed_dim, int64_t num_heads,
                                    bool has_bias, module_t **out_module)
    TESSERA_API(layer_multi_head_attention);

typedef struct transformer_attrs {
    int64_t d_model, nhead;
    int64_t dim_feedforward; /* 0 means 2048 */
    eltwise_t activation;    /* ELTWISE_NONE means relu */
    bool norm_first;
    double epsilon; /* for the norms; 0: 1e-5 */
} transformer_attrs_t;

/* Children self_attn, linear1, linear2, norm1 and norm2, like torch.nn.TransformerEncoderLayer with
 * batch_first, but without dropout. forward takes x [N][T][E] and optionally a mask. */
status_t layer_transformer_encoder_layer(context_t *ctx, const transformer_attrs_t *attrs,
                                         module_t **out_module)
    TESSERA_API(layer_transformer_encoder_layer);

#endif
