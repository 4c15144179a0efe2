"""Random models that compute with sizes, as exporters write them: Shape, Gather, Slice, arithmetic on
sizes, crops, windows, Reshape with -1, Resize, pooling with strides, padding to multiples, Range,
branches on sizes."""

import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Maker:
    """Builds a graph for images x [N,3,H,W], step by step."""

    def __init__(self, seed, dims):
        self.random = random.Random(seed)
        self.dims = dims
        self.nodes, self.initializers = [], []
        self.n_names = 0

    def name(self):
        self.n_names += 1
        return f"v{self.n_names}"

    def const(self, value, dtype=np.int64):
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, op, *inputs, **attributes):
        out = self.name()
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out

    # ---- integers, s64 [1] ----

    def size(self, x, dim):
        shape = self.op("Shape", x)
        if self.random.random() < 0.5:
            start, end = self.const([dim]), self.const([dim + 1])
            return self.op("Slice", shape, start, end, self.const([0]))
        return self.op("Unsqueeze", self.op("Gather", shape, self.const(dim)), self.const([0]))

    def integer(self, x, depth=0):
        pick = self.random.choice
        what = self.random.randrange(9 if depth < 3 else 2)
        if what < 2:
            return self.size(x, pick([0, 2, 3, 2, 3]))
        a = self.integer(x, depth + 1)
        if what == 2:
            return self.op("Div", a, self.const([pick([2, 3, 4, 8])]))
        if what == 3:
            return self.op("Add", a, self.const([pick([1, 2, 7, -1])]))
        if what == 4:
            return self.op("Mul", a, self.const([pick([2, 3])]))
        if what == 5:
            return self.op("Sub", a, self.const([pick([1, 2])]))
        if what == 6:
            return self.op("Mod", a, self.const([pick([2, 4, 8])]))
        if what == 7:
            return self.op(pick(["Min", "Max"]), a, self.integer(x, depth + 1))
        scaled = self.op("Mul", self.op("Cast", a, to=TensorProto.FLOAT),
                         self.const([pick([0.5, 0.25, 1.5, 2.0])], np.float32))  # fmt: skip
        return self.op("Cast", self.op(pick(["Floor", "Ceil"]), scaled), to=TensorProto.INT64)

    def positive(self, x):
        return self.op("Max", self.integer(x), self.const([1]))

    # ---- steps ----

    def pool(self, x):
        return self.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def resize(self, x):
        scales = self.random.choice([(2, 2), (0.5, 0.5), (1.5, 2)])
        return self.op("Resize", x, "", self.const([1, 1, *scales], np.float32), mode="nearest",
                       coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip

    def crop_half(self, x):
        half = self.op("Div", self.size(x, 2), self.const([2]))
        end = self.op("Max", half, self.const([1]))
        return self.op("Slice", x, self.const([0]), end, self.const([2]))

    def crop(self, x):
        return self.op("Slice", x, self.const([0]), self.positive(x), self.const([3]))

    def windows(self, x):
        window = self.random.choice([2, 4])
        n, h, w = (self.size(x, dim) for dim in (0, 2, 3))
        sizes = self.op("Concat", n, self.const([3]), self.op("Div", h, self.const([window])),
                        self.const([window]), w, axis=0)  # fmt: skip
        return self.op("ReduceMean", self.op("Reshape", x, sizes), axes=[3], keepdims=0)

    def flatten(self, x):
        n, h, w = (self.size(x, dim) for dim in (0, 2, 3))
        flat = self.op("Concat", n, self.const([3]), self.op("Mul", h, w), axis=0)
        y = self.op("Softmax", self.op("Reshape", x, flat), axis=2)
        sizes = self.op("Concat", n, self.const([3]), h, self.const([-1]), axis=0)
        return self.op("Reshape", y, sizes)

    def pad(self, x):
        multiple = self.const([self.random.choice([2, 4, 8])])
        left = self.op("Sub", multiple, self.op("Mod", self.size(x, 2), multiple))
        left = self.op("Mod", left, multiple)
        pads = self.op("Concat", self.const([0] * 6), left, self.const([0]), axis=0)
        return self.op("Pad", x, pads)

    def positions(self, x):
        count = self.op("Squeeze", self.positive(x), self.const([0]))
        numbers = self.op("Range", self.const(0), count, self.const(1))
        numbers = self.op("Cast", numbers, to=TensorProto.FLOAT)
        return self.op("Add", x, self.op("ReduceSum", numbers, self.const([0]), keepdims=0))

    def expand(self, x):
        sizes = self.op("Concat", self.positive(x), self.const([1]), axis=0)
        value = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.5])
        ones = self.op("ConstantOfShape", sizes, value=value)
        return self.op("Add", x, self.op("ReduceSum", ones, self.const([0, 1]), keepdims=0))

    def branch(self, x):
        number = self.op("Squeeze", self.integer(x), self.const([0]))
        condition = self.op("Greater", number, self.const(self.random.choice([3, 6, 12])))
        blocks = {}
        for name, factor in (("then_branch", 2), ("else_branch", 3)):
            out, by = self.name(), self.name()
            constant = helper.make_node("Constant", [], [by], value_float=float(factor))
            result = helper.make_tensor_value_info(out, TensorProto.FLOAT, None)
            product = helper.make_node("Mul", [x, by], [out])
            blocks[name] = helper.make_graph([constant, product], name, [], [result])
        return self.op("If", condition, **blocks)

    def transpose(self, x):
        return self.op("Transpose", x, perm=[0, 1, 3, 2])

    def model(self, n_steps):
        steps = [self.pool, self.resize, self.crop_half, self.crop, self.windows, self.flatten,
                 self.pad, self.positions, self.expand, self.branch, self.transpose]  # fmt: skip
        x = "x"
        for _ in range(n_steps):
            x = self.random.choice(steps)(x)
        number, value = self.integer(x), helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes, "sizes", [value("x", TensorProto.FLOAT, self.dims)],
            [value(x, TensorProto.FLOAT, None), value(number, TensorProto.INT64, None)],
            self.initializers)  # fmt: skip
        opsets = [helper.make_opsetid("", 13)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def make(seed):
    """Returns a model and its input's sizes: numbers, and names of open sizes."""
    pick = random.Random(seed)
    dims = ["N" if pick.random() < 0.6 else 1, 3, "H", "W" if pick.random() < 0.8 else "H"]
    return Maker(seed, dims).model(pick.randrange(1, 5)), dims


def sizes(seed, dims, number):
    """Returns the number-th sizes for the input of the seed's model, which may reject them."""
    pick = random.Random(seed * 1000 + number)
    pool = [pick.randrange(2, 40), 8 * pick.randrange(1, 6), 16, 64, pick.randrange(2, 12)]
    value = {"N": pick.choice([1, 1, 2, 3]), "H": pick.choice(pool), "W": pick.choice(pool)}
    return [value.get(dim, dim) for dim in dims]
