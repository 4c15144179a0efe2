#!/usr/bin/env python3
"""Writes scores.txt: what torchvision's networks give in PyTorch for drawn weights and images, as
an independent source.

Run by hand with PyTorch 2.13.0 and torchvision 0.28.0:
    python3 tests/tools/scores.py > tests/tools/scores.txt

A line for each network: its name, the size of its two images, then the scores of the first image
and of the second. Weights are f32; the network computes in f64, so that its scores are right to the
last place of f32.
"""
import math
import os
import sys

import numpy
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from draw import draw

# Builds of torchvision for CUDA cannot load their own operators on other machines. No network calls
# one.
for name in ("nms", "qnms"):
    try:
        torch.library.define("torchvision::" + name, "() -> ()")
    except RuntimeError:
        pass
import torchvision

N_IMAGES = 2
N_CLASSES = 10
# Sizes at which windows of pooling end beyond the edge.
SIZES = {"alexnet": 63, "vgg16": 33, "resnet18": 63, "resnet50": 47, "resnext50_32x4d": 47,
         "mobilenet_v2": 65, "densenet121": 65, "squeezenet1_1": 63, "googlenet": 64}


def value(key, sizes):
    """A tensor of the state dict, or an image: rounded to f32 once."""
    drawn = draw(key, math.prod(sizes))
    if key == "images":
        drawn *= 2.0
    elif len(sizes) > 1:
        drawn *= math.sqrt(6.0 / math.prod(sizes[1:]))
    elif key.endswith("weight"):
        drawn = 0.75 + 0.25 * drawn
    elif key.endswith("running_var"):
        drawn = 1.0 + 0.5 * drawn
    else:  # bias, running_mean
        drawn *= 0.125
    return torch.from_numpy(drawn.astype(numpy.float32)).double().reshape(sizes)


def scores(name, size):
    options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    net = getattr(torchvision.models, name)(weights=None, num_classes=N_CLASSES, **options)
    net = net.double().eval()
    state = net.state_dict()
    for key, tensor in state.items():
        if not key.endswith("num_batches_tracked"):
            state[key] = value(key, list(tensor.shape))
    net.load_state_dict(state)
    return net(value("images", [N_IMAGES, 3, size, size])).flatten().tolist()


def main():
    print("# By tests/tools/scores.py with PyTorch %s and torchvision %s."
          % (torch.__version__.split("+")[0], torchvision.__version__.split("+")[0]))
    with torch.no_grad():
        for name, size in SIZES.items():
            print(name, size, *("%.9g" % score for score in scores(name, size)))


main()
