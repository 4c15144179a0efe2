#!/usr/bin/env python3
"""Prints the table of test_checksum.c, computed by libxxhash over bytes i * 7 + 3."""
import ctypes

library = ctypes.CDLL("libxxhash.so.0")
library.XXH64.restype = ctypes.c_uint64
library.XXH64.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
data = bytes((i * 7 + 3) & 255 for i in range(1000))
for size in [0, 1, 3, 4, 5, 7, 8, 11, 12, 31, 32, 33, 36, 40, 63, 64, 65, 127, 128, 999, 1000]:
    for seed in [0, 0x9E3779B97F4A7C15]:
        print(f"    {{{size}, UINT64_C({seed:#x}), UINT64_C({library.XXH64(data, size, seed):#x})}},")
