"""Cases for backends of torch.compile: functions of tensors, compared with eager PyTorch.

    python torch_cases.py BACKEND [PART]    prints which cases are not equal to eager, and how many
                                            are; PART is a beginning of names, such as alias/

A case is a name, a function, and a function that makes its inputs. is_equal() compares results,
their dtypes and strides, which results and inputs share memory, and the inputs after the call.
"""

import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


def case(group, name, function, make):
    key = f"{group}/{name}"
    assert key not in CASES, key
    CASES[key] = (function, make)


def rand(*shape, seed=0, low=-2.0, high=2.0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.rand(shape, generator=generator) * (high - low) + low


# ---- aliases, writes and strides ----


def graph_break():
    torch._dynamo.graph_break()


def _after_a_break(write):
    """Writes to one result of a graph, and returns the others."""

    def function(v):
        w, y = write[0](v), v * 2
        graph_break()
        write[1](w)
        return v, w, y

    return function


_VIEWS = {
    "select": lambda v: v[1],
    "slice": lambda v: v[1:3],
    "step": lambda v: v[::2],
    "transpose": lambda v: v.t(),
    "view": lambda v: v.view(-1),
    "unsqueeze": lambda v: v.unsqueeze(0),
    "expand": lambda v: v[:1].expand(4, 6),
    "diagonal": lambda v: v.diagonal(),
    "as_strided": lambda v: v.as_strided((2, 3), (6, 2), 1),
    "chunk": lambda v: v.chunk(2)[1],
    "unfold": lambda v: v.unfold(1, 2, 2),
    "detach": lambda v: v.detach(),
}
_WRITES = {"fill": lambda w: w.fill_(7), "add": lambda w: w.add_(10), "mul": lambda w: w.mul_(0.5)}
for _view, _make in _VIEWS.items():
    if _view != "expand":
        for _write in ("fill", "add"):
            case("alias", f"{_view}_of_input_{_write}", _after_a_break((_make, _WRITES[_write])),
                 lambda: (rand(4, 6),))  # fmt: skip


def _of_intermediate(view, write):
    def function(v):
        b = v + 1
        w = view(b)
        graph_break()
        write(w)
        return b, w

    return function


for _view in ("select", "slice", "transpose", "view", "unsqueeze", "diagonal", "chunk", "detach"):
    case("alias", f"{_view}_of_intermediate", _of_intermediate(_VIEWS[_view], _WRITES["mul"]),
         lambda: (rand(4, 6),))  # fmt: skip


def _inside(view, write):
    def function(v):
        b = v.clone()
        write(view(b))
        return b, b.sum(0)

    return function


for _view in ("select", "slice", "step", "transpose", "diagonal", "as_strided", "unfold"):
    case("alias", f"write_through_{_view}", _inside(_VIEWS[_view], _WRITES["fill"]),
         lambda: (rand(4, 6),))  # fmt: skip


def _add_to_input(x, y):
    x.add_(y)
    return x * 2


def _copy_to_input(x, y):
    x.copy_(y)
    return x.sum()


def _write_row(x, y):
    x[1] = y[0]
    return x + y


def _write_masked(x, y):
    x[x > 0] = 0.0
    return x + y


def _swap(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def _same_twice(x, y):
    z = x + y
    return z, z


def _input_itself(x, y):
    return x, x + y, y


def _view_and_base(x, y):
    z = x + y
    return z.view(-1), z, z[0]


def _two_views(x, y):
    return x[0], x[1], x.t()


def _resized(x, y):
    z = x + y
    graph_break()
    z.resize_(2, 3)
    return z.shape[0], z


def _out_argument(x, y):
    out = torch.empty_like(x)
    torch.add(x, y, out=out)
    return out


def _in_place_chain(x, y):
    return (x + y).relu_().add_(1).mul_(2)


def _set_data(x, y):
    z = torch.zeros(4, 6)
    z[:, ::2] = x[:, ::2]
    z[:, 1::2] += y[:, 1::2]
    return z


def _index_put(x, y):
    z = x.clone()
    z[torch.tensor([0, 2])] = y[:2]
    return z


def _write_and_view(x, y):
    v = x.view(2, 12)
    x.add_(1)
    return v, x


def _write_first(x, y):
    x.add_(1)
    return y * 2


for _function in (
    _add_to_input, _copy_to_input, _write_row, _write_masked, _swap, _same_twice, _input_itself,
    _view_and_base, _two_views, _resized, _out_argument, _in_place_chain, _set_data, _index_put,
    _write_and_view,
):  # fmt: skip
    case("alias", _function.__name__[1:], _function, lambda: (rand(4, 6), rand(4, 6, seed=1)))

case("alias", "input_twice", _add_to_input, lambda: (rand(4, 6),) * 2)
case("alias", "overlapping_inputs", _write_first, lambda: (lambda b: (b[:4], b[1:]))(rand(5, 6)))


def image(*shape):
    return rand(*shape).contiguous(memory_format=torch.channels_last)


_weight = rand(5, 3, 3, 3, seed=2)
for _name, _function in {
    "relu": torch.relu,
    "add": lambda x: x + 1,
    "conv": lambda x: F.conv2d(x, _weight, padding=1),
    "pool": lambda x: F.max_pool2d(x, 2),
    "cat": lambda x: torch.cat([x, x], 1),
    "clone": lambda x: x.clone(),
    "flatten": lambda x: x.flatten(2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
}.items():
    case("alias", f"channels_last_{_name}", _function, lambda: (image(2, 3, 6, 6),))
for _name, _function in {
    "transposed": lambda x: x.t() + 1,
    "permuted": lambda x: x.t().contiguous().t() * 2,
}.items():
    case("alias", f"strides_{_name}", _function, lambda: (rand(4, 6),))


# ---- functions ----


def functions(names, make, module=torch):
    for name in names.split():
        case("function", f"{name}", getattr(module, name), make)


functions(
    "abs sin cos tan sinh cosh tanh asinh atan exp exp2 expm1 erf erfc sigmoid square neg ceil floor "
    "round trunc frac sign sgn signbit isnan isfinite isinf nan_to_num deg2rad sinc positive relu "
    "reciprocal logical_not",
    lambda: (rand(3, 7),),
)  # fmt: skip
functions("log log2 log10 log1p sqrt rsqrt lgamma digamma", lambda: (rand(3, 7, low=0.1, high=3.0),))
functions("asin acos atanh erfinv", lambda: (rand(3, 7, low=-0.9, high=0.9),))
functions("acosh", lambda: (rand(3, 7, low=1.1, high=4.0),))
functions(
    "add sub mul div maximum minimum fmax fmin fmod remainder atan2 hypot eq ne lt le gt ge "
    "logical_and logical_or logical_xor logaddexp copysign true_divide floor_divide dist "
    "cosine_similarity isclose heaviside",
    lambda: (rand(3, 7), rand(3, 7, seed=1)),
)  # fmt: skip
functions("pow xlogy", lambda: (rand(3, 7, low=0.2), rand(3, 7, seed=1, low=0.2)))
functions(
    "bitwise_and bitwise_or bitwise_xor gcd lcm bitwise_left_shift",
    lambda: (torch.arange(1, 13).view(3, 4), torch.arange(2, 14).view(3, 4) % 5),
)  # fmt: skip
functions("bitwise_not", lambda: (torch.arange(12),))
functions(
    "sum mean prod amax amin max min argmax argmin std var any all norm median nansum count_nonzero "
    "std_mean var_mean",
    lambda: (rand(3, 7),),
)  # fmt: skip
functions(
    "flatten t fliplr flipud rot90 tril triu diag trace ravel atleast_3d clone diagonal cov corrcoef",
    lambda: (rand(5, 5),),
)  # fmt: skip
functions("mm matmul inner kron", lambda: (rand(4, 5), rand(5, 5, seed=1)[:, :5]))
functions("dot outer", lambda: (rand(5), rand(5, seed=1)))
functions("bmm", lambda: (rand(2, 3, 4), rand(2, 4, 5, seed=1)))
for _name in (
    "relu6 elu selu celu gelu silu mish hardswish hardsigmoid hardtanh softplus softsign tanhshrink "
    "logsigmoid leaky_relu softshrink hardshrink"
).split():
    case("function", f"F.{_name}", getattr(F, _name), lambda: (rand(3, 7, high=3.0, low=-3.0),))

_x, _x3, _x4 = (lambda: (rand(3, 7),)), (lambda: (rand(2, 3, 8),)), (lambda: (rand(2, 4, 9, 8),))
for _name, _function, _make in (
    ("softmax", lambda x: F.softmax(x, 1), _x),
    ("log_softmax", lambda x: F.log_softmax(x, -1), _x),
    ("softmin", lambda x: F.softmin(x, 0), _x),
    ("glu", lambda x: F.glu(x), _x3),
    ("prelu", lambda x: F.prelu(x, torch.tensor([0.25])), _x),
    ("threshold", lambda x: F.threshold(x, 0.1, 5.0), _x),
    ("normalize", lambda x: F.normalize(x, dim=1), _x),
    ("layer_norm", lambda x: F.layer_norm(x, (8,)), _x3),
    ("rms_norm", lambda x: F.rms_norm(x, (8,)), _x3),
    ("group_norm", lambda x: F.group_norm(x, 2), _x4),
    ("instance_norm", lambda x: F.instance_norm(x), _x4),
    ("batch_norm", lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), _x4),
    ("local_response_norm", lambda x: F.local_response_norm(x, 3), _x4),
    ("conv1d", lambda x: F.conv1d(x, rand(5, 3, 3, seed=3), stride=2), _x3),
    ("conv2d_same", lambda x: F.conv2d(x, rand(6, 4, 3, 3), padding="same"), _x4),
    ("conv2d_groups", lambda x: F.conv2d(x, rand(8, 2, 3, 3), groups=2, dilation=2), _x4),
    ("conv3d", lambda x: F.conv3d(x[:, None], rand(2, 1, 2, 3, 3)), _x4),
    ("conv_transpose1d", lambda x: F.conv_transpose1d(x, rand(3, 5, 3), stride=2), _x3),
    ("conv_transpose2d", lambda x: F.conv_transpose2d(x, rand(4, 2, 3, 3), output_padding=1, stride=2),
     _x4),
    ("max_pool1d", lambda x: F.max_pool1d(x, 3), _x3),
    ("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), _x4),
    ("max_pool2d_indices", lambda x: F.max_pool2d(x, 2, return_indices=True), _x4),
    ("avg_pool1d", lambda x: F.avg_pool1d(x, 2), _x3),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), _x4),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), _x4),
    ("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 3), _x3),
    ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 3), _x4),
    ("lp_pool2d", lambda x: F.lp_pool2d(x.abs(), 2, 2), _x4),
    ("pad_constant", lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), _x4),
    ("pad_reflect", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), _x4),
    ("pad_replicate", lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), _x4),
    ("pad_circular", lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), _x4),
    ("pad_negative", lambda x: F.pad(x, (-1, 2)), _x4),
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), _x4),
    ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x[:, :, :8], 2), _x4),
    ("channel_shuffle", lambda x: F.channel_shuffle(x, 2), _x4),
    ("unfold", lambda x: F.unfold(x, 3), _x4),
    ("one_hot", lambda x: F.one_hot(x.argmax(1), 7), _x),
    ("embedding", lambda i: F.embedding(i, rand(9, 4)), lambda: (torch.tensor([[1, 8], [0, 3]]),)),
    ("embedding_bag", lambda i: F.embedding_bag(i, rand(9, 4)), lambda: (torch.tensor([[1, 8], [0, 3]]),)),
    ("linear", lambda x: F.linear(x, rand(5, 8), rand(5)), _x3),
    ("bilinear", lambda x: F.bilinear(x, x, rand(5, 7, 7)), _x),
    ("addmm", lambda x: torch.addmm(rand(5), x, rand(7, 5), beta=0.5, alpha=2), _x),
    ("baddbmm", lambda x: torch.baddbmm(rand(2, 3, 5), x, rand(2, 8, 5)), _x3),
    ("einsum", lambda x: torch.einsum("bij,bkj->bik", x, x), _x3),
    ("tensordot", lambda x: torch.tensordot(x, x, dims=([0, 2], [0, 2])), _x3),
    ("cdist", lambda x: torch.cdist(x, x + 1), _x3),
    ("cross", lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]), _x),
    ("vector_norm", lambda x: torch.linalg.vector_norm(x, 3, 1), _x),
    ("cumsum", lambda x: x.cumsum(1), _x),
    ("cumprod", lambda x: x.cumprod(0), _x),
    ("cummax", lambda x: x.cummax(1), _x),
    ("logcumsumexp", lambda x: x.logcumsumexp(1), _x),
    ("logsumexp", lambda x: x.logsumexp(1), _x),
    ("diff", lambda x: x.diff(), _x),
    ("sort", lambda x: x.sort(1, descending=True), _x),
    ("argsort", lambda x: x.argsort(1), _x),
    ("topk", lambda x: x.topk(3), _x),
    ("kthvalue", lambda x: x.kthvalue(3), _x),
    ("max_dim", lambda x: x.max(1), _x),
    ("min_keepdim", lambda x: x.min(0, keepdim=True), _x),
    ("var_dim", lambda x: x.var(1, correction=0), _x),
    ("std_dims", lambda x: x.std((0, 2)), _x3),
    ("sum_dtype", lambda x: x.sum(1, dtype=torch.float64), _x),
    ("any_dim", lambda x: (x > 0).any(1), _x),
    ("quantile", lambda x: x.quantile(0.3, dim=1), _x),
    ("histc", lambda x: x.histc(5, -2, 2), _x),
    ("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), _x),
    ("searchsorted", lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x), _x),
    ("gather", lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1], [6, 3]])), _x),
    ("scatter", lambda x: x.scatter(1, torch.tensor([[0], [2], [4]]), 9.0), _x),
    ("scatter_add", lambda x: x.scatter_add(0, torch.zeros(3, 7, dtype=torch.int64), x), _x),
    ("scatter_reduce", lambda x: x.scatter_reduce(1, torch.zeros(3, 7, dtype=torch.int64), x, "amax"),
     _x),
    ("index_select", lambda x: x.index_select(1, torch.tensor([5, 0])), _x),
    ("index_add", lambda x: x.index_add(0, torch.tensor([1, 1]), rand(2, 7), alpha=2), _x),
    ("index_copy", lambda x: x.index_copy(0, torch.tensor([2, 1]), rand(2, 7)), _x),
    ("index_fill", lambda x: x.index_fill(1, torch.tensor([2, 4]), -1.0), _x),
    ("index_pairs", lambda x: x[torch.tensor([0, 2]), torch.tensor([6, -1])], _x),
    ("index_apart", lambda x: x[torch.tensor([0, 1]), :, torch.tensor([6, -1])], _x3),
    ("index_middle", lambda x: x[:, torch.tensor([[0, 2], [1, 1]]), torch.tensor([6, -1])], _x3),
    ("masked_fill", lambda x: x.masked_fill(x > 0, -1.5), _x),
    ("masked_select", lambda x: x.masked_select(x > 0), _x),
    ("nonzero", lambda x: (x > 0).nonzero(), _x),
    ("where", lambda x: torch.where(x > 0, x, -1.0), _x),
    ("take", lambda x: x.take(torch.tensor([1, 20, -1])), _x),
    ("take_along_dim", lambda x: x.take_along_dim(x.argsort(1), 1), _x),
    ("clamp", lambda x: x.clamp(-0.5, 1.0), _x),
    ("clamp_tensor", lambda x: x.clamp(x.mean(), x.max()), _x),
    ("clip_integers", lambda x: (x * 3).long().clamp(min=0), _x),
    ("lerp", lambda x: torch.lerp(x, x.flip(0), 0.3), _x),
    ("addcmul", lambda x: torch.addcmul(x, x, x, value=0.5), _x),
    ("addcdiv", lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5), _x),
    ("div_modes", lambda x: (x.div(0.7, rounding_mode="floor"), x.div(0.7, rounding_mode="trunc")), _x),
    ("rsub", lambda x: 3 - x, _x),
    ("scalar_pow", lambda x: 2.0**x, _x),
    ("integer_mix", lambda x: torch.arange(7) * x + 1, _x),
    ("bool_mix", lambda x: (x > 0) * x + (x < 1), _x),
    ("integer_division", lambda x: torch.arange(7) // 2 + torch.arange(7) % 3, _x),
    ("true_division", lambda x: torch.arange(7) / 2 + x, _x),
    ("casts", lambda x: (x.double(), x.half(), x.to(torch.int32), x.bool()), _x),
    ("bfloat16", lambda x: x.bfloat16() * 2 + 1, _x),
    ("cat", lambda x: torch.cat([x, x * 2], 1), _x),
    ("cat_dtypes", lambda x: torch.cat([x, torch.arange(7)[None]], 0), _x),
    ("stack", lambda x: torch.stack([x, -x], 1), _x),
    ("split", lambda x: x.split(3, 1), _x),
    ("chunk_sum", lambda x: sum(c.sum() for c in x.chunk(3, 1)), _x),
    ("unbind", lambda x: x.unbind(0)[1] + 1, _x),
    ("repeat", lambda x: x.repeat(2, 3), _x),
    ("tile", lambda x: x.tile(2), _x),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, 1), _x),
    ("roll", lambda x: x.roll((1, 2), (0, 1)), _x),
    ("roll_flat", lambda x: x.roll(3), _x),
    ("flip", lambda x: x.flip(0, 1), _x),
    ("movedim", lambda x: x.movedim(0, 2) + 0, _x3),
    ("expand", lambda x: x[:1].expand(5, 7) + 1, _x),
    ("narrow", lambda x: x.narrow(1, 2, 3) * 2, _x),
    ("unflatten", lambda x: x.unflatten(2, (2, 4)) + 1, _x3),
    ("diag_embed", lambda x: torch.diag_embed(x), _x),
    ("block_diag", lambda x: torch.block_diag(x, x), _x),
    ("meshgrid", lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0] * 1, _x),
    ("cartesian_prod", lambda x: torch.cartesian_prod(x[0], x[1]), _x),
    ("combinations", lambda x: torch.combinations(x[0]), _x),
    ("vander", lambda x: torch.vander(x[0], 3), _x),
    ("arange", lambda x: torch.arange(2, 9) + x, _x),
    ("linspace", lambda x: torch.linspace(0, 1, 7) * x, _x),
    ("eye", lambda x: torch.eye(7) @ x.t(), _x),
    ("full_like", lambda x: torch.full_like(x, 3.0) + x, _x),
    ("new_zeros", lambda x: x.new_zeros(3, 7) + x, _x),
    ("tril_indices", lambda x: x[torch.tril_indices(3, 3)[0], torch.tril_indices(3, 3)[1]], _x),
    ("grid_sample", lambda x: F.grid_sample(x, rand(2, 5, 6, 2) / 2, align_corners=False), _x4),
    ("affine_grid", lambda x: F.affine_grid(rand(2, 2, 3), (2, 4, 9, 8), align_corners=False) + 0, _x4),
    ("mse_loss", lambda x: F.mse_loss(x, x.flip(0)), _x),
    ("l1_loss", lambda x: F.l1_loss(x, x.flip(0)), _x),
    ("huber_loss", lambda x: F.huber_loss(x, x.flip(0)), _x),
    ("smooth_l1_loss", lambda x: F.smooth_l1_loss(x, x.flip(0)), _x),
    ("cross_entropy", lambda x: F.cross_entropy(x, torch.tensor([0, 6, 3])), _x),
    ("cross_entropy_weighted", lambda x: F.cross_entropy(
        x, torch.tensor([0, 6, 3]), rand(7, low=0.1), label_smoothing=0.1), _x),
    ("nll_loss", lambda x: F.nll_loss(x.log_softmax(1), torch.tensor([0, 6, 3])), _x),
    ("kl_div", lambda x: F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"), _x),
    ("binary_cross_entropy", lambda x: F.binary_cross_entropy(x.sigmoid(), (x > 0).float()), _x),
    ("bce_with_logits", lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).float()), _x),
    ("dropout_eval", lambda x: F.dropout(x, 0.5, training=False) * 1, _x),
    ("matrix_exp", lambda x: torch.matrix_exp(x[:, :3]), _x),
    ("inverse", lambda x: torch.linalg.inv(x[:, :3] + 5 * torch.eye(3)), _x),
    ("fft", lambda x: torch.fft.rfft(x).abs(), _x),
    ("complex", lambda x: torch.view_as_real(torch.complex(x, x) * 2), _x),
    ("item", lambda x: x * x.shape[1], _x),
    ("isin", lambda x: torch.isin(torch.arange(7), torch.tensor([1, 5])), _x),
    ("unique", lambda x: torch.unique((x * 2).round()), _x),
    ("searched_max", lambda x: x.flatten()[x.argmax()], _x),
):  # fmt: skip
    case("function", _name if f"function/{_name}" not in CASES else f"{_name}_2", _function, _make)

