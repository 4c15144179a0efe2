#!/usr/bin/env python3
"""Writes quantized_models.bin: small models of quantised operators with random elements, and what
ONNX Runtime gives for them.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.32.0, on a processor with VNNI (on others its sums of
products of u8 and s8 saturate):
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


def leave_out(*inputs):
    """Inputs of the last model's node: what they were is what it means to leave them out. Here
    ONNX Runtime refuses models that its own schema allows."""
    proto = [message for letter, message in cases if letter == "M"][-1]
    for i in inputs:
        proto.graph.node[0].input[i] = ""


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


def microsoft():
    shape, one = (2, 5, 7, 3), (1, 5, 1, 1)
    for dtype in (u8, s8):
        for op in ("QLinearAdd", "QLinearMul"):
            for b in (shape, one):
                single(op, op, [integers(dtype, *shape), f32(0.03), integers(dtype, 1)[0],
                                integers(dtype, *b), f32(0.017), integers(dtype, 1)[0],
                                f32(0.05 if op == "QLinearAdd" else 0.1), integers(dtype, 1)[0]],
                       live=4, domain=MICROSOFT)
            single("no_zeros", op, [integers(dtype, *shape), f32(0.03), dtype(0),
                                    integers(dtype, *one), f32(0.017), dtype(0), f32(0.05)],
                   live=4, domain=MICROSOFT)
            leave_out(2, 5)
        single("halves", "QLinearAdd",
               [integers(dtype, 3, 31), f32(0.5), dtype(3), integers(dtype, 3, 31), f32(0.5),
                dtype(5), f32(1.0), dtype(7)], live=4, domain=MICROSOFT)
        operands = [integers(dtype, *shape), f32(0.04), dtype(9)]
        single("near_sigmoid", "QLinearSigmoid", operands + [f32(1 / 256), dtype(0)], domain=MICROSOFT)
        single("near_leaky", "QLinearLeakyRelu", operands + [f32(0.03), dtype(7)], domain=MICROSOFT,
               alpha=0.3)
        single("global", "QLinearGlobalAveragePool", operands + [f32(0.02), dtype(30)],
               domain=MICROSOFT)
        single("near_average", "QLinearAveragePool", operands + [f32(0.03), dtype(30)],
               domain=MICROSOFT, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
        node = helper.make_node("QLinearConcat", ["s", "z", "a", "as", "az", "b", "bs", "bz"],
                                ["y0"], domain=MICROSOFT, axis=1)
        add("concat", [node], {"a": integers(dtype, 2, 3), "b": integers(dtype, 2, 5)},
            {"s": f32(0.05), "z": dtype(4), "as": f32(0.05), "az": dtype(4), "bs": f32(0.013),
             "bz": dtype(100)})
    for dtype in (u8, s8):
        for by_column in (False, True):
            b = integers(dtype, 17, 7)
            scale = scales(7) if by_column else f32(0.02)
            zero = integers(dtype, 7) if by_column else dtype(3)
            bias = floats(7)
            single("dynamic_matmul", "DynamicQuantizeMatMul",
                   [floats(5, 17), b, scale, zero, bias if by_column else None], domain=MICROSOFT)
            single("to_float", "MatMulIntegerToFloat",
                   [integers(u8, 2, 3, 17), b, f32(0.1), scale, u8(7), zero, bias], domain=MICROSOFT)
    for trans in (0, 1):
        b, c = integers(s8, *((7, 17) if trans else (17, 7))), integers(s32, 7, low=-900, high=900)
        operands = [integers(u8, 5, 17), f32(0.02), u8(7), b, scales(7), numpy.zeros(7, s8), c]
        single("gemm_float", "QGemm", operands, domain=MICROSOFT, transB=trans, alpha=0.5)
        single("gemm", "QGemm", operands + [f32(1.3), u8(110)], domain=MICROSOFT, transB=trans)


def quantize_around():
    """Numbers between QuantizeLinear and DequantizeLinear, as tools that quantise models leave them:
    what is between the two is computed with numbers."""
    def pair(x, scale, zero, y, axis=1):
        return [helper.make_node("QuantizeLinear", [x, scale, zero], [y + "_q"], axis=axis),
                helper.make_node("DequantizeLinear", [y + "_q", scale, zero], [y], axis=axis)]

    def dequantize(x, scale, zero, y, axis):
        return [helper.make_node("DequantizeLinear", [x, scale, zero], [y], axis=axis)]

    x_scale, w_scale = f32(0.02), scales(17, around=0.01)
    nodes = (pair("x", "xs", "xz", "a") + dequantize("w", "ws", "wz", "wf", 0) +
             dequantize("b", "bs", "bz", "bf", 0) +
             [helper.make_node("Conv", ["a", "wf", "bf"], ["c"], pads=[1, 1, 1, 1]),
              helper.make_node("Relu", ["c"], ["d"])] + pair("d", "ds", "dz", "e") +
             dequantize("v", "vs", "vz", "vf", 0) +
             [helper.make_node("Conv", ["e", "vf"], ["f"])] + pair("f", "fs", "fz", "g") +
             [helper.make_node("Add", ["a", "g"], ["h"]),
              helper.make_node("GlobalAveragePool", ["h"], ["i"]),
              helper.make_node("Flatten", ["i"], ["j"])] + pair("j", "js", "jz", "k") +
             dequantize("u", "us", "uz", "uf", 0) +
             [helper.make_node("Gemm", ["k", "uf"], ["l"], transB=1),
              helper.make_node("QuantizeLinear", ["l", "ls", "lz"], ["y0"])])
    constants = {"xs": x_scale, "xz": u8(128), "w": integers(s8, 17, 3, 3, 3), "ws": w_scale,
                 "wz": numpy.zeros(17, s8), "b": integers(s32, 17, low=-2000, high=2000),
                 "bs": x_scale * w_scale, "bz": numpy.zeros(17, s32), "ds": f32(0.06), "dz": u8(0),
                 "v": integers(s8, 3, 17, 1, 1), "vs": f32(0.01), "vz": s8(0), "fs": f32(0.2),
                 "fz": u8(120), "js": f32(0.02), "jz": u8(100), "u": integers(s8, 7, 3),
                 "us": f32(0.01), "uz": s8(0), "ls": f32(0.05), "lz": u8(128)}
    add("near_qdq", nodes, {"x": floats(2, 3, 9, 7, scale=2)}, constants)


def halves():
    """Models of f16: ONNX Runtime computes most of it in f32 and rounds what operators give."""
    f16 = numpy.float16
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
             helper.make_node("BatchNormalization", ["a", "s", "t", "m", "v"], ["c"]),
             helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Conv", ["e", "u"], ["f"], group=8),
             helper.make_node("Sigmoid", ["f"], ["g"]), helper.make_node("Mul", ["f", "g"], ["h"]),
             helper.make_node("GlobalAveragePool", ["h"], ["i"]),
             helper.make_node("Flatten", ["i"], ["j"]),
             helper.make_node("Gemm", ["j", "k", "l"], ["n"], transB=1),
             helper.make_node("Softmax", ["n"], ["y0"])]
    weights = {"w": floats(8, 3, 3, 3), "b": floats(8), "s": 1 + floats(8, scale=0.1),
               "t": floats(8), "m": floats(8), "v": 1 + floats(8, scale=0.1), "u": floats(8, 1, 3, 3),
               "k": floats(7, 8), "l": floats(7)}
    add("half_images", nodes, {"x": floats(2, 3, 10, 9).astype(f16)},
        {k: v.astype(f16) for k, v in weights.items()}, opset=17)
    nodes = [helper.make_node("LayerNormalization", ["x", "s", "t"], ["a"]),
             helper.make_node("MatMul", ["a", "q"], ["b"]), helper.make_node("MatMul", ["a", "k"], ["c"]),
             helper.make_node("Transpose", ["c"], ["d"], perm=[0, 2, 1]),
             helper.make_node("MatMul", ["b", "d"], ["e"]), helper.make_node("Div", ["e", "r"], ["f"]),
             helper.make_node("Softmax", ["f"], ["g"], axis=-1),
             helper.make_node("MatMul", ["g", "a"], ["h"]), helper.make_node("Add", ["x", "h"], ["i"]),
             helper.make_node("Cast", ["i"], ["j"], to=TensorProto.FLOAT),
             helper.make_node("Cast", ["j"], ["l"], to=TensorProto.BFLOAT16),
             helper.make_node("Cast", ["l"], ["m"], to=TensorProto.FLOAT16),
             helper.make_node("Erf", ["m"], ["n"]), helper.make_node("Concat", ["n", "i"], ["o"], axis=1),
             helper.make_node("ReduceMean", ["o"], ["y0"], axes=[-1], keepdims=0)]
    weights = {"s": 1 + floats(16, scale=0.1), "t": floats(16), "q": floats(16, 7),
               "k": floats(16, 7), "r": numpy.asarray(2.0)}
    add("half_attention", nodes, {"x": floats(2, 5, 16).astype(f16)},
        {k: v.astype(f16) for k, v in weights.items()}, opset=17)


def recurrent():
    """DynamicQuantizeLSTM: ONNX Runtime's results, which round x and the states to integers, and its
    results for a float LSTM with the same weights."""
    for n_directions, by_column, dtype, lengths, direction in (
            (1, False, u8, None, "forward"), (2, True, s8, [4, 2, 1], "bidirectional"),
            (1, True, u8, [4, 4, 3], "reverse")):
        t, n, features, hidden = 4, 3, 5, 7
        weights, numbers = [], []
        for rows in (features, hidden):
            # 7 bits of s8: sums of two products of 8 saturate where a processor has no VNNI.
            w = integers(dtype, n_directions, rows, 4 * hidden) // (2 if dtype is s8 else 1)
            scale = scales(n_directions, *[4 * hidden] * by_column, around=0.004)
            zero = numpy.full(scale.shape, 0 if dtype is s8 else 128).astype(dtype)
            sizes = (n_directions, 1, -1)
            weights.append((w, scale, zero))
            number = (w.astype(f32) - zero.astype(f32).reshape(sizes)) * scale.reshape(sizes)
            numbers.append(number.transpose(0, 2, 1))
        (w, ws, wz), (r, rs, rz) = weights
        constants = {"b": floats(n_directions, 8 * hidden, scale=0.2)}
        inputs = {"x": floats(t, n, features), "h": floats(n_directions, n, hidden, scale=0.5),
                  "c": floats(n_directions, n, hidden)}
        if lengths:
            inputs["n"] = numpy.array(lengths, numpy.int32)
        operands = ["x", "w", "r", "b", "n" if lengths else "", "h", "c", ""]
        outputs = ["y0", "y1", "y2"]
        attributes = dict(hidden_size=hidden, direction=direction)
        node = helper.make_node("DynamicQuantizeLSTM", operands + ["ws", "wz", "rs", "rz"], outputs,
                                domain=MICROSOFT, **attributes)
        quantized = constants | {"w": w, "r": r, "ws": ws, "wz": wz, "rs": rs, "rz": rz}
        add("rough_lstm", [node], inputs, quantized, 3)
        rough = [m for letter, m in cases[-3:]]
        add("lstm", [helper.make_node("LSTM", operands, outputs, **attributes)], inputs,
            constants | {"w": numbers[0], "r": numbers[1]}, 3)
        plain = [m for letter, m in cases[-3:]]
        print("lstm", [abs(numpy_helper.to_array(a) - numpy_helper.to_array(b)).max()
                       for a, b in zip(rough, plain)])
        m = model([node], inputs, quantized, 3, 21)  # with what the plain one gives
        proto = [message for letter, message in cases if letter == "M"][-1]
        m.graph.name = "lstm"
        del m.graph.output[:]
        m.graph.output.extend(proto.graph.output)
        proto.CopyFrom(m)


def main():
    quantize()
    quantize_around()
    halves()
    microsoft()
    convolve()
    multiply()
    recurrent()
    with open(sys.argv[1], "wb") as file:
        for letter, message in cases:
            data = message.SerializeToString()
            file.write(letter.encode() + struct.pack("<I", len(data)) + data)


if __name__ == "__main__":
    main()
