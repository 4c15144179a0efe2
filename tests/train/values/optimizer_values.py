#!/usr/bin/env python3
"""Prints optimizer_values.txt: a parameter of 6 elements after each of 8 steps of PyTorch 2.13.0's
optimizers, norms and factors of clip_grad_norm_, and learning rates of its schedules. A line has a
name, the options, and after a colon the numbers.

Names determine the parameter and gradients as in tests/support/draw.py: element i of the parameter is
draw("parameter", 6)[i], that of step t's gradient draw("gradient t", 6)[i]. "kick" multiplies the
gradient of step 1; in averages that forget it, the next gradient keeps all its digits."""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from draw import draw  # noqa: E402

N, STEPS = 6, 8
OPTIMIZERS = [
    ("sgd", torch.optim.SGD, [
        dict(lr=0.1),
        dict(lr=0.1, weight_decay=0.05),
        dict(lr=0.1, momentum=0.9),
        dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.05),
        dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.01),
    ]),
    ("adam", torch.optim.Adam, [
        dict(lr=0.01),
        dict(lr=0.01, weight_decay=0.1),
        dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, amsgrad=True),
        dict(lr=0.01, betas=(0.0, 0.9), kick=1e8),
        dict(lr=0.01, betas=(0.25, 0.0), kick=1e8),
    ]),
    ("adamw", torch.optim.AdamW, [
        dict(lr=0.01),
        dict(lr=0.01, weight_decay=0.3, amsgrad=True),
    ]),
    ("rmsprop", torch.optim.RMSprop, [
        dict(lr=0.01),
        dict(lr=0.01, alpha=0.9, weight_decay=0.1),
        dict(lr=0.01, momentum=0.7),
        dict(lr=0.01, centered=True),
        dict(lr=0.01, momentum=0.7, centered=True, eps=1e-3),
    ]),
]


def text(numbers):
    return " ".join(f"{number:.9g}" for number in numbers)


def describe(options):
    words = []
    for name, value in options.items():
        if name == "betas":
            words += [f"beta1={value[0]}", f"beta2={value[1]}"]
        else:
            words.append(f"{name}={int(value) if isinstance(value, bool) else value}")
    return " ".join(words)


def run(kind, options):
    """Returns all parameters after all steps."""
    options = dict(options)
    kick = options.pop("kick", 1.0)
    p = torch.tensor(draw("parameter", N), dtype=torch.float32, requires_grad=True)
    optimizer = kind([p], **options)
    after = []
    for step in range(1, STEPS + 1):
        p.grad = torch.tensor(draw(f"gradient {step}", N), dtype=torch.float32)
        p.grad *= kick if step == 1 else 1.0
        optimizer.step()
        after += p.detach().tolist()
    return after


def clip(max_norm):
    """Returns the norm, then the gradients of steps 1 and 2 after clipping."""
    parameters = [torch.zeros(N, requires_grad=True) for _ in range(2)]
    for step, p in enumerate(parameters, 1):
        p.grad = torch.tensor(draw(f"gradient {step}", N), dtype=torch.float32)
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return [norm.item()] + [x for p in parameters for x in p.grad.tolist()]


def schedule(kind, n, **options):
    """Returns the learning rates of steps 0 to n - 1."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    scheduler = kind(optimizer, **options)
    rates = []
    for step in range(n):
        rates.append(optimizer.param_groups[0]["lr"])
        if step < n - 1:
            optimizer.step()
            scheduler.step()
    return rates


def main():
    print("# By tests/train/values/optimizer_values.py with PyTorch 2.13.0.")
    for name, kind, rows in OPTIMIZERS:
        for options in rows:
            print(f"{name} {describe(options)}: {text(run(kind, options))}")
    for max_norm in (0.5, 100.0):
        print(f"clip max_norm={max_norm}: {text(clip(max_norm))}")
    lr_scheduler = torch.optim.lr_scheduler
    print("step step_size=4 gamma=0.3:",
          text(schedule(lr_scheduler.StepLR, 14, step_size=4, gamma=0.3)))
    print("cosine t_max=10 eta_min=0.01:",
          text(schedule(lr_scheduler.CosineAnnealingLR, 11, T_max=10, eta_min=0.01)))
    for options in (dict(), dict(anneal_strategy="linear", pct_start=0.4, div_factor=10.0),
                    dict(three_phase=True, final_div_factor=100.0)):
        words = " ".join(f"{name}={value}" for name, value in options.items())
        rates = schedule(lr_scheduler.OneCycleLR, 20, max_lr=0.5, total_steps=20, **options)
        print(f"one_cycle{' ' if words else ''}{words}: {text(rates)}")


if __name__ == "__main__":
    main()
