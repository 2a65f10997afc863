"""Options of a task, and how their values are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

AUTO = "auto"
"""The default of options whose value follows from the data or the model."""


@dataclass(frozen=True)
class Option:
    """A setting of a task that the user can choose, in addition to the model, the data and the schedule.

    Example:
        >>> Option("full", "precision of sums over neighbours", ("full", "quantized")).default
        'full'
        >>> Option("auto", "units of hidden layers", kind=int).parse("hidden", "200")
        200
    """

    default: str
    """The value if the run does not set the option."""
    about: str
    """One line for ``bitcycle tasks``."""
    choices: tuple[str, ...] = ()
    """The allowed values; any value if empty."""
    kind: type[str] | type[int] | type[float] = str
    """``int`` for an integer of 1 or more, ``float`` for a number above 0. With the default ``auto``, that value is
    read as ``None``."""

    def parse(self, name: str, text: str) -> Any:
        """Return the value of the option of this name.

        Raises:
            ValueError: If it is not one of the choices, or not such a number.
        """
        if self.choices and text not in self.choices:
            raise ValueError(
                f"{name} must be {' or '.join(repr(str(choice)) for choice in self.choices)}, got {text!r}"
            )
        if self.kind is str or text == AUTO == self.default:
            return text if self.kind is str else None
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        if not 0 < float(value) < math.inf:
            expected = "an integer of 1 or more" if self.kind is int else "a number above 0"
            raise ValueError(f"{name} must be {expected}, got {text!r}")
        return value


ACTIVATIONS = Option(
    AUTO,
    "one grid per token (auto), so that neither later words nor other samples change a prediction, or one grid for the "
    "activations of a tensor, as in the paper",
    (AUTO, "tensor"),
)
"""The granularity of activations in tasks over tokens."""
