"""ONNX Runtime's InferenceSession and its options. docs/onnxruntime.md lists which have an effect."""

from __future__ import annotations

import concurrent.futures
import enum
import json
import mmap
import os
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence

from . import _native
from .errors import Cancelled, InvalidArgument
from .metadata import ModelMetadata, metadata_of
from .settings import settings_of

if TYPE_CHECKING:  # values imports numpy
    from .values import IOBinding, OrtValue

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


class GraphOptimizationLevel(enum.IntEnum):
    """Levels of onnxruntime.GraphOptimizationLevel; the model is always optimized."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Modes of onnxruntime.ExecutionMode; operators always run one after the other."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Orders of onnxruntime.ExecutionOrder; the library chooses the order."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class NoEffect(UserWarning):
    """Warns once of an option that is accepted but has no effect."""


_warned: set[str] = set()


def _warn_once(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        warnings.warn(f"{what} has no effect, see docs/onnxruntime.md", NoEffect, stacklevel=4)


class SessionOptions:
    """The options of a session. Other attributes than those of onnxruntime.SessionOptions may be
    set, too; they have no effect."""

    _DEFAULTS = {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True,
        "enable_profiling": False, "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0, "intra_op_num_threads": 0, "log_severity_level": -1,
        "log_verbosity_level": 0, "logid": "", "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }  # fmt: skip
    _EFFECTIVE = ("enable_profiling", "intra_op_num_threads", "profile_file_prefix")

    def __init__(self) -> None:
        self.__dict__.update(self._DEFAULTS)
        self._entries: dict[str, str] = {}
        self._initializers: dict[str, Any] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        is_known = name.startswith("_") or name in self._EFFECTIVE
        if not is_known and (name not in self._DEFAULTS or value != self._DEFAULTS[name]):
            _warn_once(f"SessionOptions.{name}")
        self.__dict__[name] = value

    def add_session_config_entry(self, config_key: str, config_value: str) -> None:
        """Stores an entry, which has no effect."""
        _warn_once(f'session entry "{config_key}"')
        self._entries[config_key] = config_value

    def get_session_config_entry(self, config_key: str) -> str:
        """Returns an entry that was added; RuntimeError if there is none."""
        if config_key not in self._entries:
            raise RuntimeError(f"SessionOptions does not have configuration with key: {config_key}")
        return self._entries[config_key]

    def add_initializer(self, name: str, ortvalue: Any) -> None:
        """Replaces an initializer of the model by a value."""
        self._initializers[name] = ortvalue.numpy()

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Replaces initializers of the model by values."""
        for name, value in zip(names, values):
            self.add_initializer(name, value)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Has no effect: a model with open sizes also runs at this one."""
        _warn_once("SessionOptions.add_free_dimension_override_by_name")

    def add_free_dimension_override_by_denotation(self, name: str, size: int) -> None:
        """Has no effect, like add_free_dimension_override_by_name."""
        _warn_once("SessionOptions.add_free_dimension_override_by_denotation")

    def register_custom_ops_library(self, path: str) -> None:
        """Raises RuntimeError: libraries of ONNX Runtime's operators cannot be loaded."""
        raise RuntimeError(f"{path}: libraries of custom operators are not supported")


class RunOptions:
    """The options of a run. `terminate` ends a run before it starts; others have no effect."""

    def __init__(self) -> None:
        self.log_severity_level = self.log_verbosity_level = 0
        self.logid = ""
        self.terminate = self.only_execute_path_to_fetches = False
        self._entries: dict[str, str] = {}

    def add_run_config_entry(self, config_key: str, config_value: str) -> None:
        """Stores an entry, which has no effect."""
        _warn_once(f'run entry "{config_key}"')
        self._entries[config_key] = config_value

    def get_run_config_entry(self, config_key: str) -> str:
        """Returns an entry that was added; RuntimeError if there is none."""
        if config_key not in self._entries:
            raise RuntimeError(f"RunOptions does not have configuration with key: {config_key}")
        return self._entries[config_key]


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


_PROVIDER = "CPUExecutionProvider"


def _check_providers(providers: Any, options: Any) -> None:
    """Raises and warns of the same arguments as ONNX Runtime."""
    if providers is None:
        return
    if isinstance(providers, str) or not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if options is not None and len(options) != len(providers):
        raise ValueError(
            "'providers' and 'provider_options' should be the same length if both are given."
        )
    for provider in providers:
        is_pair = isinstance(provider, tuple) and len(provider) == 2
        name = provider[0] if is_pair else provider
        if not isinstance(name, str) or (is_pair and not isinstance(provider[1], dict)):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name != _PROVIDER:
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{_PROVIDER}'",
                stacklevel=4,
            )


def _read_metadata(path_or_bytes: Any) -> ModelMetadata:
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        return metadata_of(path_or_bytes)
    path = os.fspath(path_or_bytes)
    if path.endswith(".tessera"):
        return ModelMetadata()
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        with memoryview(mapped) as data:
            return metadata_of(bytes(data))


