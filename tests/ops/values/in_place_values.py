#!/usr/bin/env python3
"""Prints the tables of test_in_place.c: what PyTorch 2.13.0 leaves in a tensor that its functions
with a trailing underscore have written.
"""
import torch
import torch.nn.functional as F
from special_values import number

X = [0.25, -0.5, 1.5, 3.0]
Y = [2.0, -0.5, 0.75, 3.0]
I = [6, -7, 12, 0]
J = [4, 3, 2, 1]

# test_in_place.c reads values of activations from eltwise_values.txt.
ONE = ["relu6", "floor", "ceil", "round", "trunc", "sign", "softsign", "logsigmoid", "rsqrt", "square",
       "exp2", "expm1", "log2", "log10", "log1p", "logical_not", "isnan", "isinf", "sin", "cos", "tan",
       "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"]
TWO = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "div_trunc", "div_floor", "fmod",
       "remainder", "atan2", "hypot", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]


def one(name, x):
    method = getattr(x, name + "_", None)
    if method is not None:
        return method()
    function = getattr(F, name, None) or getattr(torch, name)
    return function(x).to(x.dtype)


def two(name, x, y):
    if name.startswith("div_"):
        return x.div_(y, rounding_mode=name[4:])
    method = getattr(x, name + "_", None)
    return method(y) if method is not None else getattr(torch, name)(x, y)


def row(name, values):
    print("    {%s}," % ", ".join([f'"{name}"', f"op_{name}_",
                                   "{%s}" % ", ".join(number(float(v)) for v in values)]))


def main():
    for name in ONE:
        row(name, one(name, torch.tensor(X)).tolist())
    print("two")
    for name in TWO:
        row(name, two(name, torch.tensor(X), torch.tensor(Y)).tolist())
    print("bits")
    for name in BITS:
        row(name, two(name, torch.tensor(I, dtype=torch.int32),
                      torch.tensor(J, dtype=torch.int32)).tolist())
    print("with numbers")
    x = lambda: torch.tensor(X)
    for name, values in [("add_scalar", x().add_(0.5)), ("sub_scalar", x().sub_(0.5)),
                         ("mul_scalar", x().mul_(0.5)), ("div_scalar", x().div_(0.5)),
                         ("pow_scalar", x().pow_(2.5)),
                         ("add_integer", x().add_(3)), ("sub_integer", x().sub_(3)),
                         ("mul_integer", x().mul_(3)), ("div_integer", x().div_(3)),
                         ("pow_integer", x().pow_(3)), ("fill", x().fill_(1.25))]:
        row(name, values.tolist())


if __name__ == "__main__":
    main()
