#!/usr/bin/env python3
"""Writes images.npy, u8 [1797][1][8][8] of 0 to 16, and labels.npy, u8 [1797], beside this script:
the digits that the PyPI package scikit-learn ships as datasets/data/digits.csv.gz.

The two files are committed; run this only to make them again:
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
    """The lines of the table, 64 points and a label each, out of the wheel alone."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--only-binary", ":all:", "--python-version", "3.11",
                        "--platform", "manylinux2014_x86_64", "--dest", folder, PACKAGE],
                       check=True)
        with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
            text = gzip.decompress(wheel.read(MEMBER)).decode()
    return [[int(float(number)) for number in line.split(",")] for line in text.splitlines()]


def write(name, shape, numbers):
    """A .npy file of version 1.0."""
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
