"""The figures of a question as PNG and SVG files, drawn by matplotlib (extra ``study``)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bitcycle._study.analysis import Analysis, DeficitAnalysis
from bitcycle._study.report.cost_figure import cost_figure
from bitcycle._study.report.course_figure import course_figure
from bitcycle._study.report.deficits.facts import experiments_of
from bitcycle._study.report.deficits.figure import deficit_figure
from bitcycle._study.report.deficits.measurement_figure import measurement_figure
from bitcycle._study.report.schedule_figure import schedule_figure
from bitcycle._support.extras import need
from bitcycle.experiments.result import RunResult

DOTS_PER_INCH = 200

SETTINGS = {
    "text.parse_math": False,  # a name with a dollar sign is a name, not a formula
    "svg.hashsalt": "bitcycle",  # the same figures give the same file
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure looks the same everywhere
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": "#5b6066",
    "axes.labelcolor": "#1c1e21",
    "xtick.color": "#5b6066",
    "ytick.color": "#5b6066",
    "ytick.left": False,
    "grid.color": "#dedfdb",
    "axes.axisbelow": True,
}


def figures(analysis: Analysis, records: Sequence[RunResult], name: str) -> dict[str, bytes]:
    """The files ``cost-name.png``, ``curves-name.svg`` and so on; figures without anything to show are left out."""
    with _drawing():
        drawn = {
            "cost": cost_figure(analysis),
            "curves": course_figure(analysis, records),
            "schedules": schedule_figure(analysis),
        }
        return _files(drawn, name)


def deficit_figures(analysis: DeficitAnalysis, records: Sequence[RunResult], name: str) -> dict[str, bytes]:
    """The files ``deficit-length-name.png``, ``measurements-name.svg`` and so on, likewise."""
    with _drawing():
        drawn = {f"deficit-{each.name}": deficit_figure(analysis, each) for each in experiments_of(analysis)}
        drawn["measurements"] = measurement_figure(analysis, records)
        return _files(drawn, name)


def _files(drawn: dict[str, Any], name: str) -> dict[str, bytes]:
    placed = {kind: _laid_out(figure) for kind, figure in drawn.items() if figure is not None}
    return {f"{kind}-{name}.{form}": _saved(figure, form) for kind, figure in placed.items() for form in ("png", "svg")}


@contextmanager
def _drawing() -> Iterator[None]:
    matplotlib = need("matplotlib", "study", "drawing")
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # A letter that the font lacks is drawn as a box, which is nothing the user could do about.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _laid_out(figure: Any) -> Any:
    """The figure with every panel at its final place.

    The solver that finds the places is slow, so it is asked once, and differs in the last bits from time to time; the
    names inside an SVG file come from those bits, so they are rounded.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        axes.set_position([round(value, 6) for value in axes.get_position().bounds])
    return figure


def _saved(figure: Any, form: str) -> bytes:
    out = io.BytesIO()
    undated = {"Date": None} if form == "svg" else {"Software": None}
    figure.savefig(out, format=form, dpi=DOTS_PER_INCH, metadata=undated)
    return out.getvalue()
