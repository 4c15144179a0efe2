"""torch.compile(model, backend="tessera").

AOTAutograd turns a captured graph into one without writes and views of inputs; it restores aliases,
writes, and views of results itself. aten.py writes this graph as text, and the library freezes it:
parameters and buffers become constants. If one is written later (its version counter moves), the
graph is frozen again. Operators without an equivalent stay in PyTorch: the graph is partitioned, and
a warning names them.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import operator
import threading
import warnings
import weakref
from typing import Any, Callable, Iterable, Sequence

import torch
import torch._dynamo.config
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._python_dispatch import _disable_current_modes

from . import _native
from .aten import CONVERTERS, DTYPES, PRESERVED, is_size, is_tensor
from .errors import Error, InvalidArgument, Unsupported, reason_of
from .fused import FUSED
from .graph_text import Rejected, Text, ordered
from .views import Views, symbols_of, values_of


class Fallback(UserWarning):
    """Warns that operators run in PyTorch."""


_MAX_LOADS = 32  # maximum for sets of sizes of a graph; a load takes as long as hundreds of calls
_MAX_MODELS = 8  # maximum number of models that a graph keeps for sets of sizes
_MAX_MODULES = 64  # maximum number of modules of one class whose models are kept
_MAX_WRITES = 2  # a parameter that was written more often is an input, not a constant
_MAX_REJECTED = 32  # operators of one graph that the library rejects

_compiling = threading.RLock()  # conversions use state of the process: one runs at a time


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


# ---- running a graph, or a part of it ----


class _Part:
    """Runs a graph of which every node has an equivalent. If the text with open sizes is not
    possible, and for sizes that its guards reject, each set of sizes has its own model."""

    def __init__(self, graph: torch.fx.Graph, owner: Any, static: Sequence[int]):
        self.graph, self._owner = graph, owner
        self.static = list(static)
        self.symbols = symbols_of(graph)
        self.hints = self._hints(graph)
        self._texts = _Kept()  # by sizes; the key of the open text is ()
        self.is_open = bool(self.hints)
        text = self._text(()) if self.is_open else None
        if text is None or text.unsupported:
            self.is_open = False
            text = self._text(self._key_of(self.hints))
        self.first = text

    @staticmethod
    def _hints(graph: torch.fx.Graph) -> dict:
        """Returns the value of each symbol at the sizes for which PyTorch captured the graph."""
        found: dict[Any, int] = {}
        for node in graph.nodes:
            fakes = node.meta.get("val")
            for fake in fakes if isinstance(fakes, (list, tuple)) else (fakes,):
                for size in (*fake.shape,) if is_tensor(fake) else (fake,):
                    if isinstance(size, torch.SymInt):
                        known = size.node.shape_env.backed_var_to_val
                        for symbol in size.node.expr.free_symbols:
                            if symbol in known:
                                found[symbol] = int(known[symbol])
        return found

    def _key_of(self, values: dict) -> tuple:
        return tuple(values.get(symbol) for symbol in self.symbols)

    def _text(self, key: tuple) -> Text:
        """Converts the graph for sizes, or for open sizes if the key is ()."""
        values = dict(zip(self.symbols, key)) if key else self.hints
        values = {**self.hints, **values}
        with torch.no_grad(), _disable_current_modes():  # constants are real tensors
            return Text(self.graph, self._owner, self.static, values, self.is_open and not key)

    def model(self, entry: dict, args: Sequence[Any], key: tuple) -> tuple[Text, _native.Model]:
        """Returns the text and model for these sizes; entry has the models of a set of constants."""
        models = entry.setdefault(id(self), _Kept())
        found = models.find(key)
        if found is None:
            with _compiling:
                found = models.find(key)
                if found is None:
                    if key and entry.get("loads", 0) >= _MAX_LOADS:
                        raise Unsupported(f"it already ran with {_MAX_LOADS} sets of sizes and numbers")
                    is_first = not key or key == self._key_of(self.hints)
                    text = self.first if is_first and bool(key) != self.is_open else self._text(key)
                    if text.unsupported:
                        raise Unsupported(next(iter(text.unsupported.values())))
                    try:
                        found = text, text.load(args)
                    except Error as error:  # is raised again at the next call, without a load
                        found = text, error
                    entry["loads"] = entry.get("loads", 0) + bool(key)
                    models.keep(key, found, _MAX_MODELS)
        if isinstance(found[1], Error):
            raise found[1]
        return found

    def run(self, entry: dict, args: Sequence[Any]) -> list:
        values = values_of(self.symbols, args)
        if self.is_open:
            try:
                text, model = self.model(entry, args, ())
                return self._results(text, model, args, values)
            except Rejected:
                self.is_open = False
                self.first = self._text(self._key_of(self.hints))
            except InvalidArgument:  # if sizes are not the cause, the call below raises it again
                pass
        key = self._key_of(values)
        text, model = self.model(entry, args, key)
        return self._results(text, model, args, values)

    def _results(self, text: Text, model: _native.Model, args: Sequence[Any], values: dict) -> list:
        made = model(*[args[i] for i in text.inputs]) if text.n_results else ()
        if text.n_results == 1:
            made = (made,)
        outputs: list[Any] = []
        for kind, at, *order in text.outputs:
            if kind == "result":
                outputs.append(ordered(made[at], order[0]))
            elif kind == "input":
                outputs.append(args[at])
            elif kind == "size":
                outputs.append(text.writer.names.value_at(at, values))
            else:
                outputs.append(at)
        return outputs


class _PartModule(torch.nn.Module):
    """A part of a partitioned graph."""

    def __init__(self, part: _Part, graph: "_Graph"):
        super().__init__()
        self._part, self._graph = [part], weakref.ref(graph)

    def forward(self, *args: Any) -> Any:
        made = self._part[0].run(self._graph().entry.value, args)
        return made[0] if len(made) == 1 else tuple(made)


class _Support(OperatorSupportBase):
    def __init__(self, unsupported: Iterable[torch.fx.Node]):
        self._unsupported = set(unsupported)

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return node.op == "call_function" and node not in self._unsupported and not is_size(node)


_VIEWS = {
    torch.ops.aten.view.default, torch.ops.aten.permute.default, torch.ops.aten.t.default,
    torch.ops.aten.transpose.int, torch.ops.aten.unsqueeze.default, torch.ops.aten.squeeze.dim,
    torch.ops.aten.squeeze.dims, torch.ops.aten.expand.default, torch.ops.aten.slice.Tensor,
    torch.ops.aten.select.int, torch.ops.aten.detach.default, torch.ops.aten.alias.default,
    torch.ops.aten.split.Tensor, torch.ops.aten.unbind.int, operator.getitem,
}  # fmt: skip


class _Graph:
    """A graph of AOTAutograd, with the models of each set of constants."""

    _boxed_call = True  # AOTAutograd passes a list of arguments, which is emptied

    def __init__(self, graph_module: torch.fx.GraphModule, static: Sequence[int]):
        self._graph_module = graph_module
        self._views = Views(graph_module)
        self._symbols = symbols_of(graph_module.graph)
        self._static = list(static)
        self._writes: collections.Counter = collections.Counter()  # by index of a constant
        self._rejected: dict[torch.fx.Node, str] = {}
        self._kept = _Kept()  # by identities of parameters
        self._n_dropped = 0  # modules that still exist but were dropped
        self._lock = threading.RLock()
        self._has_warned = False
        self.entry = threading.local()
        with _compiling:
            self._divide()

    # -- division among Tessera and PyTorch

    def _divide(self) -> None:
        module = self._views.module
        part = _Part(module.graph, module, self._static)
        unsupported = {**part.first.unsupported, **self._rejected}
        self._fused = None
        self._part = part
        if unsupported:
            self._part = None
            self._fused = self._partition(unsupported)
        elif part.first.n_results == 0 or not part.first.inputs:
            self._part = None  # there is nothing to compute
        self._report(unsupported, self._part is None and self._fused is None)

    def _partition(self, unsupported: dict[torch.fx.Node, str]) -> torch.fx.GraphModule | None:
        memo: dict[torch.fx.Node, torch.fx.Node] = {}
        copied = torch.fx.Graph()
        copied.output(copied.graph_copy(self._views.module.graph, memo))
        module = torch.fx.GraphModule(self._views.module, copied)
        for old, new in memo.items():
            new.meta = dict(old.meta)
        statics = {
            node.name
            for i, node in enumerate(n for n in copied.nodes if n.op == "placeholder")
            if i in self._static
        }
        support = _Support(memo[node] for node in unsupported if node in memo)
        partitioner = CapabilityBasedPartitioner(
            module, support, allows_single_node_partition=True
        )
        partitions = [
            one
            for one in partitioner.propose_partitions()
            if any(node.target not in _VIEWS for node in one.nodes)
        ]
        fused = partitioner.fuse_partitions(partitions, prefix="tessera_")
        n = 0
        for node in fused.graph.nodes:
            if node.op == "call_module" and node.target.startswith("tessera_"):
                inner = getattr(fused, node.target)
                placeholders = [one for one in inner.graph.nodes if one.op == "placeholder"]
                for one, outer in zip(placeholders, node.args):
                    one.meta = dict(outer.meta)
                static = [i for i, outer in enumerate(node.args) if outer.name in statics]
                part = _Part(inner.graph, inner, static)
                if part.first.unsupported or not part.first.inputs or not part.first.n_results:
                    continue  # the part runs in PyTorch
                setattr(fused, node.target, _PartModule(part, self))
                n += 1
        fused.recompile()
        return fused if n else None

    def _report(self, unsupported: dict[torch.fx.Node, str], is_whole: bool) -> None:
        reasons = dict.fromkeys(reason for reason in unsupported.values() if reason)
        if not reasons or self._has_warned:
            return
        self._has_warned = True
        listed = ", ".join(reasons)
        what = "a graph runs in PyTorch" if is_whole else "operators run in PyTorch"
        warnings.warn(f"{what}: {listed}", Fallback, stacklevel=2)

    # -- constants

    def _find(self, args: Sequence[Any]) -> dict:
        """Returns the models of these constants; drops them if a constant was written."""
        of = [args[i] for i in self._static]
        key = tuple(map(id, of))
        found = self._kept.find(key)
        versions = [_version(value) for value in of]
        if found is not None and found["versions"] == versions:
            return found
        with self._lock:
            if found is not None:
                self._count_writes(found["versions"], versions)
                return self._find(args) if len(of) != len(self._static) else self._add(args, key)
            return self._add(args, key)

    def _count_writes(self, before: list, after: list) -> None:
        """Makes inputs of constants that are written again and again."""
        changed = [i for i, a, b in zip(self._static, before, after) if a != b]
        self._writes.update(changed)
        often = {i for i in changed if self._writes[i] > _MAX_WRITES}
        if often:
            self._static = [i for i in self._static if i not in often]
            self._kept.clear()
            with _compiling:
                self._divide()

    def _add(self, args: Sequence[Any], key: tuple) -> dict:
        if self._n_dropped >= _MAX_LOADS:  # each call would load a model
            raise Unsupported(f"more than {_MAX_MODULES} modules of one class run alternately")
        kept = self._kept

        def forget(_: Any) -> None:  # immediately: a new object may get the same id
            kept.pop(key, None)

        of = [args[i] for i in self._static]
        entry = {
            "versions": [_version(value) for value in of],
            "living": [weakref.ref(value, forget) for value in of],
        }
        if key not in kept:
            self._n_dropped += kept.keep(key, entry, _MAX_MODULES)
        else:
            kept[key] = entry
        return entry

    # -- calls

    def _run(self, args: list) -> Any:
        for _ in range(_MAX_REJECTED):
            if self._part is None and self._fused is None:
                break
            entry = self._find(args)
            try:
                self.entry.value = entry
                made = self._part.run(entry, args) if self._part is not None else self._fused(*args)
                return self._views.results(made, functools.partial(values_of, self._symbols, args))
            except Rejected as error:
                with self._lock, _compiling:
                    self._reject(error)
        return self._graph_module.forward(*args)

    def _reject(self, error: Rejected) -> None:
        names = {node.name: node for node in self._views.module.graph.nodes}
        node = names.get(error.node.name)
        if node is None or node in self._rejected:
            raise Unsupported(str(error)) from error
        self._rejected[node] = f"{node.target} ({error})"
        self._kept.clear()
        self._divide()

    def __call__(self, args: list) -> Any:
        given = list(args)
        args.clear()
        try:
            return self._run(given)
        except Exception as error:  # PyTorch can run the graph, or raises its own error
            if not self._has_warned:
                warnings.warn(f"a graph runs in PyTorch: {reason_of(error)}", Fallback, stacklevel=2)
            self._has_warned = True
            return self._graph_module.forward(*given)


def _version(value: Any) -> int | None:
    return None if value.is_inference() else value._version


# ---- AOTAutograd ----


def _static_of(graph_module: torch.fx.GraphModule) -> list[int]:
    """Returns the indices of inputs that are parameters or buffers, and that no graph writes."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return []
    fakes = [n.meta.get("val") for n in graph_module.graph.nodes if n.op == "placeholder"]
    written = {i for i, info in enumerate(metadata.input_info) if info.mutates_data}
    return [
        i
        for i in metadata.static_input_indices
        if i < len(fakes) and i not in written and is_tensor(fakes[i])
        and fakes[i].dtype in DTYPES
    ]  # fmt: skip


