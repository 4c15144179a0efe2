#!/usr/bin/env python3
"""Prints the table `known` of test_eltwise.c, computed by textbook formulas in 40 digits (mpmath)."""
import mpmath as m

m.mp.dps = 40
f = m.mpf


def sigmoid(x):
    return 1 / (1 + m.e**-x)


def clamp(x, low, high):
    return min(max(x, f(low)), f(high))


# name: (alpha, beta, points, function)
USUAL, NEGATIVE, POSITIVE = (-2.5, 0.5, 4.0), (-6.0, 0.5, 4.0), (0.25, 2.0, 9.0)
SCALE, SLOPE = f("1.0507009873554804934193349852946"), f("1.6732632423543772848170429916717")
FUNCTIONS = {
    "relu": (0, 0, USUAL, lambda x: max(x, f(0))),
    "leaky_relu": (0.25, 0, USUAL, lambda x: x if x > 0 else x / 4),
    "elu": (1.5, 0, USUAL, lambda x: x if x > 0 else f("1.5") * (m.e**x - 1)),
    "selu": (0, 0, USUAL, lambda x: SCALE * (x if x > 0 else SLOPE * (m.e**x - 1))),
    "clamp": (-1, 2, USUAL, lambda x: clamp(x, -1, 2)),
    "sigmoid": (0, 0, NEGATIVE, sigmoid),
    "tanh": (0, 0, USUAL, m.tanh),
    "gelu": (0, 0, NEGATIVE, lambda x: x * m.ncdf(x)),
    "gelu_tanh": (0, 0, NEGATIVE,
                  lambda x: x / 2 * (1 + m.tanh(m.sqrt(2 / m.pi) * (x + f("0.044715") * x**3)))),
    "silu": (0, 0, NEGATIVE, lambda x: x * sigmoid(x)),
    "hardsigmoid": (0.25, 0.5, USUAL, lambda x: clamp(x / 4 + f("0.5"), 0, 1)),
    "hardswish": (0, 0, USUAL, lambda x: x * clamp(x + 3, 0, 6) / 6),
    "softplus": (0, 0, NEGATIVE, lambda x: m.log(1 + m.e**x)),
    "exp": (0, 0, USUAL, m.exp),
    "log": (0, 0, POSITIVE, m.log),
    "sqrt": (0, 0, POSITIVE, m.sqrt),
    "abs": (0, 0, USUAL, abs),
    "square": (0, 0, USUAL, lambda x: x * x),
    "erf": (0, 0, USUAL, m.erf),
    "neg": (0, 0, USUAL, lambda x: -x),
    "reciprocal": (0, 0, USUAL, lambda x: 1 / x),
    "linear": (3, -0.5, USUAL, lambda x: 3 * x - f("0.5")),
}

for name, (alpha, beta, points, function) in FUNCTIONS.items():
    values = ", ".join(repr(float(function(f(x)))) for x in points)
    xs = ", ".join(map(repr, points))
    print(f"    {{ELTWISE_{name.upper()}, {alpha}, {beta}, {{{xs}}}, {{{values}}}}},")
