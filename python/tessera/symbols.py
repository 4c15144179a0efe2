"""Writes torch.export's conditions on open sizes as guards of a model: "s77 % 8 == 0".

An exported graph holds only for sizes that take the same branches of the module's Python code and
are in the ranges of their dimensions. PyTorch's ONNX exporter does not write these conditions, so
they are passed to the import separately. Grammar of guards: integers with + - * / % (the last two
round down), min, max, select(c,a,b), comparisons in brackets (1 or 0), and f64(...) for floats.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable, Sequence

import sympy
import torch
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .errors import Unsupported


def _joined(sign: str) -> Callable[..., str]:
    return lambda *args: f"({sign.join(args)})"


def _called(name: str) -> Callable[..., str]:
    return lambda *args: f"{name}({','.join(args)})"


def _power(base: str, exponent: str) -> str:
    if not exponent.isdigit() or not 1 <= int(exponent) <= 8:
        raise Unsupported(f"a power of a size: {base}**{exponent}")
    return f"({'*'.join([base] * int(exponent))})"


# Operations on integer sizes, by the names of sympy's and PyTorch's classes.
_INTEGERS: dict[str, Callable[..., str]] = {
    "Add": _joined("+"),
    "Mul": _joined("*"),
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _joined("/"),
    "CleanDiv": _joined("/"),
    "CeilDiv": lambda a, b: f"(-((-{a})/{b}))",
    "CeilToInt": _called("ceil"),
    "FloorToInt": _called("floor"),
    "TruncToInt": _called("trunc"),
    "RoundToInt": _called("round"),
    "Mod": _joined("%"),
    "PythonMod": _joined("%"),
    "ModularIndexing": lambda a, b, c: f"(({a}/{b})%{c})",
    "Max": _called("max"),
    "Min": _called("min"),
    "Where": _called("select"),
    "Identity": lambda a: a,
}
_FLOATS: dict[str, Callable[..., str]] = {
    "Add": _joined("+"),
    "Mul": _joined("*"),
    "FloatTrueDiv": _joined("/"),
    "IntTrueDiv": _joined("/"),
}
_TRUTHS: dict[str, Callable[..., str]] = {
    "Equality": _joined("=="),
    "Unequality": lambda a, b: f"(1-({a}=={b}))",
    "StrictLessThan": _joined("<"),
    "LessThan": lambda a, b: f"({a}<{b}+1)",
    "StrictGreaterThan": lambda a, b: f"({b}<{a})",
    "GreaterThan": lambda a, b: f"({b}<{a}+1)",
    "And": _called("min"),
    "Or": _called("max"),
    "Not": lambda a: f"(1-{a})",
    "BooleanTrue": lambda: "1",
    "BooleanFalse": lambda: "0",
}
_SIGNS = {
    "Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
    "StrictGreaterThan": ">", "GreaterThan": ">=",
}  # fmt: skip
_ROUNDINGS = ("CeilToInt", "FloorToInt", "TruncToInt", "RoundToInt")


class _Writer:
    """Writes sympy expressions. names: the names of symbols that are sizes of inputs."""

    def __init__(self, names: dict[sympy.Symbol, str], env: Any):
        self._names = names
        self._env = env

    def _write(self, table: dict[str, Callable[..., str]], expr: Any, args: Iterable[str]) -> str:
        made = table.get(type(expr).__name__)
        if made is None:
            raise Unsupported(f"{type(expr).__name__} of sizes: {expr}")
        return made(*args)

    def _float(self, expr: Any) -> str:
        if expr.is_number and not expr.args:
            return f"f64({float(expr)!r})"
        if type(expr).__name__ == "ToFloat":
            return f"f64({self.integer(expr.args[0])})"
        if type(expr).__name__ in _FLOATS:
            return self._write(_FLOATS, expr, map(self._float, expr.args))
        return f"f64({self.integer(expr)})"

    def integer(self, expr: Any) -> str:
        if expr.is_Symbol:
            if expr in self._names:
                return self._names[expr]
            known = self._env.replace(expr)  # s94, where s94 == 2*s27
            if known == expr:
                raise Unsupported(f"{expr} is not the size of an input")
            return self.integer(known)
        if expr.is_Integer:
            return str(expr) if expr >= 0 else f"(0{expr})"
        if expr.is_Relational or expr.is_Boolean:
            return self.truth(expr)
        is_rounded = type(expr).__name__ in _ROUNDINGS
        args = map(self._float if is_rounded else self.integer, expr.args)
        return self._write(_INTEGERS, expr, args)

    def truth(self, expr: Any) -> str:
        of = self.integer if expr.is_Relational else self.truth
        return self._write(_TRUTHS, expr, map(of, expr.args))

    def guards(self, expr: Any) -> list[str]:
        """Returns guards that together are equivalent to the expression."""
        if type(expr).__name__ == "And":
            return [guard for arg in expr.args for guard in self.guards(arg)]
        if expr.is_Relational:
            a, b = map(self.integer, expr.args)
            return [f"{a} {_SIGNS[type(expr).__name__]} {b}"]
        return [] if expr == sympy.true else [f"{self.truth(expr)} == 1"]


def writer_of(names: dict[sympy.Symbol, str], env: Any) -> _Writer:
    """Returns a writer of sizes, for the names of symbols in a ShapeEnv."""
    return _Writer(names, env)


def _inputs(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    kind = torch.export.graph_signature.InputKind.USER_INPUT
    specs = program.graph_signature.input_specs
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    return [node for node, spec in zip(nodes, specs) if spec.kind == kind]


def _name_dims(inputs: Sequence[Any]) -> None:
    """Renames open dimensions of an ONNX graph's inputs to identifiers: "2*h" becomes n2_h."""
    import onnx_ir

    taken: dict[str, str] = {}
    for value in inputs:
        for dim, size in enumerate(value.shape or ()):
            name = getattr(size, "value", None)
            if not isinstance(name, str):
                continue
            if name.isdigit():  # the exporter found that the size is fixed
                value.shape[dim] = int(name)
                continue
            plain = re.sub(r"\W", "_", name, flags=re.ASCII)
            plain = plain if re.match("[A-Za-z]", plain) else f"n{plain}"
            while taken.setdefault(plain, name) != name:
                plain += "_"
            value.shape[dim] = onnx_ir.SymbolicDim(plain)


