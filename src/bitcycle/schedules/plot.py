"""The curves of several schedules in one figure: a panel each, grouped by what they save."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bitcycle._support.extras import need
from bitcycle.schedules.base import FULL, FULL_WIDTH
from bitcycle.schedules.comparison import ScheduleSummary

COLUMNS = 3
MOST_POINTS = 4000  # a curve is drawn from at most so many steps

# Okabe and Ito's colours, told apart by colour-blind people too; the title of a panel names the group as well.
GROUP_COLOUR = {"large": "#0072B2", "medium": "#E69F00", "small": "#CC79A7", None: "#555555"}
GROUP_TITLE = {"large": "large saving", "medium": "medium saving", "small": "small saving", None: "no saving"}


def draw_schedules(rows: Sequence[ScheduleSummary], total: int, path: Path) -> None:
    """Draw bits over training for each schedule, and save the figure as PNG or SVG."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"a figure is a .png or .svg file, not {path.name!r}")
    matplotlib = need("matplotlib", "study", "drawing")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    groups = [(group, [row for row in rows if row.group == group]) for group in GROUP_TITLE]
    lines = [(group, members[i : i + COLUMNS]) for group, members in groups for i in range(0, len(members), COLUMNS)]
    figure = Figure(figsize=(4.2 * COLUMNS, 2.1 * len(lines) + 0.6), layout="constrained")
    figure.suptitle(f"Precision schedules over {total:,} steps, grouped by saving against static q_max")
    axes = figure.subplots(len(lines), COLUMNS, squeeze=False, sharex=True, sharey=True)
    for (_, members), line in zip(lines, axes, strict=True):
        for column, panel in enumerate(line):
            if column < len(members):
                _draw_panel(panel, members[column], total)
            else:
                panel.set_visible(False)
        line[0].set_ylabel("bits")
    for panel in axes.flat:
        panel.tick_params(labelbottom=True)
    figure.supxlabel("part of training", fontsize="medium")
    figure.savefig(path, dpi=120)


def _draw_panel(panel: Any, row: ScheduleSummary, total: int) -> None:
    import numpy as np

    steps = np.unique(np.linspace(0, total - 1, min(total, MOST_POINTS)).astype(np.int64))
    widths = row.schedule.widths(steps, total)
    widths = np.where(widths == FULL, FULL_WIDTH, widths)
    panel.step(steps / total, widths, where="post", color=GROUP_COLOUR[row.group], linewidth=1.4)
    panel.fill_between(steps / total, widths, step="post", color=GROUP_COLOUR[row.group], alpha=0.15)
    panel.set_title(_title(row), fontsize="small", loc="left")
    panel.set_ylim(bottom=0)
    panel.set_xlim(0, 1)
    panel.yaxis.get_major_locator().set_params(integer=True)
    panel.grid(alpha=0.3)


def _title(row: ScheduleSummary) -> str:
    spec = str(row.schedule)
    short = spec if len(spec) <= 34 else spec[:33] + "…"
    return f"{short}\n{GROUP_TITLE[row.group]}: {100 * row.saving:.1f} %"
