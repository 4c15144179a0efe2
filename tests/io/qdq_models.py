#!/usr/bin/env python3
"""Writes networks that ONNX Runtime's quantiser made to tests/io/stored: QDQ models, where
QuantizeLinear and DequantizeLinear stand around operators of numbers.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.32.0:
    python3 tests/io/qdq_models.py

NAME.onnx and NAME.values are as stored.py has them: inputs and what ONNX Runtime gives for them,
with its optimizer off, so that it computes what the file says.
"""
import os
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
random = numpy.random.default_rng(5)
f32 = numpy.float32


class Pictures(CalibrationDataReader):
    def __init__(self):
        self.left = [{"x": random.standard_normal((2, 3, 12, 12)).astype(f32)} for _ in range(8)]

    def get_next(self):
        return self.left.pop() if self.left else None


def residual_network():
    """Three blocks of convolutions, the last two with a sum around them, as a ResNet has them."""
    nodes, weights = [], {}

    def weight(name, *sizes, middle=0.0, scale=None):
        fan_in = int(numpy.prod(sizes[1:])) if len(sizes) > 1 else 25
        weights[name] = (middle + random.standard_normal(sizes) * (scale or (2 / fan_in) ** 0.5)).astype(f32)
        return name

    def conv(x, y, n_in, n_out, size, stride=1, relu=True, group=1):
        nodes.append(helper.make_node(
            "Conv", [x, weight(y + "_w", n_out, n_in // group, size, size), weight(y + "_b", n_out, scale=0.1)],
            [y + "_c"], pads=[size // 2] * 4, strides=[stride] * 2, group=group))
        if relu:
            nodes.append(helper.make_node("Relu", [y + "_c"], [y]))
        return y if relu else y + "_c"

    def add(a, b, y):
        nodes.append(helper.make_node("Add", [a, b], [y + "_a"]))
        nodes.append(helper.make_node("Relu", [y + "_a"], [y]))
        return y

    x = conv("x", "stem", 3, 16, 3)
    nodes.append(helper.make_node("MaxPool", [x], ["pool"], kernel_shape=[2, 2], strides=[2, 2]))
    x = conv("pool", "one", 16, 16, 3)
    x = add("pool", conv(x, "two", 16, 16, 3, relu=False), "block")
    side = conv(x, "side", 16, 17, 1, stride=2, relu=False)
    x = conv(x, "deep", 16, 16, 3, stride=2, group=16)
    x = add(side, conv(x, "three", 16, 17, 1, relu=False), "last")
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", weight("g_w", 10, 17), weight("g_b", 10, scale=0.1)], ["y"], transB=1))
    graph = helper.make_graph(
        nodes, "residual", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def write(name, model, sizes, **options):
    with tempfile.TemporaryDirectory() as folder:
        plain, made = os.path.join(folder, "plain.onnx"), os.path.join(FOLDER, name + ".onnx")
        onnx.save(model, plain)
        quantize_static(plain, made, Pictures(), quant_format=QuantFormat.QDQ, **options)
    proto = onnx.load(made)
    del proto.graph.value_info[:]
    onnx.save(proto, made)
    session_options = onnxruntime.SessionOptions()
    session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made, session_options, providers=["CPUExecutionProvider"])
    values = onnx.GraphProto(name=name)
    for run, size in enumerate(sizes):
        x = random.standard_normal(size).astype(f32)
        for key, array in (("x", x), ("y", session.run(None, {"x": x})[0])):
            values.initializer.append(numpy_helper.from_array(array, f"{run}/{key}"))
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())
    kinds = [node.op_type for node in proto.graph.node]
    print(name, {kind: kinds.count(kind) for kind in sorted(set(kinds))})


def main():
    network = residual_network()
    sizes = [(2, 3, 12, 12), (1, 3, 16, 10)]
    write("qdq_of_bytes", network, sizes, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
          per_channel=True)
    write("qdq_of_signed_bytes", network, sizes, activation_type=QuantType.QInt8,
          weight_type=QuantType.QInt8, extra_options={"ActivationSymmetric": True})


if __name__ == "__main__":
    main()
