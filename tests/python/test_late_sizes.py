"""Sizes that depend on elements: what computes with them matches ONNX's reference at every size."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tessera

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node

# x[k] for those elements of x that are greater than 0, as [1,1,k]
CHOSEN = [node("Greater", ["x", "zero"], ["m"]), node("Compress", ["x", "m"], ["k"], axis=0),
          node("Unsqueeze", ["k", "ax01"], ["k3"])]  # fmt: skip
NUMBERS = {
    "zero": np.float32(0), "ax0": [0], "ax01": [0, 1], "two": [2], "i2": 2, "one": 1, "none": 0,
    "twice": np.float32([1, 1, 2]), "quarter": np.float32([1, 1, 0.25]), "half": np.float32([0.5]), "pairs": [2, -1],
    "kernel": np.float32([[[1, -2, 0.5]]]),
}  # fmt: skip
COUNT = [node("Shape", ["k3"], ["s"]), node("Gather", ["s", "i2"], ["n"])]
KINDS = {
    "resize": [node("Resize", ["k3", "", "twice"], ["y"], mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric")],
    "shrink": [node("Resize", ["k3", "", "quarter"], ["y"], mode="nearest", nearest_mode="floor",
                    coordinate_transformation_mode="asymmetric")],
    "pool": [node("MaxPool", ["k3"], ["y"], kernel_shape=[3], strides=[2], pads=[1, 1])],
    "convolve": [node("Conv", ["k3", "kernel"], ["y"])],
    "max": [node("Unsqueeze", ["k", "ax0"], ["r"]), node("ReduceMax", ["r"], ["y"], axes=[0], keepdims=0)],
    "rows": [node("Concat", ["k", "k"], ["kk"], axis=0), node("Reshape", ["kk", "pairs"], ["y"])],
    "range": COUNT + [node("Range", ["none", "n", "one"], ["r"]), node("Cast", ["r"], ["y"], to=FLOAT)],
    "constant": COUNT + [node("Mul", ["n", "i2"], ["nn"]), node("Unsqueeze", ["nn", "ax0"], ["u"]),
                         node("ConstantOfShape", ["u"], ["y"])],
    "expand": COUNT + [node("Unsqueeze", ["n", "ax0"], ["u"]), node("Concat", ["u", "two"], ["uu"], axis=0),
                       node("Expand", ["half", "uu"], ["y"])],
    "count": [node("Size", ["k3"], ["n"]), node("Cast", ["n"], ["f"], to=FLOAT), node("Mul", ["f", "half"], ["y"])],
}  # fmt: skip


def make(nodes):
    used = {name for one in CHOSEN + nodes for name in one.input}
    tensors = [numpy_helper.from_array(np.array(value), name) for name, value in NUMBERS.items() if name in used]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(CHOSEN + nodes, "late", [value("x", FLOAT, ["L"])], [value("y", FLOAT, None)], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("kind", KINDS)
def test_what_reads_a_size_of_elements_is_right_at_each(kind, tmp_path):
    made = make(KINDS[kind])
    evaluator, model = ReferenceEvaluator(made), tessera.load_bytes(made.SerializeToString())
    model.save(str(tmp_path / "late.tessera"))
    for seed, n in enumerate((64, 30, 100, 41, 64)):
        x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
        (wanted,) = evaluator.run(None, {"x": x})
        for got in (model(x), tessera.load(str(tmp_path / "late.tessera"))(x)):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
