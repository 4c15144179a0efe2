#!/usr/bin/env python3
"""Writes to tests/io/stored models of opset 24 to 27, models with functions, and models with
elements of fewer bits than a byte or of floats of 8 bits.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.32.0:
    python3 tests/io/stored_newer.py [NAME]...

Results are ONNX Runtime's; those of models that it does not run are the reference evaluator's of
the package onnx. Where both run a model, they have to agree.
"""
import os
import sys

import numpy
import onnx
import onnx.parser
import onnx.reference
import onnxruntime

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
models = {}


def model(runs, opset=24, imports=""):
    """The decorated function gives a graph, and functions behind it, in ONNX's text; each run is
    {input: sizes or array}."""
    def add(function):
        header = f'<ir_version: 10, opset_import: ["" : {opset}{imports}]>\n'
        models[function.__name__] = (lambda: onnx.parser.parse_model(header + function.__doc__), runs)
        return function
    return add


def made(runs):
    """The decorated function makes a ModelProto."""
    def add(function):
        models[function.__name__] = (function, runs)
        return function
    return add


def drawn(sizes, run, index):
    return numpy.random.default_rng([run, index]).standard_normal(sizes).astype(numpy.float32)


def integers(*numbers):
    return numpy.array(numbers, dtype=numpy.int64)


# ---- opset 24 to 27 ----

@model([{"x": [2, 3]}, {"x": [5, 3]}])
def swish():
    """main (float[N,3] x) => (float[N,3] y, float[N,3] z)
    { y = Swish(x) z = Swish<alpha = 0.7>(x) }"""


@model([{"cache": [2, 3, 6, 2], "rows": [2, 3, 2, 2], "first": integers(1, 4)},
        {"cache": [1, 3, 6, 2], "rows": [1, 3, 2, 2], "first": integers(0)}])
def rows_into_a_cache():
    """main (float[N,3,6,2] cache, float[N,3,2,2] rows, int64[N] first) => (float[N,3,6,2] y, float[N,3,6,2] z)
    { y = TensorScatter<mode = "linear">(cache, rows, first) z = TensorScatter(cache, rows) }"""


@model([{"cache": [3, 5, 2], "rows": [3, 4, 2], "first": integers(4, 0, 3)}])
def rows_around_a_cache():
    """main (float[3,5,2] cache, float[3,4,2] rows, int64[3] first) => (float[3,5,2] y)
    { y = TensorScatter<mode = "circular", axis = 1>(cache, rows, first) }"""


@model([{"q": [2, 4, 3, 8], "k": [2, 2, 7, 8], "v": [2, 2, 7, 8], "n": integers(5, 7)},
        {"q": [1, 4, 3, 8], "k": [1, 2, 7, 8], "v": [1, 2, 7, 8], "n": integers(3)}])
def attention_of_lengths():
    """main (float[N,4,3,8] q, float[N,2,7,8] k, float[N,2,7,8] v, int64[N] n) => (float[N,4,3,8] y, float[N,4,3,8] z)
    { y = Attention(q, k, v, , , , n) z = Attention<is_causal = 1>(q, k, v, , , , n) }"""


@model([{"q": [2, 4, 3, 8], "k": [2, 4, 7, 8], "v": [2, 4, 7, 8], "m": [3, 5], "n": integers(5, 4)}])
def attention_of_lengths_and_masks():
    """main (float[2,4,3,8] q, float[2,4,7,8] k, float[2,4,7,8] v, float[3,5] m, int64[2] n) => (float[2,4,3,8] y)
    { y = Attention(q, k, v, m, , , n) }"""


@model([{"q": [2, 4, 4, 8], "k": [2, 4, 6, 8], "v": [2, 4, 6, 8], "pk": [2, 4, 3, 8], "pv": [2, 4, 3, 8]}], 25)
def attention_of_windows():
    """main (float[2,4,4,8] q, float[2,4,6,8] k, float[2,4,6,8] v, float[2,4,3,8] pk, float[2,4,3,8] pv)
        => (float[2,4,4,8] a, float[2,4,4,8] b, float[2,4,4,8] c)
    {
        a = Attention<left_window_size = 2, right_window_size = 1>(q, k, v)
        b = Attention<left_window_size = 2, is_causal = 1, softcap = 2.0>(q, k, v)
        c, d, e = Attention<left_window_size = 0, right_window_size = 0>(q, k, v, , pk, pv)
    }"""


