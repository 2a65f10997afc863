"""Sentences about a question, worded by what its intervals allow."""

from __future__ import annotations

import math
from itertools import pairwise

from bitcycle._study.analysis import Analysis, Claim, Correlation, EqualCost, Setting
from bitcycle._study.statistics.baseline_claims import baseline_setting, cheapest_that_holds, schedules_against_baseline
from bitcycle._study.statistics.caveats import diverged_runs, few_seeds
from bitcycle._study.statistics.correlations import FEWEST_SETTINGS
from bitcycle._study.statistics.reading import gradient_bits, schedule_of
from bitcycle._study.statistics.resampling import LEVEL
from bitcycle._study.statistics.wording import listed, number, p_value, with_interval
from bitcycle.schedules import Constant

FEWEST_COSTS = 3
"""Of two costs one is higher: that says nothing of a trade-off."""


def claims(analysis: Analysis) -> list[Claim]:
    """All that can be said about a question; what does not arise in it is left out."""
    made = [
        quality_follows_cost(analysis),
        schedules_against_baseline(analysis),
        cheapest_that_holds(analysis),
        early_precision(analysis.equal_cost),
        high_start_of_pairs(analysis.equal_cost),
        precision_matters(analysis),
        diverged_runs(analysis),
        few_seeds(analysis),
    ]
    return [claim for claim in made if claim is not None]


def quality_follows_cost(analysis: Analysis) -> Claim:
    """Supported where the intervals over settings and over runs lie above zero, contradicted where both lie below."""
    settings, runs = (
        next(c for c in analysis.correlations if c.kind == "Spearman" and c.over == over)
        for over in ("settings", "runs")
    )
    if settings.count < 2:
        return Claim("Whether quality rises with cost cannot be told: it takes two settings or more.", "open")
    if math.isnan(settings.value) or math.isnan(runs.value):
        return Claim(f"Whether quality rises with cost cannot be told: {_what_is_constant(analysis)}.", "open")
    if _different_costs(analysis) < FEWEST_COSTS:
        return Claim(f"Whether quality rises with cost cannot be told: {_few_costs(analysis)}.", "open")
    figures = f"Spearman's correlation is {with_interval(settings)} and {with_interval(runs)}"
    if settings.low > 0 and runs.low > 0:
        return Claim(f"Quality rises with cost: {figures}.", "supported")
    if settings.high < 0 and runs.high < 0:
        return Claim(f"Quality falls as cost rises: {figures}.", "contradicted")
    return Claim(f"Whether quality rises with cost is open: {figures}{_why_no_interval(settings, runs)}.", "open")


def _different_costs(analysis: Analysis) -> int:
    """How many costs there are that lie more than 1 % apart; full precision, which no correlation counts, aside."""
    counted = (setting for setting in analysis.settings if schedule_of(setting.run) != Constant(None))
    costs = sorted(setting.bitops for setting in counted)
    return 1 + sum(higher > 1.01 * lower for lower, higher in pairwise(costs))


def _few_costs(analysis: Analysis) -> str:
    return f"the settings have only {_different_costs(analysis)} different costs"


def _what_is_constant(analysis: Analysis) -> str:
    qualities = {value for setting in analysis.settings for value in setting.qualities.values()}
    if len(qualities) == 1:
        return f"every run has the same {analysis.metric}, {number(qualities.pop())}"
    costs = {setting.bitops for setting in analysis.settings if schedule_of(setting.run) != Constant(None)}
    return "all settings cost the same" if len(costs) == 1 else f"all settings have the same mean {analysis.metric}"


def _why_no_interval(settings: Correlation, runs: Correlation) -> str:
    reasons = []
    if settings.count < FEWEST_SETTINGS:
        reasons.append(f"fewer than {FEWEST_SETTINGS} settings are soon in order by chance")
    if math.isnan(runs.low):
        reasons.append("a single seed says nothing about other seeds")
    return f"; {listed(reasons)}" if reasons else ""


