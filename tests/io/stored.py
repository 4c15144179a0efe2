#!/usr/bin/env python3
"""Writes tests/io/stored: small models, each with inputs and what ONNX Runtime gives for them.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.31.1:
    python3 tests/io/stored.py [NAME]...

NAME.onnx is the model. NAME.values is a GraphProto whose initializers are the tensors of several
runs: "0/x" is the value of input or output x in run 0.
"""
import os
import sys

import numpy
import onnx
import onnx.parser
import onnxruntime

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
models = {}


def model(runs, opset=17):
    """The decorated function gives a graph in ONNX's text; each run is {input: sizes or array}."""
    def add(function):
        models[function.__name__] = (function.__doc__, runs, opset)
        return function
    return add


def drawn(sizes, run, index):
    generator = numpy.random.default_rng([run, index])
    return generator.standard_normal(sizes).astype(numpy.float32)


# ---- If ----

@model([{"x": [2, 3], "flag": numpy.array(True)}, {"x": [2, 3], "flag": numpy.array(False)}])
def if_on_data():
    """main (float[N,3] x, bool flag) => (float[N,3] y, float[N,3] z)
    {
        shared = Relu(x)
        a, b = If (flag) <
            then_branch = yes () => (float[N,3] p, float[N,3] q)
            { two = Constant<value_float = 2.0>() p = Mul(shared, two) q = Add(p, x) },
            else_branch = no () => (float[N,3] p, float[N,3] q)
            { p = Neg(x) q = Sigmoid(shared) }
        >
        y = Add(a, shared)
        z = Mul(b, a)
    }"""


@model([{"x": [2, 3, 4]}, {"x": [5, 3, 4]}])
def if_on_the_rank():
    """main (float[N,3,4] x) => (float[N,4] y)
    {
        shape = Shape(x)
        rank = Size(shape)
        three = Constant<value_int = 3>()
        is_three = Equal(rank, three)
        axis = Constant<value_ints = [1]>()
        y = If (is_three) <
            then_branch = yes () => (float[N,4] p) { p = ReduceSum<keepdims = 0>(x, axis) },
            else_branch = no () => (float[N,4] q) { q = Identity(x) }
        >
    }"""


@model([{"x": [2, 3]}, {"x": [6, 3]}, {"x": [1, 3]}])
def if_on_a_size():
    """main (float[N,3] x) => (float[N,3] y)
    {
        shape = Shape(x)
        zero = Constant<value_int = 0>()
        n = Gather(shape, zero)
        four = Constant<value_int = 4>()
        is_large = Greater(n, four)
        y = If (is_large) <
            then_branch = yes () => (float[N,3] p) { p = Neg(x) },
            else_branch = no () => (float[N,3] q) { q = Exp(x) }
        >
    }"""


@model([{"x": [1, 2, 6, 6], "flags": numpy.array([a, b])}
        for a in (True, False) for b in (True, False)])
def if_in_if():
    """main (float[N,2,H,W] x, bool[2] flags) => (float[N,2,H,W] y)
    <float[2,2,3,3] w = {0.1, 0.2, 0.3, -0.1, 0.5, 0.1, 0.0, 0.2, -0.3, 0.4, 0.1, 0.2,
                         0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.3, 0.2, -0.3, 0.4, 0.6, 0.2,
                         0.1, 0.2, 0.3, -0.1, 0.5, 0.1, 0.7, 0.2, -0.3, 0.4, 0.1, 0.9}>
    {
        zero = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        first = Gather(flags, zero)
        second = Gather(flags, one)
        y = If (first) <
            then_branch = yes () => (float[N,2,H,W] p)
            {
                c = Conv<pads = [1, 1, 1, 1]>(x, w)
                p = If (second) <
                    then_branch = inner () => (float[N,2,H,W] r) { r = Relu(c) },
                    else_branch = outer () => (float[N,2,H,W] r) { s = Conv<pads = [1, 1, 1, 1]>(c, w) r = Tanh(s) }
                >
            },
            else_branch = no () => (float[N,2,H,W] q) { q = Conv<pads = [1, 1, 1, 1]>(x, w) }
        >
    }"""


# ---- writing ----

def write(name):
    text, runs, opset = models[name]
    proto = onnx.ModelProto(ir_version=8, graph=onnx.parser.parse_graph(text))
    proto.opset_import.append(onnx.helper.make_opsetid("", opset))
    onnx.checker.check_model(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    values = onnx.GraphProto(name=name)
    for run, given in enumerate(runs):
        feeds = {input: value if isinstance(value, numpy.ndarray) else drawn(value, run, i)
                 for i, (input, value) in enumerate(given.items())}
        results = session.run(None, feeds)
        named = list(feeds.items()) + list(zip([o.name for o in session.get_outputs()], results))
        for key, array in named:
            values.initializer.append(onnx.numpy_helper.from_array(numpy.asarray(array), f"{run}/{key}"))
    onnx.save(proto, os.path.join(FOLDER, name + ".onnx"))
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or models:
        write(name)