@model([{"x": [2, 4]}, {"x": [3, 4]}], 26)
def products_so_far():
    """main (float[N,4] x) => (float[N,4] a, float[N,4] b, float[N,4] c)
    <int64 axis = {1}, int64 first = {0}>
    { a = CumProd(x, axis) b = CumProd<exclusive = 1, reverse = 1>(x, axis) c = CumProd<exclusive = 1>(x, first) }"""


@model([{"x": [2, 4], "i": numpy.array([[-1, 5], [7, -128]], numpy.int8)}], 26)
def bits():
    """main (float[2,4] x, int8[2,2] i) => (float[2,4] y, uint8[2,2] j)
    <int32[4] w = {1065353216, -1082130432, 0, 1073741824}>
    { f = BitCast<to = 1>(w) y = Mul(x, f) j = BitCast<to = 2>(i) }"""


@model([{"x": [2, 3, 5], "w": [3, 1, 4], "b": [3], "past": [2, 3, 3]},
        {"x": [1, 3, 2], "w": [3, 1, 4], "b": [3], "past": [1, 3, 3]}], 27)
def causal_convolution():
    """main (float[N,3,T] x, float[3,1,4] w, float[3] b, float[N,3,3] past)
        => (float[N,3,T] y, float[N,3,3] state, float[N,3,T] z, float[N,3,3] first)
    {
        y, state = CausalConvWithState<activation = "silu">(x, w, b, past)
        z, first = CausalConvWithState(x, w)
    }"""


@model([{"x": [3, 4]}, {"x": [6, 4]}], 27)
def ranges():
    """main (float[N,4] x) => (float[N,4] y, float[5] r)
    <float zero = {0.0}, float one = {1.0}, float five = {5.0}>
    {
        n = Shape<start = 0, end = 1>(x)
        i = Squeeze(n)
        f = Cast<to = 1, round_mode = "down">(i)
        c = Range<stash_type = 1>(zero, f, one)
        d = Range(zero, five, one)
        r = Identity(d)
        axes = Constant<value_ints = [1]>()
        column = Unsqueeze(c, axes)
        y = Add(x, column)
    }"""


# ---- functions ----

LOCAL = ', "local" : 1, "other.domain" : 1'


@model([{"x": [2, 3]}, {"x": [4, 3]}], 18, LOCAL)
def functions_in_functions():
    """main (float[N,3] x) => (float[N,3] y, float[N,3] z)
    { x1 = local.scaled<by = 3.0>(x) y = local.twice<scale = 0.5>(x1) z = local.twice(x) }
    <domain: "local", opset_import: ["" : 18, "other.domain" : 1]>
    scaled <by, slope: float = 0.25> (a) => (b)
    { factor = Constant<value_float: float = @by>() x = Mul(a, factor) b = LeakyRelu<alpha: float = @slope>(x) }
    <domain: "local", opset_import: ["" : 18, "local" : 1, "other.domain" : 1]>
    twice <scale: float = 2.0> (x) => (y)
    { h = local.scaled<by: float = @scale, slope = 0.1>(x) y = other.domain.scaled<by: float = @scale>(h, x) }
    <domain: "other.domain", opset_import: ["" : 18]>
    scaled <by> (a, x) => (y)
    { factor = Constant<value_float: float = @by>() y0 = Sub(a, factor) y = Add(y0, x) }"""


@model([{"x": [2, 3], "w": [3]}, {"x": [1, 3], "w": [3]}], 17, LOCAL)
def functions_of_optional_inputs():
    """main (float[N,3] x, float[3] w) => (float[N,3] y, float[N,3] z)
    { y = local.clipped(x, w) m, z = local.clipped_both(x) }
    <domain: "local", opset_import: ["" : 17]>
    clipped (x, w, low) => (y)
    { t = Constant<value = float {0.9}>() h = Mul(x, w) y = Clip(h, low, t) }
    <domain: "local", opset_import: ["" : 17, "local" : 1]>
    clipped_both (x, w, low) => (y, z)
    { one = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = local.clipped(x, one, low) z = local.clipped(x, one) }"""


@model([{"x": [2, 3], "flag": numpy.array(True)}, {"x": [3, 3], "flag": numpy.array(False)}], 17, LOCAL)
def functions_in_blocks():
    """main (float[N,3] x, bool flag) => (float[N,3] y, float[N,3] sum)
    {
        y = If (flag) <
            then_branch = yes () => (float[N,3] p) { p = local.branch<n = 2>(x, flag) },
            else_branch = no () => (float[N,3] q) { q = local.branch<n = 3>(x, flag) }
        >
        trips = Constant<value = int64 {3}>()
        always = Constant<value = bool {1}>()
        sum = Loop (trips, always, x) <
            body = step (int64 i, bool go, float[N,3] s) => (bool on, float[N,3] t)
            { on = Identity(go) t = local.branch<n = 1>(s, flag) }
        >
    }
    <domain: "local", opset_import: ["" : 17]>
    branch <n> (x, flag) => (y)
    {
        n = Constant<value_int: int = @n>()
        f = Cast<to = 1>(n)
        y = If (flag) <
            then_branch = yes () => (p) { p = Mul(x, f) },
            else_branch = no () => (q) { q = Sub(x, f) }
        >
    }"""


