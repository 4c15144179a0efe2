"""PyTorch modules: torch.compile(model, backend="tessera") and tessera.compile(module, *example).

PyTorch's exporter converts a graph to ONNX in memory, and the graph is frozen: parameters and
buffers become constants, as with inductor's freezing, so later changes to them have no effect. They
are read from PyTorch's memory; the model keeps only its packed copy. Graphs that are not supported
run in PyTorch, and a warning gives the reason.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import operator
import threading
import warnings
import weakref
from typing import Any, Callable, Iterator, Sequence

import torch
import torch._dynamo.convert_frame
import torch.fx.experimental._config

from . import _native
from .errors import Error, InvalidArgument, Unsupported
from .settings import settings_of
from .symbols import guards_of


class Fallback(UserWarning):
    """Warns that a graph runs in PyTorch."""


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
        raise Unsupported(f"PyTorch cannot export it: {_reason(error)}") from error


# ---- decompositions of fused PyTorch operators that its exporter does not support ----

_ATTENTION, _PADDING = 0, 1  # masks [queries, keys] and [batch, keys]; otherwise as the scores


def _attention(q, k, v, heads, weight, bias, mask, mask_type):
    """Returns softmax(scores) [batch, heads, queries, keys], and the joined heads."""
    size = q.shape[-1]
    parts = zip((q, k, v), weight.split(size), bias.split(size))
    q, k, v = (
        torch.nn.functional.linear(x, w, b).unflatten(-1, (heads, size // heads)).transpose(1, 2)
        for x, w, b in parts
    )
    scores = q @ k.transpose(-2, -1) / (size // heads) ** 0.5
    if mask is not None:
        mask = mask.to(torch.bool)
        if mask_type == _ATTENTION:
            mask = mask[None, None]
        elif mask_type == _PADDING:
            mask = mask[:, None, None]
        scores = scores.masked_fill(mask, float("-inf"))
    weights = scores.softmax(-1)
    return weights, (weights @ v).transpose(1, 2).flatten(-2)


def _encoder_layer(
    x, size, heads, qkv_weight, qkv_bias, out_weight, out_bias, is_gelu, is_norm_first, eps,
    norm1_weight, norm1_bias, norm2_weight, norm2_bias, weight1, bias1, weight2, bias2, mask=None,
    mask_type=None,
):  # fmt: skip
    f = torch.nn.functional
    activation = f.gelu if is_gelu else f.relu

    def norm1(y):
        return f.layer_norm(y, (size,), norm1_weight, norm1_bias, eps)

    def norm2(y):
        return f.layer_norm(y, (size,), norm2_weight, norm2_bias, eps)

    def attend(y):
        joined = _attention(y, y, y, heads, qkv_weight, qkv_bias, mask, mask_type)[1]
        return f.linear(joined, out_weight, out_bias)

    def feed(y):
        return f.linear(activation(f.linear(y, weight1, bias1)), weight2, bias2)

    if is_norm_first:
        x = x + attend(norm1(x))
        return x + feed(norm2(x))
    x = norm1(x + attend(x))
    return norm2(x + feed(x))


def _multi_head_attention(
    q, k, v, size, heads, qkv_weight, qkv_bias, out_weight, out_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    weights, joined = _attention(q, k, v, heads, qkv_weight, qkv_bias, mask, mask_type)
    out = torch.nn.functional.linear(joined, out_weight, out_bias)
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights


_WRITTEN_OUT = {
    torch._transformer_encoder_layer_fwd: _encoder_layer,
    torch._native_multi_head_attention: _multi_head_attention,
}


# ---- the backend ----


def _is_static(node: torch.fx.Node, example: Any) -> bool:
    """Returns true if an input of a captured graph is a parameter or buffer of the module."""
    if isinstance(example, torch.nn.Parameter):
        return True
    return "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})


# Operators with the same result for a number and for a tensor of rank 0 with that number.
_TAKES_TENSOR = {
    operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, torch.add, torch.sub,
    torch.mul, torch.div,
}  # fmt: skip


def _is_dtype_of_tensor(node: torch.fx.Node) -> bool:
    """Returns true if a number among the operands may be an f64 tensor of rank 0 without changing
    the result's dtype. Another operand must be a float tensor of rank > 0 with that dtype, as in
    f32 [2, 3] * 0.5. In s64 [2, 3] * 0.5 or f32 [] * 0.5, the result would become f64."""
    made = node.meta.get("example_value")
    if node.target not in _TAKES_TENSOR or not isinstance(made, torch.Tensor):
        return False
    values = [arg.meta.get("example_value") for arg in node.args if isinstance(arg, torch.fx.Node)]
    return made.is_floating_point() and any(
        isinstance(value, torch.Tensor) and value.dtype == made.dtype and value.dim() > 0
        for value in values
    )


def _is_item(node: torch.fx.Node) -> bool:
    return node.op == "call_method" and node.target == "item"


def _is_number(node: torch.fx.Node, example: Any) -> bool:
    """Returns true for a number, and for a tensor that the graph only reads with item(): PyTorch
    passes open floats in this form, such as a batch norm's epsilon with dynamic=True."""
    if not isinstance(example, torch.Tensor):
        return isinstance(example, (float, torch.SymFloat))
    return example.dim() == 0 and bool(node.users) and all(map(_is_item, node.users))


