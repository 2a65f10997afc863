"""The rows of each training batch."""

from __future__ import annotations

import torch
from torch import Tensor

from bitcycle.kernels.noise import mix


class Batches:
    """Row numbers of the batch of each step: a new permutation of all rows in every epoch.

    A batch is a function of (seed, step), so that any step can be repeated. It may extend across the end of an epoch.

    Args:
        rows: Number of samples.
        size: Samples per batch.
        seed: Random seed.

    Example:
        >>> batches = Batches(rows=5, size=2, seed=0)
        >>> sorted(torch.cat([batches(step) for step in range(5)]).tolist())
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        >>> batches.per_epoch
        3
    """

    def __init__(self, rows: int, size: int, seed: int) -> None:
        self.rows, self.size, self.seed = rows, size, seed
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def __call__(self, step: int) -> Tensor:
        positions = range(step * self.size, (step + 1) * self.size)
        return torch.stack([self._permutation(n // self.rows)[n % self.rows] for n in positions])

    @property
    def per_epoch(self) -> int:
        """Number of steps in one epoch, rounded up."""
        return -(-self.rows // self.size)

    def _permutation(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(mix(self.seed, epoch) >> 1)
            self._epoch, self._order = epoch, torch.randperm(self.rows, generator=generator)
        return self._order
