#!/usr/bin/env python3
"""Writes recurrent_values.txt: results of PyTorch's recurrent layers, as an independent source.

Run by hand with PyTorch 2.13.0: python3 tests/module/recurrent_values.py

Each layer has a line of options, a line for each name in its state dict, and for each result a line
of its elements in row-major order. Parameters and inputs are determined by their number, see `fill`.
Everything is computed in f64.
"""
import os

import torch

T, N, C, H = 5, 3, 4, 6
X, H0, C0 = 100, 101, 102  # numbers of the inputs; parameters count from 0


def fill(sizes, number):
    n = 1
    for size in sizes:
        n *= size
    values = [((i * 97 + number * 31 + 11) % 251 - 125) / 256 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).reshape(sizes)


LAYERS = [(kind, layers, bidirectional, batch_first, bias, states, single)
          for kind in ("LSTM", "GRU", "RNN")
          for layers, bidirectional, batch_first, bias, states, single in (
              (1, False, False, True, False, False),
              (1, True, False, True, True, False),
              (2, False, True, False, True, False),
              (2, True, True, True, False, False),
              (2, True, False, True, True, True))]
LAYERS.append(("RELU", 2, True, True, True, True, False))


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recurrent_values.txt")
    with open(path, "w") as file:
        for kind, layers, bidirectional, batch_first, bias, states, single in LAYERS:
            options = {"nonlinearity": "relu"} if kind == "RELU" else {}
            layer = getattr(torch.nn, "RNN" if kind == "RELU" else kind)(
                C, H, layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional,
                **options).double()
            print("layer", kind, *[int(o) for o in (layers, bidirectional, batch_first, bias, states,
                                                    single)], file=file)
            for i, (name, parameter) in enumerate(layer.named_parameters()):
                parameter.data = fill(parameter.shape, i)
                print("name", name, file=file)
            n = layers * (2 if bidirectional else 1)
            x = fill([T, C] if single else [N, T, C] if batch_first else [T, N, C], X)
            sizes = [n, H] if single else [n, N, H]
            given = (fill(sizes, H0), fill(sizes, C0)) if kind == "LSTM" else fill(sizes, H0)
            with torch.no_grad():
                y, last = layer(x, given) if states else layer(x)
            for result in (y, *(last if kind == "LSTM" else (last,))):
                print("result", result.numel(), *[f"{v:.9g}" for v in result.flatten().tolist()],
                      file=file)


if __name__ == "__main__":
    main()
