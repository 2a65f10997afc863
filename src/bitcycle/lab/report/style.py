"""How groups of settings and arms of deficit experiments look: shape and dash differ as well as colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bitcycle._support.figures import COLOURS, SHADES, MarkShape
from bitcycle.lab.statistics.analysis import Setting
from bitcycle.schedules.base import FULL_WIDTH

SIGNS = dict(zip(MarkShape, "●■◆▲✚▼", strict=True))
"""The shapes of marks as characters, for text."""


@dataclass(frozen=True)
class Kind:
    """A group of schedules, a kind of baseline, or an arm."""

    name: str
    title: str
    shape: MarkShape
    tint: str
    """The name of its colour."""

    @property
    def colour(self) -> str:
        """Its colour on a light page."""
        return COLOURS[self.tint]

    @property
    def sign(self) -> str:
        """Its mark as a character."""
        return SIGNS[self.shape]


LARGE = Kind("large", "large saving", MarkShape.CIRCLE, "large")
MEDIUM = Kind("medium", "medium saving", MarkShape.SQUARE, "medium")
SMALL = Kind("small", "small saving", MarkShape.DIAMOND, "small")
STATIC = Kind("static", "static", MarkShape.TRIANGLE, "static")
FULL = Kind("full", "full precision", MarkShape.CROSS, "full")
OTHER = Kind("other", "no group", MarkShape.FLAG, "other")
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
    "medium",
    "the learning rate is held constant during the deficit, as in the paper",
    dash=0,
)
RESTARTED = ArmStyle(
    "restarted",
    "restarted",
    MarkShape.CIRCLE,
    "large",
    "the learning-rate schedule runs through the deficit and starts again after it, with a fresh optimiser",
    dash=1,
)
LONGER = ArmStyle(
    "longer",
    "longer (control)",
    MarkShape.TRIANGLE,
    "static",
    "no deficit: the same number of steps and the same learning rates as held",
    dash=2,
)
ARM = {arm.name: arm for arm in (HELD, RESTARTED, LONGER)}


def shades(count: int) -> list[str]:
    """Return the names of ``count`` colours, as far apart as the scale allows.

    >>> shades(3), shades(1)
    (['shade-0', 'shade-4', 'shade-8'], ['shade-8'])
    """
    names, last = list(SHADES), len(SHADES) - 1
    return [names[round(i * last / (count - 1)) if count > 1 else last] for i in range(count)]
