"""Open sizes of PyTorch modules: right at all sizes, whatever size was exported."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as f

import tessera
import tessera.pytorch
from networks import Function
from tessera.backend import Fallback

AUTO = torch.export.Dim.AUTO
PICTURES = ((2, 3, 64, 48), (1, 3, 24, 40), (3, 3, 8, 8), (2, 3, 40, 72), (1, 3, 104, 16), (2, 3, 8, 56),
            (5, 3, 16, 32), (1, 3, 72, 64), (3, 3, 56, 24))  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def items(made):
    return list(made) if isinstance(made, (tuple, list)) else [made]


def check(run, network, shapes):
    for shape in shapes:
        x = [torch.randn(one) for one in (shape if isinstance(shape[0], tuple) else [shape])]
        made, wanted = items(run(*x)), items(network(*x))
        assert [one.shape for one in made] == [one.shape for one in wanted], shape
        for a, b in zip(made, wanted):
            assert torch.allclose(a, b, rtol=1e-3, atol=1e-4), shape


def compiled_at(network, *shapes, dims=None):
    """All dimensions are open, unless dims lists them."""
    x = [torch.randn(shape) for shape in shapes]
    dims = dims or tuple(dict.fromkeys(range(len(shape)), AUTO) for shape in shapes)
    is_function = isinstance(network, Function)  # PyTorch has one parameter, *args
    return tessera.compile(network, *x, dynamic_shapes=(dims,) if is_function else dims)


# ---- branches of Python on sizes, which PyTorch's ONNX exporter does not write to the file ----


def by_threshold(x):
    return x * 2 if x.shape[1] > 20 else x + 1


def by_divisor(x):
    return x.unflatten(1, (-1, 3)).sum(2) if x.shape[1] % 3 == 0 else x * 3


def by_equality(x):
    return x.T * 2 if x.shape[0] == x.shape[1] else x - 1


def by_both(x):
    n, m = x.shape
    return x.sum(1) if (n * m) // 4 > 30 or max(n, m) == 9 else x.sum(0)


MATRICES = ((4, 25), (5, 12), (9, 9), (3, 40), (12, 5), (2, 21), (9, 20), (30, 4), (6, 6))


@pytest.mark.parametrize("function", [by_equality, by_both])
def test_a_branch_on_a_size_is_the_one_of_the_sizes_that_are_run(function):
    network = Function(function).eval()
    check(compiled_at(network, MATRICES[0]), network, MATRICES)


def test_torch_compile_takes_the_branch_of_the_sizes_that_are_run():
    function = torch.compile(by_both, backend="tessera", dynamic=True)
    check(function, by_both, MATRICES[:5])


def test_a_saved_model_refuses_sizes_of_another_branch(tmp_path):
    path = str(tmp_path / "branch.tessera")
    compiled_at(Function(by_threshold).eval(), (4, 25)).save(path)
    model = tessera.load(path)
    check(model, by_threshold, [(4, 25), (7, 21)])
    with pytest.raises(tessera.InvalidArgument, match="is 20, the graph holds where .* >= 21"):
        model(torch.randn(4, 20))


def test_a_range_of_a_size_is_kept():
    """PyTorch decides from the range and adds no guard."""
    columns = torch.export.Dim("columns", max=20)
    model = compiled_at(Function(by_threshold).eval(), (4, 12), dims=({1: columns},))
    check(model, by_threshold, [(4, 12), (4, 20)])
    with pytest.raises(tessera.InvalidArgument, match="columns is 21, the graph holds where columns <= 20"):
        model(torch.randn(4, 21))


def test_a_size_is_twice_another():
    network = Function(lambda x, y: (x.repeat_interleave(2, 1) + y, y.unflatten(1, (-1, 2)).sum(2) * x)).eval()
    model = compiled_at(network, (2, 5), (2, 10))
    check(model, network, [((n, t), (n, 2 * t)) for n, t in ((2, 5), (3, 7), (1, 1), (4, 30))])
    with pytest.raises(tessera.InvalidArgument):
        model(torch.randn(2, 5), torch.randn(2, 11))


def test_sizes_that_guards_refuse_are_exported_as_often_as_is_said(monkeypatch):
    monkeypatch.setattr(tessera.pytorch, "_MAX_EXPORTS", 1)
    model = compiled_at(Function(by_divisor).eval(), (4, 25))
    check(model, by_divisor, [(4, 25), (2, 26)])
    with pytest.raises(tessera.InvalidArgument, match="the graph holds where"):
        model(torch.randn(5, 12))


def test_a_module_that_trains_since_is_not_exported_again():
    network = Function(by_threshold).eval()
    model = compiled_at(network, (4, 25))
    network.train()
    check(model, by_threshold, [(4, 26)])
    with pytest.raises(tessera.InvalidArgument, match="the graph holds where"):
        model(torch.randn(4, 10))


def test_a_saved_model_is_imported_again_for_sizes_that_its_graph_refuses(tmp_path):
    """PyTorch broadcasts for one row, or adds row by row for two: the file's graph is for two."""
    onnx = pytest.importorskip("onnx")
    w, v = torch.randn(2, 3), torch.randn(3, 400)
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Add", ["x", "w"], ["s"]), onnx.helper.make_node("MatMul", ["s", "v"], ["y"])],
            "rows", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(w.numpy(), "w"), onnx.numpy_helper.from_array(v.numpy(), "v")]),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    path = str(tmp_path / "rows.tessera")
    model = tessera.load_bytes(made.SerializeToString(), shapes={"x": [2, 3]})
    model.save(path)
    for loaded in (tessera.load(path), tessera.load(path, copied=True)):
        for n in (2, 1, 2, 1):
            x = torch.randn(n, 3)
            assert torch.allclose(loaded(x), (x + w) @ v, rtol=1e-4, atol=1e-4)
        with pytest.raises(tessera.InvalidArgument, match="the graph holds where N == 2"):
            loaded(torch.randn(3, 3))
        assert loaded.run({"x": torch.randn(1, 3)})["y"].shape == (2, 400)
        path = str(tmp_path / "again.tessera")
        loaded.save(path)
    assert torch.allclose(tessera.load(path)(x), (x + w) @ v, rtol=1e-4, atol=1e-4)


