#!/usr/bin/env python3
"""Makes the .safetensors files in this folder with the format's writer (safetensors 0.8.0, NumPy).

types.safetensors    [1, 2] of every supported type, a scalar, a tensor without elements, a name with
                     escapes; metadata
foreign.safetensors  unsupported types, and one F32 tensor

usage: tests/io/safetensors_files.py    (pip install numpy safetensors)"""
import os
import struct

import numpy
from safetensors import TensorSpec, serialize_file

here = os.path.dirname(os.path.abspath(__file__))
kept = []


def spec(dtype, shape, data):
    array = numpy.frombuffer(data or b"\0", "u1").copy()
    kept.append(array)  # a spec has the address alone
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=array.ctypes.data, data_len=len(data))


types = {"bool": "<BB", "uint8": "<BB", "int8": "<bb", "int16": "<hh", "uint16": "<HH",
         "float16": "<ee", "int32": "<ii", "uint32": "<II", "float32": "<ff", "float64": "<dd",
         "int64": "<qq", "uint64": "<QQ"}
tensors = {name: spec(name, [1, 2], struct.pack(code, 1, 2 if name != "bool" else 0))
           for name, code in types.items()}
tensors["bfloat16"] = spec("bfloat16", [1, 2], struct.pack("<HH", 0x3F80, 0x4000))
tensors["number"] = spec("float32", [], struct.pack("<f", 1))
tensors["nothing"] = spec("int16", [0, 4], b"")
tensors['"\\\n\x1fü'] = spec("uint8", [1], b"\1")
serialize_file(tensors, os.path.join(here, "types.safetensors"), {"format": "pt"})

tensors = {"float8": spec("float8_e4m3fn", [3], b"\0\1\2"), "float4": spec("float4_e2m1fn_x2", [2], b"\0\1"),
           "complex": spec("complex64", [1], bytes(8)), "float32": spec("float32", [1], struct.pack("<f", 1))}
serialize_file(tensors, os.path.join(here, "foreign.safetensors"), None)
