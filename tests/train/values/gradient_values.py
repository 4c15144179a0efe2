#!/usr/bin/env python3
"""Prints the table of test_gradient_values.c: PyTorch 2.13.0's gradients at kinks, ties, zeros, and
points without slope. Run by hand: python3 tests/train/values/gradient_values.py

The result's gradient is 1, 2, 3, ... In f32.
"""
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "ops", "values"))
from special_values import INF, NAN, number  # noqa: E402

KINKS = [-6.0, -3.0, -1.0, 0.0, 0.5, 1.0, 3.0, 6.0]
ZEROS = [0.0, 2.0, -3.0, 0.0]
norm = torch.linalg.vector_norm


def in_double(function):
    """For numbers whose squares exceed f32."""
    return lambda x: function(x.double()).float()


CASES = [
    ("relu", "", [KINKS], F.relu),
    ("relu6", "", [KINKS], F.relu6),
    ("clamp", "min=-1.0 max=1.0", [KINKS], lambda x: x.clamp(-1, 1)),
    ("clamp", "min=1.0 max=-1.0", [KINKS], lambda x: x.clamp(1, -1)),
    ("leaky_relu", "negative_slope=0.25", [KINKS], lambda x: F.leaky_relu(x, 0.25)),
    ("elu", "alpha=0.5", [KINKS], lambda x: F.elu(x, 0.5)),
    ("celu", "alpha=2.0", [KINKS], lambda x: F.celu(x, 2.0)),
    ("selu", "", [KINKS], F.selu),
    ("gelu", "", [KINKS], F.gelu),
    ("gelu", "tanh_approximation=true", [KINKS], lambda x: F.gelu(x, approximate="tanh")),
    ("mish", "", [KINKS], F.mish),
    ("silu", "", [KINKS], F.silu),
    ("softplus", "", [KINKS], F.softplus),
    ("hardsigmoid", "", [KINKS], F.hardsigmoid),
    ("hardswish", "", [KINKS], F.hardswish),
    ("shrink", "lambd=1.0", [KINKS], lambda x: F.hardshrink(x, 1.0)),
    ("shrink", "lambd=1.0 bias=1.0", [KINKS], lambda x: F.softshrink(x, 1.0)),
    ("threshold", "threshold=1.0 value=7.0", [KINKS], lambda x: F.threshold(x, 1.0, 7.0)),
    ("abs", "", [KINKS], torch.abs),
    ("softsign", "", [KINKS], F.softsign),
    ("sqrt", "", [[0.0, 4.0]], torch.sqrt),
    ("log", "", [[0.0, 4.0]], torch.log),
    ("reciprocal", "", [ZEROS], torch.reciprocal),
    ("relu", "", [[NAN, -INF, INF]], F.relu),
    ("pow", "", [[0.0, 0.0, 0.0, 2.0, -2.0, -2.0, 0.0, 2.0], [0.0, 2.0, 0.5, 0.0, 2.0, 3.0, 1.0, -1.0]],
     torch.pow),
    ("maximum", "", [[1.0, 2.0, 3.0, NAN], [1.0, 3.0, 2.0, 1.0]], torch.maximum),
    ("minimum", "", [[1.0, 2.0, 3.0, NAN], [1.0, 3.0, 2.0, 1.0]], torch.minimum),
    ("fmod", "", [[5.5, -5.5, 6.0, 2.0], [2.0, 2.0, -4.0, 7.0]], torch.fmod),
    ("remainder", "", [[5.5, -5.5, 6.0, 2.0], [2.0, 2.0, -4.0, 7.0]], torch.remainder),
    ("atan2", "", [[1.0, -1.0, 0.0, 0.0], [0.0, -1.0, -2.0, 2.0]], torch.atan2),
    ("hypot", "", [[3.0, -3.0, 0.0, 0.0], [4.0, 0.0, -2.0, 0.0]], torch.hypot),
    ("prelu", "", [ZEROS, [0.25]], F.prelu),
    ("amax", "", [[1.0, 3.0, 3.0, 3.0]], lambda x: x.amax(0)),
    ("amin", "", [[1.0, 3.0, 1.0, 3.0]], lambda x: x.amin(0)),
    ("prod", "", [[2.0, 3.0, -4.0]], lambda x: x.prod()),
    ("prod", "", [[2.0, 0.0, -4.0]], lambda x: x.prod()),
    ("prod", "", [[2.0, 0.0, 0.0]], lambda x: x.prod()),
    ("cumprod", "", [[2.0, 0.0, -4.0, 0.0, 3.0]], lambda x: x.cumprod(0)),
    ("norm", "", [[0.0, 0.0]], lambda x: norm(x, 2)),
    ("norm", "", [ZEROS], lambda x: norm(x, 2)),
    ("norm", "", [[3 * 2.0**-132, 4 * 2.0**-132]], in_double(lambda x: norm(x, 2))),
    ("std", "", [[0.0, 2.0**-130]], in_double(torch.std)),
    ("norm", "p=0.0", [ZEROS], lambda x: norm(x, 0)),
    ("norm", "p=1.0", [ZEROS], lambda x: norm(x, 1)),
    ("norm", "p=0.5", [ZEROS], lambda x: norm(x, 0.5)),
    ("norm", "p=1.5", [ZEROS], lambda x: norm(x, 1.5)),
    ("norm", "p=3.0", [ZEROS], lambda x: norm(x, 3)),
    ("norm", "p=3.0", [[0.0, 0.0]], lambda x: norm(x, 3)),
    ("norm", "p=inf", [[-3.0, 3.0, 1.0]], lambda x: norm(x, INF)),
    ("norm", "p=-inf", [[-3.0, 1.0, 1.0]], lambda x: norm(x, -INF)),
    ("var", "", [[1.0, 2.0, 4.0]], lambda x: x.var()),
    ("std", "", [[2.0, 2.0]], lambda x: x.std()),
    ("std", "correction=0", [[1.0, 2.0, 4.0]], lambda x: x.std(correction=0)),
    ("logsumexp", "", [[1.0, -INF, 2.0]], lambda x: x.logsumexp(0)),
]


def main():
    for name, attrs, given, function in CASES:
        inputs = [torch.tensor(values, requires_grad=True) for values in given]
        out = function(*inputs)
        grad = torch.arange(1, out.numel() + 1, dtype=torch.float32).reshape(out.shape)
        out.backward(grad)

        def table(tensors):
            rows = []
            for tensor in tensors:
                tensor = torch.zeros_like(inputs[0]) if tensor is None else tensor
                rows.append("{" + ", ".join(number(v) for v in tensor.flatten().tolist()) + "}")
            return "{" + ", ".join(rows) + "}"

        sizes = ", ".join(str(len(values)) for values in given)
        print(f'{{"{name}", "{attrs}", {{{sizes}}}, {table([i.detach() for i in inputs])}, '
              f'{table([i.grad for i in inputs])}}},')


if __name__ == "__main__":
    main()
