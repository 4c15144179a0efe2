"""PyTorch modules: torch.compile(model, backend="tessera") and tessera.compile(module, *example).

A graph goes through PyTorch's own exporter to ONNX, in memory, and is frozen: parameters and
buffers are constants then, as with inductor's freezing, so what changes them later does not show.
They are read where PyTorch has them: the only copy is what the model keeps, as packed as it runs.
What cannot be taken runs in PyTorch, and a warning says why.
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
    """A graph, or the part of it that is named, runs in PyTorch."""


# ---- exporting ----


def _is_random(node: torch.fx.Node) -> bool:
    """Whether it draws random numbers: a dropout of probability 0, or outside of training, does
    not."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    defaults = {a.name: a.default_value for a in node.target._schema.arguments}
    values = {**defaults, **given}
    is_off = any(values.get(name, 1) == 0 for name in ("p", "dropout", "dropout_p"))
    return not is_off and not any(values.get(name) is False for name in ("train", "training"))


def _check_pure(program: torch.export.ExportedProgram) -> None:
    """Refuses what an exported graph would lose: writes to inputs and buffers, and random numbers,
    which would be others."""
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise Unsupported(f"it writes to {', '.join(map(str, written))}")
    for node in program.graph.nodes:
        if _is_random(node):
            raise Unsupported(f"{node.target} draws random numbers")


@contextlib.contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Loggers of these names tell errors only."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


# Exports and the compilations of torch.compile change state of the whole process: one at a time.
_exporting = getattr(torch._dynamo.convert_frame, "compile_lock", threading.RLock())


def _open_recurrent_layers() -> contextlib.AbstractContextManager:
    """Lets LSTM and GRU be exported with open sizes, as PyTorch's exporter to ONNX does."""
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
    """strict=False: the strict way, which torch.onnx.export tries when this one fails, is a
    torch.compile of its own, and resets the frame that PyTorch is compiling: a crash."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_exporting)
        stack.enter_context(_quiet("torch.onnx", "torch.fx", "onnxscript"))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(torch.no_grad())
        # tracing(None): this is no part of the graph that torch.compile may be capturing.
        stack.enter_context(torch._guards.tracing(None))
        if dynamic_shapes:
            stack.enter_context(_open_recurrent_layers())
        if hasattr(torch.fx.experimental._config, "backed_size_oblivious"):
            # a size of 1 in the example is as open as any other
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
        except Exception:  # its optimizer fails where a split has sizes that are calculated
            return export(optimize=False)


_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
           torch.int16, torch.int32, torch.int64, torch.bool)  # fmt: skip
_NAMES = ("f32", "f64", "f16", "bf16", "s8", "u8", "s16", "s32", "s64", "bool")  # of these
_MIN_BYTES = 1024  # of an initializer that stays out of the ONNX bytes


def _lent(constant: Any) -> torch.Tensor | None:
    """An initializer's elements where they lie; None where there are few, or no tensor has them."""
    if constant is None or constant.nbytes < _MIN_BYTES:
        return None
    raw = getattr(constant, "raw", None)
    if isinstance(raw, torch.Tensor):
        is_plain = raw.device.type == "cpu" and raw.layout == torch.strided
        return raw.detach() if is_plain and raw.dtype in _DTYPES else None
    array = constant.numpy()
    return torch.from_numpy(array) if array.dtype.kind in "fiub" and array.flags.writeable else None


def _serialize(model: Any) -> tuple[bytes, dict[str, torch.Tensor]]:
    """The bytes of an ONNX model, and apart from them its larger initializers: nothing copies
    these."""
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
    """Names of inputs, bytes of an ONNX model, larger initializers, guards of open sizes."""
    exported = _export(module, args, dynamic_shapes)
    _check_pure(exported.exported_program)
    inputs = exported.model.graph.inputs
    guards = guards_of(exported.exported_program, inputs) if dynamic_shapes is not None else []
    return [value.name for value in inputs], *_serialize(exported.model), guards


_MAX_EXPORTS = 32  # of one graph: each takes as long as some hundred calls


