"""The curves of the schedules as a matplotlib figure: a small panel each."""

from __future__ import annotations

import math
from typing import Any

from bitcycle._study.analysis import Analysis, Setting
from bitcycle._study.report import words
from bitcycle._study.report.bits import limits, stretches
from bitcycle._study.report.facts import saving_words
from bitcycle._study.report.look import kind_of
from bitcycle._study.report.markup import clean
from bitcycle.schedules.base import FULL_WIDTH

COLUMNS = 4


def schedule_figure(analysis: Analysis) -> Any:
    """The figure, or None where no schedule is known."""
    settings = [setting for setting in analysis.settings if kind_of(setting).name != "full" and stretches(setting)]
    if not settings:
        return None
    from matplotlib.figure import Figure

    low, high = limits(settings)
    rows = math.ceil(len(settings) / COLUMNS)
    figure = Figure(figsize=(9.6, 1.5 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, COLUMNS, squeeze=False, sharex=True, sharey=True).flat
    for setting, panel in zip(settings, panels, strict=False):
        _curve(panel, setting, low, high)
    for panel in list(panels)[len(settings) :]:
        panel.set_visible(False)
    figure.supxlabel("part of training", fontsize=9)
    figure.supylabel("bits", fontsize=9)
    return figure


def _curve(panel: Any, setting: Setting, low: int, high: int) -> None:
    known = stretches(setting)
    bits = [high if width == FULL_WIDTH else width for *_, width in known]
    edges = [start for start, *_ in known] + [1.0]
    colour = kind_of(setting).colour
    panel.stairs(bits, edges, color=colour, linewidth=1.2, baseline=None)
    panel.stairs(bits, edges, color=colour, alpha=0.16, fill=True)
    saving = saving_words(setting)
    title = clean(words.shortened(setting.label, 24))
    panel.set_title(
        f"{title}, saves {saving}" if saving.endswith("%") and not setting.baseline else title,
        loc="left",
        fontsize=8,
        weight="bold",
    )
    panel.set_xlim(0, 1)
    panel.set_ylim(0, high * 1.05)
    panel.set_yticks(sorted({0, low, high}))
    panel.set_xticks([0, 0.5, 1], ["0", "½", "1"])
    panel.tick_params(labelbottom=True)
    panel.grid(axis="y")
