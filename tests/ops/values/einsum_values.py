#!/usr/bin/env python3
"""Writes einsum_values.txt: what torch.einsum gives, as an independent source.

Run by hand with PyTorch 2.13.0: python3 tests/ops/values/einsum_values.py > tests/ops/values/einsum_values.txt

An equation, the sizes of its operands with semicolons between, "=", the sizes of the result and its
elements. Element i of operand k is ((i * 97 + k * 31 + 11) % 251 - 125) / 128.
"""
import math

import torch

CASES = [
    ("ij,jk->ik", [3, 4], [4, 5]),
    ("ij,jk", [3, 4], [4, 5]),
    ("bij,bjk->bik", [2, 3, 4], [2, 4, 5]),
    ("bhid,bhjd->bhij", [2, 3, 4, 5], [2, 3, 6, 5]),
    ("bthd,bshd->bhts", [2, 3, 4, 5], [2, 6, 4, 5]),
    ("i,j->ij", [3], [4]),
    ("i,i->", [7], [7]),
    ("ii", [4, 4]),
    ("ii->i", [4, 4]),
    ("bijj->jb", [2, 3, 4, 4]),
    ("iij,jk->ki", [3, 3, 4], [4, 2]),
    ("ijk->kij", [2, 3, 4]),
    ("ijk->j", [2, 3, 4]),
    ("ba", [2, 3]),
    ("Ab,bA->", [2, 3], [3, 2]),
    ("...ij,...jk->...ik", [2, 1, 3, 4], [5, 4, 2]),
    ("...i,i->...", [2, 3, 4], [4]),
    ("i...,...->i...", [2, 3], [3]),
    ("...->...", [2, 3]),
    ("ij,jk,kl->il", [2, 3], [3, 4], [4, 5]),
    ("bn,anm,bm->ba", [2, 3], [4, 3, 5], [2, 5]),
    ("ij,kl->jl", [2, 3], [4, 5]),
    ("ij,ij,ij->ij", [2, 3], [2, 3], [2, 3]),
    ("b i j, b j -> b i", [2, 3, 4], [2, 4]),
    ("iii->i", [3, 3, 3]),
    ("ij,jk->", [2, 1], [3, 4]),
]


def main():
    print("# By tests/ops/values/einsum_values.py with PyTorch %s." % torch.__version__.split("+")[0])
    for equation, *shapes in CASES:
        operands = [torch.tensor([((i * 97 + k * 31 + 11) % 251 - 125) / 128
                                  for i in range(math.prod(sizes))], dtype=torch.float64)
                    .reshape(sizes) for k, sizes in enumerate(shapes)]
        result = torch.einsum(equation, *operands)
        print(equation.replace(" ", "_"), ";".join(",".join(map(str, sizes)) for sizes in shapes),
              "=", ",".join(map(str, result.shape)) or "-",
              *("%.12g" % number for number in result.flatten().tolist()))


main()