# ---- interpolate ----

for _n, _mode in ((3, "linear"), (4, "bilinear"), (4, "bicubic"), (5, "trilinear")):
    for _align in (False, True):
        for _how in ({"size": 11}, {"size": 5}, {"scale_factor": 2.0}, {"scale_factor": 1.7}):
            case("interpolate", f"{_mode}_{_align}_{'_'.join(map(str, *_how.items()))}",
                 lambda x, m=_mode, a=_align, h=_how: F.interpolate(x, mode=m, align_corners=a, **h),
                 lambda n=_n: (rand(*(2, 3, 6, 7, 8)[:n]),))  # fmt: skip
for _n in (3, 4, 5):
    for _mode in ("nearest", "nearest-exact"):
        for _how in ({"size": 11}, {"scale_factor": 2.0}, {"scale_factor": 0.6}):
            case("interpolate", f"{_mode}_{_n}_{'_'.join(map(str, *_how.items()))}",
                 lambda x, m=_mode, h=_how: F.interpolate(x, mode=m, **h),
                 lambda n=_n: (rand(*(2, 3, 6, 7, 8)[:n]),))  # fmt: skip
for _mode in ("bilinear", "bicubic"):
    case("interpolate", f"{_mode}_antialias",
         lambda x, m=_mode: F.interpolate(x, size=(4, 3), mode=m, antialias=True),
         lambda: (rand(2, 3, 9, 8),))  # fmt: skip
