"""Claims about schedules in words."""

from __future__ import annotations

import math

from bitcycle.lab.format import aligned, cost_phrase, count, listed, number, p_value, percent
from bitcycle.lab.judging import MIN_SEEDS, Judgement, NonInferiority
from bitcycle.lab.report.wording.claim import Wording, wording
from bitcycle.lab.report.wording.phrases import MANY, capital, correlation_phrase, difference_phrase, settings_phrase
from bitcycle.lab.statistics.analysis import Analysis, Comparison, OpenReason, Outcome, Verdict
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


@wording.register
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
        f"{relation}: Spearman's correlation is {correlation_phrase(found)} and {correlation_phrase(claim.over_runs)}"
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


@wording.register
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
        short = f"Better than {baseline}: {settings_phrase(better)} ({len(better)} of {count(schedules, 'schedule')})"
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
        f"{phrase}: {settings_phrase(labels[outcome])}" for outcome, phrase in phrases.items() if labels.get(outcome)
    )
    return Wording(short, f"{begin} {baseline} (paired t test over seeds, Holm's correction): {each}.")


@wording.register
def _(claim: CheapestAcceptable, analysis: Analysis) -> Wording:
    chosen, base, test = analysis.setting(claim.label), analysis.setting(claim.baseline), claim.test
    if chosen is None or base is None or test is None:
        return _nothing_acceptable(claim, analysis)
    quality, base_quality = aligned([chosen.quality.mean, base.quality.mean], 3)
    bounds = (
        f"the one-sided 95 % confidence bounds are {difference_phrase(test.lower, test.upper)}"
        if test.lower < test.upper
        else "it is the same for every seed, so the sign test gives the bound"
    )
    return Wording(
        f"Cheapest acceptable schedule: {chosen.label}, {cost_phrase(chosen.relative_cost)}, {analysis.metric} "
        f"{quality} against {base_quality} (difference {_metric_bounds(test, analysis)})",
        f"{claim.label} is the cheapest setting that is as good as {claim.baseline} within a margin of "
        f"{number(test.margin)} in {analysis.metric}. The mean difference over {count(test.seeds, 'shared seed')} is "
        f"{test.mean:+.3g} (positive: better), and {bounds}. A setting is accepted if the lower bound is not "
        f"below {-test.margin:+.3g} (non-inferiority, paired over seeds, no correction for the number of settings).",
    )


def _nothing_acceptable(claim: CheapestAcceptable, analysis: Analysis) -> Wording:
    total = sum(len(labels) for labels in claim.judged.values())
    counts, names = [], []
    for judgement, short, long in (
        (Judgement.WORSE, "worse", "significantly worse"),
        (Judgement.UNCLEAR, "undecided", "a loss beyond the margin is not excluded"),
        (Judgement.DIVERGED, "diverged", "diverged"),
        (Judgement.TOO_FEW_SEEDS, "with too few seeds", f"fewer than {MIN_SEEDS} shared seeds"),
    ):
        if labels := claim.judged.get(judgement):
            counts.append(f"{len(labels)} of {total} {short}")
            names.append(f"{long}: {settings_phrase(labels)}")
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
        return f"{test.mean if analysis.higher_is_better else -test.mean:+.2g} for every seed"
    bounds = (test.lower, test.upper) if analysis.higher_is_better else (-test.upper, -test.lower)
    return difference_phrase(*bounds)


@wording.register
def _(claim: EarlyPrecision, analysis: Analysis) -> Wording:
    schedules = f"among {count(len(claim.labels), 'schedule')} of equal cost"
    among = f"at equal cost ({settings_phrase(claim.labels)}, within {percent(claim.spread)} of each other)"
    subject = "the bits of the first tenth of training"
    if math.isnan(claim.p):
        return Wording(
            f"Whether early precision helps {schedules} cannot be tested: too few shared seeds",
            f"Whether {among} quality rises with {subject} cannot be tested: the test needs two seeds that all of them "
            "share, and early bits that differ.",
        )
    p, reversed_p = p_value(claim.p, named=True), p_value(claim.reversed_p, named=True)
    opposite = "" if claim.verdict == Verdict.SUPPORTED else f" and {reversed_p} for the opposite order"
    spearman = f"Spearman's correlation is {correlation_phrase(claim.spearman)}"
    numbers = f"Page's trend test over seeds gives {p}{opposite}; {spearman}"
    return {
        Verdict.SUPPORTED: Wording(
            f"More bits early in training improve quality {schedules} ({p})",
            f"{capital(among)}, quality rises with {subject}: {numbers}.",
        ),
        Verdict.CONTRADICTED: Wording(
            f"More bits early in training reduce quality {schedules} ({reversed_p})",
            f"{capital(among)}, quality falls with {subject}: {numbers}.",
        ),
        Verdict.OPEN: Wording(
            f"No significant effect of early precision {schedules} ({p})",
            f"Whether {among} quality rises with {subject} is open: {numbers}.",
        ),
    }[claim.verdict]


@wording.register
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


@wording.register
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


@wording.register
def _(claim: DivergedRuns, analysis: Analysis) -> Wording:
    where = settings_phrase([f"{amount} of {label}" for label, amount in claim.diverged.items()])
    short = f"{sum(claim.diverged.values())} of {count(claim.runs, 'run')} diverged ({where})"
    long = (
        f"{short}. Their settings have no finite mean, and are excluded from correlations, tests and the Pareto front."
    )
    if claim.baseline is not None:
        long += f" The baseline {claim.baseline} is among them, so nothing can be compared with it."
    return Wording(short, long)


@wording.register
def _(claim: FewSeeds, analysis: Analysis) -> Wording:
    fewest = min(claim.seeds.values())
    amount = f"only {count(fewest, 'seed')}"
    if len(set(claim.seeds.values())) > 1:
        amount = f"fewer than {ENOUGH_SEEDS} seeds, down to {fewest}"
    which = f"{settings_phrase(list(claim.seeds))} {'has' if len(claim.seeds) == 1 else 'have'}"
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