def _value(number: Any) -> int | float:
    """Returns a number's value without adding a guard, which would recompile for other values."""
    if isinstance(number, torch.Tensor):
        return number.item()
    return number.node.hint if hasattr(number, "node") else number


def _identity(number: Any) -> tuple[type, Any]:
    """Returns a key that distinguishes numbers with different results: 1, 1.0, 0.0, -0.0, nan."""
    value = _value(number)
    return type(value), value.hex() if isinstance(value, float) else value


class _Captured:
    """A graph that torch.compile captured. Makes modules with fixed numbers and tensor inputs."""

    def __init__(self, graph_module: torch.fx.GraphModule, example: Sequence[Any]):
        self.run = graph_module.forward
        self.graph_module = graph_module
        nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self._placeholders = nodes
        self.static: list[int] = []  # parameters and buffers
        self.tensors: list[int] = []
        self.sizes: list[int] = []  # integers, most of them sizes of the tensors
        self.numbers: list[int] = []
        for i, (node, value) in enumerate(zip(nodes, example)):
            if _is_number(node, value):
                self.numbers.append(i)
            elif not isinstance(value, torch.Tensor):
                self.sizes.append(i)
            elif _is_static(node, value):
                self.static.append(i)
            else:
                self.tensors.append(i)
        self.open_numbers = [i for i in self.numbers if self._may_be_tensor(nodes[i])]
        self._find_outputs()

    @staticmethod
    def _may_be_tensor(node: torch.fx.Node) -> bool:
        """Returns true if a number may be an input of the model: all its users are operators whose
        result dtype another tensor determines."""
        users = [user for item in node.users if _is_item(item) for user in item.users]
        return bool(users) and all(map(_is_dtype_of_tensor, users))

    def _find_outputs(self) -> None:
        (output,) = (node for node in self.graph_module.graph.nodes if node.op == "output")
        self.outputs = []  # (index of an exported output, None) or (None, constant)
        self.n_outputs = 0
        self.dtypes = []  # dtypes of the exported outputs
        for item in output.args[0]:
            if not isinstance(item, torch.fx.Node):
                self.outputs.append((None, item))
            elif isinstance(item.meta.get("example_value"), torch.Tensor):
                self.outputs.append((self.n_outputs, None))
                self.n_outputs += 1
                self.dtypes.append(item.meta["example_value"].dtype)
            else:
                raise Unsupported(f"output {item.name} is not a tensor")
        if self.n_outputs == 0 or not self.tensors:
            raise Unsupported("it has no input tensor or no output tensor")

    def names_of_dtypes(self) -> list[str | None]:
        """Returns the dtypes of the exported outputs by their names in a model."""
        names = dict(zip(_DTYPES, _NAMES))
        return [names.get(dtype) for dtype in self.dtypes]

    def _find_sizes(self) -> dict[Any, tuple[int, int]]:
        """Maps each symbol of an open size to an input and a dimension with this size."""
        found: dict[Any, tuple[int, int]] = {}
        for i in self.tensors:
            fake = self._placeholders[i].meta.get("example_value")
            for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    found.setdefault(size.node.expr, (i, dim))
        return found

    def open_dims(self, n_numbers: int) -> tuple[dict[int, Any], ...]:
        """Returns the open dimensions of each tensor, in the form for torch.export, followed by
        an empty dict for each of n_numbers."""
        fakes = [self._placeholders[i].meta.get("example_value") for i in self.tensors]
        dims = [
            {
                dim: torch.export.Dim.AUTO
                for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ())
                if isinstance(size, torch.SymInt)
            }
            for fake in fakes
        ]
        return (*dims, *({} for _ in range(n_numbers)))

    def without_tensors(self, args: Sequence[Any]) -> list[Any]:
        """Returns args without the tensors, for module(); keeps the parameters' memory."""
        made = [value.detach() if isinstance(value, torch.Tensor) else value for value in args]
        for i in self.tensors:
            made[i] = None
        return made

    def _bind_sizes(
        self, graph: torch.fx.Graph, made: dict[torch.fx.Node, Any], args: Sequence[Any] | None
    ) -> None:
        """Binds integers to their values in args. If args is None, binds them to sizes of tensors,
        which also works for other sizes. Unsupported if an integer is not such a size."""
        sizes = self._find_sizes() if args is None else {}
        for i in self.sizes:
            node = self._placeholders[i]
            if args is not None:
                made[node] = _value(args[i])
                continue
            number = node.meta.get("example_value")
            at = sizes.get(number.node.expr) if isinstance(number, torch.SymInt) else None
            if at is None:
                raise Unsupported(f"{node.name} is not the size of a tensor")
            made[node] = graph.call_method("size", (made[self._placeholders[at[0]]], at[1]))

    def module(
        self, args: Sequence[Any], is_open: bool, open_numbers: Sequence[int] = ()
    ) -> torch.fx.GraphModule:
        """Returns the graph as a module. Parameters and numbers are bound to their values in args;
        open numbers become inputs after the tensors. Integers are bound, too, unless is_open."""
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, Any] = {}
        root: dict[str, Any] = dict(self.graph_module.named_buffers(remove_duplicate=False))
        root.update(self.graph_module.named_parameters(remove_duplicate=False))
        root.update(self.graph_module.named_children())
        for i in (*self.tensors, *open_numbers):
            made[self._placeholders[i]] = graph.placeholder(f"input_{i}")
        for i in self.numbers:
            if i not in open_numbers:
                made[self._placeholders[i]] = _value(args[i])
        self._bind_sizes(graph, made, None if is_open else args)
        for i in self.static:
            root[f"static_{i}"] = args[i].detach()
            made[self._placeholders[i]] = graph.get_attr(f"static_{i}")
        numbers = {self._placeholders[i] for i in self.numbers}
        for node in self.graph_module.graph.nodes:
            if node.op == "output":
                graph.output(
                    tuple(made[item] for item in node.args[0] if isinstance(item, torch.fx.Node))
                )
            elif _is_item(node) and node.args[0] in numbers:
                made[node] = made[node.args[0]]
            elif node.op != "placeholder":
                made[node] = graph.node_copy(node, lambda old: made[old])
                made[node].target = _WRITTEN_OUT.get(node.target, node.target)
                made[node].meta = {}  # drops facts about open sizes; the export infers them again
        holder = torch.nn.Module()
        for name, value in root.items():
            if isinstance(value, torch.Tensor) and "." not in name:
                holder.register_buffer(name, value.detach())
            elif isinstance(value, torch.nn.Module):
                holder.add_module(name, value)
        return torch.fx.GraphModule(holder, graph)


