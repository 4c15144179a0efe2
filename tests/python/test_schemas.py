"""The table of ONNX operators against the schemas of the package onnx: for each opset, how many
inputs an operator takes."""

import pathlib
import re

import onnx.defs

ROOT = pathlib.Path(__file__).parents[2]
TABLE = ROOT / "io/onnx/ops.def"
ACTIVATIONS = ROOT / "kernels/elementwise/eltwise.def"
LINE = re.compile(r"(?:OPERATOR|ANY)\((\w+), (\d+), (\w+), (\d+), (-?\d+)")
NEWEST = onnx.defs.onnx_opset_version()
MANY = 2**31 - 1

# More is accepted than the schemas allow: inputs that later opsets made optional, and Loop's first
# two, which are counted but may be empty. Einsum: an operator of Tessera takes 16 inputs.
WIDER = {"Gemm", "Loop", "OptionalHasElement", "Resize"}
NARROWER = {"Einsum"}


def lines():
    for name, first in re.findall(r"\bONNX\((\w+), (\d+),", ACTIVATIONS.read_text()):
        yield name, int(first), NEWEST, 1, 1
    for line in TABLE.read_text().splitlines():
        if match := LINE.match(line):
            name, first, last, least, most = match.groups()
            last = NEWEST if last == "NOW" else int(last)
            yield name, int(first), last, int(least), MANY if most == "-1" else int(most)


def test_inputs_are_those_of_the_schemas():
    wrong = []
    n = 0
    for name, first, last, least, most in lines():
        for opset in range(first, min(last, NEWEST) + 1):
            if not onnx.defs.has(name, opset, ""):
                continue
            schema = onnx.defs.get_schema(name, opset, "")
            n += 1
            fits = (
                least <= schema.min_input and most >= schema.max_input
                if name in WIDER
                else least == schema.min_input and (most == schema.max_input or name in NARROWER)
            )
            if not fits:
                wrong.append((name, opset, least, most, schema.min_input, schema.max_input))
    assert wrong == []
    assert n > 1000


def test_no_opset_of_an_operator_is_left_out():
    opsets = {}
    for name, first, last, _, _ in lines():
        opsets.setdefault(name, []).append((first, last))
    for name, ranges in opsets.items():
        ranges.sort()
        for (_, last), (first, _) in zip(ranges, ranges[1:]):
            assert first == last + 1, name
