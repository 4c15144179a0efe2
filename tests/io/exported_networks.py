"""Small networks in plain torch.nn, of the kinds that people export: what exported.py exports.

A case is a network, an input of it for the export, inputs at other sizes for the runs, and the names
of its open dimensions. Inputs are sizes (drawn elements follow from the name) or tensors.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

cases = {}


def case(inputs, runs, outputs="y", exporters=("script", "dynamo")):
    """The decorated class is a network.

    inputs   {name: ("batch", 3, "height", "width")}: a string is the name of an open dimension, or a
             product "8*rows" of a number and one
    runs     [{name: sizes or tensor}]; the first is what the network is exported at
    """
    def add(network):
        cases[network.__doc__.split(":")[0]] = (network, inputs, runs, outputs.split(), exporters)
        return network
    return add


def pictures(name, *sizes):
    return [{name: list(each)} for each in sizes]


# ---- pictures ----

def conv(n_in, n_out, kernel=3, stride=1, groups=1, act=nn.ReLU):
    """Convolution, norm, activation."""
    layers = [nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(n_out)]
    return nn.Sequential(*layers, *([act()] if act else []))


@case({"x": ("batch", 3, "8*rows", "8*columns")},
      pictures("x", (2, 3, 32, 32), (1, 3, 40, 24), (3, 3, 32, 32)))
class VisionTransformer(nn.Module):
    """vit: patches, a class token, positions interpolated to the grid."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 16, 4, 4))
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 1, nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.patch(x)
        position = F.interpolate(self.position, size=x.shape[2:], mode="bicubic", align_corners=False)
        x = (x + position).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.head(self.blocks(x)[:, 0])


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (2, 3, 32, 32), (1, 3, 47, 36), (3, 3, 24, 64)))
class ConvNext(nn.Module):
    """convnext: depthwise 7x7, norm over the channels, scaled branches."""

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.depthwise = nn.Conv2d(n, n, 7, padding=3, groups=n)
            self.norm = nn.LayerNorm(n, eps=1e-6)
            self.wide, self.narrow = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
            self.gamma = nn.Parameter(torch.rand(n))

        def forward(self, x):
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            y = self.gamma * self.narrow(F.gelu(self.wide(y)))
            return x + y.permute(0, 3, 1, 2)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.first, self.second = self.Block(8), self.Block(12)
        self.norm, self.down = nn.LayerNorm(8), nn.Conv2d(8, 12, 2, 2)
        self.last, self.head = nn.LayerNorm(12), nn.Linear(12, 10)

    def forward(self, x):
        x = self.first(self.stem(x))
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.second(self.down(x))
        return self.head(self.last(x.mean([-2, -1])))


class Squeeze(nn.Module):
    """Squeeze and excite."""

    def __init__(self, n, hidden, gate=torch.sigmoid):
        super().__init__()
        self.narrow, self.wide, self.gate = nn.Conv2d(n, hidden, 1), nn.Conv2d(hidden, n, 1), gate

    def forward(self, x):
        y = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.wide(F.relu(self.narrow(y))))


