"""PyTorch modules: tessera.compile(module, *example).

PyTorch's exporter converts a graph to ONNX in memory, and the graph is frozen: parameters and
buffers become constants, as with inductor's freezing, so later changes to them have no effect. They
are read from PyTorch's memory; the model keeps only its packed copy. Graphs that are not supported
run in PyTorch, and a warning gives the reason.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import warnings
from typing import Any, Callable, Iterator, Sequence

import torch
import torch._dynamo.convert_frame
import torch.fx.experimental._config

from . import _native
from .errors import Error, Unsupported, reason_of
from .settings import settings_of
from .symbols import guards_of


# ---- exporting ----


def _is_random(node: torch.fx.Node) -> bool:
    """Returns true for nodes that use random numbers; false for a dropout with probability 0 or
    outside training."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    defaults = {a.name: a.default_value for a in node.target._schema.arguments}
    values = {**defaults, **given}
    is_off = any(values.get(name, 1) == 0 for name in ("p", "dropout", "dropout_p"))
    return not is_off and not any(values.get(name) is False for name in ("train", "training"))


def _check_pure(program: torch.export.ExportedProgram) -> None:
    """Rejects effects that an exported graph would not have: writes to inputs and buffers, and
    PyTorch's random numbers."""
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise Unsupported(f"it writes to {', '.join(map(str, written))}")
    for node in program.graph.nodes:
        if _is_random(node):
            raise Unsupported(f"{node.target} uses random numbers")


@contextlib.contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Limits the named loggers to errors."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


# Exports and compilations of torch.compile change state of the process: one runs at a time.
_exporting = getattr(torch._dynamo.convert_frame, "compile_lock", threading.RLock())


def _open_recurrent_layers() -> contextlib.AbstractContextManager:
    """Allows LSTM and GRU to be exported with open sizes, as PyTorch's ONNX exporter does."""
    stack = contextlib.ExitStack()
    try:
        from torch.export import _patches

        stack.enter_context(_patches.register_lstm_while_loop_decomposition())
        stack.enter_context(_patches.register_gru_while_loop_decomposition())
    except (ImportError, AttributeError):  # PyTorch before 2.10
        pass
    return stack


def _export(
    module: torch.nn.Module, args: Sequence[torch.Tensor], dynamic_shapes: Any
) -> torch.onnx.ONNXProgram:
    """Exports with strict=False. The strict mode, which torch.onnx.export would try after a
    failure, runs torch.compile itself; that resets the frame PyTorch is compiling and crashes."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_exporting)
        stack.enter_context(_quiet("torch.onnx", "torch.fx", "onnxscript"))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(torch.no_grad())
        # tracing(None): the export is not part of a graph that torch.compile may be capturing.
        stack.enter_context(torch._guards.tracing(None))
        if dynamic_shapes:
            stack.enter_context(_open_recurrent_layers())
        if hasattr(torch.fx.experimental._config, "backed_size_oblivious"):
            # Treats a size of 1 in the example as open, too.
            stack.enter_context(torch.fx.experimental._config.patch(backed_size_oblivious=True))
        warnings.simplefilter("ignore")
        program = torch.export.export(
            module, tuple(args), dynamic_shapes=dynamic_shapes, strict=False
        )
        export = functools.partial(
            torch.onnx.export, program, dynamic_shapes=dynamic_shapes, dynamo=True, verbose=False
        )
        try:
            return export()
        except Exception:  # PyTorch's optimizer fails on splits with computed sizes
            return export(optimize=False)


_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
           torch.int16, torch.int32, torch.int64, torch.bool)  # fmt: skip
_NAMES = ("f32", "f64", "f16", "bf16", "s8", "u8", "s16", "s32", "s64", "bool")  # in the same order
_MIN_BYTES = 1024  # larger initializers are passed separately from the ONNX bytes


def _lent(constant: Any) -> torch.Tensor | None:
    """Returns a tensor that shares an initializer's memory; None if it is small or not a tensor."""
    if constant is None or constant.nbytes < _MIN_BYTES:
        return None
    raw = getattr(constant, "raw", None)
    if isinstance(raw, torch.Tensor):
        is_plain = raw.device.type == "cpu" and raw.layout == torch.strided
        return raw.detach() if is_plain and raw.dtype in _DTYPES else None
    array = constant.numpy()
    return torch.from_numpy(array) if array.dtype.kind in "fiub" and array.flags.writeable else None


