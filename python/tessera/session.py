"""The part of ONNX Runtime's InferenceSession that programs need to run a model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Mapping, NamedTuple, Sequence

from . import _native
from .errors import InvalidArgument

_TYPES = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "s8": "int8",
    "u8": "uint8", "s16": "int16", "u16": "uint16", "s32": "int32", "u32": "uint32",
    "s64": "int64", "u64": "uint64", "bool": "bool",
}  # fmt: skip


class NodeArg(NamedTuple):
    """An input or output, like onnxruntime.NodeArg."""

    name: str
    type: str
    shape: list


class SessionOptions(SimpleNamespace):
    """Accepts any attribute of onnxruntime.SessionOptions; only intra_op_num_threads is used."""

    intra_op_num_threads = 0


class RunOptions(SimpleNamespace):
    """Accepts any attribute of onnxruntime.RunOptions; none has an effect."""


def _array(value: Any, kind: str) -> Any:
    """Converts lists and numbers to arrays, as ONNX Runtime does; returns other values as is."""
    if not kind.startswith("tensor(") or not isinstance(value, (bool, int, float, list, tuple)):
        return value
    import numpy

    name = kind[len("tensor(") : -1]
    return numpy.asarray(value, {"float": "float32", "double": "float64"}.get(name, name))


def _arg(value: _native.Value) -> NodeArg:
    kind = _TYPES.get(value.dtype)
    return NodeArg(value.name, f"tensor({kind})" if kind else value.dtype, list(value.shape or ()))


class InferenceSession:
    """Replaces onnxruntime.InferenceSession.

    path_or_bytes: an .onnx or .tessera file, or the bytes of an ONNX model. sess_options: ONNX
    Runtime's or tessera.SessionOptions; only intra_op_num_threads has an effect. Providers are
    ignored: the model runs on the CPU.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ):
        from . import load, load_bytes

        self._options = sess_options if sess_options is not None else SessionOptions()
        threads = getattr(sess_options, "intra_op_num_threads", 0) or None
        is_bytes = isinstance(path_or_bytes, (bytes, bytearray, memoryview))
        self._model = (
            load_bytes(bytes(path_or_bytes), threads) if is_bytes else load(path_or_bytes, threads)
        )
        self._inputs = [_arg(value) for value in self._model.inputs]
        self._outputs = [_arg(value) for value in self._model.outputs]

    def get_inputs(self) -> list[NodeArg]:
        """Returns the inputs, in order."""
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        """Returns the outputs, in order."""
        return self._outputs

    def get_providers(self) -> list[str]:
        """Returns the CPU provider."""
        return ["CPUExecutionProvider"]

    def get_provider_options(self) -> dict[str, dict]:
        """Returns no options for the CPU provider."""
        return {"CPUExecutionProvider": {}}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Does nothing: the model always runs on the CPU."""

    def get_session_options(self) -> Any:
        """Returns the options that the session was made with."""
        return self._options

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Returns none, since initializers are constants."""
        return []

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list:
        """Runs the model; returns the named outputs in their order, or all if output_names is None
        or empty. Lists and numbers become arrays of the input's dtype."""
        dtypes = {arg.name: arg.type for arg in self._inputs}
        feed = {name: _array(value, dtypes.get(name, "")) for name, value in input_feed.items()}
        made = self._model.run(feed)
        if not output_names:
            return list(made.values())
        for name in output_names:
            if name not in made:
                raise InvalidArgument(f'no output "{name}", there are {", ".join(made)}')
        return [made[name] for name in output_names]
