#!/usr/bin/env python3
"""Prints the table of test_reductions.c: what PyTorch 2.13.0 gives for rows with NaN, infinities,
zeros and numbers whose squares and products f32 does not hold. In f64, rounded to f32.
"""
import torch
from special_values import INF, NAN, number

ROWS = [[NAN, 1.0, -2.0], [INF, 1.0, -INF], [INF, INF, 2.0], [-INF, -INF, -INF], [0.0, 0.0, -0.0],
        [3e38, -3e38, 1e38], [-20.0, 0.5, 88.5]]
norm = torch.linalg.vector_norm
REDUCTIONS = [
    ("amax", "", lambda x: x.amax(1)),
    ("amin", "", lambda x: x.amin(1)),
    ("prod", "", lambda x: x.prod(1)),
    ("any", "", lambda x: x.any(1)),
    ("all", "", lambda x: x.all(1)),
    ("logsumexp", "", lambda x: x.logsumexp(1)),
    ("norm", "", lambda x: norm(x, 2, 1)),
    ("norm", "p=0.0", lambda x: norm(x, 0, 1)),
    ("norm", "p=1.0", lambda x: norm(x, 1, 1)),
    ("norm", "p=3.0", lambda x: norm(x, 3, 1)),
    ("norm", "p=-1.0", lambda x: norm(x, -1, 1)),
    ("norm", "p=inf", lambda x: norm(x, INF, 1)),
    ("norm", "p=-inf", lambda x: norm(x, -INF, 1)),
    ("var", "", lambda x: x.var(1)),
    ("var", "correction=3", lambda x: x.var(1, correction=3)),
    ("std", "correction=0", lambda x: x.std(1, correction=0)),
]


def main():
    x = torch.tensor(ROWS, dtype=torch.float32).double()
    for name, attrs, function in REDUCTIONS:
        values = ", ".join(number(v) for v in function(x).double().tolist())
        print(f'{{"{name}", "{attrs}", {{{values}}}}},')


if __name__ == "__main__":
    main()
