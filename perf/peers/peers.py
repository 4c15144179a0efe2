"""Shared parts of the scripts in this folder. Installs the peers from PyPI into build/peers, with
the versions in requirements.txt."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PEERS = os.path.join(TOP, "build", "peers")
PYTHON = os.path.join(PEERS, "venv", "bin", "python")

# Networks that networks.py makes, and the sizes of one input.
NETWORKS = {
    "resnet50": [3, 224, 224],
    "vgg16": [3, 224, 224],
    "alexnet": [3, 224, 224],
    "mobilenet_v2": [3, 224, 224],
    "resnext50": [3, 224, 224],
    "densenet121": [3, 224, 224],
    "vit_b16": [3, 224, 224],
    "encoder": [128, 768],
    "lstm": [64, 256],
    "unet": [3, 256, 256],
    "efficientnet_b0": [3, 224, 224],
    "mobilenet_v3": [3, 224, 224],
    "convnext_t": [3, 224, 224],
    "swin_t": [3, 224, 224],
    "detector": [3, 320, 320],
    "whisper_tiny": [80, 3000],
    "minilm_16": [16, 384],
    "minilm_256": [256, 384],
    "small_steps": [32, 14, 14],
}


def network_file(name, batch):
    return os.path.join(PEERS, "%s.%d.onnx" % (name, batch))


def input_file(name, key):
    return os.path.join(PEERS, "%s.%s.npy" % (name, key))


def random_input(sizes):
    import numpy

    return numpy.random.default_rng(0).standard_normal(sizes, numpy.float32)


def install():
    requirements = os.path.join(HERE, "requirements.txt")
    stamp = os.path.join(PEERS, "requirements.txt")
    wanted = open(requirements).read()
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", os.path.join(PEERS, "venv")], check=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
    with open(stamp, "w") as file:
        file.write(wanted)
