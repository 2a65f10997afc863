"""The Pareto front of cost and quality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitcycle._study.statistics.rounding import significant


def on_front(costs: Sequence[float], qualities: Sequence[float]) -> list[bool]:
    """Which settings no other one dominates; a higher quality is better.

    One setting dominates another if it costs no more, is no worse, and is ahead in one of the two. A setting without
    a finite cost and quality is neither on the front nor dominates anything.

    >>> on_front([1, 2, 3, 3], [0.8, 0.9, 0.9, float("nan")])
    [True, True, False, False]
    """
    cost, quality = significant(costs), significant(qualities)
    usable = np.isfinite(cost) & np.isfinite(quality)
    no_dearer = cost[:, None] <= cost
    no_worse = quality[:, None] >= quality
    ahead = (cost[:, None] < cost) | (quality[:, None] > quality)
    dominated = (usable[:, None] & no_dearer & no_worse & ahead).any(axis=0)
    return [bool(flag) for flag in usable & ~dominated]
