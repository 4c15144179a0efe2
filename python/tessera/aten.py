"""Writes graphs of PyTorch's ATen operators as text of Tessera's graphs.

A graph comes from AOTAutograd: it has no writes to its inputs, and each node has the dtype and sizes
of its result. aten_operators.py has one function for each operator. A statement of the text declares
the type that PyTorch computed, so a result of another dtype or other sizes is an error of the
parser.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Iterable, Sequence

import sympy
import torch

from .errors import Unsupported
from .symbols import writer_of

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int8: "s8", torch.uint8: "u8", torch.int16: "s16", torch.int32: "s32",
    torch.int64: "s64", torch.bool: "bool",
}  # fmt: skip

Convert = Callable[..., Any]
CONVERTERS: dict[Any, Convert] = {}  # by operator; filled by aten_operators.py
PRESERVED: list[Any] = []  # composite operators that PyTorch must not decompose


class Ref(str):
    """A value of the graph that is being written: "%x"."""


class Size:
    """An integer that depends on sizes of the inputs."""

    def __init__(self, expr: sympy.Expr):
        self.expr = expr


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def dtype_name(dtype: torch.dtype) -> str:
    if dtype not in DTYPES:
        raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")
    return DTYPES[dtype]


def expr_of(size: Any) -> sympy.Expr:
    """Returns the expression of an int or SymInt."""
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def number(value: Any) -> str:
    """Writes a literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, complex):
        raise Unsupported("complex numbers")
    return repr(value)


# ---- sizes ----


class Names:
    """The open sizes of a graph: the names of its inputs' dimensions, and the values of symbols.

    values: the sizes for which the text is written. is_open: the text also holds for other sizes.
    """

    def __init__(self, fakes: Iterable[Any], values: dict[sympy.Symbol, int], is_open: bool):
        self.values = values
        self.is_open = is_open
        self.env = None
        self.names: dict[sympy.Symbol, str] = {}
        for fake in fakes:
            for size in fake.shape if is_tensor(fake) else ():
                if isinstance(size, torch.SymInt):
                    self.env = size.node.shape_env
                    if size.node.expr.is_Symbol and is_open:
                        self.names[size.node.expr] = str(size.node.expr)
        self.guards: list[str] = []
        self._writer = writer_of(self.names, self.env)

    def value(self, size: Any) -> int:
        """Returns the value of an int, SymInt or Size."""
        expr = size.expr if isinstance(size, Size) else expr_of(size)
        if isinstance(expr, int) or expr.is_Integer:
            return int(expr)
        found = sympy.sympify(expr.xreplace(self.values))
        if not found.is_Integer:
            raise Unsupported(f"a size that depends on elements: {expr}")
        return int(found)

    @staticmethod
    def value_at(size: Any, values: dict[sympy.Symbol, int]) -> Any:
        """Returns the value of an output that is a number, for sizes of a call."""
        if not isinstance(size, torch.SymInt):
            return size
        return int(size.node.expr.xreplace(values))

    def text(self, size: Any) -> str | None:
        """Returns the expression of a size; None if it is a number."""
        expr = size.expr if isinstance(size, Size) else expr_of(size)
        if isinstance(expr, int) or expr.is_Integer or not self.is_open:
            return None
        return self._writer.integer(expr)

    def dim(self, size: Any, name: str) -> str:
        """Writes a dimension of an input: "3", or "s77=3"."""
        text, value = self.text(size), self.value(size)
        if text is None:
            return str(value)
        if expr_of(size).is_Symbol:
            return f"{text}={value}"
        self.guards.append(f"{name} == {text}")
        return f"{name}={value}"


# ---- statements ----

_INTEGER_OPERATORS = {
    "Add": "scalar_add", "Mul": "scalar_mul", "FloorDiv": "scalar_floordiv", "Mod": "scalar_mod",
    "PythonMod": "scalar_mod",
}  # fmt: skip


