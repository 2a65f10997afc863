"""The results of a study in words: a headline and details for every claim, recommendations, and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch

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
from bitcycle.advice.non_inferiority import FEWEST_SEEDS, Judgement, NonInferiority

MANY = 12
"""A sentence names no more settings than this; the table has them all."""

AnyAnalysis = Analysis | DeficitAnalysis


# --- Numbers


def number(value: float) -> str:
    """Format a number with three significant digits.

    >>> number(0.92345), number(85.59)
    ('0.923', '85.6')
    """
    return f"{value:.3g}"


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.3667)
    '37 %'
    """
    return f"{100 * share:.0f} %"


def p_value(p: float) -> str:
    """Format a p-value.

    >>> p_value(0.0234), p_value(1e-7)
    ('p = 0.023', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def aligned(values: Sequence[float], digits: int, signed: bool = False) -> list[str]:
    """Format numbers with the same decimals, so many that the largest has the given significant digits.

    >>> aligned([0.975, 0.98], 3), aligned([-0.0111, 0.00502], 2, signed=True), aligned([1234.5, 7.0], 3)
    (['0.975', '0.980'], ['-0.011', '+0.005'], ['1234', '7'])
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest and not 1e-6 < largest < 1e9:
        return [f"{value:+.{digits}g}" if signed else f"{value:.{digits}g}" for value in values]
    decimals = max(0, digits - 1 - math.floor(math.log10(largest))) if largest else 0
    texts = [f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}" for value in values]
    return [text.lstrip("+-") if math.isfinite(value) and float(text) == 0 else text
            for text, value in zip(texts, values, strict=True)]  # fmt: skip


