"""What the numbers of a comparison group allow to claim, and which settings they recommend.

Comparisons of many settings rest on tests of significance with Holm's correction for their number; "as good as the
baseline" is decided by :mod:`bitcycle.lab.judging`, as everywhere else.
"""

from __future__ import annotations

import math
from itertools import pairwise

from bitcycle.lab.judging import Judgement
from bitcycle.lab.statistics.analysis import (
    ENOUGH_SEEDS,
    Analysis,
    Claim,
    ClaimKind,
    EqualCost,
    OpenReason,
    Outcome,
    Over,
    Role,
    Setting,
    Verdict,
)
from bitcycle.lab.statistics.estimates import LEVEL
from bitcycle.lab.statistics.settings import correlated, gradient_bits, schedule_of
from bitcycle.lab.statistics.trends import MIN_SETTINGS
from bitcycle.schedules import Constant
from bitcycle.schedules.base import width_of

Decision = tuple[Verdict, tuple[OpenReason, ...]]
SUPPORTED: Decision = (Verdict.SUPPORTED, ())
CONTRADICTED: Decision = (Verdict.CONTRADICTED, ())

MIN_COSTS = 3
"""Two costs say nothing about a trade-off: one of them is always the higher."""


def open_because(*reasons: OpenReason) -> Decision:
    """Return an open verdict with its reasons."""
    return Verdict.OPEN, reasons


def claims(analysis: Analysis) -> list[Claim]:
    """Return all claims that the settings of a comparison group make possible."""
    candidates = [
        quality_follows_cost(analysis),
        schedules_beat_baseline(analysis),
        cheapest_acceptable(analysis),
        early_precision(analysis.equal_cost),
        high_start(analysis.equal_cost),
        precision_matters(analysis),
        diverged_runs(analysis),
        few_seeds(analysis),
    ]
    return [claim for claim in candidates if claim is not None]


def quality_follows_cost(analysis: Analysis) -> Claim:
    """Supported if the intervals over settings and over runs lie above zero, contradicted if both lie below."""
    settings, runs = (analysis.correlation(over) for over in Over)
    costs = sorted(setting.bitops for setting in correlated(analysis.settings))
    different = 1 + sum(higher > 1.01 * lower for lower, higher in pairwise(costs))
    if settings.count < 2:
        decision = open_because(OpenReason.ONE_SETTING)
    elif math.isnan(settings.value) or math.isnan(runs.value):
        decision = open_because(_constant(analysis))
    elif different < MIN_COSTS:
        decision = open_because(OpenReason.FEW_COSTS)
    elif settings.low > 0 and runs.low > 0:
        decision = SUPPORTED
    elif settings.high < 0 and runs.high < 0:
        decision = CONTRADICTED
    else:
        missing = [OpenReason.FEW_SETTINGS] if settings.count < MIN_SETTINGS else []
        missing += [OpenReason.TOO_FEW_SEEDS] if math.isnan(runs.low) else []
        decision = open_because(*(missing or [OpenReason.INCLUDES_ZERO]))
    return Claim(ClaimKind.QUALITY_FOLLOWS_COST, *decision)


def _constant(analysis: Analysis) -> OpenReason:
    """Say what does not vary, so that there is no correlation."""
    if len({value for setting in analysis.settings for value in setting.qualities.values()}) == 1:
        return OpenReason.EQUAL_QUALITY
    costs = {setting.bitops for setting in correlated(analysis.settings)}
    return OpenReason.EQUAL_COST if len(costs) == 1 else OpenReason.EQUAL_MEANS


def schedules_beat_baseline(analysis: Analysis) -> Claim | None:
    """Supported if any schedule beats the baseline, contradicted if all are worse."""
    outcomes = {s.against.outcome for s in analysis.settings if not s.baseline and s.against is not None}
    if not outcomes:
        return None
    untested = {Outcome.DIVERGED: OpenReason.DIVERGED, Outcome.TOO_FEW_SEEDS: OpenReason.TOO_FEW_SEEDS}
    decision = open_because(OpenReason.NOT_SIGNIFICANT)
    if Outcome.BETTER in outcomes:
        decision = SUPPORTED
    elif outcomes == {Outcome.WORSE}:
        decision = CONTRADICTED
    elif outcomes <= untested.keys():
        decision = open_because(*(reason for outcome, reason in untested.items() if outcome in outcomes))
    return Claim(ClaimKind.SCHEDULES_BEAT_BASELINE, *decision)


def cheapest_acceptable(analysis: Analysis) -> Claim | None:
    """Supported if a cheaper setting is as good within the margin, contradicted if all are worse or diverged."""
    base = analysis.setting(analysis.baseline)
    judged = {s.acceptable.judgement for s in analysis.cheaper if s.acceptable is not None}
    if base is None or not judged:
        return None
    chosen = analysis.cheapest_acceptable
    decision = open_because(OpenReason.BEYOND_MARGIN)
    if chosen is not None:
        decision = SUPPORTED
    elif base.diverged:
        decision = open_because(OpenReason.BASELINE_DIVERGED)
    elif judged <= {Judgement.WORSE, Judgement.DIVERGED}:
        decision = CONTRADICTED
    elif Judgement.UNCLEAR not in judged:
        decision = open_because(OpenReason.TOO_FEW_SEEDS)
    return Claim(ClaimKind.CHEAPEST_ACCEPTABLE, *decision, about=chosen.label if chosen else None)


