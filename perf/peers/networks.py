"""PyTorch networks with random weights, for comparison with peers. The designs are torchvision's. A
network of the same name in Tessera's zoo has the same layers."""
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


def encoder():
    layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    for parameter in stack.parameters():
        if parameter.dim() > 1:  # identical layers would be exported as one
            nn.init.normal_(parameter, std=0.02)
    return stack


class VisionTransformer(nn.Module):
    """ViT-B/16."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, 768))
        self.places = nn.Parameter(torch.randn(1, 197, 768))
        self.encoder, self.norm, self.head = encoder(), nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.encoder(x))[:, 0])


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
            "resnext50": resnext50, "densenet121": densenet121, "vit_b16": VisionTransformer,
            "encoder": encoder, "lstm": Recurrent, "unet": UNet, "efficientnet_b0": efficientnet_b0,
            "small_steps": small_steps}
