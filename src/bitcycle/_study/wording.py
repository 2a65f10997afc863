"""The results of a study in words: a headline and details for every claim, and recommendations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

from bitcycle._study.analysis import (
    Analysis,
    Claim,
    Comparison,
    Correlation,
    DeficitAnalysis,
    Interval,
    OpenReason,
    Outcome,
    Role,
    Verdict,
)
from bitcycle._study.claims import (
    ENOUGH_SEEDS,
    CheapestAcceptable,
    DivergedRuns,
    EarlyPrecision,
    FewSeeds,
    GrowingDamage,
    HighStart,
    LastingDamage,
    LaterHurtsLess,
    PrecisionMatters,
    QualityFollowsCost,
    RestartHelps,
    SchedulesAgainstBaseline,
)
from bitcycle._study.deficits import Arm
from bitcycle._study.format import aligned, cost_phrase, count, listed, number, p_value, percent
from bitcycle.advice.non_inferiority import FEWEST_SEEDS, Judgement, NonInferiority

MANY = 12
"""A sentence names no more settings than this; the table has them all."""

AnyAnalysis = Analysis | DeficitAnalysis


class Wording(NamedTuple):
    """A claim in words."""

    headline: str
    """One short sentence with its number, without a full stop."""
    details: str
    """The same with all statistics."""


def headline(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say in one short sentence, with its number, the result of a claim.

    Args:
        claim: One of ``analysis.claims``.
        analysis: The analysis that the claim belongs to.
    """
    return _wording(claim, analysis).headline