case("interpolate", "recomputed", lambda x: F.interpolate(
    x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True), lambda: (rand(2, 3, 9, 8),))
case("interpolate", "area", lambda x: F.interpolate(x, size=3, mode="area"), lambda: (rand(2, 3, 9, 8),))

# ---- attention ----


def _masks():
    yield "none", {}
    yield "causal", {"is_causal": True}
    yield "bool", {"attn_mask": torch.ones(6, 6, dtype=torch.bool).tril()}
    yield "bool_heads", {"attn_mask": rand(2, 4, 6, 6) > -1}
    yield "bool_broadcast", {"attn_mask": torch.arange(6) < torch.tensor([6, 3])[:, None, None, None]}
    yield "float", {"attn_mask": rand(6, 6)}
    yield "float_heads", {"attn_mask": rand(4, 6, 6)}
    yield "float_infinite", {"attn_mask": torch.full((6, 6), float("-inf")).triu(1)}
    yield "scale", {"scale": 0.3}
    yield "causal_scale", {"is_causal": True, "scale": 0.3}


for _name, _how in _masks():
    case("attention", _name, lambda q, k, v, h=_how: F.scaled_dot_product_attention(q, k, v, **h),
         lambda: tuple(rand(2, 4, 6, 8, seed=i) for i in range(3)))  # fmt: skip