def _load(
    module: torch.nn.Module,
    args: Sequence[torch.Tensor],
    settings: tuple,
    dynamic_shapes: Any = None,
    make: Callable[[], torch.nn.Module] | None = None,
) -> _native.Model:
    """make: gives the module for sizes that the exported graph refuses; it is exported again with
    these as the example then."""
    names, onnx_bytes, lent, guards = _export_to_onnx(module, args, dynamic_shapes)
    kinds = [(arg.dtype, arg.dim()) for arg in args]
    n_exports = 1

    def again(shapes: dict[str, list[int]]) -> tuple:
        nonlocal n_exports
        sizes = [shapes[name] for name in names]
        if n_exports == _MAX_EXPORTS or any(len(s) != rank for s, (_, rank) in zip(sizes, kinds)):
            raise Unsupported(f"it was exported {n_exports} times for sizes that guards refuse")
        n_exports += 1
        example = [torch.zeros(s, dtype=dtype) for s, (dtype, _) in zip(sizes, kinds)]
        return _export_to_onnx(make(), example, dynamic_shapes)[1:]

    shapes = {name: list(arg.shape) for name, arg in zip(names, args)}
    is_closed = dynamic_shapes is None
    return _native.load_onnx(
        "", onnx_bytes, shapes, settings, "", lent, is_closed, guards, make and again
    )


def _is_packed(module: torch.nn.Module, example: Sequence[Any]) -> bool:
    """Whether the one example is a tuple of what the module takes."""
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
    """See tessera.compile."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{type(module).__name__} is no torch.nn.Module")

    def make() -> torch.nn.Module:
        if module.training:
            raise Unsupported("the module is in training mode: call eval() first")
        return module

    try:
        return _load(make(), example, settings, dynamic_shapes, dynamic_shapes and make)
    except (Error, ImportError):
        raise
    except Exception as error:  # the exporter's own are of many classes, and pages long
        if _is_packed(module, example):
            raise TypeError(
                f"compile: the example is a {type(example[0]).__name__}, which the module does not "
                f"take: give its {len(example[0])} inputs one by one, compile(module, *example)"
            ) from error
        raise Unsupported(f"PyTorch does not export it: {_reason(error)}") from error


# ---- fused operators of PyTorch that its exporter does not know, written out ----

_ATTENTION, _PADDING = 0, 1  # kinds of a mask: [queries, keys], [batch, keys]; else of all scores


def _attention(q, k, v, heads, weight, bias, mask, mask_type):
    """Scores' softmax [batch, heads, queries, keys], and the heads joined again."""
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
    """Whether an input of a captured graph is a parameter or buffer of the module."""
    if isinstance(example, torch.nn.Parameter):
        return True
    return "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})


# Operators that give the same for a number and for a tensor of rank 0 that holds it.
_TAKES_TENSOR = {
    operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, torch.add, torch.sub,
    torch.mul, torch.div,
}  # fmt: skip


def _is_dtype_of_tensor(node: torch.fx.Node) -> bool:
    """Whether a number among the operands may be a tensor of rank 0 and f64: another is of floats
    and of the result's dtype, as with f32 [2, 3] * 0.5. With s64 [2, 3] * 0.5, which is f32, or f32
    [] * 0.5, it would make the result f64."""
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
    """Whether an input is a number, or one in a tensor of which the graph reads nothing else: so
    PyTorch gives a float that it keeps open, as a batch norm's epsilon with dynamic=True."""
    if not isinstance(example, torch.Tensor):
        return isinstance(example, (float, torch.SymFloat))
    return example.dim() == 0 and bool(node.users) and all(map(_is_item, node.users))


def _value(number: Any) -> int | float:
    """What a number is, without a guard that would have PyTorch compile anew for another."""
    if isinstance(number, torch.Tensor):
        return number.item()
    return number.node.hint if hasattr(number, "node") else number


def _identity(number: Any) -> tuple[type, Any]:
    """A key of its own for each number that gives results of its own: 1, 1.0, 0.0, -0.0, nan."""
    value = _value(number)
    return type(value), value.hex() if isinstance(value, float) else value


