"""Noise for stochastic rounding: a pure function of (seed, site, step, number of draws in the step, rank).

A resumed training therefore draws the same noise as an uninterrupted one, whatever else uses torch's random state.
The ranks of a distributed training draw independent noise, so that it averages out in the mean of their gradients.
The noise consists of 16-bit integers, which resolve a grid step to 1/65536. One 64-bit draw serves four elements.
"""

from __future__ import annotations

import hashlib
import threading

import torch
from torch import Tensor, distributed

_MASK = (1 << 64) - 1


class _Generators(threading.local):
    """One generator per thread and device: threads that train at the same time must not reseed each other's."""

    def __init__(self) -> None:
        self._by_device: dict[torch.device, torch.Generator] = {}

    def seeded(self, device: torch.device, seed: int) -> torch.Generator:
        generator = self._by_device.get(device)
        if generator is None:
            generator = self._by_device[device] = torch.Generator(device)
        return generator.manual_seed(seed)


_GENERATORS = _Generators()


def site_key(seed: int, name: str) -> int:
    """Return a 63-bit number for a seed and the name of a site. It is the same in every process."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def mix(*numbers: int) -> int:
    """Hash integers into one 64-bit integer, so that neighbouring steps and sites have unrelated noise."""
    state = 0
    for number in numbers:
        state = (state ^ (number & _MASK)) * 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def rank_key() -> tuple[int, ...]:
    """Return what the rank of this process adds to the key of its noise.

    Rank 0 adds nothing: it draws the same noise as a training without a process group. The rank is read at each call,
    which takes about a microsecond, because process groups come and go and processes fork.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return ()
    rank = distributed.get_rank()
    return (rank,) if rank > 0 else ()


def uniform(like: Tensor, *key: int) -> Tensor:
    """Return uniform 16-bit integers with the shape and the memory layout of ``like``, drawn from ``key``."""
    if like.is_meta:
        return torch.empty_like(like, dtype=torch.int16)
    count = like.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
    draws.random_(-(2**63), None, generator=_GENERATORS.seeded(like.device, mix(*key)))
    layout = torch.empty_like(like, device="meta")  # dense, in the dimension order of ``like``
    return draws.view(torch.int16).as_strided(layout.shape, layout.stride())
