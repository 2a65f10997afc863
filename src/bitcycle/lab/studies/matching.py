"""Controls at equal cost: schedules without cycles that cost exactly as much as a given schedule.

A schedule that beats static q_max at a lower cost may do so because it cycles, because of its mean precision, or
because of when it spends its bits. Controls of the same cost tell these apart:

    mixed      a static width between two integers: the same precision at every step
    low-high   q_min first, then q_max
    high-low   q_max first, then q_min
    dip        q_max, q_min in the middle, q_max

Each has one parameter, which :func:`match` solves for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from itertools import combinations_with_replacement

from bitcycle._support.names import validate_name
from bitcycle._support.text import short_repr
from bitcycle.schedules.base import Bits, validate_steps
from bitcycle.schedules.combinators import Deficit, Window
from bitcycle.schedules.constant import DECIMALS, Constant, Mixed
from bitcycle.schedules.interface import Schedule
from bitcycle.schedules.operands import OperandSchedules

TOLERANCE = 1e-3
"""The largest relative difference of cost between a schedule and its control."""

MAX_BETWEEN = 3
"""The most steps at widths between q_min and q_max."""

CostOf = Callable[[Schedule], float]
"""The cost of a whole training under a schedule, in any unit."""


class Control(StrEnum):
    """The kinds of control."""

    MIXED = "mixed"
    LOW_HIGH = "low-high"
    HIGH_LOW = "high-low"
    DIP = "dip"


def match(
    reference: Schedule,
    control: Control | str,
    total: int,
    backward_bits: Bits | str = "max",
    cost: CostOf | None = None,
) -> Schedule:
    """Return the control that costs as much as a schedule, between the same q_min and q_max.

    Args:
        reference: The schedule.
        control: The kind of control.
        total: Total number of training steps.
        backward_bits: Gradient bits of both; ``"max"`` is q_max of the reference, ``None`` is full precision.
        cost: The cost of a training run; by default ``q^2 + 2 q b`` summed over the steps, with gradient bits ``b``.
            If the first layers of a model need no gradient of their input, its cost is different: pass ``bc.cost``'s
            ``lambda s: c.training(s, total, backward_bits)``.

    Returns:
        The control. Where it changes between q_min and q_max, up to three steps have widths in between, so that the
        costs agree.

    Raises:
        ValueError: If the reference has steps in full precision or a single width, or if the run is so short that no
            control has the same cost to 0.1 %.

    Example:
        >>> from bitcycle.schedules import schedule
        >>> [str(match(schedule("CR:3-8"), control, 64_000)) for control in ("mixed", "low-high")]
        ['static:5.615117', 'deficit(3@0..33371, static:8)']
    """
    total = validate_steps(total)
    kind = Control(validate_name(control, Control, "control"))
    q_min, q_max = reference.limits(total)
    if q_min is None or q_max is None or q_min == q_max:
        raise ValueError(
            f"{short_repr(str(reference))} does not move between two widths, so it has no control at equal cost"
        )
    gradients = q_max if backward_bits == "max" else backward_bits
    price = cost or (lambda s: OperandSchedules.of(s, gradients).cost(total))
    target = price(reference)
    if kind is Control.MIXED:
        found = _solved_mixture(q_min, q_max, target, price)
    else:
        found = _solved_window(kind, q_min, q_max, total, target, price)
    if abs(price(found) / target - 1) > TOLERANCE:
        raise ValueError(
            f"no control of the kind {kind} costs as much as {short_repr(str(reference))} in {total} steps, "
            f"to {100 * TOLERANCE:g} %: use more steps"
        )
    return found


def _solved_mixture(q_min: int, q_max: int, target: float, price: CostOf) -> Schedule:
    scale = 10**DECIMALS

    def static(parts: int) -> Schedule:
        return Constant(parts // scale) if parts % scale == 0 else Mixed(parts / scale)

    first_costlier = _first(q_min * scale, q_max * scale, lambda parts: price(static(parts)) >= target)
    candidates = [static(parts) for parts in (first_costlier - 1, first_costlier) if q_min * scale <= parts]
    return _closest(candidates, target, price)


def _solved_window(kind: Control, q_min: int, q_max: int, total: int, target: float, price: CostOf) -> Schedule:
    """Return a window at q_min, with the steps between q_min and q_max that bring the cost closest to the target."""

    def with_window(low: int, between: tuple[int, ...] = ()) -> Schedule:
        lengths = Counter({q_min: low}) + Counter(width for width in between if width < q_max)
        rest = total - lengths.total()
        windows, start = [], {Control.LOW_HIGH: 0, Control.HIGH_LOW: rest, Control.DIP: rest // 2}[kind]
        for width, length in sorted(lengths.items(), reverse=kind is Control.HIGH_LOW):
            windows.append(Window(start, start + length, width))
            start += length
        return Deficit(tuple(windows), Constant(q_max)) if windows else Constant(q_max)

    longest = _first(1, total + 1, lambda low: low > total or price(with_window(low)) < target) - 1
    low = max(0, longest - 1)  # one step less at q_min leaves more ways to fill up the cost
    fillings = combinations_with_replacement(range(q_min, q_max + 1), min(MAX_BETWEEN, total - low))
    return _closest([with_window(low, widths) for widths in fillings], target, price)


def _first(start: int, stop: int, reached: Callable[[int], bool]) -> int:
    """Return the first integer from ``start`` that has reached something, at most ``stop``."""
    return start + bisect_left(range(start, stop), True, key=reached)


def _closest(candidates: list[Schedule], target: float, price: CostOf) -> Schedule:
    return min(candidates, key=lambda each: abs(price(each) - target))
