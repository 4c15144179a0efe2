"""One function for each ATen operator that Tessera computes: it adds Tessera's operators to a Writer
(aten.py) and returns the values of the results. A result that is None is not computed; a graph that
reads it runs in PyTorch."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from .aten import CONVERTERS, PRESERVED, Ref, Writer
from .errors import Unsupported

aten, prims = torch.ops.aten, torch.ops.prims


def converts(*targets: Any, preserved: bool = False) -> Callable:
    """Registers a converter. preserved: the operator is composite, and PyTorch keeps it."""

    def add(function: Callable) -> Callable:
        CONVERTERS.update(dict.fromkeys(targets, function))
        if preserved:
            PRESERVED.extend(targets)
        return function

    return add


# ---- facts about nodes ----


def fake(node: Any) -> torch.Tensor:
    return node.meta["val"]


def rank(node: Any) -> int:
    return fake(node).dim()


def sizes(node: Any) -> tuple:
    return tuple(fake(node).shape)


def arg(node: torch.fx.Node, i: int) -> Any:
    return node.args[i]


def is_used(node: torch.fx.Node, output: int) -> bool:
    """Returns true if something reads this result of several."""
    return any(user.args[1] == output for user in node.users)


def positive(dim: int, n: int) -> int:
    return dim + n if dim < 0 else dim


def full(values: Any, n: int, default: int) -> list:
    """Returns n numbers, of which PyTorch accepts one or none."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    return values * n if len(values) == 1 else values or [default] * n


# ---- functions of one tensor ----

for _name in (
    "relu sigmoid tanh exp exp2 log log2 log10 log1p expm1 sqrt rsqrt abs neg floor ceil trunc sign "
    "sin cos tan asin acos atan sinh cosh asinh acosh atanh erf reciprocal isnan isinf logical_not "
    "bitwise_not silu mish hardswish square"
).split():

    def _unary(w: Writer, node: Any, x: Ref, _op: str = _name) -> Ref:
        return w.call(_op, x)

    if hasattr(getattr(aten, _name, None), "default"):
        CONVERTERS[getattr(aten, _name).default] = _unary


@converts(aten.sgn.default)
def _sgn(w, node, x):
    return w.call("sign", x)


@converts(aten.round.default)
def _round(w, node, x):
    return w.call("round", x)


@converts(aten.gelu.default)
def _gelu(w, node, x, approximate="none"):
    return w.call("gelu", x, tanh_approximation=approximate == "tanh")


@converts(aten.leaky_relu.default)
def _leaky_relu(w, node, x, slope=0.01):
    return w.call("leaky_relu", x, negative_slope=float(slope))


@converts(aten.elu.default)
def _elu(w, node, x, alpha=1.0, scale=1.0, input_scale=1.0):
    if input_scale != 1:
        raise Unsupported("aten.elu.default with an input scale")
    made = w.call("elu", x, alpha=float(alpha))
    return made if scale == 1 else w.call("mul", made, float(scale))


@converts(aten.selu.default, preserved=True)
def _selu(w, node, x):
    return w.call("selu", x)


@converts(aten.celu.default)
def _celu(w, node, x, alpha=1.0):
    return w.call("celu", x, alpha=float(alpha))


@converts(aten.hardtanh.default)
def _hardtanh(w, node, x, low=-1.0, high=1.0):
    return _clamp(w, node, x, low, high)


@converts(aten.relu6.default, preserved=True)
def _relu6(w, node, x):
    return w.call("relu6", x)


@converts(aten.clamp.default)
def _clamp(w, node, x, low=None, high=None):
    dtype = fake(node).dtype
    if any(isinstance(bound, torch.SymInt) for bound in (low, high)):
        x = x if low is None else w.call("maximum", x, low)
        return x if high is None else w.call("minimum", x, high)
    if dtype != fake(arg(node, 0)).dtype:
        x = w.cast(x, dtype)
    low = -math.inf if low is None else float(low)
    high = math.inf if high is None else float(high)
    return w.call("clamp", x, min=low, max=high)


