"""Runs of four settings: a baseline, one that is as good, one that is worse, and one that saves little."""

from dataclasses import dataclass


@dataclass
class Run:
    schedule: str
    seed: int
    quality: float
    cost: float


def runs(spec, qualities, cost, first_seed=0):
    return [Run(spec, first_seed + seed, quality, cost) for seed, quality in enumerate(qualities)]


BASE = runs("static:8", [0.90, 0.91, 0.89, 0.92, 0.90], 100.0)
AS_GOOD = runs("CT:3-8", [0.901, 0.909, 0.892, 0.918, 0.901], 63.0)
WORSE = runs("RTH:3-8", [0.85, 0.86, 0.85, 0.86, 0.84], 40.0)
SMALL = runs("ETH:3-8", [0.902, 0.911, 0.893, 0.921, 0.902], 82.0)
