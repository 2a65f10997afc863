"""Advice from your own runs: the cheapest setting that is as good as the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from bitcycle.lab.advice.answer import Advice, Alternative, Reason, TrainingSettings
from bitcycle.lab.format import percent
from bitcycle.lab.judging import MIN_SEEDS, Judgement, NonInferiority, non_inferiority
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
    """A recorded setting, and its test against the baseline."""

    schedule: Schedule
    is_baseline: bool
    saving: float
    test: NonInferiority
    settings: TrainingSettings | None

    @property
    def finding(self) -> str:
        """The result of the test, as it follows "is"."""
        test = self.test
        if test.judgement is Judgement.DIVERGED:
            return "not acceptable: some of its runs diverged (their quality is not a finite number)"
        if test.judgement is Judgement.TOO_FEW_SEEDS:
            return f"not tested: it shares {test.seeds} seeds with the baseline, of at least {MIN_SEEDS}"
        words = {Judgement.WORSE: "significantly worse than", Judgement.UNCLEAR: "not shown to be as good as"}
        bound = f"with 95 % confidence at least {test.lower:+.4g}"
        if not math.isfinite(test.lower):
            bound = "the same for every seed, without a bound"
        return (
            f"{words.get(test.judgement, 'as good as')} the baseline over {test.seeds} seeds: "
            f"quality {test.mean:+.4g}, {bound} (acceptable: {-test.margin:+.4g})"
        )

    @property
    def alternative(self) -> Alternative:
        """The setting as an alternative to another."""
        reason = "the baseline" if self.is_baseline else f"in your runs it is {self.finding}"
        return Alternative(self.schedule, self.saving, reason)


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
    refused = [each for each in everything if lowest and width_of(each.schedule.limits(steps)[0]) < lowest]
    allowed = [each for each in everything if each not in refused]
    acceptable = [each for each in allowed if each.is_baseline or (each.saving > 0 and each.test.accepted)]
    if not acceptable:
        raise ValueError(f"no recorded setting that is as good as {baseline} stays at {lowest} bits or above")
    chosen = next((each for each in acceptable if save is None or each.saving >= save), None)
    if chosen is None:
        raise ValueError(
            f"no recorded setting that is as good as {baseline} saves {percent(save or 0)}: "
            f"the most is {percent(acceptable[0].saving)}, by {acceptable[0].schedule}"
        )
    reasons = [f"the cheapest setting that is as good as {baseline}, within a loss of {chosen.test.margin:.4g}"]
    if chosen.is_baseline:
        reasons.append(f"no cheaper setting is shown to be as good, so the answer is {baseline} itself")
    for each in allowed:
        if (each is chosen and each.saving > 0) or not each.test.accepted:
            reasons.append(f"{each.schedule} is {each.finding}")
    if chosen.test.seeds < MANY_SEEDS:
        reasons.append(f"there are only {chosen.test.seeds} seeds; run {MANY_SEEDS} or more to be sure")
    cheaper = [each for each in allowed if each.saving > chosen.saving]
    better = [each for each in allowed if each.saving < chosen.saving]
    return Advice(
        chosen.schedule,
        chosen.saving,
        [
            *(Reason("your runs", text) for text in reasons),
            *(Reason("q_min", f"{each.schedule} goes below {lowest} bits") for each in refused),
        ],
        cheaper[-1].alternative if cheaper else None,
        better[0].alternative if better else None,
        steps,
        q_max,
        chosen.settings or TrainingSettings(q_max),
    )


def _tested(baseline: Schedule, records: Iterable[RunRecord], margin: float | None) -> list[Tested]:
    """Test every recorded setting against the baseline, which is among them; the cheapest come first."""
    runs = _by_schedule(records)
    if baseline not in runs:
        known = ", ".join(map(str, runs)) or "none at all"
        raise ValueError(f"the records contain no run of the baseline {baseline} to compare with; they contain {known}")
    costs = {each: fmean(run.cost for run in by_seed.values()) for each, by_seed in runs.items()}
    qualities = {each: {seed: run.quality for seed, run in by_seed.items()} for each, by_seed in runs.items()}
    base = qualities[baseline]
    if len(base) < MIN_SEEDS:
        raise ValueError(f"the baseline {baseline} needs at least {MIN_SEEDS} seeds for a comparison, got {len(base)}")
    if not all(map(math.isfinite, base.values())):
        raise ValueError(f"some runs of the baseline {baseline} diverged, so nothing can be compared with it")
    if not costs[baseline] > 0:
        raise ValueError(f"the cost of the baseline {baseline} must be above 0, got {costs[baseline]:g}")
    return [
        Tested(
            each,
            each == baseline,
            1 - costs[each] / costs[baseline],
            non_inferiority(qualities[each], base, margin=margin),
            _settings(next(iter(runs[each].values()))),
        )
        for each in sorted(runs, key=lambda each: (costs[each], each != baseline, str(each)))
    ]


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
