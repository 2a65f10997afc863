"""Noise for a sequence of integers."""

from bitcycle.kernels.noise import noise_key, noise_of


def uniform(like, *numbers):
    return noise_of(like, noise_key(*numbers))
