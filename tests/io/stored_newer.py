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
    """The decorated function returns a graph, followed by functions, as ONNX text; each run is
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


# ---- integers that depend on elements, as an index ----

@model([{"x": [2, 3]}, {"x": [1, 3]}], 17)
def labels_of_the_largest():
    """main (float[N,3] x) => (int64[N] y)
    <int64[3] labels = {7, 3, 11}>
    { i = ArgMax<axis = 1, keepdims = 0>(x) y = Gather<axis = 0>(labels, i) }"""


# ---- elements of fewer bits ----

helper, numpy_helper = onnx.helper, onnx.numpy_helper
FLOATS = {"e4m3fn": 17, "e4m3fnuz": 18, "e5m2": 19, "e5m2fnuz": 20}
NUMBERS = numpy.array([0, 0.3, -0.7, 1.06, -1.19, 17.5, 100.1, 239, 241, 247.9, 248, 447, 455, 464, 465, 479, 1000,
                       -57343, 61439, 61441, 1e9, 1e-3, -3.1e-3, 1.9e-3, 9.7e-4, 1.5e-5, -7.7e-6, 3e-6, 1e-9,
                       numpy.inf, -numpy.inf, numpy.nan], numpy.float32)


def packed(name, data_type, sizes, raw=True, seed=0):
    """An initializer of random bits."""
    bits = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}.get(data_type, 8)
    n = (int(numpy.prod(sizes)) * bits + 7) // 8
    codes = numpy.random.default_rng([seed, data_type]).integers(0, 256, n).astype(numpy.uint8)
    if 17 <= data_type <= 20:  # neither infinity nor NaN
        codes &= 0xbb
        codes[codes == 0x80] = 0
    tensor = onnx.TensorProto(name=name, data_type=data_type, dims=sizes)
    if raw:
        tensor.raw_data = codes.tobytes()
    else:
        tensor.int32_data.extend(int(code) for code in codes)
    return tensor


def info(name, sizes, data_type=1):
    return helper.make_tensor_value_info(name, data_type, sizes)


def model_of(nodes, inputs, outputs, initializers, opset):
    graph = helper.make_graph(nodes, "main", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", opset)])


@made([{"x": [2, 6]}])
def weights_of_four_bits():
    """Per channel, with zeros and without; as raw data and as a list; an odd number of elements."""
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0),
             helper.make_node("MatMul", ["x", "wf"], ["h"]),
             helper.make_node("DequantizeLinear", ["u", "t", "uz"], ["uf"]),
             helper.make_node("Mul", ["h", "uf"], ["y"]),
             helper.make_node("Cast", ["v"], ["vf"], to=1), helper.make_node("Neg", ["vf"], ["z0"])]
    initializers = [packed("w", 22, [6, 3]), packed("z", 22, [6], seed=1), packed("u", 21, [3], False),
                    packed("uz", 21, [], False, seed=3), packed("v", 22, [5], False),
                    helper.make_tensor("s", 1, [6], [0.5, 0.25, 1, 2, 0.1, 0.3]), helper.make_tensor("t", 1, [], [0.2])]
    return model_of(nodes, [info("x", ["N", 6])], [info("y", ["N", 3]), info("z0", [5])], initializers, 21)


@made([{"x": [2, 5]}])
def weights_of_four_bits_beside():
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=1),
             helper.make_node("MatMul", ["x", "wf"], ["h"]),
             helper.make_node("DequantizeLinear", ["f", "t"], ["ff"]), helper.make_node("Mul", ["h", "ff"], ["y"])]
    initializers = [packed("w", 22, [5, 3]), helper.make_tensor("s", 1, [3], [0.5, 1, 2]), packed("f", 17, [3]),
                    helper.make_tensor("t", 1, [], [0.5])]
    return model_of(nodes, [info("x", ["N", 5])], [info("y", ["N", 3])], initializers, 21)


@made([{"x": [2, 10]}])
def weights_of_four_bits_in_blocks():
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0, block_size=4),
             helper.make_node("MatMul", ["x", "wf"], ["h"]),
             helper.make_node("DequantizeLinear", ["u", "t"], ["uf"], axis=1, block_size=2),
             helper.make_node("MatMul", ["h", "uf"], ["y"])]
    scales = numpy.random.default_rng(5).uniform(0.1, 1, (3, 3)).astype(numpy.float32)
    initializers = [packed("w", 21, [10, 3]), packed("z", 21, [3, 3], seed=1), packed("u", 22, [3, 6]),
                    numpy_helper.from_array(scales, "s"), numpy_helper.from_array(scales + 1, "t")]
    return model_of(nodes, [info("x", ["N", 10])], [info("y", ["N", 6])], initializers, 21)


@made([{"x": [3, 4]}, {"x": [2, 4]}])
def to_four_bits():
    """Saturated to -8 to 7 and 0 to 15, with zeros and by output_dtype, and the way back."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["a"]),
             helper.make_node("DequantizeLinear", ["a", "s", "z"], ["y"]),
             helper.make_node("QuantizeLinear", ["x", "s"], ["b"], output_dtype=21),
             helper.make_node("DequantizeLinear", ["b", "s"], ["u"]),
             helper.make_node("Transpose", ["z2"], ["z3"]),
             helper.make_node("QuantizeLinear", ["x", "t", "z3"], ["c"], axis=1),
             helper.make_node("DequantizeLinear", ["c", "t", "z3"], ["v"], axis=1)]
    initializers = [helper.make_tensor("s", 1, [], [0.11]), packed("z", 22, [], seed=2), packed("z2", 22, [4], seed=9),
                    helper.make_tensor("t", 1, [4], [0.1, 0.2, 0.3, 0.05])]
    return model_of(nodes, [info("x", ["N", 4])], [info(name, ["N", 4]) for name in "yuv"], initializers, 21)


