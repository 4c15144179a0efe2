#!/usr/bin/env python3
"""Writes tests/io/models.values: what ONNX Runtime gives for the ONNX models that tools/models
fetches, at several sizes of their inputs.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.32.0, after tools/models:
    python3 tests/io/models.py

It is a GraphProto whose initializers are tensors: "rapidocr/det.onnx 0 in x" has the sizes of input x
in run 0 of a model, whose elements follow from the name "x" (tests/support/draw.py), or, for
integers, the elements ("elements x"), or is a picture of bytes [N][H][W] ("picture x") whose channels are
alike, b / 127.5 - 1; "... out y" has the elements of output y, every k-th of at most N_SHOWN, and
"... sizes y" its sizes. A suffix after "@" distinguishes runs that import the file again.
"""
import os
import sys

import numpy
import onnx
import onnxruntime

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "support"))
from draw import draw

MODELS = os.path.join(HERE, "..", "..", "build", "models")
N_SHOWN = 400

LETTERS = {
    "T": ["#####", "..#..", "..#..", "..#..", "..#..", "..#..", "..#.."],
    "E": ["#####", "#....", "#....", "####.", "#....", "#....", "#####"],
    "S": [".####", "#....", "#....", ".###.", "....#", "....#", "####."],
    "R": ["####.", "#...#", "#...#", "####.", "#.#..", "#..#.", "#...#"],
    "A": [".###.", "#...#", "#...#", "#####", "#...#", "#...#", "#...#"],
}


def picture(height, width, scale, top, left):
    """The word TESSERA, dark on light."""
    image = numpy.full((height, width), 235, numpy.uint8)
    for i, letter in enumerate("TESSERA"):
        for y, row in enumerate(LETTERS[letter]):
            for x, dot in enumerate(row):
                at_y, at_x = top + y * scale, left + (i * 6 + x) * scale
                if dot == "#":
                    image[at_y:at_y + scale, at_x:at_x + scale] = 20
    return image


RATE = numpy.array(16000)
SILERO = {"input": [1, 576], "state": [2, 1, 128]}
SLOW = {"input": [1, 288], "state": [2, 1, 128], "sr": numpy.array(8000)}
RUNS = {
    "rapidocr/ch_PP-OCRv4_det_infer.onnx": [{"x": picture(64, 96, 2, 24, 6)[None]},
                                            {"x": numpy.stack([picture(96, 128, 2, top, 20) for top in (40, 8)])}],
    "rapidocr/ch_PP-OCRv4_rec_infer.onnx": [{"x": [1, 3, 48, 64]}, {"x": [2, 3, 48, 100]}],
    "rapidocr/ch_ppocr_mobile_v2.0_cls_infer.onnx": [{"x": [1, 3, 48, 192]}, {"x": [2, 3, 48, 192]}],
    "silero_vad/silero_vad.onnx": [SILERO | {"sr": RATE}],
    "silero_vad/silero_vad.onnx@8000": [SLOW],
    "silero_vad/silero_vad_half.onnx": [SILERO],
    "silero_vad/silero_vad_16k_op15.onnx": [SILERO | {"sr": RATE}],
    "silero_vad/silero_vad_16k_sequence.onnx":
        [{"input": [n, 576], "h": [1, 1, 128], "c": [1, 1, 128]} for n in (3, 7)],
    "silero_vad/silero_vad_op18_ifless.onnx": [SILERO | {"sr": RATE}],
    "silero_vad/silero_vad_op18_ifless.onnx@8000": [SLOW],
    "silero_vad/silero_vad_openvino_16k.onnx": [SILERO],
    "magika/model.onnx": [{"bytes": (numpy.arange(2048 * n, dtype=numpy.int32).reshape(n, 2048) * 37 + 11) % 257}
                          for n in (1, 3)],
}


def kind(given):
    if not isinstance(given, numpy.ndarray):
        return "in"
    return "picture" if given.dtype == numpy.uint8 else "elements"


def elements(name, given):
    if kind(given) == "picture":
        return (given.astype(numpy.float32) / numpy.float32(127.5) - 1)[:, None].repeat(3, axis=1)
    if kind(given) == "elements":
        return given
    return draw(name, int(numpy.prod(given))).reshape(given).astype(numpy.float32)


def add(values, key, array):
    values.initializer.append(onnx.numpy_helper.from_array(numpy.array(array, order="C"), key))


values = onnx.GraphProto(name="models")
for model, runs in RUNS.items():
    session = onnxruntime.InferenceSession(os.path.join(MODELS, model.split("@")[0]), providers=["CPUExecutionProvider"])
    for run, given in enumerate(runs):
        feeds = {name: elements(name, value) for name, value in given.items()}
        for name in (each.name for each in session.get_inputs()):
            value = given[name]
            add(values, f"{model} {run} {kind(value)} {name}",
                numpy.array(value, dtype=numpy.int64) if kind(value) == "in" else value)
        for output, result in zip(session.get_outputs(), session.run(None, feeds)):
            step = -(-result.size // N_SHOWN) | 1
            add(values, f"{model} {run} sizes {output.name}", numpy.array(result.shape, dtype=numpy.int64))
            add(values, f"{model} {run} out {output.name}", result.reshape(-1)[::step])
            print(model, run, output.name, result.shape, numpy.abs(result).max())
with open(os.path.join(HERE, "models.values"), "wb") as file:
    file.write(values.SerializeToString())
