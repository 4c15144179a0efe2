#!/usr/bin/env python3
"""Prints special_cases.txt: what PyTorch 2.13.0 gives in f32 for operators on drawn tensors in which
every third element is NaN, an infinity, a denormal or a zero with a sign.

    op attributes
    < [sizes] elements     for each input; <b of bools
    = [sizes] elements     for the first output
"""
import random
import sys

import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
SPECIALS = [NAN, NAN, INF, -INF, 1e-40, -1e-40, 0.0, -0.0]
N_DRAWS = 3
draws = random.Random(2130)


def draw(*sizes, share=0.33, specials=SPECIALS):
    n = 1
    for size in sizes:
        n *= size
    values = [draws.choice(specials) if draws.random() < share
              else draws.choice([-20.0, -3.0, -1.5, -0.25, 0.5, 1.0, 2.75, 20.0]) for _ in range(n)]
    return torch.tensor(values, dtype=torch.float32).reshape(sizes)


def bools(*sizes):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(draws.randrange(999))) < 0.4


def pooled(kind, **options):
    return lambda x: kind(x, 3, stride=2, padding=1, **options)


def attention(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, mask)


def grid(**options):
    return lambda x, places: F.grid_sample(x, places, **{"align_corners": False, **options})


def some(*sizes):
    """Positions between pixels; a third is NaN."""
    return draw(*sizes, share=0.33, specials=[NAN]) / 7


def few(*sizes):
    """Few special elements, so that not everything becomes NaN."""
    return draw(*sizes, share=0.06)


def plain(*sizes):
    return draw(*sizes, share=0.0)


UNARY = ("sqrt exp log abs neg reciprocal floor ceil round trunc logical_not isnan isinf "
         "rsqrt square exp2 expm1 log2 log10 log1p sin cos tan asin acos atan sinh cosh asinh acosh "
         "atanh relu sigmoid tanh erf sign")
BINARY = ("add sub mul div maximum minimum atan2 hypot eq ne lt le gt ge pow "
          "logical_and logical_or logical_xor")
CASES = [(name, "", getattr(torch, name), [(17,)]) for name in UNARY.split()]
CASES += [(name, "", getattr(torch, name), [(3, 11), (3, 11)]) for name in BINARY.split()]
CASES += [
    ("relu6", "", F.relu6, [(17,)]),
    ("clamp", "min=-1.0 max=2.0", lambda x: x.clamp(-1, 2), [(17,)]),
    ("clamp", "min=nan max=2.0", lambda x: x.clamp(NAN, 2), [(5,)]),
    ("clamp", "min=-inf max=nan", lambda x: x.clamp(-INF, NAN), [(5,)]),
    ("clamp", "min=2.0 max=-1.0", lambda x: x.clamp(2, -1), [(17,)]),
    ("leaky_relu", "", F.leaky_relu, [(17,)]),
    ("leaky_relu", "negative_slope=0.0", lambda x: F.leaky_relu(x, 0.0), [(17,)]),
    ("elu", "", F.elu, [(17,)]),
    ("selu", "", F.selu, [(17,)]),
    ("celu", "alpha=2.0", lambda x: F.celu(x, 2.0), [(17,)]),
    ("mish", "", F.mish, [(17,)]),
    ("silu", "", F.silu, [(17,)]),
    ("gelu", "", F.gelu, [(17,)]),
    ("gelu", "tanh_approximation=true", lambda x: F.gelu(x, approximate="tanh"), [(17,)]),
    ("hardswish", "", F.hardswish, [(17,)]),
    ("hardsigmoid", "", F.hardsigmoid, [(17,)]),
    ("softplus", "", F.softplus, [(17,)]),
    ("softsign", "", F.softsign, [(17,)]),
    ("logsigmoid", "", F.logsigmoid, [(17,)]),
    ("threshold", "threshold=0.5 value=-1.25", lambda x: F.threshold(x, 0.5, -1.25), [(17,)]),
    ("shrink", "lambd=0.75 bias=0.75", lambda x: F.softshrink(x, 0.75), [(17,)]),
    ("shrink", "lambd=0.75", lambda x: F.hardshrink(x, 0.75), [(17,)]),
    ("prelu", "", F.prelu, [(2, 3, 4), (3,)]),
    ("where", "", torch.where, ["b", (3, 7), (3, 7)]),
    ("softmax", "dim=1", lambda x: x.softmax(1), [few, (5, 9)]),
    ("softmax", "dim=0", lambda x: x.softmax(0), [few, (5, 9)]),
    ("log_softmax", "dim=1", lambda x: x.log_softmax(1), [few, (5, 9)]),
    ("sum", "dims=[1]", lambda x: x.sum(1), [few, (5, 9)]),
    ("mean", "dims=[1]", lambda x: x.mean(1), [few, (5, 9)]),
    ("mean", "dims=[2,3] keepdim=true", lambda x: x.mean((2, 3), True), [few, (2, 9, 3, 3)]),
    ("amax", "dims=[1]", lambda x: x.amax(1), [few, (5, 40)]),
    ("amin", "dims=[0]", lambda x: x.amin(0), [few, (5, 40)]),
    ("prod", "dims=[1]", lambda x: x.prod(1), [few, (5, 9)]),
    ("any", "dims=[1]", lambda x: x.any(1), [few, (5, 3)]),
    ("all", "dims=[1]", lambda x: x.all(1), [few, (5, 3)]),
    ("logsumexp", "dims=[1]", lambda x: x.logsumexp(1), [few, (5, 9)]),
    ("norm", "dims=[1]", lambda x: torch.linalg.vector_norm(x, dim=1), [few, (5, 9)]),
    ("norm", "dims=[1] p=inf", lambda x: torch.linalg.vector_norm(x, INF, dim=1), [few, (5, 9)]),
    ("var", "dims=[1]", lambda x: x.var(1), [few, (5, 9)]),
    ("std", "dims=[1]", lambda x: x.std(1), [few, (5, 9)]),
    ("argmax", "dims=[1]", lambda x: x.argmax(1), [few, (5, 9)]),
    ("argmin", "dims=[0]", lambda x: x.argmin(0), [few, (5, 9)]),
    ("sort", "", lambda x: x.sort(stable=True)[0], [few, (5, 9)]),
    ("sort", "descending=true", lambda x: x.sort(stable=True, descending=True)[0], [few, (5, 9)]),
    ("topk", "k=3", lambda x: x.topk(3)[0], [few, (5, 9)]),
    ("topk", "k=3 largest=false", lambda x: x.topk(3, largest=False)[0], [few, (5, 9)]),
    ("cumsum", "dim=1", lambda x: x.cumsum(1), [few, (5, 9)]),
    ("cumprod", "dim=1", lambda x: x.cumprod(1), [few, (5, 9)]),
    ("matmul", "", torch.matmul, [few, (5, 9), (9, 6)]),
    ("linear", "", F.linear, [few, (5, 9), (6, 9), (6,)]),
    ("conv2d", "padding=[1,1]", lambda *x: F.conv2d(*x, padding=1),
     [few, (1, 3, 5, 5), (4, 3, 3, 3), (4,)]),
    ("max_pool1d", "kernel=[3] stride=[2] padding=[1]", pooled(F.max_pool1d), [few, (2, 9, 7)]),
    ("max_pool2d", "kernel=[3,3] stride=[2,2] padding=[1,1]", pooled(F.max_pool2d),
     [few, (1, 9, 5, 7)]),
    ("max_pool2d", "kernel=[3,3] stride=[2,2] padding=[1,1]", pooled(F.max_pool2d), [(1, 3, 7, 7)]),
    ("max_pool3d", "kernel=[3,3,3] stride=[2,2,2] padding=[1,1,1]", pooled(F.max_pool3d),
     [few, (1, 2, 3, 5, 4)]),
    ("adaptive_max_pool", "output_size=[2,3]", lambda x: F.adaptive_max_pool2d(x, (2, 3)),
     [few, (1, 9, 5, 7)]),
    ("avg_pool2d", "kernel=[3,3] stride=[2,2] padding=[1,1]",
     pooled(F.avg_pool2d, count_include_pad=False), [few, (1, 9, 5, 7)]),
    ("adaptive_avg_pool", "output_size=[2,3]", lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
     [few, (1, 9, 5, 7)]),
    ("layer_norm", "", lambda x, *w: F.layer_norm(x, x.shape[-1:], *w), [few, (5, 9), (9,), (9,)]),
    ("scaled_dot_product_attention", "", attention,
     [plain, (1, 5, 4), (1, 6, 4), (1, 6, 4), "b"]),  # with a query that sees no key
]