def _serialize(model: Any) -> tuple[bytes, dict[str, torch.Tensor]]:
    """Returns the bytes of an ONNX model and, separately and without a copy, its larger
    initializers."""
    try:
        import onnx_ir
    except ImportError:  # PyTorch before 2.7
        from onnxscript import ir as onnx_ir
    lent = {}
    for name, value in model.graph.initializers.items():
        tensor = _lent(value.const_value)
        if tensor is None:
            continue
        lent[name] = tensor
        value.const_value = onnx_ir.ExternalTensor(
            "memory", 0, 0, value.const_value.dtype, shape=value.const_value.shape, name=name
        )
    return onnx_ir.serde.serialize_model(model).SerializeToString(), lent


def _export_to_onnx(
    module: torch.nn.Module, args: Sequence[torch.Tensor], dynamic_shapes: Any
) -> tuple[list[str], bytes, dict[str, torch.Tensor], list[str]]:
    """Returns input names, bytes of an ONNX model, larger initializers, guards of open sizes."""
    exported = _export(module, args, dynamic_shapes)
    _check_pure(exported.exported_program)
    inputs = exported.model.graph.inputs
    guards = guards_of(exported.exported_program, inputs) if dynamic_shapes is not None else []
    return [value.name for value in inputs], *_serialize(exported.model), guards


_MAX_EXPORTS = 32  # per graph; an export takes as long as hundreds of calls


def _load(
    module: torch.nn.Module,
    args: Sequence[torch.Tensor],
    settings: tuple,
    dynamic_shapes: Any = None,
    make: Callable[[], torch.nn.Module] | None = None,
) -> _native.Model:
    """Exports and loads a module. make: returns the module, to be exported again for sizes that the
    first graph rejects."""
    names, onnx_bytes, lent, guards = _export_to_onnx(module, args, dynamic_shapes)
    kinds = [(arg.dtype, arg.dim()) for arg in args]
    n_exports = 1

    def again(shapes: dict[str, list[int]]) -> tuple:
        nonlocal n_exports
        sizes = [shapes[name] for name in names]
        if n_exports == _MAX_EXPORTS or any(len(s) != rank for s, (_, rank) in zip(sizes, kinds)):
            raise Unsupported(f"it was exported {n_exports} times, and its guards reject these sizes, too")
        n_exports += 1
        example = [torch.zeros(s, dtype=dtype) for s, (dtype, _) in zip(sizes, kinds)]
        return _export_to_onnx(make(), example, dynamic_shapes)[1:]

    shapes = {name: list(arg.shape) for name, arg in zip(names, args)}
    is_closed = dynamic_shapes is None
    return _native.load_onnx(
        "", onnx_bytes, shapes, settings, "", lent, is_closed, guards, make and again
    )


def _is_packed(module: torch.nn.Module, example: Sequence[Any]) -> bool:
    """Returns true if the only example is a tuple of the module's inputs."""
    if len(example) != 1 or not isinstance(example[0], (tuple, list)):
        return False
    try:
        with torch.no_grad():
            module(*example[0])
    except Exception:
        return False
    return True


def compile(
    module: torch.nn.Module, example: Sequence[torch.Tensor], settings: tuple, dynamic_shapes: Any
) -> _native.Model:
    """Implements tessera.compile."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module is a {type(module).__name__}, must be a torch.nn.Module")

    def make() -> torch.nn.Module:
        if module.training:
            raise Unsupported("the module is in training mode: call eval() first")
        return module

    try:
        return _load(make(), example, settings, dynamic_shapes, dynamic_shapes and make)
    except (Error, ImportError):
        raise
    except Exception as error:  # the exporter raises many classes, with messages of pages
        if _is_packed(module, example):
            raise TypeError(
                f"compile: the example is a {type(example[0]).__name__}, which the module does not "
                f"take: pass its {len(example[0])} inputs one by one, compile(module, *example)"
            ) from error
        raise Unsupported(f"PyTorch cannot export it: {reason_of(error)}") from error