@model([{"x": [2, 6]}, {"x": [5, 6]}], 17, LOCAL)
def functions_of_sizes():
    """main (float[N,6] x) => (float[N,3,2] y, float[N,2,3] z)
    { y = local.apart<n = 2>(x) z = local.apart<n = 3>(x) }
    <domain: "local", opset_import: ["" : 17]>
    apart <n> (x) => (y)
    {
        first = Shape<start = 0, end = 1>(x)
        n = Constant<value_int: int = @n>()
        axes = Constant<value_ints = [0]>()
        last = Unsqueeze(n, axes)
        rest = Constant<value_ints = [-1]>()
        sizes = Concat<axis = 0>(first, rest, last)
        y = Reshape(x, sizes)
    }"""


@made([{"x": [2, 3]}])
def functions_that_overload():
    helper = onnx.helper
    functions = []
    for overload, op in (("", "Relu"), ("smooth", "Sigmoid"), ("odd", "Tanh")):
        function = helper.make_function("local", "act", ["a"], ["b"], [helper.make_node(op, ["a"], ["b"])],
                                        [helper.make_opsetid("", 17)])
        function.overload = overload
        functions.append(function)
    nodes = []
    for i, overload in enumerate(("smooth", "", "odd", "smooth")):
        node = helper.make_node("act", [f"h{i}" if i else "x"], [f"h{i + 1}"], domain="local")
        node.overload = overload
        nodes.append(node)
    graph = helper.make_graph(nodes, "main", [helper.make_tensor_value_info("x", 1, ["N", 3])],
                              [helper.make_tensor_value_info("h4", 1, ["N", 3])])
    return helper.make_model(graph, ir_version=10, functions=functions,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])


@model([{"x": [2, 3]}], 17, LOCAL)
def functions_of_other_opsets():
    """main (float[N,3] x) => (float y, float[2,3] z)
    { y = local.total(x) z = local.total_of_rows(x) }
    <domain: "local", opset_import: ["" : 11]>
    total (x) => (y)
    { y = ReduceSum<axes = [0, 1], keepdims = 0>(x) }
    <domain: "local", opset_import: ["" : 18]>
    total_of_rows (x) => (z)
    { n = Constant<value_ints = [1]>() s = ReduceMax(x, n) z = Sub(x, s) }"""


# ---- writing ----

def by_reference(proto, feeds, outputs):
    return onnx.reference.ReferenceEvaluator(proto).run(outputs, feeds)


def calculate(name, proto, feeds):
    outputs = [output.name for output in proto.graph.output]
    results = {}
    for oracle in "onnxruntime", "reference":
        try:
            if oracle == "reference":
                results[oracle] = by_reference(proto, feeds, outputs)
            else:
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 4
                session = onnxruntime.InferenceSession(proto.SerializeToString(), options,
                                                       providers=["CPUExecutionProvider"])
                results[oracle] = session.run(outputs, feeds)
        except Exception as error:  # the other one has to do
            print(f"{name}: no {oracle}: {str(error).splitlines()[0][:120]}")
    if len(results) == 2:
        for output, a, b in zip(outputs, *results.values()):
            if not numpy.allclose(numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64), 1e-4, 1e-5):
                print(f"{name}: {output} differs")
    return dict(zip(outputs, next(iter(results.values()))))


def write(name):
    make, runs = models[name]
    proto = make()
    try:
        onnx.checker.check_model(proto)
    except onnx.checker.ValidationError as error:
        print(f"{name}: {error}")
    values = onnx.GraphProto(name=name)
    for run, given in enumerate(runs):
        feeds = {input: value if isinstance(value, numpy.ndarray) else drawn(value, run, i)
                 for i, (input, value) in enumerate(given.items())}
        results = calculate(name, proto, feeds)
        for key, array in list(feeds.items()) + list(results.items()):
            values.initializer.append(onnx.numpy_helper.from_array(numpy.asarray(array), f"{run}/{key}"))
    onnx.save(proto, os.path.join(FOLDER, name + ".onnx"))
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())


if __name__ == "__main__":
    for name in sys.argv[1:] or models:
        write(name)
