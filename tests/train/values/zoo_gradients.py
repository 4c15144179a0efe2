#!/usr/bin/env python3
"""Prints zoo_gradients.txt: gradients of the zoo's networks, with widths divided by 8, from PyTorch
2.13.0 in f64. Names determine weights, images and labels (draw.py), so test_zoo_gradients.c uses the
same. Run by hand: python3 tests/train/values/zoo_gradients.py >tests/train/values/zoo_gradients.txt

Lines of a network:

    resnet18 SIDE PICTURE LOSS ROUNDING     side of its images, named "x<PICTURE>"; the loss; and the
                                    largest difference of a gradient, relative to its norm, in f32 or
                                    with weights changed by a ten-millionth
    resnet18 conv1.weight NORM PROJECTION ELEMENT      of the parameter's gradient: its norm, its dot
                                    product with draw() of "probe.conv1.weight", and element n/2 of n

If rounding flipped the sign of a relu's operand, gradients would jump; the chosen images avoid that.

A gradient whose norm is below a millionth of the largest is only rounding, and has no line.
"""
import torch
from torch import nn

from parity import draw, fill, floats, integers

CLASSES, BATCH, DIVIDE, TRIALS = 10, 4, 8, 4


def width(n):
    """Like zoo_width: returns a multiple of 8."""
    return max(8, n // DIVIDE // 8 * 8)


def conv(n_in, n_out, kernel, stride=1, padding=0, groups=1, bias=False):
    return nn.Conv2d(n_in, n_out, kernel, stride, padding, groups=groups, bias=bias)


# ---- ResNet, ResNeXt ----

class Residual(nn.Module):
    def __init__(self, n_in, planes, stride, kind):
        super().__init__()
        n_out = planes if kind == "basic" else 4 * planes
        if kind == "basic":
            convs = [conv(n_in, planes, 3, stride, 1), conv(planes, planes, 3, 1, 1)]
        else:
            inner, groups = (planes, 1) if kind == "bottleneck" else (2 * planes, 32 // DIVIDE)
            convs = [conv(n_in, inner, 1), conv(inner, inner, 3, stride, 1, groups), conv(inner, n_out, 1)]
        self.n = len(convs)
        for i, layer in enumerate(convs):
            self.add_module(f"conv{i + 1}", layer)
            self.add_module(f"bn{i + 1}", nn.BatchNorm2d(layer.out_channels))
        self.downsample = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(conv(n_in, n_out, 1, stride), nn.BatchNorm2d(n_out))

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.n:
                y = torch.relu(y)
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, kind, depths):
        super().__init__()
        n_in = width(64)
        self.conv1, self.bn1 = conv(3, n_in, 7, 2, 3), nn.BatchNorm2d(n_in)
        for i, depth in enumerate(depths):
            blocks, planes = [], width(64 << i)
            for k in range(depth):
                blocks.append(Residual(n_in, planes, 2 if i > 0 and k == 0 else 1, kind))
                n_in = planes if kind == "basic" else 4 * planes
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(n_in, CLASSES)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


# ---- networks without branches ----

class Features(nn.Module):
    """Layers, adaptive pooling to side x side, and linear layers; names count dropouts."""

    def __init__(self, features, side, classifier):
        super().__init__()
        self.features, self.side, self.classifier = nn.Sequential(*features), side, nn.Sequential(*classifier)

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), self.side)
        return self.classifier(x.flatten(1))


def alexnet():
    a, b, c, d, hidden = (width(n) for n in (64, 192, 384, 256, 4096))
    pool = nn.MaxPool2d(3, 2)
    features = [conv(3, a, 11, 4, 2, bias=True), nn.ReLU(), pool, conv(a, b, 5, 1, 2, bias=True), nn.ReLU(), pool,
                conv(b, c, 3, 1, 1, bias=True), nn.ReLU(), conv(c, d, 3, 1, 1, bias=True), nn.ReLU(),
                conv(d, d, 3, 1, 1, bias=True), nn.ReLU(), pool]
    return Features(features, 6, [nn.Identity(), nn.Linear(d * 36, hidden), nn.ReLU(), nn.Identity(),
                                  nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES)])


