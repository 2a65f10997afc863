"""What advice consists of, and how it reads."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from bitcycle.schedules import Schedule

LINE = 100


@dataclass(frozen=True)
class Option:
    """A schedule that one could use, what it saves against static q_max, and why one would use it."""

    schedule: Schedule
    saving: float
    reason: str

    @property
    def spec(self) -> str:
        return str(self.schedule)

    def as_dict(self) -> dict[str, Any]:
        return {"schedule": self.spec, "saving": self.saving, "reason": self.reason}


@dataclass(frozen=True)
class Advice:
    """The schedule to use, with everything that speaks for it, and what lies on both sides of it."""

    schedule: Schedule
    saving: float
    """The share of static q_max's cost that is saved, from 0 to 1."""
    reasons: list[str]
    """Sentences, each of which begins with its source."""
    cheaper: Option | None
    """The next option that saves more; ``None`` at the end of the scale."""
    better: Option | None
    """The next option that saves less and has more precision; ``None`` at the end of the scale."""
    steps: int
    q_max: int

    @property
    def spec(self) -> str:
        return str(self.schedule)

    @property
    def code(self) -> str:
        """Three lines for an existing training loop."""
        return (
            "bc.quantize(model)\n"
            f'precision = bc.PrecisionScheduler(model, "{self.spec}", total_steps={self.steps}, '
            f"backward_bits={self.q_max})\n"
            "precision.step()  # after each optimizer.step()"
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "schedule": self.spec,
            "saving": self.saving,
            "reasons": self.reasons,
            "cheaper": None if self.cheaper is None else self.cheaper.as_dict(),
            "better": None if self.better is None else self.better.as_dict(),
            "code": self.code,
            "steps": self.steps,
            "q_max": self.q_max,
        }

    def __str__(self) -> str:
        lines = [f"use {self.spec}: saves {percent(self.saving)} of the cost of static {self.q_max} bits", "", "why"]
        lines += [_paragraph(f"- {reason}") for reason in self.reasons]
        lines += ["", _alternative("cheaper", self.cheaper), _alternative("better", self.better)]
        return "\n".join([*lines, "", "code", textwrap.indent(self.code, "    ")])


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.3666)
    '36.7 %'
    >>> percent(0.4)
    '40 %'
    """
    return f"{round(100 * share, 1):g} %"


def _alternative(kind: str, option: Option | None) -> str:
    if option is None:
        return f"{kind}: nothing, this is the end of the scale"
    return _paragraph(f"{kind}: {option.spec} saves {percent(option.saving)}. {option.reason}")


def _paragraph(text: str) -> str:
    return textwrap.fill(text, LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