_MAX_MODELS = 8  # maximum number of models that a graph keeps for sets of sizes and numbers
_MAX_MODULES = 64  # maximum number of modules of one class whose models are kept


class _Kept(collections.OrderedDict):
    """A cache that drops the least recently used entry. find() needs no lock."""

    def find(self, key: tuple) -> Any:
        found = self.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread has dropped it since
                self.move_to_end(key)
        return found

    def keep(self, key: tuple, value: Any, limit: int) -> bool:
        """Adds a value; returns true if it replaced another."""
        is_full = len(self) >= limit
        if is_full:
            self.popitem(last=False)
        self[key] = value
        return is_full


class _Compiled:
    """Runs a captured graph as a model with open sizes, exported once for its numbers. If PyTorch
    cannot export such a model, and for sizes that the model rejects, each set of sizes and numbers
    gets its own model. If that fails, too, PyTorch runs the graph."""

    def __init__(self, captured: _Captured, example: Sequence[Any]):
        self._captured = captured
        self._models = _Kept()  # by sizes and numbers
        self._lock = threading.Lock()  # one export at a time
        self._n_exports = 0
        self._has_warned = False
        self._open = None
        self._open_numbers: Sequence[int] = ()
        if captured.sizes or captured.open_numbers:
            self._load_open(example)
        self._inputs = [*captured.tensors, *self._open_numbers]
        self._closed_numbers = [i for i in captured.numbers if i not in self._open_numbers]
        self._open_at = self._key(example, self._closed_numbers)
        if self._open is None:
            self._model_for(example)

    @staticmethod
    def _key(args: Sequence[Any], of: Sequence[int]) -> tuple:
        return tuple(_identity(args[i]) for i in of)

    def _load_open(self, example: Sequence[Any]) -> None:
        captured = self._captured
        args = captured.without_tensors(example)
        for numbers in dict.fromkeys((tuple(captured.open_numbers), ())):
            tensors = [example[i].detach() for i in (*captured.tensors, *numbers)]
            make = functools.partial(captured.module, args, True, numbers)
            try:
                dims = captured.open_dims(len(numbers))
                model = _load(make(), tensors, settings_of(torch.get_num_threads()), dims, make)
            except Exception:  # the exporter raises many classes; try the next variant
                continue
            if [value.dtype for value in model.outputs] == captured.names_of_dtypes():
                self._open, self._open_numbers = model, numbers
                return

    def _model_for(self, args: Sequence[Any]) -> _native.Model:
        captured = self._captured
        key = self._key(args, (*captured.sizes, *captured.numbers))
        model = self._models.find(key)
        if model is not None:
            return model
        with self._lock:
            model = self._models.find(key)
            if model is None:
                if self._n_exports == _MAX_EXPORTS:
                    raise Unsupported(f"it already ran with {_MAX_EXPORTS} sets of sizes and numbers")
                self._n_exports += 1
                tensors = [args[i].detach() for i in captured.tensors]
                model = _load(captured.module(args, False), tensors, settings_of(torch.get_num_threads()))
                self._models.keep(key, model, _MAX_MODELS)
        return model

    def _run(self, args: Sequence[Any]) -> Any:
        if self._open is not None and self._key(args, self._closed_numbers) == self._open_at:
            try:
                return self._open(*[args[i] for i in self._inputs])
            except InvalidArgument:  # if sizes are not the cause, the call below raises it again
                pass
        return self._model_for(args)(*[args[i] for i in self._captured.tensors])

    def __call__(self, *args: Any) -> tuple:
        captured = self._captured
        try:
            made = self._run(args)
        except Exception as error:  # PyTorch can run the graph, or raises its own error
            if not self._has_warned:
                _warn(error)
            self._has_warned = True
            return captured.run(*args)
        if captured.n_outputs == 1:
            made = (made,)
        return tuple(item if at is None else made[at] for at, item in captured.outputs)