case("attention", "gqa", lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
     lambda: (rand(2, 4, 6, 8), rand(2, 2, 6, 8, seed=1)))  # fmt: skip
case("attention", "rank_3", lambda q: F.scaled_dot_product_attention(q, q, q), lambda: (rand(4, 6, 8),))
case("attention", "rank_2", lambda q: F.scaled_dot_product_attention(q, q, q), lambda: (rand(6, 8),))
case("attention", "cross", lambda q, k: F.scaled_dot_product_attention(q, k, k),
     lambda: (rand(2, 4, 5, 8), rand(2, 4, 9, 8, seed=1)))  # fmt: skip


def of_module(module):
    module = module.eval()
    torch.manual_seed(1)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return lambda *args, **named: module(*args, **named)


torch.manual_seed(0)
_attention = of_module(nn.MultiheadAttention(16, 4, batch_first=True))
_layer = of_module(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True))
_decoder = of_module(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True))
_padding = torch.arange(6) >= torch.tensor([[6], [4]])
_causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
for _name, _how in {
    "plain": {}, "weights_of_heads": {"average_attn_weights": False},
    "no_weights": {"need_weights": False}, "padding": {"key_padding_mask": _padding},
    "causal": {"attn_mask": _causal, "need_weights": False},
    "both": {"attn_mask": _causal, "key_padding_mask": _padding},
    "float_mask": {"attn_mask": rand(6, 6)},
}.items():  # fmt: skip
    case("attention", f"multihead_{_name}", lambda x, h=_how: _attention(x, x, x, **h),
         lambda: (rand(2, 6, 16),))  # fmt: skip
