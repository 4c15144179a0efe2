#!/usr/bin/env python3
"""Prints the tables of test_batch_norm.c: PyTorch 2.13.0's results for batch norm in training, in
double.

Element i of a tensor is (i * step % 97 - 48) / 16 + offset, an exact float.
"""
import torch


def fill(step, offset, *sizes):
    n = 1
    for size in sizes:
        n *= size
    values = [(i * step % 97 - 48) / 16 + offset for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(sizes)


def show(name, tensor):
    print("     .%s = {%s}," % (name, ", ".join("%.7gf" % v for v in tensor.flatten().tolist())))


def case(sizes, offset, momentum):
    x = fill(31, offset, *sizes).requires_grad_()
    kind = torch.nn.BatchNorm2d if len(sizes) == 4 else torch.nn.BatchNorm1d
    norm = kind(sizes[1], eps=1e-3, momentum=momentum).double()
    with torch.no_grad():
        norm.weight.copy_(fill(7, 0, sizes[1]))
        norm.bias.copy_(fill(5, 1, sizes[1]))
        norm(x * 2)
    y = norm(x)
    y.backward(fill(13, 0, *sizes))
    sizes_text = ", ".join(str(size) for size in sizes)
    print("    {%d, {%s}, %d, %g," % (len(sizes), sizes_text, offset, momentum or -1))
    show("y", y.flatten()[:6])
    show("running_mean", norm.running_mean)
    show("running_var", norm.running_var)
    show("grad", x.grad.flatten()[:6])
    show("grad_weight", norm.weight.grad)
    show("grad_bias", norm.bias.grad)
    print("    },")


def main():
    case((2, 3, 5, 7), 0, 0.1)
    case((2, 3, 5, 7), 1000, 0.1)
    case((7, 3), 0, None)
    case((3, 3, 4), 0, 0.25)
    try:
        torch.nn.BatchNorm1d(3)(fill(31, 0, 1, 3))
    except ValueError as error:
        print(error)


if __name__ == "__main__":
    main()
