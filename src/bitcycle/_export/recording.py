"""What a run of the model shows: which operands are weights, and the ranges of all others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bitcycle.arithmetic import Observer, Site, observing
from bitcycle.conversion.running import preserve_state, run_on_copies
from bitcycle.conversion.sites import sites
from bitcycle.grids.integer import IntegerGrid


class Range(NamedTuple):
    """The smallest and the largest value of an operand."""

    low: float
    high: float

    @property
    def is_finite(self) -> bool:
        """Whether there is a grid of this range."""
        return self.high - self.low < math.inf  # false for NaN too

    def joined(self, other: Range) -> Range:
        """Return the range of the values of both; it is NaN if one of them is."""
        return Range(float(np.minimum(self.low, other.low)), float(np.maximum(self.high, other.high)))


class Recording(Observer):
    """Records the operands of the sites of a model, by site and name of the operand.

    An operand is a weight if it lies in the memory of a parameter or of a buffer, and is the same in every call.
    """

    def __init__(self, model: nn.Module) -> None:
        stored = (*model.parameters(), *model.buffers())
        self._addresses = {tensor.untyped_storage().data_ptr() for tensor in stored}
        self._weights: dict[tuple[Site, str], tuple[Tensor, Tensor] | None] = {}  # with their values on the grid
        self.ranges: dict[tuple[Site, str], Range] = {}
        self.dtypes: dict[torch.dtype, Site] = {}
        """The dtypes of operands, and the first site of each."""

    def rounded(self, site: Site, operand: str, before: Tensor, after: Tensor) -> None:
        key, x = (site, operand), before.detach()
        self.dtypes.setdefault(x.dtype, site)
        is_stored = x.untyped_storage().data_ptr() in self._addresses
        first = self._weights.get(key, (x, after))
        is_weight = is_stored and first is not None and _same_memory(first[0], x)
        self._weights[key] = (x, after) if is_weight else None
        if x.numel():
            found = Range(*(float(end) for end in torch.aminmax(x)))
            self.ranges[key] = found.joined(self.ranges.get(key, found))

    def weight(self, site: Site, operand: str) -> Tensor | None:
        """Return the weight that is an operand of a site; None if the operand is an activation."""
        found = self._weights.get((site, operand))
        return None if found is None else found[0]

    def weights_of(self, site: Site) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the weights of a site, each with its values on the grid."""
        for key, found in self._weights.items():
            if key[0] is site and found is not None:
                yield found


def record(model: nn.Module, batches: Iterable[Any]) -> Recording:
    """Run a model on batches of inputs, and return what its sites rounded.

    Raises:
        ValueError: There is no batch.
    """
    recording, empty = Recording(model), True
    with observing(recording), preserve_state(model):
        for batch in batches:
            run_on_copies(model, batch)
            empty = False
    if empty:
        raise ValueError("calibration has no batch: give some inputs of the model, or None")
    return recording


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run a converted model as it is deployed: in evaluation mode and without gradients.

    Raises:
        ValueError: The model is not converted, its evaluation bits were never set, or it is not on integer grids.
    """
    if not any(site.evaluation_was_set for site in sites(model).values()):
        raise ValueError("the evaluation bits of the model were never set: call bc.set_bits(model, evaluate=8) first")
    if any(site.evaluation.strength != 1 for site in sites(model).values()):
        raise ValueError("a model is exported on its grids: call bc.set_bits(model, strength=1) first")
    grids = {site.recipe.grid for site in sites(model).values() if not isinstance(site.settings.grid, IntegerGrid)}
    if grids:
        raise ValueError(f"only grids of integers can be exported, and the model has Recipe(grid={min(grids)!r})")
    with preserve_state(model), torch.no_grad():
        model.eval()
        yield


def is_symmetric(site: Site) -> bool:
    """Return whether the grids of a site are symmetric."""
    grid = site.settings.grid
    return isinstance(grid, IntegerGrid) and grid.symmetric


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return (a.data_ptr(), a.shape, a.stride()) == (b.data_ptr(), b.shape, b.stride())