def early_precision(found: EqualCost | None) -> Claim | None:
    """By Page's test: supported where quality follows early bits, contradicted where it follows them backwards."""
    if found is None or not found.labels:
        return None
    among = f"at equal cost ({listed(found.labels)}, within {100 * found.spread:.1f} % of each other)"
    subject = "quality rises with the bits of the first tenth of training"
    if math.isnan(found.p):
        reason = "the test needs two seeds that all of them share, and early bits that differ"
        return Claim(f"Whether {among} {subject} cannot be told: {reason}.", "open")
    figures = f"Page's trend test over seeds gives {p_value(found.p)}, Spearman's correlation is " + with_interval(
        found.spearman
    )
    if found.p < LEVEL:
        return Claim(f"{among[0].upper()}{among[1:]}, {subject}: {figures}.", "supported")
    if found.reversed_p < LEVEL:
        opposite = f"for the opposite order {p_value(found.reversed_p)}"
        falls = subject.replace("rises", "falls")
        return Claim(f"{among[0].upper()}{among[1:]}, {falls}: {figures}; {opposite}.", "contradicted")
    return Claim(f"Whether {among} {subject} is open: {figures}.", "open")


def high_start_of_pairs(found: EqualCost | None) -> Claim | None:
    """Supported where the schedule that starts high is better in some pair and worse in none."""
    if found is None or not found.pairs:
        return None
    each = listed(
        [f"{high} against {low} {c.difference.mean:+.3g} ({c.verdict})" for high, low, c in found.pairs],
    )
    verdicts = [comparison.verdict for _, _, comparison in found.pairs]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    if bool(better) != bool(worse):
        shown = f"In {better + worse} of {len(verdicts)} pairs of equal cost" if len(verdicts) > 1 else "At equal cost"
        how, verdict = ("better", "supported") if better else ("worse", "contradicted")
        return Claim(f"{shown} the schedule that starts at high precision is {how}: {each}.", verdict)
    return Claim(f"Whether it pays to start at high precision is open for the pairs of equal cost: {each}.", "open")


def precision_matters(analysis: Analysis) -> Claim | None:
    """The lowest static width against the baseline: where they do not differ, no schedule can gain anything."""
    base = baseline_setting(analysis)
    lowest = None if base is None else _lowest_static(analysis, base)
    if base is None or lowest is None or lowest.against is None:
        return None
    names = f"{lowest.label} and {base.label}"
    difference = f"{number(abs(lowest.against.difference.mean))} in mean {analysis.metric}"
    verdict = lowest.against.verdict
    if verdict == "worse":
        text = f"Precision matters here: {lowest.label} is worse than {base.label} by {difference}."
        return Claim(text, "supported")
    if verdict == "better":
        text = f"Low precision does no harm here: {lowest.label} is better than {base.label} by {difference}."
        return Claim(text, "contradicted")
    if verdict == "diverged":
        return _lowest_diverged(lowest, base)
    if verdict == "too few seeds":
        return Claim(f"Whether precision matters here cannot be told: {names} share fewer than two seeds.", "open")
    return Claim(
        f"Whether precision matters here is open: between {names} no difference was shown ({difference}). "
        "If there is none, schedules between the two have nothing to gain or lose.",
        "open",
    )


def _lowest_static(analysis: Analysis, base: Setting) -> Setting | None:
    """The lowest static width, if possible with the baseline's gradients; None if that is the baseline itself."""
    static = [
        ((schedule.bits, gradient_bits(setting.run) != gradient_bits(base.run)), setting)
        for setting in analysis.settings
        if isinstance(schedule := schedule_of(setting.run), Constant)
        and schedule.bits is not None
        and setting.run.learning_rate == base.run.learning_rate
    ]
    lowest = min(static, key=lambda pair: pair[0], default=((0, False), base))[1]
    return None if lowest is base else lowest


def _lowest_diverged(lowest: Setting, base: Setting) -> Claim:
    lost = sum(not math.isfinite(value) for value in lowest.qualities.values())
    if lost == len(lowest.qualities) >= 2 and math.isfinite(base.quality.mean):
        text = f"Precision matters here: all {lost} runs of {lowest.label} diverged, and none of {base.label}."
        return Claim(text, "supported")
    return Claim(
        f"Whether precision matters here cannot be tested: of {lowest.label} and {base.label} some runs diverged.",
        "open",
    )
