"""Small networks with random weights, and helpers for the tests."""

import io
import warnings

import torch
from torch import nn


class Block(nn.Module):
    """A residual block of ResNet."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.skip = nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(3, 16, 1), Block(16, 31, 2), Block(31, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Mobile(nn.Module):
    """Depthwise convolutions with relu6, as in MobileNetV2."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1),
            nn.ReLU6(),
            nn.Conv2d(24, 24, 3, 1, 1, groups=24),
            nn.ReLU6(),
            nn.Conv2d(24, 17, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def forward(self, x):
        return self.body(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 1, 1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.head = nn.Conv2d(16, 3, 1)

    def forward(self, x):
        a = torch.relu(self.down1(x))
        b = torch.relu(self.down2(nn.functional.max_pool2d(a, 2)))
        return self.head(torch.cat([a, self.up(b)], 1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 20, num_layers=2, batch_first=True)
        self.head = nn.Linear(20, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


NETWORKS = {
    "residual": (Residual, (2, 3, 32, 32)),
    "mobile": (Mobile, (1, 3, 32, 32)),
    "unet": (UNet, (1, 3, 32, 48)),
    "recurrent": (Recurrent, (3, 7, 12)),
    "encoder": (encoder, (2, 9, 32)),
}


def make(name):
    """Returns a network and an input; batch norms have statistics unlike those of a fresh network."""
    torch.manual_seed(0)
    kind, sizes = NETWORKS[name]
    network = kind().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return network, torch.randn(sizes)


def onnx_of(module, *args, open_sizes=None):
    """Returns the bytes of an exported model with inputs x, x1, ...; open_sizes: see dynamic_axes."""
    file = io.BytesIO()
    names = ["x" if i == 0 else f"x{i}" for i in range(len(args))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, args, file, input_names=names, dynamic_axes=open_sizes, dynamo=False
        )
    return file.getvalue()


class Function(nn.Module):
    """Wraps a function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)