def of_floats(names, kinds, opset=19):
    """Every code of the types as weights; numbers to them, saturated or not; quantized."""
    nodes, initializers, outputs = [], [helper.make_tensor("s", 1, [], [0.75])], []
    for kind in kinds:
        data_type = FLOATS[kind]
        codes = onnx.TensorProto(name="w_" + kind, data_type=data_type, dims=[256], raw_data=bytes(range(256)))
        zero = onnx.TensorProto(name="z_" + kind, data_type=data_type, dims=[], raw_data=b"\0")
        initializers += [codes, zero]
        nodes += [helper.make_node("Cast", ["w_" + kind], ["codes_" + kind], to=1),
                  helper.make_node("Cast", ["x"], ["c_" + kind], to=data_type),
                  helper.make_node("Cast", ["c_" + kind], ["near_" + kind], to=1),
                  helper.make_node("Cast", ["x"], ["o_" + kind], to=data_type, saturate=0),
                  helper.make_node("Cast", ["o_" + kind], ["over_" + kind], to=1),
                  helper.make_node("QuantizeLinear", ["x", "s", "z_" + kind], ["q_" + kind]),
                  helper.make_node("DequantizeLinear", ["q_" + kind, "s", "z_" + kind], ["quantized_" + kind])]
        outputs += [info("codes_" + kind, [256])] + [info(name + kind, ["N"]) for name in ("near_", "over_", "quantized_")]
    return model_of(nodes, [info("x", ["N"])], outputs, initializers, opset)


@made([{"x": NUMBERS}, {"x": [200]}])
def floats_of_eight_bits():
    return of_floats("", ["e4m3fn", "e5m2"])


@made([{"x": NUMBERS}, {"x": [200]}])
def floats_of_eight_bits_without_minus_zero():
    return of_floats("", ["e4m3fnuz", "e5m2fnuz"])


@made([{"x": [2, 6]}])
def floats_of_eight_bits_by_channels():
    """Scales of a dimension and of blocks; CastLike."""
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=1),
             helper.make_node("MatMul", ["x", "wf"], ["h"]),
             helper.make_node("DequantizeLinear", ["v", "b"], ["vf"], axis=0, block_size=2),
             helper.make_node("MatMul", ["h", "vf"], ["i"]),
             helper.make_node("CastLike", ["i", "w"], ["j"]), helper.make_node("Cast", ["j"], ["y"], to=1)]
    scales = numpy.array([[0.5, 1, 2, 3], [0.1, 0.2, 0.3, 0.4]], numpy.float32)
    initializers = [packed("w", 17, [6, 3]), helper.make_tensor("s", 1, [3], [0.5, 2, 0.1]), packed("v", 19, [3, 4], False),
                    numpy_helper.from_array(scales, "b")]
    return model_of(nodes, [info("x", ["N", 6])], [info("y", ["N", 4])], initializers, 21)


@made([{"x": [2, 7]}])
def weights_of_two_bits():
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=0),
             helper.make_node("MatMul", ["x", "wf"], ["h"]),
             helper.make_node("DequantizeLinear", ["u", "t", "z"], ["uf"]),
             helper.make_node("Mul", ["h", "uf"], ["i"]),
             helper.make_node("Cast", ["f"], ["g"], to=1), helper.make_node("Mul", ["i", "g"], ["y"])]
    initializers = [packed("w", 26, [7, 3]), helper.make_tensor("s", 1, [7], [1, 2, 3, 4, 5, 6, 7]), packed("u", 25, [3], False),
                    packed("z", 25, [], False, seed=4), helper.make_tensor("t", 1, [], [0.5]), packed("f", 23, [3])]
    return model_of(nodes, [info("x", ["N", 7])], [info("y", ["N", 3])], initializers, 25)


# ---- writing ----

WRONG = {"floats_of_eight_bits"}  # ONNX Runtime makes NaN of what rounds up to infinity in e5m2


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
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                session = onnxruntime.InferenceSession(proto.SerializeToString(), options,
                                                       providers=["CPUExecutionProvider"])
                results[oracle] = session.run(outputs, feeds)
        except Exception as error:  # the other one has to do
            print(f"{name}: no {oracle}: {str(error).splitlines()[0][:120]}")
    if len(results) == 2:
        for output, a, b in zip(outputs, *results.values()):
            if not numpy.allclose(numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64), 1e-4, 1e-5, True):
                print(f"{name}: {output} differs")
    return dict(zip(outputs, results["reference"] if name in WRONG else next(iter(results.values()))))


BESIDE = {"weights_of_four_bits_beside"}  # models whose raw data are in a file of their own


def put_beside(name, proto):
    with open(os.path.join(FOLDER, name + ".data"), "wb") as file:
        for tensor in proto.graph.initializer:
            if not tensor.HasField("raw_data"):
                continue
            for key, value in (("location", name + ".data"), ("offset", file.tell()), ("length", len(tensor.raw_data))):
                tensor.external_data.add(key=key, value=str(value))
            tensor.data_location = onnx.TensorProto.EXTERNAL
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")


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
    if name in BESIDE:
        put_beside(name, proto)
    onnx.save(proto, os.path.join(FOLDER, name + ".onnx"))
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())


if __name__ == "__main__":
    for name in sys.argv[1:] or models:
        write(name)
