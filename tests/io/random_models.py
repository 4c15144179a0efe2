#!/usr/bin/env python3
"""Writes what ONNX Runtime gives for random ONNX models, which test_onnx_random compares with what
we give in every mode.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.32.0:
    python3 tests/io/random_models.py build/release/tests/io/test_onnx_random [FIRST N FILE]

Without FIRST, N and FILE it writes tests/io/random_models.values, of the corpus of the fuzz target
`model` and of 60 seeds; with them FILE, of N seeds from FIRST on, for
`test_onnx_random FILE`.

The file is a GraphProto whose initializers are tensors: "seed7 0 sizes 1" has the sizes of output 1
of the model of seed 7 in run 0, "seed7 0 out 1" its elements, every k-th of at most N_SHOWN. Models
that ONNX Runtime or PyTorch rejects are reported and left out.
"""
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "..", "fuzz", "corpus", "model")
N_SHOWN = 24


def fits(node, values):
    """Returns true if a pooling has a window. ONNX Runtime rounds (1 - 2) / 2 to 0, and has one."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    rest = [size + begin + end - kernel for size, begin, end, kernel in
            zip(values[node.input[0]].shape[2:], attributes["pads"], attributes["pads"][2:],
                attributes["kernel_shape"])]
    return all(r >= 0 or attributes["ceil_mode"] and r > -stride
               for r, stride in zip(rest, attributes["strides"]))


def run(folder, name, options):
    """The outputs of both runs."""
    model = onnx.load(os.path.join(folder, name + ".onnx"))
    outputs = [output.name for output in model.graph.output]
    others = [o for node in model.graph.node for o in node.output if o not in outputs]
    model.graph.output.extend(onnx.ValueInfoProto(name=o) for o in others)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    for i in range(2):
        with open(os.path.join(folder, f"{name}.{i}.f32"), "rb") as file:
            sizes = numpy.frombuffer(file.read(32), numpy.int64)
            x = numpy.frombuffer(file.read(), numpy.float32).reshape(sizes)
        results = session.run(None, {"x": x})
        values = dict(zip(outputs + others, results)) | {"x": x}
        if not all(fits(node, values) for node in model.graph.node if node.op_type in ("MaxPool", "AveragePool")):
            raise ValueError("a window fits nowhere, which PyTorch and we refuse")
        yield results[:len(outputs)]


def add(values, key, array):
    values.initializer.append(onnx.numpy_helper.from_array(numpy.array(array, order="C"), key))


def main():
    names = sorted(os.listdir(CORPUS)) + [f"seed{i}" for i in range(60)]
    path = os.path.join(HERE, "random_models.values")
    if len(sys.argv) > 2:
        first, n, path = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
        names = [f"seed{i}" for i in range(first, first + n)]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    values = onnx.GraphProto(name="random")
    n_models = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "write", folder, *names], check=True)
        for name in names:
            try:
                runs = list(run(folder, name, options))
            except Exception as error:  # ONNX Runtime's are of many kinds
                print(name, "is left out:", str(error).splitlines()[0][:200])
                continue
            n_models += 1
            for i, out in enumerate(runs):
                for k, result in enumerate(out):
                    step = -(-result.size // N_SHOWN) | 1
                    add(values, f"{name} {i} sizes {k}", numpy.array(result.shape, numpy.int64))
                    add(values, f"{name} {i} out {k}", result.reshape(-1)[::step])
    with open(path, "wb") as file:
        file.write(values.SerializeToString())
    print(n_models, "models")


if __name__ == "__main__":
    main()
