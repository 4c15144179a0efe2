#!/usr/bin/env python3
"""Prints parity_values.txt: losses of 50 training steps with PyTorch 2.13.0. Names determine the
weights and batches (draw.py), so test_parity.c uses the same.

Each network trains on four batches in rotation. Its lines:

    resnet18 LOSS...                one per step
    resnet18.state NAME:SIZES...    entries of its state dict: conv1.weight:8x3x7x7
    resnet18.outputs NUMBER...      for the first batch after the steps, in evaluation mode
    resnet18.rounding NUMBER        their difference from the same steps in f64, relative to the largest
    resnet18.leaps LOSS OUTPUT      the largest differences, relative, of a loss and an output, if the
                                    first weights change by 3e-7 of them, about two roundings (20 trials)

Leaps: f32 and f64 happen to agree to 1e-5 after fifty steps of resnet18. But in eight of 20 trials the
change flips the sign of some relu's input near 0, and later losses differ by up to 6 %.

--load loads weights that test_parity saved with TESSERA_WEIGHTS=FOLDER into PyTorch's networks,
strictly by name, and compares their outputs with those of the test.
usage: parity.py [NETWORK...]
       parity.py --load FOLDER
"""
import glob
import json
import math
import os
import sys

import numpy
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from draw import draw  # noqa: E402

STEPS, BATCHES, CLASSES = 50, 4, 10


