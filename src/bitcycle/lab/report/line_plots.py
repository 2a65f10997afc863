"""Lines over training: what was recorded, as means over the seeds. A few lines are in colour, all others grey."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bitcycle.lab import format as fmt
from bitcycle.lab.report import figures
from bitcycle.lab.report.drawing import DASHES, TINTS, span
from bitcycle.lab.report.figures import COLOURS, TIP, Row, exact, layer, number, shortened
from bitcycle.lab.report.quality_plots import Figure
from bitcycle.lab.runs.result import Diagnostic, RunResult
from bitcycle.lab.runs.run_config import Condition

WIDTH, HEIGHT = 440, 200
LOGARITHMIC = 10  # values that span more than this factor are drawn on a logarithmic scale
MAX_POINTS = 160  # a line on a page has no room for more
NOT_DRAWN = {"step", "bits", "loss"}
VALIDATION = "validation"

Points = list[tuple[float, float]]


class Curves:
    """Means over seeds for the conditions that a report draws, from records that are read once.

    >>> from bitcycle.lab.runs.run_config import RunConfig
    >>> run = RunConfig("graph", "CR:3-8:cycles=8", 150)
    >>> def record(*values):
    ...     curve = [{"step": i, "validation": value} for i, value in enumerate(values)]
    ...     return RunResult(run, "accuracy", True, 0.9, 0.9, 0, 1, 1.0, curve=curve)
    >>> Curves([record(0.0, 0.5), record(0.5, 1.0)], [run.condition]).mean(run.condition, "validation")
    [(0.0, 0.25), (1.0, 0.75)]
    """

    def __init__(self, records: Iterable[RunResult], conditions: Iterable[Condition]) -> None:
        self._wanted = set(conditions)
        self._runs: Counter[tuple[Condition, str]] = Counter()
        self._sums: dict[tuple[Condition, str], dict[float, tuple[float, int]]] = {}  # step -> sum, number of runs
        for record in records:
            if record.run.condition in self._wanted:
                self._add(record)

    def _add(self, record: RunResult) -> None:
        names = {name for entry in record.curve for name in entry} - NOT_DRAWN
        for name in names:
            key = (record.run.condition, name)
            self._runs[key] += 1
            sums = self._sums.setdefault(key, {})
            for step, value in {entry["step"]: entry[name] for entry in record.curve if name in entry}.items():
                total, runs = sums.get(step, (0.0, 0))
                sums[step] = (total + value, runs + 1)

    def names(self, conditions: Iterable[Condition]) -> set[str]:
        """Return the names of the diagnostics that were taken for any of the conditions."""
        wanted = set(conditions)
        return {name for condition, name in self._sums if condition in wanted} - {VALIDATION}

    def mean(self, condition: Condition, name: str) -> Points:
        """Return the mean over seeds at the steps that all of them have; values that are not finite are left out."""
        key = (condition, name)
        sums = sorted(self._sums.get(key, {}).items())
        shared = [(float(step), total / runs) for step, (total, runs) in sums if runs == self._runs[key]]
        finite = [(step, mean) for step, mean in shared if math.isfinite(mean)]
        return finite[:: 1 + len(finite) // MAX_POINTS]


@dataclass(frozen=True)
class Explanation:
    """A quantity measured during training, explained in a sentence."""

    sentence: str = ""
    threshold: float | None = None
    """A value that separates two cases."""


DIAGNOSTICS: dict[str, Explanation] = {
    Diagnostic.FISHER_INFORMATION: Explanation(
        "How strongly the predictions depend on the weights: high while the network takes shape, when deficits are "
        "thought to do lasting damage."
    ),
    Diagnostic.GRADIENT_OVER_NOISE: Explanation(
        "The norm of the gradient divided by the norm of its rounding error: below 1, rounding error dominates.", 1.0
    ),
    Diagnostic.GRADIENT_DIVERSITY: Explanation(
        "How far the gradients of two batches disagree: 0.5 if they are equal, 1 if they are orthogonal, more if they "
        "point in opposite directions."
    ),
    Diagnostic.GRADIENT_AFTER_CHANGE: Explanation(
        "The norm of the gradient at the first step after a change of bits divided by that at the step before: far "
        "from 1 where a change of precision disturbs training.",
        1.0,
    ),
    Diagnostic.UPDATE_AFTER_CHANGE: Explanation(
        "The same ratio for the optimiser's update: far from 1 where a change of precision disturbs the weights.", 1.0
    ),
}
UNEXPLAINED = Explanation()


@dataclass(frozen=True)
class Line:
    """A line of a plot."""

    label: str
    """Its name, unique within its part of the page."""
    tint: str
    """The name of its colour."""
    points: Points
    dash: int = 0
    tip: str = ""
    """A further line of its tooltip."""
    dot: int = 0
    """The step after which the first point is marked; 0 for none."""


@dataclass(frozen=True)
class Axis:
    """The vertical axis of a plot."""

    domain: tuple[float, float]
    logarithmic: bool = False


def value_axis(values: Sequence[float], threshold: float | None = None) -> Axis:
    """Return an axis that holds all values and the threshold, logarithmic if they span decades."""
    values = [*values, *([] if threshold is None else [threshold])]
    if min(values) > 0 and max(values) > LOGARITHMIC * min(values):
        return Axis((min(values) / 1.3, max(values) * 1.3), logarithmic=True)
    return Axis(span(values))


def settled_axis(lines: Sequence[Line]) -> Axis:
    """Return an axis for the values after the first third, or for all if the start is not far off.

    A perplexity starts at some hundreds and ends near eighty: drawn in full, all curves would coincide.
    """
    points = [point for each in lines for point in each.points]
    last = max((step for step, _ in points), default=1.0)
    low, high = span(value for _, value in points)
    settled = span(value for step, value in points if step >= last / 3)
    return Axis(settled if high - low >= 2.5 * (settled[1] - settled[0]) else (low, high))


def line_plot(
    title: str,
    quantity: str,
    lines: Sequence[Line],
    steps: int,
    axis: Axis,
    explanation: Explanation = UNEXPLAINED,
    behind: Sequence[Line] = (),
    named: bool = False,
) -> Figure:
    """Describe lines over training, if ``named`` with their names at the end.

    Where there is no room for all names there are none; the tooltip of a line has its name.
    """
    style = {"stroke": exact("colour"), "detail": exact("name"), **TIP}
    rows = [row for each in lines for row in _rows(each, quantity)]
    # A line of few points has a dot for each; otherwise there is one where a deficit ends.
    dots = [row for each in lines for row in (_rows(each, quantity) if len(each.points) < 4 else _first_after(each))]
    layers = [
        layer("line", [row for each in behind for row in _rows(each, quantity)], {"detail": exact("name")},
              color=COLOURS["rule"], strokeWidth=1.2, clip=True, aria=False),
        layer("line", rows, {**style, "strokeDash": exact("dash")}, clip=True),
        layer("point", dots, {**style, "fill": exact("colour")}, size=40, shape="circle"),
    ]  # fmt: skip
    if explanation.threshold is not None:
        across = {"x": {"value": 0}, "x2": {"value": "width"}}
        dotted = {"color": COLOURS["ink"], "strokeDash": [2, 3], "strokeWidth": 1, "aria": False}
        layers.append(layer("rule", [{"y": explanation.threshold}], across, **dotted))
    if named:
        layers += figures.end_names([_rows(each, quantity)[-1] for each in lines], HEIGHT, axis.domain)
    names = fmt.listed(shortened(each.label) for each in lines)
    x = number("x", (0, steps), title="step", tickCount=4)
    spec = {
        "width": WIDTH,
        "height": HEIGHT,
        "layer": layers,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "encoding": {"x": x, "y": number("y", axis.domain, axis.logarithmic)},
    }
    title += ", logarithmic scale" if axis.logarithmic else ""
    about = f"{quantity} over {fmt.count(steps, 'training step')}, for {names}"
    return Figure(title, about, spec, notes=[explanation.sentence] if explanation.sentence else [])


def diagnostic_plots(names: Iterable[str], lines_of: Callable[[str], list[Line]], steps: int) -> list[Figure]:
    """Describe each diagnostic that has a value, with its explanation; those that have one come first."""
    known = list(DIAGNOSTICS)
    plots = []
    for name in sorted(names, key=lambda name: (known.index(name) if name in known else len(known), name)):
        if lines := lines_of(name):
            explanation, title = DIAGNOSTICS.get(name, UNEXPLAINED), name.replace("_", " ")
            values = [value for each in lines for _, value in each.points]
            # While two deficits last, their lines coincide: the shortest is drawn last, on top.
            lines.sort(key=lambda each: each.dot or math.inf, reverse=True)
            axis = value_axis(values, explanation.threshold)
            plots.append(line_plot(title, title, lines, steps, axis, explanation))
    return plots


def _rows(each: Line, quantity: str = "") -> list[Row]:
    step, value = each.points[-1]
    last = f"{quantity} {fmt.fixed(value, min(6, fmt.decimals([value])))} at step {step:,.0f}"
    tip = "\n".join(part for part in (each.label, last, each.tip) if part)
    style = {"name": each.label, "tip": tip, "colour": TINTS[each.tint], "dash": DASHES[each.dash % len(DASHES)]}
    return [{"x": x, "y": y, **style} for x, y in each.points]


def _first_after(each: Line) -> list[Row]:
    return [row for row in _rows(each) if each.dot and row["x"] >= each.dot][:1]
