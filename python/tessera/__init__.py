"""Runs deep networks on CPUs in the blocked layouts of oneDNN, and counts every reorder.

    import tessera
    m = tessera.load("resnet50.onnx")
    y = m(x)                     # numpy in, numpy out; torch in, torch out; no copies
    m.save("resnet50.tessera")   # loads in milliseconds
    print(m.explain())           # each step's kernel and formats

Calls release the GIL, and several threads may call one model at once. Ctrl-C ends a call with
KeyboardInterrupt.
"""

from __future__ import annotations

import operator
import os
from typing import Any, Mapping, Sequence

from . import _openmp  # before _native, which loads OpenMP
from ._native import Model, Value, __version__, counters, isa, onednn_version, reset_counters
from ._native import audit_text as _audit_text
from ._native import load_onnx as _load_onnx
from ._native import load_tessera as _load_tessera
from .errors import Cancelled, Corrupt, Error, FileError, InvalidArgument, LimitReached
from .errors import OutOfMemory, Unsupported
from .language import LanguageModel
from .settings import settings_of as _settings_of
from .session import InferenceSession, RunOptions, SessionOptions

__all__ = [
    "Cancelled", "Corrupt", "Error", "FileError", "InferenceSession", "InvalidArgument",
    "LanguageModel", "LimitReached", "Model", "OutOfMemory", "RunOptions", "SessionOptions", "Unsupported", "Value", "__version__", "audit", "compile",
    "count_reorders", "counters", "isa", "load", "load_bytes", "onednn_version", "reset_counters",
]  # fmt: skip


def load(
    path: str | os.PathLike,
    threads: int | None = None,
    dtype: str | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    copied: bool = False,
    unchecked: bool = False,
    limit_bytes: int | None = None,
    limit_seconds: float | None = None,
    limit_iterations: int | None = None,
    context: int | None = None,
    sequences: int | None = None,
) -> Model | LanguageModel:
    """Loads an .onnx file and freezes it, maps a .tessera file, or loads a .gguf file.

    threads: number of threads for operators; None: TESSERA_THREADS, else the number of cores.
    dtype: "bf16" computes products and the operators after them in bf16, with sums in f32; inputs
    and outputs keep their dtypes. None: the dtypes of the file.
    shapes: typical shapes of inputs whose sizes an .onnx file leaves open. The model accepts other
    sizes, too.
    copied: copies the constants of a .tessera file into huge pages instead of mapping them. The
    file may then be changed or removed; loading takes longer, and processes share no memory.
    unchecked: skips the checksums of the constants, so that their bytes are read at first use.
    Only for trusted files: damage would change results silently.
    limit_bytes: memory limit of one thread's calls, shared by its models with equal threads and
    limits; exceeding it raises OutOfMemory. limit_seconds: time limit of a call; limit_iterations:
    limit of all loops in a call; exceeding them raises LimitReached. None: TESSERA_LIMIT_MEMORY,
    TESSERA_LIMIT_TIME and TESSERA_LIMIT_ITERATIONS.

    context: tokens that a sequence of a .gguf file may have; None: the model's number, at most 4096.
    sequences: most prompts that generate_all of a .gguf file runs at a time; None: 1.

    Raises FileError; Corrupt; or Unsupported, whose message lists all unknown operators.
    """
    if isinstance(path, (bytes, bytearray, memoryview)):
        raise TypeError("path is a bytes object: pass the bytes of an ONNX model to load_bytes")
    path = os.fspath(path)
    dtype, shapes = _check_dtype(dtype), _check_shapes(shapes)
    settings = _settings_of(threads, limit_bytes, limit_seconds, limit_iterations)
    if path.endswith(".gguf"):
        if shapes is not None or dtype is not None or copied or unchecked:
            raise InvalidArgument(f"{path}: a .gguf file takes only threads, limits, context and sequences")
        return LanguageModel(path, settings, 0 if context is None else operator.index(context),
                             1 if sequences is None else operator.index(sequences))
    if context is not None or sequences is not None:
        raise InvalidArgument(f"{path}: context and sequences apply only to .gguf files")
    if path.endswith(".tessera"):
        if shapes is not None or dtype is not None:
            raise InvalidArgument(f"{path}: shapes and dtype apply only to .onnx files")
        return _load_tessera(path, settings, bool(copied), bool(unchecked))
    if copied or unchecked:
        raise InvalidArgument(f"{path}: copied and unchecked apply only to .tessera files")
    return _load_onnx(path, None, shapes or {}, settings, dtype or "")