class _Captured:
    """A graph that torch.compile captured: modules of its tensors alone, at given numbers."""

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
        """Whether a number may be an input of the model: it is only computed with, beside tensors
        that decide of which dtype the result is."""
        users = [user for item in node.users if _is_item(item) for user in item.users]
        return bool(users) and all(map(_is_dtype_of_tensor, users))

    def _find_outputs(self) -> None:
        (output,) = (node for node in self.graph_module.graph.nodes if node.op == "output")
        self.outputs = []  # a position among the exported ones, or what is given as it is
        self.n_outputs = 0
        self.dtypes = []  # of the exported ones
        for item in output.args[0]:
            if not isinstance(item, torch.fx.Node):
                self.outputs.append((None, item))
            elif isinstance(item.meta.get("example_value"), torch.Tensor):
                self.outputs.append((self.n_outputs, None))
                self.n_outputs += 1
                self.dtypes.append(item.meta["example_value"].dtype)
            else:
                raise Unsupported(f"output {item.name} is no tensor")
        if self.n_outputs == 0 or not self.tensors:
            raise Unsupported("it has no tensor to compute from, or none to give")

    def names_of_dtypes(self) -> list[str | None]:
        """Dtypes of the exported outputs, as a model calls them."""
        names = dict(zip(_DTYPES, _NAMES))
        return [names.get(dtype) for dtype in self.dtypes]

    def _find_sizes(self) -> dict[Any, tuple[int, int]]:
        """Symbols of open sizes, each with an input and a dimension of it that is this size."""
        found: dict[Any, tuple[int, int]] = {}
        for i in self.tensors:
            fake = self._placeholders[i].meta.get("example_value")
            for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    found.setdefault(size.node.expr, (i, dim))
        return found

    def open_dims(self, n_numbers: int) -> tuple[dict[int, Any], ...]:
        """Of each tensor the dimensions that are open, as torch.export takes them; none of so many
        numbers behind them."""
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
        """What module() reads of args; parameters may die, their elements stay."""
        made = [value.detach() if isinstance(value, torch.Tensor) else value for value in args]
        for i in self.tensors:
            made[i] = None
        return made

    def _bind_sizes(
        self, graph: torch.fx.Graph, made: dict[torch.fx.Node, Any], args: Sequence[Any] | None
    ) -> None:
        """Integers as in args; None: as sizes of the tensors say, so that they are true for other
        sizes, too. Unsupported where one is no size."""
        sizes = self._find_sizes() if args is None else {}
        for i in self.sizes:
            node = self._placeholders[i]
            if args is not None:
                made[node] = _value(args[i])
                continue
            number = node.meta.get("example_value")
            at = sizes.get(number.node.expr) if isinstance(number, torch.SymInt) else None
            if at is None:
                raise Unsupported(f"{node.name} is no size of a tensor")
            made[node] = graph.call_method("size", (made[self._placeholders[at[0]]], at[1]))

    def module(
        self, args: Sequence[Any], is_open: bool, open_numbers: Sequence[int] = ()
    ) -> torch.fx.GraphModule:
        """The graph with parameters bound, and numbers as in args, but for the open ones, which are
        inputs behind the tensors; so are integers, unless it is open."""
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
                made[node].meta = {}  # what was known of open sizes is found anew
        holder = torch.nn.Module()
        for name, value in root.items():
            if isinstance(value, torch.Tensor) and "." not in name:
                holder.register_buffer(name, value.detach())
            elif isinstance(value, torch.nn.Module):
                holder.add_module(name, value)
        return torch.fx.GraphModule(holder, graph)


_MAX_MODELS = 8  # that a graph keeps for numbers of its own, the last used
_MAX_MODULES = 64  # of one class that are kept, the last used


class _Kept(collections.OrderedDict):
    """What was used last, by keys; find() needs no lock."""

    def find(self, key: tuple) -> Any:
        found = self.get(key)
        if found is not None:
            with contextlib.suppress(KeyError):  # another thread has dropped it since
                self.move_to_end(key)
        return found

    def keep(self, key: tuple, value: Any, limit: int) -> bool:
        """Whether another had to go for it."""
        is_full = len(self) >= limit
        if is_full:
            self.popitem(last=False)
        self[key] = value
        return is_full


