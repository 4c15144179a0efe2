#!/usr/bin/env python3
"""Writes quantized_models.bin: small models of quantised operators with random elements, and what
ONNX Runtime gives for them.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.31.1:
    python3 tests/io/quantized_models.py tests/io/quantized_models.bin

The file is records of a letter, a length (4 bytes, little-endian) and that many bytes, which are a
message: M a ModelProto, with which a case begins; then I its inputs and O its outputs, TensorProtos.
"""
import struct
import sys

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

random = numpy.random.RandomState(7)
MICROSOFT = "com.microsoft"
f32, u8, s8, s16, u16, s32 = (numpy.float32, numpy.uint8, numpy.int8, numpy.int16, numpy.uint16,
                              numpy.int32)
cases = []


def integers(dtype, *sizes, low=None, high=None):
    info = numpy.iinfo(dtype)
    low = max(info.min, -70000) if low is None else low
    high = min(info.max, 70000) if high is None else high
    return random.randint(low, high + 1, sizes).astype(dtype)


def floats(*sizes, scale=1.0):
    return (random.uniform(-1, 1, sizes) * scale).astype(f32)


def scales(*sizes, around=0.05):
    return (around * random.uniform(0.5, 2, sizes)).astype(f32)


def model(nodes, inputs, constants, n_outputs, opset):
    """The last node gives the outputs y0, y1, ...; `inputs` are given at each run."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
         for k, v in inputs.items()],
        [onnx.ValueInfoProto(name="y%d" % i) for i in range(n_outputs)],
        [numpy_helper.from_array(numpy.asarray(v), k) for k, v in constants.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)])


def add(name, nodes, inputs, constants=None, n_outputs=1, opset=21):
    m = model(nodes, inputs, constants or {}, n_outputs, opset)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(m.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    out = session.run(None, inputs)
    m.graph.name = name
    del m.graph.output[:]
    for i, o in enumerate(out):
        m.graph.output.append(helper.make_tensor_value_info(
            "y%d" % i, helper.np_dtype_to_tensor_dtype(o.dtype), o.shape))
    cases.append(("M", m))
    cases.extend(("I", numpy_helper.from_array(v, k)) for k, v in inputs.items())
    cases.extend(("O", numpy_helper.from_array(v, "y%d" % i)) for i, v in enumerate(out))


def single(name, op, operands, live=1, n_outputs=1, opset=21, domain="", **attributes):
    """One node; the first `live` operands are inputs, the others constants, None is left out."""
    names = ["" if v is None else "i%d" % i for i, v in enumerate(operands)]
    node = helper.make_node(op, names, ["y%d" % i for i in range(n_outputs)], domain=domain,
                            **attributes)
    given = [(n, numpy.asarray(v)) for n, v in zip(names, operands) if v is not None]
    add(name, [node], dict(given[:live]), dict(given[live:]), n_outputs, opset)


def quantize():
    x = floats(2, 7, 3, 5, scale=9)
    x[0, 0, 0, :4] = 0.025, 0.075, -0.125, 3e38
    single("quantize", "QuantizeLinear", [x, f32(0.05), u8(128)], opset=10)
    single("quantize_live", "QuantizeLinear", [x, f32(0.031), s8(-7)], live=3, opset=13)
    for dtype in (u8, s8, s16, u16):
        single("quantize_axis", "QuantizeLinear", [x, scales(7), integers(dtype, 7)], axis=1)
        single("quantize_last", "QuantizeLinear", [x, scales(5), integers(dtype, 5)], axis=-1)
        single("dequantize_axis", "DequantizeLinear",
               [integers(dtype, 2, 7, 3), scales(7), integers(dtype, 7)], axis=1)
    single("quantize_dtype", "QuantizeLinear", [x, f32(0.04)], output_dtype=TensorProto.INT8)
    single("quantize_blocks", "QuantizeLinear", [x, scales(2, 3, 3, 5), integers(s8, 2, 3, 3, 5)],
           axis=1, block_size=3)
    single("dequantize_blocks", "DequantizeLinear",
           [integers(u8, 3, 17), scales(3, 5), integers(u8, 3, 5)], axis=1, block_size=4)
    single("dequantize_s32", "DequantizeLinear", [integers(s32, 3, 17), scales(17)], axis=1)
    single("quantize_s32", "QuantizeLinear", [integers(s16, 3, 17).astype(f32), f32(33), u8(9)])
    single("quantize_f16", "QuantizeLinear",
           [floats(3, 31, scale=4).astype(numpy.float16), numpy.float16(0.03), s8(3)])
    single("dequantize_f16", "DequantizeLinear",
           [integers(s8, 3, 31), scales(31).astype(numpy.float16), integers(s8, 31)], axis=1)
    single("microsoft", "QuantizeLinear", [x, f32(0.001), u16(30000)], domain=MICROSOFT)
    for x in (floats(3, 17), numpy.abs(floats(31)) + 1, -numpy.abs(floats(7, 3)) - 1,
              numpy.zeros((3,), f32)):
        single("dynamic", "DynamicQuantizeLinear", [x], n_outputs=3)


def main():
    quantize()
    with open(sys.argv[1], "wb") as file:
        for letter, message in cases:
            data = message.SerializeToString()
            file.write(letter.encode() + struct.pack("<I", len(data)) + data)


if __name__ == "__main__":
    main()
