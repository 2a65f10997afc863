"""Noise for a sequence of integers, and its formula."""

import numpy as np

from bitcycle.kernels.noise import noise_key, noise_of


def uniform(like, *numbers):
    return noise_of(like, noise_key(*numbers))


def hashed(indices, key):
    """The noise of elements by their indices alone: the formula of noise.py in unsigned 32-bit integers of numpy."""
    one = np.uint32
    with np.errstate(over="ignore"):
        x = indices.astype(np.uint32) + one(key[0])
        x = (x ^ (x >> one(16))) * one(0x7FEB352D)
        x = (x ^ (x >> one(15)) ^ one(key[1])) * one(0x846CA68B)
        x = (x ^ (x >> one(16))) * one(0xC2B2AE35)
    return (x >> one(16)).astype(np.uint16).view(np.int16)
