"""What the report says about a point of a deficit experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bitcycle._study.analysis import DeficitAnalysis, DeficitPoint
from bitcycle._study.report import words
from bitcycle._study.report.deficits.arms import SHOWN, Arm


@dataclass(frozen=True)
class Experiment:
    """One of the two experiments, with the words of its plot."""

    name: str
    """``length`` or ``position``."""
    title: str
    axis: str
    column: str
    """The head of the column of its places."""
    points: list[DeficitPoint]

    @property
    def arms(self) -> list[Arm]:
        """The arms that have a run."""
        return [arm for arm in SHOWN.values() if any(point.arm == arm.name for point in self.points)]


def experiments_of(analysis: DeficitAnalysis) -> list[Experiment]:
    """Those that have a run."""
    both = [
        Experiment(
            "length",
            "How long the deficit lasts",
            "length of the deficit, in normal trainings",
            "length",
            analysis.lengths,
        ),
        Experiment(
            "position",
            "Where the deficit begins",
            "where the deficit begins, in normal trainings",
            "begin",
            analysis.positions,
        ),
    ]
    return [experiment for experiment in both if experiment.points]


def points_of(analysis: DeficitAnalysis) -> list[DeficitPoint]:
    """Of both experiments."""
    return [*analysis.lengths, *analysis.positions]


def diverged(point: DeficitPoint) -> bool:
    """Whether there is no quality to show, since a training ended in infinity or NaN."""
    return not math.isfinite(point.quality.mean)


def places_of(analysis: DeficitAnalysis) -> int:
    """The decimals of the metric: four figures of the largest mean."""
    return words.decimals(point.quality.mean for point in points_of(analysis))


def trainings(share: float) -> str:
    """A length in normal trainings.

    >>> trainings(0.25), trainings(1.0), trainings(1 / 3)
    ('0.25 normal trainings', '1 normal training', '0.333 normal trainings')
    """
    return f"{share:.3g} normal training" + ("" if share == 1 else "s")


def place_words(analysis: DeficitAnalysis, experiment: Experiment, point: DeficitPoint) -> str:
    """Which deficit a point is about; the control of it has none."""
    if experiment.name == "length" and point.place == 0:
        return f"no deficit: the normal training of {analysis.steps:,} steps"
    if experiment.name == "length":
        deficit = f"an initial deficit of {trainings(point.share)} ({point.place:,} steps)"
    else:
        deficit = f"a deficit of {analysis.window:,} steps after {trainings(point.share)} (step {point.place:,})"
    return f"as many steps as with {deficit}" if point.arm == "longer" else deficit


def quality_words(analysis: DeficitAnalysis, point: DeficitPoint) -> str:
    """A mean with its interval, if it has one."""
    places = places_of(analysis)
    mean = words.fixed(point.quality.mean, places)
    if not words.has_interval(point.quality):
        return mean
    return f"{mean}, 95 % interval {words.interval(point.quality, places)}"


def tip_lines(analysis: DeficitAnalysis, experiment: Experiment, point: DeficitPoint) -> list[str]:
    """What the tooltip of a point says, line by line."""
    lines = [SHOWN[point.arm].title, place_words(analysis, experiment, point)]
    lines.append(f"{analysis.metric} {quality_words(analysis, point)}")
    some, all_of_them = len(point.qualities), words.count(analysis.seeds, "seed")
    lines.append(f"over {all_of_them}" if some == analysis.seeds else f"over {some} of {all_of_them}")
    if point.loss:
        gain = words.fixed(point.loss.difference.mean, places_of(analysis), signed=True)
        lines.append(f"against the control: {gain}, {point.loss.outcome}")
    return lines


def control_words(point: DeficitPoint) -> str:
    """The verdict against the control."""
    if point.arm == "longer":
        return "the control"
    return point.loss.outcome if point.loss else words.NONE
