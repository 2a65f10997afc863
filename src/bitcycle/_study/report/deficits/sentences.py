"""The sentences of a section on deficit experiments."""

from __future__ import annotations

from bitcycle._study.analysis import DeficitAnalysis
from bitcycle._study.report import words
from bitcycle._study.report.deficits.arms import SHOWN
from bitcycle._study.report.deficits.facts import (
    Experiment,
    diverged,
    experiments_of,
    place_words,
    points_of,
    trainings,
)
from bitcycle._study.report.facts import better_words


def asked(analysis: DeficitAnalysis) -> str:
    """The question, in a sentence."""
    low, high = (words.count(width, "bit") for width in analysis.bits)
    lasting = f"leave damage that a whole normal training on {high} ({analysis.steps:,} steps) does not mend"
    when = "do less damage the later it comes"
    by_length = any(point.place for point in analysis.lengths)
    effects = [lasting] * by_length + [when] * bool(analysis.positions) or [lasting, when]
    return f"Does a stretch of training on {low} {', and does it '.join(effects)}?"


def what_ran(analysis: DeficitAnalysis) -> str:
    """What was run, in a sentence."""
    parts = []
    lengths = sorted({point.share for point in analysis.lengths if point.place})
    if len(lengths) == 1:
        parts.append(f"an initial deficit of {trainings(lengths[0])}")
    elif lengths:
        parts.append(f"initial deficits of {words.listed(f'{share:.3g}' for share in lengths)} normal trainings")
    starts = sorted({point.share for point in analysis.positions})
    if starts:
        which = words.listed(f"{share:.3g}" for share in starts)
        begins = f"begins {which} of the way through one"
        if analysis.recovery == "whole":
            begins = f"begins after {which} normal trainings, and has a whole one after it"
        parts.append(
            f"a deficit of {trainings(analysis.window / analysis.steps)} ({analysis.window:,} steps) that {begins}"
        )
    seeds = words.count(analysis.seeds, "seed")
    return f"What was run: {'; '.join(parts) or 'normal trainings alone'}; {seeds} each."


def cautions(analysis: DeficitAnalysis) -> list[str]:
    """What keeps the figures from saying all that they might."""
    notes = []
    points = points_of(analysis)
    if all(len(point.qualities) <= 1 for point in points):
        notes.append("There is one seed for each point: no intervals, and differences may be chance.")
    arms = {point.arm for point in points}
    if "held" in arms and "restarted" not in arms:
        notes.append("No run restarts the learning rate: damage that lasts is not told from a learning rate too small.")
    if "longer" not in arms:
        notes.append("No run without a deficit has finished: there is nothing to compare with.")
    lost = [
        f"{SHOWN[point.arm].title} with {place_words(analysis, experiment, point)}"
        for experiment in experiments_of(analysis)
        for point in experiment.points
        if diverged(point)
    ]
    if lost:
        notes.append(f"A run diverged: {'; '.join(lost)}. These points are in the tables, but not in the plots.")
    return notes


def arms_words(analysis: DeficitAnalysis) -> str:
    """What the arms are for."""
    arms = {point.arm for point in points_of(analysis)}
    sentences = ["They differ in nothing else."] if len(arms) > 1 else []
    if {"held", "longer"} <= arms:
        rest = "; what restarted makes up for was no lasting damage" if "restarted" in arms else ""
        sentences.append(f"What held lacks against longer is what the deficit did{rest}.")
    return " ".join([*sentences, "Select one to follow it in the plots and tables."])


def plot_words(analysis: DeficitAnalysis, experiment: Experiment) -> str:
    """What a plot shows."""
    low, high = (words.count(width, "bit") for width in analysis.bits)
    if experiment.name == "length":
        shown = f"after an initial deficit on {low} and a whole normal training on {high}"
    elif analysis.recovery == "whole":
        shown = (
            f"after some training on {high}, {analysis.window:,} steps on {low}, and a whole normal training on {high}"
        )
    else:
        shown = f"after a normal training on {high} with {analysis.window:,} steps on {low} put into it"
    return f"The {analysis.metric} on the test part {shown}, as a mean over seeds ({better_words(analysis)})."


def figures_words(analysis: DeficitAnalysis) -> str:
    """What the tables show."""
    return (
        f"The {analysis.metric} is a mean over seeds ({better_words(analysis)}). Gains on the control of the same "
        "length or position are paired by seed, and positive where an arm is better; p values are corrected within "
        "each table by Holm's method."
    )


def measured_words(experiment: Experiment) -> str:
    """What the plots of measurements show."""
    return (
        f"Means over the seeds, for the held arm at every {experiment.name}, and in grey for trainings without a "
        "deficit. A dot marks the first measurement after a deficit. Point at a line for its name, or select one."
    )
