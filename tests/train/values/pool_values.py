#!/usr/bin/env python3
"""Prints the table of test_pool.c: PyTorch 2.13.0's gradients of max_pool2d for windows with equal
elements, -inf or NaN.
"""
import torch
import torch.nn.functional as F

NAN, INF = float("nan"), float("inf")
ROWS = [[1, 1, 1, 1, 1, 1, 1, 1, 1], [0, 2, 2, 2, 0, 2, 2, 2, 0], [1, NAN, 3, 2, NAN, 1, 0, 5, 4],
        [-INF] * 9]


def main():
    for row in ROWS:
        x = torch.tensor([float(v) for v in row]).reshape(1, 1, 3, 3).requires_grad_()
        F.max_pool2d(x, 2, stride=1).backward(torch.tensor([[[[1.0, 2.0], [4.0, 8.0]]]]))
        print("    {{%s}, {%s}}," % (", ".join(str(v) for v in row),
                                     ", ".join("%g" % v for v in x.grad.flatten().tolist())))


if __name__ == "__main__":
    main()
