"""Converters (aten_operators.py) of ATen's operators that move elements: shapes, indices, images."""

from __future__ import annotations

from typing import Any

import torch

from .aten import Ref, Size, Writer, expr_of
from .aten_operators import arg, aten, converts, fake, full, positive, rank, sizes
from .errors import Unsupported

# ---- shapes ----


@converts(
    aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten._reshape_alias.default
)
def _view(w, node, x, shape, *_):
    return w.call("reshape", x, sizes=sizes(node))


@converts(
    aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
    aten.squeeze_copy.dims,
)  # fmt: skip
def _unsqueeze(w, node, x, *_):
    return w.call("reshape", x, sizes=sizes(node))


@converts(aten.permute.default)
def _permute(w, node, x, dims):
    return w.call("permute", x, dims=[positive(dim, len(dims)) for dim in dims])


@converts(aten.transpose.int)
def _transpose(w, node, x, dim0, dim1):
    return x if rank(node) == 0 else w.call("transpose", x, dim0=dim0, dim1=dim1)


@converts(aten.t.default)
def _t(w, node, x):
    return x if rank(node) < 2 else w.call("transpose", x, dim0=0, dim1=1)


@converts(aten.expand.default)
def _expand(w, node, x, shape, *, implicit=False):
    return w.call("expand", x, sizes=sizes(node))


@converts(aten.repeat.default)
def _repeat(w, node, x, repeats):
    """Repeats by a reshape to [.., 1, n, ..], which is expanded."""
    old = [1] * (len(repeats) - rank(arg(node, 0))) + list(sizes(arg(node, 0)))
    split = [size for n in old for size in (1, n)]
    wide = [size for n, times in zip(old, repeats) for size in (times, n)]
    if len(split) > 12:
        raise Unsupported("aten.repeat.default of more than 6 dimensions")
    made = w.call("expand", w.call("reshape", x, sizes=split), sizes=wide)
    return w.call("reshape", made, sizes=sizes(node))


@converts(aten.slice.Tensor)
def _slice(w, node, x, dim=0, start=None, end=None, step=1):
    size, n = sizes(arg(node, 0))[dim], sizes(node)[dim]
    start = 0 if start is None else start
    if isinstance(start, int) and start < 0:
        start = Size(expr_of(size) + start) if not isinstance(size, int) else max(size + start, 0)
    if isinstance(start, int) and isinstance(n, int):
        return w.call("slice", x, dim=dim, start=start, end=start + n * step, step=step)
    first = start.expr if isinstance(start, Size) else expr_of(start)
    return w.call("slice", x, dim=dim, start=start, end=Size(first + expr_of(n) * step), step=step)


@converts(aten.select.int)
def _select(w, node, x, dim, index):
    n = sizes(arg(node, 0))[dim]
    if isinstance(index, int) and index < 0:
        index = Size(expr_of(n) + index) if not isinstance(n, int) else n + index
    end = index + 1 if isinstance(index, int) else Size(_expr(index) + 1)
    made = w.call("slice", x, dim=dim, start=index, end=end)
    return w.call("reshape", made, sizes=sizes(node))


def _expr(size: Any) -> Any:
    return size.expr if isinstance(size, Size) else expr_of(size)


@converts(aten.cat.default)
def _cat(w, node, tensors, dim=0):
    legacy = [i for i, one in enumerate(arg(node, 0)) if sizes(one) == (0,)]
    if legacy and rank(node) != 1:  # PyTorch ignores empty vectors
        tensors = [one for i, one in enumerate(tensors) if i not in legacy]
    dtypes = {fake(one).dtype for one in arg(node, 0)}
    if len(dtypes) > 1:
        tensors = [w.cast(one, fake(node).dtype) for one in tensors]
    return w.call("concat", *tensors, dim=dim)


@converts(aten.stack.default)
def _stack(w, node, tensors, dim=0):
    dim = positive(dim, rank(node))
    return w.call("concat", *[w.call("unsqueeze", one, dims=[dim]) for one in tensors], dim=dim)


@converts(aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default)
def _split(w, node, x, how, dim=0):
    dim = positive(dim, rank(arg(node, 0)))
    parts = [one.shape[dim] for one in node.meta["val"]]
    return w.calls(len(parts), "split", x, dim=dim, sizes=parts)


@converts(aten.unbind.int)
def _unbind(w, node, x, dim=0):
    shape = sizes(arg(node, 0))
    dim = positive(dim, len(shape))
    rest = [size for i, size in enumerate(shape) if i != dim]
    if not isinstance(shape[dim], int):
        raise Unsupported("aten.unbind.int of an open size")
    parts = w.calls(shape[dim], "split", x, dim=dim, sizes=[1] * shape[dim])
    return [w.call("reshape", part, sizes=rest) for part in parts]


