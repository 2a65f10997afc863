"""What a family of grids is: the widths it has, and how a tensor is rounded at one of them."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

from torch import Tensor

from bitcycle._support.names import nearest
from bitcycle.kernels.float_rounding import Blocks
from bitcycle.kernels.rounding import Dims, Noise, Width
from bitcycle.schedules import Constant, Schedule

LAST = Blocks((-1,))

FP6Format = Literal["E2M3", "E3M2"]
GradFormat = Literal["E4M3", "E5M2"]


@dataclass(frozen=True)
class GridFamily(ABC):
    """A meaning for each width: the grid that values are rounded to.

    Args:
        fp6_format: The floating-point format of 6 bits.
        grad_format: The floating-point format of errors (grad_output) of 8 bits.
    """

    name: ClassVar[str]
    """The value of ``Recipe(grid=...)``."""
    widths: ClassVar[tuple[int, ...]]
    """The widths it has, narrowest first."""
    block: ClassVar[int | None] = None
    """How many values share a scale, if scales belong to blocks along the dimension that a product sums over."""
    has_codes: ClassVar[bool] = False
    """Whether values are integer codes times a scale, which integers can multiply."""
    symmetric: ClassVar[bool] = False
    """Whether zero is the middle of the codes."""
    has_zero: ClassVar[bool] = True
    """Whether zero is on every grid, so that zeros stay zero."""

    fp6_format: FP6Format = "E2M3"
    grad_format: GradFormat = "E4M3"

    @abstractmethod
    def round(
        self,
        x: Tensor,
        bits: Width,
        dims: Dims = None,
        noise: Noise = None,
        *,
        along: Blocks = LAST,
        error: bool = False,
    ) -> Tensor:
        """Round a tensor: to nearest, ties to even, or stochastically if noise is given.

        Values that are not finite are never made finite: those that share a scale with one pass through unchanged.

        Args:
            x: The tensor.
            bits: One of the widths, or 0 for full precision. In a compiled graph it is a tensor.
            dims: The dimensions that share one scale, ``None`` for all of them. Blocks have scales of their own.
            noise: For stochastic rounding; see :mod:`bitcycle.kernels.noise`.
            along: The dimensions that blocks run along.
            error: Whether the tensor is an error (grad_output), which can have another format.
        """

    @abstractmethod
    def describe(self, bits: int, error: bool = False) -> str:
        """Return what a width means, in a few words such as ``"E2M1, blocks of 32"``."""

    def check_width(self, bits: object, what: str = "bits") -> int | None:
        """Return a width that the family has, or ``None`` for full precision.

        Raises:
            ValueError: The family does not have this width. ``what`` names the value in the message.
        """
        if bits is None:
            return None
        try:
            width = 0 if isinstance(bits, bool) else operator.index(bits)  # type: ignore[arg-type]
        except TypeError:
            width = 0
        if width not in self.widths:
            raise ValueError(f"{what} must be {self._listed()} or None (full precision), got {bits!r}")
        return width

    def width_for(self, bits: int | None, what: str = "bits") -> int | None:
        """Return the narrowest width of the family that is at least ``bits``: what a schedule's width runs at.

        Raises:
            ValueError: ``bits`` is more than the family has. ``what`` names the value in the message.
        """
        if bits is None:
            return None
        found = next((width for width in self.widths if width >= bits), None)
        return self.check_width(bits, what) if found is None else found

    def check_schedule(self, schedule: Schedule, total: int, what: str) -> None:
        """Check the widths of a schedule: a constant one must exist, others move between those there are.

        Raises:
            ValueError: The family lacks a constant width, or has none as large as the largest of the schedule.
        """
        if isinstance(schedule, Constant):
            self.check_width(schedule.bits, what)
        else:
            self.width_for(schedule.limits(total)[1], f"the largest of {what}")

    def _listed(self) -> str:
        """Return the widths in words."""
        first, last = self.widths[0], self.widths[-1]
        if self.widths == tuple(range(first, last + 1)):
            listed = f"an integer from {first} to {last}"
        else:
            listed = " or ".join(map(str, self.widths))
        return listed if self.name == DEFAULT else f"{listed} on the grid {self.name!r}"


DEFAULT = "integer"
GRIDS: dict[str, type[GridFamily]] = {}
"""The families by name."""


def register_grid(family: type[GridFamily]) -> type[GridFamily]:
    """Make a family known by its name. Use it as a decorator."""
    GRIDS[family.name] = family
    return family


@cache
def grid_family(name: str, fp6_format: FP6Format = "E2M3", grad_format: GradFormat = "E4M3") -> GridFamily:
    """Return a family by name. The same arguments give the same object.

    Raises:
        ValueError: There is no such family.
    """
    if name not in GRIDS:
        raise ValueError(f"unknown grid {name!r}; {nearest(name, GRIDS)}")
    return GRIDS[name](fp6_format, grad_format)
