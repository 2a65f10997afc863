"""Advice from your own runs: the cheapest setting that is as good as the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from bitcycle.advice.answer import Advice, Alternative, Settings, percent
from bitcycle.advice.non_inferiority import FEWEST_SEEDS, Judgement, NonInferiority, non_inferiority
from bitcycle.schedules import Constant, Schedule, schedule
from bitcycle.schedules.base import width_of

MANY_SEEDS = 5
"""With fewer seeds than this, advice recommends more."""


@dataclass(frozen=True)
class Evidence:
    """What advice needs to know about a run; all runs given together are of one task.

    Any other object with the first four attributes will do.
    """

    schedule: str
    """A spec."""
    seed: int
    quality: float
    """Higher is better; a metric that is better when lower enters with a minus sign."""
    cost: float
    """In any unit, the same for all runs."""
    settings: Settings | None = None
    """How it was trained apart from its schedule, for the code of the answer; by default on integers with gradients at
    q_max."""


@dataclass(frozen=True)
class Tested:
    """A recorded setting, its cost, and its test against the baseline."""

    schedule: Schedule
    cost: float
    saving: float
    test: NonInferiority
    settings: Settings | None


def advise_by_evidence(
    records: Iterable[Evidence],
    steps: int,
    q_max: int,
    save: float | None = None,
    lowest: int | None = None,
    margin: float | None = None,
) -> Advice:
    """Recommend the cheapest recorded setting that is as good as static q_max and does not go below ``lowest`` bits."""
    baseline = Constant(q_max)
    everything = _tested(baseline, records, margin)
    allowed = [each for each in everything if not _goes_below(each.schedule, lowest, steps)]
    refused = [each for each in everything if _goes_below(each.schedule, lowest, steps)]
    acceptable = [each for each in allowed if each.schedule == baseline or (each.saving > 0 and each.test.accepted)]
    enough = [each for each in acceptable if save is None or each.saving >= save]
    if not acceptable:
        raise ValueError(f"no recorded setting that is as good as {baseline} stays at {lowest} bits or above")
    if not enough:
        most = acceptable[0]
        raise ValueError(
            f"no recorded setting that is as good as {baseline} saves {percent(save or 0)}: "
            f"the most is {percent(most.saving)}, by {most.schedule}"
        )
    chosen = enough[0]
    cheaper = [each for each in allowed if each.saving > chosen.saving]
    better = [each for each in allowed if each.saving < chosen.saving]
    return Advice(
        chosen.schedule,
        chosen.saving,
        [
            *_reasons(chosen, allowed, baseline),
            *(f"q_min: {each.schedule} goes below {lowest} bits." for each in refused),
        ],
        _alternative(cheaper[-1], baseline) if cheaper else None,
        _alternative(better[0], baseline) if better else None,
        steps,
        q_max,
        settings=chosen.settings,
    )


def _tested(baseline: Schedule, records: Iterable[Evidence], margin: float | None) -> list[Tested]:
    """Test every recorded setting against the baseline, which is among them; the cheapest come first."""
    runs = _by_schedule(records)
    if baseline not in runs:
        known = ", ".join(map(str, runs)) or "none at all"
        raise ValueError(f"the records contain no run of the baseline {baseline} to compare with; they contain {known}")
    base = {seed: run.quality for seed, run in runs[baseline].items()}
    if len(base) < FEWEST_SEEDS:
        raise ValueError(
            f"the baseline {baseline} needs at least {FEWEST_SEEDS} seeds for a comparison, got {len(base)}"
        )
    if not all(math.isfinite(quality) for quality in base.values()):
        raise ValueError(f"some runs of the baseline {baseline} diverged, so nothing can be compared with it")
    base_cost = _mean_cost(runs[baseline])
    if not base_cost > 0:
        raise ValueError(f"the cost of the baseline {baseline} must be above 0, got {base_cost:g}")
    tested = []
    for each, by_seed in runs.items():
        cost = _mean_cost(by_seed)
        test = non_inferiority({seed: run.quality for seed, run in by_seed.items()}, base, margin=margin)
        spec = min(run.schedule for run in by_seed.values())
        settings = _settings(next(iter(by_seed.values())))
        tested.append((cost, each != baseline, spec, Tested(each, cost, 1 - cost / base_cost, test, settings)))
    return [each for *_, each in sorted(tested, key=lambda entry: entry[:3])]


def _by_schedule(records: Iterable[Evidence]) -> dict[Schedule, dict[int, Evidence]]:
    runs: dict[Schedule, dict[int, Evidence]] = {}
    for record in records:
        by_seed = runs.setdefault(schedule(record.schedule), {})
        if record.seed in by_seed:
            raise ValueError(
                f"two records of {record.schedule} with seed {record.seed}: give the runs of one task and model only"
            )
        if any(_settings(other) != _settings(record) for other in by_seed.values()):
            raise ValueError(
                f"the records of {record.schedule} differ in more than the seed: give runs of one kind only"
            )
        by_seed[record.seed] = record
    return runs


def _settings(record: Evidence) -> Settings | None:
    return getattr(record, "settings", None)


def _mean_cost(by_seed: dict[int, Evidence]) -> float:
    return fmean(run.cost for run in by_seed.values())


def _goes_below(s: Schedule, lowest: int | None, steps: int) -> bool:
    return lowest is not None and width_of(s.limits(steps)[0]) < lowest


def _reasons(chosen: Tested, allowed: list[Tested], baseline: Schedule) -> list[str]:
    by_judgement: dict[Judgement, list[Tested]] = {}
    for each in allowed:
        if each.schedule != baseline:
            by_judgement.setdefault(each.test.judgement, []).append(each)
    reasons = [
        f"your runs: the advice is based on them. The answer is the cheapest setting that is as good as {baseline}: "
        f"paired over seeds, its loss is at most {chosen.test.margin:.4g} with 95 % confidence."
    ]
    if chosen.schedule == baseline:
        reasons.append(f"your runs: no cheaper setting is shown to be as good, so the answer is {baseline} itself.")
    else:
        reasons.append(f"your runs: {chosen.schedule} is {_finding(chosen.test)}.")
    for judgement in (Judgement.WORSE, Judgement.NOT_SHOWN, Judgement.DIVERGED):
        reasons += [f"your runs: {each.schedule} is {_finding(each.test)}." for each in by_judgement.get(judgement, [])]
    if few := by_judgement.get(Judgement.TOO_FEW_SEEDS):
        names = ", ".join(str(each.schedule) for each in few)
        reasons.append(f"your runs: {names} cannot be judged on fewer than {FEWEST_SEEDS} shared seeds.")
    if chosen.test.pairs < MANY_SEEDS:
        reasons.append(f"your runs: there are only {chosen.test.pairs} seeds; run {MANY_SEEDS} or more to be sure.")
    return reasons


def _finding(test: NonInferiority) -> str:
    """The result of a test, as it follows "is"."""
    numbers = f"over {test.pairs} seeds: quality {test.difference:+.4g}, "
    numbers += (
        f"with 95 % confidence at least {test.lower:+.4g} (acceptable: {-test.margin:+.4g})"
        if math.isfinite(test.lower)
        else f"the same for every seed, too few for a bound (acceptable: {-test.margin:+.4g})"
    )
    match test.judgement:
        case Judgement.ACCEPTED:
            return f"as good as the baseline {numbers}"
        case Judgement.NOT_SHOWN:
            return f"not shown to be as good as the baseline {numbers}"
        case Judgement.WORSE:
            return f"significantly worse than the baseline {numbers}"
        case Judgement.TOO_FEW_SEEDS:
            return f"not tested: it shares {test.pairs} seeds with the baseline, of at least {FEWEST_SEEDS}"
        case Judgement.DIVERGED:
            return "not acceptable: some of its runs diverged (their quality is not a finite number)"


def _alternative(tested: Tested, baseline: Schedule) -> Alternative:
    reason = "The baseline." if tested.schedule == baseline else f"In your runs it is {_finding(tested.test)}."
    return Alternative(tested.schedule, tested.saving, reason)