class _Compiled:
    """A captured graph as a model with open sizes, which is exported once for the numbers that it
    computes at; where PyTorch cannot export it so, and at sizes that this model refuses, as one
    model for each set of numbers. What is none of these runs in PyTorch."""

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
            except Exception:  # what the exporter raises is of many classes; another way is tried
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
                    raise Unsupported(f"it had {_MAX_EXPORTS} sets of numbers, and is given others")
                self._n_exports += 1
                tensors = [args[i].detach() for i in captured.tensors]
                model = _load(captured.module(args, False), tensors, settings_of(torch.get_num_threads()))
                self._models.keep(key, model, _MAX_MODELS)
        return model

    def _run(self, args: Sequence[Any]) -> Any:
        if self._open is not None and self._key(args, self._closed_numbers) == self._open_at:
            try:
                return self._open(*[args[i] for i in self._inputs])
            except InvalidArgument:  # where it is not the sizes' fault, it is raised again below
                pass
        return self._model_for(args)(*[args[i] for i in self._captured.tensors])

    def __call__(self, *args: Any) -> tuple:
        captured = self._captured
        try:
            made = self._run(args)
        except Exception as error:  # PyTorch can run the graph, or says in its own words why not
            if not self._has_warned:
                _warn(error)
            self._has_warned = True
            return captured.run(*args)
        if captured.n_outputs == 1:
            made = (made,)
        return tuple(item if at is None else made[at] for at, item in captured.outputs)


class _Modules:
    """PyTorch runs one graph for all modules of a class: parameters are inputs of it. Each module
    has models of its own, as long as its parameters live."""

    def __init__(self, graph_module: torch.fx.GraphModule, example: Sequence[Any]):
        self._graph_module = graph_module
        self._kept = _Kept()  # by identities of parameters
        self._lock = threading.Lock()  # one export at a time
        self._n_dropped = 0  # of modules that live
        self._has_warned = False
        captured = _Captured(graph_module, example)
        self._static = captured.static
        self._keep(_Compiled(captured, example), example)

    def _key(self, args: Sequence[Any]) -> tuple:
        return tuple(id(args[i]) for i in self._static)

    def _keep(self, run: Callable, args: Sequence[Any]) -> None:
        key, kept = self._key(args), self._kept

        def forget(_: Any) -> None:  # at once: another object may get the same identity
            kept.pop(key, None)

        living = [weakref.ref(args[i], forget) for i in self._static]
        self._n_dropped += kept.keep(key, (run, living), _MAX_MODULES)

    def _add(self, args: Sequence[Any]) -> Callable:
        try:
            if self._n_dropped >= _MAX_EXPORTS:  # each call would export
                raise Unsupported(f"more than {_MAX_MODULES} modules of a class take turns")
            run = _Compiled(_Captured(self._graph_module, args), args)
        except Exception as error:
            if not self._has_warned:
                _warn(error)
            self._has_warned = True
            run = self._graph_module.forward
            if self._n_dropped >= _MAX_EXPORTS:
                return run  # those that are kept stay
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
    """The first line of what was the first cause: it names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _warn(error: BaseException) -> None:
    warnings.warn(f"a graph runs in PyTorch: {_reason(error)}", Fallback, stacklevel=3)


def backend(graph_module: torch.fx.GraphModule, example: Sequence[Any], **_: Any) -> Callable:
    """What torch.compile calls for backend="tessera"."""
    try:
        if torch.is_autocast_enabled("cpu"):
            raise Unsupported("autocast is on: weights would be constants of another dtype")
        if _needs_gradients(example):
            raise Unsupported("it needs gradients: call the model under torch.no_grad()")
        return _Modules(graph_module, example)
    except Exception as error:  # whatever the exporter meets, PyTorch itself can run the graph
        _warn(error)
        return graph_module.forward
