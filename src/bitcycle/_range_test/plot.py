"""A range test in one figure: the short trainings, and what each level keeps of full precision's progress."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bitcycle._support.extras import need

if TYPE_CHECKING:
    from bitcycle._range_test import LevelResult, RangeTestResult

WORKS, FAILS, THRESHOLD = "#0072B2", "#D55E00", "#555555"  # Okabe and Ito's, told apart by colour-blind people too
WORST = -0.25  # what keeps less is drawn here


def draw_range_test(test: RangeTestResult, path: Path) -> None:
    """Draw the curves of all levels and what they keep, and save the figure as PNG or SVG."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"a figure is a .png or .svg file, not {path.name!r}")
    matplotlib = need("matplotlib", "study", "drawing")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    found = "no q_min" if test.q_min is None else f"q_min = {test.q_min} bits"
    figure.suptitle(f"Precision range test: {found}")
    left, right = figure.subplots(1, 2)
    _draw_curves(left, test)
    _draw_kept(right, test)
    figure.savefig(path, dpi=120)


def _draw_curves(panel: Any, test: RangeTestResult) -> None:
    """The median over seeds of each level, over the range of full precision's own curve."""
    from bitcycle._range_test.result import in_words, verdict_in_words

    shades = {row.bits: 0.35 + 0.65 * (n + 1) / len(test.evidence) for n, row in enumerate(test.evidence)}
    for row in test.evidence:
        style = {"color": WORKS if row.works else FAILS, "alpha": shades[row.bits], "linewidth": 1.3}
        panel.plot(_median(row), label=f"{in_words(row.bits)}: {verdict_in_words(row)}", **style)
    panel.plot(_median(test.reference), label="full precision", color="black", linewidth=1.6, linestyle="--")
    values = [value for row in (*test.evidence, test.reference) if not row.diverged for value in _median(row)]
    own = _median(test.reference)
    span = (max(own) - min(own)) or 1.0
    if values:
        panel.set_ylim(max(min(values), min(own) - span) - 0.05 * span, min(max(values), max(own) + span) + 0.05 * span)
    panel.set_xlabel("iteration")
    panel.set_ylabel("what the step returns, median over seeds")
    panel.grid(alpha=0.3)
    panel.legend(fontsize="x-small")


def _draw_kept(panel: Any, test: RangeTestResult) -> None:
    for row in test.evidence:
        colour = WORKS if row.works else FAILS
        if row.diverged:
            panel.annotate("diverges", (row.bits, WORST), ha="center", color=colour, fontsize="small")
            continue
        low, high = (max(WORST, min(1.25, end)) for end in row.interval)
        panel.plot([row.bits, row.bits], [low, high], color=colour, linewidth=1.5)
        panel.plot(row.bits, max(WORST, row.kept), "o" if row.works else "x", color=colour)
    panel.axhline(test.share, color=THRESHOLD, linestyle=":", label="what a level has to keep")
    if test.q_min is not None:
        panel.axvline(test.q_min, color=WORKS, alpha=0.3, linewidth=6, label="q_min")
    panel.set_ylim(WORST - 0.1, 1.3)
    panel.set_xlabel("bits")
    panel.set_ylabel("share of full precision's progress")
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.grid(alpha=0.3)
    panel.legend(fontsize="x-small", loc="lower right")


def _median(row: LevelResult) -> list[float]:
    return [median(values) for values in zip(*row.curves, strict=False)]
