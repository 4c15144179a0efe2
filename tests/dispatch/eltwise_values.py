#!/usr/bin/env python3
"""Fills in eltwise_values.txt: computes values and slopes of its formulas in 40 digits (mpmath).

A line is `name parameters | formula in x, a, b | x value slope | ...`. In a new line only name,
parameters and formula are needed; the points are -2.5, 0.5, 1.5 and 4 then. Run it in any folder."""
import pathlib

import mpmath as m

m.mp.dps = 40
FILE = pathlib.Path(__file__).with_suffix(".txt")
NAMES = {name: getattr(m, name) for name in "e erf exp expm1 log ncdf pi sqrt tanh".split()}
NAMES |= {"sigmoid": lambda x: 1 / (1 + m.e**-x), "clamp": lambda x, a, b: min(max(x, a), b),
          "number": m.mpf, "abs": abs, "max": max}


def filled(line):
    head, formula, *points = [part.strip() for part in line.split("|")]
    parameters = [m.mpf(p) for p in head.split()[1:]] + [m.mpf(0)] * 2

    def function(x):
        names = NAMES | {"x": m.mpf(x), "a": parameters[0], "b": parameters[1]}
        return m.mpf(eval(formula, {"__builtins__": {}}, names))

    xs = [p.split()[0] for p in points] or ["-2.5", "0.5", "1.5", "4"]
    return " | ".join([head, formula] + [
        f"{x} {float(function(x))!r} {float(m.diff(function, m.mpf(x)))!r}" for x in xs])


FILE.write_text("".join(
    (line if line.startswith("#") else filled(line)) + "\n" for line in FILE.read_text().splitlines()))
