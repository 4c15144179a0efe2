"""Reads the metadata of an ONNX file: fields of ModelProto that the import does not keep."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from .errors import Corrupt


class ModelMetadata(NamedTuple):
    """Describes a model, like onnxruntime.ModelMetadata."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 2**63 - 1
    custom_metadata_map: dict = {}


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at
        shift += 7
    raise Corrupt("an integer of the ONNX model is cut off")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yields the number and value of each field of a message of protocol buffers."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        n, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}.get(kind, len(data) + 1), at)
        if n > len(data) - at:
            raise Corrupt("a field of the ONNX model is cut off")
        yield key >> 3, data[at : at + n]
        at += n


def _text(value: object) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, memoryview) else ""


_MODEL = {2: "producer_name", 4: "domain", 6: "description"}
_GRAPH = {2: "graph_name", 10: "graph_description"}


def metadata_of(onnx: bytes | memoryview) -> ModelMetadata:
    """Returns the metadata in the bytes of an ONNX model. Corrupt if the bytes are cut off."""
    found: dict = {"custom_metadata_map": {}}
    for number, value in _fields(memoryview(onnx)):
        if number in _MODEL:
            found[_MODEL[number]] = _text(value)
        elif number == 5 and isinstance(value, int):
            found["version"] = value - 2**64 if value >= 2**63 else value
        elif number == 14 and isinstance(value, memoryview):
            pair = {n: _text(v) for n, v in _fields(value)}
            found["custom_metadata_map"][pair.get(1, "")] = pair.get(2, "")
        elif number == 7 and isinstance(value, memoryview):
            for n, v in _fields(value):
                if n in _GRAPH:
                    found[_GRAPH[n]] = _text(v)
    return ModelMetadata(**found)
