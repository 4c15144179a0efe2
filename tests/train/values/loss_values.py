#!/usr/bin/env python3
"""Prints loss_values.txt: losses of PyTorch 2.13.0 and the gradients of their first operand. A line
has a name, the options, and after a colon the losses, then the gradient of x. For reduction "none" it
is the gradient of sum(loss * draw("grad")).

x is 3 * draw("x"); targets of differences are draw("target"), those of bce (draw("target") + 1) / 2;
labels depend on their index as in test_loss.c. Classes have the weights 0.5, 1.5, 2."""
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from draw import draw  # noqa: E402

WEIGHT = torch.tensor([0.5, 1.5, 2.0])
LABELS = torch.tensor([0, 2, 1, 2])


def drawn(key, shape):
    n = torch.Size(shape).numel()
    return torch.tensor(draw(key, n), dtype=torch.float32).reshape(shape)


def show(name, x, loss, **options):
    upstream = drawn("grad", loss.shape) if loss.dim() > 0 else torch.tensor(1.0)
    loss.backward(upstream)
    words = "".join(f" {key}={int(v) if isinstance(v, bool) else v}" for key, v in options.items())
    numbers = loss.detach().flatten().tolist() + x.grad.flatten().tolist()
    print(f"{name}{words}:", " ".join(f"{number:.9g}" for number in numbers))


def scores(shape=(4, 3)):
    return (3 * drawn("x", shape)).requires_grad_()


def main():
    print("# By tests/train/values/loss_values.py with PyTorch 2.13.0.")
    for reduction in ("mean", "sum", "none"):
        for weighed in (False, True):
            for ignore in (-100, 2):
                for smoothing in (0.0, 0.2):
                    x = scores()
                    loss = F.cross_entropy(x, LABELS, WEIGHT if weighed else None,
                                           ignore_index=ignore, reduction=reduction,
                                           label_smoothing=smoothing)
                    show("cross_entropy", x, loss, reduction=reduction, weight=weighed,
                         ignore_index=ignore, label_smoothing=smoothing)
                x = scores()
                loss = F.nll_loss(x, LABELS, WEIGHT if weighed else None, ignore_index=ignore,
                                  reduction=reduction)
                show("nll", x, loss, reduction=reduction, weight=weighed, ignore_index=ignore)
            for smoothing in (0.0, 0.2):
                x, probabilities = scores(), drawn("target", (4, 3)).softmax(1)
                loss = F.cross_entropy(x, probabilities, WEIGHT if weighed else None,
                                       reduction=reduction, label_smoothing=smoothing)
                show("probabilities", x, loss, reduction=reduction, weight=weighed,
                     label_smoothing=smoothing)
        x = scores((2, 3, 2))
        loss = F.cross_entropy(x, LABELS.reshape(2, 2), WEIGHT, reduction=reduction)
        show("planes", x, loss, reduction=reduction, weight=True)
        for name, function in (("mse", F.mse_loss), ("l1", F.l1_loss)):
            x = scores()
            show(name, x, function(x, drawn("target", (4, 3)), reduction=reduction),
                 reduction=reduction)
        for beta in (1.0, 0.4, 0.0):
            x = scores()
            loss = F.smooth_l1_loss(x, drawn("target", (4, 3)), reduction=reduction, beta=beta)
            show("smooth_l1", x, loss, reduction=reduction, beta=beta)
        for weighed in (False, True):
            for positive in (False, True):
                x = scores()
                loss = F.binary_cross_entropy_with_logits(
                    x, (drawn("target", (4, 3)) + 1) / 2, WEIGHT if weighed else None,
                    reduction=reduction, pos_weight=WEIGHT if positive else None)
                show("bce", x, loss, reduction=reduction, weight=weighed, pos_weight=positive)


if __name__ == "__main__":
    main()