def early_precision(equal_cost: EqualCost | None) -> Claim | None:
    """By Page's test: supported if quality follows early bits, contradicted if it follows the opposite order."""
    if equal_cost is None or not equal_cost.labels:
        return None
    decision = open_because(OpenReason.NOT_SIGNIFICANT)
    if math.isnan(equal_cost.p):
        decision = open_because(OpenReason.TOO_FEW_SEEDS)
    elif equal_cost.p < LEVEL:
        decision = SUPPORTED
    elif equal_cost.reversed_p < LEVEL:
        decision = CONTRADICTED
    return Claim(ClaimKind.EARLY_PRECISION, *decision)


def high_start(equal_cost: EqualCost | None) -> Claim | None:
    """Supported if the schedule that starts high is better in some pair and worse in none."""
    if equal_cost is None or not equal_cost.pairs:
        return None
    outcomes = {comparison.outcome for _, _, comparison in equal_cost.pairs}
    decision = open_because(OpenReason.NOT_SIGNIFICANT)
    if {Outcome.BETTER, Outcome.WORSE} <= outcomes:
        decision = open_because(OpenReason.CONFLICTING)
    elif Outcome.BETTER in outcomes:
        decision = SUPPORTED
    elif Outcome.WORSE in outcomes:
        decision = CONTRADICTED
    elif outcomes == {Outcome.TOO_FEW_SEEDS}:
        decision = open_because(OpenReason.TOO_FEW_SEEDS)
    return Claim(ClaimKind.HIGH_START, *decision)


def precision_matters(analysis: Analysis) -> Claim | None:
    """Compare the lowest static width with the baseline: if they do not differ, no schedule can gain anything."""
    base = analysis.setting(analysis.baseline)
    lowest = None if base is None else _lowest_static(analysis, base)
    if base is None or lowest is None or lowest.against is None:
        return None
    all_diverged = lowest.diverged == len(lowest.qualities) >= 2 and not base.diverged
    decision = {
        Outcome.WORSE: SUPPORTED,
        Outcome.BETTER: CONTRADICTED,
        Outcome.DIVERGED: SUPPORTED if all_diverged else open_because(OpenReason.DIVERGED),
        Outcome.TOO_FEW_SEEDS: open_because(OpenReason.TOO_FEW_SEEDS),
        Outcome.NO_DIFFERENCE: open_because(OpenReason.NOT_SIGNIFICANT),
    }[lowest.against.outcome]
    return Claim(ClaimKind.PRECISION_MATTERS, *decision, about=lowest.label)


def _lowest_static(analysis: Analysis, base: Setting) -> Setting | None:
    """Return the lowest static width below the baseline's and otherwise trained like it; None if there is none.

    Settings with the baseline's gradients are preferred.
    """
    widest = schedule_of(base.condition)
    assert isinstance(widest, Constant)  # see baseline_of
    static = [
        ((schedule.bits, gradient_bits(setting.condition) != gradient_bits(base.condition)), setting)
        for setting in analysis.settings
        if isinstance(schedule := schedule_of(setting.condition), Constant)
        and schedule.bits is not None
        and schedule.bits < width_of(widest.bits)
        and not setting.condition.has_overrides
        and (setting.condition.grid, setting.condition.learning_rate)
        == (base.condition.grid, base.condition.learning_rate)
    ]
    return min(static, key=lambda pair: pair[0])[1] if static else None


def diverged_runs(analysis: Analysis) -> Claim | None:
    """State that some runs ended with a metric that is not a finite number."""
    diverged = any(setting.diverged for setting in analysis.settings)
    return Claim(ClaimKind.DIVERGED_RUNS, *SUPPORTED) if diverged else None


def few_seeds(analysis: Analysis) -> Claim | None:
    """State that some settings have fewer than five seeds."""
    few = any(len(setting.qualities) < ENOUGH_SEEDS for setting in analysis.settings)
    return Claim(ClaimKind.FEW_SEEDS, *open_because(OpenReason.TOO_FEW_SEEDS)) if few else None


def advice(analysis: Analysis) -> dict[Role, str]:
    """Choose the settings for lowest cost, balance and best quality.

    Full precision is not among the choices unless it is all there is. The balance is the cheapest acceptable setting,
    or the knee of the Pareto front if there is none.
    """
    finite = [setting for setting in analysis.settings if not setting.diverged]
    choices = [setting for setting in finite if schedule_of(setting.condition) != Constant(None)] or finite
    if not choices:
        return {}
    if len(choices) == 1:
        return {Role.ONLY_CHOICE: choices[0].label}
    sign = 1 if analysis.higher_is_better else -1
    cheapest = min(choices, key=lambda setting: (setting.bitops, -sign * setting.quality.mean))
    best = min(choices, key=lambda setting: (-sign * setting.quality.mean, setting.bitops))
    balance = analysis.cheapest_acceptable or _knee(choices, cheapest, best)
    return {Role.LOWEST_COST: cheapest.label, Role.BALANCE: balance.label, Role.BEST_QUALITY: best.label}


def _knee(choices: list[Setting], cheapest: Setting, best: Setting) -> Setting:
    """Return the setting of the front that is highest above the straight line from the cheapest to the best.

    With cost and quality both scaled to 0 at the cheapest and 1 at the best, it has the largest quality minus cost.
    """
    front = [setting for setting in choices if setting.on_front]
    costs, gains = best.bitops - cheapest.bitops, best.quality.mean - cheapest.quality.mean
    if costs == 0 or gains == 0:
        return best

    def height(setting: Setting) -> float:
        gained = (setting.quality.mean - cheapest.quality.mean) / gains
        return gained - (setting.bitops - cheapest.bitops) / costs

    return max([best, *front], key=height)
