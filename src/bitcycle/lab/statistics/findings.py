"""What the numbers of a comparison group allow to claim, and which settings they recommend.

Comparisons of many settings rest on tests of significance with Holm's correction for their number; "as good as the
baseline" is decided by :mod:`bitcycle.lab.judging`, as everywhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeVar

from bitcycle.lab.judging import Judgement
from bitcycle.lab.statistics.analysis import (
    Analysis,
    Claim,
    Correlation,
    CorrelationKind,
    EqualCost,
    OpenReason,
    Outcome,
    Over,
    Role,
    Setting,
    Verdict,
)
from bitcycle.lab.statistics.bootstrap import LEVEL, max_coverage, stats
from bitcycle.lab.statistics.claims import (
    ENOUGH_SEEDS,
    CheapestAcceptable,
    DivergedRuns,
    EarlyPrecision,
    FewSeeds,
    HighStart,
    PrecisionMatters,
    QualityFollowsCost,
    SchedulesAgainstBaseline,
)
from bitcycle.lab.statistics.correlations import MIN_SETTINGS
from bitcycle.lab.statistics.labels import gradient_bits, schedule_of
from bitcycle.lab.statistics.settings import correlated
from bitcycle.schedules import Constant
from bitcycle.schedules.base import width_of

Key = TypeVar("Key")
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
        schedules_against_baseline(analysis),
        cheapest_acceptable(analysis),
        early_precision(analysis.equal_cost),
        high_start(analysis.equal_cost),
        precision_matters(analysis),
        diverged_runs(analysis),
        few_seeds(analysis),
    ]
    return [claim for claim in candidates if claim is not None]


def quality_follows_cost(analysis: Analysis) -> QualityFollowsCost:
    """Supported if the intervals over settings and over runs lie above zero, contradicted if both lie below."""
    settings, runs = (
        next(c for c in analysis.correlations if c.kind == CorrelationKind.SPEARMAN and c.over == over) for over in Over
    )
    costs = sorted(setting.bitops for setting in correlated(analysis.settings))
    different = 1 + sum(higher > 1.01 * lower for lower, higher in pairwise(costs))
    decision = _relation(analysis, settings, runs, different)
    return QualityFollowsCost(*decision, settings, runs, different)


def _relation(analysis: Analysis, settings: Correlation, runs: Correlation, different_costs: int) -> Decision:
    if settings.count < 2:
        return open_because(OpenReason.ONE_SETTING)
    if math.isnan(settings.value) or math.isnan(runs.value):
        return open_because(_constant(analysis))
    if different_costs < MIN_COSTS:
        return open_because(OpenReason.FEW_COSTS)
    if settings.low > 0 and runs.low > 0:
        return SUPPORTED
    if settings.high < 0 and runs.high < 0:
        return CONTRADICTED
    missing = [OpenReason.FEW_SETTINGS] if settings.count < MIN_SETTINGS else []
    missing += [OpenReason.TOO_FEW_SEEDS] if math.isnan(runs.low) else []
    return open_because(*(missing or [OpenReason.INCLUDES_ZERO]))


def _constant(analysis: Analysis) -> OpenReason:
    """Say what does not vary, so that there is no correlation."""
    if len({value for setting in analysis.settings for value in setting.qualities.values()}) == 1:
        return OpenReason.EQUAL_QUALITY
    costs = {setting.bitops for setting in correlated(analysis.settings)}
    return OpenReason.EQUAL_COST if len(costs) == 1 else OpenReason.EQUAL_MEANS


def schedules_against_baseline(analysis: Analysis) -> SchedulesAgainstBaseline | None:
    """Supported if any schedule beats the baseline, contradicted if all are worse."""
    schedules = [setting for setting in analysis.settings if not setting.baseline]
    if analysis.baseline is None or not schedules:
        return None
    labels = _grouped((setting.against.outcome, setting.label) for setting in schedules if setting.against is not None)
    decision = open_because(OpenReason.NOT_SIGNIFICANT)
    if Outcome.BETTER in labels:
        decision = SUPPORTED
    elif set(labels) == {Outcome.WORSE}:
        decision = CONTRADICTED
    elif not labels.keys() & {Outcome.WORSE, Outcome.NO_DIFFERENCE}:
        decision = open_because(*_untested(labels))
    return SchedulesAgainstBaseline(*decision, analysis.baseline, labels)


def _untested(labels: Mapping[Outcome, tuple[str, ...]]) -> tuple[OpenReason, ...]:
    causes = {Outcome.DIVERGED: OpenReason.DIVERGED, Outcome.TOO_FEW_SEEDS: OpenReason.TOO_FEW_SEEDS}
    return tuple(reason for outcome, reason in causes.items() if outcome in labels)


def _grouped(pairs: Iterable[tuple[Key, str]]) -> dict[Key, tuple[str, ...]]:
    groups: dict[Key, list[str]] = {}
    for key, label in pairs:
        groups.setdefault(key, []).append(label)
    return {key: tuple(labels) for key, labels in groups.items()}


def cheapest_acceptable(analysis: Analysis) -> CheapestAcceptable | None:
    """Supported if a cheaper setting is as good within the margin, contradicted if all are worse or diverged."""
    base = analysis.setting(analysis.baseline)
    cheaper = [setting for setting in analysis.settings if setting.relative_cost < 1]
    if base is None or not cheaper:
        return None
    judged = _grouped((s.acceptable.judgement, s.label) for s in cheaper if s.acceptable is not None)
    chosen = analysis.cheapest_acceptable
    decision = open_because(OpenReason.BEYOND_MARGIN)
    if chosen is not None:
        decision = SUPPORTED
    elif not math.isfinite(base.quality.mean):
        decision = open_because(OpenReason.BASELINE_DIVERGED)
    elif judged.keys() <= {Judgement.WORSE, Judgement.DIVERGED}:
        decision = CONTRADICTED
    elif Judgement.UNCLEAR not in judged:
        decision = open_because(OpenReason.TOO_FEW_SEEDS)
    label, test = (None, None) if chosen is None else (chosen.label, chosen.acceptable)
    return CheapestAcceptable(*decision, base.label, label, test, judged)


def early_precision(equal_cost: EqualCost | None) -> EarlyPrecision | None:
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
    return EarlyPrecision(
        *decision,
        tuple(equal_cost.labels),
        equal_cost.spread,
        equal_cost.p,
        equal_cost.reversed_p,
        equal_cost.spearman,
    )


def high_start(equal_cost: EqualCost | None) -> HighStart | None:
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
    return HighStart(*decision, tuple(equal_cost.pairs))


def precision_matters(analysis: Analysis) -> PrecisionMatters | None:
    """Compare the lowest static width with the baseline: if they do not differ, no schedule can gain anything."""
    base = analysis.setting(analysis.baseline)
    lowest = None if base is None else _lowest_static(analysis, base)
    if base is None or lowest is None or lowest.against is None:
        return None
    outcome = lowest.against.outcome
    diverged = _diverged(lowest)
    all_diverged = diverged == len(lowest.qualities) >= 2 and math.isfinite(base.quality.mean)
    decision = {
        Outcome.WORSE: SUPPORTED,
        Outcome.BETTER: CONTRADICTED,
        Outcome.DIVERGED: SUPPORTED if all_diverged else open_because(OpenReason.DIVERGED),
        Outcome.TOO_FEW_SEEDS: open_because(OpenReason.TOO_FEW_SEEDS),
        Outcome.NO_DIFFERENCE: open_because(OpenReason.NOT_SIGNIFICANT),
    }[outcome]
    return PrecisionMatters(*decision, lowest.label, base.label, outcome, lowest.against.difference.mean, diverged)


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


def _diverged(setting: Setting) -> int:
    return sum(not math.isfinite(value) for value in setting.qualities.values())


def diverged_runs(analysis: Analysis) -> DivergedRuns | None:
    """Count the runs that ended with a metric that is not a finite number."""
    diverged = {setting.label: count for setting in analysis.settings if (count := _diverged(setting))}
    if not diverged:
        return None
    runs = sum(len(setting.qualities) for setting in analysis.settings)
    baseline = analysis.baseline if analysis.baseline in diverged else None
    return DivergedRuns(*SUPPORTED, diverged, runs, baseline)


def few_seeds(analysis: Analysis) -> FewSeeds | None:
    """Say what fewer than five seeds leave open."""
    counts = {setting.label: len(setting.qualities) for setting in analysis.settings}
    short = {label: count for label, count in counts.items() if count < ENOUGH_SEEDS}
    if not short:
        return None
    fewest = min(short.values())
    tests = sum(setting.against is not None and not math.isnan(setting.against.p) for setting in analysis.settings)
    hurdle = float(stats().t.isf(LEVEL / 2 / tests, fewest - 1)) if tests and fewest > 1 else math.nan
    return FewSeeds(
        *open_because(OpenReason.TOO_FEW_SEEDS),
        short,
        len(set(counts.values())) == 1,
        max_coverage(fewest),
        tests,
        hurdle,
    )


def advice(analysis: Analysis) -> dict[Role, str]:
    """Choose the settings for lowest cost, balance and best quality.

    Full precision is not among the choices unless it is all there is. The balance is the cheapest acceptable setting,
    or the knee of the Pareto front if there is none.
    """
    finite = [setting for setting in analysis.settings if math.isfinite(setting.quality.mean)]
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
