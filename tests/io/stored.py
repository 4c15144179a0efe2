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


def model(runs, opset=17, specified=None, is_reversed=False):
    """The decorated function gives a graph in ONNX's text; each run is {input: sizes or array}.
    `specified` has the results of runs of which ONNX Runtime makes less than ONNX says:
    {run: {output: array}}. `is_reversed` writes the nodes from the last to the first."""
    def add(function):
        models[function.__name__] = (function.__doc__, runs, opset, specified or {}, is_reversed)
        return function
    return add


def drawn(sizes, run, index):
    generator = numpy.random.default_rng([run, index])
    return generator.standard_normal(sizes).astype(numpy.float32)


# ---- LSTM, GRU, RNN ----

def literal(name, sizes, index):
    """An initializer with drawn numbers."""
    numbers = numpy.random.default_rng([7, index]).standard_normal(sizes).round(2).flatten()
    dims = ",".join(str(size) for size in sizes)
    return f"float[{dims}] {name} = {{{', '.join(str(number) for number in numbers)}}}"


def recurrent(name, runs, op, n_gates, attributes, inputs="", operands="", directions=1,
              has_peephole=False, hidden=3, features=2):
    """A model of one node with constant weights, of sequences of several lengths and numbers."""
    weights = [literal("w", [directions, n_gates * hidden, features], 0),
               literal("r", [directions, n_gates * hidden, hidden], 1),
               literal("b", [directions, 2 * n_gates * hidden], 2)]
    if has_peephole:
        weights.append(literal("p", [directions, 3 * hidden], 3))
    state = f"float[{directions},N,{hidden}]"
    outputs = f"float[T,{directions},N,{hidden}] y, {state} h" + (f", {state} c" if op == "LSTM" else "")
    text = f"""main (float[T,N,{features}] x{inputs}) => ({outputs})
    <{', '.join(weights)}>
    {{ y, h{', c' if op == 'LSTM' else ''} = {op}<hidden_size = {hidden}{attributes}>(x, w, r, b{operands}) }}"""
    models[name] = (text, runs, 17, {})


def lengths(*numbers):
    return numpy.array(numbers, dtype=numpy.int32)


both = ', direction = "bidirectional"'
recurrent("lstm_states", [{"x": [4, 2, 2], "h0": [1, 2, 3], "c0": [1, 2, 3]},
                          {"x": [7, 1, 2], "h0": [1, 1, 3], "c0": [1, 1, 3]}],
          "LSTM", 4, "", ", float[1,N,3] h0, float[1,N,3] c0", ", , h0, c0")
recurrent("lstm_bidirectional", [{"x": [4, 2, 2]}, {"x": [1, 3, 2]}], "LSTM", 4, both, directions=2)
recurrent("lstm_lengths", [{"x": [4, 3, 2], "n": lengths(4, 1, 2)}, {"x": [2, 1, 2], "n": lengths(2)}],
          "LSTM", 4, both, ", int32[N] n", ", n", directions=2)
recurrent("lstm_all", [{"x": [4, 3, 2], "n": lengths(3, 4, 1), "h0": [2, 3, 3], "c0": [2, 3, 3]}],
          "LSTM", 4, both + ', clip = 0.8, input_forget = 1, activations = ["HardSigmoid", "Softsign", '
          '"ScaledTanh", "Sigmoid", "Affine", "Tanh"], activation_alpha = [0.3, 1.5, 0.7], '
          'activation_beta = [0.4, 0.6, 0.1]',
          ", int32[N] n, float[2,N,3] h0, float[2,N,3] c0", ", n, h0, c0, p", directions=2,
          has_peephole=True)
recurrent("lstm_clip", [{"x": [4, 3, 2]}], "LSTM", 4, ', clip = 0.5, direction = "reverse"')
recurrent("gru_before", [{"x": [4, 2, 2]}, {"x": [1, 3, 2]}], "GRU", 3, both, directions=2)
recurrent("gru_behind", [{"x": [4, 2, 2], "h0": [2, 2, 3]}], "GRU", 3,
          both + ", linear_before_reset = 1", ", float[2,N,3] h0", ", , h0", directions=2)
recurrent("gru_lengths", [{"x": [4, 3, 2], "n": lengths(3, 4, 1)}], "GRU", 3,
          both + ', clip = 0.9, activations = ["HardSigmoid", "LeakyRelu", "Sigmoid", "Tanh"], '
          'activation_alpha = [0.3, 0.2]', ", int32[N] n", ", n", directions=2)
recurrent("rnn_reverse", [{"x": [4, 2, 2]}, {"x": [7, 1, 2]}], "RNN", 1,
          ', direction = "reverse", activations = ["Relu"]')
for function, numbers in (("Affine", 2), ("ThresholdedRelu", 1), ("ScaledTanh", 2), ("HardSigmoid", 2),
                          ("Elu", 1), ("LeakyRelu", 1), ("Softsign", 0), ("Softplus", 0)):
    recurrent("rnn_" + function.lower(), [{"x": [3, 2, 2]}], "RNN", 1, f', activations = ["{function}"]'
              + ", activation_alpha = [0.3]" * (numbers > 0) + ", activation_beta = [0.6]" * (numbers > 1))


@model([{"x": [4, 2, 2], "w": [1, 12, 2], "r": [1, 12, 3], "b": [1, 24]}])
def lstm_given_weights():
    """main (float[T,N,2] x, float[1,12,2] w, float[1,12,3] r, float[1,24] b) => (float[T,1,N,3] y)
    { y = LSTM<hidden_size = 3>(x, w, r, b) }"""


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


# ---- weights that are inputs ----

@model([{"x": [1, 12, 5, 5], "w": [8, 3, 3, 3]}, {"x": [1, 12, 5, 5], "w": [8, 3, 3, 3]}])
def groups_of_a_weight_that_is_an_input():
    """main (float[1,12,5,5] x, float[8,3,3,3] w) => (float[1,8,3,3] y) { y = Conv<group = 4>(x, w) }"""


# ---- elementwise ----

@model([{"x": [2, 5]}, {"x": [1, 17]}], opset=18)
def activations():
    """main (float[N,M] x) => (float[N,M] a, float[N,M] b, float[N,M] c, float[N,M] d, float[N,M] e)
    {
        a = Celu<alpha = 0.75>(x)
        b = Mish(x)
        c = Shrink<lambd = 0.5, bias = 0.25>(x)
        d = ThresholdedRelu<alpha = 0.25>(x)
        e = Softsign(x)
    }"""


@model([{"x": numpy.array([-3, -1, 0, 2, 5], numpy.int32), "y": [2, 2]}])
def cast_like():
    """main (int32[5] x, float[2,2] y) => (float[5] a, int32[2,2] b, int32[5] c)
    {
        a = CastLike(x, y)
        b = CastLike(y, x)
        c = Shrink<lambd = 1.5>(x)
    }"""


# ---- moved ----

@model([{"x": [4, 3, 2], "lengths": numpy.array([4, 0, 2])}, {"x": [2, 1, 2], "lengths": numpy.array([2])}])
def reverse_sequence():
    """main (float[T,N,2] x, int64[N] lengths) => (float[T,N,2] y, float[T,N] z)
    {
        y = ReverseSequence(x, lengths)
        axis = Constant<value_ints = [2]>()
        s = ReduceSum<keepdims = 0>(y, axis)
        e = EyeLike<k = -1>(s)
        z = Mul(s, e)
    }"""


@model([{"x": [1, 2, 4, 5], "grid": [1, 3, 2, 2]}, {"x": [2, 1, 3, 3], "grid": [2, 2, 4, 2]}], opset=20)
def grid_sample():
    """main (float[N,C,H,W] x, float[N,P,Q,2] grid) => (float[N,C,P,Q] a, float[N,C,P,Q] b, float[N,C,P,Q] c)
    {
        a = GridSample(x, grid)
        b = GridSample<mode = "cubic", padding_mode = "border", align_corners = 1>(x, grid)
        c = GridSample<mode = "nearest", padding_mode = "reflection">(x, grid)
    }"""


# ---- Resize ----

