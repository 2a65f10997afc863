"""Advice from your own runs: the cheapest setting that is as good as the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from bitcycle._support.judging import MIN_SEEDS, Judgement, NonInferiority, non_inferiority
from bitcycle.lab.advice.answer import Advice, Alternative, Reason, TrainingSettings, percent
from bitcycle.schedules import Constant, Schedule, schedule
from bitcycle.schedules.base import width_of

MANY_SEEDS = 5
"""With fewer seeds than this, advice recommends more."""


@dataclass(frozen=True)
class RunRecord:
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
    settings: TrainingSettings | None = None
    """How it was trained apart from its schedule, for the code of the answer; by default on integers with gradients at
    q_max."""


@dataclass(frozen=True)
class Tested:
    """A recorded setting, its cost, and its test against the baseline."""

    schedule: Schedule
    cost: float
    saving: float
    test: NonInferiority
    settings: TrainingSettings | None


def advise_by_records(
    records: Iterable[RunRecord],
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
            *(Reason("q_min", f"{each.schedule} goes below {lowest} bits") for each in refused),
        ],
        _alternative(cheaper[-1], baseline) if cheaper else None,
        _alternative(better[0], baseline) if better else None,
        steps,
        q_max,
        settings=chosen.settings,
    )


def _tested(baseline: Schedule, records: Iterable[RunRecord], margin: float | None) -> list[Tested]:
    """Test every recorded setting against the baseline, which is among them; the cheapest come first."""
    runs = _by_schedule(records)
    if baseline not in runs:
        known = ", ".join(map(str, runs)) or "none at all"
        raise ValueError(f"the records contain no run of the baseline {baseline} to compare with; they contain {known}")
    base = {seed: run.quality for seed, run in runs[baseline].items()}
    if len(base) < MIN_SEEDS:
        raise ValueError(f"the baseline {baseline} needs at least {MIN_SEEDS} seeds for a comparison, got {len(base)}")
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


def _by_schedule(records: Iterable[RunRecord]) -> dict[Schedule, dict[int, RunRecord]]:
    runs: dict[Schedule, dict[int, RunRecord]] = {}
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


def _settings(record: RunRecord) -> TrainingSettings | None:
    return getattr(record, "settings", None)


def _mean_cost(by_seed: dict[int, RunRecord]) -> float:
    return fmean(run.cost for run in by_seed.values())


def _goes_below(s: Schedule, lowest: int | None, steps: int) -> bool:
    return lowest is not None and width_of(s.limits(steps)[0]) < lowest


def _reasons(chosen: Tested, allowed: list[Tested], baseline: Schedule) -> list[Reason]:
    reasons = [f"the cheapest setting that is as good as {baseline}, within a loss of {chosen.test.margin:.4g}"]
    if chosen.schedule == baseline:
        reasons.append(f"no cheaper setting is shown to be as good, so the answer is {baseline} itself")
    reasons += [f"{each.schedule} is {_finding(each.test)}" for each in allowed if _is_worth_a_reason(each, chosen)]
    if chosen.test.seeds < MANY_SEEDS:
        reasons.append(f"there are only {chosen.test.seeds} seeds; run {MANY_SEEDS} or more to be sure")
    return [Reason("your runs", text) for text in reasons]


def _is_worth_a_reason(each: Tested, chosen: Tested) -> bool:
    """Whether it is the answer, or one that is not accepted."""
    return (each is chosen and each.saving > 0) or not each.test.accepted


def _finding(test: NonInferiority) -> str:
    """The result of a test, as it follows "is"."""
    if test.judgement is Judgement.DIVERGED:
        return "not acceptable: some of its runs diverged (their quality is not a finite number)"
    if test.judgement is Judgement.TOO_FEW_SEEDS:
        return f"not tested: it shares {test.seeds} seeds with the baseline, of at least {MIN_SEEDS}"
    known = math.isfinite(test.lower)
    bound = f"with 95 % confidence at least {test.lower:+.4g}" if known else "the same for every seed, without a bound"
    words = {Judgement.WORSE: "significantly worse than", Judgement.UNCLEAR: "not shown to be as good as"}
    return (
        f"{words.get(test.judgement, 'as good as')} the baseline over {test.seeds} seeds: quality {test.mean:+.4g}, "
        f"{bound} (acceptable: {-test.margin:+.4g})"
    )


def _alternative(tested: Tested, baseline: Schedule) -> Alternative:
    reason = "the baseline" if tested.schedule == baseline else f"in your runs it is {_finding(tested.test)}"
    return Alternative(tested.schedule, tested.saving, reason)