def vgg16():
    features, n, hidden = [], 3, width(4096)
    for planes, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            features += [conv(n, width(planes), 3, 1, 1, bias=True), nn.ReLU()]
            n = width(planes)
        features.append(nn.MaxPool2d(2))
    return Features(features, 7, [nn.Linear(n * 49, hidden), nn.ReLU(), nn.Identity(), nn.Linear(hidden, hidden),
                                  nn.ReLU(), nn.Identity(), nn.Linear(hidden, CLASSES)])


# ---- MobileNetV2 ----

def conv_norm(n_in, n_out, kernel, stride=1, groups=1):
    return nn.Sequential(conv(n_in, n_out, kernel, stride, kernel // 2, groups), nn.BatchNorm2d(n_out), nn.ReLU6())


class Inverted(nn.Module):
    def __init__(self, n_in, n_out, stride, factor):
        super().__init__()
        hidden = n_in * factor
        layers = [conv_norm(n_in, hidden, 1)] if factor > 1 else []
        layers += [conv_norm(hidden, hidden, 3, stride, hidden), conv(hidden, n_out, 1), nn.BatchNorm2d(n_out)]
        self.conv, self.adds = nn.Sequential(*layers), stride == 1 and n_in == n_out

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


def mobilenet_v2():
    n = width(32)
    features = [conv_norm(3, n, 3, 2)]
    for factor, planes, depth, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                          (6, 160, 3, 2), (6, 320, 1, 1)):
        for k in range(depth):
            features.append(Inverted(n, width(planes), stride if k == 0 else 1, factor))
            n = width(planes)
    features.append(conv_norm(n, width(1280), 1))
    return Features(features, 1, [nn.Identity(), nn.Linear(width(1280), CLASSES)])


# ---- DenseNet ----

class DenseLayer(nn.Module):
    def __init__(self, n_in, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(n_in), conv(n_in, 4 * growth, 1)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), conv(4 * growth, growth, 3, 1, 1)

    def forward(self, x):
        y = self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(x))))))
        return torch.cat([x, y], 1)


class Transition(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(n_in), conv(n_in, n_in // 2, 1)

    def forward(self, x):
        return nn.functional.avg_pool2d(self.conv(torch.relu(self.norm(x))), 2)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        growth, n, features = width(32), width(64), nn.Sequential()
        features.add_module("conv0", conv(3, n, 7, 2, 3))
        features.add_module("norm0", nn.BatchNorm2d(n))
        features.add_module("relu0", nn.ReLU())
        features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for i, depth in enumerate((6, 12, 24, 16)):
            block = nn.Sequential()
            for k in range(depth):
                block.add_module(f"denselayer{k + 1}", DenseLayer(n, growth))
                n += growth
            features.add_module(f"denseblock{i + 1}", block)
            if i < 3:
                features.add_module(f"transition{i + 1}", Transition(n))
                n //= 2
        features.add_module("norm5", nn.BatchNorm2d(n))
        self.features, self.classifier = features, nn.Linear(n, CLASSES)

    def forward(self, x):
        return self.classifier(torch.relu(self.features(x)).mean((2, 3)))


# ---- SqueezeNet ----

class Fire(nn.Module):
    def __init__(self, n_in, squeeze, expand):
        super().__init__()
        self.squeeze = conv(n_in, squeeze, 1, bias=True)
        self.expand1x1 = conv(squeeze, expand, 1, bias=True)
        self.expand3x3 = conv(squeeze, expand, 3, 1, 1, bias=True)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat([self.expand1x1(x), self.expand3x3(x)], 1))


class SqueezeNet(nn.Module):
    def __init__(self):
        super().__init__()
        n = width(64)
        features = [conv(3, n, 3, 2, bias=True), nn.ReLU()]
        for i, (squeeze, expand) in enumerate(((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192),
                                               (64, 256), (64, 256))):
            if i in (0, 2, 4):
                features.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            features.append(Fire(n, width(squeeze), width(expand)))
            n = 2 * width(expand)
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Identity(), conv(n, CLASSES, 1, bias=True), nn.ReLU())

    def forward(self, x):
        return self.classifier(self.features(x)).mean((2, 3))


# ---- GoogLeNet ----