class Writer:
    """Writes one graph. Converters call its methods; the values are Refs."""

    def __init__(self, names: Names):
        self.names = names
        self.constants: list[Any] = []  # $0, $1, ...
        self._params: list[str] = []
        self._statements: list[list[str]] = []  # text before the type, type
        self._origins: list[Any] = []  # the node of each statement
        self._at: dict[str, int] = {}  # index of the statement that defines a value
        self._types: dict[str, str] = {}
        self._dims: dict[sympy.Expr, tuple[str, int]] = {}  # an input and dimension of this size
        self.node: torch.fx.Node | None = None

    # -- inputs and constants

    def param(self, name: str, fake: torch.Tensor) -> Ref:
        for d, size in enumerate(fake.shape):
            self._dims.setdefault(expr_of(size), (f"%{name}", d))
        sizes = [self.names.dim(size, f"{name}_{d}") for d, size in enumerate(fake.shape)]
        self._params.append(f"%{name} : {dtype_name(fake.dtype)}[{','.join(sizes)}]")
        return Ref(f"%{name}")

    def constant(self, value: Any) -> Ref:
        """value: a tensor, or anything that load() replaces by a tensor."""
        self.constants.append(value)
        return self._add(f"constant() value=${len(self.constants) - 1}", 1)[0]

    # -- operators

    def _operand(self, value: Any) -> str:
        if isinstance(value, Ref):
            return value
        if value is None:
            return "none"
        if isinstance(value, torch.SymInt):
            return self._integer(expr_of(value))
        if isinstance(value, Size):
            return self._integer(value.expr)
        if isinstance(value, (bool, int, float)):
            return number(value)
        raise Unsupported(f"{self.node.target if self.node else 'an operand'}: {type(value).__name__}")

    def _integer(self, expr: sympy.Expr) -> str:
        """Writes a size that is an operand, such as the one in x * x.shape[0]."""
        if not self.names.is_open or expr.is_Integer:
            return str(self.names.value(Size(expr)))
        if expr in self._dims:
            ref, dim = self._dims[expr]
            return self._add(f"size({ref}, {dim})", 1)[0]
        op = _INTEGER_OPERATORS.get(type(expr).__name__)
        if op is None:
            raise Unsupported(f"the size {expr} among the operands")
        made, *rest = map(self._integer, expr.args)
        for one in rest:
            made = self._add(f"{op}({made}, {one})", 1)[0]
        return made

    def _attribute(self, name: str, value: Any, where: list[str]) -> str:
        if isinstance(value, (list, tuple, torch.Size)):
            parts = []
            for i, item in enumerate(value):
                if isinstance(item, (torch.SymInt, Size)):
                    text = self.names.text(item)
                    where += [f"{name}[{i}]={text}"] if text is not None else []
                    item = self.names.value(item)
                parts.append(number(item))
            return f"{name}=[{','.join(parts)}]"
        if isinstance(value, (torch.SymInt, Size)):
            text = self.names.text(value)
            where += [f"{name}={text}"] if text is not None else []
            value = self.names.value(value)
        if isinstance(value, torch.dtype):
            return f"{name}={dtype_name(value)}"
        return f'{name}="{value}"' if isinstance(value, str) else f"{name}={number(value)}"

    def _add(self, text: str, n: int) -> list[Ref]:
        first = len(self._at)
        made = [Ref(f"%v{first + i}") for i in range(n)]
        for ref in made:
            self._at[ref] = len(self._statements)
        self._statements.append([f"{', '.join(made)} = {text}", "", n])
        self._origins.append(self.node)
        return made

    def calls(self, n: int, op: str, *operands: Any, **attributes: Any) -> list[Ref]:
        """Adds a call of an operator with n results. Attributes that are None are left out."""
        where: list[str] = []
        parts = [
            self._attribute(name, value, where)
            for name, value in attributes.items()
            if value is not None
        ]
        text = f"{op}({', '.join(map(self._operand, operands))})"
        text = " ".join([text, *parts])
        return self._add(f"{text} where {', '.join(where)}" if where else text, n)

    def call(self, op: str, *operands: Any, **attributes: Any) -> Ref:
        return self.calls(1, op, *operands, **attributes)[0]

    def cast(self, value: Any, dtype: torch.dtype) -> Ref:
        return self.call("cast", value, dtype=dtype)

    def declare(self, made: Any, fake: Any) -> None:
        """Declares the type that PyTorch computed for results."""
        if isinstance(made, Ref) and is_tensor(fake):
            sizes = [str(self.names.value(size)) for size in fake.shape]
            self._types.setdefault(made, f"{dtype_name(fake.dtype)}[{','.join(sizes)}]")
        elif isinstance(made, (list, tuple)) and isinstance(fake, (list, tuple)):
            for one, of in zip(made, fake):
                self.declare(one, of)

    # -- the text

    def text(self, results: Sequence[Ref]) -> str:
        lines = [f"graph forward({', '.join(['%self : module', *self._params])})"]
        lines += [f"  guard {guard}" for guard in self.names.guards]
        self._first_line = len(lines) + 2
        lines.append("{")
        for text, _, n in self._statements:
            refs = text[: text.index(" = ")].split(", ")
            types = [self._types.get(ref, "?") for ref in refs]
            if all(one == "?" for one in types):
                lines.append(f"  {text}")
            else:
                lines.append(f"  {text} : {', '.join(types)}")
        lines.append(f"  return {', '.join(results)}")
        return "\n".join([*lines, "}", ""])

    def node_at(self, line: int) -> torch.fx.Node | None:
        """Returns the node that wrote this line of the text."""
        at = line - self._first_line
        return self._origins[at] if 0 <= at < len(self._origins) else None


