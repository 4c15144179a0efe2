"""A second process maps the packed weights that the first one wrote to the store."""

import json
import os
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

SCRIPT = """
import json, sys
import numpy, tessera

x = numpy.random.default_rng(0).standard_normal((1, 64, 28, 28)).astype(numpy.float32)
y = tessera.load(sys.argv[1])(x)
counters = tessera.counters()
names = ["weights_packed", "weights_mapped", "models_imported", "models_mapped"]
print(json.dumps([counters[name] for name in names] + [y.tobytes().hex()]))
"""


def write_model(path):
    weight = numpy.random.default_rng(1).standard_normal((64, 64, 3, 3)).astype(numpy.float32) / 24
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 28, 28])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 28, 28])],
        [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), path)


def test_processes_share_packed_weights(tmp_path):
    model = str(tmp_path / "net.onnx")
    write_model(model)
    environment = dict(os.environ, TESSERA_STORE=str(tmp_path / "store"))
    runs = [json.loads(subprocess.run([sys.executable, "-c", SCRIPT, model], env=environment, check=True,
                                      stdout=subprocess.PIPE).stdout) for _ in range(2)]
    assert runs[0][0] >= 1 and runs[0][1:4] == [0, 1, 0]
    assert runs[1][0] == 0 and runs[1][1] >= 1 and runs[1][2:4] == [0, 1]
    assert runs[0][4] == runs[1][4]


SESSION = """
import json, sys
import numpy, tessera

session = tessera.InferenceSession(sys.argv[1])
x = numpy.random.default_rng(0).standard_normal((1, 64, 28, 28)).astype(numpy.float32)
y = session.run(None, {"x": x})[0]
counters = tessera.counters()
print(json.dumps([session.get_inputs(), session.get_outputs(), counters["models_mapped"], y.tobytes().hex()]))
"""


def test_sessions_map_the_model(tmp_path):
    model = str(tmp_path / "net.onnx")
    write_model(model)
    environment = dict(os.environ, TESSERA_STORE=str(tmp_path / "store"))
    runs = [json.loads(subprocess.run([sys.executable, "-c", SESSION, model], env=environment, check=True,
                                      stdout=subprocess.PIPE).stdout) for _ in range(3)]
    assert [run[2] for run in runs] == [0, 1, 1]
    assert runs[0][:2] == runs[1][:2] and runs[0][3] == runs[1][3] == runs[2][3]
