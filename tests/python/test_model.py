"""Models on arrays: inputs without copies, ownership of results, errors."""

import gc
import os
import pathlib
import re
import threading

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import torch
from onnx import TensorProto, helper

import tessera
from networks import Function, Residual, make, onnx_of

ROOT = pathlib.Path(__file__).parents[2]


def model_of(function, *args, **options):
    return tessera.load_bytes(onnx_of(Function(function), *args, **options))


@pytest.fixture(scope="module")
def relu():
    return model_of(torch.relu, torch.randn(4, 6))


def random(*sizes):
    return np.random.default_rng(1).standard_normal(sizes, dtype=np.float32)


# ---- arrays in and out ----


def test_the_output_is_of_the_library_that_the_input_is_of(relu):
    x = random(4, 6)
    of_numpy, of_torch = relu(x), relu(torch.from_numpy(x))
    assert type(of_numpy) is np.ndarray and type(of_torch) is torch.Tensor
    np.testing.assert_array_equal(of_numpy, np.maximum(x, 0))
    np.testing.assert_array_equal(of_torch.numpy(), of_numpy)


class Dlpack:
    """An array that only supports DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def read_only(x):
    x.setflags(write=False)
    return x


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: read_only(x.copy()),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 3, axis=1)[:, ::3],
        lambda x: x[::-1, ::-1][::-1, ::-1],
        lambda x: x[::-1].copy()[::-1],  # negative strides
        lambda x: torch.from_numpy(x.T.copy()).T,
        lambda x: Dlpack(x),
        lambda x: memoryview(x),
    ],
)
def test_inputs_may_lie_in_any_way(relu, change):
    x = random(4, 6)
    np.testing.assert_array_equal(np.asarray(relu(change(x.copy()))), np.maximum(x, 0))


def test_a_broadcast_input_is_read_by_its_strides(relu):
    x = np.broadcast_to(random(1, 6), (4, 6))
    np.testing.assert_array_equal(relu(x), np.maximum(x, 0))


def test_inputs_and_outputs_are_not_copied():
    n = 1 << 20
    model = model_of(torch.relu, torch.randn(n))
    x = random(n)
    model(x)
    with tessera.count_reorders() as counted:
        before = tessera.counters()["tensor_bytes"]
        y = model(x)
        made = tessera.counters()["tensor_bytes"] - before
    assert made == x.nbytes  # only the output
    assert (counted.weights, counted.activations, counted.copies) == (0, 0, 0)
    assert torch.from_dlpack(y).data_ptr() == y.ctypes.data


def test_an_output_outlives_the_model_and_its_thread():
    kept = []

    def run():
        model = model_of(lambda x: x * 2, torch.randn(1000))
        kept.append(model(np.ones(1000, np.float32)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    gc.collect()
    np.testing.assert_array_equal(kept[0], np.full(1000, 2, np.float32))


def test_an_input_that_is_given_back_is_a_copy():
    model = model_of(lambda x: (x, x + 1), torch.randn(8))
    x = random(8)
    same, more = model(x)
    np.testing.assert_array_equal(same, x)
    same[:] = 0
    assert not np.any(x == 0)
    np.testing.assert_array_equal(more, x + 1)


def test_a_constant_that_is_given_back_is_a_copy():
    weight = torch.randn(8)
    model = model_of(lambda x: (weight, x + weight), torch.randn(8))
    first, _ = model(np.zeros(8, np.float32))
    first[:] = 0
    again, added = model(np.zeros(8, np.float32))
    np.testing.assert_array_equal(again, weight.numpy())
    np.testing.assert_array_equal(added, weight.numpy())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.int32,
                                   torch.uint8, torch.int8, torch.bool, torch.bfloat16])  # fmt: skip
def test_dtypes(dtype):
    model = model_of(lambda x: x.reshape(2, 3), torch.zeros(6, dtype=dtype))
    x = torch.arange(6).to(dtype)
    y = model(x)
    assert y.dtype == dtype
    assert torch.equal(y, x.reshape(2, 3))
    if dtype == torch.bfloat16:
        with pytest.raises(TypeError, match="numpy does not support"):
            model(Dlpack(x))
    else:
        np.testing.assert_array_equal(model(x.numpy()), x.reshape(2, 3).numpy())


def test_several_outputs_are_a_tuple_and_a_dict_by_names():
    model = model_of(lambda x, y: (x + y, x - y), torch.randn(3), torch.randn(3))
    x, y = random(3), random(3) + 1
    made = model(x, y)
    assert type(made) is tuple and len(made) == 2
    names = [value.name for value in model.inputs]
    by_names = model.run({names[1]: y, names[0]: x})
    assert list(by_names) == [value.name for value in model.outputs]
    for a, b in zip(made, by_names.values()):
        np.testing.assert_array_equal(a, b)


# ---- sizes ----


def test_open_sizes_have_names_and_may_be_any():
    model = tessera.load_bytes(
        onnx_of(Residual().eval(), torch.randn(1, 3, 32, 32),
                open_sizes={"x": {0: "batch", 2: "height", 3: "width"}})
    )  # fmt: skip
    assert model.inputs[0].shape == ("batch", 3, "height", "width")
    assert model.inputs[0].dtype == "f32"
    for sizes in ((1, 3, 32, 32), (5, 3, 17, 40)):
        assert model(random(*sizes)).shape == (sizes[0], 10)


def model_of_a_comparison_of_sizes():
    """y = x + max(size 0 of x, 4)."""
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    constants = {"zero": [0], "one": [1], "four": [4], "tail": [1, 1]}
    tensors = [onnx.numpy_helper.from_array(np.array(v), name) for name, v in constants.items()]
    tensors.append(onnx.numpy_helper.from_array(np.ones((1, 1, 1), np.float32), "w"))
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "zero", "one"], ["n"]),
        node("Max", ["n", "four"], ["most"]),
        node("Concat", ["most", "tail"], ["sizes"], axis=0),
        node("Expand", ["w", "sizes"], ["tokens"]),
        node("ReduceSum", ["tokens", "zero"], ["sum"], keepdims=1),
        node("Add", ["x", "sum"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "sizes", [value("x", 1, ["n", 4, 6])], [value("y", 1, ["n", 4, 6])], tensors
    )
    opset = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opset).SerializeToString()


def test_a_comparison_of_sizes_is_made_at_each_of_them():
    model = tessera.load_bytes(model_of_a_comparison_of_sizes())
    for n in (1, 3, 9, 5, 9, 2, 8, 10, 11, 12, 13, 9, 1):
        x = random(n, 4, 6)
        np.testing.assert_allclose(model(x), x + max(n, 4), rtol=1e-6)
    with pytest.raises(tessera.InvalidArgument, match=r"f32\[3,5,6\], the graph was made for"):
        model(random(3, 5, 6))


def model_of_a_squeeze():
    """y = x without dimensions of size 1; there are some at the import."""
    return sized_model([node("Squeeze", "x")], [("x", ["n", 4, "m"])], [("y", None)])


def test_a_graph_for_some_sizes_only_is_imported_again_for_others():
    model = tessera.load_bytes(model_of_a_squeeze())
    for sizes in ((1, 4, 6), (3, 4, 1), (3, 4, 6), (1, 4, 1), (2, 4, 8), (1, 4, 5)):
        x = random(*sizes)
        np.testing.assert_array_equal(model(x), x.squeeze())
    with pytest.raises(tessera.InvalidArgument, match=r"f32\[3,5,6\], the graph was made for"):
        model(random(3, 5, 6))


def test_shapes_say_what_a_model_is_imported_at():
    onnx_bytes = onnx_of(Function(lambda x: x.reshape(-1, 64).sum(1)), torch.randn(64, 64),
                         open_sizes={"x": {0: "rows", 1: "columns"}})  # fmt: skip
    model = tessera.load_bytes(onnx_bytes, shapes={"x": (64, 64)})
    x = random(64, 64)
    np.testing.assert_allclose(model(x), x.sum(1), rtol=1e-4)
    with pytest.raises(tessera.InvalidArgument, match='no such input'):
        tessera.load_bytes(onnx_bytes, shapes={"z": (64, 64)})


def sized_model(nodes, inputs, outputs, initializers=(), opset=17):
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "sizes", [value(name, onnx.TensorProto.FLOAT, sizes) for name, sizes in inputs],
        [value(name, onnx.TensorProto.FLOAT, sizes) for name, sizes in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in initializers])  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString()


def node(op, *inputs, **attributes):
    return onnx.helper.make_node(op, list(inputs), ["y"], **attributes)


# These models reject a size of 64, or a batch of 1: the model, and inputs that it accepts.
picky_models = {
    "rows_of_4": (
        sized_model([node("Reshape", "x", "sizes")], [("x", ["n"])], [("y", None)],
                 [("sizes", np.array([-1, 4]))]),
        [(8,), (12,), (4,), (100,)], lambda x: x.reshape(-1, 4)),
    "thirds": (
        sized_model([onnx.helper.make_node("Split", ["x"], ["a", "b", "y"], axis=1),
                  onnx.helper.make_node("Sub", ["a", "b"], ["d"])],
                 [("x", [2, "n"])], [("y", None)], opset=13),
        [(2, 6), (2, 9), (2, 30)], lambda x: np.split(x, 3, 1)[2]),
    "windows_of_7": (
        sized_model([node("Reshape", "x", "sizes")], [("x", [1, "h", 14])], [("y", None)],
                 [("sizes", np.array([-1, 7, 14]))]),
        [(1, 7, 14), (1, 49, 14)], lambda x: x.reshape(-1, 7, 14)),
    "long_kernel": (
        sized_model([node("AveragePool", "x", kernel_shape=[100])], [("x", ["n", 1, "t"])],
                 [("y", None)]),
        [(1, 1, 100), (2, 1, 130)],
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 100, 2).mean(3)),
    "square": (
        sized_model([node("MatMul", "x", "x")], [("x", ["a", "b"])], [("y", None)]),
        [(5, 5), (3, 3)], lambda x: x @ x),
}  # fmt: skip


@pytest.mark.parametrize("name", picky_models)
def test_a_model_loads_before_sizes_are_known_that_it_takes(name, tmp_path):
    onnx_bytes, shapes, reference = picky_models[name]
    model = tessera.load_bytes(onnx_bytes)
    assert [value.name for value in model.inputs] == ["x"]
    assert any(isinstance(size, str) for size in model.inputs[0].shape)
    for shape in shapes + shapes[:1]:
        x = random(*shape)
        np.testing.assert_allclose(model(x), reference(x), rtol=1e-4, atol=1e-5)
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_bytes)
    x = random(*shapes[0])
    (y,) = tessera.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(y, reference(x), rtol=1e-4, atol=1e-5)


def test_a_model_of_rows_is_saved_before_it_runs(tmp_path):
    onnx_bytes = picky_models["rows_of_4"][0]
    model = tessera.load_bytes(onnx_bytes)
    with pytest.raises(tessera.InvalidArgument, match="n is 5, the graph holds where n % 4 == 0"):
        model(random(5))
    x = random(8)
    np.testing.assert_array_equal(model(x), x.reshape(2, 4))
    model.save(tmp_path / "model.tessera")
    for n in (8, 12, 100):
        x = random(n)
        np.testing.assert_array_equal(tessera.load(tmp_path / "model.tessera")(x), x.reshape(-1, 4))


def test_a_file_that_changes_is_not_imported_again(tmp_path):
    """A graph that broadcasts one row, and a file that is replaced by another before two rows run."""
    path, w = tmp_path / "model.onnx", random(2, 3)

    def write(weight):
        path.write_bytes(sized_model([node("Add", "x", "w")], [("x", ["n", 3])], [("y", None)], [("w", weight)]))

    write(w)
    model = tessera.load(path, shapes={"x": [1, 3]})
    x = random(1, 3)
    np.testing.assert_allclose(model(x), x + w)
    write(np.concatenate([w, w]))
    with pytest.raises(tessera.Error, match="the file has changed since it was loaded|the graph holds where"):
        model(random(2, 3))
    model.save(tmp_path / "model.tessera")
    np.testing.assert_allclose(tessera.load(tmp_path / "model.tessera")(x), x + w)


# ---- errors ----


def test_what_is_no_array_is_refused(relu):
    for wrong in ("text", 3, object(), {1: 2}):
        with pytest.raises(TypeError, match="must be an array"):
            relu(wrong)
    with pytest.raises(TypeError, match="its dtype complex64.*must have a dtype that Tessera supports"):
        relu(np.zeros((4, 6), np.complex64))
    with pytest.raises(TypeError, match="numpy.ndarray, its dtype object.*must be an array of numbers"):
        relu(np.array(["text"], object))
    with pytest.raises(TypeError, match="torch.Tensor.*its device meta"):
        relu(torch.empty(4, 6, device="meta"))
    with pytest.raises(TypeError, match="its layout torch.sparse_coo"):
        relu(torch.zeros(4, 6).to_sparse())


def test_wrong_arguments_say_what_is_wanted(relu, tmp_path):
    with pytest.raises(TypeError, match="load_bytes"):
        tessera.load(b"bytes of a model")
    with pytest.raises(TypeError, match="threads is '2', must be an integer"):
        tessera.load("model.onnx", threads="2")
    with pytest.raises(TypeError, match="module is a function, must be a torch.nn.Module"):
        tessera.compile(lambda x: x, torch.ones(2))
    with pytest.raises(TypeError, match="the example is a tuple.*pass its 1 inputs one by one"):
        tessera.compile(torch.nn.Conv2d(1, 1, 3).eval(), (torch.ones(1, 1, 5, 5),))
    wrong = [
        (lambda: tessera.load("model.onnx", dtype=7), "dtype is 7, must be a name"),
        (lambda: tessera.load("model.onnx", shapes={"x": "abc"}), "must be a dict of names and lists"),
        (lambda: tessera.load("model.onnx", shapes=[1, 2]), "must be a dict of names and lists"),
        (lambda: tessera.load(7), "expected str, bytes or os.PathLike"),
        (lambda: tessera.load_bytes("text"), "onnx is a str, must be the bytes of an ONNX model"),
        (lambda: relu(x=np.ones((4, 6))), "input x is passed by name: a call takes inputs in order"),
        (lambda: relu.run([1]), "run: inputs is a list, must be a dict of names and arrays"),
        (lambda: relu.explain(x=1), "input x is passed by name"),
        (lambda: relu.profile(iterations="two"), "iterations is a str, must be an integer"),
    ]
    for call, message in wrong:
        with pytest.raises(TypeError, match=message) as raised:
            call()
        assert "incompatible function arguments" not in str(raised.value)
    assert repr(relu) == f"tessera.Model({relu.inputs[0]!r} -> {relu.outputs[0]!r})"
    assert "x: f32(4, 6)" in repr(relu)
    relu.save(tmp_path / "path.tessera")
    assert (tmp_path / "path.tessera").stat().st_size > 0


def test_other_shapes_dtypes_and_numbers_of_inputs_are_refused(relu):
    for wrong, message in (
        ((random(4, 7),), r"f32\[4,7\], the graph was made for f32\[4,6\]"),
        ((random(4, 6).astype(np.float64),), r"f64\[4,6\], the graph was made for f32\[4,6\]"),
        ((), "0 inputs are given, the graph takes 1"),
        ((random(4, 6), random(4, 6)), "2 inputs are given, the graph takes 1"),
    ):
        with pytest.raises(tessera.InvalidArgument, match=message):
            relu(*wrong)
    assert issubclass(tessera.InvalidArgument, (tessera.Error, ValueError))


def test_names_that_are_missing_or_unknown_are_refused(relu):
    with pytest.raises(tessera.InvalidArgument, match='input "x" is missing'):
        relu.run({})
    with pytest.raises(tessera.InvalidArgument, match="no input y"):
        relu.run({"x": random(4, 6), "y": random(1)})


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(tessera.FileError, match="nowhere.onnx"):
        tessera.load(tmp_path / "nowhere.onnx")
    with pytest.raises(OSError):
        tessera.load(tmp_path / "nowhere.tessera")
    for name in ("wrong.onnx", "wrong.tessera"):
        (tmp_path / name).write_bytes(b"no model at all" * 100)
        with pytest.raises(tessera.Corrupt):
            tessera.load(tmp_path / name)
    with pytest.raises(tessera.InvalidArgument, match="threads is 0"):
        tessera.load(tmp_path / "nowhere.onnx", threads=0)


# ---- files, explanations, counters ----


@pytest.mark.parametrize("name", [b"plain.tessera", b"caf\xc3\xa9.tessera", b"\xff.tessera"])
def test_paths_of_bytes_are_saved_to(relu, tmp_path, name):
    """As bytes and as str, in which surrogates replace bytes that are not UTF-8."""
    path = os.path.join(os.fsencode(tmp_path), name)
    relu.save(path)
    size = os.path.getsize(path)
    os.remove(path)
    relu.save(os.fsdecode(path))
    assert os.path.getsize(path) == size > 0
    with pytest.raises(ValueError, match="null"):
        relu.save(path + b"\0")


def test_a_saved_model_has_the_graphs_of_all_sizes_that_it_ran_at(tmp_path):
    weight = random(16, 8)
    nodes = [onnx.helper.make_node("Mul", ["x", "s"], ["p"]), node("MatMul", "p", "w")]
    model = tessera.load_bytes(
        sized_model(nodes, [("x", ["n", 16]), ("s", ["m", 16])], [("y", None)], [("w", weight)]),
        shapes={"x": (4, 16), "s": (4, 16)})  # fmt: skip
    for n, m in [(4, 4), (4, 1), (1, 4)]:
        model(random(n, 16), random(m, 16))
    model.save(tmp_path / "model.tessera")
    loaded = tessera.load(tmp_path / "model.tessera")
    for n, m in [(4, 4), (9, 9), (7, 1), (1, 5), (1, 1)]:
        x, s = random(n, 16), random(m, 16)
        np.testing.assert_allclose(loaded(x, s), (x * s) @ weight, rtol=1e-4, atol=1e-5)
    with pytest.raises(tessera.InvalidArgument, match="none of its 3 graphs takes"):
        loaded(random(2, 16), random(3, 16))


def test_a_saved_model_gives_the_same_bits(tmp_path):
    network, x = make("residual")
    model = tessera.load_bytes(onnx_of(network, x), threads=2)
    y = model(x)
    model.save(str(tmp_path / "r.tessera"))
    loaded = tessera.load(tmp_path / "r.tessera", threads=2)
    with tessera.count_reorders() as counted:
        again = loaded(x)
    assert torch.equal(y, again) and counted.weights == 0
    assert [value.name for value in loaded.inputs] == [value.name for value in model.inputs]
    with pytest.raises(tessera.FileError):
        model.save(str(tmp_path / "no_folder" / "r.tessera"))


def test_constants_of_a_file_are_mapped_or_copied_and_checked_unless_it_is_trusted(tmp_path):
    network, x = make("residual")
    path = tmp_path / "r.tessera"
    model = tessera.load_bytes(onnx_of(network, x), threads=2)
    y = model(x)
    model.save(str(path))
    ways = [{}, {"copied": True}, {"unchecked": True}, {"copied": True, "unchecked": True}]
    for options in ways:
        assert torch.equal(tessera.load(path, threads=2, **options)(x), y)

    whole = path.read_bytes()
    copied = tessera.load(path, threads=2, copied=True)
    with open(path, "r+b") as file:  # in place, so the change is visible through the mapping
        file.seek(len(whole) // 2)
        file.write(bytes(byte ^ 0x3F for byte in whole[len(whole) // 2 : len(whole) // 2 + 64]))
    assert torch.equal(copied(x), y)
    for options in ways[:2]:
        with pytest.raises(tessera.Corrupt, match="is damaged"):
            tessera.load(path, threads=2, **options)
    for options in ways[2:]:
        assert not torch.equal(tessera.load(path, threads=2, **options)(x), y)
    for options in ways[1:]:
        with pytest.raises(tessera.InvalidArgument, match="apply only to .tessera files"):
            tessera.load(tmp_path / "r.onnx", **options)


def test_explain_tells_of_each_step():
    network, x = make("residual")
    text = tessera.load_bytes(onnx_of(network, x)).explain()
    assert text.splitlines()[0].split()[:2] == ["operator", "path"]
    assert text.count("conv2d") == 9


def test_profile_has_the_words_of_the_command():
    """A node has the keys of --json, except its position on the page; the table has its columns."""
    network, x = make("residual")
    model = tessera.load_bytes(onnx_of(network, x), threads=2)
    profile = model.profile(x, iterations=3)
    source = (ROOT / "tools" / "profile" / "profile_json.c").read_text()
    node = source[source.index("static void put_node(") : source.index("static void put_sums(")]
    keys = re.findall(r'put_\w+\(text, "(\w+)"|\\"(\w+)\\":', node)
    keys = {a or b for a, b in keys} - {"begin_ms", "shown_ms", "producers"}
    assert {"operator", "gflops", "limit_share", "reorders"} <= keys
    assert all(set(row) == keys for row in profile)
    table = (ROOT / "tools" / "profile" / "profile_table.c").read_text()
    columns = re.search(r"columns\[\] = \{(.*?)\};", table, re.S).group(1)
    columns = [name[1:] for name in re.findall(r'"(.*?)"', columns)]
    assert re.split(r"  +", str(profile).splitlines()[0].strip()) == columns


def test_profile_tells_of_times_rates_and_reorders():
    network, x = make("residual")
    model = tessera.load_bytes(onnx_of(network, x), threads=2)
    model(x)
    with tessera.count_reorders() as counted:
        model(x)
    profile = model.profile(x, iterations=3)
    convolutions = [row for row in profile if row["operator"] == "conv2d"]
    assert len(convolutions) == 9 and profile.runs == 3
    assert all(row["ms"] > 0 and row["gflops"] > 0 for row in convolutions)
    assert sum(row["share"] for row in profile) == pytest.approx(1)
    assert sum(row["ms"] for row in profile) <= 2 * profile.run_ms
    each = 2 // convolutions[0]["slices"]  # one per image
    assert convolutions[0]["in"][0][0] == "f32[%d,3,32,32]" % each
    assert convolutions[0]["flops"] == 2 * 2 * 16 * 32 * 32 * 27
    n_reorders = sum(not one["copy"] for row in profile for one in row["reorders"])
    assert n_reorders == counted.activations + counted.weights
    assert f"slowest: #{profile.slowest['index']} {profile.slowest['operator']}" in str(profile)
    with pytest.raises(tessera.InvalidArgument, match="iterations is 0, must be 1 or more"):
        model.profile(x, iterations=0)


def test_profile_and_explain_take_other_sizes_than_the_first():
    model = tessera.load_bytes(model_of_a_comparison_of_sizes(), threads=1)
    assert model.profile(random(9, 4, 6), iterations=1)[0]["in"][0][0].startswith("f32[9,")
    assert "operator" in model.explain(random(11, 4, 6))


def test_counters_are_of_this_thread_and_begin_anew():
    network, x = make("residual")
    model = tessera.load_bytes(onnx_of(network, x))
    tessera.reset_counters()
    model(x)
    assert tessera.counters()["operators"] > 0
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tessera.counters()["operators"]))
    thread.start()
    thread.join()
    assert seen == [0]


def test_audit_reads_a_log_of_onednn(tmp_path):
    log = (
        "onednn_verbose,info,oneDNN v2.6.3 (commit abc)\n"
        "onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 "
        "dst_f32::blocked:aBcd16b:f0,,,1x16x8x8,0.01\n"
        "onednn_verbose,exec,cpu,convolution,ref:any,forward_inference,src_f32::blocked:abcd:f0,"
        ",alg:convolution_direct,mb1_ic16oc16_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1,0.5\n"
    )
    told = tessera.audit(log)
    assert told["executions"]["n"] == 2 and told["reorders"]["activation"]["n"] == 1
    assert told["kinds"]["convolution"]["reference"] == 1
    (tmp_path / "log").write_text(log)
    assert tessera.audit(tmp_path / "log") == told


def test_bf16_is_computed_where_it_is_asked_for(tmp_path):
    network, x = make("residual")
    onnx_bytes = onnx_of(network, x)
    (tmp_path / "r.onnx").write_bytes(onnx_bytes)
    exact, narrow = tessera.load_bytes(onnx_bytes)(x), tessera.load(tmp_path / "r.onnx", None, "bf16")
    made = narrow(x)
    difference = (made - exact).abs().max() / exact.abs().max()
    assert made.dtype == torch.float32 and 0 < difference < 0.05
    with pytest.raises(tessera.InvalidArgument, match="dtype is f23"):
        tessera.load_bytes(onnx_bytes, dtype="f23")
    with pytest.raises(tessera.InvalidArgument, match="dtype is s8, which needs examples"):
        tessera.load_bytes(onnx_bytes, dtype="s8")
    narrow.save(str(tmp_path / "r.tessera"))
    assert torch.equal(tessera.load(tmp_path / "r.tessera")(x), made)
    with pytest.raises(tessera.InvalidArgument, match="apply only to .onnx files"):
        tessera.load(tmp_path / "r.tessera", dtype="bf16")


# ---- threads ----


def test_threads_share_a_model():
    network, x = make("residual")
    model = tessera.load_bytes(onnx_of(network, x), threads=1)
    inputs = [torch.randn_like(x) for _ in range(4)]
    wanted = [model(x) for x in inputs]
    made = [[] for _ in inputs]

    def run(i):
        for _ in range(20):
            made[i].append(model(inputs[i]))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(len(inputs)):
        assert len(made[i]) == 20 and all(torch.equal(y, wanted[i]) for y in made[i])


def test_threads_import_a_model_again_side_by_side():
    model = tessera.load_bytes(model_of_a_comparison_of_sizes(), threads=1)
    made = []

    def run(first):
        for n in range(first, first + 6):
            x = random(n, 4, 6)
            made.append(np.allclose(model(x), x + max(n, 4)))

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in (5, 5, 6, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(made) == 24 and all(made)


def test_other_threads_run_python_meanwhile():
    model = model_of(lambda x: x @ x @ x @ x, torch.randn(900, 900))
    x = random(900, 900)
    model(x)
    counts, is_done = [0], threading.Event()

    def count():
        while not is_done.is_set():
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counts[0]
    for _ in range(5):
        model(x)
    counted = counts[0] - before
    is_done.set()
    thread.join()
    assert counted > 1000


# ---- InferenceSession ----


def test_inference_session_is_as_onnx_runtime_s():
    onnx = onnx_of(Function(lambda x, y: (x + y, x * y)), torch.randn(2, 3), torch.randn(2, 3),
                   open_sizes={"x": {0: "n"}, "x1": {0: "n"}})  # fmt: skip
    session = tessera.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    first = session.get_inputs()[0]
    assert (first.name, first.type, first.shape) == ("x", "tensor(float)", ["n", 3])
    names = [output.name for output in session.get_outputs()]
    x, y = random(2, 3), random(2, 3) + 1
    added, multiplied = session.run(None, {"x": x, "x1": y})
    np.testing.assert_array_equal(added, x + y)
    np.testing.assert_array_equal(session.run([names[1]], {"x1": y, "x": x})[0], multiplied)
    with pytest.raises(tessera.InvalidArgument, match='no output "z"'):
        session.run(["z"], {"x": x, "x1": y})


def test_inference_session_takes_what_programs_for_onnx_runtime_give(tmp_path):
    onnx = onnx_of(Function(lambda x: torch.relu(x)), torch.randn(2, 3))
    (tmp_path / "relu.onnx").write_bytes(onnx)
    options = tessera.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = 99
    providers = [("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"]
    sessions = [
        tessera.InferenceSession(tmp_path / "relu.onnx", options, providers),
        tessera.InferenceSession(memoryview(onnx), sess_options=options, provider_options=[{}, {}]),
    ]
    x = random(2, 3)
    for session in sessions:
        for names in (None, [], [session.get_outputs()[0].name]):
            made = session.run(names, {"x": x}, run_options=tessera.RunOptions())
            assert len(made) == 1
            np.testing.assert_array_equal(made[0], np.maximum(x, 0))
        made = session.run(None, {"x": [[1, -2, 3], [-4, 5, -6]]}, None)[0]
        np.testing.assert_array_equal(made, [[1, 0, 3], [0, 5, 0]])
        assert session.get_session_options() is options
        assert session.get_providers() == list(session.get_provider_options())
        assert session.get_overridable_initializers() == []
        with pytest.raises(tessera.InvalidArgument, match=r"f64\[2,3\], the graph was made for f32"):
            session.run(None, {"x": x.astype(np.float64)})


def test_limits_are_arguments(tmp_path):
    x = torch.randn(1, 16, 64, 64)
    network = torch.nn.Sequential(*[torch.nn.Conv2d(16, 16, 3, padding=1) for _ in range(4)]).eval()
    data = onnx_of(network, x)
    model = tessera.load_bytes(data, limit_bytes=2**26, limit_seconds=60.0, limit_iterations=10)
    assert torch.allclose(model(x), network(x), atol=1e-4)
    with pytest.raises(tessera.OutOfMemory, match="limit"):
        tessera.load_bytes(data, limit_bytes=2**17)
    with pytest.raises(tessera.LimitReached):
        tessera.load_bytes(data, limit_seconds=1e-6)
    assert torch.allclose(tessera.load_bytes(data)(x), network(x), atol=1e-4)
    with pytest.raises(tessera.InvalidArgument, match="limit_bytes is 0, must be 1 or more"):
        tessera.load_bytes(data, limit_bytes=0)
    with pytest.raises(tessera.InvalidArgument, match="limit_seconds is nan"):
        tessera.load_bytes(data, limit_seconds=float("nan"))
    with pytest.raises(TypeError, match="limit_iterations is 'many', must be an integer or None"):
        tessera.load(tmp_path / "nowhere.onnx", limit_iterations="many")


def test_loops_end_at_their_limit():
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Add", ["a", "a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("a", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []),
         helper.make_tensor_value_info("b", TensorProto.FLOAT, [1])])  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], "g",
        [helper.make_tensor_value_info("n", TensorProto.INT64, []),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])  # fmt: skip
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = tessera.load_bytes(data.SerializeToString(), limit_iterations=10)
    x = np.ones(1, "float32")
    assert model(np.array(10), x)[0] == 1024
    with pytest.raises(tessera.LimitReached):
        model(np.array(11), x)
