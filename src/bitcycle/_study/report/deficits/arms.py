"""How the arms of a deficit experiment are told apart: by colour, by mark and by line, never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitcycle._study.deficits import ARMS
from bitcycle._study.report.look import Kind
from bitcycle._study.report.markup import Markup, tag
from bitcycle._study.report.svg import line, mark


@dataclass(frozen=True)
class Arm:
    """An arm as the report shows it."""

    name: str
    """As in :data:`bitcycle._study.deficits.ARMS`."""
    title: str
    meaning: str
    kind: Kind
    dash: int
    """The number of its pattern of line in the style sheet."""
    linestyle: Any
    """The same for matplotlib."""

    @property
    def key(self) -> str:
        """What names it within its section of the page."""
        return str(ARMS.index(self.name))


SHOWN = {
    arm.name: arm
    for arm in (
        Arm(
            "held",
            "held",
            "the learning rate stands still during the deficit, as in the paper",
            Kind("held", "held", "#D55E00", "square", "s"),
            0,
            "-",
        ),
        Arm(
            "restarted",
            "restarted",
            "the learning rate runs on through the deficit and begins anew after it, with a fresh optimiser",
            Kind("restarted", "restarted", "#0072B2", "circle", "o"),
            1,
            (0, (5, 2)),
        ),
        Arm(
            "longer",
            "longer (control)",
            "no deficit: as many steps, and the same learning rates, as held",
            Kind("longer", "longer (control)", "#009E73", "triangle", "^"),
            2,
            (0, (1.5, 1.5)),
        ),
    )
}


def sign(arm: Arm) -> Markup:
    """The line and the mark of an arm, as large as a line of text.

    >>> sign(SHOWN["held"]).count("<line"), sign(SHOWN["held"]).count("<path")
    (1, 1)
    """
    drawn = line(0, 7, 44, 7, f"stroke dash-{arm.dash}") + mark(arm.kind, 22, 7, 4.6)
    return tag("svg", drawn, viewBox="0 0 44 14", class_=f"chip-line kind-{arm.kind.name}", aria_hidden="true")
