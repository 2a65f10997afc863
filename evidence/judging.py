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
from evidence.design import Claim, Design, Domain, Measure, Role, Rule
from evidence.figures import AllFigures

GAP = "schedules"
"""The study that has static q_min and static q_max."""
LOW, HIGH = "static q_min", "static q_max"
MAX_SEEDS = 1_000_000
"""The most seeds that are worth naming."""

Qualities = Mapping[str, Mapping[int, float]]
"""The quality of each setting by seed."""


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
    cells = {
        (claim.id, domain.id): _cell(claim, domain, design, figures)
        for domain in design.domains
        for claim in design.claims_about(domain)
    }
    supported = {place for place, cell in cells.items() if cell.mark is Mark.SUPPORTED}
    for (id, domain_id), cell in cells.items():
        if cell.claim.given and cell.mark is not Mark.NOT_RUN and (cell.claim.given, domain_id) not in supported:
            not_given = replace(cell, mark=Mark.NOT_APPLICABLE, reason=OpenReason.NOT_GIVEN, remark=None)
            cells[id, domain_id] = not_given
    return list(cells.values())


def gap_of(design: Design, domain: Domain, figures: AllFigures, measure: Measure) -> Effect | None:
    """Return the gap of a domain, or of the domain it refers to; None if no seed has both of its settings.

    Some seeds may be missing: see ``seeds``.
    """
    study = figures.get((design.gap_domain(domain).id, GAP))
    if study is None:
        return None
    qualities = study.by_setting(measure)
    if not {LOW, HIGH} <= qualities.keys() or qualities[LOW].keys().isdisjoint(qualities[HIGH]):
        return None
    return non_inferiority(qualities[HIGH], qualities[LOW], margin=0.0)


def effects_by_seed(claim: Claim, qualities: Qualities, costs: Mapping[str, float]) -> dict[int, float]:
    """Return the effect of a claim for every seed that has all of its settings, in the units of quality.

    >>> claim = Claim("c", "", "", "schedules", Rule.GREATER, 0.1, ("*",), better=("CR", "CT"), than=("LR",))
    >>> effects_by_seed(claim, {"CR": {0: 3.0}, "CT": {0: 1.0}, "LR": {0: 1.5, 1: 0.0}}, {})
    {0: 0.5}
    """
    if not set(claim.needed) <= qualities.keys():
        return {}
    weights = claim.weights
    if claim.slope:  # that of least squares, over costs scaled to 0 at q_min and 1 at q_max
        x = np.array([(costs[name] - costs[LOW]) / (costs[HIGH] - costs[LOW]) for name in claim.slope])
        centred = x - x.mean()
        weights = dict(zip(claim.slope, (centred / (centred @ centred)).tolist(), strict=True))
    seeds = sorted(set.intersection(*(set(qualities[setting]) for setting in claim.needed)))
    return {seed: math.fsum(weight * qualities[name][seed] for name, weight in weights.items()) for seed in seeds}


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
    remarks = {
        (Rule.GREATER, Mark.SUPPORTED): (Remark.SMALL, effect.upper < claim.smallest),
        (Rule.GREATER, Mark.CONTRADICTED): (Remark.TOO_SMALL, effect.upper >= 0),
        (Rule.NO_WORSE, Mark.SUPPORTED): (Remark.SLIGHTLY_WORSE, effect.upper < 0),
        (Rule.NO_WORSE, Mark.CONTRADICTED): (Remark.PERHAPS_SLIGHTLY_WORSE, effect.upper >= -claim.smallest),
    }
    found, applies = remarks.get((claim.rule, mark), (None, False))
    return found if applies else None


def _cell(claim: Claim, domain: Domain, design: Design, figures: AllFigures) -> Cell:
    main, reason = _effect(claim, domain, design, figures, domain.measure)
    other, _ = _effect(claim, domain, design, figures, domain.measure.other)
    if main is None:
        mark = Mark.NOT_RUN if reason in (OpenReason.NO_FIGURES, OpenReason.INCOMPLETE) else Mark.OPEN
        return Cell(claim, domain, mark, None, other, reason)
    extra_cost = None
    if claim.better and claim.beyond is None:
        costs = figures[domain.id, claim.study].costs()
        better, than = (fmean(costs[name] for name in names) for names in (claim.better, claim.than))
        extra_cost = better / than - 1
    mark = verdict(claim, main)
    if other is not None and {mark, verdict(claim, other)} == {Mark.SUPPORTED, Mark.CONTRADICTED}:
        mark, reason = Mark.OPEN, OpenReason.MEASURES_DISAGREE
    elif mark is Mark.OPEN:
        reason = OpenReason.UNDECIDED
    return Cell(claim, domain, mark, main, other, reason, remark(claim, mark, main), extra_cost)


def _effect(
    claim: Claim, domain: Domain, design: Design, figures: AllFigures, measure: Measure
) -> tuple[Effect | None, OpenReason | None]:
    """Return the effect of a claim by a measure, or why there is none."""
    study, gap = figures.get((domain.id, claim.study)), gap_of(design, domain, figures, measure)
    if study is None or gap is None:
        return None, OpenReason.NO_FIGURES
    effects = {each: effects_by_seed(claim, study.by_setting(each), study.costs()) for each in Measure}
    by_seed = effects[measure]
    if not by_seed:
        return None, OpenReason.NO_FIGURES
    seeds = len(design.seeds(domain, Role.JUDGING, claim.study))
    if len(by_seed) < seeds or gap.seeds < design.gap_domain(domain).seeds:
        return None, OpenReason.INCOMPLETE  # a look at some of them could decide when to stop
    if not all(map(math.isfinite, [gap.mean, *(value for each in effects.values() for value in each.values())])):
        return None, OpenReason.DIVERGED
    if not gap.lower > 0:
        return None, OpenReason.NO_GAP
    found = non_inferiority(by_seed, dict.fromkeys(by_seed, 0.0), margin=0.0)
    return Effect(found.mean / gap.mean, found.lower / gap.mean, found.upper / gap.mean, found.seeds), None
