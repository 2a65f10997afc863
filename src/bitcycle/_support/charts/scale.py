"""Scales from numbers to pixels, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map of numbers from ``low`` to ``high`` onto pixels from ``start`` to ``end``.

    >>> scale = Scale(0, 10, start=100, end=200)
    >>> scale(5)
    150.0
    >>> Scale(1, 100, start=0, end=10, logarithmic=True)(10)
    5.0
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, number: float) -> float:
        low, high, at = (math.log(value) if self.logarithmic else value for value in (self.low, self.high, number))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Return round numbers within the scale."""
        return decades(self.low, self.high) if self.logarithmic else ticks(self.low, self.high, count)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return about ``count`` multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(0.913, 0.957)
    [0.92, 0.93, 0.94, 0.95]
    """
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(math.log(factor * power / rough)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Return powers of ten, thinned out where there are many, with three times each where there are few.

    >>> decades(0.5, 200), decades(0.8, 40)
    ([1.0, 10.0, 100.0], [1.0, 3.0, 10.0, 30.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = [10.0**power for power in range(first, last + 1)]
    inside = [power for power in powers if low * (1 - 1e-9) <= power <= high * (1 + 1e-9)]
    if len(inside) > 2:
        return inside[:: 1 + len(inside) // 6]
    return [float(f"{n:.12g}") for power in powers for n in (power, 3 * power) if low <= n <= high]


def tick_texts(numbers: list[float]) -> list[str]:
    """Format numbers with the same decimals, or in scientific notation if they are very large or small.

    >>> tick_texts([0.9, 0.95, 1.0]), tick_texts([0.0, 5000.0]), tick_texts([2e-8, 1e9])
    (['0.90', '0.95', '1.00'], ['0', '5,000'], ['2e-8', '1e9'])
    """
    places = max((_places(number) for number in numbers), default=0)
    if places > 6 or any(abs(number) >= 1e7 for number in numbers):
        texts = [f"{number:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e") for number in numbers]
    else:
        texts = [f"{number:,.{places}f}" for number in numbers]
    return [text.replace("-", MINUS) if "e" not in text else text for text in texts]


def _places(number: float) -> int:
    text = f"{number:.12g}"
    return 12 if "e-" in text else len(text.partition(".")[2])


def span(numbers: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """Return the range of the finite numbers with a margin around it; it is never empty.

    >>> span([1.0, 3.0], margin=0.5), span([2.0])
    ((0.0, 4.0), (1.8, 2.2))
    """
    finite = [number for number in numbers if math.isfinite(number)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = (high - low) * margin
    if room <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(low) or 1.0
    return low - room, high + room