class InferenceSession:
    """Replaces onnxruntime.InferenceSession.

    path_or_bytes: an .onnx or .tessera file, or the bytes of an ONNX model. sess_options: ONNX
    Runtime's or tessera.SessionOptions. Providers other than the CPU's are warned of; the model runs
    on the CPU.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ):
        if not isinstance(path_or_bytes, (str, bytes, bytearray, memoryview, os.PathLike)):
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        _check_providers(providers, provider_options)
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._source = path_or_bytes
        self._model = self._load(getattr(self._options, "_initializers", {}))
        self._inputs = [_arg(value) for value in self._model.inputs]
        self._outputs = [_arg(value) for value in self._model.outputs]
        self._metadata: ModelMetadata | None = None
        self._started = time.time_ns()
        self._last: list | None = None  # the inputs of the last run, for a profile
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None

    def _load(self, initializers: dict[str, Any]) -> Any:
        from . import load, load_bytes

        source = self._source
        threads = getattr(self._options, "intra_op_num_threads", 0) or None
        is_bytes = isinstance(source, (bytes, bytearray, memoryview))
        if initializers:
            path, onnx = ("", bytes(source)) if is_bytes else (os.fspath(source), None)
            return _native.load_onnx(path, onnx, {}, settings_of(threads), "", initializers)
        return load_bytes(bytes(source), threads) if is_bytes else load(source, threads)

    def get_inputs(self) -> list[NodeArg]:
        """Returns the inputs, in order."""
        return self._inputs

    def get_outputs(self) -> list[NodeArg]:
        """Returns the outputs, in order."""
        return self._outputs

    def get_modelmeta(self) -> ModelMetadata:
        """Returns the metadata of the ONNX file; empty for a .tessera file."""
        if self._metadata is None:
            self._metadata = _read_metadata(self._source)
        return self._metadata

    def get_providers(self) -> list[str]:
        """Returns the CPU provider."""
        return [_PROVIDER]

    def get_provider_options(self) -> dict[str, dict]:
        """Returns no options for the CPU provider."""
        return {_PROVIDER: {}}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Checks the arguments: the model always runs on the CPU."""
        _check_providers(providers, provider_options)

    def enable_fallback(self) -> None:
        """Does nothing: there is no other provider."""

    def disable_fallback(self) -> None:
        """Does nothing: there is no other provider."""

    def get_session_options(self) -> Any:
        """Returns the options that the session was made with."""
        return self._options

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Returns none, since initializers are constants."""
        return []

    def _feed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        missing = [arg.name for arg in self._inputs if arg.name not in given]
        if missing:
            raise ValueError(
                f"Required inputs ({missing}) are missing from input feed ({list(given)})."
            )
        dtypes = {arg.name: arg.type for arg in self._inputs}

        def is_value(value: Any) -> bool:
            return type(value).__name__ == "OrtValue" and hasattr(value, "numpy")

        return {
            name: value.numpy() if is_value(value) else _array(value, dtypes.get(name, ""))
            for name, value in given.items()
        }

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list:
        """Runs the model; returns the named outputs in their order, or all if output_names is None
        or empty. Lists and numbers become arrays of the input's dtype."""
        if getattr(run_options, "terminate", False):
            raise Cancelled("the run's options have terminate set to true")
        feed = self._feed(input_feed)
        if getattr(self._options, "enable_profiling", False):
            self._last = [feed[arg.name] for arg in self._inputs]
        made = self._model.run(feed)
        if not output_names:
            return list(made.values())
        for name in output_names:
            if name not in made:
                raise InvalidArgument(f'no output "{name}", there are {", ".join(made)}')
        return [made[name] for name in output_names]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list, Any, str], None],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Runs in another thread, which then calls callback(results, user_data, message). The
        message is "" if the run succeeded; otherwise results is empty."""
        feed = self._feed(input_feed)

        def work() -> None:
            try:
                made, message = self.run(output_names, feed, run_options), ""
            except Exception as error:
                made, message = [], str(error)
            callback(made, user_data, message)

        if self._threads is None:
            self._threads = concurrent.futures.ThreadPoolExecutor(1, "tessera")
        self._threads.submit(work)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """run() with values instead of arrays."""
        from .values import OrtValue

        return [OrtValue(made) for made in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """Returns an object to which inputs, and memory for outputs, can be bound."""
        from .values import IOBinding

        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Runs on bound inputs. Outputs are written to the memory bound to them."""
        iobinding.run(run_options)

    def get_profiling_start_time_ns(self) -> int:
        """Returns the time at which the session was made, in nanoseconds."""
        return self._started

    def end_profiling(self) -> str:
        """Measures the inputs of the last run again, operator by operator, and writes a trace in
        Chrome's format. Returns its path; "" if profiling is off."""
        if not getattr(self._options, "enable_profiling", False):
            return ""
        events, at = [], 0.0
        for row in self._model.profile(*self._last, iterations=3) if self._last is not None else ():
            duration = row["ms"] * 1000
            events.append(
                {"cat": "Node", "ph": "X", "pid": os.getpid(), "tid": 0, "ts": round(at),
                 "dur": round(duration), "name": row["path"] or row["operator"],
                 "args": {"op_name": row["operator"], "provider": _PROVIDER}}
            )  # fmt: skip
            at += duration
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(self._started / 1e9))
        path = f"{self._options.profile_file_prefix}_{stamp}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(events, file)
        return path
