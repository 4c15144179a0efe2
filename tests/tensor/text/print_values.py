#!/usr/bin/env python3
"""Prints PyTorch 2.13.0's text for the tensors of test_print.c, except for the type at the end. Run by
hand: python3 tests/tensor/text/print_values.py."""
import re

import torch

inf, nan = float("inf"), float("nan")
TENSORS = [
    torch.tensor([[1.0, 2.5], [3.0, -4.0]]),
    torch.tensor([1.0, 20.0, -3.0, 0.0, nan, inf, -inf]),
    torch.tensor([1e-5, 1.5, 2.0]),
    torch.tensor([1.0, 2.0, 3e8]),
    torch.tensor([nan, 0.0, -0.0, inf]),
    torch.tensor(2.5),
    torch.tensor([True, False]),
    torch.tensor([[1, -20], [300, 4]]),
    torch.arange(24, dtype=torch.float64).reshape(2, 3, 4),
    torch.arange(40, dtype=torch.int32),
    torch.arange(30, dtype=torch.float32) / 8,
    torch.arange(2000, dtype=torch.float32),
    torch.tensor([], dtype=torch.float32),
    (torch.arange(1001, dtype=torch.float32) / 4).reshape(7, 143),
]
for tensor in TENSORS:
    text = re.sub(r",\s*(dtype|size)=.*$", ")", repr(tensor))
    print(text[len("tensor("):-1], end="\n\n")
