"""Judge claims by the figures: an effect with its bounds and a mark, for every claim and domain.

Effects are computed seed by seed and divided by the gap, the mean over seeds of the quality of static q_max minus that
of static q_min. Their bounds are those of :func:`bitcycle.lab.judging.non_inferiority`: one-sided, 95 %,
Student's t over seeds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

import numpy as np

from bitcycle.lab.judging import Effect, Judgement, non_inferiority
from bitcycle.lab.statistics.estimates import stats
from evidence.design import Claim, Design, Domain, Measure, Role, Rule, Statistic
from evidence.figures import StudyFigures

GAP = "schedules"
"""The study that has static q_min and static q_max."""
LOW, HIGH = "static q_min", "static q_max"
MAX_SEEDS = 1_000_000
"""The most seeds that are worth naming."""

Qualities = Mapping[str, Mapping[int, float]]
"""The quality of each setting by seed."""
AllFigures = Mapping[tuple[str, str], StudyFigures]
"""Figures by domain and study."""


class Mark(StrEnum):
    """What the figures say about a claim in a domain."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    NOT_APPLICABLE = "not applicable"
    """The claim builds on another one that is not supported here."""
    NOT_RUN = "not run"


class OpenReason(StrEnum):
    """Why a claim is neither supported nor contradicted."""

    NO_FIGURES = "its runs are not done"
    INCOMPLETE = "only some of its seeds are done"
    DIVERGED = "runs diverged"
    NO_GAP = "static q_min is not shown to lose against static q_max"
    UNDECIDED = "the interval is too wide to decide"
    MEASURES_DISAGREE = "the test loss and the metric disagree"
    NOT_GIVEN = "the claim it builds on is not supported here"


class Remark(StrEnum):
    """What keeps a supported or contradicted claim from being read as more than it says."""

    SMALL = "the effect is smaller than the smallest worth knowing"
    TOO_SMALL = "any advantage is smaller than the smallest worth knowing"
    SLIGHTLY_WORSE = "worse, but by less than the smallest effect worth knowing"
    PERHAPS_SLIGHTLY_WORSE = "worse, perhaps by less than the smallest effect worth knowing"


@dataclass(frozen=True)
class Cell:
    """One claim in one domain."""

    claim: Claim
    domain: Domain
    mark: Mark
    effect: Effect | None
    """By the measure of the domain."""
    other: Effect | None
    """By the other measure."""
    reason: OpenReason | None = None
    """Why it is neither supported nor contradicted."""
    remark: Remark | None = None
    """What to add to a supported or contradicted claim."""
    extra_cost: float | None = None
    """By what share the settings that should be better cost more than the others; None if it is no such comparison."""


def judge(design: Design, figures: AllFigures) -> list[Cell]:
    """Return a cell for every claim in every domain that it is about."""
    cells = [
        _cell(claim, domain, design, figures) for domain in design.domains for claim in design.claims_about(domain)
    ]
    marks = {(cell.claim.id, cell.domain.id): cell.mark for cell in cells}
    return [_if_given(cell, marks) for cell in cells]


def gap_of(
    design: Design, domain: Domain, figures: AllFigures, measure: Measure, role: Role = Role.JUDGING
) -> Effect | None:
    """Return the gap of a domain, or of the domain it refers to; None if no seed has both of its settings.

    Only the seeds that the design has for the role count. Some of them may be missing: see ``seeds``.
    """
    gap_domain = design.gap_domain(domain)
    study = figures.get((gap_domain.id, GAP))
    if study is None:
        return None
    qualities = study.of_seeds(design.seeds(gap_domain, role)).by_setting(measure)
    if not {LOW, HIGH} <= qualities.keys() or qualities[LOW].keys().isdisjoint(qualities[HIGH]):
        return None
    return non_inferiority(qualities[HIGH], qualities[LOW], margin=0.0)


def effects_by_seed(claim: Claim, qualities: Qualities, costs: Mapping[str, float]) -> dict[int, float]:
    """Return the effect of a claim for every seed that has all of its settings, in the units of quality.

    >>> claim = Claim("c", "", "", "schedules", Rule.GREATER, 0.1, ("*",), better=("CR", "CT"), than=("LR",))
    >>> effects_by_seed(claim, {"CR": {0: 3.0}, "CT": {0: 1.0}, "LR": {0: 1.5, 1: 0.0}}, {})
    {0: 0.5}
    """
    needed = claim.needed
    if not set(needed) <= qualities.keys():
        return {}
    seeds = sorted(set.intersection(*(set(qualities[setting]) for setting in needed)))
    weights = _slope_weights(claim, costs) if claim.kind is Statistic.SLOPE else claim.weights
    return {seed: math.fsum(weight * qualities[name][seed] for name, weight in weights.items()) for seed in seeds}