class Basic(nn.Module):
    def __init__(self, n_in, n_out, kernel, stride=1):
        super().__init__()
        self.conv, self.bn = conv(n_in, n_out, kernel, stride, kernel // 2), nn.BatchNorm2d(n_out, 1e-3)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    def __init__(self, n_in, one, reduce3, three, reduce5, five, pool):
        super().__init__()
        self.branch1 = Basic(n_in, one, 1)
        self.branch2 = nn.Sequential(Basic(n_in, reduce3, 1), Basic(reduce3, three, 3))
        self.branch3 = nn.Sequential(Basic(n_in, reduce5, 1), Basic(reduce5, five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), Basic(n_in, pool, 1))

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class GoogLeNet(nn.Module):
    DESIGNS = (("3a", 64, 96, 128, 16, 32, 32), ("3b", 128, 128, 192, 32, 96, 64), ("4a", 192, 96, 208, 16, 48, 64),
               ("4b", 160, 112, 224, 24, 64, 64), ("4c", 128, 128, 256, 24, 64, 64),
               ("4d", 112, 144, 288, 32, 64, 64), ("4e", 256, 160, 320, 32, 128, 128),
               ("5a", 256, 160, 320, 32, 128, 128), ("5b", 384, 192, 384, 48, 128, 128))

    def __init__(self):
        super().__init__()
        n = width(192)
        self.conv1, self.conv2 = Basic(3, width(64), 7, 2), Basic(width(64), width(64), 1)
        self.conv3 = Basic(width(64), n, 3)
        for name, *numbers in self.DESIGNS:
            one, reduce3, three, reduce5, five, pool = (width(k) for k in numbers)
            self.add_module(f"inception{name}", Inception(n, one, reduce3, three, reduce5, five, pool))
            n = one + three + five + pool
        self.fc = nn.Linear(n, CLASSES)

    def forward(self, x):
        def pool(x, kernel=3):
            return nn.functional.max_pool2d(x, kernel, 2, ceil_mode=True)

        x = pool(self.conv3(self.conv2(pool(self.conv1(x)))))
        for name, *_ in self.DESIGNS:
            x = getattr(self, f"inception{name}")(x)
            x = pool(x) if name == "3b" else pool(x, 2) if name == "4e" else x
        return self.fc(x.mean((2, 3)))


NETWORKS = {
    "resnet18": (lambda: ResNet("basic", (2, 2, 2, 2)), 64, 0),
    "resnet50": (lambda: ResNet("bottleneck", (3, 4, 6, 3)), 64, 6),
    "resnext50_32x4d": (lambda: ResNet("grouped", (3, 4, 6, 3)), 64, 0),
    "alexnet": (alexnet, 95, 0),
    "vgg16": (vgg16, 64, 0),
    "mobilenet_v2": (mobilenet_v2, 64, 0),
    "densenet121": (DenseNet, 64, 0),
    "squeezenet1_1": (SqueezeNet, 64, 0),
    "googlenet": (GoogLeNet, 64, 0),
}


def gradients(name, dtype, noise=0.0):
    """Returns the loss and gradients in dtype, with weights changed by relative noise up to `noise`."""
    make, side, picture = NETWORKS[name]
    network = make()
    fill(network)
    network.to(dtype).train()
    with torch.no_grad():
        for p in network.parameters():
            p *= 1.0 + noise * (2.0 * torch.rand_like(p) - 1.0)
    loss = nn.functional.cross_entropy(network(floats(f"x{picture}", BATCH, 3, side, side).to(dtype)),
                                       integers("labels", CLASSES, BATCH))
    loss.backward()
    return loss.item(), {key: p.grad.double().flatten() for key, p in network.named_parameters()}


def measure(name):
    """Returns the loss, gradients that exceed rounding, and the largest difference by rounding."""
    torch.manual_seed(1)
    loss, exact = gradients(name, torch.float64)
    largest = max(g.norm() for g in exact.values())
    kept = {key: g for key, g in exact.items() if g.norm() > 1e-6 * largest}
    others = [gradients(name, torch.float32)[1]] + [gradients(name, torch.float64, 1e-7)[1] for _ in range(TRIALS)]
    return loss, kept, max(((other[key] - g).norm() / g.norm()).item() for other in others for key, g in kept.items())


def main():
    for name, (_, side, picture) in NETWORKS.items():
        loss, kept, rounding = measure(name)
        print(name, side, picture, f"{loss:.7g}", f"{rounding:.2g}")
        for key, g in kept.items():
            probe = torch.from_numpy(draw(f"probe.{key}", g.numel()).astype("float32")).double()
            numbers = (g.norm(), g @ probe, g[g.numel() // 2])
            print(name, key, *(f"{number.item():.5g}" for number in numbers))


if __name__ == "__main__":
    main()