def interval(low: float, high: float) -> str:
    """Format the bounds of a difference.

    >>> interval(-0.0111, 0.00502), interval(float("-inf"), float("inf"))
    ('-0.011 to +0.005', 'no interval')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return "no interval"
    return " to ".join(aligned([low, high], 2, signed=True))


def cost_phrase(relative_cost: float) -> str:
    """Say how a cost compares with that of the baseline.

    >>> [cost_phrase(cost) for cost in (0.54, 1.0, 1.12, 15.8)]
    ['46 % less cost', 'the same cost', '12 % more cost', '15.8 times the cost']
    >>> [cost_phrase(cost) for cost in (0.996, 2, 1234.5, float("nan"))]
    ['0.4 % less cost', '2 times the cost', '1,234 times the cost', 'an unknown cost']
    """
    if not math.isfinite(relative_cost):
        return "an unknown cost"
    if relative_cost >= 2:
        return f"{f'{relative_cost:.3g}' if relative_cost < 100 else f'{relative_cost:,.0f}'} times the cost"
    points = 100 * abs(1 - relative_cost)
    if points < 0.05:
        return "the same cost"
    more = "less" if relative_cost < 1 else "more"
    return f"{points:.1f} % {more} cost" if points < 1 or 99.5 <= points < 100 else f"{points:.0f} % {more} cost"


def listed(names: Sequence[str]) -> str:
    """List names in a sentence; of many, only how many there are.

    >>> listed(["CR"]), listed(["CR", "CT", "LR"]), listed([str(i) for i in range(20)])
    ('CR', 'CR, CT and LR', '20 settings')
    """
    if len(names) > MANY:
        return f"{len(names):,} settings"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def count(amount: int, noun: str) -> str:
    """Format a number of things.

    >>> count(1, "seed"), count(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def _correlation(found: Correlation) -> str:
    over = f"{found.value:.2f} over {count(found.count, found.over.removesuffix('s'))}"
    if math.isnan(found.low):
        return f"{over} (no interval)"
    return f"{over} (95 % interval {found.low:.2f} to {found.high:.2f})"


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


# --- Claims


@singledispatch
def headline(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say in one short sentence, with its number, what a claim comes to.

    Args:
        claim: One of ``analysis.claims``.
        analysis: The analysis that the claim belongs to.
    """
    raise TypeError(f"no headline for {type(claim).__name__}")


@singledispatch
def details(claim: Claim, analysis: AnyAnalysis) -> str:
    """Say what a claim comes to with all of its statistics; see :func:`headline`."""
    raise TypeError(f"no details for {type(claim).__name__}")


@headline.register
def _(claim: QualityFollowsCost, analysis: Analysis) -> str:
    if not _has_correlation(claim):
        return f"Whether quality rises with cost cannot be tested: {_no_correlation(claim, analysis)}"
    found = claim.over_settings
    numbers = f"Spearman's correlation {found.value:.2f} over {count(found.count, 'setting')}"
    numbers += "" if math.isnan(found.low) else f" ({found.low:.2f} to {found.high:.2f})"
    return f"{_relation(claim)}: {numbers}"


@details.register
def _(claim: QualityFollowsCost, analysis: Analysis) -> str:
    if not _has_correlation(claim):
        return f"Whether quality rises with cost cannot be tested: {_no_correlation(claim, analysis)}."
    numbers = f"Spearman's correlation is {_correlation(claim.over_settings)} and {_correlation(claim.over_runs)}"
    why = {
        OpenReason.FEW_SETTINGS: "so few settings are easily in order by chance",
        OpenReason.TOO_FEW_SEEDS: "a single seed says nothing about other seeds",
    }
    missing = [why[reason] for reason in claim.reasons if reason in why]
    return f"{_relation(claim)}: {numbers}{f'; {listed(missing)}' if missing else ''}."


def _has_correlation(claim: QualityFollowsCost) -> bool:
    return not set(claim.reasons) & {
        OpenReason.ONE_SETTING,
        OpenReason.EQUAL_QUALITY,
        OpenReason.EQUAL_MEANS,
        OpenReason.EQUAL_COST,
        OpenReason.FEW_COSTS,
    }


def _no_correlation(claim: QualityFollowsCost, analysis: Analysis) -> str:
    match claim.reasons[0]:
        case OpenReason.ONE_SETTING:
            return "it takes at least two settings"
        case OpenReason.EQUAL_QUALITY:
            some = next(iter(analysis.settings[0].qualities.values()))
            return f"every run has the same {analysis.metric}, {number(some)}"
        case OpenReason.EQUAL_COST:
            return "all settings cost the same"
        case OpenReason.FEW_COSTS:
            return f"the settings have only {count(claim.different_costs, 'different cost')}"
        case _:
            return f"all settings have the same mean {analysis.metric}"


def _relation(claim: QualityFollowsCost) -> str:
    return {
        Verdict.SUPPORTED: "Quality rises with cost",
        Verdict.CONTRADICTED: "Quality falls as cost rises",
        Verdict.OPEN: "No clear relation between quality and cost",
    }[claim.verdict]


@headline.register
def _(claim: SchedulesAgainstBaseline, analysis: Analysis) -> str:
    schedules = sum(len(labels) for labels in claim.labels.values())
    better = claim.labels.get(Outcome.BETTER, ())
    if better:
        return f"Better than {claim.baseline}: {listed(better)} ({len(better)} of {count(schedules, 'schedule')})"
    if claim.verdict == Verdict.CONTRADICTED:
        return f"Every schedule is worse than {claim.baseline} ({schedules} of {schedules})"
    if not _tested(claim):
        return f"No schedule could be tested against {claim.baseline}: {_untested(claim)}"
    if worse := len(claim.labels.get(Outcome.WORSE, ())):
        return f"No schedule is significantly better than {claim.baseline}, and {worse} of {schedules} are worse"
    tested = len(claim.labels[Outcome.NO_DIFFERENCE])
    return f"No schedule differs significantly from {claim.baseline} ({tested} of {schedules} tested)"


@details.register
def _(claim: SchedulesAgainstBaseline, analysis: Analysis) -> str:
    if not _tested(claim):
        return f"Whether any schedule beats {claim.baseline} cannot be tested: {_untested(claim)}."
    parts = []
    for outcome, phrase in (
        (Outcome.BETTER, "better"),
        (Outcome.WORSE, "worse"),
        (Outcome.NO_DIFFERENCE, "no significant difference"),
        (Outcome.DIVERGED, "not tested because runs diverged"),
        (Outcome.TOO_FEW_SEEDS, "not tested because of too few seeds"),
    ):
        if labels := claim.labels.get(outcome):
            parts.append(f"{phrase}: {listed(labels)}")
    begin = {
        Verdict.SUPPORTED: "Some schedules beat",
        Verdict.CONTRADICTED: "No schedule beats",
        Verdict.OPEN: "No schedule is shown to beat",
    }[claim.verdict]
    return f"{begin} {claim.baseline} (paired t test over seeds, Holm's correction): {'; '.join(parts)}."


def _tested(claim: SchedulesAgainstBaseline) -> bool:
    return bool(claim.labels.keys() & {Outcome.BETTER, Outcome.WORSE, Outcome.NO_DIFFERENCE})


def _untested(claim: SchedulesAgainstBaseline) -> str:
    causes = {OpenReason.DIVERGED: "runs diverged", OpenReason.TOO_FEW_SEEDS: "there are too few seeds"}
    return listed([causes[reason] for reason in claim.reasons if reason in causes] or ["there is nothing to test"])


@headline.register
def _(claim: CheapestAcceptable, analysis: Analysis) -> str:
    chosen, base = analysis.setting(claim.label), analysis.setting(claim.baseline)
    if chosen is None or claim.test is None or base is None:
        if claim.verdict == Verdict.CONTRADICTED:
            return f"No cheaper setting is as good as {claim.baseline}: {_why_none(claim)}"
        return f"No cheaper setting is shown to be as good as {claim.baseline}: {_why_none(claim)}"
    quality, base_quality = aligned([chosen.quality.mean, base.quality.mean], 3)
    return (
        f"Cheapest acceptable schedule: {chosen.label}, {cost_phrase(chosen.relative_cost)}, {analysis.metric} "
        f"{quality} against {base_quality} (difference {_bounds(claim.test, analysis)})"
    )


@details.register
def _(claim: CheapestAcceptable, analysis: Analysis) -> str:
    if claim.test is None:
        judged = [
            f"{phrase}: {listed(labels)}"
            for judgement, phrase in (
                (Judgement.WORSE, "significantly worse"),
                (Judgement.NOT_SHOWN, "a loss beyond the margin is not excluded"),
                (Judgement.DIVERGED, "diverged"),
                (Judgement.TOO_FEW_SEEDS, f"fewer than {FEWEST_SEEDS} shared seeds"),
            )
            if (labels := claim.judged.get(judgement))
        ]
        margin = next((s.acceptable.margin for s in analysis.settings if s.acceptable is not None), math.nan)
        within = f", within a margin of {number(margin)} in {analysis.metric}" if math.isfinite(margin) else ""
        return f"No setting cheaper than {claim.baseline} is shown to be as good{within}: {'; '.join(judged)}."
    test = claim.test
    bounds = (
        f"the one-sided 95 % confidence bounds are {interval(test.lower, test.upper)}"
        if test.lower < test.upper
        else "it is the same for every seed, so the sign test gives the bound"
    )
    return (
        f"{claim.label} is the cheapest setting that is as good as {claim.baseline} within a margin of "
        f"{number(test.margin)} in {analysis.metric}. The mean difference over {count(test.pairs, 'shared seed')} is "
        f"{test.difference:+.3g} (positive: better), and {bounds}. A setting is accepted if the lower bound is not "
        f"below {-test.margin:+.3g} (non-inferiority, paired over seeds, no correction for the number of settings)."
    )


def _why_none(claim: CheapestAcceptable) -> str:
    if OpenReason.BASELINE_DIVERGED in claim.reasons:
        return "runs of the baseline diverged"
    counts = {judgement: len(labels) for judgement, labels in claim.judged.items()}
    phrases = {
        Judgement.WORSE: "worse",
        Judgement.NOT_SHOWN: "undecided",
        Judgement.DIVERGED: "diverged",
        Judgement.TOO_FEW_SEEDS: "with too few seeds",
    }
    total = sum(counts.values())
    return ", ".join(f"{counts[each]} of {total} {phrase}" for each, phrase in phrases.items() if each in counts)


def _bounds(test: NonInferiority, analysis: Analysis) -> str:
    """The interval of the difference in the metric itself, as it is shown beside the metric."""
    if test.lower == test.upper:
        return f"{test.difference if analysis.higher_is_better else -test.difference:+.2g} for every seed"
    bounds = (test.lower, test.upper) if analysis.higher_is_better else (-test.upper, -test.lower)
    return interval(*bounds)


@headline.register
def _(claim: EarlyPrecision, analysis: Analysis) -> str:
    among = f"among {count(len(claim.labels), 'schedule')} of equal cost"
    if math.isnan(claim.p):
        return f"Whether early precision pays {among} cannot be tested: too few shared seeds"
    return {
        Verdict.SUPPORTED: f"More bits early give better quality {among} ({p_value(claim.p)})",
        Verdict.CONTRADICTED: f"More bits early give worse quality {among} ({p_value(claim.reversed_p)})",
        Verdict.OPEN: f"No significant effect of early precision {among} ({p_value(claim.p)})",
    }[claim.verdict]


@details.register
def _(claim: EarlyPrecision, analysis: Analysis) -> str:
    among = f"at equal cost ({listed(claim.labels)}, within {100 * claim.spread:.1f} % of each other)"
    subject = "the bits of the first tenth of training"
    if math.isnan(claim.p):
        return (
            f"Whether {among} quality rises with {subject} cannot be tested: the test needs two seeds that all of them "
            "share, and early bits that differ."
        )
    numbers = f"Page's trend test over seeds gives {p_value(claim.p)}"
    numbers += f" and {p_value(claim.reversed_p)} for the opposite order" if claim.verdict != Verdict.SUPPORTED else ""
    numbers += f"; Spearman's correlation is {_correlation(claim.spearman)}"
    return {
        Verdict.SUPPORTED: f"{_capital(among)}, quality rises with {subject}: {numbers}.",
        Verdict.CONTRADICTED: f"{_capital(among)}, quality falls with {subject}: {numbers}.",
        Verdict.OPEN: f"Whether {among} quality rises with {subject} is open: {numbers}.",
    }[claim.verdict]


@headline.register
def _(claim: HighStart, analysis: Analysis) -> str:
    if OpenReason.TOO_FEW_SEEDS in claim.reasons:
        return "Whether starting at high precision pays at equal cost cannot be tested: too few shared seeds"
    pairs = ", ".join(_pair(*pair) for pair in claim.pairs[:2])
    return {
        Verdict.SUPPORTED: f"Starting at high precision is better at equal cost: {pairs}",
        Verdict.CONTRADICTED: f"Starting at high precision is worse at equal cost: {pairs}",
        Verdict.OPEN: f"No clear effect of starting at high precision at equal cost: {pairs}",
    }[claim.verdict]


@details.register
def _(claim: HighStart, analysis: Analysis) -> str:
    shown = claim.pairs if len(claim.pairs) <= MANY else claim.pairs[:MANY]
    each = listed([f"{_pair(high, low, comparison)} ({comparison.outcome})" for high, low, comparison in shown])
    each += f"; {count(len(claim.pairs) - len(shown), 'more pair')} not listed" if len(shown) < len(claim.pairs) else ""
    if claim.verdict == Verdict.OPEN:
        return f"Whether it pays to start at high precision is open for the pairs of equal cost: {each}."
    outcome = Outcome.BETTER if claim.verdict == Verdict.SUPPORTED else Outcome.WORSE
    matching = sum(comparison.outcome == outcome for _, _, comparison in claim.pairs)
    where = f"In {matching} of {len(claim.pairs)} pairs of equal cost" if len(claim.pairs) > 1 else "At equal cost"
    return f"{where} the schedule that starts at high precision is {outcome}: {each}."


def _pair(high: str, low: str, comparison: Comparison) -> str:
    if not comparison.pairs:
        return f"{high} shares no seed with {low}"
    return f"{high} {_ahead(comparison.difference.mean)} {low}"


@headline.register
def _(claim: PrecisionMatters, analysis: Analysis) -> str:
    match claim.outcome:
        case Outcome.DIVERGED if claim.verdict == Verdict.SUPPORTED:
            return f"Precision matters here: all {count(claim.diverged, 'run')} of {claim.lowest} diverged"
        case Outcome.DIVERGED:
            return f"Whether precision matters here cannot be tested: {_either(claim)} has runs that diverged"
        case Outcome.TOO_FEW_SEEDS:
            return f"Whether precision matters here cannot be tested: {_both(claim)} share fewer than two seeds"
    begin = {
        Verdict.SUPPORTED: "Precision matters here",
        Verdict.CONTRADICTED: "Low precision does no harm here",
        Verdict.OPEN: "No significant effect of precision here",
    }[claim.verdict]
    return f"{begin}: {claim.lowest} {_ahead(claim.difference)} {claim.baseline} in mean {analysis.metric}"


@details.register
def _(claim: PrecisionMatters, analysis: Analysis) -> str:
    if claim.outcome == Outcome.DIVERGED and claim.verdict == Verdict.SUPPORTED:
        return f"{headline(claim, analysis)}, and none of {claim.baseline}."
    if claim.outcome in (Outcome.DIVERGED, Outcome.TOO_FEW_SEEDS):
        return f"{headline(claim, analysis)}."
    text = f"{headline(claim, analysis)} (paired t test over seeds, Holm's correction)."
    if claim.outcome == Outcome.NO_DIFFERENCE:
        text += " If there is none, schedules between these bit-widths have nothing to gain or lose."
    return text


def _ahead(difference: float) -> str:
    """How a setting with this difference compares, as it stands between two names."""
    if difference == 0:
        return "equals"
    return f"is {number(abs(difference))} {'better' if difference > 0 else 'worse'} than"


def _both(claim: PrecisionMatters) -> str:
    return f"{claim.lowest} and {claim.baseline}"


def _either(claim: PrecisionMatters) -> str:
    return f"{claim.lowest} or {claim.baseline}"


@headline.register
def _(claim: DivergedRuns, analysis: Analysis) -> str:
    where = listed([f"{amount} of {label}" for label, amount in claim.diverged.items()])
    return f"{sum(claim.diverged.values())} of {count(claim.runs, 'run')} diverged ({where})"


@details.register
def _(claim: DivergedRuns, analysis: Analysis) -> str:
    text = (
        f"{headline(claim, analysis)}. Their settings have no finite mean, and take no part in correlations, tests and "
        "the Pareto front."
    )
    if claim.baseline is not None:
        text += f" The baseline {claim.baseline} is among them, so nothing can be compared with it."
    return text


@headline.register
def _(claim: FewSeeds, analysis: Analysis) -> str:
    return f"{_seeds(claim)}: run {ENOUGH_SEEDS} or more"


@details.register
def _(claim: FewSeeds, analysis: Analysis) -> str:
    fewest = min(claim.seeds.values())
    if fewest == 1:
        text = "One seed cannot separate effect from noise: it has neither a standard error nor a test."
    else:
        hurdle = (
            f"with {count(claim.comparisons, 'comparison')} only a difference beyond {number(claim.hurdle)} standard "
            "errors is significant"
        )
        text = f"Intervals from {fewest} values cover {percent(claim.coverage)} at best"
        text += "." if math.isnan(claim.hurdle) else f", and {hurdle}."
    return f"{_seeds(claim)}. {text} Run {ENOUGH_SEEDS} seeds or more."


def _seeds(claim: FewSeeds) -> str:
    fewest = min(claim.seeds.values())
    amount = f"only {count(fewest, 'seed')}"
    if len(set(claim.seeds.values())) > 1:
        amount = f"fewer than {ENOUGH_SEEDS} seeds, down to {fewest}"
    if claim.all_alike:
        return f"Every setting has {amount}"
    return f"{listed(list(claim.seeds))} {'has' if len(claim.seeds) == 1 else 'have'} {amount}"


@headline.register
def _(claim: GrowingDamage, analysis: DeficitAnalysis) -> str:
    change = _by_sign(claim.slope, "rises", "falls", "does not change significantly")
    return (
        f"Final quality {change} with the length of an initial deficit: {_metric_change(claim.slope, analysis)} per "
        "normal training of deficit"
    )


@details.register
def _(claim: GrowingDamage, analysis: DeficitAnalysis) -> str:
    change = _by_sign(claim.slope, "rises", "falls", "does not change significantly")
    return (
        f"Final quality {change} with the length of an initial deficit: compared with as many steps without one, "
        f"{_signed(analysis)} changes by {_change(claim.slope)} per normal training of deficit."
    )


@headline.register
def _(claim: LastingDamage, analysis: DeficitAnalysis) -> str:
    return (
        f"{_lasting(claim)}: {_metric_change(claim.difference, analysis)} after an initial deficit of "
        f"{count(claim.steps, 'step')} and a whole normal training"
    )


@details.register
def _(claim: LastingDamage, analysis: DeficitAnalysis) -> str:
    return (
        f"{_lasting(claim)}: after the longest initial deficit ({count(claim.steps, 'step')}) and a whole normal "
        f"training, {_signed(analysis)} differs by {_change(claim.difference)} from as many steps without a deficit."
    )


def _lasting(claim: LastingDamage) -> str:
    return _by_sign(
        claim.difference, "The deficit improved quality", "The damage lasts", "No significant lasting damage"
    )


@headline.register
def _(claim: RestartHelps, analysis: DeficitAnalysis) -> str:
    effect = _by_sign(claim.gain, "helps", "hurts", "has no significant effect")
    return (
        f"Restarting the learning rate after the longest initial deficit {effect}: "
        f"{_metric_change(claim.gain, analysis)}"
    )


@details.register
def _(claim: RestartHelps, analysis: DeficitAnalysis) -> str:
    effect = _by_sign(claim.gain, "helps", "hurts", "has no significant effect")
    text = (
        f"Restarting the learning rate after the longest initial deficit {effect}: compared with holding it, "
        f"{_signed(analysis)} changes by {_change(claim.gain)}."
    )
    if claim.gap.high < 0 and math.isfinite(claim.remaining.mean):
        gap, remaining = number(-claim.gap.mean), number(-claim.remaining.mean)
        text += f" Of the gap of {gap} to the control, {remaining} remains."
    return text


@headline.register
def _(claim: LaterHurtsLess, analysis: DeficitAnalysis) -> str:
    effect = _by_sign(claim.slope, "hurts less", "hurts more", "hurts neither significantly less nor more")
    return (
        f"A later deficit {effect} (learning rate {claim.arm}): {_metric_change(claim.slope, analysis)} per normal "
        "training later"
    )


@details.register
def _(claim: LaterHurtsLess, analysis: DeficitAnalysis) -> str:
    return (
        f"{_later(claim)}: compared with the control without one, {_signed(analysis)} changes by "
        f"{_change(claim.slope)} per normal training that the deficit is moved."
    )


def _later(claim: LaterHurtsLess) -> str:
    rate = {Arm.HELD: "held during", Arm.RESTARTED: "restarted after"}[claim.arm]
    effect = _by_sign(claim.slope, "hurts less", "hurts more", "hurts neither significantly less nor more")
    return f"With the learning rate {rate} it, a later deficit of the same length {effect}"


def _signed(analysis: DeficitAnalysis) -> str:
    return f"{analysis.metric} (positive: better)"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


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
    roles: dict[str, list[str]] = {}
    for role, label in analysis.advice.items():
        roles.setdefault(label, []).append(role)
    sentences = [
        f"{_capital(listed(roles[setting.label]))}: {setting.label}, {_summary(setting.label, analysis)}."
        for setting in analysis.settings
        if setting.label in roles
    ]
    if analysis.advice[Role.LOWEST_COST] == analysis.advice[Role.BEST_QUALITY]:
        sentences.append("The cheapest setting also has the best mean: there is no trade-off here.")
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
    base_quality = f"{number(base.quality.mean)} of {base.label}" if math.isfinite(base.quality.mean) else base.label
    compared = f"{phrase.get(outcome, 'not tested against')} {base_quality}"
    if setting.acceptable is not None and setting.acceptable.accepted:
        compared = f"as good as {base_quality} within a margin of {number(setting.acceptable.margin)}"
    return f"{cost_phrase(setting.relative_cost)}, {quality}, {compared}"


def _caution(analysis: Analysis) -> list[str]:
    if analysis.baseline is None:
        return ["No static or full-precision baseline was run, so it is unknown what these settings lose."]
    fewest = min(len(setting.qualities) for setting in analysis.settings)
    if fewest < ENOUGH_SEEDS:
        return [f"Some settings have only {count(fewest, 'seed')}: run {ENOUGH_SEEDS} before you rely on this."]
    return []