for _name, _how in {
    "plain": {}, "padding": {"src_key_padding_mask": _padding}, "causal": {"src_mask": _causal},
    "both": {"src_mask": _causal, "src_key_padding_mask": _padding},
}.items():  # fmt: skip
    case("attention", f"encoder_{_name}", lambda x, h=_how: _layer(x, **h), lambda: (rand(2, 6, 16),))
case("attention", "decoder", lambda x, m: _decoder(x, m, tgt_mask=_causal),
     lambda: (rand(2, 6, 16), rand(2, 5, 16)))  # fmt: skip

# ---- recurrent layers ----

for _class in (nn.LSTM, nn.GRU, nn.RNN):
    for _name, _how in {
        "plain": {}, "two_layers": {"num_layers": 2}, "bidirectional": {"bidirectional": True},
        "batch_first": {"batch_first": True}, "no_bias": {"bias": False},
        "all": {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.3},
    }.items():  # fmt: skip
        case("recurrent", f"{_class.__name__}_{_name}", of_module(_class(6, 5, **_how)),
             lambda: (rand(7, 3, 6),))  # fmt: skip
case("recurrent", "RNN_relu", of_module(nn.RNN(6, 5, nonlinearity="relu")), lambda: (rand(7, 3, 6),))
case("recurrent", "LSTM_projection", of_module(nn.LSTM(6, 5, proj_size=3)), lambda: (rand(7, 3, 6),))
case("recurrent", "LSTM_unbatched", of_module(nn.LSTM(6, 5)), lambda: (rand(7, 6),))
_lstm, _gru = of_module(nn.LSTM(6, 5)), of_module(nn.GRU(6, 5))
case("recurrent", "LSTM_states", lambda x, h, c: _lstm(x, (h, c)),
     lambda: (rand(7, 3, 6), rand(1, 3, 5), rand(1, 3, 5, seed=1)))  # fmt: skip