def details(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say the result of a claim with all of its statistics; see :func:`headline`."""
    return _wording(claim, analysis).details


@singledispatch
def _wording(claim: Claim, analysis: AnyAnalysis) -> Wording:
    raise TypeError(f"no wording for {type(claim).__name__}")


# --- Parts of sentences


def _settings(labels: Sequence[str]) -> str:
    """The names of settings; of many, only how many there are."""
    return listed(labels) if len(labels) <= MANY else count(len(labels), "setting")


def _correlation(found: Correlation) -> str:
    over = f"{found.value:.2f} over {count(found.count, found.over.removesuffix('s'))}"
    if math.isnan(found.low):
        return f"{over} (no interval)"
    return f"{over} (95 % interval {found.low:.2f} to {found.high:.2f})"


def _difference(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return " to ".join(aligned([low, high], 2, signed=True))


def _change(found: Interval) -> str:
    if not math.isfinite(found.mean):
        return "an amount that is not finite (a run diverged)"
    if math.isnan(found.low):
        return f"{number(found.mean)} (no interval)"
    return f"{number(found.mean)} (95 % interval {number(found.low)} to {number(found.high)})"


def _metric_change(found: Interval, analysis: DeficitAnalysis) -> str:
    """The change of the metric itself, so with the opposite sign where a lower metric is better."""
    if not math.isfinite(found.mean):
        return "a run diverged"
    mean, low, high = (found.mean, found.low, found.high)
    if not analysis.higher_is_better:
        mean, low, high = -mean, -high, -low
    if math.isnan(low):
        return f"{analysis.metric} {mean:+.2g} (no interval)"
    mean_text, low_text, high_text = aligned([mean, low, high], 2, signed=True)
    return f"{analysis.metric} {mean_text} ({low_text} to {high_text})"


def _by_sign(found: Interval, up: str, down: str, neither: str) -> str:
    """Choose a phrase by the side of zero that the interval lies on."""
    return up if found.low > 0 else down if found.high < 0 else neither


def _signed(analysis: DeficitAnalysis) -> str:
    return f"{analysis.metric} (positive: better)"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


# --- Claims about schedules


@_wording.register
def _(claim: QualityFollowsCost, analysis: Analysis) -> Wording:
    if missing := _no_correlation(claim, analysis):
        sentence = f"Whether quality rises with cost cannot be tested: {missing}"
        return Wording(sentence, f"{sentence}.")
    relation = {
        Verdict.SUPPORTED: "Quality rises with cost",
        Verdict.CONTRADICTED: "Quality falls as cost rises",
        Verdict.OPEN: "No clear relation between quality and cost",
    }[claim.verdict]
    found = claim.over_settings
    bounds = "" if math.isnan(found.low) else f" ({found.low:.2f} to {found.high:.2f})"
    why = {
        OpenReason.FEW_SETTINGS: "with so few settings, such an order can arise by chance",
        OpenReason.TOO_FEW_SEEDS: "a single seed says nothing about other seeds",
    }
    limits = [why[reason] for reason in claim.reasons if reason in why]
    return Wording(
        f"{relation}: Spearman's correlation {found.value:.2f} over {count(found.count, 'setting')}{bounds}",
        f"{relation}: Spearman's correlation is {_correlation(found)} and {_correlation(claim.over_runs)}"
        f"{f'; {listed(limits)}' if limits else ''}.",
    )


def _no_correlation(claim: QualityFollowsCost, analysis: Analysis) -> str:
    """Why there is no correlation; empty if there is one."""
    for reason in claim.reasons:
        match reason:
            case OpenReason.ONE_SETTING:
                return "at least two settings are needed"
            case OpenReason.EQUAL_QUALITY:
                some = next(iter(analysis.settings[0].qualities.values()))
                return f"every run has the same {analysis.metric}, {number(some)}"
            case OpenReason.EQUAL_MEANS:
                return f"all settings have the same mean {analysis.metric}"
            case OpenReason.EQUAL_COST:
                return "all settings cost the same"
            case OpenReason.FEW_COSTS:
                return f"the settings have only {count(claim.different_costs, 'different cost')}"
    return ""


@_wording.register
def _(claim: SchedulesAgainstBaseline, analysis: Analysis) -> Wording:
    baseline, labels = claim.baseline, claim.labels
    if not labels.keys() & {Outcome.BETTER, Outcome.WORSE, Outcome.NO_DIFFERENCE}:
        causes = {OpenReason.DIVERGED: "runs diverged", OpenReason.TOO_FEW_SEEDS: "there are too few seeds"}
        why = listed([causes[reason] for reason in claim.reasons if reason in causes] or ["there is nothing to test"])
        return Wording(
            f"No schedule could be tested against {baseline}: {why}",
            f"Whether any schedule beats {baseline} cannot be tested: {why}.",
        )
    schedules = sum(len(some) for some in labels.values())
    worse = len(labels.get(Outcome.WORSE, ()))
    if better := labels.get(Outcome.BETTER):
        short = f"Better than {baseline}: {_settings(better)} ({len(better)} of {count(schedules, 'schedule')})"
    elif claim.verdict == Verdict.CONTRADICTED:
        short = f"Every schedule is worse than {baseline} ({schedules} of {schedules})"
    elif worse:
        short = f"No schedule is significantly better than {baseline}, and {worse} of {schedules} are worse"
    else:
        tested = len(labels[Outcome.NO_DIFFERENCE])
        short = f"No schedule differs significantly from {baseline} ({tested} of {schedules} tested)"
    begin = {
        Verdict.SUPPORTED: "Some schedules beat",
        Verdict.CONTRADICTED: "No schedule beats",
        Verdict.OPEN: "No schedule is shown to beat",
    }[claim.verdict]
    phrases = {
        Outcome.BETTER: "better",
        Outcome.WORSE: "worse",
        Outcome.NO_DIFFERENCE: "no significant difference",
        Outcome.DIVERGED: "not tested because runs diverged",
        Outcome.TOO_FEW_SEEDS: "not tested because of too few seeds",
    }
    each = "; ".join(
        f"{phrase}: {_settings(labels[outcome])}" for outcome, phrase in phrases.items() if labels.get(outcome)
    )
    return Wording(short, f"{begin} {baseline} (paired t test over seeds, Holm's correction): {each}.")


@_wording.register
def _(claim: CheapestAcceptable, analysis: Analysis) -> Wording:
    chosen, base, test = analysis.setting(claim.label), analysis.setting(claim.baseline), claim.test
    if chosen is None or base is None or test is None:
        return _nothing_acceptable(claim, analysis)
    quality, base_quality = aligned([chosen.quality.mean, base.quality.mean], 3)
    bounds = (
        f"the one-sided 95 % confidence bounds are {_difference(test.lower, test.upper)}"
        if test.lower < test.upper
        else "it is the same for every seed, so the sign test gives the bound"
    )
    return Wording(
        f"Cheapest acceptable schedule: {chosen.label}, {cost_phrase(chosen.relative_cost)}, {analysis.metric} "
        f"{quality} against {base_quality} (difference {_metric_bounds(test, analysis)})",
        f"{claim.label} is the cheapest setting that is as good as {claim.baseline} within a margin of "
        f"{number(test.margin)} in {analysis.metric}. The mean difference over {count(test.pairs, 'shared seed')} is "
        f"{test.difference:+.3g} (positive: better), and {bounds}. A setting is accepted if the lower bound is not "
        f"below {-test.margin:+.3g} (non-inferiority, paired over seeds, no correction for the number of settings).",
    )


def _nothing_acceptable(claim: CheapestAcceptable, analysis: Analysis) -> Wording:
    total = sum(len(labels) for labels in claim.judged.values())
    counts, names = [], []
    for judgement, short, long in (
        (Judgement.WORSE, "worse", "significantly worse"),
        (Judgement.NOT_SHOWN, "undecided", "a loss beyond the margin is not excluded"),
        (Judgement.DIVERGED, "diverged", "diverged"),
        (Judgement.TOO_FEW_SEEDS, "with too few seeds", f"fewer than {FEWEST_SEEDS} shared seeds"),
    ):
        if labels := claim.judged.get(judgement):
            counts.append(f"{len(labels)} of {total} {short}")
            names.append(f"{long}: {_settings(labels)}")
    baseline_diverged = OpenReason.BASELINE_DIVERGED in claim.reasons
    why = "runs of the baseline diverged" if baseline_diverged else ", ".join(counts)
    good = "as good" if claim.verdict == Verdict.CONTRADICTED else "shown to be as good"
    margin = next((s.acceptable.margin for s in analysis.settings if s.acceptable is not None), math.nan)
    within = f", within a margin of {number(margin)} in {analysis.metric}" if math.isfinite(margin) else ""
    return Wording(
        f"No cheaper setting is {good} as {claim.baseline}: {why}",
        f"No setting cheaper than {claim.baseline} is shown to be as good{within}: {'; '.join(names)}.",
    )


def _metric_bounds(test: NonInferiority, analysis: Analysis) -> str:
    """The interval of the difference in the metric itself, as it is shown beside the metric."""
    if test.lower == test.upper:
        return f"{test.difference if analysis.higher_is_better else -test.difference:+.2g} for every seed"
    bounds = (test.lower, test.upper) if analysis.higher_is_better else (-test.upper, -test.lower)
    return _difference(*bounds)


@_wording.register
def _(claim: EarlyPrecision, analysis: Analysis) -> Wording:
    schedules = f"among {count(len(claim.labels), 'schedule')} of equal cost"
    among = f"at equal cost ({_settings(claim.labels)}, within {percent(claim.spread)} of each other)"
    subject = "the bits of the first tenth of training"
    if math.isnan(claim.p):
        return Wording(
            f"Whether early precision helps {schedules} cannot be tested: too few shared seeds",
            f"Whether {among} quality rises with {subject} cannot be tested: the test needs two seeds that all of them "
            "share, and early bits that differ.",
        )
    p, reversed_p = p_value(claim.p, named=True), p_value(claim.reversed_p, named=True)
    opposite = "" if claim.verdict == Verdict.SUPPORTED else f" and {reversed_p} for the opposite order"
    spearman = f"Spearman's correlation is {_correlation(claim.spearman)}"
    numbers = f"Page's trend test over seeds gives {p}{opposite}; {spearman}"
    return {
        Verdict.SUPPORTED: Wording(
            f"More bits early in training improve quality {schedules} ({p})",
            f"{_capital(among)}, quality rises with {subject}: {numbers}.",
        ),
        Verdict.CONTRADICTED: Wording(
            f"More bits early in training reduce quality {schedules} ({reversed_p})",
            f"{_capital(among)}, quality falls with {subject}: {numbers}.",
        ),
        Verdict.OPEN: Wording(
            f"No significant effect of early precision {schedules} ({p})",
            f"Whether {among} quality rises with {subject} is open: {numbers}.",
        ),
    }[claim.verdict]


@_wording.register
def _(claim: HighStart, analysis: Analysis) -> Wording:
    effect = {
        Verdict.SUPPORTED: "Starting at high precision is better at equal cost",
        Verdict.CONTRADICTED: "Starting at high precision is worse at equal cost",
        Verdict.OPEN: "No clear effect of starting at high precision at equal cost",
    }[claim.verdict]
    short = f"{effect}: {', '.join(_pair(*pair) for pair in claim.pairs[:2])}"
    if OpenReason.TOO_FEW_SEEDS in claim.reasons:
        short = "Whether starting at high precision helps at equal cost cannot be tested: too few shared seeds"
    shown, more = claim.pairs[:MANY], len(claim.pairs) - MANY
    each = listed([f"{_pair(high, low, comparison)} ({comparison.outcome})" for high, low, comparison in shown])
    each += f"; {count(more, 'more pair')} not listed" if more > 0 else ""
    if claim.verdict == Verdict.OPEN:
        return Wording(
            short, f"Whether it helps to start at high precision is open for the pairs of equal cost: {each}."
        )
    outcome = Outcome.BETTER if claim.verdict == Verdict.SUPPORTED else Outcome.WORSE
    matching = sum(comparison.outcome == outcome for _, _, comparison in claim.pairs)
    where = f"In {matching} of {len(claim.pairs)} pairs of equal cost" if len(claim.pairs) > 1 else "At equal cost"
    return Wording(short, f"{where} the schedule that starts at high precision is {outcome}: {each}.")


def _pair(high: str, low: str, comparison: Comparison) -> str:
    if not comparison.pairs:
        return f"{high} shares no seed with {low}"
    return f"{high} {_ahead(comparison.difference.mean)} {low}"


@_wording.register
def _(claim: PrecisionMatters, analysis: Analysis) -> Wording:
    lowest, baseline = claim.lowest, claim.baseline
    unknown = "Whether precision matters here cannot be tested"
    match claim.outcome:
        case Outcome.DIVERGED if claim.verdict == Verdict.SUPPORTED:
            short = f"Precision matters here: all {count(claim.diverged, 'run')} of {lowest} diverged"
            return Wording(short, f"{short}, and none of {baseline}.")
        case Outcome.DIVERGED:
            short = f"{unknown}: {lowest} or {baseline} has runs that diverged"
            return Wording(short, f"{short}.")
        case Outcome.TOO_FEW_SEEDS:
            short = f"{unknown}: {lowest} and {baseline} share fewer than two seeds"
            return Wording(short, f"{short}.")
    begin = {
        Verdict.SUPPORTED: "Precision matters here",
        Verdict.CONTRADICTED: "Low precision does no harm here",
        Verdict.OPEN: "The effect of precision is not significant",
    }[claim.verdict]
    short = f"{begin}: {lowest} {_ahead(claim.difference)} {baseline} in mean {analysis.metric}"
    long = f"{short} (paired t test over seeds, Holm's correction)."
    if claim.outcome == Outcome.NO_DIFFERENCE:
        long += " If there is none, schedules between these bit-widths have nothing to gain or lose."
    return Wording(short, long)


def _ahead(difference: float) -> str:
    """How a setting with this difference compares, phrased to go between two names."""
    if difference == 0:
        return "equals"
    return f"is {number(abs(difference))} {'better' if difference > 0 else 'worse'} than"


@_wording.register
def _(claim: DivergedRuns, analysis: Analysis) -> Wording:
    where = _settings([f"{amount} of {label}" for label, amount in claim.diverged.items()])
    short = f"{sum(claim.diverged.values())} of {count(claim.runs, 'run')} diverged ({where})"
    long = (
        f"{short}. Their settings have no finite mean, and are excluded from correlations, tests and the Pareto front."
    )
    if claim.baseline is not None:
        long += f" The baseline {claim.baseline} is among them, so nothing can be compared with it."
    return Wording(short, long)


@_wording.register
def _(claim: FewSeeds, analysis: Analysis) -> Wording:
    fewest = min(claim.seeds.values())
    amount = f"only {count(fewest, 'seed')}"
    if len(set(claim.seeds.values())) > 1:
        amount = f"fewer than {ENOUGH_SEEDS} seeds, down to {fewest}"
    which = f"{_settings(list(claim.seeds))} {'has' if len(claim.seeds) == 1 else 'have'}"
    seeds = f"{'Every setting has' if claim.all_alike else which} {amount}"
    if fewest == 1:
        effect = "One seed cannot separate effect from noise: it has neither a standard error nor a test."
    else:
        hurdle = (
            f", and with {count(claim.comparisons, 'comparison')} only a difference beyond {number(claim.hurdle)} "
            "standard errors is significant"
        )
        coverage = f"Intervals from {fewest} values cover {percent(claim.coverage, 0)} at best"
        effect = f"{coverage}{'' if math.isnan(claim.hurdle) else hurdle}."
    return Wording(f"{seeds}: run {ENOUGH_SEEDS} or more", f"{seeds}. {effect} Run {ENOUGH_SEEDS} seeds or more.")


# --- Claims about deficits


@_wording.register
def _(claim: GrowingDamage, analysis: DeficitAnalysis) -> Wording:
    change = _by_sign(claim.slope, "rises", "falls", "does not change significantly")
    begin = f"Final quality {change} with the length of an initial deficit"
    return Wording(
        f"{begin}: {_metric_change(claim.slope, analysis)} for each normal-run length of deficit",
        f"{begin}: compared with as many steps without one, {_signed(analysis)} changes by {_change(claim.slope)} per "
        "normal run of deficit.",
    )


@_wording.register
def _(claim: LastingDamage, analysis: DeficitAnalysis) -> Wording:
    difference, steps = claim.difference, count(claim.steps, "step")
    begin = _by_sign(difference, "The deficit improved quality", "The damage lasts", "No significant lasting damage")
    return Wording(
        f"{begin}: {_metric_change(difference, analysis)} after an initial deficit of {steps} and a whole normal "
        "training",
        f"{begin}: after the longest initial deficit ({steps}) and a whole normal run, {_signed(analysis)} "
        f"differs by {_change(difference)} from as many steps without a deficit.",
    )


@_wording.register
def _(claim: RestartHelps, analysis: DeficitAnalysis) -> Wording:
    effect = _by_sign(claim.gain, "helps", "hurts", "has no significant effect")
    begin = f"Restarting the learning rate after the longest initial deficit {effect}"
    long = f"{begin}: compared with holding it, {_signed(analysis)} changes by {_change(claim.gain)}."
    if claim.gap.high < 0 and math.isfinite(claim.remaining.mean):
        gap, remaining = number(-claim.gap.mean), number(-claim.remaining.mean)
        long += f" Of the gap of {gap} to the control, {remaining} remains."
    return Wording(f"{begin}: {_metric_change(claim.gain, analysis)}", long)


@_wording.register
def _(claim: LaterHurtsLess, analysis: DeficitAnalysis) -> Wording:
    rate = {Arm.HELD: "held during", Arm.RESTARTED: "restarted after"}[claim.arm]
    effect = _by_sign(claim.slope, "hurts less", "hurts more", "hurts neither significantly less nor more")
    return Wording(
        f"A later deficit {effect} (learning rate {claim.arm}): {_metric_change(claim.slope, analysis)} per normal "
        "training later",
        f"With the learning rate {rate} it, a later deficit of the same length {effect}: compared with the control "
        f"without one, {_signed(analysis)} changes by {_change(claim.slope)} per normal run that the deficit is "
        "moved.",
    )


# --- Recommendations


def recommendations(analysis: Analysis) -> list[str]:
    """Return two to four sentences on which setting to choose."""
    if not analysis.advice:
        return ["Every setting has runs that diverged: there is nothing to choose from.", "Raise q_min and run again."]
    if Role.ONLY_CHOICE in analysis.advice:
        only = analysis.advice[Role.ONLY_CHOICE]
        return [
            f"{only} is the only setting to choose: {_summary(only, analysis)}.",
            "Run others, including static q_max, to see what precision costs and saves.",
        ]
    if min(len(setting.qualities) for setting in analysis.settings) < FEWEST_SEEDS:
        return [f"Fewer than {FEWEST_SEEDS} seeds cannot support a recommendation.", *_caution(analysis)]
    roles: dict[str, list[str]] = {}
    for role, label in analysis.advice.items():
        roles.setdefault(label, []).append(role)
    sentences = [
        f"{_capital(listed(roles[setting.label]))}: {setting.label}, {_summary(setting.label, analysis)}."
        for setting in analysis.settings
        if setting.label in roles
    ]
    if analysis.advice[Role.LOWEST_COST] == analysis.advice[Role.BEST_QUALITY]:
        sentences.append("The cheapest setting also has the best mean quality: there is no trade-off here.")
    return sentences + _caution(analysis)


def _summary(label: str, analysis: Analysis) -> str:
    """Cost and quality of a setting, and how it compares with the baseline."""
    setting, base = analysis.setting(label), analysis.setting(analysis.baseline)
    assert setting is not None
    quality = f"mean {analysis.metric} {number(setting.quality.mean)}"
    if base is None:
        return quality
    if setting is base:
        return f"the baseline, with {quality}"
    phrase = {
        Outcome.BETTER: "significantly better than",
        Outcome.WORSE: "significantly worse than",
        Outcome.NO_DIFFERENCE: "not significantly different from",
    }
    outcome = setting.against.outcome if setting.against is not None else Outcome.TOO_FEW_SEEDS
    base_quality = f"{base.label} ({number(base.quality.mean)})" if math.isfinite(base.quality.mean) else base.label
    compared = f"{phrase.get(outcome, 'not tested against')} {base_quality}"
    if setting.acceptable is not None and setting.acceptable.accepted:
        compared = f"as good as {base_quality} within a margin of {number(setting.acceptable.margin)}"
    return f"{cost_phrase(setting.relative_cost)}, {quality}, {compared}"


def _caution(analysis: Analysis) -> list[str]:
    if analysis.baseline is None:
        return ["No static or full-precision baseline was run, so it is unknown what these settings lose."]
    fewest = min(len(setting.qualities) for setting in analysis.settings)
    if fewest < ENOUGH_SEEDS:
        return [f"Some settings have only {count(fewest, 'seed')}: run at least {ENOUGH_SEEDS} to rely on this."]
    return []
