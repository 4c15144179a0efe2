#!/usr/bin/env python3
"""Writes tests/io/refused: small models that are refused. test_onnx_refused.c has their messages.

Run by hand with onnx 1.23.2:
    python3 tests/io/refused.py [NAME]...
"""
import os
import sys

import onnx
import onnx.parser

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "refused")
models = {}


def refused(name, text, opset=25, imports=""):
    header = f'<ir_version: 10, opset_import: ["" : {opset}{imports}]>\n'
    models[name] = lambda: onnx.parser.parse_model(header + text)


def made(function):
    models[function.__name__] = function
    return function


# ---- opset 24 to 27 ----

HEADS = "float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v"
refused("lengths_with_past", f"main ({HEADS}, int64[1] n) => (float[1,2,3,4] y) {{ y = Attention(q, k, v, , k, v, n) }}")
refused("lengths_of_others", f"main ({HEADS}, int64[2] n) => (float[1,2,3,4] y) {{ y = Attention(q, k, v, , , , n) }}")
refused("lengths_too_early", f"main ({HEADS}, int64[1] n) => (float[1,2,3,4] y) {{ y = Attention(q, k, v, , , , n) }}", 23)
refused("window_of_minus_two", f"main ({HEADS}) => (float[1,2,3,4] y) {{ y = Attention<left_window_size = -2>(q, k, v) }}")
refused("cache_of_other_sizes", "main (float[2,6,2] c, float[2,3,3] u) => (float[2,6,2] y) { y = TensorScatter(c, u) }")
refused("convolution_of_groups", "main (float[1,4,6] x, float[4,2,3] w) => (float[1,4,6] y) { y = CausalConvWithState(x, w) }", 27)
refused("bits_of_other_size", "main (float[2] x) => (int64[2] y) { y = BitCast<to = 7>(x) }", 26)
refused("bits_of_data", "main (float[2] x) => (int32[2] y) { y = BitCast<to = 6>(x) }", 26)
refused("linear_attention", "main (float[1,2,8] x) => (float[1,2,8] y) "
        "{ y, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2>(x, x, x) }", 27)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or models:
        onnx.save(models[name](), os.path.join(FOLDER, name + ".onnx"))
