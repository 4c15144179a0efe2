"""PyTorch networks with random weights, for comparison with peers. The designs are torchvision's. A
network of the same name in Tessera's zoo has the same layers."""
import attention_networks
import torch
from torch import nn


def conv_norm(n_in, n_out, kernel, stride=1, groups=1, act=None):
    layers = [nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(n_out)]
    return layers + ([act(inplace=True)] if act else [])


class Bottleneck(nn.Module):
    def __init__(self, n_in, planes, stride, width, groups):
        super().__init__()
        self.body = nn.Sequential(*conv_norm(n_in, width, 1, act=nn.ReLU),
                                  *conv_norm(width, width, 3, stride, groups, nn.ReLU),
                                  *conv_norm(width, planes * 4, 1))
        self.shortcut = nn.Sequential()
        if stride != 1 or n_in != planes * 4:
            self.shortcut = nn.Sequential(*conv_norm(n_in, planes * 4, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def resnet50(widen=1, groups=1):
    layers = [*conv_norm(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    n_in = 64
    for i, (planes, n) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for k in range(n):
            layers.append(Bottleneck(n_in, planes, 2 if i > 0 and k == 0 else 1, planes * widen, groups))
            n_in = planes * 4
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Inverted(nn.Module):
    def __init__(self, n_in, n_out, stride, factor):
        super().__init__()
        hidden = n_in * factor
        layers = conv_norm(n_in, hidden, 1, act=nn.ReLU6) if factor > 1 else []
        layers += conv_norm(hidden, hidden, 3, stride, hidden, nn.ReLU6) + conv_norm(hidden, n_out, 1)
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


class Squeeze(nn.Module):
    """Squeeze and excitation: multiplies each channel by a factor computed from all channels' means."""

    def __init__(self, n, n_inner):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(n, n_inner, 1), nn.SiLU(inplace=True),
                                  nn.Conv2d(n_inner, n, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.body(x)


class MobileBlock(nn.Module):
    def __init__(self, n_in, n_out, kernel, stride, factor):
        super().__init__()
        hidden = n_in * factor
        layers = conv_norm(n_in, hidden, 1, act=nn.SiLU) if factor > 1 else []
        layers += conv_norm(hidden, hidden, kernel, stride, hidden, nn.SiLU)
        self.body = nn.Sequential(*layers, Squeeze(hidden, n_in // 4), *conv_norm(hidden, n_out, 1))
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def efficientnet_b0():
    layers, n_in = conv_norm(3, 32, 3, 2, act=nn.SiLU), 32
    for factor, n_out, n, stride, kernel in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                             (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for k in range(n):
            layers.append(MobileBlock(n_in, n_out, kernel, stride if k == 0 else 1, factor))
            n_in = n_out
    layers += conv_norm(320, 1280, 1, act=nn.SiLU)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


def mobilenet_v2():
    layers, n_in = conv_norm(3, 32, 3, 2, act=nn.ReLU6), 32
    for factor, n_out, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(n):
            layers.append(Inverted(n_in, n_out, stride if k == 0 else 1, factor))
            n_in = n_out
    layers += conv_norm(320, 1280, 1, act=nn.ReLU6)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(1280, 1000))


def alexnet():
    def conv(n_in, n_out, *rest):
        return [nn.Conv2d(n_in, n_out, *rest), nn.ReLU(inplace=True)]

    return nn.Sequential(
        *conv(3, 64, 11, 4, 2), nn.MaxPool2d(3, 2), *conv(64, 192, 5, 1, 2), nn.MaxPool2d(3, 2),
        *conv(192, 384, 3, 1, 1), *conv(384, 256, 3, 1, 1), *conv(256, 256, 3, 1, 1),
        nn.MaxPool2d(3, 2), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000))


def vgg16():
    layers, n_in = [], 3
    for planes, n in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(n):
            layers += [nn.Conv2d(n_in, planes, 3, 1, 1), nn.ReLU(inplace=True)]
            n_in = planes
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(inplace=True),
                         nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(),
                         nn.Linear(4096, 1000))


def resnext50():
    return resnet50(widen=2, groups=32)


class Dense(nn.Module):
    """A layer of DenseNet: appends its output to its input."""

    def __init__(self, n_in):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(n_in), nn.ReLU(), nn.Conv2d(n_in, 128, 1, bias=False),
                                  nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet121():
    layers, n = [*conv_norm(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for i, n_layers in enumerate((6, 12, 24, 16)):
        layers += [Dense(n + 32 * k) for k in range(n_layers)]
        n += 32 * n_layers
        layers += [nn.BatchNorm2d(n), nn.ReLU()]
        if i < 3:
            layers += [nn.Conv2d(n, n // 2, 1, bias=False), nn.AvgPool2d(2)]
            n //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 1000))


class Gate(nn.Module):
    """Squeeze and excitation with a hard sigmoid."""

    def __init__(self, n, n_inner):
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(n, n_inner, 1), nn.ReLU(inplace=True),
                                  nn.Conv2d(n_inner, n, 1), nn.Hardsigmoid(inplace=True))

    def forward(self, x):
        return x * self.body(x)


class MobileBlock3(nn.Module):
    def __init__(self, n_in, n_out, kernel, stride, hidden, has_gate, act):
        super().__init__()
        layers = conv_norm(n_in, hidden, 1, act=act) if hidden != n_in else []
        layers += conv_norm(hidden, hidden, kernel, stride, hidden, act)
        if has_gate:
            layers.append(Gate(hidden, (hidden // 4 + 4) // 8 * 8))
        self.body = nn.Sequential(*layers, *conv_norm(hidden, n_out, 1))
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v3():
    """MobileNetV3-Large."""
    layers, n_in = conv_norm(3, 16, 3, 2, act=nn.Hardswish), 16
    for kernel, hidden, n_out, has_gate, act, stride in (
            (3, 16, 16, False, nn.ReLU, 1), (3, 64, 24, False, nn.ReLU, 2), (3, 72, 24, False, nn.ReLU, 1),
            (5, 72, 40, True, nn.ReLU, 2), (5, 120, 40, True, nn.ReLU, 1), (5, 120, 40, True, nn.ReLU, 1),
            (3, 240, 80, False, nn.Hardswish, 2), (3, 200, 80, False, nn.Hardswish, 1),
            (3, 184, 80, False, nn.Hardswish, 1), (3, 184, 80, False, nn.Hardswish, 1),
            (3, 480, 112, True, nn.Hardswish, 1), (3, 672, 112, True, nn.Hardswish, 1),
            (5, 672, 160, True, nn.Hardswish, 2), (5, 960, 160, True, nn.Hardswish, 1),
            (5, 960, 160, True, nn.Hardswish, 1)):
        layers.append(MobileBlock3(n_in, n_out, kernel, stride, hidden, has_gate, act))
        n_in = n_out
    layers += conv_norm(160, 960, 1, act=nn.Hardswish)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(),
                         nn.Dropout(0.2), nn.Linear(1280, 1000))


class NormOfChannels(nn.LayerNorm):
    """Layer norm over the channels of images."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.mix = nn.Conv2d(n, n, 7, padding=3, groups=n)
        self.body = nn.Sequential(nn.LayerNorm(n, eps=1e-6), nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))
        self.scale = nn.Parameter(torch.rand(n, 1, 1))

    def forward(self, x):
        return x + self.scale * self.body(self.mix(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext_t():
    """ConvNeXt-T."""
    layers, n_in = [nn.Conv2d(3, 96, 4, 4), NormOfChannels(96, eps=1e-6)], 96
    for width, n in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if width != n_in:
            layers += [NormOfChannels(n_in, eps=1e-6), nn.Conv2d(n_in, width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(n)]
        n_in = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), NormOfChannels(768, eps=1e-6), nn.Flatten(),
                         nn.Linear(768, 1000))


class CrossStage(nn.Module):
    """Half of the channels go through residual blocks; then both halves are joined."""

    def __init__(self, n_in, n_out, n, adds):
        super().__init__()
        half = n_out // 2
        self.enter = nn.Sequential(*conv_norm(n_in, half, 1, act=nn.SiLU))
        self.pass_by = nn.Sequential(*conv_norm(n_in, half, 1, act=nn.SiLU))
        self.blocks = nn.ModuleList(nn.Sequential(*conv_norm(half, half, 1, act=nn.SiLU),
                                                  *conv_norm(half, half, 3, act=nn.SiLU)) for _ in range(n))
        self.leave = nn.Sequential(*conv_norm(n_out, n_out, 1, act=nn.SiLU))
        self.adds = adds

    def forward(self, x):
        y = self.enter(x)
        for block in self.blocks:
            y = y + block(y) if self.adds else block(y)
        return self.leave(torch.cat([y, self.pass_by(x)], 1))


class Detector(nn.Module):
    """Designed as YOLOv5n: three scales, boxes of 85 numbers for three anchors at each position."""

    def __init__(self):
        super().__init__()

        def down(n_in, n_out, kernel=3):
            return nn.Sequential(*conv_norm(n_in, n_out, kernel, 2, act=nn.SiLU))

        def narrow(n_in, n_out):
            return nn.Sequential(*conv_norm(n_in, n_out, 1, act=nn.SiLU))

        self.stem = nn.Sequential(nn.Conv2d(3, 16, 6, 2, 2, bias=False), nn.BatchNorm2d(16), nn.SiLU(),
                                  down(16, 32), CrossStage(32, 32, 1, True), down(32, 64), CrossStage(64, 64, 2, True))
        self.middle = nn.Sequential(down(64, 128), CrossStage(128, 128, 3, True))
        self.deep = nn.Sequential(down(128, 256), CrossStage(256, 256, 1, True))
        self.pool_in, self.pool_out = narrow(256, 128), narrow(512, 256)
        self.narrow = nn.ModuleList((narrow(256, 128), narrow(128, 64)))
        self.up = nn.ModuleList((CrossStage(256, 128, 1, False), CrossStage(128, 64, 1, False)))
        self.down = nn.ModuleList((down(64, 64), down(128, 128)))
        self.join = nn.ModuleList((CrossStage(128, 128, 1, False), CrossStage(256, 256, 1, False)))
        self.heads = nn.ModuleList(nn.Conv2d(n, 255, 1) for n in (64, 128, 256))

    def forward(self, x):
        fine = self.stem(x)
        middle = self.middle(fine)
        pools = [self.pool_in(self.deep(middle))]
        for _ in range(3):
            pools.append(nn.functional.max_pool2d(pools[-1], 5, 1, 2))
        deep = self.narrow[0](self.pool_out(torch.cat(pools, 1)))
        twice = lambda y: nn.functional.interpolate(y, scale_factor=2.0, mode="nearest")
        middle = self.narrow[1](self.up[0](torch.cat([twice(deep), middle], 1)))
        made = [self.up[1](torch.cat([twice(middle), fine], 1))]
        for step, join, y in zip(self.down, self.join, (middle, deep)):
            made.append(join(torch.cat([step(made[-1]), y], 1)))
        return torch.cat([head(y).flatten(2) for head, y in zip(self.heads, made)], 2).sigmoid()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(256, 512, 2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


class UNet(nn.Module):
    """Four steps down and up, 32 to 512 channels."""

    def __init__(self):
        super().__init__()
        widths = (32, 64, 128, 256, 512)

        def twice(n_in, n_out):
            return nn.Sequential(*conv_norm(n_in, n_out, 3, act=nn.ReLU), *conv_norm(n_out, n_out, 3, act=nn.ReLU))

        self.down = nn.ModuleList(twice(a, b) for a, b in zip((3,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in widths[-2::-1])
        self.join = nn.ModuleList(twice(2 * n, n) for n in widths[-2::-1])
        self.head = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, before in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([up(x), before], 1))
        return self.head(x)


def small_steps():
    """50 convolutions that take microseconds each, so that threads meet often."""
    return nn.Sequential(*[layer for _ in range(50) for layer in (nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU())])


NETWORKS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "alexnet": alexnet, "vgg16": vgg16,
            "resnext50": resnext50, "densenet121": densenet121, "lstm": Recurrent, "unet": UNet,
            "efficientnet_b0": efficientnet_b0, "mobilenet_v3": mobilenet_v3, "convnext_t": convnext_t,
            "detector": Detector, "small_steps": small_steps, **attention_networks.NETWORKS}
