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


def convolve():
    shapes = [((1, 3, 7, 5), (17, 3, 3, 3), dict(pads=[1, 1, 1, 1])),
              ((2, 7, 6, 6), (31, 7, 1, 1), dict(strides=[2, 1])),
              ((1, 17, 9, 8), (7, 17, 3, 2), dict(pads=[2, 0, 1, 1], dilations=[2, 1])),
              ((1, 16, 5, 5), (16, 1, 3, 3), dict(group=16, pads=[1, 1, 1, 1])),
              ((1, 12, 5, 5), (8, 3, 3, 3), dict(group=4, auto_pad="SAME_UPPER")),
              ((2, 5, 9), (3, 5, 4), dict(pads=[1, 2])),
              ((1, 3, 4, 5, 3), (4, 3, 2, 2, 2), dict(pads=[1, 0, 1, 0, 1, 0]))]
    for x, w, attributes in shapes:
        for dtype, by_output in ((s8, True), (s8, False), (u8, False)):
            zero = s8(0) if dtype is s8 else u8(130)
            operands = [integers(u8, *x), f32(0.02), u8(119), integers(dtype, *w),
                        scales(w[0], around=0.01) if by_output else f32(0.011),
                        numpy.full(w[0], zero) if by_output else zero, f32(0.3), u8(121),
                        integers(s32, w[0], low=-9000, high=9000) if by_output else None]
            single("qlinear_conv", "QLinearConv", operands, live=1, **attributes)
        single("qlinear_conv_s8", "QLinearConv",
               [integers(s8, *x), f32(0.02), s8(-3), integers(s8, *w), f32(0.01), s8(0), f32(0.4),
                s8(5)], live=4, **attributes)
        if "auto_pad" not in attributes and len(x) == 4:
            single("conv_integer", "ConvInteger", [integers(u8, *x), integers(u8, *w), u8(9)],
                   live=2, **attributes)
    single("conv_integer_zeros", "ConvInteger",
           [integers(u8, 1, 3, 5, 5), integers(u8, 4, 3, 3, 3), u8(9), u8(77)], live=4)


def multiply():
    for a, b in (((3, 7), (7, 5)), ((17, 31), (31, 3)), ((2, 3, 17), (17, 7)),
                 ((2, 3, 4), (2, 4, 5))):
        for a_type, b_type in ((u8, s8), (u8, u8), (s8, s8)):
            for live in (1, 4):
                single("matmul_integer", "MatMulInteger",
                       [integers(a_type, *a), integers(b_type, *b), integers(a_type, 1)[0],
                        integers(b_type, 1)[0]], live=live)
                single("qlinear_matmul", "QLinearMatMul",
                       [integers(a_type, *a), f32(0.03), integers(a_type, 1)[0], integers(b_type, *b),
                        f32(0.02), integers(b_type, 1)[0], f32(1.7), integers(a_type, 1)[0]],
                       live=live)
        single("matmul_integer_plain", "MatMulInteger", [integers(u8, *a), integers(s8, *b)], live=2)
        if len(b) == 2:
            single("qlinear_matmul_columns", "QLinearMatMul",
                   [integers(u8, *a), f32(0.03), u8(9), integers(s8, *b), scales(b[1]),
                    numpy.zeros(b[1], s8), f32(1.9), u8(3)])
            single("matmul_integer_columns", "MatMulInteger",
                   [integers(u8, *a), integers(u8, *b), u8(3), integers(u8, b[1])])


def main():
    quantize()
    convolve()
    multiply()
    with open(sys.argv[1], "wb") as file:
        for letter, message in cases:
            data = message.SerializeToString()
            file.write(letter.encode() + struct.pack("<I", len(data)) + data)


if __name__ == "__main__":
    main()
