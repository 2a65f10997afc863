"""Options of a task, and how their values are read."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Option:
    """A setting of a task that the user can choose, in addition to the model, the data and the schedule.

    Example:
        >>> Option("full", "precision of sums over neighbours", ("full", "quantized")).default
        'full'
    """

    default: str
    """The value if the run does not set the option."""
    about: str
    """One line for ``bitcycle tasks``."""
    choices: tuple[str, ...] = ()
    """The allowed values; any value if empty."""


AUTO = "auto"
"""The default of options whose value follows from the data or the model."""


def parse_positive_int(name: str, text: str, auto: int | None = None) -> int:
    """Return the value of an option as an integer of 1 or more.

    Args:
        name: The name of the option.
        text: Its value.
        auto: What :data:`AUTO` stands for, if the option allows it.

    Raises:
        ValueError: If the value is not such an integer.

    Example:
        >>> parse_positive_int("hidden", "200"), parse_positive_int("hidden", "auto", auto=64)
        (200, 64)
    """
    if text == AUTO and auto is not None:
        return auto
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be an integer of 1 or more, got {text!r}")
    return int(text)


def parse_positive_float(name: str, text: str, auto: float) -> float:
    """Return the value of an option as a number above 0, where :data:`AUTO` stands for ``auto``.

    Raises:
        ValueError: If the value is not such a number.

    Example:
        >>> parse_positive_float("rate", "5e-5", auto=1e-5), parse_positive_float("rate", "auto", auto=1e-5)
        (5e-05, 1e-05)
    """
    if text == AUTO:
        return auto
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be a number above 0, got {text!r}")
    return number
