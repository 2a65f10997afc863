"""Noise for stochastic rounding that is a pure function of (seed, site, step, how often the site has drawn in it).

So a resumed training draws what the uninterrupted one would have drawn, whatever else uses torch's random state.
Noise is 16-bit integers, which resolve a grid step to 1/65536; one 64-bit draw serves four elements.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_GENERATORS: dict[torch.device, torch.Generator] = {}


def site_key(seed: int, name: str) -> int:
    """A number that stands for a seed and a site's name, the same in every process."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def mix(*numbers: int) -> int:
    """Numbers scrambled into one of 64 bits, so that neighbouring steps and sites share no noise."""
    state = 0
    for number in numbers:
        state = (state ^ (number & _MASK)) * 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return state


def uniform(like: Tensor, *key: int) -> Tensor:
    """Integers uniform over all 16 bits, laid out in memory like the given tensor."""
    if like.is_meta:
        return torch.empty_like(like, dtype=torch.int16)
    generator = _GENERATORS.get(like.device)
    if generator is None:
        generator = _GENERATORS[like.device] = torch.Generator(like.device)
    generator.manual_seed(mix(*key))
    count = like.numel()
    draws = torch.empty((count + 3) // 4, dtype=torch.int64, device=like.device)
    draws.random_(-(2**63), None, generator=generator)
    layout = torch.empty_like(like, device="meta")  # without gaps in memory, whatever its order of dimensions
    return draws.view(torch.int16).as_strided(layout.shape, layout.stride())
