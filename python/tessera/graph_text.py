"""Writes a graph of PyTorch as text, and loads it as a model."""

from __future__ import annotations

import functools
import re
from typing import Any, Sequence

import torch

from . import _native, aten_operators, aten_shapes  # noqa: F401  (the last two fill CONVERTERS)
from .aten import Conversion, Names, Writer, is_size, is_tensor
from .errors import InvalidArgument, Unsupported
from .settings import settings_of

class Rejected(Exception):
    """The library rejects what this node became."""

    def __init__(self, node: torch.fx.Node, reason: str):
        super().__init__(reason)
        self.node = node


def _order_of(fake: torch.Tensor) -> list[int] | None:
    """Returns the dimensions from the slowest to the fastest if a result is not contiguous."""
    if fake.is_contiguous() or fake.dim() == 0:
        return None
    hints = [int(s.node.hint if isinstance(s, torch.SymInt) else s) for s in fake.stride()]
    sizes = [int(s.node.hint if isinstance(s, torch.SymInt) else s) for s in fake.shape]
    if any(stride == 0 and size > 1 for stride, size in zip(hints, sizes)):
        return None
    return sorted(range(fake.dim()), key=lambda d: (-hints[d], d))


def ordered(made: torch.Tensor, order: list[int] | None) -> torch.Tensor:
    if order is None:
        return made.contiguous()
    back = [0] * len(order)
    for i, dim in enumerate(order):
        back[dim] = i
    return made.permute(order).contiguous().permute(back)


class Text:
    """The text of a graph for some sizes, its constants, and the nodes that have no equivalent.

    static: indices of placeholders that become constants.
    """

    def __init__(self, graph: torch.fx.Graph, owner: Any, static: Sequence[int], values: dict,
                 is_open: bool):  # fmt: skip
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        inputs = [i for i in range(len(placeholders)) if i not in static]
        fakes = [node.meta.get("val") for node in placeholders]
        names = Names((fakes[i] for i in inputs), values, is_open)
        self.writer = Writer(names)
        conversion = Conversion(self.writer)
        self.inputs: list[int] = []
        self.unsupported: dict[torch.fx.Node, str] = {}
        for i, (node, fake) in enumerate(zip(placeholders, fakes)):
            if not is_tensor(fake):
                continue
            try:
                if i in static:
                    conversion.made[node] = self.writer.constant(i)
                else:
                    conversion.made[node] = self.writer.param(f"x{i}", fake)
                    self.inputs.append(i)
            except Unsupported as error:
                self.unsupported[node] = str(error)
        for node in graph.nodes:
            if node.op == "get_attr":
                self._attribute(conversion, node, owner)
            elif node.op == "call_function":
                self._convert(conversion, node)
        self._outputs(graph, conversion, placeholders)

    @staticmethod
    def _attribute(conversion: Conversion, node: torch.fx.Node, owner: Any) -> None:
        value = functools.reduce(getattr, node.target.split("."), owner)
        if is_tensor(value):
            conversion.folded[node] = value.detach()

    def _convert(self, conversion: Conversion, node: torch.fx.Node) -> None:
        try:
            conversion.convert(node)
        except Unsupported as error:
            self.unsupported[node] = str(error)
        except KeyError:  # an operand has no equivalent
            self.unsupported.setdefault(node, "")
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            self.unsupported[node] = f"{node.target} ({error})"
        if node in self.unsupported:  # nodes that read it may still have an equivalent
            self._stand_in(conversion, node)

    @staticmethod
    def _stand_in(conversion: Conversion, node: torch.fx.Node) -> None:
        fake = node.meta.get("val")
        made = conversion.writer.call("identity")
        conversion.made[node] = [made] * len(fake) if isinstance(fake, (list, tuple)) else made

    def _outputs(self, graph: torch.fx.Graph, conversion: Conversion, placeholders: list) -> None:
        (output,) = (node for node in graph.nodes if node.op == "output")
        results: list[Any] = []
        self.outputs: list[tuple] = []
        items = output.args[0]
        for item in items if isinstance(items, (list, tuple)) else (items,):
            if not isinstance(item, torch.fx.Node):
                self.outputs.append(("value", item))
            elif item in placeholders:
                self.outputs.append(("input", placeholders.index(item)))
            elif is_size(item):
                self.outputs.append(("size", item.meta["val"]))
            elif item in self.unsupported or item not in {**conversion.made, **conversion.folded}:
                self.outputs.append(("none", None))
            else:
                made = conversion.result(item)
                if made is None:
                    self.unsupported[item.args[0]] = f"{item.args[0].target} with all its results"
                    continue
                self.outputs.append(("result", len(results), _order_of(item.meta["val"])))
                results.append(made)
        self.n_results = len(results)
        self.text = self.writer.text(results)

    def load(self, args: Sequence[Any]) -> _native.Model:
        constants = [
            args[value].detach() if isinstance(value, int) else value
            for value in self.writer.constants
        ]
        try:
            return _native.load_graph(self.text, constants, settings_of(torch.get_num_threads()))
        except (InvalidArgument, Unsupported) as error:
            found = re.match(r"line (\d+), column \d+: (.*)", str(error), re.DOTALL)
            node = self.writer.node_at(int(found[1])) if found else None
            if node is None:
                raise
            raise Rejected(node, found[2].splitlines()[0]) from error
