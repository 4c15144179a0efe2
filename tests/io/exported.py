#!/usr/bin/env python3
"""Writes tests/io/exported: networks exported by PyTorch, and what PyTorch gives at several sizes.

Run by hand with torch 2.13.0, onnx 1.23.2, onnxscript and ONNX Runtime 1.31.1 or 1.32.0:
    python3 tests/io/exported.py [NAME]...

torch.onnx.export makes NAME.script.onnx with dynamo=False and dynamic_axes, and NAME.dynamo.onnx with
dynamo=True and named dimensions; the first run's inputs are those of the export. NAME.values is as in
stored.py. In addition, "0/x drawn" has the sizes of an input whose name "0/x" determines its elements
(tests/support/draw.py), and "1/refused script" means that a file only works at the export's sizes in
ONNX Runtime, since the exporter fixed them.
"""
import os
import sys
import warnings

import numpy
import onnx
import onnxruntime
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from draw import draw
from exported_networks import cases

FOLDER = os.environ.get("EXPORTED", os.path.join(HERE, "exported"))


def read(run, inputs):
    return [value if isinstance(value, torch.Tensor)
            else torch.from_numpy(draw(f"{run}/{name}", int(numpy.prod(value))).reshape(value).astype(numpy.float32))
            for name, value in inputs.items()]


# ---- open dimensions ----

def is_open(dim):
    return isinstance(dim, str)


def dynamic_axes(inputs):
    return {name: {i: dim.split("*")[-1] for i, dim in enumerate(dims) if is_open(dim)}
            for name, dims in inputs.items()}


def dynamic_shapes(inputs):
    names = {}

    def make(dim):
        factor, _, name = dim.rpartition("*")
        each = names.setdefault(name, torch.export.Dim(name))
        return int(factor) * each if factor else each
    return {name: {i: make(dim) for i, dim in enumerate(dims) if is_open(dim)} for name, dims in inputs.items()}


# ---- exporting ----

def by_script(network, given, inputs, outputs, path):
    torch.onnx.export(network, tuple(given), path, dynamo=False, input_names=list(inputs), output_names=outputs,
                      dynamic_axes=dynamic_axes(inputs))


def by_dynamo(network, given, inputs, outputs, path):
    torch.onnx.export(network, tuple(given), path, dynamo=True, input_names=list(inputs), output_names=outputs,
                      dynamic_shapes=dynamic_shapes(inputs), external_data=False, verbose=False)


def strip(proto):
    """Drops what says where in a Python source a node came from."""
    for field, value in proto.ListFields():
        if field.name in ("doc_string", "metadata_props"):
            proto.ClearField(field.name)
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                strip(each)


def build(name):
    torch.manual_seed(1)
    network = cases[name][0]().eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.3, 0.3)
            module.running_var.uniform_(0.5, 1.5)
    return network


def export(name, exporter):
    _, inputs, runs, outputs, _ = cases[name]
    path = os.path.join(FOLDER, f"{name}.{exporter}.onnx")
    {"script": by_script, "dynamo": by_dynamo}[exporter](build(name), read(0, runs[0]), inputs, outputs, path)
    proto = onnx.load(path)
    strip(proto)
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, path)


def is_refused(name, exporter, given, wanted):
    """Returns true if ONNX Runtime cannot run the file at these sizes; else compares with PyTorch."""
    session = onnxruntime.InferenceSession(os.path.join(FOLDER, f"{name}.{exporter}.onnx"),
                                           providers=["CPUExecutionProvider"])
    try:
        results = session.run(None, {each.name: given[each.name].numpy() for each in session.get_inputs()})
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return True
    for a, b in zip(results, wanted):
        assert a.shape == b.shape and numpy.allclose(a, b, rtol=0, atol=2e-5 * b.abs().max()), (name, exporter)
    return False


def write_values(name):
    network = build(name)
    _, inputs, runs, outputs, exporters = cases[name]
    values = onnx.GraphProto(name=name)

    def add(key, array):
        values.initializer.append(onnx.numpy_helper.from_array(numpy.array(array, order="C"), key))
    for run, given in enumerate(runs):
        for key, value in given.items():
            is_drawn = not isinstance(value, torch.Tensor)
            add(f"{run}/{key}" + " drawn" * is_drawn, numpy.array(value, dtype=numpy.int64) if is_drawn else value)
        elements = read(run, given)
        with torch.no_grad():
            results = network(*elements)
        results = results if isinstance(results, tuple) else (results,)
        for key, result in zip(outputs, results):
            add(f"{run}/{key}", result)
        for exporter in exporters:
            if is_refused(name, exporter, dict(zip(given, elements)), results):
                add(f"{run}/refused {exporter}", True)
                print(name, exporter, "is for the sizes of the export, not those of run", run)
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(4)
    torch.backends.mha.set_fastpath_enabled(False)
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or cases:
        for exporter in cases[name][-1]:
            export(name, exporter)
            print(name, exporter, os.path.getsize(os.path.join(FOLDER, f"{name}.{exporter}.onnx")), flush=True)
        write_values(name)
