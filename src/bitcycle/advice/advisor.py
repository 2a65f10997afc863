"""The question and the answer put together."""

from __future__ import annotations

from collections.abc import Iterable

from bitcycle.advice.answer import Advice, Option
from bitcycle.advice.budget import meet, share_to_save
from bitcycle.advice.comparison import Record
from bitcycle.advice.evidence import advise_by_evidence
from bitcycle.advice.scale import about_start, place, scale
from bitcycle.advice.setting import FoundLevel, check_domain, lowest_allowed, setting_for
from bitcycle.schedules.base import positive

APART = 0.001
"""Of savings: options nearer to each other are no alternatives."""


def advise(
    goal: str = "balance",
    domain: str | None = None,
    steps: int = 64_000,
    fine_tuning: bool = False,
    q_max: int = 8,
    q_min: int | None = None,
    save: float | None = None,
    range_test: FoundLevel | None = None,
    records: Iterable[Record] | None = None,
) -> Advice:
    """Which schedule to use, what it saves, and why.

    ``goal`` is ``cost``, ``balance`` or ``quality``; ``domain`` is ``image``, ``detection``, ``graph``, ``language`` or
    ``entailment``. ``q_min`` is the lowest width that may be used: given, or from a ``range_test``, or what the paper
    used in the domain. ``save`` asks for a share of the cost of static q_max, as in ``save=0.4``, and decides in the
    place of the goal. ``records`` are runs of one task with ``schedule``, ``seed``, ``quality`` (higher is better) and
    ``cost``; they decide in the place of all rules, but never go below a q_min that is given or found. The saving
    is that of the schedule itself, with all products at its bits; ``bc.cost(model, inputs).saving(...)`` tells
    that of a model.

    >>> advice = advise(goal="cost", domain="graph")
    >>> advice.spec, round(advice.saving, 3), advice.better.spec
    ('RTH:3-8:cycles=8', 0.601, 'delay(0.1, RTH:3-8:cycles=8)')
    >>> print(advise(save=0.4, q_min=3).spec)
    delay(0.334, RTH:3-8:cycles=8)
    """
    check_domain(domain)
    at, reasons = place(goal, domain)
    if records is not None:
        lowest = lowest_allowed(q_min, range_test)
        wanted = None if save is None else share_to_save(save)
        return advise_by_evidence(
            records, positive(steps, "the number of steps"), positive(q_max, "q_max"), wanted, lowest
        )
    setting = setting_for(domain, steps, fine_tuning, q_max, q_min, range_test)
    options = scale(setting)
    if save is None:
        chosen = options[at]
        reasons += about_start(at, setting, chosen)
    else:
        solution = meet(save, setting)
        chosen = Option(solution.schedule, solution.saving, "")
        reasons = list(solution.reasons)
    more = [option for option in options.values() if option.saving > chosen.saving + APART]
    less = [option for option in options.values() if option.saving < chosen.saving - APART]
    return Advice(
        chosen.schedule,
        chosen.saving,
        [*reasons, *setting.reasons],
        min(more, key=lambda option: option.saving, default=None),
        max(less, key=lambda option: option.saving, default=None),
        setting.steps,
        setting.q_max,
    )