@converts(aten.flip.default)
def _flip(w, node, x, dims):
    return w.call("flip", x, dims=[positive(dim, rank(node)) for dim in dims]) if dims else x


@converts(aten.roll.default)
def _roll(w, node, x, shifts, dims=()):
    shifts = full(shifts, len(dims) or 1, 0)
    if dims:
        return w.call("roll", x, dims=[positive(dim, rank(node)) for dim in dims], shifts=shifts)
    flat = w.call("roll", w.call("reshape", x, sizes=[-1]), dims=[0], shifts=shifts)
    return w.call("reshape", flat, sizes=sizes(node))


@converts(aten.tril.default, aten.triu.default)
def _tril(w, node, x, diagonal=0):
    return w.call(node.target._opname, x, diagonal=diagonal)


def _padded(w: Writer, node: Any, x: Ref, pad: Any, mode: str, value: float = 0.0) -> Ref:
    """pad: before and after, from the last dimension on."""
    n = rank(node)
    before, after = [0] * n, [0] * n
    for i in range(len(pad) // 2):
        before[n - 1 - i], after[n - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return w.call("pad", x, before=before, after=after, mode=mode, value=float(value))


@converts(aten.constant_pad_nd.default)
def _constant_pad(w, node, x, pad, value=0):
    return _padded(w, node, x, pad, "constant", value)


@converts(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def _reflection_pad(w, node, x, pad):
    return _padded(w, node, x, pad, "reflect")


@converts(
    aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default
)
def _replication_pad(w, node, x, pad):
    return _padded(w, node, x, pad, "edge")


@converts(aten.pixel_shuffle.default)
def _pixel_shuffle(w, node, x, r):
    *lead, c, height, width = sizes(arg(node, 0))
    n = len(lead)
    wide = [*lead, c // (r * r), r, r, height, width]
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    made = w.call("permute", w.call("reshape", x, sizes=wide), dims=order)
    return w.call("reshape", made, sizes=sizes(node))


@converts(aten.pixel_unshuffle.default)
def _pixel_unshuffle(w, node, x, r):
    *lead, c, height, width = sizes(arg(node, 0))
    n = len(lead)
    wide = [*lead, c, height // r, r, width // r, r]
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    made = w.call("permute", w.call("reshape", x, sizes=wide), dims=order)
    return w.call("reshape", made, sizes=sizes(node))


@converts(aten.diagonal.default)
def _diagonal(w, node, x, offset=0, dim1=0, dim2=1):
    """Gathers the elements of the last two dimensions, flattened, whose indices are constant."""
    n = rank(arg(node, 0))
    shape = sizes(arg(node, 0))
    dim1, dim2 = positive(dim1, n), positive(dim2, n)
    rows, columns, length = shape[dim1], shape[dim2], sizes(node)[-1]
    if not all(isinstance(size, int) for size in shape):
        raise Unsupported("aten.diagonal.default of open sizes")
    lead = [d for d in range(n) if d not in (dim1, dim2)]
    flat = w.call("permute", x, dims=[*lead, dim1, dim2])
    flat = w.call("reshape", flat, sizes=[*(shape[d] for d in lead), rows * columns])
    first = max(-offset, 0) * columns + max(offset, 0)
    at = w.constant(first + torch.arange(length) * (columns + 1))
    return w.call("gather", flat, at, dim=n - 2)


@converts(aten.copy.default)
def _copy(w, node, x, src, non_blocking=False):
    src = src if fake(arg(node, 1)).dtype == fake(node).dtype else w.cast(src, fake(node).dtype)
    return src if sizes(arg(node, 1)) == sizes(node) else w.call("expand", src, sizes=sizes(node))


# ---- tensors of one number ----


@converts(
    aten.full.default, aten.zeros.default, aten.ones.default, aten.empty.memory_format,
    aten.new_zeros.default, aten.new_ones.default, aten.new_full.default, aten.new_empty.default,
    aten.full_like.default, aten.zeros_like.default, aten.ones_like.default,
    aten.empty_like.default, aten.scalar_tensor.default, aten.fill.Scalar,
)  # fmt: skip
def _full(w, node, *args, **_):
    """Smaller ones are computed when the graph is converted."""
    name = node.target._opname
    value = 0
    if "ones" in name:
        value = 1
    if "full" in name or name in ("scalar_tensor", "fill"):
        value = args[0] if name == "scalar_tensor" else args[-1] if name == "fill" else args[-1]
    if not isinstance(value, (bool, int, float)):
        raise Unsupported(f"{node.target} of an open number")
    made = w.constant(torch.full((), value, dtype=fake(node).dtype))
    return w.call("expand", made, sizes=sizes(node)) if rank(node) > 0 else made


@converts(aten.arange.default, aten.arange.start, aten.arange.start_step)
def _arange(w, node, *args, **_):
    """Counts with a cumulative sum, since the size is open."""
    start, step = 0, 1
    if len(args) > 1:
        start = args[0]
    if len(args) > 2:
        step = args[2]
    if not isinstance(start, int) or not isinstance(step, int):
        raise Unsupported(f"{node.target} of open numbers")
    ones = w.call("expand", w.constant(torch.ones((), dtype=torch.int64)), sizes=sizes(node))
    made = w.call("cumsum", ones, dim=0, exclusive=True)
    made = made if step == 1 else w.call("mul", made, step)
    made = made if start == 0 else w.call("add", made, start)
    return made if fake(node).dtype == torch.int64 else w.cast(made, fake(node).dtype)


# ---- indices ----


@converts(aten.index_select.default)
def _index_select(w, node, x, dim, index):
    if rank(arg(node, 0)) == 0:
        raise Unsupported("aten.index_select.default of a number")
    if rank(arg(node, 2)) == 0:
        index = w.call("reshape", index, sizes=[1])
    return w.call("gather", x, index, dim=dim)


@converts(aten.embedding.default)
def _embedding(w, node, table, index, *_):
    return w.call("gather", table, index, dim=0)


@converts(aten.gather.default)
def _gather(w, node, x, dim, index, *, sparse_grad=False):
    if rank(arg(node, 0)) == 0 or rank(arg(node, 2)) != rank(arg(node, 0)):
        raise Unsupported("aten.gather.default of a number")
    return w.call("gather_elements", x, index, dim=dim)


def _tuples(w: Writer, node: Any, indices: list, nodes: Any) -> tuple[Ref, int]:
    """Joins index tensors, which broadcast, as tuples [.., k]; returns them and their rank."""
    given = [one for one in nodes if one is not None]
    if any(fake(one).dtype not in (torch.int64, torch.int32) for one in given):
        raise Unsupported(f"{node.target} with a mask")
    shape = torch.broadcast_shapes(*[sizes(one) for one in given])
    columns = []
    for one, ref in zip(nodes, indices):
        if one is None:
            continue
        ref = ref if fake(one).dtype == torch.int64 else w.cast(ref, torch.int64)
        ref = ref if sizes(one) == tuple(shape) else w.call("expand", ref, sizes=shape)
        columns.append(w.call("unsqueeze", ref, dims=[len(shape)]))
    made = columns[0] if len(columns) == 1 else w.call("concat", *columns, dim=len(shape))
    return made, len(shape)


@converts(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(w, node, x, indices):
    nodes = list(arg(node, 1))
    at = [i for i, one in enumerate(nodes) if one is not None]
    if any(fake(nodes[i]).dtype not in (torch.int64, torch.int32) for i in at):
        raise Unsupported(f"{node.target} with a mask")
    if len(at) == 1:
        return w.call("gather", x, indices[at[0]], dim=at[0])
    n = rank(arg(node, 0))
    rest = [d for d in range(n) if d not in at]
    if at + rest != list(range(n)):
        x = w.call("permute", x, dims=at + rest)
    tuples, k = _tuples(w, node, indices, nodes)
    made = w.call("gather_nd", x, tuples)
    is_adjacent = at == list(range(at[0], at[0] + len(at)))
    if not is_adjacent or at[0] == 0:
        return made
    before = list(range(k, k + at[0]))
    after = list(range(k + at[0], k + len(rest)))
    return w.call("permute", made, dims=[*before, *range(k), *after])


@converts(aten.index_put.default, aten._unsafe_index_put.default)
def _index_put(w, node, x, indices, values, accumulate=False):
    nodes = list(arg(node, 1))
    if any(one is None for one in nodes):
        raise Unsupported(f"{node.target} of some dimensions")
    tuples, k = _tuples(w, node, indices, nodes)
    shape = torch.broadcast_shapes(*[sizes(one) for one in nodes])
    wanted = [*shape, *sizes(arg(node, 0))[len(nodes) :]]
    if list(sizes(arg(node, 2))) != wanted:
        values = w.call("expand", values, sizes=wanted)
    reduction = "add" if accumulate else "none"
    return w.call("scatter_nd", x, tuples, values, reduction=reduction)


def _scattered(w: Writer, node: Any, x: Ref, dim: int, index: Ref, src: Ref, reduction: str) -> Ref:
    if rank(arg(node, 0)) == 0:
        raise Unsupported(f"{node.target} of a number")
    return w.call("scatter", x, index, src, dim=dim, reduction=reduction)


@converts(aten.scatter.src, aten.scatter_add.default)
def _scatter(w, node, x, dim, index, src):
    reduction = "add" if node.target is aten.scatter_add.default else "none"
    return _scattered(w, node, x, dim, index, src, reduction)


@converts(aten.scatter.value)
def _scatter_value(w, node, x, dim, index, value):
    made = w.constant(torch.full((), value, dtype=fake(node).dtype))
    src = w.call("expand", made, sizes=sizes(arg(node, 2)))
    return _scattered(w, node, x, dim, index, src, "none")


@converts(aten.scatter_reduce.two)
def _scatter_reduce(w, node, x, dim, index, src, reduce, *, include_self=True):
    names = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if not include_self or reduce not in names:
        raise Unsupported(f"{node.target} with {reduce}")
    return _scattered(w, node, x, dim, index, src, names[reduce])


def _joined(w: Writer, node: Any, x: Ref, src: Ref, dim: int, start: int, n: int) -> Ref:
    """Replaces n slices from start on by src."""
    size = sizes(arg(node, 0))[dim]
    parts = [src]
    if start > 0:
        parts.insert(0, w.call("slice", x, dim=dim, start=0, end=start))
    if not isinstance(size, int):
        raise Unsupported(f"{node.target} of an open size")
    if start + n < size:
        parts.append(w.call("slice", x, dim=dim, start=start + n, end=size))
    return src if len(parts) == 1 else w.call("concat", *parts, dim=dim)


@converts(aten.slice_scatter.default)
def _slice_scatter(w, node, x, src, dim=0, start=None, end=None, step=1):
    size, n = sizes(arg(node, 0))[dim], sizes(arg(node, 1))[dim]
    start = 0 if start is None else start
    if not all(isinstance(one, int) for one in (size, n, start)) or step != 1:
        raise Unsupported(f"{node.target} with a step or open sizes")
    start = max(size + start, 0) if start < 0 else start
    if fake(arg(node, 1)).dtype != fake(node).dtype:
        src = w.cast(src, fake(node).dtype)
    return _joined(w, node, x, src, positive(dim, rank(node)), start, n) if n > 0 else x


@converts(aten.select_scatter.default)
def _select_scatter(w, node, x, src, dim, index):
    size = sizes(arg(node, 0))[dim]
    if not isinstance(index, int) or not isinstance(size, int):
        raise Unsupported(f"{node.target} of open sizes")
    dim = positive(dim, rank(node))
    if fake(arg(node, 1)).dtype != fake(node).dtype:
        src = w.cast(src, fake(node).dtype)
    src = w.call("unsqueeze", src, dims=[dim])
    return _joined(w, node, x, src, dim, positive(index, size), 1)


# ---- images ----


def _resized(w: Writer, node: Any, x: Ref, scales: Any, mode: str, align: Any, **how: Any) -> Ref:
    n = rank(node) - 2
    out = sizes(node)[2:]
    coordinates = "align_corners" if align else "half_pixel"
    if mode == "nearest":
        coordinates = how.pop("coordinates")
    if scales is not None and not align:
        how["scales"] = [float(scale) for scale in full(scales, n, 1.0)]
    return w.call("resize", x, sizes=out, mode=mode, coordinates=coordinates, **how)


@converts(
    aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec,
    preserved=True,
)  # fmt: skip
def _nearest(w, node, x, size, scales):
    return _resized(w, node, x, scales, "nearest", None, coordinates="asymmetric")


@converts(
    aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec, preserved=True,
)  # fmt: skip
def _nearest_exact(w, node, x, size, scales):
    return _resized(w, node, x, scales, "nearest", None, coordinates="tf_half_pixel")


@converts(
    aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec,
    preserved=True,
)  # fmt: skip
def _linear(w, node, x, size, align_corners, scales):
    return _resized(w, node, x, scales, "linear", align_corners)


@converts(aten.upsample_bicubic2d.vec, preserved=True)
def _cubic(w, node, x, size, align_corners, scales):
    return _resized(w, node, x, scales, "cubic", align_corners)


@converts(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def _grid_sample(w, node, x, grid, mode, padding, align_corners):
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return w.call(
        "grid_sample", x, grid, mode=modes[mode], padding=paddings[padding],
        align_corners=align_corners,
    )  # fmt: skip


@converts(aten._upsample_bilinear2d_aa.vec, preserved=True)
def _linear_antialias(w, node, x, size, align_corners, scales):
    return _resized(w, node, x, scales, "linear", align_corners, antialias=True,
                    exclude_outside=True)  # fmt: skip


@converts(aten._upsample_bicubic2d_aa.vec, preserved=True)
def _cubic_antialias(w, node, x, size, align_corners, scales):
    return _resized(w, node, x, scales, "cubic", align_corners, antialias=True,
                    exclude_outside=True, cubic_coefficient=-0.5)  # fmt: skip