@converts(aten.clamp_min.default)
def _clamp_min(w, node, x, low):
    return _clamp(w, node, x, low)


@converts(aten.clamp_max.default)
def _clamp_max(w, node, x, high):
    return _clamp(w, node, x, None, high)


@converts(aten.clamp.Tensor)
def _clamp_tensor(w, node, x, low=None, high=None):
    x = x if low is None else w.call("maximum", x, low)
    return x if high is None else w.call("minimum", x, high)


@converts(aten.hardsigmoid.default)
def _hardsigmoid(w, node, x):
    return w.call("hardsigmoid", x)


@converts(aten.softplus.default)
def _softplus(w, node, x, beta=1, threshold=20):
    scaled = x if beta == 1 else w.call("mul", x, float(beta))
    made = w.call("softplus", scaled)
    made = made if beta == 1 else w.call("div", made, float(beta))
    if threshold == 20:
        return made
    return w.call("where", w.call("gt", scaled, float(threshold)), x, made)


@converts(aten.softshrink.default)
def _softshrink(w, node, x, lambd=0.5):
    return w.call("shrink", x, lambd=float(lambd), bias=float(lambd))


@converts(aten.hardshrink.default)
def _hardshrink(w, node, x, lambd=0.5):
    return w.call("shrink", x, lambd=float(lambd))


@converts(aten.threshold.default)
def _threshold(w, node, x, threshold, value):
    return w.call("threshold", x, threshold=float(threshold), value=float(value))


@converts(aten.log_sigmoid_forward.default)
def _log_sigmoid(w, node, x):
    return [w.call("logsigmoid", x), None]


@converts(aten._prelu_kernel.default)
def _prelu(w, node, x, weight):
    return w.call("where", w.call("gt", x, 0), x, w.call("mul", weight, x))


@converts(aten.pow.Tensor_Scalar)
def _pow_scalar(w, node, x, exponent):
    return w.call("square", x) if exponent == 2 else w.call("pow", x, exponent)


@converts(aten._to_copy.default)
def _to_copy(w, node, x, *, dtype=None, **_):
    return x if dtype in (None, fake(arg(node, 0)).dtype) else w.cast(x, dtype)


@converts(prims.convert_element_type.default)
def _convert(w, node, x, dtype):
    return _to_copy(w, node, x, dtype=dtype)


@converts(
    aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default,
    aten.contiguous.default, aten._conj.default, aten.resolve_conj.default, aten.dropout.default,
    aten.native_dropout.default,
)  # fmt: skip
def _same(w, node, x, *args, **_):
    if node.target is aten.dropout.default and args[1] and args[0]:
        raise Unsupported(f"{node.target} uses random numbers")
    if node.target is aten.native_dropout.default:
        if args[1] and args[0]:
            raise Unsupported(f"{node.target} uses random numbers")
        return [x, None]
    return x


# ---- functions of several tensors ----

for _name, _op in (
    ("mul", "mul"), ("div", "div"), ("maximum", "maximum"), ("minimum", "minimum"),
    ("fmod", "fmod"), ("remainder", "remainder"), ("atan2", "atan2"), ("hypot", "hypot"),
    ("eq", "eq"), ("ne", "ne"), ("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"),
    ("logical_and", "logical_and"), ("logical_or", "logical_or"), ("logical_xor", "logical_xor"),
    ("bitwise_and", "bitwise_and"), ("bitwise_or", "bitwise_or"), ("bitwise_xor", "bitwise_xor"),
    ("bitwise_left_shift", "bitwise_left_shift"), ("bitwise_right_shift", "bitwise_right_shift"),
    ("pow", "pow"),
):  # fmt: skip

    def _binary(w: Writer, node: Any, a: Any, b: Any, _op: str = _op) -> Ref:
        return w.call(_op, a, b)

    for _overload in (
        "Tensor", "default", "Scalar", "Tensor_Tensor", "Scalar_Tensor", "Tensor_Scalar"
    ):  # fmt: skip
        _target = getattr(getattr(aten, _name), _overload, None)
        if _target is not None and _target not in CONVERTERS:
            CONVERTERS[_target] = _binary


