"""Noise for stochastic rounding: a pure function of (seed, site, step, draw, rank) and of the index of an element.

It is a counter-based hash: any part of it can be computed anywhere, in any order and on any device, and a resumed
training draws the same noise as an uninterrupted one, whatever else uses torch's random state. The ranks of a
distributed training draw independent noise, so that it averages out in the mean of their gradients. The noise consists
of 16-bit integers, which resolve a grid step to 1/65536. The index counts the elements of a tensor in the order of its
dimensions, modulo 2^32, whatever its memory layout.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, distributed

from bitcycle.kernels import native

_MASK64 = (1 << 64) - 1
_MASK32 = (1 << 32) - 1

NoiseKey = tuple[int, int]
"""Two 32-bit keys of the hash."""


def site_key(seed: int, name: str) -> int:
    """Return a 63-bit number for a seed and the name of a site. It is the same in every process."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def mix(*numbers: int) -> int:
    """Hash integers into one 64-bit integer, so that neighbouring steps and sites have unrelated noise."""
    state = 0
    for number in numbers:
        state = (state ^ (number & _MASK64)) * 0x9E3779B97F4A7C15 & _MASK64
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK64
        state ^= state >> 31
    return state


def noise_key(*numbers: int) -> NoiseKey:
    """Return the keys of the hash for a sequence of integers, and for the rank of this process.

    Rank 0 adds nothing: it draws the same noise as a training without a process group. The rank is read at each call,
    which takes about a microsecond, because process groups come and go and processes fork.
    """
    is_distributed = distributed.is_available() and distributed.is_initialized()
    mixed = mix(*numbers, rank) if is_distributed and (rank := distributed.get_rank()) > 0 else mix(*numbers)
    return mixed & _MASK32, mixed >> 32


def noise_of(like: Tensor, key: NoiseKey) -> Tensor:
    """Return uniform 16-bit integers with the shape and the memory layout of ``like``, for the keys of the hash."""
    out = torch.empty_like(like, dtype=torch.int16)
    if like.is_meta or native.draw(out, key):
        return out
    # Products of 32-bit integers wrap around. A right shift copies the sign, so its upper bits are cleared.
    x = torch.arange(like.numel(), dtype=torch.int64, device=like.device).to(torch.int32).add_(_signed(key[0]))
    for shift, added, factor in ((16, 0, 0x7FEB352D), (15, key[1], 0x846CA68B), (16, 0, 0xC2B2AE35)):
        x ^= (x >> shift).bitwise_and_((1 << 32 - shift) - 1)
        x = (x ^ _signed(added) if added else x).mul_(_signed(factor))
    return out.copy_((x >> 16).view(like.shape))  # the upper half


def _signed(number: int) -> int:
    """Return a 32-bit number as a signed one."""
    return number - (1 << 32) if number >= 1 << 31 else number
