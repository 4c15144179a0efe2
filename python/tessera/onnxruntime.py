"""ONNX Runtime's names, for programs that change one import:

    import tessera.onnxruntime as ort
    session = ort.InferenceSession("net.onnx")

docs/onnxruntime.md lists what has an effect.
"""

from __future__ import annotations

from types import SimpleNamespace

from . import __version__
from .errors import Corrupt, Error, FileError, InvalidArgument, Unsupported
from .metadata import ModelMetadata
from .session import (
    ExecutionMode, ExecutionOrder, GraphOptimizationLevel, InferenceSession, NodeArg, NoEffect,
    RunOptions, SessionOptions, _warn_once,
)  # fmt: skip
from .values import IOBinding, OrtValue

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
    "ModelMetadata", "NoEffect", "NodeArg", "OrtValue", "RunOptions", "SessionIOBinding", "SessionOptions",
    "__version__", "capi", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_build_info", "get_device",
    "get_version_string", "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
]  # fmt: skip

SessionIOBinding = IOBinding

# The classes of ONNX Runtime's errors.
capi = SimpleNamespace(
    onnxruntime_pybind11_state=SimpleNamespace(
        Fail=Error, InvalidArgument=InvalidArgument, InvalidGraph=InvalidArgument,
        InvalidProtobuf=Corrupt, NoSuchFile=FileError, NotImplemented=Unsupported,
        RuntimeException=Error,
    )
)  # fmt: skip


def get_available_providers() -> list[str]:
    """Returns the CPU provider."""
    return ["CPUExecutionProvider"]


def get_all_providers() -> list[str]:
    """Returns the CPU provider."""
    return get_available_providers()


def get_device() -> str:
    """Returns "CPU"."""
    return "CPU"


def get_version_string() -> str:
    """Returns the version of Tessera."""
    return __version__


def get_build_info() -> str:
    """Returns the name and version."""
    return f"Tessera {__version__}"


def set_default_logger_severity(severity: int) -> None:
    """Has no effect: the library writes no log."""
    if not 0 <= severity <= 4:
        raise RuntimeError(f"Invalid logging severity: {severity}")
    _warn_once("set_default_logger_severity")


def set_default_logger_verbosity(verbosity: int) -> None:
    """Has no effect: the library writes no log."""
    _warn_once("set_default_logger_verbosity")


def set_seed(seed: int) -> None:
    """Has no effect: random operators have their own seeds."""
    _warn_once("set_seed")


def enable_telemetry_events() -> None:
    """Does nothing: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Does nothing: there is no telemetry."""