# ---- kinds of networks ----


class Net(nn.Module):
    """A U-Net of two levels, with positions and attention in the middle, cropped to a half."""

    def __init__(self):
        super().__init__()
        widths = (4, 8, 16)
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.Conv2d(b + a, a, 1) for a, b in zip(widths, widths[1:]))
        self.positions = nn.Parameter(torch.randn(1, 16, 5, 5))
        self.qkv = nn.Linear(16, 48)

    def middle(self, y, x):
        b, c, h, w = y.shape
        y = y + f.interpolate(self.positions, (x.shape[2] // 4, x.shape[3] // 4), mode="bilinear")
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        y = y + (rows / h + columns).expand(1, 1, h, w)
        q, k, v = self.qkv(y.flatten(2).transpose(1, 2)).reshape(b, h * w, 3, 2, 8).permute(2, 0, 3, 1, 4)
        t = (q @ k.transpose(2, 3) * 0.3).softmax(-1) @ v
        return y + t.transpose(2, 3).reshape(b, c, h, w)

    def forward(self, x):
        y, skips = self.first(x), []
        for down in self.down:
            skips.append(y)
            y = down(f.max_pool2d(y, 2)).relu()
        y = self.middle(y, x)
        for up in reversed(self.up):
            y = up(torch.cat([f.interpolate(y, scale_factor=2), skips.pop()], 1)).relu()
        return y[:, :, : x.shape[2] // 2]


class Windows(nn.Module):
    """Shifted windows of 4 with a mask, and halves of the channels' pixels."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv = nn.Conv2d(12, 8, 1), nn.Linear(8, 24)

    @staticmethod
    def windows(x):
        b, h, w, c = x.shape
        return x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)

    def forward(self, x):
        x = self.embed(f.pixel_unshuffle(x, 2)).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        mask = torch.zeros(1, h, w, 1)
        mask[:, -2:], mask[:, :, -2:] = 1, 2
        mask = self.windows(mask).squeeze(2)
        mask = (mask[:, None] != mask[:, :, None]) * -100.0
        t = self.windows(x.roll((-2, -2), (1, 2)))
        q, k, v = self.qkv(t).chunk(3, 2)
        scores = (q @ k.transpose(1, 2)).view(b, -1, 16, 16) + mask[None]
        t = scores.softmax(3).view(-1, 16, 16) @ v
        y = t.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        top, bottom = (x + y.roll((2, 2), (1, 2))).chunk(2, 1)
        return top * bottom


class Detector(nn.Module):
    """Two strides, anchors from arange, and the best of all."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Conv2d(3, 8, 8, 8), nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 12, 1)

    def forward(self, x):
        found = []
        y = self.a(x)
        for features, stride in ((y, 8), (self.b(y), 16)):
            p = self.head(features)
            b, _, h, w = p.shape
            p = p.view(b, 2, 6, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grid = torch.stack((columns, rows), 2).view(1, 1, h, w, 2)
            found.append(torch.cat(((p[..., :2] + grid) * stride, p[..., 2:]), 4).view(b, -1, 6))
        found = torch.cat(found, 1)
        scores, best = found[..., 4].topk(2, 1)
        return scores, found.gather(1, best[..., None].expand(-1, -1, 6)), found[..., :1] / x.shape[3]


class Speech(nn.Module):
    """A spectrum, a convolution, relative positions."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.conv = nn.Conv1d(17, 8, 3, 2, 1)
        self.bias = nn.Embedding(9, 1)

    def forward(self, x):
        y = torch.stft(x, 32, 8, window=self.window, return_complex=True).abs()
        y = self.conv(y).transpose(1, 2)
        at = torch.arange(y.shape[1])
        bias = self.bias((at[None] - at[:, None]).clamp(-4, 4) + 4).squeeze(2)
        return (y @ y.transpose(1, 2) + bias).softmax(2) @ y


SOUNDS = ((2, 400), (1, 320), (3, 397), (2, 161), (1, 64), (4, 33), (1, 900), (2, 401), (1, 47))
KINDS = {
    "unet": (Net, PICTURES),
    "windows": (Windows, [(n, c, h + 8, w + 8) for n, c, h, w in PICTURES]),
    "detector": (Detector, PICTURES),
    "speech": (Speech, SOUNDS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_networks_are_right_at_sizes_other_than_the_export_s(kind):
    made, shapes = KINDS[kind]
    network = made().eval()
    check(compiled_at(network, shapes[0]), network, shapes)


def test_torch_compile_is_right_at_sizes_other_than_the_first():
    def half(x):
        y = f.interpolate(f.max_pool2d(f.max_pool2d(x, 2), 2), scale_factor=4) + x
        return y[:, :, : x.shape[2] // 2] + torch.arange(x.shape[3] // 8).repeat(8)

    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        check(torch.compile(half, backend="tessera", dynamic=True), half, PICTURES[3::2])


@pytest.mark.parametrize("kind", ["unet", "windows", "detector"])
def test_files_of_the_older_exporter_are_right_at_other_sizes(kind, tmp_path):
    made, shapes = KINDS[kind]
    network, path = made().eval(), str(tmp_path / "network.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, torch.randn(shapes[0]), path, dynamo=False, input_names=["x"],
                          dynamic_axes={"x": {0: "n", 2: "h", 3: "w"}})  # fmt: skip
    check(tessera.load(path), network, shapes)


# ---- computing with sizes ----


@pytest.mark.parametrize("kind", ["clip", "pad"])
def test_a_bound_and_a_value_may_be_sizes(kind):
    onnx = pytest.importorskip("onnx")
    node, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["size"]),
        node("Cast", ["size"], ["width"], to=onnx.TensorProto.FLOAT),
        node(*{"clip": ("Clip", ["x", "", "width"]), "pad": ("Pad", ["x", "pads", "width"])}[kind], ["y"]),
    ]
    numbers = [
        onnx.helper.make_tensor("one", onnx.TensorProto.INT64, [], [1]),
        onnx.helper.make_tensor("pads", onnx.TensorProto.INT64, [4], [0, 1, 0, 2]),
    ]
    graph = onnx.helper.make_graph(
        nodes, kind, [tensor("x", onnx.TensorProto.FLOAT, ["N", "W"])],
        [tensor("y", onnx.TensorProto.FLOAT, None)], numbers)  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 17)]
    made = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    model = tessera.load_bytes(made.SerializeToString())
    for n, w in ((2, 5), (1, 64), (3, 1), (2, 9)):
        x = torch.randn(n, w) * 2 * w
        wanted = x.clamp(max=w) if kind == "clip" else f.pad(x, (1, 2), value=w)
        assert torch.equal(model(x), wanted)