def resizes(name, opset, seed, n=24):
    """Many Resize nodes, whose sizes and places follow from scales and sizes as f32 arithmetic says. Where corners
    are aligned the scale gives a whole size: elsewhere ONNX Runtime is not ONNX's."""
    generator = numpy.random.default_rng(seed)
    def pick(*among):
        return among[generator.integers(len(among))]
    nodes, constants = [], []
    for i in range(n):
        mode = pick("nearest", "nearest", "linear") if opset < 11 else pick("nearest", "nearest", "linear", "cubic")
        where = pick("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                     *(["half_pixel_symmetric"] if opset >= 19 else []))
        scales = [pick(1.3, 3.3, 0.6, 1 / 3, 1.1, 0.3, 2.6, 1.2, 0.9, 2), pick(1.3, 0.6, 0.3, 1 / 3, 3.3, 1.7, 2 / 3, 2)]
        constants.append(f"float[4] s{i} = {{1.0, 1.0, {scales[0]:.9g}, {scales[1]:.9g}}}")
        attributes = f'mode = "{mode}"'
        inputs = f"s{i}" if opset < 11 else f"none, s{i}"
        if opset >= 11:
            attributes += f', coordinate_transformation_mode = "{where}"'
            if mode == "nearest":
                attributes += f', nearest_mode = "{pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")}"'
            if where == "align_corners" or pick(True, False, False):
                constants.append(f"int64[4] n{i} = {{1, 2, {int(7 * scales[0])}, {int(30 * scales[1])}}}")
                inputs = f"none, none, n{i}"
        nodes.append(f"y{i} = Resize<{attributes}>(x, {inputs})")
    if opset >= 11:
        constants.append("float[0] none = {}")
    outputs = ", ".join(f"float[A{i},B{i},C{i},D{i}] y{i}" for i in range(n))
    models[name] = (f"main (float[1,2,7,30] x) => ({outputs}) <{', '.join(constants)}> {{ {' '.join(nodes)} }}",
                    [{"x": [1, 2, 7, 30]}], opset, {})


resizes("resizes_of_opset_10", 10, 1)
resizes("resizes_of_opset_11", 11, 2)
resizes("resizes_of_opset_19", 19, 3)


@model([{"x": [1, 1, 1, 1000], "r": numpy.arange(1, 31, dtype=numpy.uint8).reshape(1, 1, 5, 6),
         "s": numpy.arange(-128, 127, 9, dtype=numpy.int8).reshape(1, 1, 29)},
        ], opset=18)
def resizes_of_integers_and_long_lines():
    """main (float[1,1,1,1000] x, uint8[1,1,5,6] r, int8[1,1,29] s)
        => (float[A,B,C,D] a, uint8[E,F,G,H] b, uint8[I,J,K,L] c, int8[M,O,P] d, float[Q,R,S,T] e)
    <float[4] scales = {1.0, 1.0, 1.0, 66.0}, float[4] more = {1.0, 1.0, 1.4, 2.0}, int64[4] sizes = {1, 1, 3, 4},
     float[3] longer = {1.0, 1.0, 1.5}, float[4] shorter = {1.0, 1.0, 1.0, 0.01}, int64[1] start = {65800},
     int64[1] end = {66000}, int64[1] axis = {3}>
    {
        long = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , scales)
        a = Slice(long, start, end, axis)
        b = Resize<mode = "linear">(r, , more)
        c = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(r, , , sizes)
        d = Resize<mode = "linear">(s, , longer)
        e = Resize<mode = "linear">(long, , shorter)
    }"""


@model([{"x": [1, 1, 27, 32], "grid": numpy.stack(numpy.meshgrid((numpy.arange(-3, 68) + 1) / 32 - 1, (numpy.arange(
        -3, 58) + 1) / 27 - 1), -1)[None].astype(numpy.float32)}], opset=20)
def grids_at_halves():
    """main (float[N,C,H,W] x, float[N,P,Q,2] grid) => (float[N,C,P,Q] a, float[N,C,P,Q] b)
    {
        a = GridSample<mode = "nearest">(x, grid)
        b = GridSample<mode = "nearest", padding_mode = "border">(x, grid)
    }"""


# ---- integers ----

@model([{"x": numpy.array([[7, -7, 2**53 + 1, 3], [-8, 0, 1, 2**40]]), "w": numpy.array([[3, -2], [1, 2**33], [0, 5], [-1, 1]]),
         "u": numpy.array([1, 2**63 + 5], numpy.uint64), "v": numpy.array(-2**53 - 3)}], opset=18)
def integers_of_many_digits():
    """main (int64[2,4] x, int64[4,2] w, uint64[2] u, int64 v) => (int64[A,B] a, uint64[C] b, int64[D,E] c, int64[F,G] d,
        int64[H,I] e, int64[J,K] f)
    <int64[4] pads = {0, 1, 1, 0}, int64[2] ends = {1, 2}, int64 big = {9007199254740993}, uint64 huge = {18446744073709551613},
     int64[1] axis = {1}, int64[4,2] known = {3, -2, 1, 8589934593, 0, 5, -1, 1}>
    {
        a = Pad(x, pads, big)
        b = Pad(u, ends, huge)
        c = MatMul(x, w)
        d = MatMul(x, known)
        e = ReduceMean(x, axis)
        f = Pad(x, pads, v)
    }"""


@model([{"x": [2, 0, 3], "i": numpy.zeros((2, 0, 3), numpy.int32), "b": numpy.zeros((2, 0, 3), numpy.uint8)}], opset=20)
def extremes_of_nothing():
    """main (float[2,0,3] x, int32[2,0,3] i, uint8[2,0,3] b) => (float[A,B,C] l, float[D,E] s, int32[F,G] m, int32[H,I] n, uint8[J,K] o)
    <int64[1] axis = {1}>
    {
        l = ReduceMax(x, axis)
        s = ReduceMin<keepdims = 0>(x, axis)
        m = ReduceMax<keepdims = 0>(i, axis)
        n = ReduceMin<keepdims = 0>(i, axis)
        o = ReduceMin<keepdims = 0>(b, axis)
    }"""


# ---- what only the run knows ----

@model([{"x": [2, 5, 4], "pads": numpy.array(pads), "step": numpy.array([step]), "axis": numpy.array(axis), "value": numpy.array(value, numpy.float32)}
        for pads, step, axis, value in (([0, 1, 2, 1, 0, 3], 2, -1, 2.5), ([1, 0, 0, 0, 2, 0], -1, 0, -1.0),
                                        ([0, -1, 1, 0, 3, -2], -2, 1, 0.0))], opset=19)
def pads_steps_and_axes_are_inputs():
    """main (float[2,5,4] x, int64[6] pads, int64[1] step, int64 axis, float value) => (float[A,B,C] a, float[D,E,F] b,
        float[G,H,I] c, float[J,K,L] d, float[M,O,P] e, float[Q,R,S] f, float[T,U,V] g)
    <int64[1] one = {1}, int64[1] first = {4}, int64[1] before = {-100}, int64[1] start = {0}, int64[1] end = {4},
     int64[6] known = {0, 1, 0, 0, 0, 2}>
    {
        a = Pad(x, pads, value)
        b = Pad<mode = "edge">(x, pads)
        c = Pad(x, known, value)
        d = Slice(x, first, before, one, step)
        e = Slice(x, start, end, one, step)
        f = CumSum(x, axis)
        g = CumSum<exclusive = 1, reverse = 1>(x, axis)
    }"""


@model([{"x": [2, 5, 4], "pads": numpy.array(pads)} for pads in ([2, 1, 1, 3], [4, 0, 0, 2])], opset=19)
def pads_of_axes_are_inputs():
    """main (float[2,5,4] x, int64[4] pads) => (float[A,B,C] a, float[D,E,F] b)
    <int64[2] axes = {1, -1}>
    {
        a = Pad<mode = "reflect">(x, pads, , axes)
        b = Pad<mode = "wrap">(x, pads, , axes)
    }"""


@model([{"x": [4, 3], "flag": numpy.array(flag)} for flag in (True, False)], opset=18)
def if_blocks_give_other_sizes():
    """main (float[4,3] x, bool flag) => (float[N,3] y, float[3] sum)
    {
        a = If (flag) <
            then_branch = yes () => (float[M,3] p)
            { zero = Constant<value_ints = [0]>() one = Constant<value_ints = [1]>() p = Slice(x, zero, one) },
            else_branch = no () => (float[M,3] q) { q = Neg(x) }
        >
        y = Relu(a)
        axes = Constant<value_ints = [0]>()
        sum = ReduceSum<keepdims = 0>(a, axes)
    }"""


@model([{"x": [2], "first": [2], "rows": [4, 2]}], opset=18)
def blocks_hide_outer_names():
    """main (float[2] x, float[2] first, float[4,2] rows) => (float[2] y, float[2] z, float[4,2] all)
    <int64 n = {3}, bool go = {1}>
    {
        looped = Loop (n, go, first) <body = step (int64 i, bool cond, float[2] x) => (bool cond_out, float[2] out)
        {
            cond_out = Identity(cond)
            out = Add(x, x)
        }>
        y = Add(looped, x)
        z, all = Scan<num_scan_inputs = 1, body = row (float[2] x, float[2] first) => (float[2] kept, float[2] shown)
        {
            kept = Add(x, first)
            shown = Mul(kept, first)
        }>(x, rows)
    }"""


@model([{"x": [2, 3]}], opset=18, is_reversed=True)
def nodes_in_no_order():
    """main (float[2,3] x) => (float[2,3] y)
    {
        a = Neg(x)
        b = Exp(a)
        shape = Shape(x)
        zero = Constant<value_int = 0>()
        n = Gather(shape, zero)
        two = Constant<value_int = 2>()
        is_two = Equal(n, two)
        c = If (is_two) <then_branch = yes () => (float[2,3] p) { p = Add(a, b) },
                         else_branch = no () => (float[2,3] q) { q = Mul(a, b) }>
        y = Mul(c, b)
    }"""


# ---- older or looser forms ----

@model([{"x": [2, 3, 4]}], opset=7)
def statistics_for_each_element():
    """main (float[2,3,4] x) => (float[2,3,4] y)
    <float[3,4] weight = {1.0, 2.0, 0.5, -1.0, 1.5, 0.25, 3.0, 1.0, -0.5, 2.0, 1.0, 0.75},
     float[3,4] bias = {0.5, -1.0, 0.0, 2.0, 1.0, 0.25, -0.5, 1.0, 3.0, 0.0, 1.0, -2.0},
     float[3,4] mean = {0.1, -0.2, 0.3, 0.0, 1.0, -1.0, 0.5, 0.2, -0.4, 0.6, 0.0, 0.1},
     float[3,4] variance = {1.0, 0.5, 2.0, 0.25, 1.5, 3.0, 0.75, 1.0, 0.5, 2.0, 4.0, 1.0}>
    { y = BatchNormalization<spatial = 0, epsilon = 0.001>(x, weight, bias, mean, variance) }"""


@model([{"x": [2, 32]}, {"x": [1, 32]}])
def a_signal_without_parts():
    """main (float[N,32] x) => (float[N,7,5,2] y)
    <int64 step = {4}, float[8] window = {0.1, 0.4, 0.8, 1.0, 1.0, 0.8, 0.4, 0.1}>
    { y = STFT(x, step, window) }"""


# ---- losses ----

@model([{"x": [4, 3], "target": numpy.array([0, 2, 1, 2])}, {"x": [2, 3], "target": numpy.array([1, 2])}])
def losses():
    """main (float[N,3] x, int64[N] target) => (float a, float b, float[N] c, float[N,3] d)
    <float[3] weight = {0.5, 2.0, 1.5}>
    {
        a, d = SoftmaxCrossEntropyLoss<ignore_index = 1>(x, target, weight)
        b = NegativeLogLikelihoodLoss<reduction = "sum">(x, target)
        c = NegativeLogLikelihoodLoss<reduction = "none">(x, target, weight)
    }"""


# ---- sizes that depend on elements ----

@model([{"x": [4, 5]}, {"x": [4, 5]}, {"x": [9, 5]}])
def nonzero_picks_elements():
    """main (float[N,5] x) => (float[M] y, float z, int64[2] shape)
    {
        zero = Constant<value_float = 0.0>()
        is_positive = Greater(x, zero)
        indices = NonZero(is_positive)
        rows = Transpose<perm = [1, 0]>(indices)
        y = GatherND(x, rows)
        axis = Constant<value_ints = [0]>()
        z = ReduceSum<keepdims = 0>(y, axis)
        shape = Shape(indices)
    }"""


@model([{"x": [4, 6]}, {"x": [3, 6]}, {"x": [11, 6]}])
def rows_that_sum_to_more_than_nothing():
    """main (float[N,6] x) => (float[M,2,3] y, float[M,4] bias)
    <float[6,4] w = {0.1, 0.2, 0.3, -0.1, 0.5, 0.1, 0.0, 0.2, -0.3, 0.4, 0.1, 0.2,
                     0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.3, 0.2, -0.3, 0.4, 0.6, 0.2}>
    {
        axis = Constant<value_ints = [1]>()
        sums = ReduceSum<keepdims = 0>(x, axis)
        zero = Constant<value_float = 0.0>()
        chosen = Greater(sums, zero)
        found = NonZero(chosen)
        first = Constant<value_ints = [0]>()
        index = Squeeze(found, first)
        rows = Gather(x, index)
        sizes = Shape(rows)
        nought = Constant<value_ints = [0]>()
        count = Gather(sizes, nought)
        rest = Constant<value_ints = [2, 3]>()
        shape = Concat<axis = 0>(count, rest)
        y = Reshape(rows, shape)
        product = MatMul(rows, w)
        bias = Sigmoid(product)
    }"""


@model([{"x": [7, 3], "n": numpy.array([k])} for k in (2, 7, 0)])
def bounds_and_counts_are_inputs():
    """main (float[7,3] x, int64[1] n) => (float[K,3] head, float[L,3] tail, int64[M] places, float[M,3] ones, float[3] sum)
    {
        start = Constant<value_ints = [0]>()
        axes = Constant<value_ints = [0]>()
        head = Slice(x, start, n, axes)
        end = Constant<value_ints = [100]>()
        tail = Slice(x, n, end, axes)
        nought = Constant<value_int = 0>()
        one = Constant<value_int = 1>()
        count = Squeeze(n)
        places = Range(nought, count, one)
        three = Constant<value_ints = [3]>()
        shape = Concat<axis = 0>(n, three)
        ones = ConstantOfShape<value = float[1] {1.0}>(shape)
        scaled = Add(head, ones)
        sum = ReduceSum<keepdims = 0>(scaled, axes)
    }"""


@model([{"n": numpy.array(k)} for k in (16, 5, 2)])
def windows_of_a_size_that_is_an_input():
    """main (int64 n) => (float[N] a, float[N] b, double[N] c, float[N] d)
    {
        a = HannWindow(n)
        b = HammingWindow<periodic = 0>(n)
        c = BlackmanWindow<output_datatype = 11>(n)
        d = BlackmanWindow<periodic = 0>(n)
    }"""


@model([{"x": [2, 3], "n": numpy.array([k])} for k in (1, 4)])
def a_token_for_each():
    """main (float[2,3] x, int64[1] n) => (float[2,M,3] y)
    <float[1,1,3] token = {0.5, -1.0, 2.0}>
    {
        two = Constant<value_ints = [2]>()
        three = Constant<value_ints = [3]>()
        shape = Concat<axis = 0>(two, n, three)
        tokens = Expand(token, shape)
        axis = Constant<value_ints = [1]>()
        wide = Unsqueeze(x, axis)
        y = Concat<axis = 1>(wide, tokens)
    }"""


# ---- Loop and Scan ----

@model([{"x": [2, 3], "n": numpy.array(k)} for k in (4, 1, 70)])
def loop_with_a_count():
    """main (float[2,3] x, int64 n) => (float[2,3] y, float[M,2,3] all, int64 sum)
    {
        go = Constant<value = bool {1}>()
        zero = Constant<value_int = 0>()
        half = Constant<value_float = 0.5>()
        y, sum, all = Loop (n, go, x, zero) <
            body = step (int64 i, bool c, float[2,3] a, int64 s) => (bool d, float[2,3] b, int64 t, float[2,3] e)
            { d = Identity(c) h = Mul(a, half) b = Add(h, x) t = Add(s, i) e = Tanh(b) }
        >
    }"""


@model([{"x": numpy.array([1.0, 0.25], numpy.float32)}, {"x": numpy.array([30.0, 2.0], numpy.float32)}])
def loop_until_a_condition():
    """main (float[2] x) => (float[2] y, int64 n)
    {
        go = Constant<value = bool {1}>()
        one = Constant<value_int = 1>()
        zero = Constant<value_int = 0>()
        two = Constant<value_float = 2.0>()
        limit = Constant<value_float = 50.0>()
        first = Constant<value_ints = [0]>()
        y, n = Loop ( , go, x, zero) <
            body = step (int64 i, bool c, float[2] a, int64 k) => (bool d, float[2] b, int64 m)
            { b = Mul(a, two) m = Add(k, one) s = ReduceSum<keepdims = 0>(b, first) d = Less(s, limit) }
        >
    }"""


@model([{"x": [1, 3], "n": numpy.array(k)} for k in (3, 5)])
def loop_that_grows():
    """main (float[1,3] x, int64 n) => (float[M,3] y)
    {
        go = Constant<value = bool {1}>()
        y = Loop (n, go, x) <
            body = step (int64 i, bool c, float[K,3] a) => (bool d, float[L,3] b)
            { d = Identity(c) e = Exp(x) b = Concat<axis = 0>(a, e) }
        >
    }"""


@model([{"x": [4, 2, 3], "h": [2, 3]}, {"x": [7, 2, 3], "h": [2, 3]}])
def scan_forwards():
    """main (float[T,2,3] x, float[2,3] h) => (float[2,3] last, float[T,2,3] y)
    {
        last, y = Scan<num_scan_inputs = 1,
            body = step (float[2,3] s, float[2,3] a) => (float[2,3] t, float[2,3] o)
            { p = Add(s, a) t = Tanh(p) o = Mul(t, a) }>(h, x)
    }"""


@model([{"x": [2, 3], "n": numpy.array(0), "go": numpy.array(True)},
        {"x": [2, 3], "n": numpy.array(2), "go": numpy.array(False)},
        {"x": [2, 3], "n": numpy.array(2), "go": numpy.array(True)}])
def loop_without_iterations():
    """main (float[2,3] x, int64 n, bool go) => (float[2,3] y, float[M,2,3] rows, int64[M] places)
    {
        y, rows, places = Loop (n, go, x) <
            body = step (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] b, float[2,3] e, int64 j)
            { d = Identity(c) b = Neg(a) e = Abs(a) j = Identity(i) }
        >
    }"""


@model([{"x": [3]}, {"x": [1]}, {"x": [5]}])
def loop_on_one_less_than_a_size():
    """main (float[N] x) => (float[M] y)
    {
        one = Constant<value_int = 1>()
        size = Size(x)
        n = Sub(size, one)
        go = Constant<value = bool {1}>()
        h, y = Loop (n, go, x) <
            body = step (int64 i, bool c, float[N] a) => (bool d, float[N] b, float e)
            { d = Identity(c) b = Neg(a) e = Gather(x, i) }
        >
    }"""


@model([{"x": [3, 2], "n": numpy.array(2)}, {"x": [4, 2], "n": numpy.array(0)}],
       specified={1: {"y": numpy.zeros((0, 2, 8), numpy.float32)}})
def loop_without_iterations_at_open_sizes():
    """main (float[N,2] x, int64 n) => (float[M,2,K] y)
    {
        go = Constant<value = bool {1}>()
        h, y = Loop (n, go, x) <
            body = step (int64 i, bool c, float[N,2] a) => (bool d, float[N,2] b, float[2,K] e)
            { d = Identity(c) b = Neg(a) both = Concat<axis = 0>(a, b) e = Transpose(both) }
        >
    }"""


@model([{"x": [3, 2], "keep": numpy.array([True, False, True]), "h": [2]},
        {"x": [3, 2], "keep": numpy.zeros(3, bool), "h": numpy.ones(2, numpy.float32)}],
       specified={1: {"last": numpy.ones(2, numpy.float32), "y": numpy.zeros((2, 0), numpy.float32)}})
def scan_of_no_rows():
    """main (float[3,2] x, bool[3] keep, float[2] h) => (float[2] last, float[2,T] y)
    {
        rows = Compress<axis = 0>(x, keep)
        last, y = Scan<num_scan_inputs = 1, scan_output_axes = [1], scan_output_directions = [1],
            body = step (float[2] s, float[2] a) => (float[2] t, float[2] o)
            { t = Add(s, a) o = Tanh(t) }>(h, rows)
    }"""


@model([{"x": [2, 5, 3], "h": [2, 3]}])
def scan_backwards_along_another_axis():
    """main (float[2,5,3] x, float[2,3] h) => (float[2,3] last, float[2,5,3] y)
    {
        last, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
            scan_output_axes = [1], scan_output_directions = [1],
            body = step (float[2,3] s, float[2,3] a) => (float[2,3] t, float[2,3] o)
            { p = Add(s, a) t = Tanh(p) o = Identity(t) }>(h, x)
    }"""


@model([{"x": [2, 6]}, {"x": [4, 6]}, {"x": [1, 6]}])
def compressed_and_unique():
    """main (float[N,6] x) => (float[K,6] a, float[K,6] b, int64[U] values, int64[U] counts)
    <float zero = {0}, float[1] ten = {10}>
    {
        axis = Constant<value_ints = [1]>()
        s = ReduceSum<keepdims = 0>(x, axis)
        flags = Greater(s, zero)
        a = Compress<axis = 0>(x, flags)
        b = Relu(a)
        wide = Mul(x, ten)
        whole = Cast<to = 7>(wide)
        values, places, inverse, counts = Unique(whole)
    }"""


@model([{"boxes": [1, 7, 4], "scores": [1, 2, 7]}, {"boxes": [2, 5, 4], "scores": [2, 2, 5]}])
def boxes_that_overlap_least():
    """main (float[N,M,4] boxes, float[N,2,M] scores) => (int64[K,3] rows, int64[K] which)
    <int64[1] most = {3}, float[1] overlap = {0.2}, float[1] least = {-0.5}>
    {
        rows = NonMaxSuppression(boxes, scores, most, overlap, least)
        column = Constant<value_int = 2>()
        which = Gather<axis = 1>(rows, column)
    }"""


@model([{"x": [5, 3]}])
def scan_output_along_the_last_axis():
    """main (float[5,3] x) => (float[3,5] y)
    {
        y = Scan<num_scan_inputs = 1, scan_output_axes = [-1],
            body = step (float[3] a) => (float[3] o) { o = Tanh(a) }>(x)
    }"""


@model([{"x": [2, 3]}, {"x": [8, 3]}])
def loop_on_a_condition_of_sizes():
    """main (float[N,3] x) => (float[N,3] y)
    {
        shape = Shape(x)
        zero = Constant<value_int = 0>()
        five = Constant<value_int = 5>()
        n = Gather(shape, zero)
        go = Less(n, five)
        three = Constant<value_int = 3>()
        y = Loop (three, go, x) <
            body = step (int64 i, bool c, float[N,3] a) => (bool d, float[N,3] b)
            { d = Identity(c) b = Exp(a) }
        >
    }"""


@model([{"x": [4, 8]}])
def bounds_of_what_a_loop_shaped():
    """main (float[4,8] x) => (float[K,L] z, float[M,P] y)
    {
        one = Constant<value_int = 1>()
        go = Constant<value = bool {1}>()
        wanted = Constant<value_ints = [2, 16]>()
        shape = Loop (one, go, wanted) <
            body = step (int64 i, bool c, int64[2] v) => (bool d, int64[2] w)
            { d = Identity(c) w = Identity(v) }
        >
        y = Reshape(x, shape)
        sizes = Shape(y)
        first = Constant<value_ints = [1]>()
        second = Constant<value_ints = [2]>()
        n = Slice(sizes, first, second)
        last = Sub(n, first)
        begin = Constant<value_ints = [0]>()
        z = Slice(y, begin, last, first)
    }"""


@model([{"x": [1, 2, 6, 6]}, {"x": [3, 2, 6, 6]}])
def both_blocks_transpose_a_matrix():
    """main (float[N,2,6,6] x) => (float[N,6] y)
    {
        axes = Constant<value_ints = [1, 3]>()
        a = ReduceSum<keepdims = 0>(x, axes)
        first = Constant<value_ints = [0, 1]>()
        b = ReduceMean<keepdims = 0, axes = [0, 1]>(x)
        zero = Constant<value_float = 0.0>()
        all = Constant<value_ints = [0, 1]>()
        sum = ReduceSum<keepdims = 0>(a, all)
        flag = Greater(sum, zero)
        y = If (flag) <
            then_branch = yes () => (float[N,6] p) { p = Gemm<transB = 1>(a, b) },
            else_branch = no () => (float[N,6] q) { r = Neg(a) q = Gemm<transB = 1>(r, b) }
        >
    }"""


# ---- sequences and optionals ----

@model([{"x": [2, 4], "y": [2, 4]}, {"x": [5, 4], "y": [5, 4]}], opset=18)
def sequence_of_known_tensors():
    """main (float[N,4] x, float[N,4] y) => (float[M,N,4] all, float[N,4] last, float[N,12] wide, int64 n, bool has)
    {
        two = SequenceConstruct(x, y)
        z = Relu(x)
        zero = Constant<value_int = 0>()
        below = Constant<value_int = -1>()
        three = SequenceInsert(two, z, zero)
        four = SequenceInsert(three, y, below)
        without = SequenceErase(four, zero)
        n = SequenceLength(without)
        last = SequenceAt(without, below)
        all = ConcatFromSequence<axis = 0, new_axis = 1>(four)
        wide = ConcatFromSequence<axis = -1>(without)
        some = Optional(without)
        has = OptionalHasElement(some)
    }"""


@model([{"x": [3, 6]}, {"x": [1, 6]}])
def sequence_of_pieces():
    """main (float[N,6] x) => (float[N,1] a, float[N,4] b, float[N] c, float[N,6] d)
    {
        sizes = Constant<value_ints = [1, 4, 1]>()
        four = Constant<value_int = 4>()
        one = Constant<value_int = 1>()
        p = SplitToSequence<axis = 1>(x, sizes)
        q = SplitToSequence<axis = -1>(x, four)
        r = SplitToSequence<axis = 1, keepdims = 0>(x)
        zero = Constant<value_int = 0>()
        a = SequenceAt(p, zero)
        b = SequenceAt(q, zero)
        c = SequenceAt(r, four)
        back = SequenceErase(p, one)
        middle = SequenceAt(p, one)
        again = SequenceInsert(back, middle, one)
        d = ConcatFromSequence<axis = 1>(again)
    }"""


@model([{"x": [2, 3], "n": numpy.array(k), "at": numpy.array(at)} for k, at in ((4, 0), (1, -1), (9, 5))])
def sequence_that_a_loop_carries():
    """main (float[N,3] x, int64 n, int64 at) => (float[M,3] y, float[P,Q,3] z, int64 length, float[Q,3] one)
    {
        go = Constant<value = bool {1}>()
        empty = SequenceEmpty<dtype = 1>()
        list, last = Loop (n, go, empty, x) <
            body = step (int64 i, bool c, seq(float[N,3]) list_in, float[N,3] h) =>
                        (bool d, seq(float[N,3]) list_out, float[N,3] k)
            { d = Identity(c) two = Constant<value_float = 2.0>() k = Mul(h, two) list_out = SequenceInsert(list_in, k) }
        >
        y = ConcatFromSequence<axis = 0>(list)
        z = ConcatFromSequence<axis = 0, new_axis = 1>(list)
        longer = SequenceInsert(list, last, at)
        one = SequenceAt(longer, at)
        shorter = SequenceErase(longer, at)
        length = SequenceLength(shorter)
    }"""


@model([{"x": [2, 3], "at": numpy.array(1)}, {"x": [4, 3], "at": numpy.array(-3)}])
def sequence_at_a_place_that_is_an_input():
    """main (float[N,3] x, int64 at) => (float[N,3] y, float[P,3] z)
    {
        a = Relu(x) b = Neg(x)
        list = SequenceConstruct(x, a, b)
        y = SequenceAt(list, at)
        rest = SequenceErase(list, at)
        z = ConcatFromSequence<axis = 0>(rest)
    }"""


@model([{"x": [2, 3], "flag": numpy.array(True)}, {"x": [4, 3], "flag": numpy.array(False)}])
def sequence_of_either_block():
    """main (float[N,3] x, bool flag) => (float[N,3] y, int64 n)
    {
        list = If (flag) <
            then_branch = yes () => (seq(float[N,3]) p) { a = Relu(x) p = SequenceConstruct(a, x) },
            else_branch = no () => (seq(float[N,3]) q) { b = Neg(x) q = SequenceConstruct(b) }
        >
        zero = Constant<value_int = 0>()
        y = SequenceAt(list, zero)
        n = SequenceLength(list)
    }"""


@model([{"x": [2, 3], "n": numpy.array(3)}, {"x": [4, 3], "n": numpy.array(1)}])
def sequence_mapped():
    """main (float[N,3] x, int64 n) => (float[P,3] y, float[Q,3] z)
    {
        one = Constant<value_int = 1>()
        go = Constant<value = bool {1}>()
        pieces = SplitToSequence<axis = 1>(x, one)
        mapped = SequenceMap (pieces, x) <
            body = add (float[N,1] piece, float[N,3] whole) => (float[N,3] sum) { sum = Add(piece, whole) }
        >
        y = ConcatFromSequence<axis = 0>(mapped)
        start = SequenceEmpty<dtype = 1>()
        list = Loop (n, go, start) <
            body = step (int64 i, bool c, seq(float[N,3]) given) => (bool d, seq(float[N,3]) more)
            { d = Identity(c) more = SequenceInsert(given, x) }
        >
        halves = SequenceMap (list, x) <
            body = add (float[N,3] item, float[N,3] whole) => (float[N,3] sum) { sum = Add(item, whole) }
        >
        z = ConcatFromSequence<axis = 0>(halves)
    }"""


# ---- signals, pooling backwards, norms ----

@model([{"x": [2, 10, 3, 1], "z": [2, 6, 2]}, {"x": [5, 10, 3, 1], "z": [5, 6, 2]}], opset=17)
def transforms_by_attribute():
    """main (float[N,10,3,1] x, float[N,6,2] z) => (float[N,6,3,2] a, float[N,10,3,2] b, float[N,6,2] c, float[N,8,2] d, float[N,4,2] e)
    {
        eight = Constant<value_int = 8>()
        four = Constant<value_int = 4>()
        a = DFT<axis = 1, onesided = 1>(x)
        b = DFT<axis = 2>(x)
        c = DFT<axis = 1, inverse = 1>(z)
        d = DFT<axis = 1>(z, eight)
        e = DFT<axis = 1>(z, four)
    }"""


@model([{"x": [2, 10, 3, 1]}, {"x": [5, 10, 3, 1]}], opset=20)
def transforms_by_input():
    """main (float[N,10,3,1] x) => (float[N,10,3,2] a, float[N,6,3,2] b)
    {
        one = Constant<value_int = 1>()
        a = DFT(x)
        b = DFT<onesided = 1>(x, , one)
    }"""


@model([{"x": [2, 40, 1]}, {"x": [3, 40, 1]}], opset=17)
def frames_of_a_signal():
    """main (float[N,40,1] x) => (float[N,F,9,2] a, float[N,G,10,2] b, float[5,6] mel)
    {
        step = Constant<value_int = 8>()
        length = Constant<value_int = 16>()
        ten = Constant<value_int = 10>()
        window = HannWindow(ten)
        a = STFT(x, step, , length)
        b = STFT<onesided = 0>(x, step, window)
        bins = Constant<value_int = 6>()
        eight = Constant<value_int = 8>()
        rate = Constant<value_int = 8192>()
        low = Constant<value_float = 0.0>()
        high = Constant<value_float = 4096.0>()
        mel = MelWeightMatrix(bins, eight, rate, low, high)
    }"""


@model([{"x": [2, 3, 2, 2], "at": numpy.random.default_rng(1).permutation(2 * 3 * 16)[:24].reshape(2, 3, 2, 2)},
        {"x": [1, 3, 2, 2], "at": numpy.random.default_rng(2).permutation(3 * 16)[:12].reshape(1, 3, 2, 2)}])
def unpooled():
    """main (float[N,3,2,2] x, int64[N,3,2,2] at) => (float[N,3,4,4] y)
    { y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, at) }"""


@model([{"x": [2, 3, 4, 5], "s": [3], "b": [3], "m": [3], "v": [3]},
        {"x": [6, 3, 4, 5], "s": [3], "b": [3], "m": [3], "v": [3]}], opset=15)
def statistics_of_the_batch():
    """main (float[N,3,4,5] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[N,3,4,5] y, float[3] mean, float[3] var)
    { y, mean, var = BatchNormalization<training_mode = 1, momentum = 0.7, epsilon = 0.01>(x, s, b, m, v) }"""


@model([{"x": [1, 3], "s": [3], "b": [3], "m": [3], "v": [3]}], opset=15)
def statistics_of_one_element():
    """main (float[1,3] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[1,3] y, float[3] mean, float[3] var)
    { y, mean, var = BatchNormalization<training_mode = 1>(x, s, b, m, v) }"""


@model([{"x": [2, 7, 4]}, {"x": [5, 7, 4]}], opset=18)
def around_the_middle():
    """main (float[N,7,4] x) => (float[N,4,9] a, float[N,8,3] b)
    {
        s = Constant<value_ints = [4, 9]>()
        t = Constant<value_ints = [3, 8]>()
        a = CenterCropPad<axes = [1, 2]>(x, s)
        b = CenterCropPad<axes = [-1, -2]>(x, t)
    }"""


@model([{"x": [2, 3, 8], "w": [8], "v": [3, 8]}, {"x": [1, 3, 8], "w": [8], "v": [3, 8]}], opset=23)
def root_mean_squares():
    """main (float[N,3,8] x, float[8] w, float[3,8] v) => (float[N,3,8] a, float[N,3,8] b)
    { a = RMSNormalization(x, w) b = RMSNormalization<axis = 1, epsilon = 0.1>(x, v) }"""


@model([{"x": [2, 12, 6], "z": [2, 6, 7]}, {"x": [3, 12, 6], "z": [3, 6, 7]}], opset=18)
def columns_to_images():
    """main (float[N,12,6] x, float[N,6,7] z) => (float[N,2,5,4] a, float[N,2,13] b)
    {
        image = Constant<value_ints = [5, 4]>()
        block = Constant<value_ints = [2, 3]>()
        line = Constant<value_ints = [13]>()
        three = Constant<value_ints = [3]>()
        a = Col2Im<dilations = [2, 1], pads = [0, 1, 1, 0], strides = [2, 1]>(x, image, block)
        b = Col2Im<pads = [1, 2], strides = [2]>(z, line, three)
    }"""


@model([{"x": [2, 3, 7, 6]}, {"x": [1, 3, 7, 6]}], opset=18)
def pools_of_powers():
    """main (float[N,3,7,6] x) => (float[N,3,P,Q] a, float[N,3,R,S] b, float[N,3,1,1] c, float[N,3,1,1] d)
    {
        a = LpPool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(x)
        b = LpPool<kernel_shape = [2, 2], p = 3>(x)
        c = GlobalLpPool(x)
        d = GlobalLpPool<p = 1>(x)
    }"""


@model([{"x": [2, 1, 1], "y": [2, 2, 2], "z": [2, 3, 3]}, {"x": [4, 1, 1], "y": [4, 2, 2], "z": [4, 3, 3]}])
def determinants():
    """main (float[N,1,1] x, float[N,2,2] y, float[N,3,3] z) => (float[N] a, float[N] b, float[N] c)
    { a = Det(x) b = Det(y) c = Det(z) }"""


@model([{"t": [2, 2, 3], "v": [2, 3, 4]}], opset=20)
def affine_grids():
    """main (float[2,2,3] t, float[2,3,4] v) => (float[2,4,5,2] a, float[2,4,5,2] b, float[2,2,3,4,3] c)
    {
        s = Constant<value_ints = [2, 3, 4, 5]>()
        u = Constant<value_ints = [2, 1, 2, 3, 4]>()
        a = AffineGrid(t, s)
        b = AffineGrid<align_corners = 1>(t, s)
        c = AffineGrid(v, u)
    }"""


# ---- Pad: what negative pads name is cut off first ----

@model([{"x": [4, 7]}, {"x": [7, 7]}], opset=19)
def cut_and_wrapped():
    """main (float[N,7] x) => (float[A,B] y)
    <int64[4] pads = {-1,-2,-1,1}>
    { y = Pad<mode = "wrap">(x, pads) }"""


@model([{"x": [4, 7]}, {"x": [7, 7]}], opset=19)
def cut_and_wrapped_before():
    """main (float[N,7] x) => (float[A,B] y)
    <int64[4] pads = {2,3,-1,-2}>
    { y = Pad<mode = "wrap">(x, pads) }"""


@model([{"x": [5, 7]}, {"x": [8, 7]}], opset=18)
def cut_and_reflected():
    """main (float[N,7] x) => (float[A,B] y)
    <int64[4] pads = {-1,2,2,-3}>
    { y = Pad<mode = "reflect">(x, pads) }"""


@model([{"x": [5, 7]}, {"x": [8, 7]}], opset=18)
def cut_and_edged():
    """main (float[N,7] x) => (float[A,B] y)
    <int64[4] pads = {-2,3,5,-4}>
    { y = Pad<mode = "edge">(x, pads) }"""


@model([{"x": [5, 7]}, {"x": [8, 7]}], opset=18)
def cut_and_filled():
    """main (float[N,7] x) => (float[A,B] y)
    <int64[4] pads = {-2,3,5,-4}>
    { y = Pad<mode = "constant">(x, pads) }"""


# ---- writing ----


# ---- com.microsoft: what ONNX Runtime's optimizers and quantizer write ----

CONV_WEIGHTS = ", ".join([literal("w", [4, 3, 3, 3], 0), literal("b", [4], 1), literal("v", [5, 4, 1, 1], 2)])
GEMM_WEIGHTS = ", ".join([literal("w", [4, 3], 0), literal("b", [4], 1), literal("v", [4, 2], 2)])
models["fused_conv"] = (f"""main (float[N,3,H,6] x, float[N,4,H,6] z) => (float[N,5,H,6] y)
    <{CONV_WEIGHTS}>
    {{ a = com.microsoft.FusedConv<activation = "Relu", pads = [1,1,1,1]>(x, w, b)
       c = com.microsoft.FusedConv<activation = "LeakyRelu", activation_params = [0.2], pads = [1,1,1,1]>(x, w, b, z)
       d = com.microsoft.FusedConv<activation = "Tanh">(a, v)
       e = com.microsoft.FusedConv<activation = "Clip", activation_params = [-0.5, 0.75]>(c, v)
       f = com.microsoft.FusedConv<activation = "HardSigmoid", activation_params = [0.3, 0.4]>(c, v)
       g = Add(d, e)
       y = Add(f, g) }}""",
    [{"x": [1, 3, 5, 6], "z": [1, 4, 5, 6]}, {"x": [2, 3, 3, 6], "z": [2, 4, 3, 6]}], 17)
models["fused_gemm"] = (f"""main (float[N,3] x) => (float[N,2] y)
    <{GEMM_WEIGHTS}>
    {{ a = com.microsoft.FusedGemm<activation = "Relu", transB = 1, alpha = 0.5>(x, w, b)
       y = com.microsoft.FusedGemm<activation = "LeakyRelu", activation_alpha = 0.2>(a, v) }}""",
    [{"x": [2, 3]}, {"x": [5, 3]}], 17)

models["rotary"] = (f"""main (float[N,T,16] x, float[N,2,T,8] z, int64[N,T] p, int64[1] first)
        => (float[N,T,16] a, float[N,2,T,8] b, float[N,T,16] c)
    <{literal("cos", [9, 4], 0)}, {literal("sin", [9, 4], 1)}, {literal("few_cos", [9, 2], 2)},
     {literal("few_sin", [9, 2], 3)}>
    {{ a = com.microsoft.RotaryEmbedding(x, p, cos, sin)
       b = com.microsoft.RotaryEmbedding<interleaved = 1>(z, first, cos, sin)
       c = com.microsoft.RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 4>(x, p, few_cos, few_sin) }}""",
    [{"x": [2, 3, 16], "z": [2, 2, 3, 8], "p": numpy.array([[0, 1, 2], [5, 3, 4]]), "first": numpy.array([2])},
     {"x": [1, 5, 16], "z": [1, 2, 5, 8], "p": numpy.array([[4, 5, 6, 7, 8]]), "first": numpy.array([0])}], 17)


def last(*numbers):
    return numpy.array(numbers, dtype=numpy.int32)


models["grouped_attention"] = (f"""main (float[N,T,64] q, float[N,T,32] k, float[N,T,32] v, int32[N] n, int32 total)
        => (float[N,T,64] y, float[N,2,T,16] present_k, float[N,2,T,16] present_v)
    <{literal("cos", [9, 8], 0)}, {literal("sin", [9, 8], 1)}>
    {{ y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>
           (q, k, v, , , n, total, cos, sin) }}""",
    [{"q": [2, 3, 64], "k": [2, 3, 32], "v": [2, 3, 32], "n": last(2, 2), "total": numpy.array(3, dtype=numpy.int32)},
     {"q": [1, 5, 64], "k": [1, 5, 32], "v": [1, 5, 32], "n": last(4), "total": numpy.array(5, dtype=numpy.int32)}], 17)
models["attention_with_a_past"] = (f"""main (float[N,T,128] x, float[N,2,P,16] k, float[N,2,P,16] v, int32[N] n, int32 total)
        => (float[N,T,64] y, float[N,2,S,16] present_k, float[N,2,S,16] present_v)
    <{literal("cos", [9, 8], 0)}, {literal("sin", [9, 8], 1)}>
    {{ y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1,
           rotary_interleaved = 1, scale = 0.3>(x, , , k, v, n, total, cos, sin) }}""",
    [{"x": [2, 1, 128], "k": [2, 2, 3, 16], "v": [2, 2, 3, 16], "n": last(3, 3), "total": numpy.array(4, dtype=numpy.int32)},
     {"x": [1, 1, 128], "k": [1, 2, 6, 16], "v": [1, 2, 6, 16], "n": last(6), "total": numpy.array(7, dtype=numpy.int32)}], 17)
models["attention_with_unequal_pasts"] = (f"""main (float[N,T,64] q, float[N,T,32] k, float[N,T,32] v,
         float[N,2,P,16] a, float[N,2,P,16] b, int32[N] n, int32 total) => (float[N,T,64] y)
    {{ y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>
           (q, k, v, a, b, n, total) }}""",
    [{"q": [2, 1, 64], "k": [2, 1, 32], "v": [2, 1, 32], "a": [2, 2, 5, 16], "b": [2, 2, 5, 16],
      "n": last(5, 2), "total": numpy.array(6, dtype=numpy.int32)},
     {"q": [3, 1, 64], "k": [3, 1, 32], "v": [3, 1, 32], "a": [3, 2, 4, 16], "b": [3, 2, 4, 16],
      "n": last(1, 3, 4), "total": numpy.array(5, dtype=numpy.int32)}], 17)


models["attention_in_a_buffer"] = (f"""main (float[N,T,64] q, float[N,T,32] k, float[N,T,32] v,
         float[N,2,P,16] a, float[N,2,P,16] b, int32[N] n, int32 total)
        => (float[N,T,64] y, float[N,2,S,16] present_k, float[N,2,S,16] present_v)
    <{literal("cos", [16, 8], 0)}, {literal("sin", [16, 8], 1)}>
    {{ y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>
           (q, k, v, a, b, n, total, cos, sin) }}""",
    [{"q": [2, 1, 64], "k": [2, 1, 32], "v": [2, 1, 32], "a": [2, 2, 8, 16], "b": [2, 2, 8, 16],
      "n": last(5, 2), "total": numpy.array(6, dtype=numpy.int32)},
     {"q": [1, 3, 64], "k": [1, 3, 32], "v": [1, 3, 32], "a": [1, 2, 9, 16], "b": [1, 2, 9, 16],
      "n": last(2), "total": numpy.array(3, dtype=numpy.int32)},
     {"q": [1, 1, 64], "k": [1, 1, 32], "v": [1, 1, 32], "a": [1, 2, 4, 16], "b": [1, 2, 4, 16],
      "n": last(4), "total": numpy.array(5, dtype=numpy.int32)}], 17)
models["attention_of_an_exporter"] = (f"""main (float[N,T,64] q, float[N,T,32] k, float[N,T,32] v,
         int64[N,A] mask, float[N,2,P,16] a, float[N,2,P,16] b)
        => (float[N,T,64] y, float[N,2,S,16] present_k, float[N,2,S,16] present_v)
    <{literal("cos", [16, 8], 0)}, {literal("sin", [16, 8], 1)}, int64[1] axis = {{ 1 }}, int64[1] one = {{ 1 }},
     int64 second = {{ 1 }}>
    {{ many = ReduceSum<keepdims = 0>(mask, axis)
       fewer = Sub(many, one)
       n = Cast<to = 6>(fewer)
       shape = Shape(mask)
       length = Gather(shape, second)
       total = Cast<to = 6>(length)
       y, present_k, present_v = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>
           (q, k, v, a, b, n, total, cos, sin) }}""",
    [{"q": [1, 1, 64], "k": [1, 1, 32], "v": [1, 1, 32], "mask": numpy.ones((1, 5), dtype=numpy.int64),
      "a": [1, 2, 8, 16], "b": [1, 2, 8, 16]},
     {"q": [1, 1, 64], "k": [1, 1, 32], "v": [1, 1, 32], "mask": numpy.ones((1, 7), dtype=numpy.int64),
      "a": [1, 2, 6, 16], "b": [1, 2, 6, 16]}], 17)


for policy in ("not_larger", "not_smaller"):
    models["resize_" + policy] = (f"""main (float[N,2,6,9] x) => (float[N,2,P,Q] a, float[N,2,R,S] b, float[N,2,T,U] c)
        <int64[2] sizes = {{ 7, 14 }}, int64[2] small = {{ 4, 3 }}>
        {{ a = Resize<mode = "linear", axes = [2, 3], keep_aspect_ratio_policy = "{policy}">(x, , , sizes)
           b = Resize<mode = "cubic", axes = [2, 3], keep_aspect_ratio_policy = "{policy}">(x, , , small)
           c = Resize<mode = "nearest", axes = [3, 2], keep_aspect_ratio_policy = "{policy}">(x, , , sizes) }}""",
        [{"x": [1, 2, 6, 9]}, {"x": [3, 2, 6, 9]}], 18)


# Heads adjacent in rows; opset 23 also allows heads in a separate dimension.
models["attention_of_rows"] = ("""main (float[N,T,32] q, float[N,S,16] k, float[N,S,24] v, float[T,S] m)
        => (float[N,T,48] y, float[N,T,48] z)
    { y = Attention<q_num_heads = 4, kv_num_heads = 2, scale = 0.3>(q, k, v, m)
      z = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1, softcap = 2.0>(q, k, v) }""",
    [{"q": [2, 3, 32], "k": [2, 3, 16], "v": [2, 3, 24], "m": [3, 3]},
     {"q": [1, 4, 32], "k": [1, 7, 16], "v": [1, 7, 24], "m": [4, 7]}], 23)
models["attention_of_rows_with_a_past"] = ("""main (float[N,T,16] q, float[N,T,16] k, float[N,T,16] v,
         float[N,2,P,8] pk, float[N,2,P,8] pv) => (float[N,T,16] y, float[N,2,S,8] a, float[N,2,S,8] b)
    { y, a, b = Attention<q_num_heads = 2, kv_num_heads = 2, is_causal = 1>(q, k, v, , pk, pv) }""",
    [{"q": [2, 3, 16], "k": [2, 3, 16], "v": [2, 3, 16], "pk": [2, 2, 4, 8], "pv": [2, 2, 4, 8]},
     {"q": [1, 1, 16], "k": [1, 1, 16], "v": [1, 1, 16], "pk": [1, 2, 6, 8], "pv": [1, 2, 6, 8]}], 23)


def bytes_of(sizes, run, low=0, high=256):
    return numpy.random.default_rng([11, run]).integers(low, high, sizes).astype(numpy.uint8)


def whole(name, dtype, sizes, low, high):
    numbers = numpy.random.default_rng([13, len(name)]).integers(low, high, sizes).flatten()
    return f"{dtype}[{','.join(map(str, sizes))}] {name} = {{{', '.join(map(str, numbers))}}}"


models["quantized_attention"] = (f"""main (uint8[N,T,8] x, int32[N,T] mask) => (float[N,T,8] y, float[N,T,8] z)
    <{whole("w", "int8", [8, 24], -100, 100)}, {whole("ww", "uint8", [8, 24], 0, 256)}, {literal("b", [24], 1)},
     float s = {{0.02}}, float t = {{0.01}}, uint8 zero = {{117}}, uint8 half = {{128}}>
    {{ y = com.microsoft.QAttention<num_heads = 2>(x, w, b, s, t, mask, zero)
       z = com.microsoft.QAttention<num_heads = 4, unidirectional = 1>(x, ww, b, s, t, , zero, half) }}""",
    [{"x": bytes_of([2, 3, 8], 0), "mask": numpy.array([[1, 1, 0], [1, 1, 1]], dtype=numpy.int32)},
     {"x": bytes_of([1, 5, 8], 1), "mask": numpy.array([[1, 1, 1, 0, 1]], dtype=numpy.int32)}], 17)
models["quantized_softmax"] = ("""main (uint8[N,3,4] x, uint8[N,3,4] y, bool[N,1,4] c)
        => (uint8[N,3,4] a, uint8[N,3,4] b, uint8[N,3,4] d)
    <float s = {0.05}, uint8 zero = {100}, float t = {0.00390625}, uint8 none = {0}, float u = {0.07}, uint8 one = {90}>
    { a = com.microsoft.QLinearSoftmax<axis = -1, opset = 13>(x, s, zero, t, none)
      b = com.microsoft.QLinearSoftmax<axis = 1, opset = 11>(x, s, zero, t, none)
      d = com.microsoft.QLinearWhere(c, x, s, zero, y, u, one, u, one) }""",
    [{"x": bytes_of([2, 3, 4], 0), "y": bytes_of([2, 3, 4], 1), "c": bytes_of([2, 1, 4], 2) > 128},
     {"x": bytes_of([4, 3, 4], 3), "y": bytes_of([4, 3, 4], 4), "c": bytes_of([4, 1, 4], 5) > 128}], 17)
models["matmul_of_few_bits"] = (f"""main (float[N,40] x) => (float[N,3] a, float[N,3] b, float[N,3] c)
    <{whole("w", "uint8", [3, 3, 8], 0, 256)}, {literal("s", [9], 0)}, {whole("zero", "uint8", [6], 0, 256)},
     {whole("ww", "uint8", [3, 2, 32], 0, 256)}, {literal("t", [6], 1)}, {literal("bias", [3], 2)}>
    {{ a = com.microsoft.MatMulNBits<K = 40, N = 3, bits = 4, block_size = 16>(x, w, s)
       b = com.microsoft.MatMulNBits<K = 40, N = 3, bits = 4, block_size = 16>(x, w, s, zero)
       c = com.microsoft.MatMulNBits<K = 40, N = 3, bits = 8, block_size = 32>(x, ww, t, , , bias) }}""",
    [{"x": [2, 40]}, {"x": [5, 40]}], 17)

models["matmul_of_few_bits_in_order"] = (f"""main (float[N,80] x) => (float[N,19] a, float[N,19] b, float[N,19] c)
    <{whole("w", "uint8", [19, 5, 8], 0, 256)}, {literal("s", [95], 0)}, {literal("zero", [95], 3)},
     {whole("www", "uint8", [19, 3, 8], 0, 256)}, {literal("t", [57], 1)},
     int32[80] order = {{{", ".join(str(i % 5) for i in range(80))}}}>
    {{ a = com.microsoft.MatMulNBits<K = 80, N = 19, bits = 4, block_size = 16>(x, w, s, zero)
       b = com.microsoft.MatMulNBits<K = 80, N = 19, bits = 4, block_size = 16>(x, w, s, , order)
       c = com.microsoft.MatMulNBits<K = 80, N = 19, bits = 2, block_size = 32>(x, www, t) }}""",
    [{"x": [1, 80]}, {"x": [20, 80]}], 17)
models["rows_of_few_bits"] = (f"""main (int64[N] i, int32[N,2] j) => (float[N,64] a, float[N,2,48] b)
    <{whole("w", "uint8", [9, 32], 0, 256)}, {literal("s", [9, 2], 0)}, {whole("zero", "uint8", [9, 1], 0, 256)},
     {whole("ww", "uint8", [9, 48], 0, 256)}, {literal("t", [9, 3], 1)}>
    {{ a = com.microsoft.GatherBlockQuantized<bits = 4, block_size = 32, quantize_axis = 1>(w, i, s, zero)
       b = com.microsoft.GatherBlockQuantized<bits = 8, block_size = 16, quantize_axis = 1>(ww, j, t) }}""",
    [{"i": numpy.array([3, 0, 8]), "j": numpy.array([[1, 2], [0, 8], [7, 7]], dtype=numpy.int32)}], 17)

models["resize_antialias"] = ("""main (float[N,3,H,W] x) => (float[N,3,P,Q] a, float[N,3,R,S] b, float[N,3,T,U] c,
        float[N,3,V,W] d, float[N,3,X,Y] e)
    <int64[2] small = {4, 3}, int64[2] mixed = {5, 14}>
    { a = Resize<mode = "linear", axes = [2, 3], antialias = 1>(x, , , small)
      b = Resize<mode = "cubic", axes = [2, 3], antialias = 1>(x, , , mixed)
      c = Resize<mode = "cubic", axes = [2, 3], antialias = 1, exclude_outside = 1, cubic_coeff_a = -0.5>(x, , , small)
      d = Resize<mode = "linear", axes = [2, 3], antialias = 1, exclude_outside = 1,
                 coordinate_transformation_mode = "asymmetric">(x, , , small)
      e = Resize<mode = "linear", axes = [2, 3], antialias = 1,
                 coordinate_transformation_mode = "align_corners">(x, , , mixed) }""",
    [{"x": [2, 3, 9, 7]}, {"x": [1, 3, 13, 20]}], 18)
models["resize_by_halves"] = ("""main (float[N,3,H,W] x) => (float[N,3,P,Q] a, float[N,3,R,S] b, float[N,3,P,Q] c)
    <float[2] half = {0.5, 0.5}, float[2] more = {1.5, 2.5}>
    { a = Resize<mode = "linear", axes = [2, 3], antialias = 1>(x, , half)
      b = Resize<mode = "linear", axes = [2, 3]>(x, , more)
      c = Resize<mode = "cubic", axes = [2, 3], coordinate_transformation_mode = "asymmetric">(x, , half) }""",
    [{"x": [2, 3, 9, 7]}, {"x": [1, 3, 12, 20]}, {"x": [1, 3, 15, 6]}], 18)


def write(name):
    text, runs, opset, *rest = models[name]
    specified = rest[0] if rest else {}
    proto = onnx.ModelProto(ir_version=8, graph=onnx.parser.parse_graph(text))
    proto.opset_import.append(onnx.helper.make_opsetid("", opset))
    if "com.microsoft." in text:
        proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.checker.check_model(proto)
    if len(rest) > 1 and rest[1]:
        nodes = list(proto.graph.node)
        del proto.graph.node[:]
        proto.graph.node.extend(reversed(nodes))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    values = onnx.GraphProto(name=name)
    for run, given in enumerate(runs):
        feeds = {input: value if isinstance(value, numpy.ndarray) else drawn(value, run, i)
                 for i, (input, value) in enumerate(given.items())}
        outputs = [output.name for output in session.get_outputs()]
        results = specified[run] if run in specified else dict(zip(outputs, session.run(None, feeds)))
        named = list(feeds.items()) + list(results.items())
        for key, array in named:
            values.initializer.append(onnx.numpy_helper.from_array(numpy.asarray(array), f"{run}/{key}"))
    onnx.save(proto, os.path.join(FOLDER, name + ".onnx"))
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or models:
        write(name)
