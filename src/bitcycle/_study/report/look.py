"""How kinds of settings are told apart: by colour and by shape, never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from bitcycle._study.analysis import Setting
from bitcycle.schedules.base import FULL_WIDTH


@dataclass(frozen=True)
class Kind:
    """A group of schedules, or a kind of baseline."""

    name: str
    title: str
    colour: str
    """One of Okabe and Ito's, which colour-blind people tell apart; ``style.css`` has those for a dark page."""
    shape: str
    marker: str
    """Matplotlib's letter for the shape."""


KINDS = {
    kind.name: kind
    for kind in (
        Kind("large", "large saving", "#0072B2", "circle", "o"),
        Kind("medium", "medium saving", "#D55E00", "square", "s"),
        Kind("small", "small saving", "#CC79A7", "diamond", "D"),
        Kind("static", "static", "#009E73", "triangle", "^"),
        Kind("full", "full precision", "#555555", "cross", "X"),
        Kind("other", "no group", "#7A6A00", "flag", "v"),
    )
}


def kind_of(setting: Setting) -> Kind:
    """The kind of a setting: its group, or what sort of baseline it is."""
    if setting.group in KINDS:
        return KINDS[setting.group]
    if not setting.baseline:
        return KINDS["other"]
    return KINDS["full" if setting.mean_bits >= FULL_WIDTH else "static"]


def kinds_of(settings: list[Setting]) -> list[tuple[Kind, list[Setting]]]:
    """The settings by kind, in the order of the saving."""
    members = [(kind, [setting for setting in settings if kind_of(setting) is kind]) for kind in KINDS.values()]
    return [(kind, some) for kind, some in members if some]