def _inference(graph_module: torch.fx.GraphModule, example: Sequence[Any]) -> Callable:
    return _Graph(graph_module, _static_of(graph_module))


@functools.lru_cache(maxsize=None)
def _decompositions() -> dict:
    from torch._decomp import core_aten_decompositions

    table = {op: how for op, how in core_aten_decompositions().items() if op not in CONVERTERS}
    return {**table, **FUSED}


def _preserve() -> contextlib.AbstractContextManager:
    """Makes PyTorch keep composite operators that have an equivalent, such as linear."""
    try:
        from torch._export.utils import _special_op_to_preserve_cia
        from torch.export.exported_program import _override_composite_implicit_decomp
    except ImportError:  # PyTorch before 2.6
        return contextlib.nullcontext()
    return _override_composite_implicit_decomp(
        dict.fromkeys(PRESERVED, _special_op_to_preserve_cia)
    )


def _needs_gradients(example: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        is_tensor(value) and value.requires_grad for value in example
    )


def _check(example: Sequence[Any]) -> None:
    if _needs_gradients(example):
        raise Unsupported("it needs gradients: call the model in torch.no_grad()")
    devices = {str(value.device) for value in example if is_tensor(value)} - {"cpu"}
    if devices:
        raise Unsupported(f"tensors on {', '.join(sorted(devices))}")


def backend(graph_module: torch.fx.GraphModule, example: Sequence[Any], **_: Any) -> Callable:
    """The backend of torch.compile(..., backend="tessera")."""
    try:
        _check(example)
    except Error as error:
        warnings.warn(f"a graph runs in PyTorch: {reason_of(error)}", Fallback, stacklevel=2)
        return graph_module.forward
    with _compiling, _preserve():
        return aot_autograd(fw_compiler=_inference, decompositions=_decompositions())(
            graph_module, example
        )


# torch.compile enters this context for each call: Dynamo then captures LSTM, GRU and RNN modules.
backend.backend_ctx_ctor = lambda: torch._dynamo.config.patch(allow_rnn=True)
