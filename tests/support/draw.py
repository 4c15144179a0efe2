"""Pseudo-random numbers determined by a name, the same in Python and C (drawn.c)."""
import numpy


def draw(key, n):
    """Returns n numbers in [-1, 1), multiples of 2**-23, determined by the key and their index."""
    seed = 2166136261
    for letter in key.encode():
        seed = (seed ^ letter) * 16777619 & 0xFFFFFFFF
    bits = numpy.arange(n, dtype=numpy.uint32) * numpy.uint32(0x9E3779B9) + numpy.uint32(seed)
    bits ^= bits >> numpy.uint32(16)
    bits *= numpy.uint32(0x7FEB352D)
    bits ^= bits >> numpy.uint32(15)
    bits *= numpy.uint32(0x846CA68B)
    bits ^= bits >> numpy.uint32(16)
    return ((bits >> numpy.uint32(8)).astype(numpy.float64) - 8388608.0) / 8388608.0