class Block(nn.Module):
    def __init__(self, n_in, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or n_in != planes:
            self.downsample = nn.Sequential(nn.Conv2d(n_in, planes, 1, stride, bias=False),
                                            nn.BatchNorm2d(planes))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, divide):
        super().__init__()
        widths = [max(8, w // divide) for w in (64, 128, 256, 512)]
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        n_in = widths[0]
        for i, width in enumerate(widths):
            blocks = [Block(n_in, width, 1 if i == 0 else 2), Block(width, width, 1)]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            n_in = width
        self.fc = nn.Linear(n_in, CLASSES)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class AlexNet(nn.Module):
    def __init__(self, divide):
        super().__init__()
        a, b, c, d = (max(8, w // divide) for w in (64, 192, 384, 256))
        hidden = max(8, 4096 // divide)
        pool = nn.MaxPool2d(3, 2)
        self.features = nn.Sequential(
            nn.Conv2d(3, a, 11, 4, 2), nn.ReLU(), pool, nn.Conv2d(a, b, 5, 1, 2), nn.ReLU(), pool,
            nn.Conv2d(b, c, 3, 1, 1), nn.ReLU(), nn.Conv2d(c, d, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(d, d, 3, 1, 1), nn.ReLU(), pool)
        self.classifier = nn.Sequential(
            nn.Identity(), nn.Linear(d * 36, hidden), nn.ReLU(), nn.Identity(),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), 6)
        return self.classifier(x.flatten(1))


class Recurrent(nn.Module):
    """Two layers of LSTM over 12 steps of 16 numbers; classifies the last state."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 24, 2)
        self.fc = nn.Linear(24, CLASSES)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][-1])


class Transformer(nn.Module):
    """Two encoder layers over 10 tokens; classifies their mean."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.layers = nn.Sequential(*(nn.TransformerEncoderLayer(
            32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2)))
        self.norm = nn.LayerNorm(32)
        self.fc = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.fc(self.norm(self.layers(self.embedding(x))).mean(1))


def fill(module):
    """Fills weights by their names: scaled by the length of their sums; norms near 1, biases near 0."""
    with torch.no_grad():
        for name, tensor in list(module.named_parameters()) + list(module.named_buffers()):
            if not tensor.is_floating_point():
                continue
            shift, scale = 0.0, 0.05
            if tensor.dim() > 1:
                scale = math.sqrt(3.0 / (tensor.numel() // tensor.shape[0]))
            elif name.endswith("running_var") or (name.endswith("weight") and tensor.dim() == 1):
                shift = 1.0
            values = (shift + scale * draw(name, tensor.numel())).astype(numpy.float32)
            tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))


def floats(key, *shape):
    return torch.from_numpy(draw(key, math.prod(shape)).astype(numpy.float32)).reshape(shape)


def integers(key, limit, *shape):
    values = numpy.floor((draw(key, math.prod(shape)) + 1.0) / 2.0 * limit)
    return torch.from_numpy(values.astype(numpy.int64)).reshape(shape)


NETWORKS = {
    "resnet18": (lambda: ResNet18(8), lambda i: floats(f"x{i}", 8, 3, 32, 32), 8,
                 lambda p: torch.optim.SGD(p, 1e-4, 0.9, weight_decay=5e-4)),
    "alexnet": (lambda: AlexNet(8), lambda i: floats(f"x{i}", 4, 3, 127, 127), 4,
                lambda p: torch.optim.Adam(p, 1e-4)),
    "lstm": (Recurrent, lambda i: floats(f"x{i}", 12, 8, 16), 8,
             lambda p: torch.optim.SGD(p, 0.1, 0.9)),
    "transformer": (Transformer, lambda i: integers(f"x{i}", 50, 8, 10), 8,
                    lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.01)),
}


def change(network, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1 + 3e-7 * torch.randn(parameter.shape, generator=generator))


def train(name, dtype, seed=0):
    """Returns the network after its steps, and their losses. A seed changes the first weights."""
    make, batch, n, optimizer_of = NETWORKS[name]
    network = make()
    fill(network)
    if seed:
        change(network, seed)
    network.to(dtype).train()
    optimizer = optimizer_of(network.parameters())
    losses = []
    for step in range(STEPS):
        i = step % BATCHES
        x = batch(i)
        scores = network(x.to(dtype) if x.is_floating_point() else x)
        loss = nn.functional.cross_entropy(scores, integers(f"labels{i}", CLASSES, n))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return network, losses


def outputs(name, network):
    """Returns the outputs for the first batch, in evaluation mode."""
    x = NETWORKS[name][1](0)
    with torch.no_grad():
        dtype = next(network.parameters()).dtype
        return network.eval()(x.to(dtype) if x.is_floating_point() else x).double()


def difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def leaps(name, losses, given):
    loss = output = 0.0
    for seed in range(1, 21):
        network, others = train(name, torch.float32, seed)
        loss = max(loss, max(abs(a - b) / b for a, b in zip(others, losses)))
        output = max(output, difference(outputs(name, network), given))
    return loss, output


def write(name):
    network, losses = train(name, torch.float32)
    given, exact = outputs(name, network), outputs(name, train(name, torch.float64)[0])
    state = (f"{key}:{'x'.join(map(str, tensor.shape)) or '-'}"
             for key, tensor in network.state_dict().items())
    print(name, *(f"{loss:.9g}" for loss in losses))
    print(f"{name}.state", *state)
    print(f"{name}.outputs", *(f"{number:.9g}" for number in given.flatten().tolist()))
    print(f"{name}.rounding", f"{difference(given, exact):.3g}")
    print(f"{name}.leaps", *(f"{number:.3g}" for number in leaps(name, losses, given)))


def read_file(path):
    """Returns the tensors of a safetensors file."""
    types = {"F32": numpy.float32, "I64": numpy.int64}
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    tensors = {}
    for key, entry in header.items():
        if key != "__metadata__":
            begin, end = entry["data_offsets"]
            array = numpy.frombuffer(data[begin:end], types[entry["dtype"]])
            tensors[key] = torch.from_numpy(array.reshape(entry["shape"]).copy())
    return tensors


def load(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        name = os.path.basename(path).split(".")[0]
        tensors = read_file(path)
        wanted = tensors.pop("test.outputs").double()
        network = NETWORKS[name][0]()
        network.load_state_dict(tensors, strict=True)
        print(f"{os.path.basename(path)}: {difference(outputs(name, network), wanted):.2g}")


def main():
    torch.set_num_threads(2)
    if sys.argv[1:2] == ["--load"]:
        return load(sys.argv[2])
    for name in sys.argv[1:] or NETWORKS:
        write(name)


if __name__ == "__main__":
    main()
