#!/usr/bin/env python3
"""Prints the table of test_grid_values.c: PyTorch 2.13.0's gradients of grid_sample for a 3 x 3 image
and for the grid. Run by hand: python3 tests/train/values/grid_values.py
"""
import torch
import torch.nn.functional as F

PICTURE = [1.0, -2.0, 4.0, 0.5, 3.0, -1.0, 2.0, -3.0, 5.0]
GRID = [-0.75, -0.5, 0.25, 0.375, 0.875, -0.25, 1.375, 0.5, -1.625, -1.25, 0.125, 2.75]
MODES = [("bilinear", "LINEAR"), ("nearest", "NEAREST"), ("bicubic", "CUBIC")]
PADDINGS = [("zeros", "ZEROS"), ("border", "BORDER"), ("reflection", "REFLECTION")]


def main():
    for mode, own_mode in MODES:
        for padding, own_padding in PADDINGS:
            for aligns in (False, True):
                x = torch.tensor(PICTURE).reshape(1, 1, 3, 3).requires_grad_()
                grid = torch.tensor(GRID).reshape(1, 2, 3, 2).requires_grad_()
                y = F.grid_sample(x, grid, mode, padding, aligns)
                y.backward(torch.arange(1, 7, dtype=torch.float32).reshape(y.shape))
                rows = [", ".join("%.9gf" % v if "." in "%.9g" % v else "%.9g" % v for v in t.flatten().tolist())
                        for t in (x.grad, grid.grad)]
                print("    {GRID_%s, GRID_%s, %s,\n     {%s},\n     {%s}},"
                      % (own_mode, own_padding, str(aligns).lower(), *rows))


if __name__ == "__main__":
    main()