def _slope_weights(claim: Claim, costs: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the least-squares slope of quality, over costs scaled to 0 at q_min and 1 at q_max."""
    x = np.array([(costs[name] - costs[LOW]) / (costs[HIGH] - costs[LOW]) for name in claim.settings])
    centred = x - x.mean()
    return dict(zip(claim.settings, (centred / (centred @ centred)).tolist(), strict=True))


def verdict(claim: Claim, effect: Effect) -> Mark:
    """Return what an effect says about a claim by its rule, see :class:`~evidence.design.Rule`.

    >>> claim = Claim("c", "", "", "schedules", Rule.GREATER, 0.1, ("*",), better=("CR",), than=("LR",))
    >>> [str(verdict(claim, Effect(0.0, low, high, 5))) for low, high in ((0.01, 0.3), (-0.1, 0.09), (-0.1, 0.2))]
    ['supported', 'contradicted', 'open']
    """
    judgement = effect.judge(claim.smallest, min_seeds=0)
    if claim.rule is Rule.GREATER:
        supported, contradicted = judgement is Judgement.BETTER, effect.upper < claim.smallest
    else:
        supported, contradicted = judgement.accepts, judgement is Judgement.WORSE
    return Mark.SUPPORTED if supported else Mark.CONTRADICTED if contradicted else Mark.OPEN


def is_shown(effect: Effect) -> bool:
    """Return whether an effect is shown to be above zero."""
    return effect.judge(margin=0.0, min_seeds=0) is Judgement.BETTER


def detectable(effect: Effect) -> float:
    """Return the smallest effect that a study with this scatter and number of seeds shows with a power of 80 %.

    An effect is shown if it exceeds the reach of the bounds; it must do so with room for its own scatter.
    """
    t = stats().t
    return (effect.mean - effect.lower) * (1 + float(t.ppf(0.8, effect.seeds - 1) / t.ppf(0.95, effect.seeds - 1)))


def seeds_to_settle(claim: Claim, effect: Effect) -> int | None:
    """Return the number of seeds that would decide a claim with a power of 80 %, if mean and scatter stay the same.

    The interval must end before the border that is further from the mean: 0 or the smallest effect worth knowing. None
    if that takes more than :data:`MAX_SEEDS`, or if the effect has no finite bounds.
    """
    t = stats().t
    scatter = (effect.mean - effect.lower) * math.sqrt(effect.seeds) / float(t.ppf(0.95, effect.seeds - 1))
    towards_zero = effect.mean if claim.rule is Rule.GREATER else -effect.mean
    room = max(towards_zero, claim.smallest - towards_zero)

    def suffices(seeds: int) -> bool:
        return bool((t.ppf(0.95, seeds - 1) + t.ppf(0.8, seeds - 1)) * scatter / math.sqrt(seeds) <= room)

    numbers = range(2, MAX_SEEDS + 1)
    place = bisect_left(numbers, True, key=suffices)
    return numbers[place] if place < len(numbers) else None


def remark(claim: Claim, mark: Mark, effect: Effect) -> Remark | None:
    """Return what to add to a supported or contradicted claim, so that it is not read as more than it says."""
    if claim.rule is Rule.GREATER:
        if mark is Mark.SUPPORTED:
            return Remark.SMALL if effect.upper < claim.smallest else None
        return Remark.TOO_SMALL if mark is Mark.CONTRADICTED and effect.upper >= 0 else None
    if mark is Mark.SUPPORTED:
        return Remark.SLIGHTLY_WORSE if effect.upper < 0 else None
    perhaps = mark is Mark.CONTRADICTED and effect.upper >= -claim.smallest
    return Remark.PERHAPS_SLIGHTLY_WORSE if perhaps else None


def _cell(claim: Claim, domain: Domain, design: Design, figures: AllFigures) -> Cell:
    main, reason = _effect(claim, domain, design, figures, domain.measure)
    other, _ = _effect(claim, domain, design, figures, _other(domain.measure))
    if main is None:
        mark = Mark.NOT_RUN if reason in (OpenReason.NO_FIGURES, OpenReason.INCOMPLETE) else Mark.OPEN
        return Cell(claim, domain, mark, None, other, reason)
    extra_cost = _extra_cost(claim, figures[domain.id, claim.study].costs())
    mark = verdict(claim, main)
    if other is not None and {mark, verdict(claim, other)} == {Mark.SUPPORTED, Mark.CONTRADICTED}:
        mark, reason = Mark.OPEN, OpenReason.MEASURES_DISAGREE
    elif mark is Mark.OPEN:
        reason = OpenReason.UNDECIDED
    return Cell(claim, domain, mark, main, other, reason, remark(claim, mark, main), extra_cost)


def _extra_cost(claim: Claim, costs: Mapping[str, float]) -> float | None:
    if claim.kind is Statistic.SLOPE or claim.beyond is not None:
        return None
    better, than = (fmean(costs[name] for name in names) for names in (claim.better, claim.than))
    return better / than - 1


def _if_given(cell: Cell, marks: Mapping[tuple[str, str], Mark]) -> Cell:
    given = cell.claim.given
    if not given or cell.mark is Mark.NOT_RUN or marks.get((given, cell.domain.id)) is Mark.SUPPORTED:
        return cell
    return replace(cell, mark=Mark.NOT_APPLICABLE, reason=OpenReason.NOT_GIVEN, remark=None)


def _effect(
    claim: Claim, domain: Domain, design: Design, figures: AllFigures, measure: Measure
) -> tuple[Effect | None, OpenReason | None]:
    study, gap = figures.get((domain.id, claim.study)), gap_of(design, domain, figures, measure)
    if study is None or gap is None:
        return None, OpenReason.NO_FIGURES
    study = study.of_seeds(design.seeds(domain, Role.JUDGING))
    effects = {each: effects_by_seed(claim, study.by_setting(each), study.costs()) for each in Measure}
    by_seed = effects[measure]
    if not by_seed:
        return None, OpenReason.NO_FIGURES
    if (
        len(by_seed) < domain.seeds or gap.seeds < design.gap_domain(domain).seeds
    ):  # a look at some of them would decide when to stop
        return None, OpenReason.INCOMPLETE
    if not all(map(math.isfinite, [gap.mean, *(value for each in effects.values() for value in each.values())])):
        return None, OpenReason.DIVERGED
    if not is_shown(gap):
        return None, OpenReason.NO_GAP
    found = non_inferiority(by_seed, dict.fromkeys(by_seed, 0.0), margin=0.0)
    return Effect(found.mean / gap.mean, found.lower / gap.mean, found.upper / gap.mean, found.seeds), None


def _other(measure: Measure) -> Measure:
    return Measure.METRIC if measure is Measure.LOSS else Measure.LOSS
