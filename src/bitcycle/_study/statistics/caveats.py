"""What cannot be told: runs that diverged, and seeds that are too few."""

from __future__ import annotations

import math

from bitcycle._study.analysis import Analysis, Claim
from bitcycle._study.statistics.resampling import LEVEL, most_coverage
from bitcycle._study.statistics.scipy_stats import stats
from bitcycle._study.statistics.wording import counted_noun, listed, number, percent

ENOUGH_SEEDS = 5
"""Five are the fewest of which an interval can cover more than nine tenths."""


def diverged_runs(analysis: Analysis) -> Claim | None:
    """How many runs ended with a metric that is not a finite number, and what that means for the figures."""
    lost = {
        setting.label: sum(not math.isfinite(value) for value in setting.qualities.values())
        for setting in analysis.settings
    }
    if not any(lost.values()):
        return None
    of_all = sum(len(setting.qualities) for setting in analysis.settings)
    where = listed([f"{count} of {label}" for label, count in lost.items() if count])
    text = (
        f"{sum(lost.values())} of {counted_noun(of_all, 'run')} diverged ({where}). "
        "Their settings have no finite mean, and are left out of correlations, tests and the front."
    )
    if analysis.baseline is not None and lost[analysis.baseline]:
        text += f" The baseline {analysis.baseline} is among them, so nothing can be compared with it."
    return Claim(text, "supported")


def few_seeds(analysis: Analysis) -> Claim | None:
    """With fewer than five seeds, what they leave open."""
    seeds = {setting.label: len(setting.qualities) for setting in analysis.settings}
    short = [label for label, count in seeds.items() if count < ENOUGH_SEEDS]
    if not short:
        return None
    fewest = min(seeds.values())
    who = "Every setting has" if len(set(seeds.values())) == 1 else f"{listed(short)} {_have(len(short))}"
    few = "a single seed" if fewest == 1 else f"only {fewest} seeds"
    if len({seeds[label] for label in short}) > 1:
        few = f"fewer than {ENOUGH_SEEDS} seeds, down to {fewest}"
    text = f"{who} {few}. "
    if fewest == 1:
        text += "A single one has neither error nor test: its differences from other settings may be chance altogether."
    else:
        text += (
            f"Intervals from {fewest} values cover {percent(most_coverage(fewest))} at best, "
            f"and {_hurdle(analysis, fewest)}small differences cannot be told from chance."
        )
    return Claim(f"{text} Take {ENOUGH_SEEDS} seeds or more.", "open")


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _hurdle(analysis: Analysis, seeds: int) -> str:
    """How many standard errors a difference must reach to be shown, if it is the clearest of all."""
    tests = sum(setting.against is not None and not math.isnan(setting.against.p) for setting in analysis.settings)
    if not tests:
        return ""
    hurdle = float(stats().t.isf(LEVEL / 2 / tests, seeds - 1))
    return (
        f"with {counted_noun(tests, 'comparison')} a difference is shown only beyond {number(hurdle)} standard errors: "
    )
