"""Ctrl-C and cancelling: a call ends soon, and the model can be used afterwards."""

import signal
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessera


def _model(n=12, channels=96, size=112):
    """A chain of convolutions of a few milliseconds each."""
    weight = np.random.default_rng(0).standard_normal((channels, channels, 3, 3)) * 0.03
    nodes, at = [], "x"
    for i in range(n):
        to = "y" if i == n - 1 else f"v{i}"
        nodes.append(helper.make_node("Conv", [at, "w"], [to], pads=[1, 1, 1, 1]))
        at = to
    value = lambda name: helper.make_tensor_value_info(
        name, TensorProto.FLOAT, [1, channels, size, size]
    )
    graph = helper.make_graph(
        nodes, "g", [value("x")], [value("y")],
        [onnx.numpy_helper.from_array(weight.astype("float32"), "w")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    x = np.random.default_rng(1).standard_normal((1, channels, size, size)).astype("float32")
    return model.SerializeToString(), x


@pytest.fixture(scope="module")
def model_and_x():
    data, x = _model()
    return tessera.load_bytes(data), x


def _interrupt(after):
    timer = threading.Timer(
        after, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    )
    timer.start()
    return timer


def test_ctrl_c_ends_a_run(model_and_x):
    model, x = model_and_x
    wanted = model(x)
    for after in (0.01, 0.03, 0.07, 0.1):
        timer = _interrupt(after)
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            while True:
                model(x)
        assert time.monotonic() - begin < after + 20.0
        timer.join()
        assert np.array_equal(model(x), wanted)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_loading():
    data, _ = _model()
    begin = time.monotonic()
    timer = _interrupt(0.05)
    with pytest.raises(KeyboardInterrupt):
        while True:
            tessera.load_bytes(data)
    assert time.monotonic() - begin < 20.0
    timer.join()


def test_another_handler_waits_until_the_call_has_ended(model_and_x):
    model, x = model_and_x
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        wanted = model(x)
        timer = _interrupt(0.02)
        assert np.array_equal(model(x), wanted)
        timer.join()
        time.sleep(0.01)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_cancels(model_and_x):
    model, x = model_and_x
    model.cancel()  # no call is running, so this has no effect
    wanted = model(x)
    errors = []

    def run():
        try:
            while True:
                model(x)
        except tessera.Error as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        time.sleep(0.02)
        model.cancel()
    thread.join()
    assert isinstance(errors[0], tessera.Cancelled)
    assert "cancelled" in str(errors[0])
    assert np.array_equal(model(x), wanted)