class _Modules:
    """Keeps the models of each module. PyTorch calls one graph for all modules of a class, with the
    parameters as inputs. A module's models are kept as long as its parameters exist."""

    def __init__(self, graph_module: torch.fx.GraphModule, example: Sequence[Any]):
        self._graph_module = graph_module
        self._kept = _Kept()  # by identities of parameters
        self._lock = threading.Lock()  # one export at a time
        self._n_dropped = 0  # modules that still exist but were dropped
        self._has_warned = False
        captured = _Captured(graph_module, example)
        self._static = captured.static
        self._keep(_Compiled(captured, example), example)

    def _key(self, args: Sequence[Any]) -> tuple:
        return tuple(id(args[i]) for i in self._static)

    def _keep(self, run: Callable, args: Sequence[Any]) -> None:
        key, kept = self._key(args), self._kept

        def forget(_: Any) -> None:  # immediately: a new object may get the same id
            kept.pop(key, None)

        living = [weakref.ref(args[i], forget) for i in self._static]
        self._n_dropped += kept.keep(key, (run, living), _MAX_MODULES)

    def _add(self, args: Sequence[Any]) -> Callable:
        try:
            if self._n_dropped >= _MAX_EXPORTS:  # each call would export
                raise Unsupported(f"more than {_MAX_MODULES} modules of one class run alternately")
            run = _Compiled(_Captured(self._graph_module, args), args)
        except Exception as error:
            if not self._has_warned:
                _warn(error)
            self._has_warned = True
            run = self._graph_module.forward
            if self._n_dropped >= _MAX_EXPORTS:
                return run  # does not replace a kept one
        self._keep(run, args)
        return run

    def __call__(self, *args: Any) -> tuple:
        key = self._key(args)
        found = self._kept.find(key)
        if found is None:
            with self._lock:
                found = self._kept.find(key) or (self._add(args),)
        return found[0](*args)


def _needs_gradients(example: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example
    )


def _reason(error: BaseException) -> str:
    """Returns the first line of the original cause, which names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _warn(error: BaseException) -> None:
    warnings.warn(f"a graph runs in PyTorch: {_reason(error)}", Fallback, stacklevel=3)


def backend(graph_module: torch.fx.GraphModule, example: Sequence[Any], **_: Any) -> Callable:
    """The backend of torch.compile(..., backend="tessera")."""
    try:
        if torch.is_autocast_enabled("cpu"):
            raise Unsupported("autocast is on: weights would be constants of another dtype")
        if _needs_gradients(example):
            raise Unsupported("it needs gradients: call the model in torch.no_grad()")
        return _Modules(graph_module, example)
    except Exception as error:  # PyTorch can run any graph that the exporter rejects
        _warn(error)
        return graph_module.forward