class Inverted(nn.Module):
    """A wide depthwise convolution between two narrow ones."""

    def __init__(self, n_in, n_wide, n_out, kernel, stride, act, gate):
        super().__init__()
        self.is_residual = stride == 1 and n_in == n_out
        self.layers = nn.Sequential(conv(n_in, n_wide, 1, act=act),
                                    conv(n_wide, n_wide, kernel, stride, n_wide, act),
                                    Squeeze(n_wide, 4, gate), conv(n_wide, n_out, 1, act=None))

    def forward(self, x):
        return x + self.layers(x) if self.is_residual else self.layers(x)


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (2, 3, 32, 32), (1, 3, 45, 28), (3, 3, 24, 56)))
class EfficientNet(nn.Module):
    """efficientnet: inverted blocks with squeeze and excite."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU), Inverted(8, 16, 8, 3, 1, nn.SiLU, torch.sigmoid),
                                    Inverted(8, 24, 12, 5, 2, nn.SiLU, torch.sigmoid), conv(12, 24, 1, act=nn.SiLU),
                                    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(24, 10))

    def forward(self, x):
        return self.layers(x)


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (2, 3, 32, 32), (1, 3, 45, 28), (3, 3, 24, 56)))
class MobileNet(nn.Module):
    """mobilenetv3: hard swish, hard sigmoid."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(conv(3, 8, 3, 2, act=nn.Hardswish), Inverted(8, 16, 8, 3, 1, nn.ReLU, F.hardsigmoid),
                                    Inverted(8, 24, 12, 5, 2, nn.Hardswish, F.hardsigmoid),
                                    conv(12, 24, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Sequential(nn.Linear(24, 16), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(16, 10))

    def forward(self, x):
        return self.head(torch.flatten(self.layers(x), 1))


@case({"x": ("batch", 1, "height", "width")},
      pictures("x", (1, 1, 32, 32), (2, 1, 21, 38), (1, 1, 48, 27)))
class UNet(nn.Module):
    """unet: pooled twice, brought back to the sizes on the way down."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.middle = conv(1, 6), conv(6, 8), conv(8, 12)
        self.up2, self.up1 = conv(20, 8), conv(14, 6)
        self.head = nn.Conv2d(6, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        c = F.interpolate(c, size=b.shape[2:], mode="bilinear", align_corners=True)
        b = self.up2(torch.cat([c, b], 1))
        b = nn.Upsample(size=(a.shape[2], a.shape[3]), mode="nearest")(b)
        return torch.sigmoid(self.head(self.up1(torch.cat([b, a], 1))))


def double(n_in, n_out, padding=1):
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=padding), nn.ReLU(),
                         nn.Conv2d(n_out, n_out, 3, padding=padding), nn.ReLU())


@case({"x": ("batch", 1, "height", "width")},
      pictures("x", (1, 1, 32, 32), (2, 1, 39, 30), (1, 1, 26, 53), (1, 1, 33, 35)))
class UNetPadded(nn.Module):
    """unet_padded: transposed convolutions, and padding where pooling has lost rows and columns."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = double(1, 4), double(4, 6), double(6, 8)
        self.grow2, self.grow1 = nn.ConvTranspose2d(8, 6, 2, 2), nn.ConvTranspose2d(6, 4, 2, 2)
        self.up2, self.up1 = double(12, 6), double(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    def join(self, skip, x):
        h, w = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        return torch.cat([skip, F.pad(x, [w // 2, w - w // 2, h // 2, h - h // 2])], 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        b = self.up2(self.join(b, self.grow2(c)))
        return self.head(self.up1(self.join(a, self.grow1(b))))


@case({"x": ("batch", 1, "height", "width")},
      pictures("x", (1, 1, 52, 52), (2, 1, 57, 50), (1, 1, 48, 63), (1, 1, 55, 53)))
class UNetCropped(nn.Module):
    """unet_cropped: convolutions without padding, what is skipped cut to the middle."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.down3 = double(1, 4, 0), double(4, 6, 0), double(6, 8, 0)
        self.grow2, self.grow1 = nn.ConvTranspose2d(8, 6, 2, 2), nn.ConvTranspose2d(6, 4, 2, 2)
        self.up2, self.up1 = double(12, 6, 0), double(8, 4, 0)
        self.head = nn.Conv2d(4, 2, 1)

    def join(self, skip, x):
        h, w = x.shape[2:]
        top, left = (skip.shape[2] - h) // 2, (skip.shape[3] - w) // 2
        return torch.cat([skip[:, :, top:top + h, left:left + w], x], 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        b = self.up2(self.join(b, self.grow2(c)))
        return self.head(self.up1(self.join(a, self.grow1(b))))


class Windows(nn.Module):
    """Attention in windows of 4 x 4, rolled by `shift`; the picture is padded to whole windows."""

    def __init__(self, n, n_heads, shift):
        super().__init__()
        self.n_heads, self.shift, self.size = n_heads, shift, 4
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.table = nn.Parameter(torch.randn(7 * 7, n_heads))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", apart[..., 0] * 7 + apart[..., 1])

    def mask(self, h, w):
        """Tokens that the roll has brought together do not see each other."""
        size, shift = self.size, self.shift
        parts = torch.zeros(h, w)
        number = 0
        for rows in (slice(0, -size), slice(-size, -shift), slice(-shift, None)):
            for columns in (slice(0, -size), slice(-size, -shift), slice(-shift, None)):
                parts[rows, columns] = number
                number += 1
        parts = parts.view(h // size, size, w // size, size).transpose(1, 2).reshape(-1, size * size)
        return ((parts[:, None] - parts[:, :, None]) != 0).float() * -100

    def forward(self, x):
        n, height, width, c = x.shape
        size = self.size
        x = F.pad(x, (0, 0, 0, (size - width % size) % size, 0, (size - height % size) % size))
        _, h, w, _ = x.shape
        if self.shift > 0:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(n, h // size, size, w // size, size, c).transpose(2, 3)
        x = x.reshape(n * (h // size) * (w // size), size * size, c)
        q, k, v = self.qkv(x).reshape(x.size(0), -1, 3, self.n_heads, c // self.n_heads).permute(2, 0, 3, 1, 4)
        weight = q @ k.transpose(-2, -1) * (c // self.n_heads) ** -0.5
        weight = weight + self.table[self.index.view(-1)].view(16, 16, -1).permute(2, 0, 1)
        if self.shift > 0:
            mask = self.mask(h, w)
            n_windows = mask.shape[0]
            weight = weight.view(x.size(0) // n_windows, n_windows, self.n_heads, 16, 16) + mask[:, None]
            weight = weight.view(-1, self.n_heads, 16, 16)
        x = self.out((weight.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c))
        x = x.view(n, h // size, w // size, size, size, c).transpose(2, 3).reshape(n, h, w, c)
        if self.shift > 0:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        return x[:, :height, :width]


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (2, 3, 32, 32), (1, 3, 45, 38), (3, 3, 27, 56), (1, 3, 33, 31)))
class Swin(nn.Module):
    """swin: windows that are rolled, of padded pictures, merged by two."""

    class Block(nn.Module):
        def __init__(self, n, shift):
            super().__init__()
            self.before, self.behind = nn.LayerNorm(n), nn.LayerNorm(n)
            self.windows = Windows(n, 2, shift)
            self.wide, self.narrow = nn.Linear(n, 2 * n), nn.Linear(2 * n, n)

        def forward(self, x):
            x = x + self.windows(self.before(x))
            return x + self.narrow(F.gelu(self.wide(self.behind(x))))

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 8, 2, 2)
        self.first, self.second = self.Block(8, 0), self.Block(12, 2)
        self.norm, self.merge = nn.LayerNorm(32), nn.Linear(32, 12, bias=False)
        self.last, self.head = nn.LayerNorm(12), nn.Linear(12, 10)

    def forward(self, x):
        x = self.first(self.patch(x).permute(0, 2, 3, 1))
        height, width = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        x = self.second(self.merge(self.norm(x)))
        return self.head(self.last(x).mean((1, 2)))


@case({"x": ("batch", 2, "height", "width")},
      pictures("x", (1, 2, 32, 32), (2, 2, 37, 30), (1, 2, 27, 49)))
class Restorer(nn.Module):
    """restorer: reflected to a multiple of 8, shuffled to channels and back, cut to the size it had."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x):
        h, w = x.shape[2:]
        y = F.pad(x, (0, -w % 8, 0, -h % 8), mode="reflect")
        y = self.first(y)
        y = y + F.pixel_shuffle(F.gelu(self.inner(F.pixel_unshuffle(y, 2))), 2)
        return self.last(y)[:, :, :h, :w] + x


@case({"x": ("batch", 4, "height", "width"), "t": ("batch",)},
      [{"x": [2, 4, 8, 8], "t": torch.tensor([7, 500])}, {"x": [1, 4, 11, 6], "t": torch.tensor([3])},
       {"x": [3, 4, 5, 12], "t": torch.tensor([0, 999, 40])}])
class Diffusion(nn.Module):
    """diffusion: a block with the time's sines, group norm and attention over the picture."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(4, 16, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, 16) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.shift = nn.Linear(32, 32)
        self.qkv, self.out = nn.Conv1d(16, 48, 1), nn.Conv1d(16, 16, 1)
        self.last = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x, t):
        frequency = torch.exp(torch.arange(8, dtype=torch.float32) * (-math.log(10000.0) / 8))
        angle = t[:, None].float() * frequency[None]
        time = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        scale, shift = self.shift(time)[:, :, None, None].chunk(2, 1)
        x = self.first(x)
        y = self.convs[0](F.silu(self.norms[0](x)))
        y = self.norms[1](y) * (1 + scale) + shift
        x = x + self.convs[1](F.silu(y))
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norms[2](x).reshape(n, c, h * w)).reshape(n * 4, 12, h * w).chunk(3, 1)
        weight = torch.softmax(torch.einsum("bct,bcs->bts", q * 0.7, k * 0.7), -1)
        y = torch.einsum("bts,bcs->bct", weight, v).reshape(n, c, h * w)
        return self.last(F.silu(x + self.out(y).reshape(n, c, h, w)))


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (1, 3, 64, 64), (2, 3, 75, 50), (1, 3, 48, 90)), "fine coarse")
class Pyramid(nn.Module):
    """fpn: a pyramid of features, interpolated to the size of the next."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([nn.Sequential(conv(3, 6, 3, 2), conv(6, 8, 3, 2)), conv(8, 10, 3, 2),
                                     conv(10, 12, 3, 2)])
        self.sides = nn.ModuleList(nn.Conv2d(n, 8, 1) for n in (8, 10, 12))
        self.smooth = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=1) for _ in range(3))

    def forward(self, x):
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        outputs, above = [], None
        for i in (2, 1, 0):
            side = self.sides[i](features[i])
            if above is not None:
                side = side + F.interpolate(above, size=side.shape[-2:], mode="nearest")
            above = side
            outputs.append(self.smooth[i](side))
        wide = F.interpolate(outputs[0], size=outputs[2].shape[-2:], mode="bilinear", align_corners=False)
        return wide + outputs[2], outputs[1]


@case({"x": ("batch", 1, "height", "width")},
      pictures("x", (1, 1, 12, 12), (2, 1, 9, 16), (1, 1, 17, 7)))
class SuperResolution(nn.Module):
    """superresolution: pixel shuffle, plus an interpolated image."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 12, 5, padding=2), nn.PReLU(12), nn.Conv2d(12, 8, 3, padding=1),
                                    nn.LeakyReLU(0.1), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        return self.layers(x) + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


@case({"x": ("batch", 3, 16, 16)}, pictures("x", (2, 3, 16, 16), (1, 3, 16, 16), (5, 3, 16, 16)))
class Mixer(nn.Module):
    """mixer: linear layers across the patches and across the channels."""

    class Block(nn.Module):
        def __init__(self, t, n):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(n), nn.LayerNorm(n)
            self.tokens = nn.Sequential(nn.Linear(t, 24), nn.GELU(), nn.Linear(24, t))
            self.channels = nn.Sequential(nn.Linear(n, 24), nn.GELU(approximate="tanh"), nn.Linear(24, n))

        def forward(self, x):
            x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 12, 4, 4)
        self.blocks = nn.Sequential(self.Block(16, 12), self.Block(16, 12))
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 10)

    def forward(self, x):
        x = self.blocks(self.patch(x).flatten(2).transpose(1, 2))
        return self.head(self.norm(x).mean(1))


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (1, 3, 32, 32), (1, 3, 40, 24), (1, 3, 24, 56)), "boxes scores classes")
class Detector(nn.Module):
    """detector: cells of the picture, the best of them gathered."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 8, 3, 2), conv(8, 12, 3, 2), conv(12, 12, 3, 2))
        self.classes, self.boxes = nn.Conv2d(12, 5, 1), nn.Conv2d(12, 4, 1)

    def cells(self, x):
        x = self.body(x)
        n, _, h, w = x.shape
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        at = torch.stack([columns, rows], -1).reshape(1, -1, 2).to(x.dtype) * 8 + 4
        boxes = self.boxes(x).flatten(2).transpose(1, 2)
        size = boxes[..., 2:].exp() * 4
        middle = at + boxes[..., :2]
        return torch.cat([middle - size, middle + size], -1), self.classes(x).flatten(2).transpose(1, 2).sigmoid()

    def forward(self, x):
        boxes, scores = self.cells(x)
        best, classes = scores.max(-1)
        best, index = best.topk(6, dim=1)
        boxes = boxes.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
        return boxes.clamp(min=0), best, classes.gather(1, index)


@case({"x": ("batch", 3, "height", "width")},
      pictures("x", (2, 3, 32, 32), (1, 3, 40, 24), (3, 3, 24, 56)), "boxes scores indices")
class DetectorOfData(Detector):
    """detector_nonzero: cells whose score is above a limit, however many these are."""

    def forward(self, x):
        boxes, scores = self.cells(x)
        found = torch.nonzero(scores > 0.5)
        boxes = boxes[found[:, 0], found[:, 1]]
        return boxes, scores[found[:, 0], found[:, 1], found[:, 2]], found


# ---- sequences ----

def tokens(*sizes, below=40):
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randint(0, below, sizes, generator=generator)


class Attention(nn.Module):
    """Several queries of a head share its key and value; positions are turned into q and k."""

    def __init__(self, n, n_heads, n_groups):
        super().__init__()
        self.n_heads, self.n_groups, self.head = n_heads, n_groups, n // n_heads
        self.q, self.out = nn.Linear(n, n, bias=False), nn.Linear(n, n, bias=False)
        self.k = nn.Linear(n, n_groups * self.head, bias=False)
        self.v = nn.Linear(n, n_groups * self.head, bias=False)

    def turn(self, x, position):
        half = self.head // 2
        frequency = 1.0 / 10000.0 ** (torch.arange(half, dtype=torch.float32) / half)
        angle = position[..., None].float() * frequency
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x, position, mask, past=None):
        n, t, _ = x.shape
        q = self.turn(self.q(x).view(n, t, self.n_heads, self.head).transpose(1, 2), position)
        k = self.turn(self.k(x).view(n, t, self.n_groups, self.head).transpose(1, 2), position)
        v = self.v(x).view(n, t, self.n_groups, self.head).transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        times = self.n_heads // self.n_groups
        y = F.scaled_dot_product_attention(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1),
                                           attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(n, t, -1)), k, v