def _depends_on_elements(expr: Any) -> bool:
    return any(symbol_is_type(symbol, SymT.UNBACKED_INT) for symbol in expr.free_symbols)


def guards_of(program: torch.export.ExportedProgram, inputs: Sequence[Any]) -> list[str]:
    """Returns the guards of a program. Renames the open dimensions of its ONNX graph's inputs.
    Unsupported if a guard cannot be written: without it the graph could be wrong silently."""
    _name_dims(inputs)
    names: dict[sympy.Symbol, str] = {}
    others: list[tuple[str, Any]] = []
    env = None
    for node, value in zip(_inputs(program), inputs):
        fake = node.meta.get("val")
        for dim, size in enumerate(fake.shape if isinstance(fake, torch.Tensor) else ()):
            if not isinstance(size, torch.SymInt):
                continue
            env = size.node.shape_env
            name, expr = getattr(value.shape[dim], "value", None), size.node.expr
            if expr.is_Symbol and names.setdefault(expr, name) == name or name is None:
                continue
            others.append((name, expr))
    if env is None:
        return []
    writer = _Writer(names, env)
    made = [f"{name} == {writer.integer(expr)}" for name, expr in others]
    for symbol, bounds in env.var_to_range.items():
        if symbol in names:
            made.append(f"{names[symbol]} >= {max(int(bounds.lower), 0)}")
            if bounds.upper.is_finite and bounds.upper < 2**48:
                made.append(f"{names[symbol]} <= {int(bounds.upper)}")
    asserts = [one.expr for some in env.deferred_runtime_asserts.values() for one in some]
    for expr in [guard.expr for guard in env.guards] + asserts:
        if not _depends_on_elements(expr):
            made += writer.guards(expr)
    return list(dict.fromkeys(made))
