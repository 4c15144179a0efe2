"""Decompositions of PyTorch's fused operators for transformers, by the operators they replace."""

from __future__ import annotations

import torch

_ATTENTION, _PADDING = 0, 1  # masks [queries, keys] and [batch, keys]; otherwise as the scores


def _attention(q, k, v, heads, weight, bias, mask, mask_type):
    """Returns softmax(scores) [batch, heads, queries, keys], and the joined heads."""
    size = q.shape[-1]
    parts = zip((q, k, v), weight.split(size), bias.split(size))
    q, k, v = (
        torch.nn.functional.linear(x, w, b).unflatten(-1, (heads, size // heads)).transpose(1, 2)
        for x, w, b in parts
    )
    scores = q @ k.transpose(-2, -1) / (size // heads) ** 0.5
    if mask is not None:
        mask = mask.to(torch.bool)
        if mask_type == _ATTENTION:
            mask = mask[None, None]
        elif mask_type == _PADDING:
            mask = mask[:, None, None]
        scores = scores.masked_fill(mask, float("-inf"))
    weights = scores.softmax(-1)
    return weights, (weights @ v).transpose(1, 2).flatten(-2)


def _encoder_layer(
    x, size, heads, qkv_weight, qkv_bias, out_weight, out_bias, is_gelu, is_norm_first, eps,
    norm1_weight, norm1_bias, norm2_weight, norm2_bias, weight1, bias1, weight2, bias2, mask=None,
    mask_type=None,
):  # fmt: skip
    f = torch.nn.functional
    activation = f.gelu if is_gelu else f.relu

    def norm1(y):
        return f.layer_norm(y, (size,), norm1_weight, norm1_bias, eps)

    def norm2(y):
        return f.layer_norm(y, (size,), norm2_weight, norm2_bias, eps)

    def attend(y):
        joined = _attention(y, y, y, heads, qkv_weight, qkv_bias, mask, mask_type)[1]
        return f.linear(joined, out_weight, out_bias)

    def feed(y):
        return f.linear(activation(f.linear(y, weight1, bias1)), weight2, bias2)

    if is_norm_first:
        x = x + attend(norm1(x))
        return x + feed(norm2(x))
    x = norm1(x + attend(x))
    return norm2(x + feed(x))


def _multi_head_attention(
    q, k, v, size, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    weights, joined = _attention(q, k, v, heads, qkv_weight, qkv_bias, mask, mask_type)
    out = torch.nn.functional.linear(joined, out_weight, out_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


FUSED = {
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
    torch.ops.aten._native_multi_head_attention.default: _multi_head_attention,
}
