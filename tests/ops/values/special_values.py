#!/usr/bin/env python3
"""Prints the tables of test_special_values.c: what PyTorch 2.13.0 gives for NaN, infinities and
results near 0. In f64, so that the results are right to the last place of f32.
"""
import torch
import torch.nn.functional as F

INF, NAN = float("inf"), float("nan")
X = [NAN, INF, -INF, 0.0, 1e-40, -20.0, -50.0, -8.0, -10.0, 20.0, 88.5, 89.0, 1.0001, 0.9999, -3.0,
     0.5]
FUNCTIONS = [
    ("relu", "", F.relu),
    ("relu6", "", F.relu6),
    ("clamp", "min=-0.5 max=0.75", lambda x: x.clamp(-0.5, 0.75)),
    ("leaky_relu", "", F.leaky_relu),
    ("leaky_relu", "negative_slope=0.0", lambda x: F.leaky_relu(x, 0.0)),
    ("elu", "", F.elu),
    ("selu", "", F.selu),
    ("celu", "alpha=2.0", lambda x: F.celu(x, 2.0)),
    ("mish", "", F.mish),
    ("shrink", "lambd=0.75 bias=0.75", lambda x: F.softshrink(x, 0.75)),
    ("threshold", "threshold=0.5", lambda x: F.threshold(x, 0.5, 0)),
    ("softsign", "", F.softsign),
    ("logsigmoid", "", F.logsigmoid),
    ("rsqrt", "", torch.rsqrt),
    ("square", "", torch.square),
    ("exp2", "", torch.exp2),
    ("expm1", "", torch.expm1),
    ("log2", "", torch.log2),
    ("log10", "", torch.log10),
    ("log1p", "", torch.log1p),
    ("gelu", "", F.gelu),
    ("erf", "", torch.erf),
    ("sigmoid", "", torch.sigmoid),
    ("tanh", "", torch.tanh),
    ("hardsigmoid", "", F.hardsigmoid),
    ("hardswish", "", F.hardswish),
    ("silu", "", F.silu),
    ("softplus", "", lambda x: F.softplus(x, threshold=1000)),
    ("exp", "", torch.exp),
    ("log", "", torch.log),
    ("abs", "", torch.abs),
    ("neg", "", torch.neg),
]


def number(value):
    if value != value:
        return "NAN"
    if abs(value) > 3.4028235e38:
        return "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value if abs(value) > 1e-45 else 0:.9g}"
    return text + "f" if "." in text or "e" in text else text + ".0f"


def main():
    x = torch.tensor(X, dtype=torch.float32).double()
    print("{" + ", ".join(number(v) for v in X) + "}")
    for name, attrs, function in FUNCTIONS:
        values = ", ".join(number(v) for v in function(x).tolist())
        print(f'{{"{name}", "{attrs}", {{{values}}}}},')


if __name__ == "__main__":
    main()
