#!/usr/bin/env python3
"""Prints the table of test_recurrent_gradients.c: PyTorch 2.13.0's gradients of two stacked recurrent
layers in both directions. Run by hand:
python3 tests/train/values/recurrent_gradient_values.py

`fill` determines x, the parameters and the gradient of y. Prints two numbers per gradient: its sum
with weights from `fill`, and the sum of its squares. Computed in f64.
"""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "module"))
from recurrent_values import C, H, N, T, X, fill  # noqa: E402

GRAD, WEIGHTS = 55, 77


def line(name, grad):
    weights = fill(grad.shape, WEIGHTS)
    print(f'    {{"{name}", {(grad * weights).sum().item():.9g}, {(grad * grad).sum().item():.9g}}},')


def main():
    for kind in ("LSTM", "GRU", "RNN"):
        layer = getattr(torch.nn, kind)(C, H, 2, batch_first=True, bidirectional=True).double()
        for i, parameter in enumerate(layer.parameters()):
            parameter.data = fill(parameter.shape, i)
        x = fill([N, T, C], X).requires_grad_()
        y, _ = layer(x)
        y.backward(fill(y.shape, GRAD))
        print(f"/* {kind} */")
        line("x", x.grad)
        for name, parameter in layer.named_parameters():
            line(name, parameter.grad)


if __name__ == "__main__":
    main()
