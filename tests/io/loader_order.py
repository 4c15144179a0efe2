#!/usr/bin/env python3
"""Prints the orders that tests/io/test_loader.c holds: ten items, shuffled by seed 7 in three epochs.

An order is that of Fisher and Yates: from the last place down to the second, place i is exchanged
with place r mod (i + 1), where r hashes 0 (for orders), seed, epoch and i by the mixer of splitmix64.
"""
WORD = (1 << 64) - 1


def mix(hash_, word):
    hash_ = ((hash_ ^ word) + 0x9E3779B97F4A7C15) & WORD
    hash_ = ((hash_ ^ hash_ >> 30) * 0xBF58476D1CE4E5B9) & WORD
    hash_ = ((hash_ ^ hash_ >> 27) * 0x94D049BB133111EB) & WORD
    return hash_ ^ hash_ >> 31


for epoch in range(3):
    items = list(range(10))
    for i in range(9, 0, -1):
        j = mix(mix(mix(0, 7), epoch), i) % (i + 1)
        items[i], items[j] = items[j], items[i]
    print(items)