class RootMeanSquare(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(n) + 0.5)

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class LlamaLayer(nn.Module):
    def __init__(self, n, n_heads, n_groups):
        super().__init__()
        self.before, self.behind = RootMeanSquare(n), RootMeanSquare(n)
        self.attention = Attention(n, n_heads, n_groups)
        self.gate, self.up, self.down = (nn.Linear(n, 32, bias=False), nn.Linear(n, 32, bias=False),
                                         nn.Linear(32, n, bias=False))

    def forward(self, x, position, mask, past=None):
        y, k, v = self.attention(self.before(x), position, mask, past)
        x = x + y
        y = self.behind(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


@case({"ids": ("batch", "time")}, [{"ids": tokens(2, 6)}, {"ids": tokens(1, 11)}, {"ids": tokens(3, 6)}], "logits")
class Gpt(nn.Module):
    """gpt: learned positions, the mask made inside, the embedding's weight read again at the end."""

    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(40, 16), nn.Embedding(12, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        t = ids.shape[1]
        x = self.embedding(ids) + self.position(torch.arange(t, device=ids.device))
        mask = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
        return self.head(self.layers(x, mask=mask, is_causal=True))


@case({"ids": ("batch", "time"), "mask": ("batch", "time")},
      [{"ids": tokens(2, 6), "mask": torch.tensor([[1] * 6, [0, 0] + [1] * 4])},
       {"ids": tokens(1, 9), "mask": torch.tensor([[0] * 3 + [1] * 6])},
       {"ids": tokens(3, 4), "mask": torch.tensor([[1] * 4, [0] + [1] * 3, [0, 0, 0, 1]])}], "logits")
class Llama(nn.Module):
    """llama: turned positions, grouped queries, causal and padded on the left."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.layers = nn.ModuleList(LlamaLayer(16, 4, 2) for _ in range(1))
        self.norm, self.head = RootMeanSquare(16), nn.Linear(16, 40, bias=False)

    def forward(self, ids, mask):
        t = ids.shape[1]
        position = (mask.cumsum(-1) - 1).clamp(min=0)
        at = torch.arange(t, device=ids.device)
        allowed = (at[None, :] <= at[:, None])[None, None] & mask[:, None, None, :].bool()
        lowest = torch.finfo(torch.float32).min
        bias = torch.zeros(allowed.shape).masked_fill(~allowed, lowest)
        x = self.embedding(ids)
        for layer in self.layers:
            x, _, _ = layer(x, position, bias)
        return self.head(self.norm(x))


@case({"ids": ("batch", 1), "past_k": ("batch", 2, "past", 4), "past_v": ("batch", 2, "past", 4)},
      [{"ids": tokens(2, 1), "past_k": [2, 2, 5, 4], "past_v": [2, 2, 5, 4]},
       {"ids": tokens(1, 1), "past_k": [1, 2, 9, 4], "past_v": [1, 2, 9, 4]},
       {"ids": tokens(3, 1), "past_k": [3, 2, 2, 4], "past_v": [3, 2, 2, 4]}], "logits k v")
class LlamaStep(nn.Module):
    """llama_step: one more token, with the keys and values of the previous ones."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.layer, self.norm = LlamaLayer(16, 4, 2), RootMeanSquare(16)
        self.head = nn.Linear(16, 40, bias=False)

    def forward(self, ids, past_k, past_v):
        position = torch.full_like(ids, past_k.shape[2])
        x, k, v = self.layer(self.embedding(ids), position, None, (past_k, past_v))
        return self.head(self.norm(x))[:, -1], k, v


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.layers = kind(6, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        y, last = self.layers(x)
        last = last[0] if self.kind is nn.LSTM else last
        return self.head(y), last[-1]


RECURRENT = [{"x": [2, 7, 6]}, {"x": [1, 11, 6]}, {"x": [4, 3, 6]}]


@case({"x": ("batch", "time", 6)}, RECURRENT, "y last")
class Lstm(Recurrent):
    """lstm: two layers, both directions."""

    def __init__(self):
        super().__init__(nn.LSTM)


@case({"x": ("batch", "time", 6)}, RECURRENT, "y last")
class Gru(Recurrent):
    """gru: two layers, both directions."""

    def __init__(self):
        super().__init__(nn.GRU)


@case({"x": ("batch", "time", 6), "lengths": ("batch",)},
      [{"x": [3, 7, 6], "lengths": torch.tensor([7, 5, 2])}, {"x": [2, 9, 6], "lengths": torch.tensor([9, 4])},
       {"x": [1, 5, 6], "lengths": torch.tensor([5])}], "y last", exporters=("script",))
class LstmPacked(nn.Module):
    """lstm_packed: sequences of several lengths."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(6, 8, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y, (last, _) = self.layers(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        return y, last


def padded(*sizes):
    """True where a sequence has ended; sequence i has 2 * i tokens less."""
    at, row = torch.arange(sizes[1])[None], torch.arange(sizes[0])[:, None]
    return at >= sizes[1] - 2 * row


@case({"x": ("batch", "time", 16), "padding": ("batch", "time")},
      [{"x": [2, 6, 16], "padding": padded(2, 6)}, {"x": [1, 9, 16], "padding": padded(1, 9)},
       {"x": [3, 6, 16], "padding": padded(3, 6)}])
class Encoder(nn.Module):
    """encoder: torch's layers of a transformer, with padding."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.layers(x, src_key_padding_mask=padding)


@case({"x": ("time", "batch", 16), "memory": ("length", "batch", 12), "padding": ("batch", "length")},
      [{"x": [4, 2, 16], "memory": [6, 2, 12], "padding": padded(2, 6)},
       {"x": [7, 1, 16], "memory": [3, 1, 12], "padding": padded(1, 3)},
       {"x": [2, 3, 16], "memory": [8, 3, 12], "padding": padded(3, 8)}], "y weights")
class CrossAttention(nn.Module):
    """attention: MultiheadAttention over another sequence, with its weights."""

    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(16, 4, kdim=12, vdim=12)

    def forward(self, x, memory, padding):
        return self.layer(x, memory, memory, key_padding_mask=padding)


@case({"src": ("batch", "length"), "tgt": ("batch", "time")},
      [{"src": tokens(2, 6), "tgt": tokens(2, 4)}, {"src": tokens(1, 9), "tgt": tokens(1, 7)},
       {"src": tokens(3, 6), "tgt": tokens(3, 4)}], "logits")
class Translator(nn.Module):
    """translator: torch.nn.Transformer, zero pads, positions of sines."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 16, padding_idx=0)
        at, step = torch.arange(16)[:, None], torch.arange(0, 16, 2)
        angle = at * torch.exp(step * (-math.log(10000.0) / 16))
        self.register_buffer("position", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.layers = nn.Transformer(16, 4, 1, 1, 24, batch_first=True)
        self.layers.encoder.enable_nested_tensor = False
        self.head = nn.Linear(16, 40)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        x = self.embedding(src) * 4 + self.position[:src.shape[1]]
        y = self.embedding(tgt) * 4 + self.position[:tgt.shape[1]]
        padding = src == 0
        return self.head(self.layers(x, y, tgt_mask=mask, tgt_is_causal=True, src_key_padding_mask=padding,
                                     memory_key_padding_mask=padding))


@case({"x": ("batch", "samples")}, pictures("x", (2, 400), (1, 610), (3, 400)))
class Audio(nn.Module):
    """audio: strided convolutions of a wave, group norm, a layer of a transformer, the mean in time."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(1, 12, 10, 5, bias=False), nn.Conv1d(12, 12, 3, 2, bias=False),
                                    nn.Conv1d(12, 12, 2, 2, bias=False)])
        self.norm = nn.GroupNorm(12, 12)
        self.position = nn.Conv1d(12, 12, 8, padding=4, groups=4)
        self.layer = nn.TransformerEncoderLayer(12, 3, 24, activation="gelu", batch_first=True)
        self.head = nn.Linear(24, 7)

    def forward(self, x):
        x = (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-7)
        x = x[:, None]
        for i, layer in enumerate(self.convs):
            x = layer(x)
            x = F.gelu(self.norm(x) if i == 0 else x)
        x = x + F.gelu(self.position(x)[:, :, :-1])
        x = self.layer(x.transpose(1, 2))
        return self.head(torch.cat([x.mean(1), x.std(1)], -1))
