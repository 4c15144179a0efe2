#!/usr/bin/env python3
"""Writes reference.txt: what PyTorch gives for cases of operators, as an independent source.

Run by hand with PyTorch 2.13.0: python3 tests/ops/values/reference.py > tests/ops/values/reference.txt

Each case is a line of opdef.h's grammar with the operator's name in front, then for every output a
line with its sizes and its elements in row-major order. Inputs follow from their position alone, see
`fill`; floating ones are computed with in f64.
"""
import re
import sys

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float64, "f64": torch.float64, "bf16": torch.float64, "f16": torch.float64,
          "s8": torch.int8, "u8": torch.uint8, "s16": torch.int16, "u16": torch.uint16,
          "s32": torch.int32, "u32": torch.uint32, "s64": torch.int64, "u64": torch.uint64,
          "bool": torch.bool}


def fill(operand, number):
    """Operand `number` of a case: exact in every dtype."""
    if operand == "none":
        return None
    if re.fullmatch(r"-?[0-9.]+", operand):
        return float(operand) if "." in operand else int(operand)
    dtype, sizes, positive, limit, scale = re.fullmatch(
        r"(\w+)\[([0-9,]*)\](\+?)(?:<(\d+))?(?:\*(\d+))?", operand).groups()
    sizes = [int(size) for size in sizes.split(",")] if sizes else []
    n = 1
    for size in sizes:
        n *= size
    draws = [(i * 97 + number * 31 + 11) % 251 for i in range(n)]
    if dtype == "bool":
        values = [draw % 2 == 0 for draw in draws]
    elif dtype[0] in "su":
        values = [draw % int(limit) if limit else draw % 11 - (0 if dtype[0] == "u" else 5)
                  for draw in draws]
        if positive:
            values = [abs(value) + 1 for value in values]
    else:
        values = [(draw - 125) / 128 * int(scale or 1) for draw in draws]
        if positive:
            values = [abs(value) + 0.125 for value in values]
    return torch.tensor(values, dtype=DTYPES[dtype]).reshape(sizes)


def operands(text):
    return re.findall(r"none|-?[0-9.]+(?![\w\[])|\w+\[[0-9,]*\]\+?(?:<\d+)?(?:\*\d+)?", text)


def resize(mode, align=None):
    def run(x, sizes):
        return F.interpolate(x, size=sizes, mode=mode, align_corners=align)
    return run


def fold(weight, scale, variance, epsilon, dim=0):
    """Folds a norm into a convolution: returns the scaled weight, and the factor per output."""
    factor = scale / torch.sqrt(variance + epsilon)
    sizes = [1] * weight.dim()
    sizes[dim] = -1
    return weight * factor.reshape(sizes), factor


def fold_bias(weight, bias, scale, shift, mean, variance):
    _, factor = fold(weight, scale, variance, 0.001)
    return (bias - mean) * factor + shift


def first(x, wanted):
    """Where the first of the wanted elements of each row stands; argmax itself does not promise."""
    return (x == wanted).to(torch.uint8).cumsum(1).eq(0).sum(1, keepdim=True)


def recurrent(kind, reverse=False, batch_first=False, **options):
    """One layer in one direction: the second one of a layer of both is the reverse."""
    def run(x, weight_ih, weight_hh, bias_ih, bias_hh, h0, lengths, c0=None, _peephole=None):
        if batch_first:
            x = x.transpose(0, 1)
        steps, n, features = x.shape
        hidden = weight_hh.shape[1]
        layer = kind(features, hidden, bidirectional=reverse, **options).double()
        suffix = "_reverse" if reverse else ""
        for name, value in (("weight_ih", weight_ih), ("weight_hh", weight_hh),
                            ("bias_ih", bias_ih), ("bias_hh", bias_hh)):
            parameter = getattr(layer, f"{name}_l0{suffix}")
            parameter.data = torch.zeros_like(parameter) if value is None else value
        zero = torch.zeros(n, hidden, dtype=torch.float64)
        h, c = ((zero if state is None else state).clone() for state in (h0, c0))
        y = torch.zeros(steps, n, hidden, dtype=torch.float64)
        for i in range(n):
            length = steps if lengths is None else int(lengths[i])
            if length == 0:
                continue
            first = [state[i].expand(2 if reverse else 1, 1, hidden).contiguous()
                     for state in (h, c)]
            is_lstm = kind is torch.nn.LSTM
            with torch.no_grad():
                out, last = layer(x[:length, i:i + 1], tuple(first) if is_lstm else first[0])
            y[:length, i] = out[:, 0, -hidden:]
            h[i] = (last[0] if is_lstm else last)[-1, 0]
            c[i] = last[1][-1, 0] if is_lstm else 0
        if batch_first:
            y = y.transpose(0, 1)
        return (y, h, c) if kind is torch.nn.LSTM else (y, h)
    return run


LSTM, GRU, RNN = torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN


def grid(mode="bilinear", padding="zeros", align=False):
    return lambda x, g: F.grid_sample(x, g, mode, padding, align)
def unique(dim=None):
    """With where each value stands first, which PyTorch does not give."""
    def run(x):
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True, dim=dim)
        flat = inverse.flatten()
        places = torch.stack([(flat == i).nonzero()[0, 0] for i in range(len(counts))])
        return values, places, inverse, counts
    return run


def unsorted(x):
    """Values of a vector in order of first appearance."""
    values, places, inverse, counts = unique()(x)
    order = places.argsort()
    return values[order], places[order], order.argsort()[inverse], counts[order]


def nms(iou_threshold, score_threshold=-float("inf"), most=None, is_center=False):
    """By the rule itself, one pair of boxes after the other."""
    def corners(box):
        a, b = box[:2], box[2:]
        return (a - b / 2, a + b / 2) if is_center else (torch.minimum(a, b), torch.maximum(a, b))

    def iou(a, b):
        (a, b), (c, d) = corners(a), corners(b)
        shared = (torch.minimum(b, d) - torch.maximum(a, c)).clamp(min=0).prod()
        return shared / ((b - a).prod() + (d - c).prod() - shared)

    def run(boxes, scores):
        rows = []
        for image in range(scores.shape[0]):
            for label in range(scores.shape[1]):
                kept = []
                for box in scores[image, label].argsort(descending=True, stable=True):
                    if scores[image, label, box] > score_threshold and all(
                            iou(boxes[image, k], boxes[image, box]) <= iou_threshold for k in kept):
                        kept.append(box)
                rows += [[image, label, int(box)] for box in kept[:most]]
        return torch.tensor(rows)
    return run


