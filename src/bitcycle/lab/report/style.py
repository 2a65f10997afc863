"""How groups of settings, arms of deficit experiments and verdicts look: shape and dash differ as well as colour.

The colours are in ``chart.css``, under the class ``kind-<name>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle._support.charts.drawing import MarkShape, line, mark
from bitcycle._support.charts.markup import Markup, tag
from bitcycle.lab.statistics.analysis import Setting
from bitcycle.schedules.base import FULL_WIDTH

SHADES = 9
"""``chart.css`` has this many colours from short to long, ``shade-0`` to ``shade-8``."""


@dataclass(frozen=True)
class Kind:
    """A group of schedules, a kind of baseline, or an arm."""

    name: str
    title: str
    shape: MarkShape

    @property
    def class_(self) -> str:
        """The class of its colour."""
        return f"kind-{self.name}"

    def sign(self, dash: int | None = None) -> Markup:
        """Return the mark as an icon for text, on a line with a dash pattern if one is given."""
        if dash is None:
            return icon(mark(self.shape, 7, 7, 4.6), 14, f"chip-mark {self.class_}")
        return icon(stroke(44, dash) + mark(self.shape, 22, 7, 4.6), 44, f"chip-line {self.class_}")


def stroke(width: float, dash: int) -> Markup:
    """Return a sample of a line for an icon."""
    return line(0, 7, width, 7, f"stroke dash-{dash}")


def icon(content: Markup, width: int, class_: str) -> Markup:
    """Return a small drawing that stands in a line of text."""
    return tag("svg", content, viewBox=f"0 0 {width} 14", class_=class_, aria_hidden="true")


LARGE = Kind("large", "large saving", MarkShape.CIRCLE)
MEDIUM = Kind("medium", "medium saving", MarkShape.SQUARE)
SMALL = Kind("small", "small saving", MarkShape.DIAMOND)
STATIC = Kind("static", "static", MarkShape.TRIANGLE)
FULL = Kind("full", "full precision", MarkShape.CROSS)
OTHER = Kind("other", "no group", MarkShape.FLAG)
GROUPS = {kind.name: kind for kind in (LARGE, MEDIUM, SMALL)}
KINDS = (*GROUPS.values(), STATIC, FULL, OTHER)


def kind_of(setting: Setting) -> Kind:
    """Return the group of a setting, or what sort of baseline it is."""
    if setting.group in GROUPS:
        return GROUPS[setting.group]
    if not setting.baseline:
        return OTHER
    return FULL if setting.mean_bits >= FULL_WIDTH else STATIC


def by_kind(settings: Sequence[Setting]) -> list[tuple[Kind, list[Setting]]]:
    """Return the settings by kind, in the order of the saving."""
    members = [(kind, [setting for setting in settings if kind_of(setting) is kind]) for kind in KINDS]
    return [(kind, some) for kind, some in members if some]


@dataclass(frozen=True)
class ArmStyle(Kind):
    """An arm of a deficit experiment, named as in :class:`bitcycle.lab.studies.deficits.Arm`."""

    meaning: str
    dash: int


HELD = ArmStyle(
    "held",
    "held",
    MarkShape.SQUARE,
    "the learning rate is held constant during the deficit, as in the paper",
    dash=0,
)
RESTARTED = ArmStyle(
    "restarted",
    "restarted",
    MarkShape.CIRCLE,
    "the learning-rate schedule runs through the deficit and starts again after it, with a fresh optimiser",
    dash=1,
)
LONGER = ArmStyle(
    "longer",
    "longer (control)",
    MarkShape.TRIANGLE,
    "no deficit: the same number of steps and the same learning rates as held",
    dash=2,
)
ARM = {arm.name: arm for arm in (HELD, RESTARTED, LONGER)}


def shades(count: int) -> list[str]:
    """Return the classes of ``count`` colours, as far apart as the scale allows.

    >>> shades(3), shades(1)
    (['shade-0', 'shade-4', 'shade-8'], ['shade-8'])
    """
    last = SHADES - 1
    return [f"shade-{round(i * last / (count - 1)) if count > 1 else last}" for i in range(count)]
