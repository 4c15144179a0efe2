#!/usr/bin/env python3
"""Random ONNX graphs whose inputs and constants have NaN, infinities, denormals and signed zeros:
compares the command in several modes with ONNX Runtime.

Run by hand with onnx and ONNX Runtime:
    python3 tests/io/special_models.py build/release/tessera [FIRST [N]]

It prints each model that differs, and keeps it in special_models.out; the exit code is their
number, at most 100. Images are too small for winograd, by which a NaN reaches a whole tile."""
import os
import random
import subprocess
import sys
import warnings

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

INF, NAN = float("inf"), float("nan")
SPECIALS = [NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40]
MODES = ["dense", "nhwc", "mkldnn", "graph", "frozen"]
FOLDER = "special_models.out"


class Model:
    """x [1][C][H][W] and a chain of operators on it."""

    def __init__(self, seed):
        self.draws = random.Random(seed)
        self.nodes, self.constants = [], []
        self.shape = [1, self.draws.choice([1, 3, 8, 16, 17]), 6, 5]
        self.input_shape = list(self.shape)
        self.x = self.elements(self.shape, 0.03)
        self.last = self.before = "x"
        for _ in range(self.draws.randint(2, 6)):
            self.draws.choice(STEPS)(self)

    def elements(self, shape, share, specials=SPECIALS):
        n = int(numpy.prod(shape))
        values = [self.draws.choice(specials) if self.draws.random() < share
                  else self.draws.choice([-3.0, -1.0, -0.5, 0.25, 0.5, 1.0, 2.0]) for _ in range(n)]
        return numpy.array(values, numpy.float32).reshape(shape)

    def constant(self, shape, share=0.02, specials=SPECIALS):
        name = f"c{len(self.constants)}"
        array = self.elements(shape, share, specials)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        self.before, self.last = self.last, name
        return name

    def conv(self):
        kernel, groups = self.draws.choice([1, 1, 3]), 1
        inputs, outputs = self.shape[1], self.draws.choice([1, 4, 8, 16, 19])
        if self.draws.random() < 0.2:
            groups, outputs = inputs, inputs
        # Where a weight is infinite, it depends on the padding's being multiplied or left out.
        weight = self.constant([outputs, inputs // groups, kernel, kernel], 0.0)
        self.add("Conv", self.last, weight, self.constant([outputs]), group=groups,
                 pads=[kernel // 2] * 4)
        self.shape[1] = outputs

    def binary(self):
        op = self.draws.choice(["Add", "Sub", "Mul", "Div", "Max", "Min"])
        shape = self.draws.choice([[], [1], [self.shape[1], 1, 1], self.shape])
        pair = [self.last, self.constant(shape, self.draws.choice([0.02, 0.5]))]
        if self.draws.random() < 0.3:
            pair.reverse()
        self.add(op, *pair)

    def twice(self):
        """x - x, x / x and the like, and a constant with itself."""
        op = self.draws.choice(["Sub", "Div", "Mul", "Add", "Max"])
        if self.draws.random() < 0.5:
            self.add(op, self.last, self.last)
            return
        constant, x = self.constant(self.draws.choice([[], [self.shape[1], 1, 1]]), 0.5), self.last
        self.add(op, x, self.add(op, constant, constant))

    def unary(self):
        op, attributes = self.draws.choice([
            ("Relu", {}), ("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("LeakyRelu", {"alpha": 0.0}),
            ("Elu", {}), ("Selu", {}), ("Sigmoid", {}), ("Tanh", {}), ("HardSigmoid", {}),
            ("HardSwish", {}), ("Softplus", {}), ("Exp", {}), ("Sqrt", {}), ("Abs", {}),
            ("Neg", {}), ("Erf", {}), ("Reciprocal", {}), ("Identity", {}), ("Floor", {})])
        self.add(op, self.last, **attributes)

    def clip(self):
        bounds = [self.constant([], 0.2, SPECIALS[1:]), self.constant([], 0.2, SPECIALS[1:])]
        # ONNX Runtime's Clip without a bound ends at the largest finite number.
        self.add("Clip", self.last, *bounds)

    def pool(self):
        op = self.draws.choice(["MaxPool", "MaxPool", "AveragePool"])
        if min(self.shape[2:]) < 2:
            return
        if op == "MaxPool":
            self.choose()
        self.add(op, self.last, kernel_shape=[2, 2], strides=[1, 1])
        self.shape[2:] = [self.shape[2] - 1, self.shape[3] - 1]

    def softmax(self):
        self.add("Softmax", self.last, axis=self.draws.choice([1, 3]))

    def norm(self):
        channels = self.shape[1]
        weights = [self.constant([channels], 0.01) for _ in range(3)]
        variance = numpy_helper.from_array(numpy.ones(channels, numpy.float32) * 2,
                                           f"c{len(self.constants)}")
        self.constants.append(variance)
        self.add("BatchNormalization", self.last, *weights, variance.name)

    def reduce(self):
        # ONNX Runtime's ReduceMax and ReduceMin lose NaN in some shapes, ONNX's and PyTorch's do not.
        op = self.draws.choice(["ReduceSum", "ReduceMean", "GlobalAveragePool", "GlobalMaxPool"])
        if op == "GlobalMaxPool":
            self.choose()
        if op == "ReduceSum":
            axes = numpy_helper.from_array(numpy.array([2, 3]), f"c{len(self.constants)}")
            self.constants.append(axes)
            self.add(op, self.last, axes.name)
        else:
            self.add(op, self.last, **({"axes": [2, 3]} if op == "ReduceMean" else {}))
        self.shape[2:] = [1, 1]

    def residual(self):
        if self.before != "x" or self.shape == self.input_shape:
            self.add("Add", self.last, self.constant(self.shape))

    def choose(self):
        """Numbers for NaN: ONNX Runtime's maxima and bounds of clip lose it where PyTorch's do not."""
        x = self.last
        truth = self.add("IsNaN", x)
        self.add("Where", truth, self.constant([], 0.0), x)

    def save(self, path):
        graph = helper.make_graph(
            self.nodes, "special",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input_shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                    ir_version=8), path)


STEPS = [Model.conv, Model.conv, Model.conv, Model.binary, Model.binary, Model.twice, Model.unary,
         Model.unary, Model.unary, Model.clip, Model.clip, Model.pool, Model.softmax, Model.norm,
         Model.reduce, Model.residual, Model.choose]


def run(program, path, inputs, output, mode):
    command = [program, "run", path, "--input", f"x={inputs}", "--output-dir", FOLDER, "--mode",
               mode]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()[-120:]
    return numpy.load(os.path.join(FOLDER, output + ".npy"))


def difference(wanted, given):
    """Describes the first element that differs."""
    if isinstance(given, str):
        return given
    if wanted.shape != given.shape:
        return f"sizes {given.shape}, wanted {wanted.shape}"
    alike = numpy.isclose(given, wanted, rtol=1e-3, atol=1e-4, equal_nan=True)
    alike |= (numpy.abs(wanted) > 1e37) & (numpy.abs(given) > 1e37)  # rounding decides about these
    places = numpy.argwhere(~alike)
    if len(places) == 0:
        return ""
    at = tuple(places[0])
    return f"{len(places)} of {wanted.size}, first {given[at]:.6g}, wanted {wanted[at]:.6g}"


def main():
    program = sys.argv[1]
    first, n = (int(word) for word in (sys.argv[2:4] + ["0", "100"][len(sys.argv) - 2:])[:2])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    os.makedirs(FOLDER, exist_ok=True)
    warnings.simplefilter("ignore")
    n_different = 0
    for seed in range(first, first + n):
        model = Model(seed)
        path, inputs = (os.path.join(FOLDER, f"seed{seed}{end}") for end in (".onnx", ".npy"))
        model.save(path)
        numpy.save(inputs, model.x)
        wanted = onnxruntime.InferenceSession(path, options).run(None, {"x": model.x})[0]
        words = {mode: difference(wanted, run(program, path, inputs, model.last, mode))
                 for mode in MODES}
        if not any(words.values()):
            os.remove(path)
            os.remove(inputs)
            continue
        n_different += 1
        print(f"seed {seed}: {' '.join(node.op_type for node in model.nodes)}")
        for mode in MODES:
            if words[mode]:
                print(f"    {mode}: {words[mode]}")
    print(f"{n} models, {n_different} differ")
    return min(n_different, 100)


if __name__ == "__main__":
    sys.exit(main())