def winograd(size, channels, kernel, stride, padding):
    """A convolution by transforms of tiles, of a source with few special elements and kernels with zeros."""
    attrs = (f'stride=[{stride},{stride}] padding=[{padding},{padding}] '
             f'algorithm="winograd_{size}"')
    return ("conv2d", attrs, lambda x, w, b: F.conv2d(x, w, b, stride, padding),
            [very_few, (1, channels, 13, 11), zeros_among, (5, channels, kernel, kernel), (5,)])


def very_few(*sizes):
    return draw(*sizes, share=0.015)


def zeros_among(*sizes):
    return draw(*sizes, share=0.2, specials=[0.0])


MAKERS = (few, plain, some, very_few, zeros_among)
CASES += [winograd(size, 3, 3, 1, 1) for size in (2, 4, 6)]
CASES += [winograd(size, 3, 5, 1, 2) for size in (4, 6)]
CASES += [winograd(size, 3, 3, 2, 1) for size in (2, 4)]
CASES += [winograd(6, 3, kernel, 2, kernel // 2) for kernel in (5, 6, 7, 8)]
CASES += [("grid_sample", attrs, grid(**options), [plain, (1, 2, 4, 5), some, (1, 3, 4, 2)])
          for attrs, options in (
              ("", {}), ('padding="border"', {"padding_mode": "border"}),
              ('padding="reflection" align_corners=true',
               {"padding_mode": "reflection", "align_corners": True}),
              ('mode="nearest"', {"mode": "nearest"}))]
SIZES_OF_BOOLS = {"where": (3, 7), "scaled_dot_product_attention": (5, 6)}


def number(value):
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.9g}"


def line(mark, tensor):
    sizes = ",".join(str(size) for size in tensor.shape)
    return f"{mark} [{sizes}] " + " ".join(number(v) for v in tensor.flatten().tolist())


def operands(op, shapes):
    make, made = draw, []
    for shape in shapes:
        if shape in MAKERS:
            make = shape
        elif shape == "b":
            mask = bools(*SIZES_OF_BOOLS[op])
            mask[2] = False  # for attention: a query without visible keys
            made.append(mask)
        else:
            made.append(make(*shape))
    return made


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print("# By tests/ops/values/special_cases.py with PyTorch 2.13.0.")
    for op, attributes, function, shapes in CASES:
        for _ in range(N_DRAWS):
            given = operands(op, shapes)
            print(op, attributes)
            for tensor in given:
                print(line("<b" if tensor.dtype == torch.bool else "<", tensor))
            print(line("=", function(*given)))


if __name__ == "__main__":
    sys.exit(main())