def load_bytes(
    onnx: bytes,
    threads: int | None = None,
    dtype: str | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    limit_bytes: int | None = None,
    limit_seconds: float | None = None,
    limit_iterations: int | None = None,
) -> Model:
    """Like load, for the bytes of an ONNX model."""
    if not isinstance(onnx, (bytes, bytearray, memoryview)):
        raise TypeError(f"onnx is a {type(onnx).__name__}, must be the bytes of an ONNX model")
    dtype, shapes = _check_dtype(dtype), _check_shapes(shapes)
    settings = _settings_of(threads, limit_bytes, limit_seconds, limit_iterations)
    return _load_onnx("", bytes(onnx), shapes or {}, settings, dtype or "")


def compile(
    module: Any,
    *example: Any,
    threads: int | None = None,
    dynamic_shapes: Any = None,
    limit_bytes: int | None = None,
    limit_seconds: float | None = None,
    limit_iterations: int | None = None,
):
    """Exports a PyTorch module with PyTorch's own exporter, freezes it, and returns a Model.

    dynamic_shapes: as for torch.export.export; None: all sizes are those of the example. The Model
    keeps the module and exports it again for sizes that take another branch of its Python code. If
    PyTorch cannot export it then, the call raises InvalidArgument.
    Limits: as for load.
    """
    from .pytorch import compile as compile_module

    settings = _settings_of(threads, limit_bytes, limit_seconds, limit_iterations)
    return compile_module(module, example, settings, dynamic_shapes)


class count_reorders:
    """Counts the reorders of this thread inside a with statement.

        with tessera.count_reorders() as counted:
            m(x)
        print(counted.weights, counted.activations, counted.copies)
    """

    weights = activations = copies = bytes = 0

    def __enter__(self) -> "count_reorders":
        self._before = counters()
        return self

    def __exit__(self, *_: Any) -> None:
        before, after = self._before, counters()
        self.weights = after["weight_reorders"] - before["weight_reorders"]
        self.activations = after["activation_reorders"] - before["activation_reorders"]
        self.copies = sum(after["copies"].values()) - sum(before["copies"].values())
        self.bytes = after["reorder_bytes"] - before["reorder_bytes"]


def audit(log: str | os.PathLike) -> dict:
    """Counts the executions in a log of oneDNN (ONEDNN_VERBOSE=1, any program, any version).

    log: a path, or the log's text. Returns executions, reorders by cause, and primitives by kind;
    each kind also counts its executions by reference implementations.
    """
    text = os.fspath(log)
    if "\n" not in text:
        with open(text, encoding="utf-8", errors="replace") as file:
            text = file.read()
    return _audit_text(text)


def _check_dtype(dtype: str | None) -> str | None:
    if dtype is not None and not isinstance(dtype, str):
        raise TypeError(f"dtype is {dtype!r}, must be a name such as \"bf16\", or None")
    return dtype


def _check_shapes(shapes: Mapping[str, Sequence[int]] | None) -> dict[str, list[int]] | None:
    if shapes is None:
        return None
    try:
        return {_text(name): [operator.index(size) for size in dict(shapes)[name]] for name in shapes}
    except (TypeError, ValueError):
        raise TypeError(
            f"shapes is {shapes!r}, must be a dict of names and lists of integers, or None"
        ) from None


def _text(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name
