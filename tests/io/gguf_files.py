#!/usr/bin/env python3
"""Writes blocks.gguf with the Python package gguf (0.19): metadata of every type, and for each
quantised type T that is read a tensor T of random blocks and a tensor T.values, which has the
numbers that the package computes from them. Reserved types are listed but not read.

usage: tests/io/gguf_files.py    (writes to tests/io)"""

import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

HALVES = {  # bytes of a block that hold f16 numbers
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def blocks_of(name, random, n_rows):
    """Random codes. Scales are random, some of them zero, negative, denormal or large."""
    block, n_bytes = gguf.GGML_QUANT_SIZES[Type[name]]
    blocks = random.integers(0, 256, (n_rows, 256 // block, n_bytes), dtype=np.uint8)
    for at in HALVES[name]:
        halves = (random.standard_normal(blocks.shape[:2]) * 0.1).astype(np.float16)
        special = np.array([0, -0.0, 6e-8, -3e-5, 1000], np.float16)
        halves.reshape(-1)[:5] = special[: halves.size]
        blocks[:, :, at:at + 2] = halves[..., None].view(np.uint8)
    return blocks.reshape(n_rows, -1)


def main():
    random = np.random.default_rng(1)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blocks.gguf")
    writer = gguf.GGUFWriter(path, "test")
    for kind, number in (("uint8", 200), ("int8", -100), ("uint16", 60000), ("int16", -30000),
                         ("uint32", 4000000000), ("int32", -2000000000), ("float32", 0.5),
                         ("uint64", 2**63), ("int64", -(2**62)), ("float64", 0.1)):
        getattr(writer, "add_" + kind)("test." + kind, number)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "zwölf \u2713")
    writer.add_array("test.strings", ["a", "", "ü\n"])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.5])
    for name in HALVES:
        blocks = blocks_of(name, random, 3)
        writer.add_tensor(name, blocks, raw_dtype=Type[name])
        writer.add_tensor(name + ".values", gguf.dequantize(blocks, Type[name]))
    exact = np.array([[[1, -2, 0.5]], [[0, 3, 4]]])
    for dtype in ("float16", "float32", "float64", "int8", "int16", "int32", "int64"):
        writer.add_tensor(dtype, exact.astype(dtype))
    bf16 = gguf.quantize(exact.astype(np.float32), Type.BF16)
    writer.add_tensor("bfloat16", bf16, raw_dtype=Type.BF16)
    writer.add_tensor("Q2_K", random.integers(0, 256, (1, 84), dtype=np.uint8),
                      raw_dtype=Type.Q2_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