# ---- graphs ----


def is_size(node: torch.fx.Node) -> bool:
    """Returns true for nodes that compute with sizes; PyTorch runs them."""
    return not is_tensor(node.meta.get("val")) and isinstance(
        node.meta.get("val"), (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    )


def _evaluate(node: torch.fx.Node) -> torch.Tensor | None:
    """Returns the result of a node that has no inputs, such as arange; None if it is too large."""
    fake = node.meta["val"]
    if any(isinstance(size, torch.SymInt) for size in fake.shape) or fake.numel() > 1 << 20:
        return None
    return node.target(*node.args, **node.kwargs).contiguous()


class Conversion:
    """Converts the nodes of a graph one by one. made: the values of nodes."""

    def __init__(self, writer: Writer):
        self.writer = writer
        self.made: dict[torch.fx.Node, Any] = {}
        self.folded: dict[torch.fx.Node, torch.Tensor] = {}

    def _value(self, arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            if is_size(arg):
                value = arg.meta["val"]
                return value
            if arg in self.folded and arg not in self.made:
                self.made[arg] = self.writer.constant(self.folded[arg])
            return self.made[arg]
        if isinstance(arg, (list, tuple)):
            return [self._value(item) for item in arg]
        return arg

    def _fold(self, node: torch.fx.Node) -> bool:
        """Computes a small node in PyTorch if all its operands are numbers or such nodes."""
        inputs = node.all_input_nodes
        if not is_tensor(node.meta.get("val")) or torch.Tag.nondeterministic_seeded in node.target.tags:
            return False
        if node.meta["val"].dtype not in DTYPES or any(one not in self.folded for one in inputs):
            return False
        if not inputs:
            made = _evaluate(node)
        elif node.meta["val"].numel() > 1 << 20:
            made = None
        else:
            args = torch.fx.node.map_arg(node.args, lambda one: self.folded[one])
            kwargs = torch.fx.node.map_arg(node.kwargs, lambda one: self.folded[one])
            made = node.target(*args, **kwargs).contiguous()
        if made is not None:
            self.folded[node] = made
        return made is not None

    def convert(self, node: torch.fx.Node) -> None:
        """Raises Unsupported if there is no equivalent."""
        if is_size(node):
            return
        if node.target is operator.getitem:
            self.made[node] = self.made[node.args[0]][node.args[1]]
            return
        if isinstance(node.target, torch._ops.OpOverload) and self._fold(node):
            return
        convert = CONVERTERS.get(node.target)
        if convert is None:
            raise Unsupported(f"{node.target}")
        self.writer.node = node
        fake = node.meta.get("val")
        for one in fake if isinstance(fake, (list, tuple)) else (fake,):
            if is_tensor(one):
                dtype_name(one.dtype)
        made = convert(self.writer, node, *self._value(node.args), **{
            name: self._value(value) for name, value in node.kwargs.items()
        })  # fmt: skip
        self.writer.declare(made, fake)
        self.made[node] = made

    def result(self, node: torch.fx.Node) -> Ref:
        return self._value(node)
