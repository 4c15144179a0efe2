"""Results of graphs that are views, and the open sizes of graphs."""

from __future__ import annotations

import operator
from typing import Any, Callable, Sequence

import torch

from .aten import Names, is_tensor

def _is_view(node: torch.fx.Node) -> bool:
    """Returns true if a node only reads another with other sizes and strides."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    arguments, returns = node.target._schema.arguments, node.target._schema.returns
    return bool(
        arguments and returns and arguments[0].alias_info is not None
        and not arguments[0].alias_info.is_write and returns[0].alias_info is not None
    )  # fmt: skip


class Views:
    """The results of a graph, some of which are views of others or of inputs. The graph in `module`
    returns what they are views of, each once; results() then makes the views in PyTorch."""

    def __init__(self, graph_module: torch.fx.GraphModule):
        (output,) = (node for node in graph_module.graph.nodes if node.op == "output")
        self._chains: list[tuple[Any, list[torch.fx.Node]]] = []
        bases: dict[torch.fx.Node, int] = {}
        for item in output.args[0]:
            chain: list[torch.fx.Node] = []
            while isinstance(item, torch.fx.Node) and _is_view(item):
                chain.insert(0, item)
                item = item.args[0]
            if isinstance(item, torch.fx.Node):
                item = bases.setdefault(item, len(bases))
                self._chains.append((item, chain))
            else:
                self._chains.append((None, [item]))
        memo: dict[torch.fx.Node, torch.fx.Node] = {}
        graph = torch.fx.Graph()
        graph.graph_copy(graph_module.graph, memo)
        graph.output(tuple(memo[base] for base in bases))
        for old, new in memo.items():
            new.meta = dict(old.meta)
        graph.eliminate_dead_code()
        self.module = torch.fx.GraphModule(graph_module, graph)

    @staticmethod
    def _replayed(node: torch.fx.Node, base: Any, values: dict) -> Any:
        def value(one: torch.fx.Node) -> Any:
            return base if one is node.args[0] else Names.value_at(one.meta["val"], values)

        args, kwargs = (torch.fx.node.map_arg(a, value) for a in (node.args, node.kwargs))
        return node.target(*args, **kwargs)

    def results(self, made: Sequence[Any], values: Callable[[], dict]) -> tuple:
        results = []
        for base, chain in self._chains:
            if base is None:
                results.append(chain[0])
                continue
            result = made[base]
            for node in chain:
                result = self._replayed(node, result, values())
            results.append(result)
        return tuple(results)


def symbols_of(graph: torch.fx.Graph) -> dict[Any, tuple[int, int]]:
    """Maps each symbol of an open size to an argument and its dimension, or to an argument and -1."""
    fakes = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    symbols: dict[Any, tuple[int, int]] = {}
    for i, fake in enumerate(fakes):
        for dim, size in enumerate(fake.shape if is_tensor(fake) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                symbols.setdefault(size.node.expr, (i, dim))
    for i, fake in enumerate(fakes):
        if isinstance(fake, torch.SymInt) and fake.node.expr.is_Symbol:
            symbols.setdefault(fake.node.expr, (i, -1))
    return symbols


def values_of(symbols: dict[Any, tuple[int, int]], args: Sequence[Any]) -> dict[Any, int]:
    return {
        symbol: int(args[i]) if dim < 0 else args[i].shape[dim]
        for symbol, (i, dim) in symbols.items()
    }