def _scaled(w: Writer, x: Any, alpha: Any) -> Any:
    if alpha == 1:
        return x
    return x * alpha if isinstance(x, (int, float)) else w.call("mul", x, alpha)


@converts(aten.add.Tensor, aten.add.Scalar)
def _add(w, node, a, b, alpha=1):
    return w.call("add", a, _scaled(w, b, alpha))


@converts(aten.sub.Tensor, aten.sub.Scalar)
def _sub(w, node, a, b, alpha=1):
    return w.call("sub", a, _scaled(w, b, alpha))


@converts(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(w, node, a, b, alpha=1):
    return w.call("sub", b, _scaled(w, a, alpha))


@converts(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_mode(w, node, a, b, rounding_mode=None):
    return w.call({None: "div", "trunc": "div_trunc", "floor": "div_floor"}[rounding_mode], a, b)


@converts(aten.floor_divide.default)
def _floor_divide(w, node, a, b):
    return w.call("div_floor", a, b)


@converts(aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf)
def _where(w, node, condition, a, b):
    return w.call("where", condition, a, b)


@converts(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(w, node, x, mask, value):
    dtype = fake(node).dtype
    if isinstance(value, (bool, int, float)):
        value = w.constant(torch.tensor(value, dtype=dtype))
    elif fake(arg(node, 2)).dtype != dtype:
        value = w.cast(value, dtype)
    return w.call("where", mask, value, x)


@converts(aten.fmax.default, aten.fmin.default)
def _fmax(w, node, a, b):
    """A NaN is ignored if the other operand is a number."""
    a, b = (w.call("where", w.call("isnan", x), y, x) for x, y in ((a, b), (b, a)))
    return w.call("maximum" if node.target is aten.fmax.default else "minimum", a, b)


@converts(aten.lerp.Scalar, aten.lerp.Tensor)
def _lerp(w, node, a, b, weight):
    return w.call("add", a, w.call("mul", w.call("sub", b, a), weight))


@converts(aten.addcmul.default)
def _addcmul(w, node, x, a, b, *, value=1):
    return w.call("add", x, _scaled(w, w.call("mul", a, b), value))


@converts(aten.addcdiv.default)
def _addcdiv(w, node, x, a, b, *, value=1):
    return w.call("add", x, _scaled(w, w.call("div", a, b), value))


# ---- products ----


@converts(aten.linear.default, preserved=True)
def _linear(w, node, x, weight, bias=None):
    if rank(arg(node, 1)) != 2:
        return w.call("matmul", x, weight)
    return w.call("linear", x, weight, bias)


@converts(aten.matmul.default, preserved=True)
def _matmul(w, node, a, b):
    return w.call("matmul", a, b)


@converts(aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default)
def _mm(w, node, a, b):
    return w.call("matmul", a, b)


@converts(aten.addmm.default, aten.baddbmm.default, aten.addmv.default, aten.addbmm.default)
def _addmm(w, node, x, a, b, *, beta=1, alpha=1):
    if node.target is aten.addbmm.default:
        raise Unsupported("aten.addbmm.default")
    product = _scaled(w, w.call("matmul", a, b), alpha)
    return product if beta == 0 else w.call("add", product, _scaled(w, x, beta))


@converts(aten.convolution.default)
def _convolution(
    w, node, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
):
    n = rank(arg(node, 1)) - 2
    if n < 1 or rank(arg(node, 0)) != n + 2:
        raise Unsupported("aten.convolution.default without a batch")
    how = {
        "stride": full(stride, n, 1), "padding": full(padding, n, 0),
        "dilation": full(dilation, n, 1), "groups": groups,
    }  # fmt: skip
    if transposed:
        how["output_padding"] = full(output_padding, n, 0)
        return w.call(f"conv_transpose{n}d", x, weight, bias, **how)
    return w.call(f"conv{n}d", x, weight, bias, **how)


# ---- attention ----


@converts(aten.scaled_dot_product_attention.default, preserved=True)
def _attention(
    w, node, q, k, v, mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    if dropout_p:
        raise Unsupported(f"{node.target} uses random numbers")
    ranks = [rank(arg(node, i)) for i in range(3)]
    if max(ranks) == 2:
        q, k, v = (w.call("unsqueeze", x, dims=[0]) for x in (q, k, v))
    elif min(ranks) < 3:
        raise Unsupported(f"{node.target} of a matrix")
    made = w.call(
        "scaled_dot_product_attention", q, k, v, mask, is_causal=is_causal, enable_gqa=enable_gqa,
        scale=None if scale is None else float(scale),
    )  # fmt: skip
    return w.call("squeeze", made, dims=[0]) if max(ranks) == 2 else made


# ---- normalisation ----


@converts(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(w, node, x, weight, bias, mean, variance, momentum, eps):
    return [w.call("batch_norm", x, weight, bias, mean, variance, epsilon=float(eps)), None, None]


@converts(aten._native_batch_norm_legit_functional.default)
def _batch_norm_training(w, node, x, weight, bias, mean, variance, training, momentum, eps):
    if not training:
        return [*_batch_norm(w, node, x, weight, bias, mean, variance, momentum, eps), mean, variance]
    out, new_mean, new_variance = w.calls(
        3, "batch_norm_training", x, weight, bias, epsilon=float(eps)
    )
    inverse = w.call("rsqrt", w.call("add", new_variance, float(eps)))
    of = sizes(arg(node, 0))
    n = 1
    for size in (of[0], *of[2:]):
        n *= size
    if not isinstance(n, int):
        raise Unsupported(f"{node.target} with open sizes")

    def moved(old: Ref, new: Ref, factor: float) -> Ref:
        return w.call("add", w.call("mul", old, 1 - momentum), w.call("mul", new, momentum * factor))

    return [
        out, new_mean, inverse, moved(mean, new_mean, 1.0),
        moved(variance, new_variance, n / (n - 1) if n > 1 else math.nan),
    ]  # fmt: skip


@converts(aten.layer_norm.default, preserved=True)
def _layer_norm(w, node, x, shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return w.call("layer_norm", x, weight, bias, n_dims=len(shape), epsilon=float(eps))


@converts(aten.native_layer_norm.default)
def _native_layer_norm(w, node, x, shape, weight, bias, eps):
    n = len(shape)
    made = w.call("layer_norm", x, weight, bias, n_dims=n, epsilon=float(eps))
    if not is_used(node, 1) and not is_used(node, 2):
        return [made, None, None]
    dims = list(range(-n, 0))
    mean = w.call("mean", x, dims=dims, keepdim=True)
    variance = w.call("var", x, dims=dims, keepdim=True, correction=0)
    return [made, mean, w.call("rsqrt", w.call("add", variance, float(eps)))]


@converts(aten.rms_norm.default, preserved=True)
def _rms_norm(w, node, x, shape, weight=None, eps=None):
    eps = torch.finfo(fake(arg(node, 0)).dtype).eps if eps is None else eps
    return w.call("rms_norm", x, weight, n_dims=len(shape), epsilon=float(eps))


@converts(aten.group_norm.default, preserved=True)
def _group_norm(w, node, x, groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return w.call("group_norm", x, weight, bias, num_groups=groups, epsilon=float(eps))


@converts(aten.native_group_norm.default)
def _native_group_norm(w, node, x, weight, bias, n, channels, hw, groups, eps):
    if is_used(node, 1) or is_used(node, 2):
        raise Unsupported(f"{node.target} with statistics")
    return [_group_norm(w, node, x, groups, weight, bias, eps), None, None]


@converts(aten.instance_norm.default, preserved=True)
def _instance_norm(
    w, node, x, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn_enabled
):
    if not use_input_stats:
        return w.call("batch_norm", x, weight, bias, mean, variance, epsilon=float(eps))
    if mean is not None:
        raise Unsupported(f"{node.target} that changes its statistics")
    channels = sizes(arg(node, 0))[1]
    return w.call("group_norm", x, weight, bias, num_groups=channels, epsilon=float(eps))


# ---- pooling ----


def _batched(w: Writer, node: Any, x: Ref, n: int, pool: Callable[[Ref], Any]) -> Any:
    """Calls a pooling operator, which needs a batch."""
    if rank(arg(node, 0)) == n + 2:
        return pool(x)
    made = pool(w.call("unsqueeze", x, dims=[0]))
    if isinstance(made, Ref):
        return w.call("squeeze", made, dims=[0])
    return [one and w.call("squeeze", one, dims=[0]) for one in made]


@converts(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
def _max_pool(w, node, x, kernel, stride=(), padding=0, dilation=1, ceil_mode=False):
    n = 2 if node.target is aten.max_pool2d_with_indices.default else 3
    kernel = full(kernel, n, 1)
    how = {
        "kernel": kernel, "stride": full(list(stride) or kernel, n, 1),
        "padding": full(padding, n, 0), "dilation": full(dilation, n, 1), "ceil_mode": ceil_mode,
    }  # fmt: skip
    if is_used(node, 1):
        return _batched(w, node, x, n, lambda x: w.calls(2, f"max_pool{n}d_with_indices", x, **how))
    return [_batched(w, node, x, n, lambda x: w.call(f"max_pool{n}d", x, **how)), None]


@converts(aten.avg_pool2d.default, aten.avg_pool3d.default)
def _avg_pool(
    w, node, x, kernel, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor=None
):
    n = 2 if node.target is aten.avg_pool2d.default else 3
    if divisor is not None:
        raise Unsupported(f"{node.target} with a divisor")
    kernel = full(kernel, n, 1)
    how = {
        "kernel": kernel, "stride": full(list(stride) or kernel, n, 1),
        "padding": full(padding, n, 0), "ceil_mode": ceil_mode,
        "count_include_pad": count_include_pad,
    }  # fmt: skip
    return _batched(w, node, x, n, lambda x: w.call(f"avg_pool{n}d", x, **how))


@converts(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def _adaptive_avg_pool(w, node, x, size):
    return _batched(
        w, node, x, len(size), lambda x: w.call("adaptive_avg_pool", x, output_size=size)
    )


@converts(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def _adaptive_max_pool(w, node, x, size):
    op = "adaptive_max_pool_with_indices"
    return _batched(w, node, x, len(size), lambda x: w.calls(2, op, x, output_size=size))


# ---- softmax and reductions ----


@converts(aten._softmax.default, aten._log_softmax.default, aten._safe_softmax.default)
def _softmax(w, node, x, dim, half_to_float=False, dtype=None):
    if fake(node).dtype != fake(arg(node, 0)).dtype:
        x = w.cast(x, fake(node).dtype)
    op = "log_softmax" if node.target is aten._log_softmax.default else "softmax"
    if rank(arg(node, 0)) == 0:
        raise Unsupported(f"{node.target} of a number")
    made = w.call(op, x, dim=dim)
    if node.target is not aten._safe_softmax.default:
        return made
    masked = w.call("all", w.call("eq", x, -math.inf), dims=[dim], keepdim=True)
    return w.call("where", masked, w.constant(torch.zeros((), dtype=fake(node).dtype)), made)


def _reduced(w: Writer, node: Any, op: str, x: Ref, dims: Any, keepdim: bool, **how: Any) -> Ref:
    """Reduces dimensions; None or [] means all."""
    n = rank(arg(node, 0))
    if isinstance(dims, int):
        dims = [dims]
    if n == 0:
        x, dims, keepdim = w.call("reshape", x, sizes=[1]), [0], False
    dims = [positive(dim, max(n, 1)) for dim in dims or range(n)]
    return w.call(op, x, dims=dims, keepdim=bool(keepdim), **how)


@converts(aten.sum.dim_IntList, aten.mean.dim)
def _sum(w, node, x, dims=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        x = _to_copy(w, node, x, dtype=dtype)
    op = "sum" if node.target is aten.sum.dim_IntList else "mean"
    return _reduced(w, node, op, x, dims, keepdim)


@converts(aten.sum.default, aten.mean.default, aten.prod.default)
def _sum_all(w, node, x, *, dtype=None):
    if dtype is not None:
        x = _to_copy(w, node, x, dtype=dtype)
    op = node.target._opname
    return _reduced(w, node, op, x, None, False)


@converts(aten.prod.dim_int)
def _prod(w, node, x, dim, keepdim=False, *, dtype=None):
    if dtype is not None:
        x = _to_copy(w, node, x, dtype=dtype)
    return _reduced(w, node, "prod", x, dim, keepdim)


@converts(aten.amax.default, aten.amin.default)
def _amax(w, node, x, dims=(), keepdim=False):
    return _reduced(w, node, node.target._opname, x, dims, keepdim)


@converts(aten.max.default, aten.min.default)
def _max_all(w, node, x):
    return _reduced(w, node, "amax" if node.target is aten.max.default else "amin", x, None, False)


@converts(aten.max.dim, aten.min.dim)
def _max(w, node, x, dim, keepdim=False):
    kind = "max" if node.target is aten.max.dim else "min"
    made = [_reduced(w, node, f"a{kind}", x, dim, keepdim), None]
    if is_used(node, 1):
        made[1] = _reduced(w, node, f"arg{kind}", x, dim, keepdim)
    return made


@converts(aten.argmax.default, aten.argmin.default)
def _argmax(w, node, x, dim=None, keepdim=False):
    if dim is None:
        flat = w.call("reshape", x, sizes=[-1])
        made = w.call(node.target._opname, flat, dims=[0], keepdim=False)
        return w.call("reshape", made, sizes=[1] * rank(arg(node, 0))) if keepdim else made
    return _reduced(w, node, node.target._opname, x, dim, keepdim)


@converts(aten.any.default, aten.all.default)
def _any_all(w, node, x):
    return _reduced(w, node, node.target._opname, x, None, False)


@converts(aten.any.dim, aten.all.dim, aten.any.dims, aten.all.dims)
def _any(w, node, x, dim=None, keepdim=False):
    return _reduced(w, node, node.target._opname, x, dim, keepdim)


@converts(aten.logsumexp.default)
def _logsumexp(w, node, x, dims, keepdim=False):
    return _reduced(w, node, "logsumexp", x, dims, keepdim)


@converts(aten.linalg_vector_norm.default)
def _vector_norm(w, node, x, order=2, dims=None, keepdim=False, *, dtype=None):
    if dtype is not None:
        x = _to_copy(w, node, x, dtype=dtype)
    return _reduced(w, node, "norm", x, dims, keepdim, p=float(order))


def _correction(value: Any) -> int:
    if value is not None and value != int(value):
        raise Unsupported("a correction that is not an integer")
    return 1 if value is None else int(value)


@converts(aten.var.correction, aten.std.correction)
def _var(w, node, x, dims=None, *, correction=None, keepdim=False):
    how = _correction(correction)
    return _reduced(w, node, node.target._opname, x, dims, keepdim, correction=how)


@converts(aten.var_mean.correction, aten.std_mean.correction)
def _var_mean(w, node, x, dims=None, *, correction=None, keepdim=False):
    op = "var" if node.target is aten.var_mean.correction else "std"
    made = _reduced(w, node, op, x, dims, keepdim, correction=_correction(correction))
    return [made, _reduced(w, node, "mean", x, dims, keepdim)]


@converts(aten.cumsum.default, aten.cumprod.default)
def _cumsum(w, node, x, dim, *, dtype=None):
    if dtype is not None:
        x = _to_copy(w, node, x, dtype=dtype)
    if rank(arg(node, 0)) == 0:
        raise Unsupported(f"{node.target} of a number")
    return w.call(node.target._opname, x, dim=dim)


@converts(aten.sort.default)
def _sort(w, node, x, dim=-1, descending=False):
    return w.calls(2, "sort", x, dim=dim, descending=descending)


@converts(aten.sort.stable)
def _sort_stable(w, node, x, *, stable=False, dim=-1, descending=False):
    return _sort(w, node, x, dim, descending)


@converts(aten.topk.default)
def _topk(w, node, x, k, dim=-1, largest=True, is_sorted=True):
    return w.calls(2, "topk", x, k=k, dim=dim, largest=largest)


# ---- recurrent layers ----


def _recurrent(w, node, op, x, states, params, has_biases, layers, bidirectional, batch_first, **how):
    """Stacks layers and directions. states: h0, and c0 for lstm, each [layers * directions, N, H]."""
    directions, step = 1 + bidirectional, 4 if has_biases else 2
    if len(params) != layers * directions * step or rank(arg(node, 0)) != 3:
        raise Unsupported(f"{node.target} with projections or without a batch")
    ends: list[list[Ref]] = [[] for _ in states]
    if batch_first:
        x = w.call("transpose", x, dim0=0, dim1=1)
    for layer in range(layers):
        made = []
        for direction in range(directions):
            i = layer * directions + direction
            weights = params[i * step : (i + 1) * step] + ([] if has_biases else [None, None])
            first = [
                w.call("squeeze", w.call("slice", s, dim=0, start=i, end=i + 1), dims=[0])
                for s in states
            ]
            more = [first[0], None, first[1]] if len(states) == 2 else first
            reverse = True if direction == 1 else None
            y, *end = w.calls(1 + len(states), op, x, *weights, *more, reverse=reverse, **how)
            made.append(y)
            for all_, one in zip(ends, end):
                all_.append(w.call("unsqueeze", one, dims=[0]))
        x = made[0] if len(made) == 1 else w.call("concat", *made, dim=2)
    if batch_first:
        x = w.call("transpose", x, dim0=0, dim1=1)
    return [x, *(one[0] if len(one) == 1 else w.call("concat", *one, dim=0) for one in ends)]


@converts(aten.lstm.input, preserved=True)
def _lstm(w, node, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    return _stack(w, node, "lstm", x, hx, params, has_biases, layers, dropout, train, bidirectional,
                  batch_first)  # fmt: skip


@converts(aten.gru.input, preserved=True)
def _gru(w, node, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    return _stack(w, node, "gru", x, [hx], params, has_biases, layers, dropout, train, bidirectional,
                  batch_first)  # fmt: skip


@converts(aten.rnn_tanh.input, aten.rnn_relu.input, preserved=True)
def _rnn(w, node, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    function = "relu" if node.target is aten.rnn_relu.input else None
    return _stack(w, node, "rnn", x, [hx], params, has_biases, layers, dropout, train, bidirectional,
                  batch_first, nonlinearity=function)  # fmt: skip


def _stack(w, node, op, x, states, params, has_biases, layers, dropout, train, bidirectional,
           batch_first, **how):  # fmt: skip
    if dropout and train and layers > 1:
        raise Unsupported(f"{node.target} uses random numbers")
    return _recurrent(
        w, node, op, x, states, params, has_biases, layers, bidirectional, batch_first, **how
    )