def cached(window=0, softcap=0, scale=None):
    """Causal attention of the last rows that are valid, of all that precede them in the cache."""
    def run(q, k, v, mask, lengths, slots=None):
        if slots is not None:
            k, v = k[slots], v[slots]
        heads = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(heads, -3), v.repeat_interleave(heads, -3)
        rows = lengths.reshape([-1] + [1] * (q.dim() - 1)) - q.shape[-2] + torch.arange(
            q.shape[-2]).reshape(-1, 1)
        keys = torch.arange(k.shape[-2])
        seen = (keys <= rows) & (keys > rows - (window or k.shape[-2] + 1))
        scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(~seen, float("-inf"))
        return torch.softmax(scores, -1).nan_to_num() @ v
    return run


def rotary(interleaved):
    """As in transformers' models of llama (halves) and in RoFormer (pairs of neighbours)."""
    def run(x, cos, sin):
        n = 2 * cos.shape[-1]
        x, rest = x[..., :n], x[..., n:]
        if interleaved:
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
            turned = torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
        else:
            half = torch.cat((-x[..., n // 2:], x[..., :n // 2]), -1)
            turned = x * torch.cat((cos, cos), -1) + half * torch.cat((sin, sin), -1)
        return torch.cat((turned, rest), -1)
    return run


CASES = [
    ("conv1d(f32[1,6,9], f32[4,3,3], f32[4]) padding=[1] groups=2",
     lambda x, w, b: F.conv1d(x, w, b, padding=1, groups=2)),
    ("conv3d(f32[1,4,3,4,3], f32[6,2,2,2,2], none) stride=[1,2,1] groups=2",
     lambda x, w, b: F.conv3d(x, w, stride=(1, 2, 1), groups=2)),
    ("conv2d(f32[1,2,5,4], f32[3,2,2,2], f32[3]) padding=[1,0] extra_padding=[-1,2]",
     lambda x, w, b: F.conv2d(F.pad(x, (0, 2, 1, 0)), w, b)),
    ("conv2d(f32[1,2,4,4]*8, f32[3,2,3,3], f32[3]) post=[\"relu\",\"linear(2,-1)\"]",
     lambda x, w, b: 2 * F.relu(F.conv2d(x, w, b)) - 1),
    ("conv2d(f32[1,2,4,4]*8, f32[3,2,3,3], none, f32[1,3,2,2]*4) post=[\"sum\",\"clamp(0,6)\"]",
     lambda x, w, b, s: F.relu6(F.conv2d(x, w) + s)),
    ("conv2d(f32[1,2,4,4], f32[3,2,3,3], none, f32[3,1,1]+, f32[1,3,2,2]) "
     "post=[\"div\",\"sub\",\"gelu\"]",
     lambda x, w, b, d, s: F.gelu(F.conv2d(x, w) / d - s)),
    ("linear(f32[2,7], f32[5,7], f32[5], f32[2,5], f32[2,5]) post=[\"mul\",\"max\",\"hardswish\"]",
     lambda x, w, b, m, t: F.hardswish(torch.maximum(F.linear(x, w, b) * m, t))),
    ("matmul(f32[2,3], f32[3,4], f32[4], f32[2,4]) post=[\"add\",\"min\"]",
     lambda a, b, s, t: torch.minimum(a @ b + s, t)),
    ("fold_weight(f32[3,2,2,2], f32[3], f32[3]+) epsilon=0.001",
     lambda w, s, v: fold(w, s, v, 0.001)[0]),
    ("fold_bias(f32[3,2,2,2], f32[3], f32[3], f32[3], f32[3], f32[3]+) epsilon=0.001", fold_bias),
    ("max_pool3d(f32[1,2,4,5,3]) kernel=[2,3,2] stride=[2,1,1] padding=[1,1,0]",
     lambda x: F.max_pool3d(x, (2, 3, 2), (2, 1, 1), (1, 1, 0))),
    ("avg_pool3d(f32[1,2,4,5,3]) kernel=[2,3,2] stride=[2,1,1] padding=[1,1,0]",
     lambda x: F.avg_pool3d(x, (2, 3, 2), (2, 1, 1), (1, 1, 0), count_include_pad=False)),
    ("avg_pool1d(f32[1,2,9]) kernel=[4] stride=[3] padding=[1] count_include_pad=true",
     lambda x: F.avg_pool1d(x, 4, 3, 1)),
    ("max_pool2d(f32[1,2,5,5]) kernel=[3,3] stride=[2,2] extra_padding=[1,1]",
     lambda x: F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2)),
    ("adaptive_avg_pool(f32[1,2,4,5,3]) output_size=[2,3,2]",
     lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2))),
    ("max_pool1d_with_indices(f32[2,3,11]) kernel=[3] stride=[2]",
     lambda x: F.max_pool1d(x, 3, 2, return_indices=True)),
    ("max_pool2d_with_indices(f32[1,2,7,6]) kernel=[3,2] stride=[2,2] ceil_mode=true",
     lambda x: F.max_pool2d(x, (3, 2), 2, ceil_mode=True, return_indices=True)),
    ("max_pool2d_with_indices(s32[1,2,5,6]<4) kernel=[3,3] stride=[1,1] padding=[1,1]",
     lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True)),
    ("max_pool3d_with_indices(f32[1,2,4,5,3]) kernel=[2,3,2] stride=[2,1,1] padding=[1,1,0]",
     lambda x: F.max_pool3d(x, (2, 3, 2), (2, 1, 1), (1, 1, 0), return_indices=True)),
    ("adaptive_max_pool_with_indices(f32[1,2,7,6]) output_size=[3,4]",
     lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True)),
    ("adaptive_max_pool_with_indices(f32[1,2,4,5,3]) output_size=[3,2,5]",
     lambda x: F.adaptive_max_pool3d(x, (3, 2, 5), return_indices=True)),
    ("adaptive_max_pool(f32[1,2,7]) output_size=[3]", lambda x: F.adaptive_max_pool1d(x, 3)),
    ("batch_norm(f32[2,3,4], none, none, f32[3], f32[3]+)",
     lambda x, w, b, m, v: F.batch_norm(x, m, v)),
    ("layer_norm(f32[2,3,5], none, none)", lambda x, w, b: F.layer_norm(x, (5,))),
    ("relu(f32[17]*8)", F.relu),
    ("relu6(f32[17]*8)", F.relu6),
    ("relu6(s64[17]<9)", lambda x: x.clamp(0, 6)),
    ("clamp(s64[17]) min=-2.5 max=3.0", lambda x: x.clamp(-2.5, 3.0)),
    ("hardsigmoid(f32[17]*8)", F.hardsigmoid),
    ("hardswish(f32[17]*8)", F.hardswish),
    ("gelu(f32[17]*8)", F.gelu),
    ("softplus(f32[17]*8)", F.softplus),
    ("cast(f64[17]*8) dtype=s32", lambda x: x.int()),
    ("cast(f64[17]*8) dtype=bool", lambda x: x.bool()),
    ("feature_dropout(f32[2,3]) p=0.3", lambda x: F.dropout1d(x, 0.3, training=False)),
    ("to_mkldnn(f32[2,3])", lambda x: x.float().to_mkldnn().to_dense()),
    ("to_dense(f32[2,3])", lambda x: x.clone()),
    ("reorder(f32[1,3,2,2]) format=\"aBcd8b\"", lambda x: x.to(memory_format=torch.channels_last)),
    ("conv1d(f32[2,3,11], f32[5,3,3], f32[5]) stride=[2] padding=[1]",
     lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1)),
    ("conv2d(f32[2,3,7,6], f32[5,3,3,2], f32[5]) stride=[2,1] padding=[1,0]",
     lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0))),
    ("conv2d(f32[1,8,6,6], f32[4,2,3,3], none) padding=[2,2] dilation=[2,2] groups=4",
     lambda x, w, b: F.conv2d(x, w, padding=2, dilation=2, groups=4)),
    ("conv3d(f32[1,2,4,5,3], f32[3,2,2,3,2], f32[3]) padding=[1,0,1]",
     lambda x, w, b: F.conv3d(x, w, b, padding=(1, 0, 1))),
    ("conv_transpose1d(f32[2,3,5], f32[3,4,3], f32[4]) stride=[2] output_padding=[1]",
     lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, output_padding=1)),
    ("conv_transpose2d(f32[1,4,4,3], f32[4,3,3,2], f32[6]) stride=[2,1] padding=[1,0] groups=2",
     lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 1), padding=(1, 0), groups=2)),
    ("conv_transpose2d(f32[1,2,3,3], f32[2,2,3,3], none) dilation=[2,2] padding=[1,1]",
     lambda x, w, b: F.conv_transpose2d(x, w, dilation=2, padding=1)),
    ("conv_transpose3d(f32[1,2,3,2,3], f32[2,3,2,2,2], f32[3]) stride=[1,2,1]",
     lambda x, w, b: F.conv_transpose3d(x, w, b, stride=(1, 2, 1))),
    ("linear(f32[2,3,7], f32[5,7], f32[5])", F.linear),
    ("linear(f32[7], f32[5,7], none)", F.linear),
    ("linear(f32[2,3,2,2], f32[4,12], f32[4]) flatten=true",
     lambda x, w, b: F.linear(x.flatten(1), w, b)),
    ("matmul(f32[7], f32[7])", torch.matmul),
    ("matmul(f32[7], f32[2,7,3])", torch.matmul),
    ("matmul(f32[2,3,7], f32[7])", torch.matmul),
    ("matmul(f32[2,1,4,3], f32[5,3,2])", torch.matmul),
    ("matmul(s64[3,4], s64[4,2])", torch.matmul),
    ("batch_norm(f32[2,3,4,2], f32[3], f32[3], f32[3], f32[3]+) epsilon=0.001",
     lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=1e-3)),
    ("batch_norm_conv2d(f32[1,4,5,4], f32[6,2,3,2], f32[6], f32[4], f32[4], f32[4], f32[4]+) "
     "stride=[2,1] padding=[1,0] groups=2 epsilon=0.001 activation=\"relu\"",
     lambda x, w, b, s, t, m, v: F.conv2d(F.relu(F.batch_norm(x, m, v, s, t, eps=1e-3)), w, b,
                                          stride=(2, 1), padding=(1, 0), groups=2)),
    ("layer_norm(f32[2,3,5], f32[3,5], f32[3,5]) n_dims=2",
     lambda x, w, b: F.layer_norm(x, (3, 5), w, b)),
    ("rms_norm(f32[2,3,5], f32[3,5]) n_dims=2 epsilon=0.001",
     lambda x, w: F.rms_norm(x, (3, 5), w, 0.001)),
    ("rms_norm(f32[2,17], none)", lambda x, w: F.rms_norm(x, (17,), None, 1e-5)),
    ("group_norm(f32[2,6,3,2], f32[6], f32[6]) num_groups=3 epsilon=0.001",
     lambda x, w, b: F.group_norm(x, 3, w, b, 0.001)),
    ("group_norm(f32[2,3,7], f32[3], f32[3]) num_groups=3",
     lambda x, w, b: F.instance_norm(x, weight=w, bias=b)),
    ("group_norm(f32[2,4], none, none) num_groups=2", lambda x, w, b: F.group_norm(x, 2)),
    ("scaled_dot_product_attention(f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,3], none)",
     lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v)),
    ("scaled_dot_product_attention(f32[2,3,4]*4, f32[2,5,4]*4, f32[2,5,3], none) is_causal=true "
     "scale=0.7", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                                    scale=0.7)),
    ("scaled_dot_product_attention(f32[1,4,3,4]*4, f32[1,2,5,4]*4, f32[1,2,5,3], f32[3,5]) "
     "enable_gqa=true", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m,
                                                                         enable_gqa=True)),
    ("scaled_dot_product_attention(f32[2,2,3,4], f32[2,2,5,4], f32[2,2,5,3], bool[2,1,1,5])",
     F.scaled_dot_product_attention),
    ("scaled_dot_product_attention(f32[3,4], f32[5,4], f32[5,3], bool[3,1])",
     F.scaled_dot_product_attention),
    ("cached_attention(f32[2,4,1,8]*4, f32[2,2,9,8]*4, f32[2,2,9,3], none, s64[2]<9, none) "
     "is_causal=true enable_gqa=true", cached(window=0)),
    ("cached_attention(f32[4,3,8]*4, f32[2,9,8]*4, f32[2,9,3], none, s64[]<10, none) "
     "is_causal=true enable_gqa=true window=3 softcap=2 scale=0.7", cached(window=3, softcap=2, scale=0.7)),
    ("cached_attention(f32[4,1,16]*4, f32[2,9,16]*4, f32[2,9,16], none, s64[]<10, none) "
     "is_causal=true enable_gqa=true window=3 softcap=2", cached(window=3, softcap=2)),
    ("cached_attention(f32[3,4,1,8], f32[2,2,9,8], f32[2,2,9,3], none, s64[3]<9, s64[3]<2) "
     "is_causal=true enable_gqa=true", cached()),
    ("rotary_embedding(f32[2,3,8], f32[3,4], f32[3,4])", rotary(False)),
    ("rotary_embedding(f32[2,3,8], f32[3,4], f32[3,4]) interleaved=true", rotary(True)),
    ("rotary_embedding(f32[2,3,9], f32[3,2], f32[3,2])", rotary(False)),
    ("lrn(f32[2,7,2,2]) size=5 alpha=0.01 k=2.0",
     lambda x: F.local_response_norm(x, 5, alpha=0.01, beta=0.75, k=2.0)),
    ("lrn(f32[1,6,2,2]) size=4 alpha=0.5",
     lambda x: F.local_response_norm(x, 4, alpha=0.5, beta=0.75, k=1.0)),
    ("max_pool2d(f32[1,2,7,6]) kernel=[3,2] stride=[2,2] padding=[1,1]",
     lambda x: F.max_pool2d(x, (3, 2), 2, 1)),
    ("max_pool2d(f32[1,2,7,8]) kernel=[3,3] stride=[2,2] ceil_mode=true",
     lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    ("max_pool1d(f32[1,2,9]) kernel=[3] stride=[1] dilation=[2]",
     lambda x: F.max_pool1d(x, 3, 1, dilation=2)),
    ("avg_pool2d(f32[1,2,7,6]) kernel=[3,3] stride=[2,2] padding=[1,1] count_include_pad=true",
     lambda x: F.avg_pool2d(x, 3, 2, 1)),
    ("avg_pool2d(f32[1,2,7,8]) kernel=[3,3] stride=[2,2] padding=[1,1] ceil_mode=true "
     "count_include_pad=true", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    ("avg_pool2d(f32[1,2,7,8]) kernel=[3,3] stride=[2,2] padding=[1,1]",
     lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    ("avg_pool1d(f32[1,2,9]) kernel=[3] stride=[1] dilation=[2]",
     lambda x: F.conv1d(x, torch.full((2, 1, 3), 1 / 3, dtype=x.dtype), dilation=2, groups=2)),
    ("avg_pool1d(f32[1,2,9]) kernel=[3] stride=[2] padding=[2] dilation=[2] count_include_pad=true",
     lambda x: F.conv1d(x, torch.full((2, 1, 3), 1 / 3, dtype=x.dtype), padding=2, stride=2,
                        dilation=2, groups=2)),
    ("adaptive_avg_pool(f32[1,2,7,5]) output_size=[3,2]",
     lambda x: F.adaptive_avg_pool2d(x, (3, 2))),
    ("adaptive_max_pool(f32[1,2,7,5]) output_size=[3,2]",
     lambda x: F.adaptive_max_pool2d(x, (3, 2))),
    ("relu(f32[17])", F.relu),
    ("relu6(f32[17])", lambda x: F.relu6(x)),
    ("clamp(f32[17]) min=-0.25 max=0.5", lambda x: x.clamp(-0.25, 0.5)),
    ("leaky_relu(f32[17]) negative_slope=0.2", lambda x: F.leaky_relu(x, 0.2)),
    ("elu(f32[17]) alpha=0.5", lambda x: F.elu(x, 0.5)),
    ("selu(f32[17])", F.selu),
    ("gelu(f32[17])", F.gelu),
    ("gelu(f32[17]) tanh_approximation=true", lambda x: F.gelu(x, approximate="tanh")),
    ("erf(f32[17])", torch.erf),
    ("sigmoid(f32[17])", torch.sigmoid),
    ("tanh(f32[17])", torch.tanh),
    ("hardsigmoid(f32[17])", F.hardsigmoid),
    ("hardswish(f32[17])", F.hardswish),
    ("silu(f32[17])", F.silu),
    ("softplus(f32[17])", F.softplus),
    ("sqrt(f32[17]+)", torch.sqrt),
    ("exp(f32[17])", torch.exp),
    ("log(f32[17]+)", torch.log),
    ("abs(f32[17])", torch.abs),
    ("neg(f32[17])", torch.neg),
    ("reciprocal(f32[17]+)", torch.reciprocal),
    ("prelu(f32[2,3,4], f32[3])", F.prelu),
    ("add(f32[2,3,4], f32[3,1])", torch.add),
    ("sub(s64[2,3], s64[3])", torch.sub),
    ("mul(f32[2,3], 2.5)", torch.mul),
    ("div(f32[2,3], f32[2,1]+)", torch.div),
    ("div(s64[2,3], s64[1]<2)", lambda a, b: torch.div(a, b).double()),
    ("pow(f32[2,3]+, f32[3])", torch.pow),
    ("maximum(f32[2,3], f32[2,1])", torch.maximum),
    ("minimum(s32[2,3], s32[3])", torch.minimum),
    ("add(s8[7], u8[7])", torch.add),
    ("sub(u16[7], u16[7])", lambda a, b: torch.sub(a.int(), b.int()).to(torch.uint16)),
    ("mul(s16[17], s8[17])", torch.mul),
    ("div_trunc(f32[17], f32[17])", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    ("div_trunc(s32[17], -3)", lambda a, b: torch.div(a, b, rounding_mode="trunc")),
    ("div_floor(f32[17], f32[17])", lambda a, b: torch.div(a, b, rounding_mode="floor")),
    ("div_floor(s64[17], -3)", lambda a, b: torch.div(a, b, rounding_mode="floor")),
    ("fmod(f32[17], f32[17])", torch.fmod),
    ("atan2(f32[17], f32[17])", torch.atan2),
    ("atan2(s32[3,7], f32[7])", torch.atan2),
    ("hypot(f32[3,7], f32[3,1])", torch.hypot),
    ("fmod(s16[17], s16[17]+)", torch.fmod),
    ("remainder(f32[17], -0.25)", torch.remainder),
    ("remainder(s32[17], s32[17]+)", torch.remainder),
    ("remainder(u8[17], u8[17]+)", torch.remainder),
    ("eq(s32[3,7]<3, s32[7]<3)", torch.eq),
    ("ne(s64[3,7]<3, 1)", torch.ne),
    ("lt(f32[3,7], f32[3,1])", torch.lt),
    ("le(u8[17], s8[17])", torch.le),
    ("gt(f32[17], s64[17]<2)", torch.gt),
    ("ge(u32[17]<5, u32[17]<5)", lambda a, b: torch.ge(a.long(), b.long())),
    ("logical_and(f32[3,7], bool[7])", torch.logical_and),
    ("logical_or(s32[17], bool[17])", torch.logical_or),
    ("logical_xor(bool[3,1], bool[7])", torch.logical_xor),
    ("bitwise_and(s32[17], s32[17])", torch.bitwise_and),
    ("bitwise_or(bool[17], bool[17])", torch.bitwise_or),
    ("bitwise_xor(u8[17], s16[17])", torch.bitwise_xor),
    ("bitwise_left_shift(s8[17], s8[17]+)", torch.bitwise_left_shift),
    ("bitwise_right_shift(s32[17], s32[17]+)", torch.bitwise_right_shift),
    ("where(bool[3,7], f32[7], f32[3,1])", torch.where),
    ("where(bool[7], s32[7], s64[7])", torch.where),
    ("floor(f32[17])", torch.floor),
    ("ceil(f32[17])", torch.ceil),
    ("round(f32[17])", torch.round),
    ("trunc(f32[17])", torch.trunc),
    ("sign(f32[17])", torch.sign),
    ("sign(s8[17])", torch.sign),
    ("floor(s16[7])", torch.floor),
    ("logical_not(s32[17])", torch.logical_not),
    ("isnan(f32[7])", torch.isnan),
    ("isinf(f32[7])", torch.isinf),
    ("bitwise_not(s16[17])", torch.bitwise_not),
    ("bitwise_not(bool[17])", torch.bitwise_not),
    ("sin(f32[17])", torch.sin),
    ("cos(f32[17])", torch.cos),
    ("tan(f32[17])", torch.tan),
    ("asin(f32[17])", torch.asin),
    ("acos(f32[17])", torch.acos),
    ("atan(f32[17])", torch.atan),
    ("sinh(f32[17])", torch.sinh),
    ("cosh(f32[17])", torch.cosh),
    ("asinh(f32[17])", torch.asinh),
    ("acosh(f32[17]+)", torch.acosh),
    ("atanh(f32[17])", torch.atanh),
    ("full_like(f32[2,3]) value=-2.5", lambda x: torch.full_like(x, -2.5)),
    ("softmax(f32[2,5,3]) dim=1", lambda x: F.softmax(x, 1)),
    ("log_softmax(f32[2,5]) dim=-1", lambda x: F.log_softmax(x, -1)),
    ("mean(f32[2,3,4]) dims=[0,2] keepdim=true", lambda x: x.mean((0, 2), keepdim=True)),
    ("mean(f32[2,3])", torch.mean),
    ("sum(f32[2,3,4]) dims=[1]", lambda x: x.sum(1)),
    ("sum(bool[17])", torch.sum),
    ("prod(f32[2,3,4]) dims=[1]", lambda x: x.prod(1)),
    ("prod(s32[2,3])", torch.prod),
    ("amax(f32[2,3,4]) dims=[0,2] keepdim=true", lambda x: x.amax((0, 2), keepdim=True)),
    ("amax(s64[3,7]) dims=[1]", lambda x: x.amax(1)),
    ("amin(f32[2,3,4]) dims=[1]", lambda x: x.amin(1)),
    ("amin(u8[17])", torch.amin),
    ("any(bool[3,4]) dims=[1]", lambda x: x.any(1)),
    ("any(f32[0,3]) dims=[0]", lambda x: x.any(0)),
    ("all(bool[3,4]) dims=[0] keepdim=true", lambda x: x.all(0, keepdim=True)),
    ("all(f32[0,3]) dims=[0]", lambda x: x.all(0)),
    ("logsumexp(f32[2,3,4]) dims=[0,2]", lambda x: x.logsumexp((0, 2))),
    ("logsumexp(s32[2,3]) dims=[1]", lambda x: x.double().logsumexp(1)),
    ("norm(f32[2,3,4]) dims=[1]", lambda x: torch.linalg.vector_norm(x, 2, 1)),
    ("norm(f32[2,3,4]) dims=[0,2] p=1.0", lambda x: torch.linalg.vector_norm(x, 1, (0, 2))),
    ("norm(f32[2,3]) p=3.0 keepdim=true",
     lambda x: torch.linalg.vector_norm(x, 3, keepdim=True)),
    ("norm(f32[2,7]) dims=[1] p=inf",
     lambda x: torch.linalg.vector_norm(x, float("inf"), 1)),
    ("norm(f32[2,7]) dims=[1] p=-inf",
     lambda x: torch.linalg.vector_norm(x, -float("inf"), 1)),
    ("norm(f32[2,7]) dims=[1] p=0.0", lambda x: torch.linalg.vector_norm(x, 0, 1)),
    ("var(f32[2,3,4]) dims=[0,2]", lambda x: x.var((0, 2))),
    ("var(f32[2,3,4]) dims=[1] correction=0 keepdim=true",
     lambda x: x.var(1, correction=0, keepdim=True)),
    ("std(f32[2,3,4]) dims=[2]", lambda x: x.std(2)),
    ("std(f32[2,7]) correction=3", lambda x: x.std(correction=3)),
    ("argmax(f32[2,3,5]) dims=[1]", lambda x: x.argmax(1)),
    ("argmax(f32[3,7])", torch.argmax),
    ("argmax(s32[3,31]<4) dims=[1] keepdim=true", lambda x: first(x, x.amax(1, keepdim=True))),
    ("argmin(f32[2,3,5]) dims=[-1] keepdim=true", lambda x: x.argmin(-1, keepdim=True)),
    ("argmin(s64[3,31]<4) dims=[1] keepdim=true select_last=true",
     lambda x: 30 - first(x.flip(1), x.amin(1, keepdim=True))),
    ("sort(f32[2,7])", lambda x: tuple(x.sort(stable=True))),
    ("sort(s32[3,17]<4) dim=1 descending=true",
     lambda x: tuple(x.sort(dim=1, descending=True, stable=True))),
    ("sort(bool[17])", lambda x: tuple(x.sort(stable=True))),
    ("topk(f32[3,7]) k=3", lambda x: tuple(x.topk(3))),
    ("topk(f32[7,3]) k=2 dim=0 largest=false", lambda x: tuple(x.topk(2, 0, largest=False))),
    ("cumsum(f32[2,5,3]) dim=1", lambda x: x.cumsum(1)),
    ("cumsum(s32[7])", lambda x: x.cumsum(0)),
    ("cumsum(f32[2,5]) dim=1 exclusive=true", lambda x: x.cumsum(1) - x),
    ("cumsum(f32[2,5]) dim=1 reverse=true", lambda x: x.flip(1).cumsum(1).flip(1)),
    ("cumsum(s32[7]) exclusive=true reverse=true", lambda x: x.flip(0).cumsum(0).flip(0) - x),
    ("reshape(f32[2,3,4]) sizes=[4,-1]", lambda x: x.reshape(4, -1)),
    ("flatten(f32[2,3,4,5]) start_dim=1 end_dim=2", lambda x: x.flatten(1, 2)),
    ("flatten(f32[])", lambda x: x.flatten()),
    ("transpose(f32[2,3,4]) dim0=0 dim1=-1", lambda x: x.transpose(0, -1)),
    ("permute(f32[2,3,4]) dims=[2,0,1]", lambda x: x.permute(2, 0, 1)),
    ("squeeze(f32[1,3,1])", torch.squeeze),
    ("squeeze(f32[1,3,1]) dims=[-1,1]", lambda x: x.squeeze((-1, 1))),
    ("unsqueeze(f32[2,3]) dims=[-1]", lambda x: x.unsqueeze(-1)),
    ("expand(f32[3,1]) sizes=[2,-1,4]", lambda x: x.expand(2, -1, 4)),
    ("slice(f32[5,7]) dim=1 start=-6 end=100 step=2", lambda x: x[:, -6:100:2]),
    ("split(f32[2,7]) dim=1 sizes=[2,4,1]", lambda x: x.split([2, 4, 1], 1)),
    ("concat(f32[2,3], f32[2,1], f32[2,2]) dim=-1", lambda *x: torch.cat(x, -1)),
    ("gather(f32[2,5,3], s64[2,2]<5) dim=1",
     lambda x, i: x.index_select(1, i.flatten()).reshape(2, 2, 2, 3)),
    ("gather_elements(f32[3,5,2], s64[2,7,1]<5) dim=1", lambda x, i: x.gather(1, i)),
    ("gather_elements(s16[7,3], s64[1,3]<7)", lambda x, i: x.gather(0, i)),
    ("gather_elements(f32[], s64[]<1)", lambda x, i: x.gather(0, i)),
    ("gather_nd(f32[3,3,5], s64[2,7,2]<3)", lambda x, i: x[i[..., 0], i[..., 1]]),
    ("gather_nd(f32[2,5,3], s64[2,7,1]<5) batch_dims=1",
     lambda x, i: torch.stack([x[b][i[b, :, 0]] for b in range(2)])),
    ("slice_scatter(f32[7,3], f32[2,3], s64[]<6, none)",
     lambda x, y, s, i: torch.slice_scatter(x, y, 0, int(s), int(s) + 2)),
    ("slice_scatter(f32[2,7,3], f32[2,3,3], s64[2]<5, none) dim=1", lambda x, y, s, i: torch.stack(
        [torch.slice_scatter(x[n], y[n], 0, int(s[n]), int(s[n]) + 3) for n in range(2)])),
    ("slice_scatter(f32[5,7,3], f32[1,3,3], s64[1]<5, s64[1]<5) dim=1", lambda x, y, s, i: (
        x.index_copy(0, i, torch.slice_scatter(x[i], y, 1, int(s), int(s) + 3)))),
    ("scatter(f32[2,17,3], s64[2,3,2]<17, f32[2,4,3]) dim=1", lambda x, i, s: x.scatter(1, i, s)),
    ("scatter(f32[5,3], s64[7,3]<5, f32[7,3]) reduction=\"add\"",
     lambda x, i, s: x.scatter_reduce(0, i, s, "sum")),
    ("scatter(s32[3,5], s64[3,7]<5, s32[3,7]) dim=1 reduction=\"mul\"",
     lambda x, i, s: x.scatter_reduce(1, i, s, "prod")),
    ("scatter(f32[5,3], s64[7,3]<5, f32[7,3]) reduction=\"max\"",
     lambda x, i, s: x.scatter_reduce(0, i, s, "amax")),
    ("scatter(u8[5,3], s64[7,3]<5, u8[7,3]) reduction=\"min\"",
     lambda x, i, s: x.scatter_reduce(0, i, s, "amin")),
    ("scatter_nd(f32[17,3], s64[1,1]<17, f32[1,3])",
     lambda x, i, s: x.index_put((i[..., 0],), s)),
    ("scatter_nd(f32[3,3,5], s64[7,2]<3, f32[7,5]) reduction=\"add\"",
     lambda x, i, s: x.index_put((i[..., 0], i[..., 1]), s, accumulate=True)),
    ("scatter_nd(f32[3,5], s64[7,1]<3, f32[7,5]) reduction=\"max\"",
     lambda x, i, s: x.index_reduce(0, i[:, 0], s, "amax")),
    ("celu(f32[2,7]*4) alpha=0.7", lambda x: F.celu(x, 0.7)),
    ("mish(f32[2,7]*8)", F.mish),
    ("shrink(f32[2,7]) lambd=0.3", lambda x: F.hardshrink(x, 0.3)),
    ("shrink(f32[2,7]) lambd=0.3 bias=0.3", lambda x: F.softshrink(x, 0.3)),
    ("threshold(f32[2,7]) threshold=0.25 value=-2.0", lambda x: F.threshold(x, 0.25, -2)),
    ("softsign(f32[2,7]*8)", F.softsign),
    ("softsign(s32[7])", lambda x: F.softsign(x.double())),
    ("logsigmoid(f32[2,7]*8)", F.logsigmoid),
    ("rsqrt(f32[2,7]+)", torch.rsqrt),
    ("square(f32[7])", torch.square),
    ("square(s8[7])", torch.square),
    ("exp2(f32[2,7]*8)", torch.exp2),
    ("expm1(f32[2,7])", torch.expm1),
    ("log2(f32[2,7]+)", torch.log2),
    ("log10(f32[2,7]+)", torch.log10),
    ("log1p(f32[2,7])", torch.log1p),
    ("cumprod(f32[2,5]*2) dim=1", lambda x: x.cumprod(1)),
    ("cumprod(s64[5,3])", lambda x: x.cumprod(0)),
    ("flip(f32[2,3,5]) dims=[0,-1]", lambda x: x.flip(0, -1)),
    ("flip(s16[7]) dims=[0]", lambda x: x.flip(0)),
    ("roll(f32[3,5]) shifts=[7]", lambda x: x.roll(7)),
    ("roll(s64[3,5]) dims=[0,1] shifts=[-1,2]", lambda x: x.roll((-1, 2), (0, 1))),
    ("roll(bool[7]) dims=[0] shifts=[-9]", lambda x: x.roll(-9, 0)),
    ("reverse_sequence(f32[5,3], s64[3]<6) batch_dim=1 time_dim=0",
     lambda x, n: torch.stack([torch.cat([x[:k, b].flip(0), x[k:, b]])
                               for b, k in enumerate(n.tolist())], 1)),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*2)", grid()),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*2) align_corners=true", grid(align=True)),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*2) padding=\"border\"", grid(padding="border")),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*4) padding=\"reflection\"",
     grid(padding="reflection")),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*4) padding=\"reflection\" align_corners=true",
     grid(padding="reflection", align=True)),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*2) mode=\"nearest\"", grid("nearest")),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*2) mode=\"cubic\"", grid("bicubic")),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*4) mode=\"cubic\" padding=\"reflection\"",
     grid("bicubic", "reflection")),
    ("grid_sample(f32[1,2,3,5], f32[1,3,4,2]*2) mode=\"cubic\" padding=\"border\" "
     "align_corners=true", grid("bicubic", "border", True)),
    ("grid_sample(f32[1,1,3,2,4], f32[1,2,1,4,3]*2)", grid()),
    ("grid_sample(f32[1,1,3,2,4], f32[1,2,1,4,3]*2) mode=\"nearest\" padding=\"reflection\"",
     grid("nearest", "reflection")),
    ("masked_select(f32[3,7], bool[3,7])", torch.masked_select),
    ("masked_select(s64[2,1,5], bool[3,1])", torch.masked_select),
    ("compress(f32[3,7,2], bool[7]) dims=[1]", lambda x, c: x[:, c]),
    ("compress(f32[3,7], bool[5])", lambda x, c: x.flatten()[:5][c]),
    ("unique(s64[5,7]<6)", unique()),
    ("unique(f32[17]<3)", unique()),
    ("unique(s32[7,2]<2) dims=[0]", unique(0)),
    ("unique(u8[2,7]<3) dims=[-1]", unique(-1)),
    ("unique(s64[17]<5) sorted=false", unsorted),
    ("nms(f32[1,17,4], f32[1,2,17]) iou_threshold=0.3 score_threshold=0.1", nms(0.3, 0.1)),
    ("nms(f32[2,17,4], f32[2,1,17]) iou_threshold=0.1 max_per_class=4", nms(0.1, most=4)),
    ("nms(f32[1,31,4]+, f32[1,1,31]) iou_threshold=0.4 is_center=true",
     nms(0.4, is_center=True)),
    ("tril(f32[2,3,7]) diagonal=2", lambda x: x.tril(2)),
    ("tril(s64[7,3])", torch.tril),
    ("triu(f32[2,7,3]) diagonal=-2", lambda x: x.triu(-2)),
    ("triu(bool[3,7]) diagonal=1", lambda x: x.triu(1)),
    ("pad(f32[1,2,3,4]) before=[0,0,1,2] after=[0,0,2,-1] value=1.5",
     lambda x: F.pad(x, (2, -1, 1, 2), value=1.5)),
    ("pad(f32[1,2,4,4]) before=[0,0,1,3] after=[0,0,2,1] mode=\"reflect\"",
     lambda x: F.pad(x, (3, 1, 1, 2), mode="reflect")),
    ("pad(f32[1,2,3,4]) before=[0,0,1,5] after=[0,0,2,0] mode=\"edge\"",
     lambda x: F.pad(x, (5, 0, 1, 2), mode="replicate")),
    ("pad(f32[1,2,3,4]) before=[0,0,1,4] after=[0,0,2,3] mode=\"wrap\"",
     lambda x: F.pad(x, (4, 3, 1, 2), mode="circular")),
    ("resize(f32[1,2,3,5]) sizes=[7,4]", lambda x: resize("nearest")(x, (7, 4))),
    ("resize(f32[1,2,3,5]) sizes=[6,10]", lambda x: resize("nearest")(x, (6, 10))),
    ("resize(f32[1,2,3,5]) sizes=[7,4] mode=\"linear\" coordinates=\"half_pixel\"",
     lambda x: resize("bilinear", False)(x, (7, 4))),
    ("resize(f32[1,2,3,5]) sizes=[7,4] mode=\"linear\" coordinates=\"align_corners\"",
     lambda x: resize("bilinear", True)(x, (7, 4))),
    ("resize(f32[1,1,2,3,2]) sizes=[3,4,3] mode=\"linear\" coordinates=\"half_pixel\"",
     lambda x: resize("trilinear", False)(x, (3, 4, 3))),
    ("resize(f32[1,2,3,5]) sizes=[7,4] mode=\"cubic\" coordinates=\"half_pixel\"",
     lambda x: resize("bicubic", False)(x, (7, 4))),
    ("resize(f32[1,2,4,5]) sizes=[7,3] mode=\"cubic\" coordinates=\"align_corners\"",
     lambda x: resize("bicubic", True)(x, (7, 3))),
    ("resize(f32[1,2,3,5]) sizes=[4,8] mode=\"linear\" coordinates=\"half_pixel\" scales=[1.4,1.7]",
     lambda x: F.interpolate(x, scale_factor=(1.4, 1.7), mode="bilinear")),
    ("resize(f32[1,2,5,5]) sizes=[7,3] mode=\"cubic\" coordinates=\"half_pixel\" scales=[1.5,0.7]",
     lambda x: F.interpolate(x, scale_factor=(1.5, 0.7), mode="bicubic")),
    ("resize(f32[4,5]) sizes=[7,3] mode=\"linear\" coordinates=\"half_pixel\"",
     lambda x: resize("bilinear", False)(x[None, None], (7, 3))[0, 0]),
    ("resize(f32[2,5,3]) sizes=[7,3] mode=\"linear\" coordinates=\"half_pixel\"",
     lambda x: resize("linear", False)(x.transpose(1, 2), 7).transpose(1, 2)),
    ("cast(f64[2,3]) dtype=s32", lambda x: x.int()),
    ("cast(s64[7]) dtype=bool", lambda x: x.bool()),
    ("cast(s64[7]) dtype=u8", lambda x: x.to(torch.uint8)),
    ("identity(f32[2,3])", lambda x: x),
    ("dropout(f32[2,3]) p=0.3", lambda x: F.dropout(x, 0.3, training=False)),
    ("lstm(f32[5,2,3], f32[12,3], f32[12,3], f32[12], f32[12], f32[2,3], none, f32[2,3], none)",
     recurrent(LSTM)),
    ("lstm(f32[5,2,3], f32[28,3], f32[28,7], f32[28], none, none, none, none, none) reverse=true",
     recurrent(LSTM, reverse=True)),
    ("lstm(f32[2,5,3], f32[12,3], f32[12,3], none, f32[12], f32[2,3], none, f32[2,3], none) "
     "batch_first=true", recurrent(LSTM, batch_first=True)),
    ("lstm(f32[5,7,3], f32[12,3], f32[12,3], f32[12], f32[12], f32[7,3], s64[7]<6, f32[7,3], none)",
     recurrent(LSTM)),
    ("lstm(f32[7,5,3], f32[12,3], f32[12,3], f32[12], f32[12], f32[7,3], s32[7]<6, none, none) "
     "reverse=true batch_first=true", recurrent(LSTM, reverse=True, batch_first=True)),
    ("gru(f32[5,2,3], f32[9,3], f32[9,3], f32[9], f32[9], f32[2,3], none)", recurrent(GRU)),
    ("gru(f32[5,2,3], f32[21,3], f32[21,7], f32[21], f32[21], none, none) reverse=true",
     recurrent(GRU, reverse=True)),
    ("gru(f32[2,5,3], f32[9,3], f32[9,3], none, f32[9], f32[2,3], none) batch_first=true",
     recurrent(GRU, batch_first=True)),
    ("gru(f32[5,7,3], f32[9,3], f32[9,3], f32[9], f32[9], f32[7,3], s64[7]<6) reverse=true",
     recurrent(GRU, reverse=True)),
    ("rnn(f32[5,2,3], f32[3,3], f32[3,3], f32[3], f32[3], f32[2,3], none)", recurrent(RNN)),
    ("rnn(f32[2,5,3], f32[7,3], f32[7,7], f32[7], f32[7], none, none) nonlinearity=\"relu\" "
     "batch_first=true reverse=true",
     recurrent(RNN, reverse=True, batch_first=True, nonlinearity="relu")),
    ("rnn(f32[5,7,3], f32[3,3], f32[3,3], f32[3], none, f32[7,3], s64[7]<6)", recurrent(RNN)),
]


def main():
    print(f"// By tests/ops/values/reference.py with PyTorch {torch.__version__.split('+')[0]}.")
    for text, function in CASES:
        inner = text[text.index("(") + 1:text.index(")")]
        results = function(*[fill(o, i) for i, o in enumerate(operands(inner))])
        print(text)
        for result in results if isinstance(results, tuple) else (results,):
            values = result.double().flatten().tolist()
            sizes = ",".join(str(size) for size in result.shape)
            print(f"= [{sizes}]", *[f"{value:.12g}" for value in values])
    return 0


if __name__ == "__main__":
    sys.exit(main())
