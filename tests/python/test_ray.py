"""Tests examples/ray_batch.py if Ray is installed: tools/python does not install it, since it takes
half a gigabyte. By hand: build/python/tests/bin/pip install "ray[data]", then this test."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import numpy
import pytest
import torch

import tessera
from networks import make

SCRIPT = pathlib.Path(__file__).parents[2] / "examples" / "ray_batch.py"
has_ray = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(has_ray, reason="ray is installed")
def test_without_ray_it_says_how_to_get_it():
    ran = subprocess.run(
        [sys.executable, SCRIPT, "a.tessera", "."], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and 'pip install "ray[data]"' in ran.stderr, ran.stderr


@pytest.mark.skipif(not has_ray, reason="ray is not installed: half a gigabyte")
def test_actors_share_the_file_and_give_what_the_model_gives(tmp_path):
    network, x = make("residual")
    with torch.no_grad():
        model = tessera.compile(network, x[:1])
    model.save(str(tmp_path / "net.tessera"))
    (tmp_path / "in").mkdir()
    arrays = numpy.random.default_rng(1).standard_normal((24, *x.shape[1:]), dtype="float32")
    for i, array in enumerate(arrays):
        numpy.save(tmp_path / "in" / f"{i}.npy", array)

    command = [sys.executable, SCRIPT, tmp_path / "net.tessera", tmp_path / "in"]
    ran = subprocess.run(
        [*command, "--actors", "1,2", "--output", tmp_path / "out"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    for i, array in enumerate(arrays):
        wanted = model(array[None])[0]
        assert numpy.array_equal(numpy.load(tmp_path / "out" / f"{i}.npy"), wanted)
    rows = [line.split() for line in ran.stdout.splitlines() if re.match(r" +[12] ", line)]
    assert [row[0] for row in rows] == ["1", "2"], ran.stdout
    one, two = (float(row[4]) for row in rows)
    assert len(rows[1][2].split("+")) == 2 and two < 1.2 * one, ran.stdout
