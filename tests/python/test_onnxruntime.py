"""tessera.onnxruntime against onnxruntime: one program runs with both."""

import json
import threading
import warnings

import numpy as np
import pytest

import tessera
import tessera.onnxruntime

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


@pytest.fixture
def path(tmp_path):
    """y = relu(x w + b), z = x + x, with open batch, and metadata."""
    helper, numbers = onnx.helper, np.random.default_rng(0)
    initializers = [
        onnx.numpy_helper.from_array(numbers.random((3, 4), np.float32) - 0.5, "w"),
        onnx.numpy_helper.from_array(numbers.random(4, np.float32) - 0.5, "b"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
        helper.make_node("Add", ["x", "x"], ["z"]),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", kind, ["N", 3])],
        [helper.make_tensor_value_info("y", kind, ["N", 4]), helper.make_tensor_value_info("z", kind, ["N", 3])],
        initializers, doc_string="one layer",
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="a test",
        domain="tests", model_version=7, doc_string="a model",
    )  # fmt: skip
    helper.set_model_props(model, {"classes": "cat,dog", "größe": "3"})
    path = tmp_path / "layer.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


def program(ort, path, folder):
    """Returns what a program sees that uses these parts of the interface."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    seen = {}
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    seen["entry"] = options.get_session_config_entry("session.intra_op.allow_spinning")
    ort.set_default_logger_severity(3)
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    seen["providers"] = session.get_providers(), "CPUExecutionProvider" in ort.get_available_providers()
    seen["provider options"] = list(session.get_provider_options())
    seen["device"] = ort.get_device()
    seen["inputs"] = [(a.name, a.type, a.shape) for a in session.get_inputs()]
    seen["outputs"] = [(a.name, a.type, a.shape) for a in session.get_outputs()]
    meta = session.get_modelmeta()
    seen["meta"] = [
        meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.graph_description,
        meta.version, meta.custom_metadata_map,
    ]  # fmt: skip
    seen["run"] = session.run(None, {"x": x}), session.run(["z"], {"x": x}, ort.RunOptions())

    done, results = threading.Event(), []

    def callback(made, user_data, message):
        results.append((made, user_data, message))
        done.set()

    session.run_async(["y"], {"x": x}, callback, "data")
    assert done.wait(20)
    seen["async"] = results

    binding = session.io_binding()
    output = ort.OrtValue.ortvalue_from_shape_and_type([2, 4], np.float32, "cpu", 0)
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", output)
    binding.bind_output("z")
    session.run_with_iobinding(binding)
    seen["bound"] = [output.numpy().copy(), *binding.copy_outputs_to_cpu()]
    seen["value"] = [
        output.shape(), output.data_type(), output.element_type(), output.device_name(),
        output.is_tensor(), output.has_value(), output.tensor_size_in_bytes(),
    ]  # fmt: skip
    memory = np.zeros((2, 3), np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(x + 1)
    binding.clear_binding_inputs()
    binding.clear_binding_outputs()
    binding.bind_input("x", "cpu", 0, np.float32, value.shape(), value.data_ptr())
    binding.bind_output("z", "cpu", 0, np.float32, [2, 3], memory.ctypes.data)
    session.run_with_iobinding(binding)
    seen["memory"] = memory
    value.update_inplace(x * 3)
    seen["values"] = [v.numpy() for v in session.run_with_ort_values(["y"], {"x": value})]
    with open(session.end_profiling(), encoding="utf-8") as file:
        seen["profile"] = any(event.get("cat") == "Node" for event in json.load(file))

    replaced = ort.SessionOptions()
    bias = ort.OrtValue.ortvalue_from_numpy(np.full(4, 9, np.float32))
    replaced.add_initializer("b", bias)
    seen["initializer"] = ort.InferenceSession(path, replaced).run(["y"], {"x": x})
    return seen


def compare(a, b, where):
    if isinstance(b, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=where)
    elif isinstance(b, (list, tuple)):
        assert len(a) == len(b), where
        for i, (one, other) in enumerate(zip(a, b)):
            compare(one, other, f"{where}[{i}]")
    else:
        assert a == b, where


def test_one_program_runs_with_both(path, tmp_path):
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tessera.onnxruntime.NoEffect)
        made = program(tessera.onnxruntime, path, tmp_path / "ours")
    wanted = program(ort, path, tmp_path / "theirs")
    assert list(made) == list(wanted)
    for key, value in wanted.items():
        compare(made[key], value, key)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ort, s, p: s.run(None, {"z": np.zeros((1, 3), np.float32)}),
        lambda ort, s, p: s.run(None, {}),
        lambda ort, s, p: ort.InferenceSession(3),
        lambda ort, s, p: s.io_binding().bind_output("z", shape=[2, 3], buffer_ptr=64),
        lambda ort, s, p: s.io_binding().bind_cpu_input("q", np.zeros(3, np.float32)),
        lambda ort, s, p: ort.SessionOptions().get_session_config_entry("none"),
        lambda ort, s, p: ort.InferenceSession(
            p, providers=["CPUExecutionProvider"], provider_options=[{}, {}], enable_fallback=0),
        lambda ort, s, p: ort.set_default_logger_severity(7),
    ],
)  # fmt: skip
def test_wrong_calls_raise_the_same_classes(path, wrong):
    raised = []
    for module in (tessera.onnxruntime, ort):
        session = module.InferenceSession(path)
        with pytest.raises(Exception) as info:
            wrong(module, session, path)
        raised.append(info.value)
    assert isinstance(raised[0], type(raised[1])), raised


@pytest.mark.parametrize(
    "wrong, name",
    [
        (lambda ort, s: s.run(["q"], {"x": np.zeros((1, 3), np.float32)}), "InvalidArgument"),
        (lambda ort, s: s.run(None, {"x": np.zeros((1, 3))}), "InvalidArgument"),
        (lambda ort, s: s.run(None, {"x": np.zeros((1, 4), np.float32)}), "InvalidArgument"),
        (lambda ort, s: ort.InferenceSession("none.onnx"), "NoSuchFile"),
        (lambda ort, s: ort.InferenceSession(b"junk"), "InvalidProtobuf"),
    ],
)
def test_errors_have_onnx_runtime_s_names(path, wrong, name):
    for module in (tessera.onnxruntime, ort):
        with pytest.raises(getattr(module.capi.onnxruntime_pybind11_state, name)):
            wrong(module, module.InferenceSession(path))


def test_unknown_providers_are_warned_of(path):
    for module in (tessera.onnxruntime, ort):
        with pytest.warns(UserWarning, match="Specified provider 'FooProvider' is not in available"):
            session = module.InferenceSession(path, providers=["FooProvider", "CPUExecutionProvider"])
        assert session.get_providers() == ["CPUExecutionProvider"]


def test_what_has_no_effect_is_warned_of_once():
    tessera.session._warned.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            options = tessera.SessionOptions()
            options.enable_mem_pattern = False
            options.enable_mem_reuse = True  # the default
            options.intra_op_num_threads = 2
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
    assert [str(w.message).partition(" has no effect")[0] for w in warned] == [
        "SessionOptions.enable_mem_pattern", 'session entry "session.set_denormal_as_zero"',
    ]  # fmt: skip


def test_a_run_that_is_terminated_does_not_start(path):
    options = tessera.onnxruntime.RunOptions()
    options.terminate = True
    session = tessera.onnxruntime.InferenceSession(path)
    with pytest.raises(tessera.Cancelled):
        session.run(None, {"x": np.zeros((1, 3), np.float32)}, options)


def test_memory_of_another_shape_is_refused(path):
    session = tessera.onnxruntime.InferenceSession(path)
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.zeros((2, 3), np.float32))
    value = tessera.onnxruntime.OrtValue.ortvalue_from_shape_and_type([3, 4], np.float32)
    binding.bind_ortvalue_output("y", value)
    with pytest.raises(tessera.InvalidArgument, match=r"output y is float32\[2, 4\], .* float32\[3, 4\]"):
        session.run_with_iobinding(binding)


def test_metadata_that_is_cut_off_is_refused(path):
    with open(path, "rb") as file:
        data = file.read()
    for n in range(0, len(data), 7):
        try:
            tessera.metadata.metadata_of(data[:n])
        except tessera.Corrupt:
            continue