case("recurrent", "GRU_states", lambda x, h: _gru(x, h), lambda: (rand(7, 3, 6), rand(1, 3, 5)))
for _class, _states in ((nn.LSTMCell, 2), (nn.GRUCell, 1), (nn.RNNCell, 1)):
    case("recurrent", _class.__name__, of_module(_class(6, 5)), lambda: (rand(3, 6),))


# ---- comparison ----


def _flat(value):
    if isinstance(value, (list, tuple)):
        return [item for one in value for item in _flat(one)]
    return [value]


def _shared(tensors):
    """Returns for each pair of tensors whether they share memory."""
    at = [t.untyped_storage().data_ptr() if t.numel() else None for t in tensors]
    return [(i, j) for i, a in enumerate(at) for j in range(i) if a is not None and a == at[j]]


def _same(a, b):
    if not isinstance(b, torch.Tensor):
        return type(a) is type(b) and a == b
    if not isinstance(a, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
        return False
    if [s for s, n in zip(a.stride(), a.shape) if n > 1] != [
        s for s, n in zip(b.stride(), b.shape) if n > 1
    ] and b.numel() > 0:
        return False
    if not b.dtype.is_floating_point:
        return torch.equal(a, b)
    rough = 1e-2 if b.dtype in (torch.float16, torch.bfloat16) else 1e-4
    return torch.allclose(a, b, rough, rough / 10, equal_nan=True)


def is_equal(backend, key):
    """Runs a case twice with a backend and in eager PyTorch. Returns "" or what differs."""
    function, make = CASES[key]
    torch._dynamo.reset()
    with torch.no_grad():
        inputs = make()
        wanted = _flat(function(*inputs))
        compiled = torch.compile(function, backend=backend)
        for turn in range(2):
            given = make()
            try:
                made = _flat(compiled(*given))
            except Exception as error:
                return f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if len(made) != len(wanted):
                return "number of results"
            for i, (a, b) in enumerate(zip(made, wanted)):
                if not _same(a, b):
                    return f"result {i} of run {turn + 1}"
            if not all(map(_same, given, inputs)):
                return f"inputs after run {turn + 1}"
            tensors = [[t for t in (*g, *m) if isinstance(t, torch.Tensor)] for g, m in
                       ((given, made), (inputs, wanted))]  # fmt: skip
            if _shared(tensors[0]) != _shared(tensors[1]):
                return f"memory shared after run {turn + 1}"
    return ""


def main(backend, part=""):
    equal, total = {}, {}
    for key in CASES:
        if not key.startswith(part):
            continue
        group = key.partition("/")[0]
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            difference = is_equal(backend, key)
        notes = [str(w.message) for w in warned if "PyTorch: " in str(w.message)]
        total[group] = total.get(group, 0) + 1
        equal[group] = equal.get(group, 0) + (not difference)
        if difference or notes:
            print(f"{backend} {key}: {difference or 'equal'}; {'; '.join(notes)}", flush=True)
    for group, n in total.items():
        print(f"{backend} {group}: {equal[group]} of {n}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
