"""Advice from one's own runs: the cheapest setting that is not significantly worse than the baseline."""

from __future__ import annotations

from collections.abc import Iterable

from bitcycle.advice.answer import Advice, Option, percent
from bitcycle.advice.comparison import FEWEST_SEEDS, LEVEL, Comparison, Record, compare_with
from bitcycle.schedules import Constant, Schedule
from bitcycle.schedules.base import width_of

MANY_SEEDS = 5
"""From so many seeds on, advice does not warn of their number."""


def advise_by_evidence(
    records: Iterable[Record], steps: int, q_max: int, save: float | None, lowest: int | None = None
) -> Advice:
    """The cheapest recorded setting that holds against static q_max, and does not go below the lowest width."""
    baseline = Constant(q_max)
    everything = sorted(compare_with(baseline, records), key=lambda found: found.cost)
    compared = [found for found in everything if not _goes_below(found.schedule, lowest, steps)]
    below = [found for found in everything if found not in compared]
    good = [found for found in compared if found.holds]
    enough = [found for found in good if save is None or found.saving >= save]
    if not enough:
        most = good[0]
        raise ValueError(
            f"no recorded setting that holds against {baseline} saves {percent(save or 0)}: "
            f"the most is {percent(most.saving)}, by {most.schedule}"
        )
    chosen = enough[0]
    at = compared.index(chosen)
    cheaper = [found for found in compared[:at] if found.saving > chosen.saving]
    better = [found for found in compared[at + 1 :] if found.saving < chosen.saving]
    return Advice(
        chosen.schedule,
        chosen.saving,
        _reasons(chosen, compared, baseline)
        + [f"q_min: {found.schedule} goes below {lowest} bits." for found in below],
        _option(cheaper[-1], baseline) if cheaper else None,
        _option(better[0], baseline) if better else None,
        steps,
        q_max,
    )


def _goes_below(s: Schedule, lowest: int | None, steps: int) -> bool:
    return lowest is not None and width_of(s.limits(steps)[0]) < lowest


def _reasons(chosen: Comparison, compared: list[Comparison], baseline: Schedule) -> list[str]:
    reasons = [
        "your runs: they decide, by the cheapest setting that is not significantly worse than the baseline "
        f"{baseline} (paired over seeds, one-sided t test at {percent(LEVEL)}), and in the mean not worse by more than "
        "the baseline's seeds scatter."
    ]
    if chosen.schedule == baseline:
        reasons.append("your runs: no cheaper setting holds, so the baseline itself remains.")
    else:
        reasons.append(f"your runs: {chosen.schedule} is {chosen}.")
    reasons += [f"your runs: {found.schedule} is {found}." for found in compared if found.told and not found.holds]
    few = [str(found.schedule) for found in compared if not found.told]
    if few:
        reasons.append(f"your runs: {', '.join(few)} cannot be judged on fewer than {FEWEST_SEEDS} shared seeds.")
    if chosen.seeds < MANY_SEEDS:
        reasons.append(
            f"your runs: {chosen.seeds} seeds are few; a small loss would go unnoticed. Run more to be sure."
        )
    return reasons


def _option(found: Comparison, baseline: Schedule) -> Option:
    reason = "The baseline." if found.schedule == baseline else f"In your runs it is {found}."
    return Option(found.schedule, found.saving, reason)
