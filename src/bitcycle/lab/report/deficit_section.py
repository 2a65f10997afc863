"""The section of the deficit experiments on one task: the question, the arms, plots, tables and diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from bitcycle.lab import format as fmt
from bitcycle.lab.report import labels
from bitcycle.lab.report.columns import deficit_columns
from bitcycle.lab.report.drawing import TINTS
from bitcycle.lab.report.labels import ARM, HELD, LONGER, RESTARTED, ArmStyle, ExperimentView, shades, trainings
from bitcycle.lab.report.line_plots import Curves, Line, diagnostic_plots
from bitcycle.lab.report.quality_plots import Figure, Panels, deficit_plot
from bitcycle.lab.report.rendering import RowStyle, html_table, markdown_table, plain
from bitcycle.lab.report.section import Section
from bitcycle.lab.runs.run_config import Condition
from bitcycle.lab.statistics.analysis import DeficitAnalysis, DeficitPoint

NO_DEFICIT = "quiet"


class DeficitSection(Section):
    """Everything about the deficit experiments on one task."""

    main_claims = 3  # damage can only be judged together with the control and the restart
    template = "deficit.html"
    analysis: DeficitAnalysis

    def __init__(self, number: int, analysis: DeficitAnalysis, curves: Curves) -> None:
        self.anchor, self.analysis = f"deficit-{number}", analysis
        self.experiments = labels.experiments_of(analysis)
        self.plots = {each.name: deficit_plot(analysis, each) for each in self.experiments}
        self.trainings = Trainings(analysis, curves)
        self.figures: list[Figure | Panels] = [figure for figure in self.plots.values() if figure]
        if plots := self.trainings.plots:
            title = f"Diagnostics during training, by {self.trainings.experiment.axis}"
            legend = {self.trainings.short[line.label]: TINTS[line.tint] for line in self.trainings.lines}
            self.figures.append(Panels("measurements", "diagnostics during training", title, plots, legend))

    @property
    def arms(self) -> list[ArmStyle]:
        """The arms that have a run."""
        return [arm for arm in ARM.values() if any(arm in experiment.arms for experiment in self.experiments)]

    def lead(self) -> str:
        return f"{_question(self.analysis)} {_what_ran(self.analysis)}"

    def cautions(self) -> list[str]:
        sentences = []
        points = labels.points_of(self.analysis)
        arms = {point.arm for point in points}
        if all(len(point.qualities) <= 1 for point in points):
            sentences.append("There is one seed per point: no intervals, and differences may be noise.")
        if HELD.name in arms and RESTARTED.name not in arms:
            sentences.append(
                "No run restarts the learning-rate schedule: lasting damage cannot be separated from a learning rate "
                "that is too small."
            )
        if LONGER.name not in arms:
            sentences.append("No run without a deficit has finished: there is nothing to compare with.")
        lost = [
            f"{ARM[point.arm].title} with {labels.place_text(self.analysis, experiment, point)}"
            for experiment in self.experiments
            for point in experiment.points
            if labels.diverged(point)
        ]
        if lost:
            sentences.append(
                f"A run diverged: {'; '.join(lost)}. These points are in the tables, but not in the plots."
            )
        return sentences

    def tables(self) -> list[str]:
        return [
            block
            for each in self.experiments
            for block in (f"{plain(each.title)}:", markdown_table(deficit_columns(self.analysis, each), each.points))
        ]

    def table(self, experiment: ExperimentView) -> Markup:
        """Return the table of an experiment."""

        def style(point: DeficitPoint) -> RowStyle:
            return RowStyle(ARM[point.arm].title, ARM[point.arm], labels.diverged(point))

        columns = deficit_columns(self.analysis, experiment)
        label = f"{experiment.title}: all numbers, with intervals"
        return html_table(columns, experiment.points, label, "sortable compact", style)

    def plot_text(self, experiment: ExperimentView) -> str:
        """Return what the plot of an experiment shows."""
        analysis = self.analysis
        low, high = (fmt.count(width, "bit") for width in analysis.bits)
        window = fmt.count(analysis.window, "step")
        if experiment.by_length:
            training = f"an initial deficit at {low} and a full normal run at {high}"
        elif analysis.recovery == "whole":
            training = f"some training at {high}, {window} at {low}, and a full normal run at {high}"
        else:
            training = f"a normal run at {high} into which {window} at {low} are inserted"
        better = labels.better_text(analysis)
        return f"The {analysis.metric} on the test set after {training}; mean over seeds ({better})."


class Trainings:
    """The held arm at every length, or every start where there are no lengths, and the trainings without a deficit."""

    def __init__(self, analysis: DeficitAnalysis, curves: Curves) -> None:
        self.lines: list[Line] = []
        self.short: dict[str, str] = {}
        """Short names of the lines."""
        self.plots: list[Figure] = []
        self._conditions: dict[str, Condition] = {}
        for experiment in labels.experiments_of(analysis):
            held = [point for point in experiment.points if point.arm == HELD.name]
            if held:
                self.experiment = experiment
                self._add_lines(analysis, experiment, held)
                steps = max(condition.steps for condition in self._conditions.values())
                names = curves.names(self._conditions.values())
                self.plots = diagnostic_plots(names, lambda name: self.courses(curves, name), steps)
                return

    def _add_lines(self, analysis: DeficitAnalysis, experiment: ExperimentView, held: Sequence[DeficitPoint]) -> None:
        controls = {point.place: point for point in experiment.points if point.arm == LONGER.name}
        if experiment.by_length and 0 in controls:
            self._add("no deficit: the normal run", "0", NO_DEFICIT, controls[0])
        for point, shade in zip(held, shades(len(held)), strict=True):
            label = f"held, {labels.place_text(analysis, experiment, point)}"
            ends = point.place + (0 if experiment.by_length else analysis.window)
            self._add(label, fmt.number(point.share), shade, point, ends)
        if control := controls.get(held[-1].place):
            label = LONGER.title + (": as many steps as with the longest deficit" if experiment.by_length else "")
            self._add(label, LONGER.title, NO_DEFICIT, control, dash=1)

    def _add(self, label: str, short: str, tint: str, point: DeficitPoint, ends: int = 0, dash: int = 0) -> None:
        self.lines.append(Line(label, tint, [], dash, dot=ends))
        self.short[label], self._conditions[label] = short, point.runs[0].condition

    def courses(self, curves: Curves, name: str) -> list[Line]:
        """Return the lines of a diagnostic; a single value is a line too, since a deficit changes the bits rarely."""
        found = [replace(each, points=curves.mean(self._conditions[each.label], name)) for each in self.lines]
        return [each for each in found if each.points]


def drawn_conditions(analysis: DeficitAnalysis) -> list[Condition]:
    """Return the conditions whose curves a section may draw."""
    return [point.runs[0].condition for point in labels.points_of(analysis) if point.arm != RESTARTED.name]


def _question(analysis: DeficitAnalysis) -> str:
    low, high = (fmt.count(width, "bit") for width in analysis.bits)
    steps = fmt.count(analysis.steps, "step")
    lasting = f"cause damage that a full normal run at {high} ({steps}) does not repair"
    when = "cause less damage the later it starts"
    by_length = any(point.place for point in analysis.lengths)
    effects = [lasting] * by_length + [when] * bool(analysis.positions) or [lasting, when]
    return f"Does a stretch of training at {low} {', and does it '.join(effects)}?"


def _what_ran(analysis: DeficitAnalysis) -> str:
    parts = []
    lengths = sorted({point.share for point in analysis.lengths if point.place})
    if lengths:
        parts.append(f"initial deficits of {fmt.listed(fmt.number(share) for share in lengths)} normal runs")
    starts = fmt.listed(fmt.number(share) for share in sorted({point.share for point in analysis.positions}))
    if analysis.positions:
        when = f"{starts} of the way through a normal run"
        if analysis.recovery == "whole":
            when = f"after {starts} normal runs, followed by a full normal run"
        window = f"{trainings(analysis.window / analysis.steps)} ({fmt.count(analysis.window, 'step')})"
        parts.append(f"a deficit of {window} that starts {when}")
    return f"Runs: {'; '.join(parts) or 'only normal runs'}; {fmt.count(analysis.seeds, 'seed')} each."
