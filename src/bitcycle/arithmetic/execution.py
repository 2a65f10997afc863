"""How sites compute what their recipe says: simulated (round, multiply in float) or in integers.

Both compute the same function, and differ only by the rounding of floating-point sums. Execution is decided by the
machine and by shapes, never by a measurement while training, so that a training can be repeated bit for bit.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from bitcycle.kernels import native

_AS_IS = nullcontext()


class Execution(Enum):
    """How the sites of a model compute. The value is what a run records."""

    SIMULATED = "simulated"
    INTEGER = "integer"
    """In integers wherever that is exact."""
    FASTEST = "fastest"
    """In integers where that is exact and faster: what ``"auto"`` means on a machine with fast integer products."""


class Reason(Enum):
    """Why a product is not computed in integers. The value is shown by ``bc.summary``."""

    NOT_ASKED = "simulated"
    FULL_PRECISION = "full precision"
    ONE_FULL = "an operand in full precision"
    STRENGTH = "strength below 1"
    WIDTH = "more than 8 bits"
    DTYPE = "double precision"
    DEVICE = "only execute='integer' uses integers on this device"
    EMPTY = "empty"
    FORMAT = "floating-point numbers"
    WHOLE = "computed as a whole"
    KIND = "no integer kernel for this product"
    GEOMETRY = "no integer kernel for this geometry"
    ROUNDED_BEFORE = "an operand is rounded elsewhere"
    GRANULARITY = "scales along the summed dimension"
    NO_GRID = "values without a grid"
    SMALL = "too small to be faster"


class ExecutionPlan(NamedTuple):
    """How the three products of a site are computed: None means in integers, else why they are simulated."""

    output: Reason | None
    input_gradient: Reason | None
    weight_gradient: Reason | None

    @classmethod
    def simulated(cls, reason: Reason) -> ExecutionPlan:
        """All three simulated, for one reason."""
        return cls(reason, reason, reason)

    def __str__(self) -> str:
        """Describe it in a few words.

        >>> str(ExecutionPlan.simulated(Reason.WIDTH))
        'simulated (more than 8 bits)'
        >>> str(ExecutionPlan(None, Reason.GRANULARITY, None))
        'integer; input gradient simulated (scales along the summed dimension)'
        """
        if len(set(self)) == 1:
            if self.output is None or self.output in (Reason.NOT_ASKED, Reason.FULL_PRECISION):
                return "integer" if self.output is None else self.output.value
            return f"simulated ({self.output.value})"
        names = ("output", "input gradient", "weight gradient")
        simulated = [
            f"{name} simulated ({why.value})" for name, why in zip(names, self, strict=True) if why is not None
        ]
        return "; ".join(["integer", *simulated])


def resolve(execute: str) -> Execution:
    """Return the execution for ``"simulated"``, ``"integer"`` or ``"auto"`` on this machine, or for a recorded value.

    Raises:
        ValueError: There is no such execution, or this machine cannot compute in integers.
    """
    if execute == "auto":
        return Execution.FASTEST if integers_are_fast() else Execution.SIMULATED
    try:
        execution = Execution(execute)
    except ValueError:
        raise ValueError(f"execute must be 'simulated', 'integer' or 'auto', got {execute!r}") from None
    if execution is not Execution.SIMULATED and not integers_are_right():
        raise ValueError(
            f"execute={execute!r}: torch._int_mm gives wrong results on this machine; use execute='simulated'"
        )
    return execution


@cache
def integers_are_right() -> bool:
    """Return whether integer matrix products are exact here; some old CPUs and versions of torch saturate. Cached."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(-128, 128, (64, 256), generator=generator, dtype=torch.int8, device="cpu")
    b = torch.randint(-128, 128, (256, 64), generator=generator, dtype=torch.int8, device="cpu")
    a[0], b[:, 0], b[:, 1] = -128, -128, 127
    try:
        return torch.equal(torch._int_mm(a, b).double(), a.double() @ b.double())
    except RuntimeError:
        return False


@cache
def integers_are_fast() -> bool:
    """Return whether integer matrix products are exact and clearly faster than float ones here. Measured once.

    The difference is large: on CPUs with VNNI they take about a quarter of the time, on others many times as long.
    """
    if native.current_kernels() == "reference" or not integers_are_right():
        return False
    # Random numbers would change those of the caller.
    a, b = torch.linspace(-1, 1, 2 * 256 * 256, dtype=torch.float32, device="cpu").view(2, 256, 256)
    a8, b8 = (x.mul(127).to(torch.int8) for x in (a, b))
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(25):
        for in_integers in (True, False):
            start = time.perf_counter()
            if in_integers:
                torch._int_mm(a8, b8.t())
            else:
                torch.mm(a, b.t())
            seconds[in_integers].append(time.perf_counter() - start)
    return min(seconds[True]) < 0.7 * min(seconds[False])  # other work on the machine makes some of them slow


def is_autocast_enabled(x: Tensor) -> bool:
    """Return whether autocast applies to products of a tensor; it does not on devices that do not know it."""
    device = x.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context in which autocast does not apply to products of a tensor."""
    return torch.autocast(x.device.type, enabled=False) if is_autocast_enabled(x) else _AS_IS
